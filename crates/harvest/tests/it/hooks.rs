//! Commands around an agent's work: where they run, what they may stop, and the one that keeps keys in.

use std::fs;

use serde_json::{Value, json};

use crate::support::{FIX, World, git};

fn hooks(world: &World, hooks: &[&str]) {
    let file = world.home().join(".config/harvest/harvest.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, format!("hooks = {}", json!(hooks))).unwrap();
}

#[test]
fn hooks_run_in_their_places_and_are_journaled() {
    let world = World::new();
    let all = [
        "before_execute: pwd && echo prepared > prepared.txt",
        "after_execute: printf '# formatted\\n' >> src/two.sh",
        "after_execute?: echo never mind >&2; exit 3",
        "before_verify: grep -q two src/two.sh",
        "after_verify: git log -1 --format=%s",
        "before_deliver: test -z \"$(git status --porcelain)\" && cat src/two.sh && ! test -e /tmp/left",
        "after_deliver: echo $BRANCH",
    ];
    hooks(&world, &all);
    let replies = json!([{ "shell": format!("cat prepared.txt && touch /tmp/left && {FIX}") }, {}]);
    let ran = world.run(&replies, &[]);
    let outcome = ran.assert_ended(0, "completed", None);
    assert!(ran.tool_outputs()[0].starts_with("prepared"), "{:?}", ran.tool_outputs());
    let finished = ran.of_type("hook.finished");
    let told: Vec<(&str, i64)> =
        finished.iter().map(|data| (data["stage"].as_str().unwrap(), data["exit_code"].as_i64().unwrap())).collect();
    let expected = [
        ("before_execute", 0),
        ("after_execute", 0),
        ("after_execute", 3),
        ("before_verify", 0),
        ("after_verify", 0),
        ("before_deliver", 0),
        ("after_deliver", 0),
    ];
    assert_eq!(told, expected);
    assert_eq!((&finished[2]["required"], &finished[2]["output_tail"]), (&json!(false), &json!("never mind\n")));
    let branch = outcome["branch"].as_str().unwrap();
    assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two\n# formatted");
    world.assert_nothing_left();
}

#[test]
fn a_required_hook_that_fails_ends_the_turn() {
    for (hook, agent_ran, delivered) in [
        ("before_execute: echo no >&2; exit 9", false, false),
        ("after_execute: exit 9", true, true),
        ("before_verify: exit 9", true, true),
        ("after_verify: exit 9", true, true),
        ("before_deliver: exit 9", true, false),
        ("after_deliver: exit 9", true, true),
    ] {
        let world = World::new();
        hooks(&world, &[hook]);
        let ran = world.run(&json!([{ "shell": FIX }, {}]), &[]);
        let outcome = ran.assert_ended(1, "failed", Some("hook"));
        assert!(ran.stderr.starts_with("error[HV-0411]:"), "{}", ran.stderr);
        let error = outcome["error"].as_str().unwrap();
        let (stage, run) = hook.split_once(": ").unwrap();
        assert!(error.starts_with(&format!("the {stage} hook `{run}` ")), "{error}");
        assert!(error.contains("with exit code 9"), "{error}");
        assert_eq!(!ran.of_type("agent.started").is_empty(), agent_ran, "{hook}");
        assert_eq!(outcome["branch"].is_string(), delivered, "{hook}");
        assert_eq!(world.show("HEAD:src/two.sh"), "echo three");
        world.assert_nothing_left();
    }
}

#[test]
fn a_refused_delivery_is_told_with_the_hook_its_output_and_where_the_work_is() {
    // Tests that fail do not hide it.
    let breaks = format!("{FIX}; echo 'exit 1' > src/one.sh");
    for (work, reason, first) in [(FIX, "hook", "the before_deliver hook"), (&breaks, "tests", "`sh test.sh`")] {
        let world = World::new();
        hooks(&world, &["before_deliver: echo checking; echo licence missing in two.sh; exit 9"]);
        let script = world.script(&json!([{ "shell": work }, {}]));
        let ran = world.harvest(&["run", "Fix it", "--model-script", script.to_str().unwrap()]).finish();
        assert_eq!(ran.exit, Some(1), "{ran:?}");
        let task = world.tasks().remove(0);
        let id = &task["id"].as_str().unwrap()[..8];
        let error = task["error"].as_str().unwrap();
        assert_eq!(task["reason"], reason, "{error}");
        assert!(error.starts_with(first), "{error}");
        let told = "refused the delivery with exit code 9: checking / licence missing in two.sh; the work is kept in \
                    Harvest: harvest task diff";
        assert!(error.contains(told), "{error}");
        let words = |arguments: &[&str]| world.harvest(arguments).finish().stdout;
        let show = words(&["task", "show", id]);
        assert!(show.contains("licence missing in two.sh") && show.contains("harvest task diff"), "{show}");
        assert!(show.contains("none: the work is kept in Harvest"), "{show}");
        let logs = words(&["task", "logs", id]);
        assert!(logs.contains("(exit code 9)\n    checking\n    licence missing in two.sh"), "{logs}");
        assert!(logs.contains("warning: the delivery was refused; the work is kept in Harvest"), "{logs}");
        assert!(words(&["task", "list"]).contains("not delivered"));
        assert!(words(&["session", "show", id]).contains("(not delivered; the work is kept in Harvest)"));
        assert!(words(&["task", "diff", id]).contains("+echo two"));
        let apply = world.harvest(&["task", "apply", id]).finish();
        assert!(apply.stderr.contains("its work was not delivered: "), "{apply:?}");
        for shown in [&ran.stdout, &show, &logs, &apply.stderr] {
            assert!(!shown.contains("no changes"), "{shown}");
        }
        world.assert_nothing_left();
    }
}

#[test]
fn a_follow_up_whose_delivery_is_refused_leaves_the_branch_as_it_was() {
    let world = World::new();
    hooks(&world, &["before_deliver: ! test -e NOTES"]);
    let first = world.run(&json!([{ "shell": FIX }, {}]), &[]).assert_ended(0, "completed", None);
    let (id, branch) = (first["task_id"].as_str().unwrap(), first["branch"].as_str().unwrap());
    world.json(&["session", "prompt", id, "Now write it down"]);
    world.work_off(&[("write it down", json!([{ "shell": "cat src/two.sh > NOTES" }, {}]))]);
    let shown = world.json(&["task", "show", id]);
    let error = shown["error"].as_str().unwrap();
    assert_eq!((&shown["status"], &shown["reason"]), (&json!("failed"), &json!("hook")), "{shown:#}");
    assert!(error.contains("refused the delivery with exit code 1 and no output"), "{error}");
    assert!(error.contains(&format!("branch {branch} is unchanged; the work is kept in Harvest")), "{error}");
    assert_eq!(git(&world.repo(), &["rev-parse", branch]), first["commit"].as_str().unwrap());
    assert!(world.harvest(&["task", "diff", id]).finish().stdout.contains("NOTES"));
}

/// Put together here, so that it is not found in the script of the model.
const KEY: &str = "printf 'key = \"ghp_%s\"\\n' 0123456789abcdefghijABCDEFGHIJ012345";

#[test]
fn a_key_is_not_delivered() {
    for (commands, place) in [
        (format!("{FIX}; {KEY} > config.toml"), "config.toml:1"),
        // Taken back, and yet in the history.
        (
            format!("{FIX}; {KEY} > a.txt; git add -A; git commit -qm Add; git rm -q a.txt; git commit -qm Remove"),
            "a.txt:1",
        ),
        (format!("{FIX}; echo '* binary' > .gitattributes; (echo; {KEY}) > b.bin"), "b.bin:2"),
        (format!("{FIX}; echo '-----BEGIN OPENSSH PRIVATE'\\ 'KEY-----' > id"), "id:1"),
        (format!("{FIX}; git commit -qam \"Mend it, tried with $({KEY})\""), "the message or author"),
        (format!("{FIX}; touch \"$({KEY} | cut -d '\"' -f 2)\""), "the name of a file"),
    ] {
        let world = World::new();
        hooks(&world, &["before_deliver: secret-scan"]);
        let ran = world.run(&json!([{ "shell": commands }, {}]), &[]);
        let outcome = ran.assert_ended(1, "failed", Some("hook"));
        let error = outcome["error"].as_str().unwrap();
        let told = "the before_deliver hook `secret-scan` refused the delivery: the commits contain a key";
        assert!(error.starts_with(&format!("{told}: {place} in ")), "{error}");
        assert!(error.contains("; the work is kept in Harvest: harvest task diff "), "{error}");
        assert_eq!(outcome["branch"], Value::Null);
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("ghp_0123"), "{}", ran.stdout);
        let branches = git(&world.repo(), &["branch", "--list", "harvest/*"]);
        assert_eq!(branches, "", "nothing was published");
    }
    let world = World::new();
    hooks(&world, &["before_deliver: secret-scan"]);
    let ran = world.run(&json!([{ "shell": FIX }, {}]), &[]);
    assert!(ran.assert_ended(0, "completed", None)["branch"].is_string());
    assert_eq!(ran.of_type("hook.finished")[0]["exit_code"], 0);
}

