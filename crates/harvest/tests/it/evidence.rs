//! What the evidence says, and who cannot be fooled by whom.

use serde_json::json;

use crate::support::{FIX, World, git};

#[test]
fn a_change_that_breaks_the_tests_fails_and_is_kept() {
    let world = World::new();
    let ran = world.run(&json!([{ "shell": "echo 'echo broken' > src/one.sh" }, { "say": "All tests pass!" }]), &[]);
    let outcome = ran.assert_ended(1, "failed", Some("tests"));
    assert_eq!(outcome["evidence"]["exit_code"], 1);
    assert_eq!((&outcome["evidence"]["passed"], &outcome["evidence"]["failed"]), (&json!(0), &json!(2)));
    assert!(ran.stderr.starts_with("error[HV-0407]:"), "{}", ran.stderr);
    let branch = outcome["branch"].as_str().unwrap();
    assert_eq!(world.show(&format!("{branch}:src/one.sh")), "echo broken");
    world.assert_nothing_left();
}

#[test]
fn a_spent_budget_stops_and_keeps_the_work() {
    let world = World::new();
    let ran = world.run(
        &json!([{ "shell": FIX }, { "shell": "true", "tokens": { "input": 100 } }, { "shell": "touch never" }]),
        &["--budget-usd", "0.001"],
    );
    let outcome = ran.assert_ended(3, "failed", Some("budget"));
    assert!(outcome["cost_usd"].as_f64().unwrap() <= 0.001, "{outcome:#}");
    assert!(ran.stderr.starts_with("error[HV-0401]:"), "{}", ran.stderr);
    assert_eq!(world.show(&format!("{}:src/two.sh", outcome["branch"].as_str().unwrap())), "echo two");
    assert_eq!(ran.of_type("usage").len(), 1, "the request that would go beyond the budget is not sent");
    world.assert_nothing_left();
}

#[test]
fn a_budget_reached_exactly_by_the_last_reply_stops_too() {
    let world = World::new();
    for _ in 0..3 {
        let replies = json!([{ "shell": FIX }, { "say": "Done.", "tokens": { "output": 1 } }]);
        let outcome = world.run(&replies, &["--budget-usd", "0.001"]).assert_ended(3, "failed", Some("budget"));
        assert_eq!(outcome["cost_usd"], 0.001);
        assert!(outcome["branch"].is_string());
    }
    let replies = json!([{ "shell": FIX }, { "say": "Done.", "tokens": { "output": 1 } }]);
    world.run(&replies, &["--budget-usd", "0.0011"]).assert_ended(0, "completed", None);
}

/// Whatever the agent does to the file that the command names, the base's version runs.
#[test]
fn a_rewritten_test_command_is_not_used() {
    let green = "printf 'echo 2 passed, 0 failed\\n'";
    for trick in [
        format!("{green} > test.sh"),
        "rm test.sh && mkdir test.sh && touch test.sh/x".to_owned(),
        format!("rm test.sh && {green} > fake.sh && ln -s fake.sh test.sh"),
        "rm test.sh".to_owned(),
        format!("{green} > test.sh && git commit -qam x && git update-index --assume-unchanged test.sh"),
    ] {
        let world = World::new();
        let ran = world.run(&json!([{ "shell": trick }, {}]), &[]);
        let outcome = ran.outcome();
        assert_eq!((ran.exit, outcome["status"].as_str()), (Some(1), Some("failed")), "{trick}: {outcome:#}");
        if outcome["reason"] == "tests" {
            assert!(has_flag(&outcome, "test_command_changed"), "{trick}: {outcome:#}");
            assert_ne!(outcome["evidence"]["exit_code"], 0, "{trick}: {outcome:#}");
        }
        world.assert_nothing_left();
    }
}

