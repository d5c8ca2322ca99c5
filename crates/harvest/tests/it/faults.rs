//! What is around Harvest goes away and comes back: room on the disk, the database, the model, time itself. Each state can be
//! seen, and the work goes on by itself afterwards.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agents::Vendor;
use crate::chance::number;
use crate::cluster::{self, Cluster};
use crate::killed::journal;
use crate::reattach::wait_until;
use crate::support::{FIX, World};

fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

/// Steps of a second each, of which only the first writes anything in the workspace.
fn steps(many: usize) -> Value {
    let step = |number: usize| json!({ "say": format!("Step {number}."), "shell": format!("sleep 1; echo {number}") });
    Value::Array([json!({ "shell": FIX })].into_iter().chain((1..many).map(step)).chain([json!({})]).collect())
}

/// Completed in its first try, by one agent that nobody started again.
#[track_caller]
fn assert_undisturbed(world: &World, task: &str, shown: &Value, events: &[Value]) {
    let counts = ["agent.started", "task.retried", "task.finished"].map(|kind| count(events, kind));
    assert_eq!((shown["status"].as_str(), counts), (Some("completed"), [1, 0, 1]), "{task}: {shown:#}\n{events:#?}");
    assert_eq!(world.show(&format!("{}:src/two.sh", shown["branch"].as_str().unwrap())), "echo two");
}

/// The reason that a test gives when it skips itself for want of a disk.
pub const CANNOT_MOUNT: &str = "only root can mount a file system for it";

/// A disk of its own, of any size at any time.
pub struct Disk(PathBuf);

impl Disk {
    /// `None` for those who may not mount anything.
    pub fn at(path: PathBuf) -> Option<Self> {
        fs::create_dir_all(&path).unwrap();
        let disk = Self(path);
        if disk.mount(&["-t", "tmpfs", "-o", "size=2g,mode=700", "tmpfs"]) {
            return Some(disk);
        }
        std::mem::forget(disk);
        None
    }

