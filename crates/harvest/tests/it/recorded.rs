//! Data directories and databases of an earlier version, left at every failpoint and stage: this version reads their journals
//! as they were written and finishes their work.
//!
//! `HARVEST_RECORD=1 cargo test … recorded::` makes the recordings anew with the binary of today; do that when the schema of
//! the database has changed, beside the old ones. A data directory holds absolute paths, so every recording has its folder
//! below `/mnt`, and the tests run in a mount namespace in which `/mnt` is theirs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use harvest_engine::failpoint;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::cluster::{self, Cluster};
use crate::reattach::wait_until;
use crate::served::Server;
use crate::session::of_type;
use crate::support::{FIX, PATH, World, uid};

/// Recordings are named after the last migration of the version that made them.
const SCHEMA: &str = "0026";
const RECORD: &str = "HARVEST_RECORD";
const INSIDE: &str = "HARVEST_TEST_INSIDE";
const MINE: &str = "/mnt";
/// Most of the time of a stage is waiting.
const AT_ONCE: usize = 4;
/// Sealed in the recordings, which have their master key beside it.
const KEY: &str = "recorded-anthropic-key-0123456789";

/// A point in the life of a task, or of what it needs.
struct Stage {
    name: String,
    make: Box<dyn Fn(&World) + Send + Sync>,
    finish: Box<dyn Fn(&World) + Send + Sync>,
}

fn stage(
    name: &str,
    make: impl Fn(&World) + Send + Sync + 'static,
    finish: impl Fn(&World) + Send + Sync + 'static,
) -> Stage {
    Stage { name: name.replace("::", "-"), make: Box::new(make), finish: Box::new(finish) }
}

/// What every model of these worlds says.
fn script(world: &World) -> PathBuf {
    conversations(world, &json!([{ "shell": FIX, "tokens": { "input": 100, "output": 10 } }, {}]))
}

/// The same of a model that never comes to an end where it is to take its time.
fn endless_script(world: &World) -> PathBuf {
    conversations(world, &json!([{ "shell": FIX }, { "shell": "sleep 987654" }, {}]))
}

fn conversations(world: &World, slowly: &Value) -> PathBuf {
    let mends = json!([{ "shell": FIX, "tokens": { "input": 100, "output": 10 } }, {}]);
    world.conversations(&[
        ("The plan for it is approved", mends.clone()),
        ("Make a plan", json!([{ "say": "I would mend two.sh." }])),
        ("This was interrupted", mends.clone()),
        ("You have begun already", mends.clone()),
        ("Take your time", slowly.clone()),
        ("Mend it", mends),
    ])
}

fn crash(world: &World, args: &[&str], place: &str) {
    let crash = format!("{place}=return(crash)");
    let ran = world.worker(&script(world), &[]).args(args).env("HARVEST_FAILPOINTS", &crash).finish();
    assert_eq!(ran.status.signal(), Some(6), "{place}: {ran:?}");
}

fn work(world: &World) {
    let ran = world.worker(&script(world), &["--until-empty"]).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
}

fn statuses(world: &World) -> Vec<String> {
    world.tasks().iter().map(|task| task["status"].as_str().unwrap().to_owned()).collect()
}

/// The one task is completed, and its branch has the work.
fn completes(world: &World) {
    work(world);
    let tasks = world.tasks();
    let (task, journal) = (&tasks[0], world.journal(tasks[0]["id"].as_str().unwrap()));
    assert_eq!((tasks.len(), task["status"].as_str()), (1, Some("completed")), "{task:#}\n{journal:#?}");
    assert_eq!(world.show(&format!("{}:src/two.sh", task["branch"].as_str().unwrap())), "echo two");
    assert_eq!(of_type(&journal, "task.finished").len(), 1, "{journal:#?}");
}

/// The one task waits for a person, who agrees.
fn completes_once_approved(world: &World) {
    work(world);
    let task = world.tasks().remove(0);
    assert_eq!(task["status"], "awaiting_approval", "{task:#}");
    world.json(&["task", "approve", task["id"].as_str().unwrap()]);
    completes(world);
}

fn has_one_winner(world: &World) {
    let ran = world.worker(&script(world), &["--until-empty", "--agents", "2"]).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let completed = statuses(world).iter().filter(|status| *status == "completed").count();
    assert_eq!(completed, 1, "{:#?}", world.tasks());
}

