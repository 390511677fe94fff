//! `make bench-tables`.

fn main() -> std::io::Result<()> {
    snin_benches::main(snin_benches::tables::run)
}
