//! What a person reads at a terminal: lists, verdicts, times, money and colours; and tasks that are deleted or build on others.

use std::fs;

use serde_json::{Value, json};

use crate::first_day::at_a_terminal;
use crate::support::{FIX, World, git};

fn text(world: &World, args: &[&str]) -> String {
    let ran = world.harvest(args).finish();
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    ran.stdout
}

/// The words of a line of the table with this header, by the header's names.
#[track_caller]
fn cell(listed: &str, row: &str, column: &str) -> String {
    let header =
        listed.lines().find(|line| line.contains(column)).unwrap_or_else(|| panic!("no {column} in\n{listed}"));
    let line = listed.lines().find(|line| line.contains(row)).unwrap_or_else(|| panic!("no {row} in\n{listed}"));
    let place = header.find(column).unwrap();
    let begin = line[..place.min(line.len())].rfind("  ").map_or(0, |space| space + 2);
    line[begin..].trim_start().split("  ").next().unwrap_or_default().to_owned()
}

#[test]
fn lists_have_headers_age_and_repository_and_notes_go_to_standard_error() {
    let world = World::new();
    let empty = world.harvest(&["task", "list"]).finish();
    assert_eq!((empty.exit, empty.stdout.as_str()), (Some(0), ""), "{empty:?}");
    assert!(empty.stderr.contains("no tasks yet"), "{empty:?}");
    for list in ["convoy", "credential", "token", "template", "schedule", "repo"] {
        let empty = world.harvest(&[list, "list"]).finish();
        assert_eq!((empty.exit, empty.stdout.as_str()), (Some(0), ""), "{list}: {empty:?}");
        assert!(empty.stderr.starts_with("no "), "{list}: {empty:?}");
        assert_eq!(world.json(&[list, "list"]), json!({ "items": [], "next_cursor": null }), "{list}");
    }
    world.run(&json!([{ "shell": FIX }, {}]), &[]).assert_ended(0, "completed", None);
    world.add("Later", &[]);
    let page = world.harvest(&["task", "list", "--limit", "1"]).finish();
    assert!(
        page.stderr.starts_with("more: harvest task list --limit 1 --cursor ") && page.stdout.lines().count() == 2,
        "{page:?}"
    );
    let repo = world.repo();
    let repo = repo.to_str().unwrap();
    world.add("Later still", &[]);
    let page = world.harvest(&["task", "list", "--status", "pending", "--repo", repo, "--limit", "1"]).finish();
    let again = format!("more: harvest task list --status pending --repo {repo} --limit 1 --cursor ");
    assert!(page.stderr.starts_with(&again), "{page:?}");
    let listed = text(&world, &["task", "list"]);
    let header: Vec<&str> = listed.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["ID", "STATUS", "TITLE", "COST", "AGE", "REPOSITORY", "BRANCH"]);
    assert_eq!(cell(&listed, "completed", "REPOSITORY"), "repo");
    assert_eq!(cell(&listed, "completed", "STATUS"), "completed, verified");
    let done = world.tasks().into_iter().find(|task| task["status"] == "completed").unwrap();
    let shown = text(&world, &["task", "show", done["id"].as_str().unwrap()]);
    assert!(shown.contains("verdict     verified"), "{shown}");
    for filter in [["--status", "failed"], ["--convoy", "nope"]] {
        let none = world.harvest(&[&["task", "list"][..], &filter].concat()).finish();
        assert_eq!((none.exit, none.stdout.as_str()), (Some(0), ""), "{none:?}");
        assert!(none.stderr.starts_with("no task matches"), "{none:?}");
    }
    assert!(cell(&listed, "completed", "AGE").ends_with(" s"), "{listed}");
    world.token(&["--role", "member", "--name", "ci"]);
    let tokens = text(&world, &["token", "list"]);
    assert_eq!(cell(&tokens, "ci", "USED"), "never", "{tokens}");
    text(&world, &["template", "add", "upgrade", "Upgrade {{ package }}"]);
    let templates = text(&world, &["template", "list"]);
    assert_eq!(cell(&templates, "upgrade", "PARAMETERS"), "package", "{templates}");
    text(&world, &["schedule", "add", "0 3 * * 1-5", "Tidy up"]);
    world.add("In a batch", &["--convoy", "spring-clean"]);
    // Every list has a header, and what is made once and kept has its age.
    let age = regex::Regex::new(r" \d+ (s|min)  ").unwrap();
    for (list, columns) in [
        ("convoy list", &["NAME", "PROGRESS", "TASKS", "COST"][..]),
        ("agent list", &["ID", "NAME", "VERSION", "KEYS", "PROGRAM"]),
        ("mcp list", &["NAME", "ENABLED", "ABOUT", "RUNS"]),
        ("stats", &["DAY", "COMPLETED", "FAILED", "CANCELLED", "COST", "WINS"]),
        ("schedule list", &["ID", "CRON", "NEXT", "PROMPT", "AGE", "REPOSITORY", "PROBLEM"]),
        ("template list", &["NAME", "PROMPT", "AGE", "REPOSITORY", "PARAMETERS"]),
        ("token list", &["ID", "ROLE", "USER", "NAME", "PROJECTS", "STATE", "AGE", "USED"]),
    ] {
        let shown = text(&world, &list.split(' ').collect::<Vec<_>>());
        let header: Vec<&str> = shown.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(header, columns, "{list}: {shown}");
        if columns.contains(&"AGE") {
            let row = shown.lines().nth(1).unwrap();
            assert!(age.is_match(row), "{list}: {shown}");
        }
    }
    let build = world.harvest(&["repo", "add", "."]).finish();
    assert_eq!(build.exit, Some(0), "{build:?}");
    let build = world.harvest(&["repo", "build", "repo"]).finish();
    let note = "note: no lockfile or manifest was found: nothing to install";
    assert!(build.stderr.contains(note) && !build.stdout.contains("note:"), "{build:?}");
}

