//! `make bench-emulator`.

fn main() -> std::io::Result<()> {
    snin_benches::main(snin_benches::emulator_mgmt::run)
}
