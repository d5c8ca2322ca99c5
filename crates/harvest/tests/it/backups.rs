//! What a backup has, what it has not, and what a restored data directory does without it.

use serde_json::json;

use crate::support::{FIX, World};

#[test]
fn a_backup_has_no_keys_and_says_so_and_a_restored_directory_signs_with_no_other() {
    let world = World::new();
    let added = world.harvest(&["credential", "add", "anthropic", "--from-stdin"]).input("sk-ant-canary").finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
    let outcome = world.run(&json!([{ "shell": FIX }, {}]), &[]).assert_ended(0, "completed", None);
    let task = outcome["task_id"].as_str().unwrap();
    let signed = world.json(&["evidence", "export", task]);
    let path = |name: &str| world.path().join(name).to_str().unwrap().to_owned();
    let saved = world.harvest(&["backup", &path("b.tar")]).finish();
    let says = "note: a backup has no keys; keep a copy of master.key and evidence.key of ";
    assert!(saved.exit == Some(0) && saved.stderr.starts_with(says), "{saved:?}");
    let tar = std::fs::read(path("b.tar")).unwrap();
    for key in ["master.key", "evidence.key"] {
        let key = std::fs::read(world.data().join(key)).unwrap();
        assert!(!tar.windows(key.len()).any(|part| part == key));
    }

    let new = path("restored");
    let at = |args: &[&str]| world.harvest(&[args, &["--data-dir", &new]].concat()).finish();
    let restored = at(&["restore", &path("b.tar")]);
    let says = format!("note: a backup has no keys; copy master.key and evidence.key of {} into ", path("data"));
    assert!(restored.exit == Some(0) && restored.stderr.starts_with(&says), "{restored:?}");
    let refused = at(&["evidence", "export", task]);
    assert_eq!(refused.exit, Some(2), "{refused:?}");
    let key = signed["signatures"][0]["keyid"].as_str().unwrap();
    let says = format!("the key that signs evidence is missing; its public half is {key}");
    assert!(refused.stderr.contains(&says) && refused.stderr.contains("copy evidence.key"), "{refused:?}");
    assert!(!world.path().join("restored/evidence.key").exists());
    // Other commands work, and say what to do about the credentials.
    let listed = at(&["task", "list"]);
    let says = "put the master key of these credentials there";
    assert!(listed.exit == Some(0) && listed.stderr.contains(says), "{listed:?}");

    for key in ["master.key", "evidence.key"] {
        std::fs::copy(world.data().join(key), world.path().join("restored").join(key)).unwrap();
    }
    let again = at(&["evidence", "export", task]);
    assert_eq!((again.exit, again.stderr.as_str()), (Some(0), ""), "{again:?}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&again.stdout).unwrap(), signed);
}

#[test]
fn the_note_about_keys_names_what_is_lost_without_those_that_exist() {
    let world = World::new();
    let backup = |name: &str| world.harvest(&["backup", world.path().join(name).to_str().unwrap()]).finish().stderr;
    world.json(&["evidence", "key"]);
    let note = backup("evidence.tar");
    assert!(
        note.contains("keep a copy of evidence.key of ") && note.contains(": without it evidence cannot be signed"),
        "{note}"
    );
    assert!(!note.contains("credentials"), "{note}");
    world.harvest(&["credential", "add", "anthropic", "--from-stdin"]).input("sk-ant-canary").finish();
    let note = backup("both.tar");
    assert!(note.contains("without them credentials cannot be decrypted and evidence cannot be signed"), "{note}");
}

#[test]
fn a_file_that_is_no_backup_is_refused_and_not_quoted() {
    let world = World::new();
    let file = world.path().join("notes.txt");
    std::fs::write(&file, "the combination of the safe is 4711\n".repeat(100)).unwrap();
    let refused = world.harvest_at(&world.path().join("new"), &["restore", file.to_str().unwrap()]).finish();
    assert!(refused.exit == Some(2) && refused.stderr.starts_with("error[HV-0321]"), "{refused:?}");
    assert!(refused.stderr.contains("it is not a backup, or was cut short"), "{refused:?}");
    assert!(!refused.stderr.contains("4711"), "{refused:?}");
}