#[test]
fn what_is_dangerous_is_told_by_file_line_and_reason() {
    let world = World::new();
    hooks(&world, &["before_deliver: security-lint"]);
    let dangerous = format!("{FIX}; printf 'import os\\nos.system(command)\\n' > run.py");
    let ran = world.run(&json!([{ "shell": dangerous }, {}]), &[]);
    let outcome = ran.assert_ended(1, "failed", Some("hook"));
    let error = outcome["error"].as_str().unwrap();
    let told = "the before_deliver hook `security-lint` refused the delivery: the changes are dangerous";
    assert!(error.starts_with(&format!("{told}: run.py:2: the shell interprets")), "{error}");
    assert_eq!(outcome["branch"], Value::Null);
    // Told, and left to people.
    hooks(&world, &["after_verify?: security-lint"]);
    let ran = world.run(&json!([{ "shell": dangerous }, {}]), &[]);
    assert!(ran.assert_ended(0, "completed", None)["branch"].is_string());
    assert_eq!(ran.of_type("hook.finished")[0]["exit_code"], 1);
    assert_eq!(world.run(&json!([{ "shell": FIX }, {}]), &[]).of_type("hook.finished")[0]["exit_code"], 0);
}

#[test]
fn hooks_that_make_no_sense_are_refused() {
    let world = World::new();
    for wrong in [
        "sometimes: true",
        "after_execute:",
        "after_execute: secret-scan",
        "after_deliver: security-lint",
        "make format",
    ] {
        hooks(&world, &[wrong]);
        let ran = world.harvest(&["config", "show"]).finish();
        assert_eq!(ran.exit, Some(2), "{wrong}");
        assert!(
            ran.stderr.contains("stages are before_execute, after_execute, before_verify, after_verify"),
            "{}",
            ran.stderr
        );
    }
}