/// The work passes the base's tests, and with it goes a command that runs fewer of them from now on.
#[test]
fn work_that_leaves_a_command_with_fewer_tests_behind_is_not_verified() {
    for command in ["exit 0", "echo 1 passed, 0 failed"] {
        let world = World::new();
        let shell = format!("{FIX} && printf '{command}\\n' > test.sh");
        let ran = world.run(&json!([{ "shell": shell }, {}]), &[]);
        let outcome = ran.outcome();
        assert_eq!((ran.exit, outcome["reason"].as_str()), (Some(1), Some("tests")), "{command}: {outcome:#}");
        assert!(has_flag(&outcome, "fewer_tests") && has_flag(&outcome, "test_command_changed"), "{outcome:#}");
        world.assert_nothing_left();
    }
}

#[test]
fn an_honest_fix_beside_a_changed_test_command_counts_and_is_flagged() {
    let world = World::new();
    let replies = json!([{ "shell": format!("{FIX} && printf '# tidied\\n' >> test.sh") }, {}]);
    let outcome = world.run(&replies, &[]).assert_ended(0, "completed", None);
    assert!(has_flag(&outcome, "test_command_changed"), "{outcome:#}");
    assert_eq!(outcome["evidence"]["passed"], 2);
}

#[test]
fn the_command_is_followed_into_folders_and_makefiles() {
    let makefile = "test:\n\t@sh run.sh\n";
    for (command, trick) in [
        ("cd sub && sh check.sh", "echo 'exit 0' > sub/check.sh"),
        ("make -s test", "printf 'test:\\n\\t@true\\n' > Makefile"),
        ("make -s test", "printf 'test:\\n\\t@true\\n' > GNUmakefile"),
        ("make -s -C sub test", "printf 'test:\\n\\t@true\\n' > sub/Makefile"),
        ("sh ./sub/check.sh", "echo 'exit 0' > sub/check.sh"),
        ("sh sub/check.sh", "mkdir x && echo 'exit 0' > x/check.sh && rm -r sub && ln -s x sub"),
    ] {
        let world = World::new();
        for (name, content) in [
            ("Makefile", makefile),
            ("sub/Makefile", makefile),
            ("run.sh", "exit 1\n"),
            ("sub/run.sh", "exit 1\n"),
            ("sub/check.sh", "exit 1\n"),
        ] {
            world.write(name, content);
        }
        world.commit("Checks");
        let ran = world.run(&json!([{ "shell": trick }, {}]), &["--test", command]);
        let outcome = ran.outcome();
        assert_eq!(
            (ran.exit, outcome["status"].as_str()),
            (Some(1), Some("failed")),
            "{command}, {trick}: {outcome:#}"
        );
        if outcome["reason"] == "tests" {
            assert!(has_flag(&outcome, "test_command_changed"), "{command}, {trick}: {outcome:#}");
        }
    }
}

#[test]
fn green_with_fewer_or_no_tests_proves_nothing() {
    for (trick, flag) in [
        ("rm tests/two.sh", "tests_deleted"),
        ("git mv tests/two.sh tests/two.txt", "fewer_tests"),
        ("rm -r tests && mkdir tests && echo true > tests/one.sh", "fewer_tests"),
    ] {
        let world = World::new();
        let ran = world.run(&json!([{ "shell": trick }, { "say": "All green." }]), &[]);
        let outcome = ran.assert_ended(1, "failed", Some("tests"));
        assert!(has_flag(&outcome, flag), "{trick}: {outcome:#}");
        assert_eq!(outcome["evidence"]["exit_code"], 0, "{trick}");
        assert!(outcome["error"].as_str().unwrap().contains("proves nothing"), "{outcome:#}");
    }
}

#[test]
fn an_edited_test_is_told_about() {
    let world = World::new();
    let outcome = world.run(&json!([{ "shell": "echo true > tests/two.sh" }, {}]), &[]).outcome();
    assert!(has_flag(&outcome, "tests_changed"), "{outcome:#}");
    assert_eq!(outcome["evidence"]["changed"]["tests"], json!(["tests/two.sh"]));
}