#[test]
fn a_completed_task_without_changes_says_so_everywhere_and_shows_no_branch() {
    let world = World::new();
    let ran = world.run(&json!([{ "say": "Nothing to do." }]), &["--test", "true"]);
    let outcome = ran.assert_ended(0, "completed", None);
    assert_eq!(outcome["branch"], Value::Null);
    let id = outcome["task_id"].as_str().unwrap();
    for command in [&["task", "show", id][..], &["session", "show", id], &["task", "list"]] {
        let shown = text(&world, command);
        assert!(shown.contains("no changes") && !shown.contains("harvest/"), "{shown}");
    }
    let script = world.script(&json!([{ "say": "Nothing to do." }]));
    let run = world.harvest(&["run", "Look", "--test", "true", "--model-script"]).args(&[&script]).finish();
    assert!(run.stdout.contains("changes   no changes") && !run.stdout.contains("harvest/"), "{run:?}");
    world.add("Look again", &["--test", "true"]);
    let up = world.harvest(&["up", "--until-empty", "--model-script"]).args(&[&script]).finish();
    assert!(up.stdout.contains("completed · no changes · $"), "{up:?}");
    let apply = world.harvest(&["task", "apply", id]).finish();
    assert!(apply.exit == Some(2) && apply.stderr.contains("with no changes"), "{apply:?}");
}

#[test]
fn a_failed_task_with_a_branch_says_that_the_work_was_not_accepted() {
    let world = World::new();
    let outcome =
        world.run(&json!([{ "shell": FIX }, {}]), &["--test", "false"]).assert_ended(1, "failed", Some("tests"));
    let shown = text(&world, &["task", "show", outcome["task_id"].as_str().unwrap()]);
    let branch = outcome["branch"].as_str().unwrap();
    assert!(shown.contains(&format!("{branch} (the work was kept but not accepted)")), "{shown}");
}

