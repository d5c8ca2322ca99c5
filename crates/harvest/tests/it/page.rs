//! The page: its own tests, and people who use it in a real Chromium, against the real binary with scripted agents.
//!
//! They need what `web/` is built with and a browser; `make test` asks for them when both are there.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::journeys::{CLICK, NO_REGISTRIES, SHELL_QUOTE, registries_answer, unpack};
use crate::packages::settings;
use crate::support::World;

fn npm(script: &str) {
    npm_with(script, &[]);
}

fn npm_with(script: &str, variables: &[(&str, &OsStr)]) {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let mut npm = Command::new("npm");
    npm.current_dir(web).args(["run", "--silent", script]).env("HARVEST_BIN", env!("CARGO_BIN_EXE_harvest"));
    npm.envs(variables.iter().copied());
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

#[test]
#[ignore = "needs the packages of the page, Chromium and the network"]
fn people_change_projects_of_others_on_the_page() {
    if !registries_answer() {
        return harvest_testing::skip(NO_REGISTRIES);
    }
    let world = World::empty();
    let (_mirror, config) = settings(&world);
    let projects = world.path().join("projects");
    unpack(&config, "pypi", "click", CLICK, &projects.join("click"));
    unpack(&config, "npm", "shell-quote", SHELL_QUOTE, &projects.join("shell-quote"));
    let variables = [("HARVEST_JOURNEYS", projects.as_os_str()), ("HARVEST_JOURNEYS_CONFIG", config.as_ref())];
    npm_with("journeys", &variables);
}