    pub fn mount(&self, args: &[&str]) -> bool {
        // It may be busy, which is no news.
        let mut mount = Command::new("mount");
        mount.env_clear().args(args).arg(&self.0).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// Not a page more than is in use.
    pub fn fill(&self) {
        // Whoever is at work there may take some more meanwhile.
        wait_until("it is full", || {
            let stat = rustix::fs::statvfs(&self.0).unwrap();
            let used = (stat.f_blocks - stat.f_bfree) * stat.f_frsize;
            self.mount(&["-o", &format!("remount,size={}k", used / 1024 + 4)])
        });
    }

    pub fn make_room(&self) {
        assert!(self.mount(&["-o", "remount,size=2g"]));
    }

    /// While it is mounted every process seems to have to do with it, so those that have are looked for by name.
    pub fn assert_nothing_left(&self, world: &World) {
        wait_until("no sandbox is left", || world.runners().is_empty());
        for folder in ["sandboxes/local", "owners", "workspaces"] {
            let left = fs::read_dir(self.0.join(folder)).into_iter().flatten().flatten().map(|entry| entry.file_name());
            let left: Vec<_> = left.filter(|name| !name.to_string_lossy().starts_with('.')).collect();
            assert!(left.is_empty(), "left behind: {left:?}");
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").env_clear().arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_told_and_waited_out() {
    let world = World::new();
    world.without_spares();
    let Some(disk) = Disk::at(world.data()) else { return harvest_testing::skip(CANNOT_MOUNT) };
    let script = world.script(&steps(8));
    let tasks: Vec<String> = (0..2).map(|number| world.add_task(&format!("Task {number}"))).collect();
    let mut running = world.worker(&script, &["--agents", "2", "--until-empty", "--lease", "10s"]).start();
    wait_until("both work", || tasks.iter().all(|task| count(&journal(&world, task), "tool.result") >= 2));
    let before = world.agents();
    disk.fill();
    let why = running.wait_for_type("holding")["why"].as_str().unwrap().to_owned();
    println!("while it is full: {why}");
    assert!(why.contains("HV-"), "{why}");
    let status = world.json(&["status"]);
    assert!(status["holding"][0].as_str().unwrap_or_default().contains("HV-"), "{status:#}");
    println!("status says: {}", status["holding"][0]);
    // Long enough for the agents to notice that nothing they say can be kept.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(world.agents(), before, "they wait");
    disk.make_room();
    let ran = running.finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    for task in &tasks {
        assert_undisturbed(&world, task, &world.json(&["task", "show", task]), &journal(&world, task));
    }
    disk.assert_nothing_left(&world);
}

#[test]
fn a_data_directory_that_cannot_be_written_is_refused_by_name() {
    let world = World::new();
    let Some(disk) = Disk::at(world.data()) else { return harvest_testing::skip(CANNOT_MOUNT) };
    let task = world.add_task("Mend it");
    assert!(disk.mount(&["-o", "remount,ro"]));
    let script = world.script(&json!([{ "shell": FIX }, {}]));
    for args in [&["up", "--until-empty"] as &[&str], &["task", "add", "Another"]] {
        let refused = world.harvest(args).finish();
        assert!(refused.exit.is_some_and(|exit| exit != 0), "{args:?}: {refused:?}");
        assert!(refused.stderr.starts_with("error[HV-"), "{args:?}: {refused:?}");
        println!("{args:?}: {}", refused.stderr);
    }
    assert!(disk.mount(&["-o", "remount,rw"]));
    let ran = world.worker(&script, &["--until-empty"]).finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert_eq!(world.tasks().len(), 1, "nothing was changed");
    assert_eq!(world.json(&["task", "show", &task])["status"], "completed");
    disk.assert_nothing_left(&world);
}

/// With people in front of it, who are told.
#[test]
fn a_server_says_that_its_database_is_away_and_goes_on_when_it_is_back() {
    let Some(cluster) = Cluster::private() else { return harvest_testing::skip(cluster::WITHOUT) };
    let world = World::new();
    world.without_spares();
    let url = cluster.url("postgres");
    let database = ["--database-url", url.as_str()];
    let token = world.token(&["--role", "admin", "--name", "ci", "--database-url", &url]);
    let script = world.script(&steps(8));
    let server = world.serve(&["--model-script", script.to_str().unwrap(), database[0], database[1]]);
    let client = server.with(&token);
    let task = client.post("/api/tasks", &world.ask("Mend it")).ok();
    let (id, session) = (task["id"].as_str().unwrap(), task["sessions"][0]["id"].as_str().unwrap());
    wait_until("it works", || world.agents().len() == 1);
    let before = world.agents();
    cluster.down();
    let readiness = || server.anyone().get("/readyz");
    wait_until("it says so", || readiness().status == 503);
    println!("while it is away: {}", readiness().text);
    assert_eq!(server.anyone().get("/healthz").status, 200);
    assert!(client.get(&format!("/api/tasks/{id}")).status >= 500);
    assert_eq!(world.agents(), before, "its agent is still there");
    let back = Instant::now();
    cluster.up();
    wait_until("it is back", || readiness().status == 200);
    println!("ready again {:?} after the database", back.elapsed());
    wait_until("it has ended", || client.get(&format!("/api/tasks/{id}")).ok()["finished_at"].is_string());
    let events = client.journal(session, 0);
    assert_undisturbed(&world, id, &client.get(&format!("/api/tasks/{id}")).ok(), &events);
}

/// Leads to a host while it is open.
struct Door {
    address: String,
    open: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Door {
    fn to(host: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (open, host) = (Arc::new(AtomicBool::new(true)), host.trim_start_matches("http://").to_owned());
        let connections: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let (is_open, known) = (open.clone(), connections.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if is_open.load(Ordering::Relaxed) {
                    let Ok(host) = TcpStream::connect(&host) else { continue };
                    copy(&client, &host);
                    copy(&host, &client);
                    known.lock().unwrap().push(client);
                }
            }
        });
        Self { address, open, connections }
    }

    fn shut(&self) {
        self.open.store(false, Ordering::Relaxed);
        for connection in self.connections.lock().unwrap().drain(..) {
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
    }

    fn open(&self) {
        self.open.store(true, Ordering::Relaxed);
    }
}

fn copy(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}

/// `HARVEST_TEST_OUTAGE=60` has it last a minute.
#[test]
fn a_model_that_is_out_for_a_while_costs_time_and_no_task() {
    let outage = Duration::from_secs(number("HARVEST_TEST_OUTAGE").unwrap_or(8));
    let world = World::new();
    world.without_spares();
    let replies = json!([{ "shell": FIX }, { "shell": "sleep 2; echo slept" }, { "expect": "slept", "say": "Done." }]);
    let conversations = json!([{ "when_prompt_contains": "Mend it", "replies": replies }, { "replies": [{}] }]);
    let vendor = Vendor::playing(&world, &json!({ "model": "claude-sonnet-4-5", "conversations": conversations }));
    let door = Door::to(&vendor.address);
    let up = |args: &[&str]| {
        let all = [&["up", "--json", "--until-empty"], args].concat();
        let address = format!("{}/anthropic", door.address);
        world.harvest(&all).env("ANTHROPIC_BASE_URL", &address).env("ANTHROPIC_API_KEY", "made-up-for-this-test")
    };
    let task = world.add_task("Mend it");
    let running = up(&[]).start();
    wait_until("it works", || count(&journal(&world, &task), "tool.call") == 2);
    door.shut();
    std::thread::sleep(outage);
    door.open();
    let ran = running.finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let events = journal(&world, &task);
    assert_undisturbed(&world, &task, &world.json(&["task", "show", &task]), &events);
    let troubles: Vec<&Value> = events.iter().filter(|event| event["type"] == "model.trouble").collect();
    assert!(!troubles.is_empty(), "{events:#?}");
    println!("a model that was out for {outage:?}: {} and {} more", troubles[0]["data"], troubles.len() - 1);
    world.assert_nothing_left();
}

/// Debian's libfaketime, where it is installed.
pub fn faketime() -> Option<PathBuf> {
    let path = Path::new("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1");
    path.exists().then(|| path.to_owned())
}

/// The clock of a worker jumps, forward by a day and back again: leases and times are the clock's, and nothing is lost by it.
#[test]
fn a_clock_that_jumps_costs_nothing() {
    let Some(library) = faketime() else {
        return harvest_testing::skip("libfaketime is not installed");
    };
    let world = World::new();
    world.without_spares();
    let offset = world.path().join("offset");
    fs::write(&offset, "+0").unwrap();
    let script = world.script(&steps(8));
    let task = world.add_task("Mend it");
    let running = world
        .worker(&script, &["--until-empty", "--lease", "3s"])
        .env("LD_PRELOAD", library.to_str().unwrap())
        .env("FAKETIME_TIMESTAMP_FILE", offset.to_str().unwrap())
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .start();
    for (jump, results) in [("+1d", 2), ("-1d", 4), ("+0", 6)] {
        wait_until("it works", || count(&journal(&world, &task), "tool.result") >= results);
        fs::write(&offset, jump).unwrap();
    }
    let ran = running.finish();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert_undisturbed(&world, &task, &world.json(&["task", "show", &task]), &journal(&world, &task));
    world.assert_nothing_left();
}

/// A library that makes writing to the database fail while a file says so; the file names the error.
const BREAK_DISK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
static int broken(int fd) {
    char link[64], path[4096];
    const char *flag = getenv("BREAK_FLAG");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (!flag || length < 0) return 0;
    path[length] = 0;
    if (!strstr(path, "/harvest.db")) return 0;
    FILE *file = fopen(flag, "r");
    if (!file) return 0;
    int number = 0;
    if (fscanf(file, "%d", &number) != 1) number = 0;
    fclose(file);
    errno = number;
    return number;
}
#define BREAK(result, name, types, values) \
    result name types { \
        static result (*real) types; \
        if (!real) real = (result (*) types) dlsym(RTLD_NEXT, #name); \
        return broken(fd) ? -1 : real values; \
    }
BREAK(ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size))
BREAK(ssize_t, pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at))
BREAK(ssize_t, pwrite64, (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at))
BREAK(int, fsync, (int fd), (fd))
BREAK(int, fdatasync, (int fd), (fd))
"#;

/// What every user can have, unlike a full disk: an error of the disk in the middle of the work, and no room for the database.
#[test]
fn a_disk_that_fails_under_the_database_is_told_and_waited_out() {
    let world = World::new();
    let library = world.path().join("break.so");
    let source = world.path().join("break.c");
    fs::write(&source, BREAK_DISK).unwrap();
    let made =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).arg("-ldl").status().unwrap();
    assert!(made.success());
    for (name, error) in
        [("EIO", libc_number(rustix::io::Errno::IO)), ("ENOSPC", libc_number(rustix::io::Errno::NOSPC))]
    {
        let world = World::new();
        world.without_spares();
        let flag = world.path().join("broken");
        let script = world.script(&steps(8));
        let task = world.add_task("Mend it");
        let mut running = world
            .worker(&script, &["--until-empty", "--lease", "10s"])
            .env("LD_PRELOAD", library.to_str().unwrap())
            .env("BREAK_FLAG", flag.to_str().unwrap())
            .start();
        wait_until("it works", || count(&journal(&world, &task), "tool.result") >= 2);
        let before = world.agents();
        fs::write(&flag, error.to_string()).unwrap();
        let why = running.wait_for_type("holding")["why"].as_str().unwrap().to_owned();
        println!("with {name}: {why}");
        assert!(why.contains("HV-"), "{why}");
        assert_eq!(world.agents(), before, "{name}: its agent waits");
        fs::remove_file(&flag).unwrap();
        let ran = running.finish();
        assert_eq!(ran.exit, Some(0), "{name}: {ran:?}");
        assert_undisturbed(&world, &task, &world.json(&["task", "show", &task]), &journal(&world, &task));
        world.assert_nothing_left();
    }
}

fn libc_number(error: rustix::io::Errno) -> i32 {
    error.raw_os_error()
}

/// GitHub asks for patience, fails, and loses answers to what it has done: there is one pull request and one comment.
#[test]
fn row_33_a_host_that_refuses_or_loses_its_answers_gets_one_pull_request() {
    use crate::github::{Hub, wait_for};
    let world = World::new();
    let hub = Hub::new(&world);
    let script = world.path().join("github.json");
    let conversations = json!([{ "replies": [{ "shell": FIX }, { "say": "Mended." }] }]);
    fs::write(&script, json!({ "conversations": conversations }).to_string()).unwrap();
    let server = world.serve(&["--agents", "1", "--model-script", script.to_str().unwrap()]);
    hub.tell(&server);
    for (method, path) in [("POST", "/issues/1/comments"), ("POST", "/pulls"), ("PATCH", "/pulls/2")] {
        hub.fake.lose_next_answer(method, path);
    }
    let ada = hub.person("ada");
    ada.post("/issues", &json!({ "title": "Make the failing test pass", "labels": ["harvest"] })).ok();
    hub.fake.refuse_next(1, 429, &[("retry-after", "1")]);
    hub.fake.refuse_next(2, 500, &[]);
    hub.status("Done");
    wait_for(|| world.tasks().into_iter().next().filter(|task| task["status"] == "completed"));
    assert_eq!(hub.calls("POST", "/pulls"), 1);
    assert_eq!(hub.calls("POST", "/issues/1/comments"), 1, "the status is one comment");
    let branches =
        crate::support::git(&hub.repository(), &["for-each-ref", "--format=%(refname)", "refs/heads/harvest"]);
    assert_eq!(branches.lines().count(), 1, "{branches}");
}