/// A worker whose agent takes its time.
fn begin(world: &World, failpoints: &str) -> (crate::support::Running, String) {
    world.without_spares();
    let task = world.add_task("Mend it. Take your time.");
    let running = world.worker(&endless_script(world), &[]).env("HARVEST_FAILPOINTS", failpoints).start();
    wait_until("it hangs", || of_type(&world.journal(&task), "tool.call").len() == 2);
    (running, task)
}

fn interrupted_at(place: &'static str) -> Stage {
    let make = move |world: &World| {
        let (running, task) = begin(world, &format!("{place}=return(crash)"));
        let _waits = (place != "interrupts::obeyed").then(|| world.harvest(&["interrupt", &task]).start());
        if place == "interrupts::obeyed" {
            fs::write(world.data().join("interrupts").join(&task), "out of credit\n").unwrap();
        }
        assert_eq!(running.finish().status.signal(), Some(6), "{place}");
    };
    let finish = |world: &World| {
        let task = world.tasks().remove(0)["id"].as_str().unwrap().to_owned();
        let up = world.worker(&script(world), &[]).start();
        wait_until("it is interrupted", || world.tasks()[0]["status"] == "interrupted");
        up.signal(Signal::TERM);
        up.finish();
        world.json(&["session", "resume", &task]);
        completes(world);
    };
    stage(place, make, finish)
}

fn left_at_work(place: &'static str) -> Stage {
    let make = move |world: &World| {
        let (running, _) = begin(world, "");
        running.signal(Signal::KILL);
        running.finish();
        crash(world, &[], place);
    };
    stage(place, make, completes)
}

fn prepared_at(place: &'static str) -> Stage {
    let make = move |world: &World| {
        let added = world.harvest(&["repo", "add", ".", "--setup", "echo 1 > installed"]).finish();
        assert_eq!(added.exit, Some(0), "{added:?}");
        let crash = format!("{place}=return(crash)");
        let ran = world.harvest(&["repo", "build", "repo"]).env("HARVEST_FAILPOINTS", &crash).finish();
        assert_eq!(ran.status.signal(), Some(6), "{place}: {ran:?}");
    };
    let finish = |world: &World| {
        let ran = world.harvest(&["repo", "build", "repo"]).finish();
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        assert_eq!(world.json(&["repo", "list"])["items"][0]["snapshot"]["state"], "ready");
    };
    stage(place, make, finish)
}

fn add_credential(world: &World, name: &str) {
    let add = ["credential", "add", "anthropic", "--name", name, "--from-stdin"];
    let added = world.harvest(&add).input(&format!("{KEY}-{name}")).finish();
    assert_eq!(added.exit, Some(0), "{added:?}");
}

fn usable(world: &World) -> usize {
    let listed = world.json(&["credential", "list"])["items"].as_array().unwrap().clone();
    listed.iter().filter(|one| one["usable"] == true).count()
}

fn rotated_at(place: &'static str) -> Stage {
    let make = move |world: &World| {
        add_credential(world, "default");
        add_credential(world, "second");
        let crash = format!("{place}=return(crash)");
        let ran = world.harvest(&["credential", "rotate", "--master-key"]).env("HARVEST_FAILPOINTS", &crash).finish();
        assert_eq!(ran.status.signal(), Some(6), "{place}: {ran:?}");
    };
    let finish = |world: &World| {
        assert_eq!(usable(world), 2);
        world.json(&["credential", "rotate", "--master-key"]);
        assert_eq!(usable(world), 2);
    };
    stage(place, make, finish)
}

/// A request whose answer was never sent: the task that it made is worked on once.
fn asked_at(place: &'static str) -> Stage {
    let ask = |world: &World, server: &Server| {
        let body = world.ask("Mend it").to_string();
        let token = world.token(&[]);
        let head = [
            "POST /api/tasks HTTP/1.1".to_owned(),
            format!("Host: {}", server.host()),
            format!("Authorization: Bearer {token}"),
            "Idempotency-Key: recorded\r\nConnection: close".to_owned(),
            format!("Content-Type: application/json\r\nContent-Length: {}", body.len()),
        ];
        server.raw(format!("{}\r\n\r\n{body}", head.join("\r\n")).as_bytes())
    };
    let make = move |world: &World| {
        let args = ["serve", "--listen", "127.0.0.1:0", "--json", "--agents", "0"];
        let crash = format!("{place}=return(crash)");
        let server = Server::started(world.harvest(&args).env("HARVEST_FAILPOINTS", &crash).start());
        ask(world, &server);
        assert_eq!(server.running.finish().status.signal(), Some(6));
    };
    stage(place, make, completes)
}

