//! `make bench-emulator`: the data plane.

fn main() -> std::io::Result<()> {
    snin_benches::main(snin_benches::emulator_data::run)
}
