//! `harvest run`: from a failing test to a verified branch, and nothing else of the person's is touched.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{FIX, World, fingerprint, git, schema};

#[test]
fn a_failing_test_becomes_a_verified_branch() {
    let world = World::new();
    let base = world.head();
    let before = fingerprint(&world.repo());
    let ran = world.run(
        &json!([
            { "say": "I will look first.", "shell": "sh test.sh", "tokens": { "input": 1000, "output": 10 } },
            { "expect": "1 passed, 1 failed", "shell": format!("{FIX} && sh test.sh"), "tokens": { "input": 2000, "output": 20 } },
            { "expect": "exit code 0", "say": "It passes now.", "tokens": { "input": 3000, "output": 30 } },
        ]),
        &[],
    );
    let outcome = ran.assert_ended(0, "completed", None);
    assert_eq!(ran.stderr, "");
    assert_eq!(outcome["base"], base);
    let (branch, commit) = (outcome["branch"].as_str().unwrap(), outcome["commit"].as_str().unwrap());
    assert!(branch.starts_with("harvest/make-the-failing-test-pass-"), "{branch}");
    assert_eq!(git(&world.repo(), &["rev-parse", &format!("refs/heads/{branch}")]), commit);
    assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two");
    assert_eq!(git(&world.repo(), &["rev-list", "--count", &format!("{base}..{branch}")]), "1");
    let evidence = &outcome["evidence"];
    assert_eq!(evidence["commit"], commit);
    assert_eq!(evidence["command"], "sh test.sh");
    assert_eq!((&evidence["exit_code"], &evidence["passed"], &evidence["failed"]), (&json!(0), &json!(2), &json!(0)));
    assert_ne!(evidence["baseline"]["exit_code"], 0);
    assert_eq!((&evidence["baseline"]["passed"], &evidence["baseline"]["failed"]), (&json!(1), &json!(1)));
    assert_eq!(evidence["flags"], json!([]));
    assert_eq!(outcome["usage"]["input_tokens"], 6000);
    assert_eq!(outcome["usage"]["output_tokens"], 60);
    assert!((outcome["cost_usd"].as_f64().unwrap() - 6.06).abs() < 1e-9, "{outcome}");
    assert_only_a_branch_is_new(&before, &world.repo(), branch);
    world.assert_nothing_left();
}

#[test]
fn every_event_has_the_documented_shape() {
    let world = World::new();
    world.write("src/old.sh", "echo old\n");
    world.commit("Something to delete");
    fs::write(world.repo().join("src/one.sh"), "echo dirty\n").unwrap();
    let ran = world.run(
        &json!([
            { "say": "One moment please.", "shell": format!("{FIX} && rm src/old.sh"), "tokens": { "input": 1, "output": 1 } },
            { "say": "And a new file.", "write": { "path": "src/new.sh", "content": "echo new\n" } },
            { "delay": "4s", "shell": "echo 'echo newer' > src/new.sh" },
            { "say": "Done." },
        ]),
        &[],
    );
    ran.assert_ended(0, "completed", None);
    let mut schemas: BTreeMap<String, Value> = BTreeMap::new();
    for event in ran.events() {
        let kind = event["type"].as_str().unwrap().to_owned();
        let mut data = schema(&event["data"]);
        if kind == "tool.call" {
            data["input"] = json!("object");
        }
        if kind == "stage.finished" {
            data["result"] = json!("any");
        }
        if kind == "sandbox.ready" {
            let purpose = event["data"]["purpose"].as_str().unwrap();
            assert!(["execute", "baseline", "verify"].contains(&purpose), "{event}");
            assert!(["overlay", "reflink", "copy"].contains(&event["data"]["workspace"].as_str().unwrap()), "{event}");
        }
        if kind == "file.changed" {
            assert!(["added", "modified", "deleted"].contains(&event["data"]["change"].as_str().unwrap()), "{event}");
        }
        schemas.entry(kind).or_insert(data);
    }
    insta::assert_json_snapshot!(schemas);
    let purposes: Vec<_> = ran.of_type("sandbox.ready").iter().map(|data| data["purpose"].clone()).collect();
    assert_eq!(purposes.len(), 3, "{purposes:?}");
    let changes: Vec<String> = ran
        .of_type("file.changed")
        .iter()
        .map(|data| format!("{} {}", data["change"].as_str().unwrap(), data["path"].as_str().unwrap()))
        .collect();
    assert_eq!(changes, ["added src/new.sh", "deleted src/old.sh", "modified src/two.sh"]);
}