#[test]
fn an_edited_test_is_told_wherever_a_result_is_called_verified() {
    let world = World::new();
    let script = world.script(&json!([{ "shell": "echo true > tests/two.sh" }, {}]));
    let ran = world.harvest(&["run", "Fix it", "--model-script", script.to_str().unwrap()]).finish();
    assert!(ran.stdout.contains("completed and verified, tests edited"), "{ran:?}");
    let list = world.harvest(&["task", "list"]).finish().stdout;
    assert!(list.contains("completed, verified, tests edited"), "{list}");
    let id = world.tasks()[0]["id"].as_str().unwrap().to_owned();
    let show = world.harvest(&["task", "show", &id]).finish().stdout;
    assert!(show.contains("verified, tests edited"), "{show}");
    world.json(&["task", "add", "Fix it"]);
    let up = world.harvest(&["up", "--until-empty", "--model-script", script.to_str().unwrap()]).finish();
    assert!(up.stdout.contains("completed, verified, tests edited"), "{up:?}");
}

#[test]
fn an_edited_helper_of_the_test_runner_is_told_about() {
    let world = World::new();
    world.write("lib.sh", "check() { sh \"$1\"; }\n");
    world.write("run.sh", ". ./lib.sh\nfor test in tests/*.sh; do check \"$test\" || exit 1; done\n");
    world.commit("A runner with a helper");
    let trick = json!([{ "shell": "echo 'check() { true; }' > lib.sh" }, {}]);
    let outcome = world.run(&trick, &["--test", "sh run.sh"]).outcome();
    assert!(has_flag(&outcome, "test_helpers_changed"), "{outcome:#}");
    assert_eq!(outcome["evidence"]["changed"]["helpers"], json!(["lib.sh"]));
    let show = world.harvest(&["task", "show", outcome["task_id"].as_str().unwrap()]).finish().stdout;
    assert!(show.contains("verified, no counts, test helpers edited") && show.contains("(lib.sh)"), "{show}");
}

#[test]
fn a_list_of_tests_that_was_cut_off_is_told() {
    let world = World::new();
    let name = "x".repeat(60);
    let many = format!("i=0; while [ $i -lt 6000 ]; do echo \"ok $i - {name}$i\"; i=$((i + 1)); done; echo 1..6000\n");
    world.write("many.sh", many);
    world.commit("Many tests");
    let ran = world.run(&json!([{ "shell": FIX }, {}]), &["--test", "sh many.sh"]);
    let outcome = ran.assert_ended(0, "completed", None);
    assert_eq!(ran.of_type("tests.finished")[0]["names"]["missing"], "too_many_passed", "{outcome:#}");
    let told = "not all tests are known by name: at the base and at the result the names of the passed tests are longer than \
                256 KiB, and were left out; new and vanished tests cannot be told";
    assert_eq!(outcome["evidence"]["tests"]["incomplete"], told);
    let id = outcome["task_id"].as_str().unwrap();
    let show = world.harvest(&["task", "show", id]).finish().stdout;
    assert!(show.contains(told), "{show}");
    let logs = world.harvest(&["task", "logs", id]).finish().stdout;
    assert!(logs.contains("warning: not all tests are known by name: the names"), "{logs}");
}

#[test]
fn nothing_changed_is_no_branch_and_the_evidence_decides() {
    let world = World::new();
    let outcome = world.run(&json!([{ "say": "Nothing to do." }]), &[]).assert_ended(0, "completed", None);
    assert_eq!((&outcome["commit"], &outcome["branch"]), (&outcome["base"], &json!(null)));
    assert_eq!(outcome["evidence"]["verdict"], "unchanged", "the base's tests fail: {outcome:#}");
    let ran = world.run(&json!([{ "shell": "touch x && rm x" }]), &["--test", "sh tests/one.sh"]);
    let outcome = ran.assert_ended(0, "completed", None);
    assert_eq!((&outcome["commit"], &outcome["branch"]), (&outcome["base"], &json!(null)));
    assert_eq!(git(&world.repo(), &["branch", "--list", "harvest/*"]), "");
}

