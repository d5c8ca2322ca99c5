//! Builds the programs that run inside sandboxes: static, small, with a profile and a target folder of their own.

#![allow(clippy::expect_used, clippy::panic, clippy::disallowed_methods, reason = "a build script reports by failing")]

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [&str; 2] = ["harvest-runner", "harvest-builtin"];

/// Made for the build around this one; they would change what is built here, or build all of it twice.
const FOREIGN: [&str; 8] = [
    "CARGO_ENCODED_RUSTFLAGS",
    "LLVM_PROFILE_FILE",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOC",
    "RUSTDOCFLAGS",
    "TARGET",
];
/// `CARGO_TARGET_` also names the linker of the build around this one: that of a release links against an older glibc and
/// cannot link the static programs.
const FOREIGN_PREFIXES: [&str; 7] = [
    "CARGO_BUILD_",
    "CARGO_CFG_",
    "CARGO_FEATURE_",
    "CARGO_MANIFEST_",
    "CARGO_PKG_",
    "CARGO_PROFILE_",
    "CARGO_TARGET_",
];

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let target = env::var("TARGET").expect("cargo sets it");
    let root = here.join("../..");
    for path in ["Cargo.lock", "Cargo.toml", "crates/builtin", "crates/link", "crates/runner"] {
        println!("cargo:rerun-if-changed={}", root.join(path).display());
    }
    // One folder for all profiles of the build around this one.
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("sandboxed");
    build(&root, &folder, &target);
    let mut digest = DefaultHasher::new();
    for program in PROGRAMS {
        let built = folder.join(&target).join("sandboxed").join(program);
        let bytes = fs::read(&built).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
        bytes.hash(&mut digest);
        fs::write(out.join(program), bytes).expect("the output folder is writable");
    }
    println!("cargo:rustc-env=HARVEST_SANDBOXED_DIGEST={:016x}", digest.finish());
}

fn build(root: &Path, folder: &Path, target: &str) {
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets it"));
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if FOREIGN.contains(&&*text) || FOREIGN_PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
            cargo.env_remove(&name);
        }
    }
    cargo.current_dir(root).env("RUSTFLAGS", "-C target-feature=+crt-static");
    cargo.args(["build", "--locked", "--profile", "sandboxed", "--target", target, "--target-dir"]).arg(folder);
    for program in PROGRAMS {
        cargo.args(["--package", program]);
    }
    let status = cargo.status().expect("cargo can be started");
    assert!(status.success(), "the programs for the sandbox could not be built");
}