#[test]
fn a_blocked_task_says_what_it_waits_for_and_took_counts_work_only() {
    let world = World::new();
    let first = world.add("First", &["--test", "false"]);
    let second = world.add("Second", &["--after", &first]);
    let waits = |id: &str| {
        let shown = text(&world, &["task", "show", id]);
        let line = shown.lines().find(|line| line.trim_start().starts_with("waits for")).map(str::to_owned);
        line.map(|line| line.trim().trim_start_matches("waits for").trim().to_owned())
    };
    assert_eq!(waits(&first).as_deref(), Some("a worker: harvest up"));
    assert_eq!(waits(&second), Some(format!("{} (pending)", &first[..8])));
    let listed = text(&world, &["task", "list"]);
    assert_eq!(cell(&listed, "Second", "STATUS"), format!("waits for {}", &first[..8]), "{listed}");
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    let up = world.harvest(&["up", "--until-empty", "--model-script"]).args(&[&script]).finish();
    assert!(up.stdout.contains("0 completed, 1 failed, 0 cancelled, 1 blocked"), "{up:?}");
    assert_eq!(waits(&second), Some(format!("{0} (failed; harvest task retry {0})", &first[..8])));
    assert_eq!(waits(&first), None);
    assert!(!text(&world, &["task", "show", &second]).contains("took"));
    // Whatever it waited for in between, the work of the agent is all that counts.
    let shown = world.json(&["task", "show", &first]);
    let attempt = &shown["sessions"][0]["turns"][0]["attempts"][0];
    let at = |name: &str| attempt[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let millis = at("finished_at").duration_since(at("started_at")).as_millis();
    let took = if millis < 1000 { format!("{millis} ms") } else { format!("{:.1} s", millis as f64 / 1000.0) };
    let page = text(&world, &["task", "show", &first]);
    assert!(page.contains(&format!("took        {took}")), "{took}:\n{page}");
}

#[test]
fn times_are_local_for_people_and_utc_in_json() {
    let world = World::new();
    let outcome = world.run(&json!([{ "shell": FIX }, {}]), &[]).assert_ended(0, "completed", None);
    let id = outcome["task_id"].as_str().unwrap();
    let show = |args: &[&str]| world.harvest(args).env("TZ", "TEST-9").finish().stdout;
    let json: Value = serde_json::from_str(&show(&["task", "show", id, "--json"])).unwrap();
    let created = json["created_at"].as_str().unwrap();
    assert!(created.ends_with('Z'), "{created}");
    let created: jiff::Timestamp = created.parse().unwrap();
    let local =
        created.to_zoned(jiff::tz::Offset::constant(9).to_time_zone()).strftime("%Y-%m-%d %H:%M:%S").to_string();
    let page = show(&["task", "show", id]);
    assert!(page.contains(&format!("created     {local} by ")), "{local}:\n{page}");
}

#[test]
fn a_diff_has_colours_at_a_terminal_and_nowhere_else() {
    let world = World::new();
    let outcome = world.run(&json!([{ "shell": FIX }, {}]), &[]).assert_ended(0, "completed", None);
    let id = outcome["task_id"].as_str().unwrap();
    let args = ["task", "diff", id];
    let terminal = ("TERM", "xterm-256color");
    let (shown, exit) = at_a_terminal(&world, &[terminal], &args, &[]);
    assert_eq!(exit, 0, "{shown}");
    assert!(shown.contains("\u{1b}[32m+echo two\u{1b}[0m") && shown.contains("\u{1b}[36m@@ "), "{shown:?}");
    let (plain, _) = at_a_terminal(&world, &[terminal, ("NO_COLOR", "1")], &args, &[]);
    assert!(plain.contains("\n+echo two") && !plain.contains('\u{1b}'), "{plain:?}");
    let piped = world.harvest(&args).env("TERM", "xterm-256color").finish().stdout;
    assert!(piped.contains("\n+echo two") && !piped.contains('\u{1b}'), "{piped:?}");
}

#[test]
fn work_begins_with_the_verified_result_of_the_task_before_alone() {
    let world = World::new();
    let base = git(&world.repo(), &["rev-parse", "HEAD"]).trim().to_owned();
    let first = world.add("First", &["--test", "true"]);
    let second = world.add("Second", &["--test", "true", "--after", &first]);
    let named = world.add("Named", &["--test", "true", "--after", &first, "--base", "HEAD"]);
    let doubtful = world.add("First, and nothing proves it", &["--test", "echo no tests ran"]);
    let careful = world.add("Careful", &["--test", "true", "--after", &doubtful]);
    let script = world.path().join("chain.json");
    let conversations = json!([
        { "when_prompt_contains": "First", "replies": [{ "shell": FIX }, {}] },
        { "replies": [{ "shell": "cat src/two.sh > seen.txt" }, {}] },
    ]);
    fs::write(&script, json!({ "conversations": conversations }).to_string()).unwrap();
    let up = world.harvest(&["up", "--until-empty", "--model-script"]).args(&[&script]).finish();
    assert_eq!(up.exit, Some(0), "{up:?}");
    let shown = |id: &str| world.json(&["task", "show", id]);
    let (before, after, apart) = (shown(&first), shown(&second), shown(&named));
    assert_eq!(after["base"], before["commit"], "{after:#}");
    assert_eq!(apart["base"], json!(base));
    assert_eq!((&shown(&doubtful)["status"], &shown(&careful)["base"]), (&json!("completed"), &json!(base)));
    let told = text(&world, &["task", "logs", &careful]);
    assert!(told.contains("is not verified: the task starts from"), "{told}");
    let seen = |task: &Value| git(&world.repo(), &["show", &format!("{}:seen.txt", task["branch"].as_str().unwrap())]);
    assert_eq!(seen(&after).trim(), "echo two");
    assert_ne!(seen(&apart).trim(), "echo two");
    // Only its own change is its diff.
    let diff = text(&world, &["task", "diff", &second]);
    assert!(diff.contains("seen.txt") && !diff.contains("src/two.sh"), "{diff}");
    world.assert_nothing_left();
}

#[test]
fn a_task_that_has_ended_is_deleted_and_leaves_its_branch_and_the_audit_log() {
    let world = World::new();
    let outcome = world.run(&json!([{ "shell": FIX }, {}]), &[]).assert_ended(0, "completed", None);
    let (id, branch) = (outcome["task_id"].as_str().unwrap(), outcome["branch"].as_str().unwrap());
    let waiting = world.add("Waits", &[]);
    let refused = world.harvest(&["task", "delete", &waiting]).finish();
    assert!(refused.exit == Some(2) && refused.stderr.starts_with("error[HV-0618]"), "{refused:?}");
    let short = &waiting[..8];
    let help = format!("harvest task cancel {short}, or harvest task terminate {short}");
    assert!(refused.stderr.contains(&help), "{refused:?}");
    let deleted = text(&world, &["task", "delete", &id[..8]]);
    assert_eq!(deleted, format!("✓ task {} is deleted; the branch {branch} stays\n", &id[..8]));
    let gone = world.harvest(&["task", "show", id]).finish();
    assert!(gone.exit == Some(2) && gone.stderr.starts_with("error[HV-0151]"), "{gone:?}");
    assert_eq!(world.tasks().len(), 1);
    git(&world.repo(), &["rev-parse", "--verify", branch]);
    let log = world.harvest(&["audit", "export"]).finish().stdout;
    let entries: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(entries.iter().any(|entry| entry["action"] == "task.delete"), "{log}");
    assert!(entries.iter().any(|entry| entry["action"] == "run"), "{log}");
    world.harvest(&["audit", "verify"]).finish();
}

#[test]
fn a_shell_completes_commands_options_and_values() {
    let world = World::new();
    let script = text(&world, &["completion", "bash"]);
    let complete = |words: &[&str]| {
        let asked = format!(
            "{script}\nCOMP_WORDS=({}); COMP_CWORD={}; _harvest; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.join(" "),
            words.len() - 1
        );
        let ran = std::process::Command::new("bash").args(["--norc", "-c", &asked]).output().unwrap();
        assert!(ran.stderr.is_empty(), "{}", String::from_utf8_lossy(&ran.stderr));
        let mut found: Vec<String> = String::from_utf8(ran.stdout).unwrap().lines().map(str::to_owned).collect();
        found.sort();
        found
    };
    assert_eq!(complete(&["harvest", "ta"]), ["task"]);
    assert_eq!(complete(&["harvest", "task", "de"]), ["delete"]);
    assert_eq!(complete(&["harvest", "--json", "task", "list", "--sta"]), ["--status"]);
    assert_eq!(complete(&["harvest", "completion", "f"]), ["fish"]);
    for shell in ["zsh", "fish"] {
        let printed = text(&world, &["completion", shell]);
        assert!(printed.contains("harvest task delete"), "{printed}");
    }
    let wrong = world.harvest(&["completion", "csh"]).finish();
    assert!(wrong.exit == Some(2) && wrong.stderr.contains("bash, zsh, fish"), "{wrong:?}");
}
