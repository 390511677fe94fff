//! `make bench-window`.

fn main() -> std::io::Result<()> {
    snin_benches::main(snin_benches::window::run)
}
