//! `make bench-reconfiguration`.

fn main() -> std::io::Result<()> {
    snin_benches::main(snin_benches::reconfiguration::run)
}
