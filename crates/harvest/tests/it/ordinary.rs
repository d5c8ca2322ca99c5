//! The same for an ordinary user, when the tests are run by root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;

use crate::support::{FIX, World, uid};

/// nobody: a uid that every system has and that owns nothing.
const NOBODY: u32 = 65534;

#[test]
fn an_ordinary_user_gets_a_verified_branch_too() {
    if uid() != 0 || !Path::new("/usr/bin/setpriv").exists() {
        return harvest_testing::skip("only root, with setpriv, can run it as someone else");
    }
    let world = World::new();
    let script = world.script(&json!([{ "shell": format!("{FIX} && id -u && cat /proc/self/uid_map") }, {}]));
    let program = world.path().join("harvest");
    // By another process: a child that another test starts meanwhile would hold the file open for writing, and so keep it busy.
    let copied = std::process::Command::new("cp").arg(env!("CARGO_BIN_EXE_harvest")).arg(&program).status().unwrap();
    assert!(copied.success());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    give(world.path());
    let as_nobody = |args: &[&str]| {
        let mut harvest = world.harvest::<&str>(&[]);
        let environment: Vec<_> =
            harvest.command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
        harvest.command = std::process::Command::new("/usr/bin/setpriv");
        harvest.command.env_clear().envs(environment).current_dir(world.repo());
        harvest.command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"]);
        harvest.command.arg(&program).arg("--data-dir").arg(world.data()).args(args);
        harvest.finish()
    };
    let ran = as_nobody(&["run", "Mend it", "--json", "--model-script", script.to_str().unwrap()]);
    let outcome = ran.assert_ended(0, "completed", None);
    assert!(outcome["branch"].is_string() && outcome["evidence"]["baseline"]["failed"] == 1, "{outcome:#}");
    let demo = as_nobody(&["demo", "--once"]);
    assert_eq!(demo.exit, Some(0), "{demo:?}");
    let doctor = as_nobody(&["doctor"]);
    assert_eq!(doctor.exit, Some(0), "{doctor:?}");
    world.assert_nothing_left();
}

fn give(path: &Path) {
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap().filter_map(Result::ok) {
            give(&entry.path());
        }
    }
}