/// Deltas make up the message they come before, and every result has its call.
#[test]
fn deltas_add_up_to_messages_and_results_follow_their_calls() {
    let world = World::new();
    let said = "Several words, ünïcode and\na second line.";
    let ran = world.run(&json!([{ "say": said, "shell": [FIX, "cat src/two.sh"] }, { "say": "Fine." }]), &[]);
    ran.assert_ended(0, "completed", None);
    let (mut streamed, mut messages, mut open) = (String::new(), Vec::new(), Vec::new());
    for event in ran.events() {
        let data = &event["data"];
        match event["type"].as_str().unwrap() {
            "message.delta" => streamed.push_str(data["text"].as_str().unwrap()),
            "message" => {
                assert_eq!(data["text"], streamed);
                messages.push(std::mem::take(&mut streamed));
            }
            "tool.call" => open.push(data["id"].clone()),
            "tool.result" => {
                let call = open.iter().position(|id| *id == data["id"]).expect("a result without a call");
                open.remove(call);
            }
            _ => {}
        }
    }
    assert_eq!(messages, [said, "Fine."]);
    assert!(open.is_empty());
}

#[test]
fn a_dirty_checkout_is_warned_about_and_stays_as_it_is() {
    let world = World::new();
    world.write("src/two.sh", "echo half done\n");
    world.write("notes.txt", "mine\n");
    world.write("staged.txt", "staged\n");
    git(&world.repo(), &["add", "staged.txt"]);
    let before = fingerprint(&world.repo());
    let ran = world.run(&json!([{ "shell": format!("ls && {FIX}") }, { "say": "Done." }]), &[]);
    let outcome = ran.assert_ended(0, "completed", None);
    let warnings = ran.of_type("warning");
    assert!(
        warnings.iter().any(|data| data["message"].as_str().unwrap().contains("uncommitted changes")),
        "{warnings:?}"
    );
    assert!(!ran.tool_outputs()[0].contains("notes.txt"));
    assert_only_a_branch_is_new(&before, &world.repo(), outcome["branch"].as_str().unwrap());
}

/// A repository set up to notice and react to everything.
#[test]
fn nothing_in_the_persons_repository_runs_or_changes() {
    let world = World::new();
    let marker = world.path().join("ran");
    for hook in ["post-checkout", "reference-transaction", "post-merge", "pre-auto-gc", "post-index-change", "update"] {
        let path = world.repo().join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\ntouch '{}'\n", marker.display())).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    for (name, value) in [
        ("core.logAllRefUpdates", "always"),
        ("gc.auto", "1"),
        ("fetch.writeCommitGraph", "true"),
        ("fetch.prune", "true"),
        ("maintenance.auto", "true"),
    ] {
        git(&world.repo(), &["config", name, value]);
    }
    git(&world.repo(), &["tag", "--annotate", "--message", "one", "v1"]);
    fs::remove_file(&marker).expect("the hooks work");
    let before = fingerprint(&world.repo());
    let ran = world.run(&json!([{ "shell": format!("{FIX} && git commit -qam 'Mend two' && git tag mine") }, {}]), &[]);
    let outcome = ran.assert_ended(0, "completed", None);
    assert_only_a_branch_is_new(&before, &world.repo(), outcome["branch"].as_str().unwrap());
    assert!(!marker.exists(), "a hook ran");
    let subjects: Vec<_> = ran.of_type("commit.created").iter().map(|data| data["subject"].clone()).collect();
    assert_eq!(subjects, ["Mend two"]);
}

#[test]
fn work_starts_at_the_base_that_was_named() {
    let world = World::new();
    let old = world.head();
    git(&world.repo(), &["tag", "old"]);
    git(&world.repo(), &["branch", "side"]);
    world.write("later.txt", "later\n");
    world.commit("Later");
    for base in ["old", "side", &old, &old[..10], "HEAD~1", "refs/tags/old"] {
        let ran = world.run(&json!([{ "shell": "ls" }, {}]), &["--base", base, "--test", "true"]);
        let outcome = ran.assert_ended(0, "completed", None);
        assert_eq!(outcome["base"], old, "{base}");
        assert!(!ran.tool_outputs()[0].contains("later.txt"), "{base}");
    }
}

