//! `make bench-verbs`. With a first argument it is a part of itself, in the virtual machine.

use std::process::ExitCode;

use snin_benches::verbs::{self, agents, turns};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["turns", size, rounds] => turns::take(size, rounds),
        ["answer", length] => agents::answer(length),
        ["ask", length, count] => agents::ask(length, count),
        _ => snin_benches::main(verbs::run).map_err(Into::into),
    };
    if let Err(error) = done {
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{error}\n"));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
