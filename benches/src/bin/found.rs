//! `make bench-found`.

fn main() -> std::io::Result<()> {
    snin_benches::main(snin_benches::found::run)
}