#[test]
fn without_a_test_command_there_is_a_warning_and_no_evidence() {
    let world = World::new();
    git(&world.repo(), &["rm", "--quiet", "test.sh"]);
    world.commit("No tests any more");
    let ran = world.run(&json!([{ "shell": FIX }, {}]), &[]);
    let outcome = ran.assert_ended(0, "completed", None);
    assert!(outcome["evidence"].is_null() && outcome["branch"].is_string(), "{outcome:#}");
    let warnings = ran.of_type("warning");
    assert!(warnings.iter().any(|data| data["message"].as_str().unwrap().contains("--test")), "{warnings:?}");
    let ran = world.run(&json!([{ "shell": FIX }, {}]), &["--require-tests"]);
    let outcome = ran.assert_ended(1, "failed", Some("tests"));
    assert!(outcome["evidence"].is_null() && outcome["branch"].is_null(), "{outcome:#}");
    assert!(ran.of_type("agent.started").is_empty(), "nothing is spent on what cannot be proved");
}

#[test]
fn the_test_command_of_the_base_counts_not_the_agents() {
    let world = World::new();
    world.write(".harvest.toml", "test = \"sh check.sh\"\n");
    world.write("check.sh", "echo 0 passed, 1 failed; exit 1\n");
    world.commit("Settings");
    let ran = world.run(&json!([{ "shell": "echo 'test = \"true\"' > .harvest.toml" }, {}]), &[]);
    let outcome = ran.assert_ended(1, "failed", Some("tests"));
    assert_eq!(outcome["evidence"]["command"], "sh check.sh");
    assert!(has_flag(&outcome, "settings_changed"), "{outcome:#}");
}

/// Counts are left open where the output says nothing, and the exit code decides.
#[test]
fn unreadable_output_leaves_the_counts_open() {
    let world = World::new();
    let outcome = world.run(&json!([{ "shell": FIX }, {}]), &["--test", "sh tests/two.sh"]).outcome();
    let evidence = &outcome["evidence"];
    assert!(evidence["passed"].is_null() && evidence["failed"].is_null() && evidence["baseline"]["passed"].is_null());
    assert_eq!((&evidence["exit_code"], &outcome["status"]), (&json!(0), &json!("completed")));
}

/// A result that cannot be checked out fails one sandbox while the other is at work; both must go.
#[test]
fn a_result_that_cannot_be_checked_out_leaves_nothing_behind() {
    let world = World::new();
    let trick = "blob=$(echo x | git hash-object -w --stdin) && name=$(printf 'a%.0s' $(seq 300)) && \
                 git update-index --add --cacheinfo 100644,$blob,$name && git update-index --skip-worktree $name && \
                 git commit -q -m 'A long name' && git ls-tree --name-only HEAD";
    let ran = world.run(&json!([{ "shell": trick }, {}]), &["--test", "sleep 5; sh test.sh"]);
    assert!(ran.tool_outputs()[0].contains("aaaaaaaa"), "{:?}", ran.tool_outputs());
    let outcome = ran.outcome();
    assert_eq!((ran.exit, outcome["status"].as_str()), (Some(1), Some("failed")), "{outcome:#}");
    world.assert_nothing_left();
}

fn has_flag(outcome: &serde_json::Value, flag: &str) -> bool {
    outcome["evidence"]["flags"].as_array().is_some_and(|flags| flags.iter().any(|known| known == flag))
}