/// Modes, links, ignored files, odd names and big files go in and come out as they are.
#[test]
fn every_kind_of_file_survives_the_way() {
    let world = World::new();
    world.write("bin/tool", "#!/bin/sh\necho tool\n");
    fs::set_permissions(world.repo().join("bin/tool"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("bin/tool", world.repo().join("link")).unwrap();
    world.write(".gitignore", "*.log\n");
    world.write("ünï \"quoted\"\tname", "odd\n");
    world.write("crlf.txt", "a\r\nb\r\n");
    world.write("binary", [0u8, 255, 10, 13, 0]);
    world.commit("Every kind");
    let check = "./bin/tool && readlink link && cat 'ünï \"quoted\"\tname' && od -An -tx1 binary crlf.txt && git status --porcelain";
    let replies = json!([
        { "shell": check.replace("\\t", "\t") },
        { "shell": "echo x > a.log; mv bin/tool bin/moved; ln -s nowhere dangling; head -c 5000000 /dev/urandom > big; mkdir -p 'deep er/ü'; echo y > 'deep er/ü/y'; chmod +x src/one.sh" },
        {},
    ]);
    let ran = world.run(&replies, &["--test", "true"]);
    let outcome = ran.assert_ended(0, "completed", None);
    let seen = &ran.tool_outputs()[0];
    assert!(
        seen.contains("tool\nbin/tool\nodd\n") && seen.contains("00 ff 0a 0d 00") && seen.contains("0d 0a"),
        "{seen}"
    );
    assert!(seen.trim_end().ends_with("exit code 0") && !seen.contains(" M "), "{seen}");
    let branch = outcome["branch"].as_str().unwrap();
    let listed = git(&world.repo(), &["-c", "core.quotePath=false", "ls-tree", "-r", branch]);
    for line in ["100755 blob", "120000 blob"] {
        assert!(listed.contains(line), "{listed}");
    }
    for (mode, name) in [
        ("100755", "bin/moved"),
        ("120000", "dangling"),
        ("100644", "deep er/ü/y"),
        ("100755", "src/one.sh"),
        ("100644", "big"),
    ] {
        assert!(
            listed.lines().any(|line| line.starts_with(mode) && line.ends_with(&format!("\t{name}"))),
            "{name}: {listed}"
        );
    }
    assert!(!listed.contains("a.log") && !listed.contains("bin/tool"), "{listed}");
    git(&world.repo(), &["fsck", "--strict"]);
}

/// For people: readable, without colours when nobody looks, and with the next command to type.
#[test]
fn the_output_for_people() {
    let world = World::new();
    let script = world.script(&json!([
        { "say": "I will mend it.", "shell": FIX, "tokens": { "input": 1000, "output": 100 } },
        { "say": "Done." },
    ]));
    let ran = world.harvest(&["run", "Make the failing test pass", "--model-script"]).args(&[script]).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    // The two test runs go side by side, so either may be told first.
    let mut lines: Vec<&str> = ran.stdout.lines().collect();
    let first = lines.iter().position(|line| line.contains("tests at the")).unwrap();
    lines[first..first + 2].sort_by_key(|line| line.contains("result"));
    people(&world).bind(|| insta::assert_snapshot!(lines.join("\n")));
    // Without UTF-8 nothing but ASCII comes from Harvest itself.
    let world = World::new();
    let script = world.script(&json!([{ "shell": [FIX, "seq 50", "printf '%0300d'"] }, {}]));
    let ran = world.harvest(&["run", "Mend it", "--model-script"]).args(&[script]).env("LANG", "C").finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(ran.stdout.is_ascii(), "{}", ran.stdout);
}

/// Leaves out what differs from run to run.
pub fn people(world: &World) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    for (pattern, replacement) in [
        (world.path().to_str().unwrap(), "[WORLD]"),
        (r"-[0-9a-z]{8}\b", "-[ID]"),
        (r"(apply|diff|logs|show) [0-9a-z]{8}\b", "$1 [ID]"),
        (r"\b[0-9a-f]{40}\b", "[COMMIT]"),
        (r"\b[0-9a-f]{10}\b", "[COMMIT]"),
        (r"\b\d+(\.\d+)? m?s\b", "[TIME]"),
    ] {
        settings.add_filter(pattern, replacement);
    }
    settings
}

/// Besides new objects and the branch itself, every byte, mode and time is as before.
#[track_caller]
pub fn assert_only_a_branch_is_new(before: &BTreeMap<std::path::PathBuf, String>, repository: &Path, branch: &str) {
    let after = fingerprint(repository);
    let new = |path: &Path| {
        let text = path.to_str().unwrap();
        text.starts_with(".git/objects/")
            || text == format!(".git/refs/heads/{branch}")
            || text == ".git/refs/heads/harvest"
    };
    for (path, content) in before {
        assert_eq!(after.get(path), Some(content), "{} changed", path.display());
    }
    let unexpected: Vec<_> = after.keys().filter(|path| !before.contains_key(*path) && !new(path)).collect();
    assert!(unexpected.is_empty(), "new in the repository: {unexpected:?}");
}
