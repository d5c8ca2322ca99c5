//! `harvest repo`: snapshots with their dependencies installed, and the sessions that start from them. Nothing here needs a
//! network: dependencies are files of the repository, or made by the command given.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{FIX, PATH, Ran, World, git};

/// A dependency that `node_modules` must hold for the tests to pass, and its lockfile.
pub fn npm_project(world: &World) {
    let package = world.path().join("make/package");
    fs::create_dir_all(&package).unwrap();
    fs::write(package.join("package.json"), r#"{"name":"pear","version":"1.0.0","main":"index.js"}"#).unwrap();
    fs::write(package.join("index.js"), "module.exports = 'two';\n").unwrap();
    world.write("package.json", r#"{"name":"shop","version":"1.0.0","dependencies":{"pear":"file:pear-1.0.0.tgz"}}"#);
    world.write("tests/pear.sh", "[ \"$(node -p 'require(\"pear\")')\" = two ]\n");
    let run = |program: &str, args: &[&str], folder: PathBuf| {
        let made = Command::new(program)
            .env_clear()
            .envs([("PATH", PATH)])
            .env("HOME", world.home())
            .args(args)
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(made.status.success(), "{program}: {}", String::from_utf8_lossy(&made.stderr));
    };
    run("tar", &["czf", "../repo/pear-1.0.0.tgz", "package"], world.path().join("make"));
    run("npm", &["install", "--package-lock-only", "--offline", "--no-audit", "--no-fund"], world.repo());
    world.commit("Pears");
}

fn build(world: &World, args: &[&str]) -> Ran {
    world.harvest(&["repo", "build", "repo", "--json"]).args(args).finish()
}

/// The report at the end of a build.
#[track_caller]
fn report(ran: &Ran) -> Value {
    let last = ran.stdout.lines().last().unwrap_or_else(|| panic!("{ran:?}"));
    let report: Value = serde_json::from_str(last).unwrap();
    assert_eq!(report["type"], "finished", "{ran:?}");
    report
}

#[track_caller]
fn built(world: &World, args: &[&str]) -> Value {
    let ran = build(world, args);
    let report = report(&ran);
    assert_eq!((ran.exit, &report["status"]), (Some(0), &json!("built")), "{ran:?}");
    world.assert_nothing_left();
    report
}

#[track_caller]
fn add(world: &World, args: &[&str]) {
    let ran = world.harvest(&["repo", "add", "."]).args(args).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
}

/// The snapshot of the one repository that there is.
fn listed(world: &World) -> Value {
    world.json(&["repo", "list"])["items"][0]["snapshot"].clone()
}

/// What the first command of the agent printed.
#[track_caller]
fn said(ran: &Ran) -> String {
    let outputs = ran.tool_outputs();
    let first = outputs.first().unwrap_or_else(|| panic!("{ran:?}"));
    first.trim().trim_end_matches("exit code 0").trim().to_owned()
}

/// What an agent's shell command says in a session of its own.
#[track_caller]
fn say(world: &World, command: &str) -> String {
    let ran = world.run(&json!([{ "shell": command }, {}]), &["--test", "true"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    said(&ran)
}

#[test]
fn a_session_starts_with_its_dependencies_and_none_of_them_is_delivered() {
    let world = World::new();
    npm_project(&world);
    add(&world, &[]);
    assert_eq!(listed(&world)["state"], "none");
    let report = built(&world, &[]);
    assert_eq!(report["installed"], json!(["npm ci --no-audit --no-fund"]));
    let stages: Vec<&str> = report["stages"].as_array().unwrap().iter().map(|s| s["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["fetch", "detect", "toolchain", "install", "freeze"]);
    let item = listed(&world);
    assert_eq!((&item["state"], &item["commit"]), (&json!("ready"), &json!(world.head())));
    assert!(item["bytes"].as_u64().unwrap() > 0);
    // The tests need the dependency too, in the agent's sandbox and in the fresh ones that verify.
    let look = "git status --porcelain --ignored=no; sh tests/pear.sh && echo fine";
    let ran = world.run(&json!([{ "shell": look }, { "shell": FIX }, {}]), &["--test", "sh test.sh"]);
    let outcome = ran.assert_ended(0, "completed", None);
    assert_eq!(said(&ran), "fine");
    assert_eq!(outcome["evidence"]["passed"], 3);
    let changed = git(&world.repo(), &["diff", "--name-only", "main", outcome["branch"].as_str().unwrap()]);
    assert_eq!(changed, "src/two.sh");
    // Nothing of it was ever in the person's own folder.
    assert!(!world.repo().join("node_modules").exists());
    let again = build(&world, &[]);
    assert_eq!((again.exit, &report_status(&again)[..]), (Some(0), "unchanged"));
    let people = world.harvest(&["repo", "list"]).finish();
    assert!(people.stdout.contains("repo") && people.stdout.contains(&world.head()[..10]), "{people:?}");
    let removed = world.json(&["repo", "remove", "repo"]);
    assert_eq!(removed, json!({ "name": "repo", "removed": true, "snapshots_in_use": false }));
    assert_eq!(fs::read_dir(world.data().join("prepared")).unwrap().count(), 0);
    assert_eq!(say(&world, "ls node_modules 2>&1 || true").lines().count(), 1);
}

fn report_status(ran: &Ran) -> String {
    report(ran)["status"].as_str().unwrap().to_owned()
}

#[test]
fn what_an_installation_leaves_at_home_is_there_and_its_tricks_are_not() {
    let world = World::new();
    let setup = "mkdir -p node_modules ~/.cargo/registry/index ~/go/pkg/mod .harvest/bin && echo one > node_modules/a
        echo crate > ~/.cargo/registry/index/pear && echo module > ~/go/pkg/mod/pear && chmod 555 ~/go/pkg/mod
        printf '#!/bin/sh\\necho tool 7\\n' > .harvest/bin/pear && chmod 4755 .harvest/bin/pear
        echo poison > src/one.sh && rm -r tests && ln -s /etc tests
        git config core.hooksPath /workspace/evil && git config alias.status '!echo owned'
        mkdir -p .git/info && echo '*' > .git/info/exclude";
    add(&world, &["--setup", setup]);
    built(&world, &[]);
    let look = "cat ~/.cargo/registry/index/pear ~/go/pkg/mod/pear node_modules/a src/one.sh; pear; ls tests
        git status --porcelain; git config core.hooksPath; stat -c %a .harvest/bin/pear
        echo new > new.txt; git status --porcelain; rm new.txt
        echo more > ~/.cargo/registry/index/plum && cat ~/.cargo/registry/index/plum";
    let expected = "crate\nmodule\none\necho one\ntool 7\none.sh\ntwo.sh\n755\n?? new.txt\nmore";
    assert_eq!(say(&world, look), expected);
    // What that session added is its own.
    assert_eq!(say(&world, "ls ~/.cargo/registry/index"), "pear");
}

#[test]
fn an_installation_has_no_model_and_no_way_out() {
    let world = World::new();
    let setup = "env | grep -ciE 'key|token|secret' > found || true
        (exec 3<>/dev/tcp/1.1.1.1/80) 2>/dev/null && echo out >> found
        grep -c : /proc/net/dev >> found; ls /harvest >> found";
    add(&world, &["--setup", &format!("bash -c '{}'", setup.replace('\'', "'\\''"))]);
    let ran = world.harvest(&["repo", "build", "repo", "--json"]).env("ANTHROPIC_API_KEY", "sk-ant-canary").finish();
    assert_eq!(report(&ran)["status"], "built", "{ran:?}");
    assert_eq!(say(&world, "cat found"), "0\n1\nbin\nobjects");
}

#[test]
fn a_failed_installation_is_told_and_leaves_the_snapshot_before_in_use() {
    let world = World::new();
    let alert = world.path().join("alert.json");
    let failing =
        "echo try >> ~/.local/bin/tries; [ ! -e broken ] || { echo no pears today; exit 9; }; echo v1 > installed";
    add(&world, &["--setup", failing, "--alert", &format!("cat > {}; env > {}.env", alert.display(), alert.display())]);
    built(&world, &[]);
    assert!(!alert.exists());
    let first = listed(&world)["commit"].clone();
    world.write("broken", "");
    world.write("package.json", "{}");
    world.commit("Break it");
    let ran = world.harvest(&["repo", "build", "repo", "--json", "--tries", "2"]).env("SECRET", "x").finish();
    let failed = report(&ran);
    assert_eq!((ran.exit, &failed["status"]), (Some(1), &json!("failed")), "{ran:?}");
    assert!(failed["error"].as_str().unwrap().contains("exit code 9\nno pears today"), "{failed}");
    assert_eq!(ran.stdout.matches("tried_again").count(), 1, "{ran:?}");
    let told: Value = serde_json::from_slice(&fs::read(&alert).unwrap()).unwrap();
    assert_eq!((&told["status"], &told["repository"]), (&json!("failed"), &json!("repo")));
    assert!(!fs::read_to_string(format!("{}.env", alert.display())).unwrap().contains("SECRET"));
    let item = listed(&world);
    assert_eq!((&item["state"], &item["commit"]), (&json!("outdated"), &first));
    let people = world.harvest(&["repo", "build", "repo", "--tries", "1"]).finish();
    assert!(people.exit == Some(1) && people.stdout.contains("no pears today"), "{people:?}");
    // Sessions on the new commit start from the old snapshot, at their own base, and say so.
    let ran =
        world.run(&json!([{ "shell": "cat installed; ls broken; git status --porcelain" }, {}]), &["--test", "true"]);
    assert_eq!(said(&ran), "v1\nbroken", "{ran:?}");
    assert!(ran.of_type("warning")[0]["message"].as_str().unwrap().contains("harvest repo build"), "{ran:?}");
    world.assert_nothing_left();
}

#[test]
fn a_failed_build_is_recorded_and_the_snapshot_is_there() {
    let world = World::new();
    add(&world, &["--setup", "echo 1 > installed", "--build", "echo half > made; echo cannot build; exit 3"]);
    let report = built(&world, &[]);
    assert!(report["build_error"].as_str().unwrap().contains("cannot build"), "{report}");
    assert_eq!(listed(&world)["state"], "ready");
    assert_eq!(say(&world, "cat installed made"), "1\nhalf");
}

#[test]
fn commits_with_the_same_lockfile_share_what_was_installed() {
    let world = World::new();
    npm_project(&world);
    add(&world, &[]);
    built(&world, &[]);
    let first = world.head();
    world.write("src/three.sh", "echo three\n");
    git(&world.repo(), &["rm", "--quiet", "src/one.sh"]);
    world.commit("Move on");
    // A session of the new commit catches up in its own layer; no build has been made.
    let look = "ls node_modules; ls src; git rev-parse HEAD~0; git status --porcelain";
    assert_eq!(say(&world, look), format!("pear\nthree.sh\ntwo.sh\n{}", world.head()));
    let ran = world.run(&json!([{}]), &["--test", "true"]);
    assert_eq!(ran.of_type("warning"), Vec::<Value>::new(), "{ran:?}");
    let report = built(&world, &[]);
    assert_eq!((&report["reused"], &report["installed"]), (&json!(true), &json!([])));
    assert_eq!(say(&world, look), format!("pear\nthree.sh\ntwo.sh\n{}", world.head()));
    // One of the past too.
    let ran = world.run(
        &json!([{ "shell": "ls node_modules; ls src; git status --porcelain" }, {}]),
        &["--base", &first, "--test", "true"],
    );
    assert_eq!(said(&ran), "pear\none.sh\ntwo.sh");
    let forced = built(&world, &["--force"]);
    assert_eq!((&forced["reused"], forced["installed"].as_array().unwrap().len()), (&json!(false), 1));
}

#[test]
fn a_commit_that_makes_a_link_of_a_folder_gets_nothing_written_on_the_host() {
    let world = World::new();
    npm_project(&world);
    let package = fs::read_to_string(world.repo().join("package.json")).unwrap();
    let script = r#"{"scripts":{"postinstall":"echo planted > d/x && mkdir -p gone/.git && echo > gone/.git/config"},"#;
    world.write("package.json", package.replacen('{', script, 1));
    world.write("d/keep", "");
    world.commit("Leave something behind");
    add(&world, &[]);
    built(&world, &[]);
    assert_eq!(say(&world, "cat d/x; ls -A gone"), "planted");
    let host = world.path().join("host");
    fs::create_dir(&host).unwrap();
    git(&world.repo(), &["rm", "--quiet", "-r", "d"]);
    std::os::unix::fs::symlink(&host, world.repo().join("d")).unwrap();
    world.commit("Lead elsewhere");
    let report = built(&world, &[]);
    assert_eq!(report["reused"], true, "{report}");
    assert_eq!(fs::read_dir(&host).unwrap().count(), 0, "the build wrote to the host");
    assert_eq!(say(&world, "ls node_modules; readlink d"), format!("pear\n{}", host.display()));
}

#[test]
fn shallow_and_sparse() {
    let world = World::new();
    world.write("far/away.txt", "x");
    world.commit("Far");
    let url = format!("file://{}", world.repo().display());
    let ran = world
        .harvest(&["repo", "add", &url, "--name", "repo", "--depth", "1", "--sparse", "src", "--setup", "echo 1 > i"])
        .finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    built(&world, &[]);
    let script = world
        .script(&json!([{ "shell": "ls; git log --oneline | wc -l; git status --porcelain" }, { "shell": FIX }, {}]));
    let ran = world
        .harvest(&["run", "Mend", "--json", "--repo", &url, "--test", "grep -rq two src", "--model-script"])
        .args(&[script])
        .finish();
    ran.assert_ended(0, "completed", None);
    assert_eq!(said(&ran), "i\nsrc\ntest.sh\n1");
}

#[test]
fn without_the_contents_of_the_past() {
    let world = World::new();
    let old = git(&world.repo(), &["rev-parse", "HEAD:src/two.sh"]);
    world.write("src/two.sh", "echo four\n");
    world.commit("Four");
    add(&world, &["--partial", "--setup", "echo 1 > installed"]);
    built(&world, &[]);
    let mirror = fs::read_dir(world.data().join("mirrors")).unwrap().map(|entry| entry.unwrap().path());
    let mirror = mirror.into_iter().find(|path| path.is_dir()).unwrap();
    let missing = || git(&mirror, &["rev-list", "--objects", "--all", "--missing=print"]);
    assert!(missing().lines().any(|line| line == format!("?{old}")), "{}", missing());
    let look = "cat installed; git log --oneline | wc -l; git status --porcelain";
    let ran = world.run(&json!([{ "shell": look }, { "shell": FIX }, {}]), &["--test", "grep -rq two src"]);
    ran.assert_ended(0, "completed", None);
    assert_eq!(said(&ran), "1\n2");
    // Work on a newer commit, and on an older one, has all its files.
    world.write("src/five.sh", "echo five\n");
    world.commit("Five");
    assert_eq!(say(&world, "cat installed src/five.sh src/two.sh"), "1\necho five\necho four");
    let ran = world.run(&json!([{ "shell": "cat src/two.sh" }, {}]), &["--base", "HEAD~2", "--test", "true"]);
    assert_eq!(said(&ran), "echo three", "{ran:?}");
}

#[test]
fn a_snapshot_in_use_outlives_its_repository() {
    let world = World::new();
    add(&world, &["--setup", "echo 1 > installed"]);
    built(&world, &[]);
    let wait = "while [ ! -e go ]; do sleep 0.01; done; cat installed";
    let mut running = world.run_with(&json!([{ "shell": wait }, {}]), &["--test", "true"]).start();
    running.wait_for_type("tool.call");
    assert_eq!(world.json(&["repo", "remove", "repo"])["snapshots_in_use"], true);
    let snapshots = || {
        let all = fs::read_dir(world.data().join("prepared")).unwrap().map(|entry| entry.unwrap().path());
        all.flat_map(|folder| fs::read_dir(folder).unwrap()).filter(|e| e.as_ref().unwrap().path().is_dir()).count()
    };
    assert_eq!(snapshots(), 1);
    let gc = world.harvest(&["gc", "--older-than", "1d"]).finish();
    assert_eq!((gc.exit, snapshots()), (Some(0), 1), "{gc:?}");
    running.signal(Signal::INT);
    let ran = running.finish();
    assert_eq!(ran.exit, Some(3), "{ran:?}");
    let gc = world.json(&["gc", "--older-than", "1d"]);
    assert_eq!(gc["removed"][0]["kind"], "snapshot", "{gc}");
    assert_eq!(snapshots(), 0);
}

#[test]
fn stopping_a_build_leaves_nothing() {
    let world = World::new();
    add(&world, &["--setup", "echo begun; (setsid sleep 987654 &); sleep 987654"]);
    let mut running = world.harvest(&["repo", "build", "repo", "--json"]).start();
    running.wait_for("output", |event| event["text"] == "begun");
    assert_eq!(listed(&world)["state"], "building");
    running.signal(Signal::INT);
    let ran = running.finish();
    assert_eq!((ran.exit, report_status(&ran)), (Some(3), "stopped".to_owned()));
    world.assert_nothing_left();
    assert_eq!(listed(&world)["state"], "none");
}

/// Says so, and installs once `go` lies beside it.
const UNTIL_IT_MAY_GO: &str = "touch begun-here; echo begun; until [ -e go ]; do sleep 0.05; done; echo 1 > installed";

/// Where the command of the build under way runs.
fn place_of_build(world: &World) -> PathBuf {
    let found = Command::new("find").arg(world.data()).args(["-name", "begun-here"]).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    PathBuf::from(found.lines().next().unwrap()).parent().unwrap().to_owned()
}

#[test]
fn a_second_build_waits_for_the_first_and_reports_what_came_of_it() {
    let world = World::new();
    add(&world, &["--setup", UNTIL_IT_MAY_GO]);
    let mut first = world.harvest(&["repo", "build", "repo", "--json"]).start();
    first.wait_for("output", |event| event["text"] == "begun");
    let mut second = world.harvest(&["repo", "build", "repo", "--json"]).start();
    second.wait_for("what the first one says", |event| event["type"] == "log" && event["text"] == "begun");
    // Whoever waits can leave, and the first one goes on.
    let mut third = world.harvest(&["repo", "build", "repo", "--json"]).start();
    let note = third.wait_for_type("note");
    assert_eq!(note["message"], "another process is building it; waiting for that build to end");
    third.signal(Signal::INT);
    let third = third.finish();
    assert_eq!((third.exit, report_status(&third)), (Some(3), "stopped".to_owned()), "{third:?}");
    assert_eq!(listed(&world)["state"], "building");
    fs::write(place_of_build(&world).join("go"), "").unwrap();
    let (first, second) = (first.finish(), second.finish());
    assert_eq!((first.exit, report_status(&first)), (Some(0), "built".to_owned()), "{first:?}");
    assert_eq!((second.exit, report(&second)), (Some(0), report(&first)), "{second:?}");
    assert_eq!(listed(&world)["state"], "ready");
    world.assert_nothing_left();
}

#[test]
fn a_build_that_waited_for_one_that_failed_or_is_outdated_builds_itself() {
    let world = World::new();
    add(&world, &["--setup", &format!("{UNTIL_IT_MAY_GO}; [ -e good ]")]);
    for (old, new, status) in [(1, 1, "failed"), (0, 0, "built")] {
        let mut first = world.harvest(&["repo", "build", "repo", "--json", "--tries", "1"]).start();
        first.wait_for("output", |event| event["text"] == "begun");
        let mut second = world.harvest(&["repo", "build", "repo", "--json", "--tries", "1"]).start();
        second.wait_for_type("note");
        let place = place_of_build(&world);
        if status == "built" {
            fs::write(place.join("good"), "").unwrap();
            world.write("news", "");
            world.commit("What the first build does not know");
        }
        fs::write(place.join("go"), "").unwrap();
        let first = first.finish();
        assert_eq!((first.exit, report_status(&first)), (Some(old), status.to_owned()), "{first:?}");
        second.wait_for("its own command", |event| event["type"] == "output" && event["text"] == "begun");
        let place = place_of_build(&world);
        if status == "built" {
            fs::write(place.join("good"), "").unwrap();
        }
        fs::write(place.join("go"), "").unwrap();
        let second = second.finish();
        assert_eq!((second.exit, report_status(&second)), (Some(new), status.to_owned()), "{second:?}");
    }
    assert_eq!(listed(&world)["commit"], world.head());
    world.assert_nothing_left();
}

#[test]
fn a_worker_builds_what_is_due_and_gives_up_when_it_ends() {
    let world = World::new();
    add(&world, &["--setup", "echo 1 > installed", "--every", "1h"]);
    let script = world.script(&json!([{}]));
    let mut up = world.harvest(&["up", "--agents", "1", "--json", "--model-script"]).args(&[&script]).start();
    let told = up.wait_for_type("snapshot");
    assert_eq!((&told["report"]["status"], &told["report"]["commit"]), (&json!("built"), &json!(world.head())));
    // What is added while it runs is noticed.
    let ran = world.harvest(&["repo", "remove", "repo"]).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let begun = world.path().join("begun");
    add(&world, &["--setup", "echo begun > begun; sleep 987654"]);
    let building = || {
        let all = fs::read_dir(world.data().join("workspaces")).into_iter().flatten().filter_map(Result::ok);
        all.into_iter().any(|entry| entry.path().join("begun").exists())
    };
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    while !building() {
        assert!(std::time::Instant::now() < deadline, "no build was begun");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    up.signal(Signal::TERM);
    let ran = up.finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(!begun.exists());
    world.assert_nothing_left();
}

#[cfg(feature = "failpoints")]
#[test]
fn a_crash_at_any_moment_of_a_build_leaves_nothing_after_the_next_command() {
    for name in harvest_engine::failpoint::PREPARE {
        let world = World::new();
        add(&world, &["--setup", "mkdir -p deep/down && echo 1 > installed && chmod 0 deep/down"]);
        let ran = world
            .harvest(&["repo", "build", "repo"])
            .env("HARVEST_FAILPOINTS", &format!("{name}=return(crash)"))
            .finish();
        assert_eq!(ran.exit, None, "{name}: {ran:?}");
        let item = listed(&world);
        world.assert_nothing_left();
        let frozen = *name == "prepare::frozen";
        assert_eq!(item["state"], if frozen { "ready" } else { "none" }, "{name}");
        assert_eq!(report_status(&build(&world, &[])), if frozen { "unchanged" } else { "built" }, "{name}");
        let folder = fs::read_dir(world.data().join("prepared")).unwrap().next().unwrap().unwrap().path();
        assert!(!folder.join("building").exists(), "{name}");
        assert_eq!(say(&world, "cat installed"), "1", "{name}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let world = World::new();
    let refused = |args: &[&str], code: &str, text: &str| {
        let ran = world.harvest(&["repo"]).args(args).finish();
        assert_eq!(ran.exit, Some(2), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(code) && ran.stderr.contains(text), "{args:?}: {ran:?}");
    };
    refused(&["build", "shop"], "HV-0184", "harvest repo add");
    refused(&["remove", "shop"], "HV-0184", "there is no repository `shop`");
    refused(&["add", "/nowhere"], "HV-0101", "/nowhere");
    refused(&["add", ".", "--branch", "missing"], "HV-0103", "missing");
    refused(&["add", ".", "--sparse", "../x"], "HV-0141", "a folder of the repository");
    refused(&["add", ".", "--name", "a b"], "HV-0141", "letters, digits");
    refused(&["add", "https://ada:secret@example.com/x.git"], "HV-0107", "credential helper");
    add(&world, &[]);
    refused(&["add", ".", "--name", "other"], "HV-0141", "as `repo`");
    let other = World::new();
    refused(&["add", &other.repo().display().to_string()], "HV-0141", "--name");
    // Adding it again changes it.
    add(&world, &["--every", "2h"]);
    let listed = world.json(&["repo", "list"]);
    assert_eq!(listed["items"][0]["settings"]["every_secs"], 7200, "{listed:#}");
}
