//! `make bench-failover`.

fn main() -> std::io::Result<()> {
    snin_benches::main(snin_benches::failover::run)
}
