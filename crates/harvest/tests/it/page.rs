//! The page: its own tests, and people who use it in a real Chromium, against the real binary with scripted agents.
//!
//! They need what `web/` is built with and a browser; `make test` asks for them when both are there.

use std::path::Path;
use std::process::Command;

fn npm(script: &str) {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let mut npm = Command::new("npm");
    npm.current_dir(web).args(["run", "--silent", script]).env("HARVEST_BIN", env!("CARGO_BIN_EXE_harvest"));
    let ran = npm.output().unwrap();
    let said = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(ran.status.success(), "{said}");
}

#[test]
#[ignore = "needs the packages of the page"]
fn the_stream_loses_nothing_and_shows_strangers_text_harmlessly() {
    npm("test");
}

#[test]
#[ignore = "needs the packages of the page, and Chromium"]
fn people_use_the_page() {
    npm("e2e");
}
