//! `make bench-packing`.

fn main() -> std::io::Result<()> {
    snin_benches::main(snin_benches::packing::run)
}
