//! Agents as package managers install them, for real: each is found where its manager put it, shown to a sandbox with all it
//! needs, and works there. `crates/harvest/src/programs/tests.rs` has the layouts of managers that cannot be had from a
//! registry of packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::agents::{add_agent, installed, succeeds};
use crate::support::{FIX, PATH, World};

const CODEX: &str = "@openai/codex@0.166.0";

/// `npm install`, with more arguments.
fn npm(prefix: &Path, args: &[&str]) {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]).arg(prefix).args(args);
    succeeds(npm.current_dir(prefix));
}

/// A manager that is itself a package of npm: the folder of its program.
fn manager(name: &str, package: &str) -> PathBuf {
    installed(name, |folder| npm(folder, &[package])).join("node_modules/.bin")
}

/// A manager that is itself a package of PyPI: its program.
fn python_manager(name: &str, package: &str, program: &str) -> PathBuf {
    crate::agents::python_package(name, package).join("bin").join(program)
}

/// Codex is found along the path with this folder in front, and mends the repository in a sandbox.
fn codex_works_from(bin: &Path) {
    let world = World::new();
    let path = format!("{}:{PATH}", bin.display());
    let listed = world.harvest(&["agent", "list", "--json"]).env("PATH", &path).finish();
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let codex = listed["items"].as_array().unwrap().iter().find(|agent| agent["id"] == "codex").unwrap().clone();
    assert_eq!(codex["installed"], true, "{codex:#}");
    let conversations = json!([
        { "when_prompt_contains": "failing test", "replies": [{ "shell": FIX }, { "say": "Done." }] },
        { "replies": [{ "say": "Yes." }] },
    ]);
    let script = world.path().join("script.json");
    std::fs::write(&script, json!({ "model": "gpt-5", "conversations": conversations }).to_string()).unwrap();
    let args = ["run", "Make the failing test pass", "--agent", "codex", "--json", "--model-script"];
    let ran = world.harvest(&args).args(&[&script]).env("PATH", &path).finish();
    let outcome = ran.assert_ended(0, "completed", None);
    assert_eq!(world.show(&format!("{}:src/two.sh", outcome["branch"].as_str().unwrap())), "echo two");
    world.assert_nothing_left();
}

#[test]
#[ignore = "needs the network"]
fn codex_of_npm_in_a_folder_of_its_own() {
    codex_works_from(&installed("codex-npm-local", |folder| npm(folder, &[CODEX])).join("node_modules/.bin"));
}

#[test]
#[ignore = "needs the network"]
fn codex_of_npm_for_all_work() {
    codex_works_from(&installed("codex-npm-global", |folder| npm(folder, &["--global", CODEX])).join("bin"));
}

#[test]
#[ignore = "needs the network"]
fn codex_of_pnpm() {
    // Version 10 has a store in each project, and later ones a store for all.
    for version in ["10.34.9", "12.18.0"] {
        let pnpm = manager(&format!("pnpm-{version}"), &format!("pnpm@{version}"));
        let folder = installed(&format!("codex-pnpm-{version}"), |folder| {
            let (home, bin) = (folder.join("pnpm"), folder.join("pnpm/bin"));
            let path = format!("{}:{}:{}:{PATH}", home.display(), bin.display(), pnpm.display());
            let mut add = Command::new(pnpm.join("pnpm"));
            add.args(["add", "--global", CODEX]).env("PNPM_HOME", &home).env("PATH", path);
            succeeds(add.current_dir(folder));
        });
        let home = folder.join("pnpm");
        codex_works_from(if home.join("bin/codex").exists() { home.join("bin") } else { home }.as_path());
    }
}

#[test]
#[ignore = "needs the network"]
fn codex_of_bun() {
    let bun = manager("bun-1.4.4", "bun@1.4.4");
    let folder = installed("codex-bun", |folder| {
        let mut add = Command::new(bun.join("bun"));
        succeeds(add.args(["add", "--global", CODEX]).env("BUN_INSTALL", folder).current_dir(folder));
    });
    codex_works_from(&folder.join("bin"));
}

#[test]
#[ignore = "needs the network"]
fn codex_of_yarn() {
    let yarn = manager("yarn-1.22.22", "yarn@1.22.22");
    let folder = installed("codex-yarn", |folder| {
        let mut add = Command::new(yarn.join("yarn"));
        add.args(["global", "add", CODEX, "--non-interactive", "--prefix"]).arg(folder.join("prefix"));
        add.arg("--global-folder").arg(folder.join("global")).arg("--cache-folder").arg(folder.join("cache"));
        succeeds(add.current_dir(folder));
        let _ = std::fs::remove_dir_all(folder.join("cache"));
    });
    codex_works_from(&folder.join("prefix/bin"));
}

#[test]
#[ignore = "needs the network"]
fn codex_of_mise() {
    let mise = manager("mise-2026.9.15", "@jdxcode/mise@2026.9.15");
    let folder = installed("codex-mise", |folder| {
        let mut add = Command::new(mise.join("mise"));
        add.args(["use", "--global", &format!("npm:{CODEX}")]);
        for (name, place) in [("DATA", "data"), ("CONFIG", "config"), ("CACHE", "cache"), ("STATE", "state")] {
            add.env(format!("MISE_{name}_DIR"), folder.join(place));
        }
        succeeds(add.env("MISE_NPM_PACKAGE_MANAGER", "npm").env("MISE_YES", "1").current_dir(folder));
    });
    codex_works_from(&folder.join("data/shims"));
}

/// A program of Python is found along the path with this folder in front, and starts in a sandbox.
fn python_program_starts_from(bin: &Path) {
    let world = World::new();
    let definition = "[[agent]]\nid = 'mine'\nname = 'A cow'\nproviders = ['openai']\ndialect = 'text'\nprompt = 'stdin'\n\
                      command = 'pycowsay'\narguments = ['I run.']\ninstall_hint = ''\n";
    add_agent(&world, definition);
    let run = world.run_with(&json!([{}]), &["--agent", "mine", "--test", "true"]);
    let ran = run.env("PATH", &format!("{}:{PATH}", bin.display())).finish();
    ran.assert_ended(0, "completed", None);
    let said: String =
        ran.of_type("message").iter().map(|message| message["text"].as_str().unwrap().to_owned()).collect();
    assert!(said.contains("I run."), "{said}");
    world.assert_nothing_left();
}

#[test]
#[ignore = "needs the network"]
fn a_program_of_pipx() {
    let pipx = python_manager("pipx-1.18.4", "pipx==1.18.4", "pipx");
    let folder = installed("pycowsay-pipx", |folder| {
        let mut add = Command::new(&pipx);
        add.args(["install", "pycowsay==0.0.0.2"]).env("PIPX_HOME", folder.join("pipx"));
        succeeds(add.env("PIPX_BIN_DIR", folder.join("bin")));
    });
    python_program_starts_from(&folder.join("bin"));
}

#[test]
#[ignore = "needs the network"]
fn a_program_of_uv() {
    let uv = python_manager("uv-0.13.7", "uv==0.13.7", "uv");
    let folder = installed("pycowsay-uv", |folder| {
        let mut add = Command::new(&uv);
        add.args(["tool", "install", "pycowsay==0.0.0.2"]).env("UV_TOOL_DIR", folder.join("tools"));
        succeeds(add.env("UV_TOOL_BIN_DIR", folder.join("bin")).env("UV_PYTHON_DOWNLOADS", "never"));
    });
    python_program_starts_from(&folder.join("bin"));
}
