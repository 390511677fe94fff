//! `make bench-against REV=COMMIT`.

use std::process::ExitCode;

use snin_benches::against::{BENCHES, run};

/// `against REV [--rounds N] [--bench NAME,NAME] [ARGUMENT OF THE BENCHMARKS...]`
#[expect(clippy::disallowed_macros, reason = "a program tells its user")]
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut revision, mut rounds, mut benches) = (None, 3, BENCHES.map(str::to_owned).to_vec());
    let mut rest = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rounds" => rounds = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(0),
            "--bench" => {
                let names = arguments.next().unwrap_or_default();
                benches = names.split(',').map(str::to_owned).collect();
            }
            _ if revision.is_none() => revision = Some(argument),
            _ => rest.push(argument),
        }
    }
    let (Some(revision), 1..) = (revision.filter(|it| !it.is_empty()), rounds) else {
        eprintln!("against REV [--rounds N] [--bench sm,packing,administration,window] [--small]");
        return ExitCode::from(2);
    };
    match run(&revision, &benches, rounds, &rest) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("against: {error}");
            ExitCode::from(3)
        }
    }
}
