//! `harvest task …`: looking at tasks, applying and cancelling them, and many at once.

use std::fs;

use harvest_core::{BranchName, Cost, OnFailedDependency, Priority, Prompt, SessionId, Settings, Source, TaskKind};
use harvest_store::{NewTask, Sqlite, Store};
use serde_json::{Value, json};

use crate::killed::journal;
use crate::run::people;
use crate::support::{FIX, Ran, World, fingerprint, git, schema};

fn id(outcome: &Value) -> String {
    outcome["task_id"].as_str().unwrap().to_owned()
}

fn fixed(world: &World) -> Value {
    world.run(&json!([{ "shell": FIX, "tokens": { "input": 5, "output": 5 } }, {}]), &[]).assert_ended(
        0,
        "completed",
        None,
    )
}

#[track_caller]
fn assert_refused(ran: &Ran, code: &str) {
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.stderr.starts_with(&format!("error[{code}]: ")), "expected {code}: {}", ran.stderr);
}

#[test]
fn list_and_show_for_programs() {
    let world = World::new();
    assert_eq!(world.json(&["task", "list"]), json!({ "items": [], "next_cursor": null }));
    let outcome = fixed(&world);
    world.run(&json!([{ "shell": "touch x" }]), &["--test", "false"]).assert_ended(1, "failed", Some("tests"));
    let list = world.json(&["task", "list"]);
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    insta::assert_json_snapshot!("list_item", schema(&list["items"][1]));
    let show = world.json(&["task", "show", &id(&outcome)]);
    insta::assert_json_snapshot!("show", schema(&show));
    for field in ["branch", "commit", "base", "evidence", "usage", "cost_usd", "status", "reason"] {
        assert_eq!(show[field], outcome[field], "{field}");
    }
    let turn = &show["sessions"][0]["turns"][0];
    assert_eq!(turn["attempts"][0]["exit_code"], 0);
    // Pages and filters.
    let page = world.json(&["task", "list", "--limit", "1"]);
    assert_eq!(page["items"][0]["status"], "failed", "newest first");
    let next = world.json(&["task", "list", "--limit", "1", "--cursor", page["next_cursor"].as_str().unwrap()]);
    assert_eq!((&next["items"][0]["id"], &next["next_cursor"]), (&outcome["task_id"], &json!(null)));
    let failed = world.json(&["task", "list", "--status", "failed"]);
    assert_eq!(failed["items"].as_array().unwrap().len(), 1);
    for bad in [&["--status", "odd"], &["--limit", "0"], &["--cursor", "odd"]] {
        let ran = world.harvest(&["task", "list"]).args(bad).finish();
        assert_eq!((ran.exit, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    }
}

#[test]
fn list_show_logs_and_diff_for_people() {
    let world = World::new();
    let outcome = fixed(&world);
    let short = &id(&outcome)[..8];
    for (name, args) in [
        ("people_list", &["task", "list"][..]),
        ("people_show", &["task", "show", short]),
        ("people_diff", &["task", "diff", short]),
    ] {
        let ran = world.harvest(args).finish();
        assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        let mut settings = people(&world);
        settings.add_filter(r"(?m)^[0-9a-z]{8}  ", "[ID]  ");
        settings.add_filter(r"\b[0-9a-z]{16}\b", "[ID]");
        settings.add_filter(r"index [0-9a-f]+\.\.[0-9a-f]+", "index [BLOBS]");
        settings.add_filter(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\b", "[AT]");
        // The columns are as wide as an age happens to be.
        settings.add_filter(r"(\S) {2,}", "$1  ");
        settings.add_filter(r"(took +)[0-9.]+ (ms|s)\n", "$1[TIME]\n");
        settings.add_filter(r" +\d+ s  repo ", "  [AGE]  repo ");
        settings.add_filter(r"by \S+\n", "by [PERSON]\n");
        settings.bind(|| insta::assert_snapshot!(name, ran.stdout));
    }
    let logs = world.harvest(&["task", "logs", short]).finish();
    assert!(logs.stdout.contains("printf 'echo two") && logs.stdout.contains("2 passed"), "{}", logs.stdout);
    // The diff is one that git takes.
    let patch = world.path().join("patch");
    fs::write(&patch, world.harvest(&["task", "diff", short]).finish().stdout).unwrap();
    git(&world.repo(), &["apply", patch.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(world.repo().join("src/two.sh")).unwrap(), "echo two\n");
    assert!(world.json(&["task", "diff", short])["diff"].as_str().unwrap().contains("+echo two"));
}

#[test]
fn a_log_says_why_a_task_failed() {
    let world = World::new();
    let outcome = world.run(&json!([{ "status": 400 }]), &[]).outcome();
    let error = outcome["error"].as_str().unwrap();
    let logs = world.harvest(&["task", "logs", &id(&outcome)]).finish().stdout;
    assert!(!error.is_empty() && logs.trim_end().ends_with(&format!("failed: {error}")), "{error}\n{logs}");
}

#[test]
fn the_journal_is_what_was_printed() {
    let world = World::new();
    // More than fits into any page.
    let long = "Now or never. ".repeat(700);
    let ran = world.run(&json!([{ "say": long, "shell": FIX, "tokens": { "input": 1 } }, { "say": "Done." }]), &[]);
    assert!(ran.events().len() > 1000, "{} events", ran.events().len());
    assert_eq!(journal(&world, &id(&ran.outcome())), ran.events());
}

#[test]
fn ids_may_be_shortened_and_wrong_ones_are_refused() {
    let world = World::new();
    // Of 33 tasks at least two ids begin with the same of 32 characters; fewer runs usually do.
    let outcome = fixed(&world);
    let full = id(&outcome);
    for length in [16, 8, 4] {
        assert_eq!(world.json(&["task", "show", &full[..length]])["id"], full);
    }
    assert_eq!(world.json(&["task", "show", &full.to_uppercase()])["id"], full);
    world.run(&json!([{}]), &["--test", "true"]).assert_ended(0, "completed", None);
    for command in ["show", "logs", "diff", "apply", "cancel"] {
        assert_refused(&world.harvest(&["task", command, "zzzzzzzz"]).finish(), "HV-0151");
        assert_refused(&world.harvest(&["task", command, "../../etc/passwd"]).finish(), "HV-0151");
        assert_refused(&world.harvest(&["task", command, "%"]).finish(), "HV-0151");
        assert_refused(&world.harvest(&["task", command, "_"]).finish(), "HV-0151");
        let empty = world.harvest(&["task", command, ""]).finish();
        assert_eq!((empty.exit, empty.stdout.as_str()), (Some(2), ""), "{command}: {empty:?}");
        assert!(empty.stderr.starts_with("error[HV-015"), "{command}: {}", empty.stderr);
    }
}

/// Tasks that no one works on, with ids of our choice.
#[test]
fn ambiguous_ids_are_refused_and_waiting_tasks_can_be_cancelled() {
    let world = World::new();
    assert_eq!(world.tasks().len(), 0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Sqlite::open(&world.data().join("harvest.db")).unwrap();
        for last in ["a", "b"] {
            let session: SessionId = format!("sssssssssssssss{last}").parse().unwrap();
            let new = NewTask {
                id: format!("aaaaaaaaaaaaaaa{last}").parse().unwrap(),
                turn: format!("ttttttttttttttt{last}").parse().unwrap(),
                branch: BranchName::for_session("x", &session),
                session,
                kind: TaskKind::Prompt,
                source: Source::Cli,
                prompt: Prompt::new("Wait").unwrap(),
                agent: "builtin".to_owned(),
                model: None,
                repository: world.repo().display().to_string(),
                base: world.head(),
                settings: Settings::default(),
                budget: Cost::from_nanos(1),
                source_url: None,
                priority: Priority::Normal,
                after: Vec::new(),
                on_failed_dependency: OnFailedDependency::Hold,
                convoy: None,
                retries: 0,
                claim_for: None,
                caps: Vec::new(),
                extra: None,
                key: None,
                warnings: Vec::new(),
                requested_by: "Ada".to_owned(),
                admission: harvest_store::Admission::default(),
                at: "2026-01-01T00:00:00Z".parse().unwrap(),
            };
            store.create_tasks(vec![new]).await.unwrap();
        }
    });
    for command in ["show", "logs", "diff", "apply", "cancel"] {
        assert_refused(&world.harvest(&["task", command, "aaaa"]).finish(), "HV-0152");
    }
    let logs = world.harvest(&["task", "logs", "aaaaaaaaaaaaaaaa"]).finish();
    assert_eq!(logs.exit, Some(0), "{logs:?}");
    assert_refused(&world.harvest(&["task", "apply", "aaaaaaaaaaaaaaaa"]).finish(), "HV-0161");
    assert_eq!(world.json(&["task", "cancel", "aaaaaaaaaaaaaaaa"])["status"], "cancelled");
    let events = journal(&world, "aaaaaaaaaaaaaaaa");
    assert_eq!(events.last().unwrap()["data"]["status"], "cancelled");
    assert_eq!(world.json(&["task", "show", "aaaaaaaaaaaaaaab"])["status"], "pending");
}

#[test]
fn apply_goes_forward_and_once() {
    let world = World::new();
    let outcome = fixed(&world);
    let applied = world.json(&["task", "apply", &id(&outcome)]);
    assert_eq!((&applied["into"], &applied["commit"]), (&json!("main"), &outcome["commit"]));
    assert_eq!(world.head(), outcome["commit"].as_str().unwrap());
    assert_eq!(fs::read_to_string(world.repo().join("src/two.sh")).unwrap(), "echo two\n");
    assert_eq!(git(&world.repo(), &["status", "--porcelain"]), "");
    let before = git(&world.repo(), &["rev-parse", "ORIG_HEAD"]);
    let again = world.harvest(&["task", "apply", &id(&outcome)]).finish();
    assert_eq!(again.exit, Some(0), "{again:?}");
    assert!(again.stdout.contains("already"), "{again:?}");
    let after = git(&world.repo(), &["rev-parse", "ORIG_HEAD"]);
    assert_eq!(
        (before.as_str(), before == after),
        (outcome["base"].as_str().unwrap(), true),
        "`git reset ORIG_HEAD` undoes it"
    );
}

#[test]
fn apply_merges_what_has_moved_on() {
    let world = World::new();
    git(&world.repo(), &["config", "user.name", "Ada"]);
    git(&world.repo(), &["config", "user.email", "ada@example.com"]);
    let outcome = fixed(&world);
    world.write("other.txt", "mine\n");
    let mine = world.commit("Mine");
    world.write("untracked.txt", "not in the way\n");
    let applied = world.json(&["task", "apply", &id(&outcome)]);
    assert_eq!(world.head(), applied["commit"].as_str().unwrap());
    let parents = git(&world.repo(), &["log", "-1", "--format=%P"]);
    assert_eq!(parents, format!("{mine} {}", outcome["commit"].as_str().unwrap()));
    assert_eq!(world.show("HEAD:src/two.sh"), "echo two");
}

#[test]
fn apply_refuses_conflicts_changes_and_unfinished_work() {
    let world = World::new();
    git(&world.repo(), &["config", "user.name", "Ada"]);
    git(&world.repo(), &["config", "user.email", "ada@example.com"]);
    let outcome = fixed(&world);
    let start = world.head();
    let refuse = |says: &str| {
        let before = fingerprint(&world.repo());
        let ran = world.harvest(&["task", "apply", &id(&outcome)]).finish();
        assert_refused(&ran, "HV-0162");
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
        // Trying a merge makes objects; nothing points at them.
        let after = fingerprint(&world.repo());
        assert!(before.iter().all(|(path, content)| after.get(path) == Some(content)), "something changed");
        let new = after.keys().find(|path| !before.contains_key(*path) && !path.starts_with(".git/objects"));
        assert_eq!(new, None);
    };
    world.write("src/one.sh", "echo changed\n");
    refuse("uncommitted");
    git(&world.repo(), &["add", "--all"]);
    refuse("uncommitted");
    git(&world.repo(), &["reset", "--quiet", "--hard"]);
    world.write("src/two.sh", "echo mine\n");
    world.commit("Mine");
    refuse("same lines");
    git(&world.repo(), &["switch", "--quiet", "--detach", &start]);
    refuse("not on a branch");
    // An untracked file in the way of a new one.
    git(&world.repo(), &["switch", "--quiet", "main"]);
    let other = world.run(&json!([{ "shell": "echo theirs > new.txt" }, {}]), &["--test", "true"]).outcome();
    world.write("new.txt", "mine\n");
    let head = world.head();
    let ran = world.harvest(&["task", "apply", &id(&other)]).finish();
    assert_refused(&ran, "HV-0162");
    assert_eq!(fs::read_to_string(world.repo().join("new.txt")).unwrap(), "mine\n");
    assert_eq!(world.head(), head);
    assert!(!world.repo().join(".git/MERGE_HEAD").exists());
    // Nothing to apply.
    let nothing = world.run(&json!([{}]), &["--test", "true"]).outcome();
    assert_refused(&world.harvest(&["task", "apply", &id(&nothing)]).finish(), "HV-0161");
}

#[test]
fn apply_touches_only_the_tasks_own_repository() {
    let world = World::new();
    let outcome = fixed(&world);
    let other = world.path().join("other");
    git(world.path(), &["clone", "--quiet", "repo", "other"]);
    let (before, mine) = (fingerprint(&other), fingerprint(&world.repo()));
    for folder in [other.as_path(), world.path()] {
        let ran = world.harvest(&["task", "apply", &id(&outcome)]).current_dir(folder).finish();
        assert_refused(&ran, "HV-0162");
        let says = format!("cd {} && harvest task apply", world.repo().display());
        assert!(ran.stderr.contains(&says), "{}", ran.stderr);
    }
    assert_eq!((before, mine), (fingerprint(&other), fingerprint(&world.repo())), "nothing was touched");
    // Another work tree of the same repository is where the person is.
    let tree = world.path().join("tree");
    git(&world.repo(), &["worktree", "add", "--quiet", "-b", "side", tree.to_str().unwrap()]);
    let ran = world.harvest(&["task", "apply", &id(&outcome)]).current_dir(&tree.join("src")).finish();
    assert!(ran.exit == Some(0) && ran.stdout.contains("is now part of side"), "{ran:?}");
    assert_eq!(git(&tree, &["show", "HEAD:src/two.sh"]), "echo two");
}

#[test]
fn apply_asks_for_force_when_work_failed_or_is_not_verified() {
    let world = World::new();
    let broken = world.run(&json!([{ "shell": "echo 'echo broken' > src/one.sh" }, {}]), &[]).outcome();
    let untested = world.run(&json!([{ "shell": "echo x > x" }, {}]), &["--test", "echo no tests ran"]).outcome();
    for (outcome, says) in [(&broken, "failed; it is not merged"), (&untested, "no tests ran, before or after")] {
        let head = world.head();
        let ran = world.harvest(&["task", "apply", &id(outcome)]).finish();
        assert_refused(&ran, "HV-0162");
        assert!(ran.stderr.contains(says) && ran.stderr.contains("into main"), "{}", ran.stderr);
        assert!(ran.stderr.contains("--force"), "{}", ran.stderr);
        assert_eq!(world.head(), head);
    }
    let list = world.harvest(&["task", "list"]).finish().stdout;
    assert!(list.contains("completed, not verified: no tests ran, before or after"), "{list}");
    world.json(&["task", "apply", &id(&broken), "--force"]);
    assert_eq!(world.show("HEAD:src/one.sh"), "echo broken");
}

/// The branch may have been deleted meanwhile: Harvest still has it.
#[test]
fn apply_works_after_the_branch_was_deleted() {
    let world = World::new();
    let outcome = fixed(&world);
    git(&world.repo(), &["branch", "--quiet", "-D", outcome["branch"].as_str().unwrap()]);
    git(&world.repo(), &["gc", "--quiet", "--prune=now"]);
    world.json(&["task", "apply", &id(&outcome)]);
    assert_eq!(world.show("HEAD:src/two.sh"), "echo two");
}

#[test]
fn terminate_kills_an_agent_that_heeds_no_signal_and_keeps_what_was_checkpointed() {
    let world = World::new();
    // Asked to stop, it continues for the ten minutes that it has.
    world.add_agent("deaf", "text", &format!("trap '' INT TERM; {FIX}; while :; do sleep 1; done"));
    fs::write(world.home().join(".config/harvest/harvest.toml"), "grace = '10m'\n").unwrap();
    let mut running = world.run_with(&json!([{}]), &["--agent", "deaf"]).start();
    let created = running.wait_for_type("task.created");
    running.wait_for_type("checkpoint.created");
    let task = created["data"]["task_id"].as_str().unwrap();
    assert_eq!(world.json(&["task", "terminate", task])["status"], "cancelled");
    let outcome = running.finish().assert_ended(3, "cancelled", Some("cancelled"));
    assert_eq!(world.show(&format!("{}:src/two.sh", outcome["branch"].as_str().unwrap())), "echo two");
    world.assert_nothing_left();
    assert_refused(&world.harvest(&["task", "terminate", task]).finish(), "HV-0153");
}

#[test]
fn logs_can_be_followed_until_the_task_ends() {
    let world = World::new();
    let mut running = world.run_with(&json!([{ "shell": "while [ ! -e go ]; do sleep 0.1; done" }, {}]), &[]).start();
    let created = running.wait_for_type("task.created");
    running.wait_for_type("tool.call");
    let task = created["data"]["task_id"].as_str().unwrap().to_owned();
    let mut follower = world.harvest(&["task", "logs", &task, "--follow", "--json"]).start();
    follower.wait_for_type("tool.call");
    world.json(&["task", "cancel", &task]);
    running.finish();
    let followed = follower.finish();
    assert_eq!(followed.exit, Some(0), "{followed:?}");
    assert_eq!(followed.stdout, world.harvest(&["task", "logs", &task, "--json"]).finish().stdout);
}

#[test]
fn cancel_stops_a_task_of_another_process() {
    let world = World::new();
    let mut running = world.run_with(&json!([{ "shell": FIX }, { "shell": "sleep 987654" }]), &[]).start();
    let created = running.wait_for_type("task.created");
    running.wait_for_type("tool.result");
    let task = created["data"]["task_id"].as_str().unwrap();
    let cancelled = world.json(&["task", "cancel", task]);
    assert_eq!(cancelled["status"], "cancelled");
    let outcome = running.finish().assert_ended(3, "cancelled", Some("cancelled"));
    assert_eq!(world.show(&format!("{}:src/two.sh", outcome["branch"].as_str().unwrap())), "echo two");
    world.assert_nothing_left();
    assert_refused(&world.harvest(&["task", "cancel", task]).finish(), "HV-0153");
}

#[test]
fn four_at_once_on_one_repository() {
    let world = World::new();
    let script = world.script(&json!([{ "shell": format!("{FIX} && pwd && ls -A ..") }, {}]));
    let running: Vec<_> = (0..4)
        .map(|number| {
            let prompt = format!("Task {number}");
            world.harvest(&["run", &prompt, "--json", "--model-script"]).args(&[&script]).start()
        })
        .collect();
    let mut branches: Vec<String> = running
        .into_iter()
        .map(|running| running.finish().assert_ended(0, "completed", None)["branch"].as_str().unwrap().to_owned())
        .collect();
    branches.sort();
    branches.dedup();
    assert_eq!(branches.len(), 4);
    for branch in &branches {
        assert_eq!(world.show(&format!("{branch}:src/two.sh")), "echo two");
    }
    assert_eq!(world.tasks().len(), 4);
    world.assert_nothing_left();
}

#[test]
fn a_project_accepts_unchanged_results_for_its_own_repositories() {
    let world = World::new();
    let test = "echo 'not ok 1 - old'; echo 1..1; exit 1";
    let config = world.path().join("project.toml");
    let run = |repository: &str| {
        let text = format!("[project.shop]\nrepositories = ['{repository}']\naccept_unchanged = true\n");
        fs::write(&config, text).unwrap();
        let args = ["--test", test, "--config", config.to_str().unwrap()];
        world.run(&json!([{ "shell": "echo x > x" }, {}]), &args)
    };
    let accepted = run(world.repo().to_str().unwrap()).assert_ended(0, "completed", None);
    assert_eq!(accepted["evidence"]["verdict"], "unchanged", "{accepted:#}");
    run("/srv/another").assert_ended(1, "failed", Some("tests"));
}
