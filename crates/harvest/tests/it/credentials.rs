//! Secrets go into the vault and come out nowhere.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use harvest_engine::failpoint;
use serde_json::Value;

use crate::support::World;

const KEY: &str = "sk-ant-api03-canary-0123456789-wxyz";

fn add(world: &World, name: &str, key: &str) -> Value {
    let added = world
        .harvest(&["credential", "add", "anthropic", "--name", name, "--from-stdin", "--json"])
        .input(key)
        .finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    serde_json::from_str(&added.stdout).unwrap()
}

/// For a host of its own.
pub fn add_at(world: &World, name: &str, key: &str, address: &str) {
    let args = ["credential", "add", "anthropic", "--name", name, "--base-url", address, "--from-stdin"];
    let added = world.harvest(&args).input(key).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
}

pub fn list(world: &World) -> Vec<Value> {
    let listed = world.harvest(&["credential", "list", "--json"]).finish();
    assert_eq!(listed.exit, Some(0), "{listed:?}");
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    listed["items"].as_array().unwrap().clone()
}

/// Every file below that has these bytes in it.
pub fn holding(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    // An ordinary user may not look into all folders of their own as they are: an overlay's is closed.
    crate::secret_scan::make_readable(folder, &fs::symlink_metadata(folder).unwrap());
    for entry in fs::read_dir(folder).unwrap().filter_map(Result::ok) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(holding(&path, bytes));
        } else if fs::read(&path).is_ok_and(|content| content.windows(bytes.len()).any(|window| window == bytes)) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn a_secret_goes_in_and_never_comes_out() {
    let world = World::empty();
    let added = add(&world, "default", KEY);
    assert_eq!((added["last4"].as_str(), added["provider"].as_str()), (Some("wxyz"), Some("anthropic")));
    let listed = list(&world);
    assert_eq!((listed.len(), listed[0]["usable"].as_bool()), (1, Some(true)));
    assert!(!listed[0].to_string().contains("canary"));
    let key = fs::metadata(world.data().join("master.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    assert_eq!(holding(&world.data(), b"canary"), Vec::<String>::new());
    let id = added["id"].as_str().unwrap();
    let rotated = world
        .harvest(&["credential", "rotate", &id[..6], "--from-stdin", "--json"])
        .input("sk-new-0123456789-9876")
        .finish();
    assert_eq!(rotated.exit, Some(0), "{rotated:?}");
    assert_eq!(list(&world)[0]["last4"], "9876");
    assert_eq!(world.harvest(&["credential", "remove", id]).finish().exit, Some(0));
    assert_eq!(list(&world), Vec::<Value>::new());
}

#[test]
fn bad_secrets_names_and_scopes_are_refused_and_change_nothing() {
    let world = World::empty();
    add(&world, "default", KEY);
    let refused = |args: &[&str], input: &str, code: &str| {
        let ran = world.harvest(args).input(input).finish();
        assert_eq!(ran.exit, Some(2), "{args:?}: {ran:?}");
        assert!(ran.stderr.starts_with(&format!("error[{code}]:")), "{args:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("canary"), "{}", ran.stderr);
    };
    let add = ["credential", "add", "anthropic", "--from-stdin"];
    refused(&add, KEY, "HV-0341");
    refused(&add, " \n", "HV-0344");
    refused(&add, "two canary\nlines", "HV-0344");
    refused(&["credential", "add", "anthropic"], KEY, "HV-0344");
    let piped = world.harvest(&["credential", "add", "anthropic"]).input(KEY).finish();
    let said = "error[HV-0344]: standard input is not a terminal: pass the secret with --from-stdin\n";
    assert!(piped.stderr.starts_with(said), "{piped:?}");
    refused(&["credential", "add", "anthropic", "--scope", "everyone", "--from-stdin"], KEY, "HV-0141");
    refused(&["credential", "add", "nobody", "--from-stdin"], KEY, "HV-0141");
    refused(&["credential", "rotate", "zzzz", "--from-stdin"], KEY, "HV-0342");
    refused(&["credential", "remove", "zzzz"], "", "HV-0342");
    assert_eq!(list(&world).len(), 1);
}

/// Names that hold a key are refused now; they were not always.
#[test]
fn a_new_secret_for_a_credential_whose_name_holds_another_key_is_refused_with_that_reason() {
    let world = World::empty();
    let added = add(&world, "default", KEY);
    let id = &added["id"].as_str().unwrap()[..8];
    let name = format!("ghp_{}", "A1b2C3d4E5f6".repeat(3));
    let database = rusqlite::Connection::open(world.data().join("harvest.db")).unwrap();
    database.execute("UPDATE credentials SET name = ?1", [&name]).unwrap();
    let secret = "sk-ant-api03-fresh-0123456789-4321";
    let ran = world.harvest(&["credential", "rotate", id, "--from-stdin"]).input(secret).finish();
    assert!(
        ran.exit == Some(2) && ran.stderr.contains("error[HV-0344]: the credential's name contains a key"),
        "{ran:?}"
    );
    assert!(!ran.stderr.contains("the secret appears") && !ran.stderr.contains(&name), "{ran:?}");
    assert!(ran.stderr.contains(&format!("harvest credential remove {id}")), "{ran:?}");
}

#[test]
fn a_lost_master_key_is_told_and_nothing_else_breaks() {
    let world = World::empty();
    add(&world, "default", KEY);
    fs::remove_file(world.data().join("master.key")).unwrap();
    let listed = world.harvest(&["credential", "list", "--json"]).finish();
    assert_eq!(listed.exit, Some(0), "{listed:?}");
    assert!(listed.stderr.contains("HV-0343"), "{}", listed.stderr);
    assert_eq!(world.harvest(&["task", "list"]).finish().exit, Some(0));
}

#[test]
fn the_master_key_may_come_from_a_file_or_a_command() {
    let world = World::empty();
    let key = world.path().join("given.key");
    fs::write(&key, "first QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=\n").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let harvest = |args: &[&str], name: &str, value: &str, input: &str| {
        let ran = world.harvest(args).env(name, value).input(input).finish();
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        ran.stdout
    };
    let file = key.display().to_string();
    harvest(&["credential", "add", "openai", "--from-stdin"], "HARVEST_MASTER_KEY_FILE", &file, KEY);
    assert!(!world.data().join("master.key").exists());
    let told = harvest(&["credential", "list", "--json"], "HARVEST_MASTER_KEY_COMMAND", &format!("cat '{file}'"), "");
    assert!(told.contains("\"usable\":true"), "{told}");
    // The operator puts a new key before the old one; everything is sealed with it.
    fs::write(
        &key,
        "second QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=\nfirst QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=\n",
    )
    .unwrap();
    let told = harvest(&["credential", "rotate", "--master-key", "--json"], "HARVEST_MASTER_KEY_FILE", &file, "");
    assert_eq!(told.trim(), "{\"resealed\":1}");
    fs::write(&key, "second QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=\n").unwrap();
    let told = harvest(&["credential", "list", "--json"], "HARVEST_MASTER_KEY_FILE", &file, "");
    assert!(told.contains("\"usable\":true"), "{told}");
}

#[test]
fn a_crash_anywhere_in_a_change_of_the_master_key_loses_nothing() {
    for place in failpoint::ROTATION {
        let world = World::empty();
        for name in ["default", "second", "third"] {
            add(&world, name, &format!("{KEY}-{name}"));
        }
        let before = fs::read(world.data().join("master.key")).unwrap();
        let crash = format!("{place}=return(crash)");
        let ran = world.harvest(&["credential", "rotate", "--master-key"]).env("HARVEST_FAILPOINTS", &crash).finish();
        assert_eq!(ran.status.signal(), Some(6), "{place}: {ran:?}");
        let usable = |world: &World| list(world).iter().filter(|one| one["usable"] == true).count();
        assert_eq!(usable(&world), 3, "{place}");
        // The next one finishes it, and then the old key is gone.
        let ran = world.harvest(&["credential", "rotate", "--master-key", "--json"]).finish();
        assert_eq!(ran.exit, Some(0), "{place}: {ran:?}");
        assert_eq!(usable(&world), 3, "{place}");
        let after = fs::read_to_string(world.data().join("master.key")).unwrap();
        assert_eq!(after.lines().count(), 1, "{place}");
        assert!(!before.starts_with(after.as_bytes()), "{place}: the key is a new one");
        assert_eq!(holding(&world.data(), b"canary"), Vec::<String>::new(), "{place}");
    }
}
