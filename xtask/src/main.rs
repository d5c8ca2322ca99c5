//! Checks and benchmarks of this repository: `cargo run -p xtask -- check`, `make bench`.
//!
//! The checks are ordinary tests as well, so that `cargo test` is enough to be told.

#[cfg(feature = "bench")]
mod bench;
mod count;
mod layers;
mod manifest;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo run -p xtask -- check
       cargo run -p xtask --release --features bench -- bench [--quick]";

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => check(),
        #[cfg(feature = "bench")]
        ["bench"] => bench::run(bench::Size::Full),
        #[cfg(feature = "bench")]
        ["bench", "--quick"] => bench::run(bench::Size::Quick),
        _ => {
            eprintln!("{USAGE}");
            Ok(ExitCode::from(2))
        }
    }
}

fn check() -> anyhow::Result<ExitCode> {
    let packages = manifest::read_workspace()?;
    let mut faults = layers::faults(&packages);
    faults.extend(tidy::faults(&packages)?);
    for fault in &faults {
        eprintln!("{fault}");
    }
    if faults.is_empty() {
        println!("{} packages: dependency directions and source files are as they should be", packages.len());
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}
