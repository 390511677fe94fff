//! `make bench-sa`.

fn main() -> std::io::Result<()> {
    snin_benches::main(snin_benches::administration::run)
}