/// Of everything that there is, something.
fn everything() -> Stage {
    let make = |world: &World| {
        let add = |args: &[&str]| {
            let added = world.json(&[&["task", "add"], args].concat());
            added["id"].as_str().unwrap_or_default().to_owned()
        };
        let done = add(&["Mend it", "--convoy", "garden", "--priority", "urgent"]);
        add(&["Mend it in vain", "--test", "false", "--retries", "1"]);
        let planned = add(&["Mend it by a plan", "--plan"]);
        add(&["Mend it if I agree", "--gate"]);
        add(&["Mend it", "--race", "builtin:one,builtin:two"]);
        work(world);
        let cancelled = add(&["Mend it never"]);
        world.json(&["task", "cancel", &cancelled]);
        add(&["Mend it after that", "--after", &planned]);
        world.json(&["session", "prompt", &done, "Mend it more"]);
        add_credential(world, "default");
        let added = world.harvest(&["repo", "add", ".", "--setup", "echo 1 > installed"]).finish();
        assert_eq!(added.exit, Some(0), "{added:?}");
        world.json(&["schedule", "add", "0 3 29 2 *", "Mend it each leap year"]);
        world.json(&["template", "add", "mend", "Mend {{ what }}"]);
        let token = world.token(&["--name", "recorded"]);
        let server = world.serve(&["--agents", "0"]);
        let admin = server.with(&token);
        admin.post("/api/projects", &json!({ "name": "shop", "repositories": [world.repo()] })).ok();
        let session = world.json(&["task", "show", &done])["sessions"][0]["id"].as_str().unwrap().to_owned();
        let comment = json!({ "text": "Well done.", "about": { "kind": "event", "seq": 1 } });
        admin.post(&format!("/api/sessions/{session}/comments"), &comment).ok();
        server.running.signal(Signal::TERM);
        assert_eq!(server.running.finish().exit, Some(0));
    };
    let finish = |world: &World| {
        let waiting = world.tasks().into_iter().filter(|task| task["status"] == "awaiting_approval");
        let waiting: Vec<String> = waiting.map(|task| task["id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(waiting.len(), 2, "{:#?}", world.tasks());
        for task in &waiting {
            world.json(&["task", "approve", task]);
        }
        work(world);
        let mut ended: BTreeMap<String, usize> = BTreeMap::new();
        for status in statuses(world) {
            *ended.entry(status).or_default() += 1;
        }
        let expected =
            [("cancelled", 2), ("completed", 5), ("failed", 1)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(ended, BTreeMap::from(expected), "{:#?}", world.tasks());
        // A race is a convoy as well.
        for (list, count) in [("schedule", 1), ("template", 1), ("token", 1), ("repo", 1), ("convoy", 2)] {
            let items = world.json(&[list, "list"])["items"].as_array().unwrap().len();
            assert_eq!(items, count, "{list}");
        }
        assert_eq!(usable(world), 1);
        let verified = world.harvest(&["audit", "verify"]).finish();
        assert_eq!(verified.exit, Some(0), "{verified:?}");
    };
    stage("everything", make, finish)
}

fn stages() -> Vec<Stage> {
    let add = |world: &World, how: &[&str]| drop(world.json(&[&["task", "add", "Mend it"], how].concat()));
    let mut all = Vec::new();
    for place in failpoint::ALL.iter().chain(failpoint::METERING) {
        let make = move |world: &World| {
            add(world, &[]);
            crash(world, &["--until-empty"], place);
        };
        all.push(stage(place, make, completes));
    }
    type Finish = fn(&World);
    let others: [(&[&str], &str, Finish); 3] = [
        (&["plan::before", "plan::asked"], "--plan", completes_once_approved),
        (&["gate::before", "gate::asked"], "--gate", completes_once_approved),
        (failpoint::RACE, "--race=builtin:one,builtin:two", has_one_winner),
    ];
    for (places, how, finish) in others {
        for place in places {
            let make = move |world: &World| {
                add(world, &[how]);
                crash(world, &["--until-empty", "--agents", "2"], place);
            };
            all.push(stage(place, make, finish));
        }
    }
    all.extend(failpoint::INTERRUPT.iter().map(|place| interrupted_at(place)));
    all.extend(failpoint::REATTACH.iter().map(|place| left_at_work(place)));
    all.extend(failpoint::PREPARE.iter().map(|place| prepared_at(place)));
    all.extend(failpoint::ROTATION.iter().map(|place| rotated_at(place)));
    all.extend(failpoint::ANSWER.iter().map(|place| asked_at(place)));
    all.push(everything());
    all
}

/// Where the stages of a version are, for one kind of database.
fn archive(database: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    folder.join(format!("{SCHEMA}-{database}.tar.xz"))
}

#[track_caller]
fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).env_clear().env("PATH", PATH).args(args).current_dir(MINE).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Ends every process that the world has left, as a power cut would.
fn cut_power(world: &World) {
    let own = world.path().to_string_lossy().into_owned();
    let pids = || {
        let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let of_world = |pid: &i32| {
            let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            *pid != std::process::id() as i32
                && ["mountinfo", "cmdline"].iter().any(|name| String::from_utf8_lossy(&read(name)).contains(&own))
        };
        pids.filter(of_world).collect::<Vec<i32>>()
    };
    while let Some(pid) = pids().first() {
        let _ = kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A database for a stage: none for a file in the data directory.
fn database(cluster: Option<&Cluster>, stage: &Stage) -> Option<String> {
    let cluster = cluster?;
    let name = stage.name.replace('-', "_");
    run("psql", &["--quiet", &cluster.url("postgres"), "--command", &format!("CREATE DATABASE {name}")]);
    Some(cluster.url(&name))
}

/// Makes every stage with the binary of today.
fn record(cluster: Option<&Cluster>, to: &Path) {
    for stage in stages() {
        let url = database(cluster, &stage);
        let world = World::at(&stage.name, url.clone());
        (stage.make)(&world);
        cut_power(&world);
        let kept = Path::new(MINE).join("recorded").join(&stage.name);
        fs::create_dir_all(&kept).unwrap();
        if let Some(url) = &url {
            let dump = run("pg_dump", &["--no-owner", "--no-privileges", url]);
            fs::write(kept.join("database.sql"), dump).unwrap();
            run("psql", &["--quiet", &cluster.unwrap().url("postgres"), "--command", &drop_of(&stage)]);
        }
        for name in ["data", "repo"] {
            run("cp", &["--archive", &format!("{}/{name}", stage.name), kept.to_str().unwrap()]);
        }
        // What is made anew where it is missing, and speaks of the machine.
        for name in ["data/bin", "data/sandboxes/local/.etc-*", "repo/.git/hooks", "data/**/hooks"] {
            run("sh", &["-c", &format!("rm -rf recorded/{}/{name}", stage.name)]);
        }
        println!("recorded {}", stage.name);
    }
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let fixed = ["--sort=name", "--mtime=@0", "--numeric-owner", "--directory", "recorded"];
    let names: Vec<String> = stages().into_iter().map(|stage| stage.name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    run("tar", &[&["--create", "--xz", "--file", to.to_str().unwrap()], &fixed[..], &names].concat());
    fs::remove_dir_all(Path::new(MINE).join("recorded")).unwrap();
}

fn drop_of(stage: &Stage) -> String {
    format!("DROP DATABASE {}", stage.name.replace('-', "_"))
}

/// The events of every task of the world, as its own version wrote them.
fn journals(world: &World, url: Option<&String>) -> BTreeMap<(i64, i64), Value> {
    let ask = "SELECT session, seq, body FROM events";
    let parsed = |session: &str, seq: &str, body: &str| {
        ((session.parse().unwrap(), seq.parse().unwrap()), serde_json::from_str::<Value>(body).unwrap())
    };
    if let Some(url) = url {
        let rows = run("psql", &["--no-align", "--tuples-only", "--field-separator=\t", url, "--command", ask]);
        let row = |line: &str| {
            let [session, seq, body] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
            parsed(session, seq, body)
        };
        return rows.lines().map(row).collect();
    }
    let file = rusqlite::Connection::open(world.data().join("harvest.db")).unwrap();
    let mut rows = file.prepare(ask).unwrap();
    let row = |row: &rusqlite::Row<'_>| {
        let (session, seq): (i64, i64) = (row.get(0)?, row.get(1)?);
        Ok(parsed(&session.to_string(), &seq.to_string(), &row.get::<_, String>(2)?))
    };
    rows.query_map([], row).unwrap().map(Result::unwrap).collect()
}

/// Finishes every stage that was recorded, a few at once.
fn finish(cluster: Option<&Cluster>, from: &Path) {
    fs::create_dir(Path::new(MINE).join("recorded")).unwrap();
    run("tar", &["--extract", "--xz", "--file", from.to_str().unwrap(), "--directory", "recorded"]);
    let (stages, next) = (stages(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(stage) = stages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    finish_one(cluster, stage);
                }
            });
        }
    });
}

fn finish_one(cluster: Option<&Cluster>, stage: &Stage) {
    let begun = Instant::now();
    let url = database(cluster, stage);
    let world = World::at(&stage.name, url.clone());
    world.give(KEY);
    let kept = Path::new(MINE).join("recorded").join(&stage.name);
    assert!(kept.is_dir(), "{} was not recorded", stage.name);
    fs::remove_dir_all(world.repo()).unwrap();
    for name in ["data", "repo"] {
        fs::rename(kept.join(name), world.path().join(name)).unwrap();
    }
    if let Some(url) = &url {
        let dump = kept.join("database.sql");
        run("psql", &["--quiet", "--set=ON_ERROR_STOP=1", url, "--file", dump.to_str().unwrap()]);
    }
    let before = journals(&world, url.as_ref());
    (stage.finish)(&world);
    let after = journals(&world, url.as_ref());
    for (place, event) in before {
        assert_eq!(after.get(&place), Some(&event), "{}: {place:?}", stage.name);
    }
    world.assert_nothing_left();
    println!("{} in {:?}", stage.name, begun.elapsed());
}

impl World {
    /// One whose paths are the same in every run.
    fn at(name: &str, url: Option<String>) -> Self {
        let folder = tempfile::Builder::new().prefix(name).rand_bytes(0).tempdir_in(MINE).unwrap();
        let world = Self::in_folder(folder).with_sample();
        match url {
            Some(url) => world.on_database(url),
            None => world,
        }
    }
}

/// Runs a test of this file where `/mnt` is its own, or says that this is the place.
fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let folder = tempfile::Builder::new().prefix("hvrec").tempdir_in("/tmp").unwrap();
    let mut unshare = Command::new("unshare");
    // Who is not root may mount in a user namespace alone, and what is tested has no part in that.
    let then = if uid() == 0 { "exec" } else { "exec setpriv --inh-caps=-all --ambient-caps=-all" };
    if uid() != 0 {
        unshare.args(["--user", "--map-current-user", "--keep-caps"]);
    }
    let ran = unshare
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            &format!("mount --bind \"$0\" /mnt && {then} \"$@\""),
        ])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("recorded::{test}"), "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text = [ran.stdout, ran.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(ran.status.success(), "{text}");
    println!("{text}");
    false
}

fn tested(database: &str, cluster: Option<&Cluster>) {
    let archive = archive(database);
    if std::env::var_os(RECORD).is_some() {
        record(cluster, &archive);
    }
    finish(cluster, &archive);
}

#[test]
fn every_stage_in_a_file_of_the_version_before_is_finished() {
    if is_inside("every_stage_in_a_file_of_the_version_before_is_finished") {
        tested("sqlite", None);
    }
}

#[test]
fn every_stage_in_postgresql_of_the_version_before_is_finished() {
    let Some(cluster) = Cluster::shared() else { return harvest_testing::skip(cluster::WITHOUT) };
    if is_inside("every_stage_in_postgresql_of_the_version_before_is_finished") {
        tested("postgresql", Some(cluster));
    }
}
