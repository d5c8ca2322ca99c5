//! Checks and benchmarks of this repository: `cargo run -p xtask -- check`, `make bench`.
//!
//! The checks are ordinary tests as well, so that `cargo test` is enough to be told.

#[cfg(feature = "bench")]
mod bench;
mod count;
mod layers;
mod manifest;
mod named_tests;
mod tidy;
mod words;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo run -p xtask -- check
       cargo run -p xtask --release --features bench -- bench [--quick] [SUBJECT ...]
       subjects: sandbox, workspace, gateway, journal, queue, agents, parsers, warm, api, clone, recovery;
       without any it is all of them";

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((command, [])) if command == "check" => check(),
        #[cfg(feature = "bench")]
        Some((command, rest)) if command == "bench" => match bench::Options::parse(rest) {
            Some(options) => bench::run(&options),
            None => Ok(usage()),
        },
        // Started by the benchmark itself.
        #[cfg(feature = "bench")]
        Some((command, rest)) if command == "serve-gateway" => bench::serve_gateway(rest),
        _ => Ok(usage()),
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn check() -> anyhow::Result<ExitCode> {
    let packages = manifest::read_workspace()?;
    let mut faults = layers::faults(&packages);
    faults.extend(tidy::faults(&packages)?);
    faults.extend(words::faults(&packages)?);
    faults.extend(named_tests::faults()?);
    for fault in &faults {
        eprintln!("{fault}");
    }
    if faults.is_empty() {
        println!(
            "{} packages: dependency directions, source files and the tests that documents name are as they should be",
            packages.len()
        );
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}