/// Nobody named a model; the worker chose one.
#[test]
fn signed_evidence_of_a_queued_task_names_the_model_that_worked_on_it() {
    let world = World::new();
    let task = world.add("Mend it", &[]);
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let up = world.harvest(&["up", "--until-empty", "--model-script", script.to_str().unwrap()]).finish();
    assert_eq!(up.exit, Some(0), "{up:?}");
    let file = world.path().join("evidence.json");
    std::fs::write(&file, world.json(&["evidence", "export", &task]).to_string()).unwrap();
    let statement = &world.json(&["evidence", "verify", file.to_str().unwrap()])["statement"];
    let journal = world.harvest(&["task", "logs", &task, "--json"]).finish().events();
    let started = journal.iter().find(|event| event["type"] == "agent.started").unwrap();
    assert!(started["data"]["model"].is_string(), "{started:#}");
    assert_eq!(statement["predicate"]["model"], started["data"]["model"]);
    let shown = world.harvest(&["task", "show", &task]).finish().stdout;
    assert!(shown.contains(started["data"]["model"].as_str().unwrap()) && !shown.contains("worker's model"), "{shown}");
}

#[test]
fn evidence_is_signed_and_checked_without_asking_anyone() {
    let world = World::new();
    let outcome = world.run(&json!([{ "shell": FIX }, {}]), &[]).assert_ended(0, "completed", None);
    let id = outcome["task_id"].as_str().unwrap();
    let file = world.path().join("evidence.json");
    let signed = world.json(&["evidence", "export", id]);
    std::fs::write(&file, signed.to_string()).unwrap();
    let checked = world.json(&["evidence", "verify", file.to_str().unwrap()]);
    let statement = &checked["statement"];
    assert_eq!((&checked["genuine"], &statement["predicate"]["proves_success"]), (&json!(true), &json!(true)));
    assert_eq!(statement["subject"][0]["digest"]["gitCommit"], outcome["commit"]);
    assert_eq!(statement["predicate"]["evidence"], outcome["evidence"]);
    // Elsewhere, with the key alone; and not with another one, nor after a change.
    let key = world.json(&["evidence", "key"])["public_key"].as_str().unwrap().to_owned();
    let other = World::empty();
    let verify = |args: &[&str]| {
        let all = [&["evidence", "verify", file.to_str().unwrap()][..], args].concat();
        other.harvest(&all).finish().exit
    };
    assert_eq!(verify(&["--key", &key]), Some(0));
    assert_eq!(verify(&[]), Some(2), "there is no key");
    let others = other.json(&["evidence", "key"]);
    assert_eq!(verify(&["--key", others["public_key"].as_str().unwrap()]), Some(1));
    let mut changed = signed.clone();
    changed["payload"] = json!("e30=");
    std::fs::write(&file, changed.to_string()).unwrap();
    assert_eq!(verify(&["--key", &key]), Some(1));
    std::fs::write(&file, "{}").unwrap();
    assert_eq!(verify(&["--key", &key]), Some(2));
}

#[test]
fn a_key_is_given_as_text_or_as_a_file_and_what_is_neither_is_refused() {
    let world = World::new();
    let outcome = world.run(&json!([{ "shell": FIX }, {}]), &[]).assert_ended(0, "completed", None);
    let file = world.path().join("evidence.json");
    let signed = world.json(&["evidence", "export", outcome["task_id"].as_str().unwrap()]);
    std::fs::write(&file, signed.to_string()).unwrap();
    let key = world.harvest(&["evidence", "key"]).finish().stdout;
    let verify = |key: &str| {
        let ran = world.harvest(&["evidence", "verify", file.to_str().unwrap(), "--key", key]).finish();
        (ran.exit, ran.stderr)
    };
    let public = world.path().join("their.pub");
    std::fs::write(&public, &key).unwrap();
    for given in [key.trim(), public.to_str().unwrap()] {
        assert_eq!(verify(given).0, Some(0), "{given}");
    }
    std::fs::write(&public, "nothing of the kind\n").unwrap();
    for (given, why) in [
        ("nonsense", "--key: nonsense is neither a public key nor a file"),
        ("bm9uc2Vuc2U=", "--key: bm9uc2Vuc2U= is neither a public key nor a file"),
        (public.to_str().unwrap(), "does not hold a public key"),
    ] {
        let (exit, said) = verify(given);
        assert_eq!(exit, Some(2), "{given}: {said}");
        assert!(said.contains(why) && said.contains("harvest evidence key"), "{given}: {said}");
    }
}
