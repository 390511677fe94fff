//! `make bench-jobs`.

fn main() -> std::io::Result<()> {
    snin_benches::main(snin_benches::jobs::run)
}
