//! `make bench-bring-up`.

fn main() -> std::io::Result<()> {
    snin_benches::main(snin_benches::bring_up::run)
}
