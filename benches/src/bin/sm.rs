//! `make bench-sm`.

fn main() -> std::io::Result<()> {
    snin_benches::main(snin_benches::sm::run)
}
