//! `make bench-election`.

fn main() -> std::io::Result<()> {
    snin_benches::main(snin_benches::election::run)
}
