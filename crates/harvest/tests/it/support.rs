//! A world of its own for every test: a home, a data directory, a repository, scripts, and `harvest` with deadlines.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use harvest_store::{Sqlite, Store};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::journals;
use crate::planted::{self, Planted};
use crate::secret_scan::Scanned;

pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Nothing takes longer, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// What was killed is gone by then.
const DYING: Duration = Duration::from_secs(10);

/// Runs every file below `tests/` and says how many passed.
pub const TEST_SCRIPT: &str = r#"passed=0 failed=0
for test in tests/*.sh; do
    if sh "$test"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
"#;
/// The repair of the sample repository.
pub const FIX: &str = "printf 'echo two\\n' > src/two.sh";

pub struct World {
    folder: TempDir,
    /// Of a PostgreSQL, where it does not keep its own.
    database: Option<String>,
    planted: Arc<Planted>,
}

impl World {
    /// With the sample repository: one test passes, one fails.
    pub fn new() -> Self {
        Self::empty().with_sample()
    }

    pub fn with_sample(self) -> Self {
        let world = self;
        let repository = world.repo();
        init(&repository);
        for (name, content) in [
            ("test.sh", TEST_SCRIPT),
            ("src/one.sh", "echo one\n"),
            ("src/two.sh", "echo three\n"),
            ("tests/one.sh", "[ \"$(sh src/one.sh)\" = one ]\n"),
            ("tests/two.sh", "[ \"$(sh src/two.sh)\" = two ]\n"),
        ] {
            world.write(name, content);
        }
        world.commit("Start");
        world
    }

    pub fn empty() -> Self {
        Self::in_folder(tempfile::Builder::new().prefix("hv").tempdir_in("/tmp").unwrap())
    }

    pub fn in_folder(folder: TempDir) -> Self {
        for name in ["home", "repo"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let planted = Arc::new(Planted::at_home(&folder.path().join("home")));
        Self { folder, database: None, planted }
    }

    /// What is asked of it is kept there.
    pub fn on_database(mut self, url: String) -> Self {
        self.planted.uses_database(&url);
        self.database = Some(url);
        self
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    pub fn repo(&self) -> PathBuf {
        self.path().join("repo")
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.repo().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn commit(&self, message: &str) -> String {
        git(&self.repo(), &["add", "--all"]);
        git(&self.repo(), &["commit", "--quiet", "--allow-empty", "--message", message]);
        self.head()
    }

    pub fn head(&self) -> String {
        git(&self.repo(), &["rev-parse", "HEAD"])
    }

    pub fn show(&self, revision: &str) -> String {
        git(&self.repo(), &["show", revision])
    }

    /// A model that gives these replies to everyone, at one dollar per thousand tokens.
    pub fn script(&self, replies: &Value) -> PathBuf {
        self.script_file("script.yaml", replies)
    }

    pub fn script_file(&self, name: &str, replies: &Value) -> PathBuf {
        let script = json!({
            "price": { "input_per_mtok": 1000.0, "output_per_mtok": 1000.0 },
            "conversations": [{ "replies": replies }],
        });
        let path = self.path().join(name);
        fs::write(&path, script.to_string()).unwrap();
        path
    }

    pub fn harvest<S: AsRef<OsStr>>(&self, args: &[S]) -> Harvest {
        self.harvest_at(&self.data(), args)
    }

    pub fn harvest_at<S: AsRef<OsStr>>(&self, data: &Path, args: &[S]) -> Harvest {
        self.planted.uses_data(data);
        let mut command = Command::new(env!("CARGO_BIN_EXE_harvest"));
        command
            .env_clear()
            .envs([("PATH", PATH), ("LANG", "C.UTF-8")])
            .env("HOME", self.home())
            .envs(planted::VARIABLES)
            .envs(self.database.iter().map(|url| ("HARVEST_DATABASE_URL", url)))
            .current_dir(self.repo())
            .arg("--data-dir")
            .arg(data)
            .args(args);
        Harvest { command, input: Stdio::null(), planted: self.planted.clone() }
    }

    /// `harvest run PROMPT --model-script … --json` with more arguments.
    pub fn run_with(&self, replies: &Value, args: &[&str]) -> Harvest {
        let script = self.script(replies);
        let mut harvest = self.harvest(&["run", "Make the failing test pass", "--json", "--model-script"]);
        harvest.command.arg(script).args(args);
        harvest
    }

    /// The same to its end.
    pub fn run(&self, replies: &Value, args: &[&str]) -> Ran {
        self.run_with(replies, args).finish()
    }

    /// The answer of a command that must succeed, as JSON.
    pub fn json(&self, args: &[&str]) -> Value {
        let ran = self.harvest(args).args(&["--json"]).finish();
        assert_eq!(ran.exit, Some(0), "{args:?}: {ran:?}");
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {}", ran.stdout))
    }

    pub fn tasks(&self) -> Vec<Value> {
        self.json(&["task", "list"])["items"].as_array().unwrap().clone()
    }

    /// The tasks that have not ended, as far as can be told.
    fn unfinished(&self) -> Vec<String> {
        let listed = self.harvest(&["task", "list", "--json"]).command.output();
        let listed = listed.ok().and_then(|output| serde_json::from_slice::<Value>(&output.stdout).ok());
        let tasks = listed.as_ref().and_then(|listed| listed["items"].as_array().cloned()).unwrap_or_default();
        let open = tasks.iter().filter(|task| task["finished_at"].is_null());
        open.filter_map(|task| task["id"].as_str().map(str::to_owned)).collect()
    }

    /// Nothing of any sandbox is left: no process, mount, folder, lock or record.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        let begun = Instant::now();
        let mut left = self.leftovers();
        // What dies with its parent has been killed when that ends, and needs a moment to be gone.
        while !left.is_empty() && left.iter().all(|one| one.starts_with("process ")) && begun.elapsed() < DYING {
            std::thread::sleep(Duration::from_millis(20));
            left = self.leftovers();
        }
        assert!(left.is_empty(), "left behind: {left:#?}");
    }

    /// A secret that it must not keep in clear.
    pub fn give(&self, secret: &str) {
        self.planted.give(secret);
    }

    /// Looks for secrets in everything that there is of it.
    pub fn scan(&self) -> Scanned {
        self.planted.scan(self.path(), &self.home(), &self.all_runtime_folders())
    }

    /// Where the sockets of its sandboxes are, as long as there are any.
    fn runtime_folders(&self) -> Vec<PathBuf> {
        runtime_folders(&[self.data()])
    }

    /// The same of every data directory that it used.
    fn all_runtime_folders(&self) -> Vec<PathBuf> {
        runtime_folders(&self.planted.data_folders())
    }

    pub fn leftovers(&self) -> Vec<String> {
        let mut left = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(pid) = name.parse::<u32>() else { continue };
            if pid == std::process::id() {
                continue;
            }
            // A process of a sandbox has the sandbox's mounts, whatever it calls itself.
            for file in ["mountinfo", "cmdline"] {
                let text = fs::read(entry.path().join(file)).unwrap_or_default();
                let text = String::from_utf8_lossy(&text).replace('\0', " ");
                if text.contains(&*self.path().to_string_lossy()) {
                    let line = text.lines().find(|line| line.contains(&*self.path().to_string_lossy()));
                    left.push(format!("process {pid} {file}: {}", line.unwrap_or_default()));
                }
            }
        }
        let data = self.data();
        for folder in ["sandboxes/local", "sandboxes/none", "owners", "interrupts", "workspaces"] {
            left.extend(visible(&data.join(folder)));
        }
        left.extend(self.runtime_folders().iter().map(|folder| folder.display().to_string()));
        let database = data.join("harvest.db");
        if database.exists() {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let (owners, sandboxes) = runtime.block_on(async {
                let store = Sqlite::open(&database).unwrap();
                (store.owners().await.unwrap(), store.sandboxes().await.unwrap())
            });
            left.extend(owners.iter().map(|owner| format!("{owner:?}")));
            left.extend(sandboxes.iter().map(|sandbox| format!("{sandbox:?}")));
        }
        left
    }
}

impl Drop for World {
    /// A test that failed may have left a sandbox; nobody else should suffer from it.
    fn drop(&mut self) {
        if !visible(&self.data().join("owners")).is_empty() {
            // Agents of a worker that was killed wait for the next one, which will not come.
            for task in self.unfinished() {
                let _ = self
                    .harvest(&["task", "cancel", &task])
                    .command
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status();
            }
            let _ = self.harvest(&["task", "list"]).command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
        let scanned = (!std::thread::panicking()).then(|| self.scan());
        journals::keep(&self.data());
        // The system gives the number of this data directory to another.
        for folder in self.all_runtime_folders() {
            let _ = fs::remove_dir_all(folder);
        }
        if let Some(scanned) = scanned {
            planted::report(&scanned);
            assert!(scanned.found.is_empty(), "secrets were left: {:#?}", scanned.found);
        }
    }
}

fn runtime_folders(data: &[PathBuf]) -> Vec<PathBuf> {
    let own = data.iter().filter_map(|data| fs::metadata(data).ok());
    let names: Vec<String> = own.map(|data| format!("{:x}-{:x}", data.dev(), data.ino())).collect();
    let places = ["/run/harvest".to_owned(), format!("/tmp/harvest-{}", uid())];
    let folders = places.iter().flat_map(|place| names.iter().map(|name| Path::new(place).join(name)));
    folders.filter(|folder| folder.exists()).collect()
}

pub fn uid() -> u32 {
    rustix::process::getuid().as_raw()
}

fn visible(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.filter_map(Result::ok).filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    names.map(|entry| entry.path().display().to_string()).collect()
}

/// Plain git with no one's settings.
#[track_caller]
pub fn git<S: AsRef<OsStr>>(directory: &Path, args: &[S]) -> String {
    let output = try_git(directory, args);
    let shown: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
    assert!(output.status.success(), "git {shown:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

pub fn try_git<S: AsRef<OsStr>>(directory: &Path, args: &[S]) -> std::process::Output {
    Command::new("git")
        .env_clear()
        .envs([
            ("PATH", PATH),
            ("HOME", "/nonexistent"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
        ])
        .envs([("GIT_AUTHOR_NAME", "Ada"), ("GIT_AUTHOR_EMAIL", "ada@example.com")])
        .envs([("GIT_COMMITTER_NAME", "Ada"), ("GIT_COMMITTER_EMAIL", "ada@example.com")])
        .args(args)
        .current_dir(directory)
        .output()
        .unwrap()
}

pub fn init(directory: &Path) {
    git(directory, &["init", "--quiet", "--initial-branch=main"]);
}

/// `harvest`, about to be started.
pub struct Harvest {
    pub command: Command,
    input: Stdio,
    planted: Arc<Planted>,
}

impl Harvest {
    pub fn args<S: AsRef<OsStr>>(mut self, args: &[S]) -> Self {
        self.command.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.planted.give_variable(name, value);
        self.command.env(name, value);
        self
    }

    /// What it reads from standard input.
    pub fn input(mut self, text: &str) -> Self {
        if self.command.get_args().any(|arg| arg == "credential") {
            self.planted.give(text);
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.rewind().unwrap();
        self.input = file.into();
        self
    }

    pub fn current_dir(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// As a shell starts it that puts it into the background: SIGINT is ignored.
    pub fn deaf_to_interrupts(mut self) -> Self {
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", "trap '' INT; exec \"$@\"", "sh"])
            .arg(self.command.get_program())
            .args(self.command.get_args());
        shell.env_clear().envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = self.command.get_current_dir() {
            shell.current_dir(folder);
        }
        self.command = shell;
        self
    }

    pub fn start(mut self) -> Running {
        let args: Vec<_> = self.command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
        for pair in args.windows(2).filter(|pair| pair[0] == "--database-url") {
            self.planted.uses_database(&pair[1]);
        }
        let mut child = self.command.stdin(self.input).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (send, lines) = channel();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Running { child, lines, seen: Vec::new(), stderr: Some(stderr) }
    }

    pub fn finish(self) -> Ran {
        self.start().finish()
    }
}

/// `harvest` at work.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
    stderr: Option<JoinHandle<String>>,
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for an event on standard output.
    #[track_caller]
    pub fn wait_for(&mut self, what: &str, matches: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let event: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
                    self.seen.push(line);
                    if matches(&event) {
                        return event;
                    }
                }
                Err(error) => {
                    let stderr = if error == RecvTimeoutError::Disconnected { self.stderr() } else { String::new() };
                    panic!("{what} did not come ({error}):\n{}\n{stderr}", self.seen.join("\n"));
                }
            }
        }
    }

    /// The first line that contains this text.
    #[track_caller]
    pub fn wait_for_line(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let line = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|error| panic!("no line with `{text}`: {error}; seen: {:#?}", self.seen));
            self.seen.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    #[track_caller]
    pub fn wait_for_type(&mut self, kind: &str) -> Value {
        self.wait_for(kind, |event| event["type"] == kind)
    }

    fn stderr(&mut self) -> String {
        self.stderr.take().map(|reader| reader.join().unwrap()).unwrap_or_default()
    }

    /// However long it takes, as long as it goes on saying something.
    #[track_caller]
    pub fn finish(mut self) -> Ran {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.seen.push(line);
        }
        let status = self.wait(Instant::now() + PATIENCE);
        let stdout: String = self.seen.iter().map(|line| format!("{line}\n")).collect();
        let stderr = self.stderr();
        planted::assert_absent("standard output", &stdout);
        planted::assert_absent("the log", &stderr);
        Ran { exit: status.code(), status, stdout, stderr }
    }

    #[track_caller]
    fn wait(&mut self, deadline: Instant) -> ExitStatus {
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "harvest did not end:\n{}", self.seen.join("\n"));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// How it ended.
#[derive(Debug)]
pub struct Ran {
    /// `None` when a signal ended it.
    pub exit: Option<i32>,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Every line of standard output; all of them must be events with gapless numbers.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        let events: Vec<Value> = self
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect();
        assert_gapless(&events);
        events
    }

    #[track_caller]
    pub fn of_type(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["type"] == kind).map(|event| event["data"].clone()).collect()
    }

    /// The data of `task.finished`, which must be the last event and the only one of its kind.
    #[track_caller]
    pub fn outcome(&self) -> Value {
        let events = self.events();
        let ends = events.iter().filter(|event| event["type"] == "task.finished").count();
        assert_eq!(ends, 1, "{self:?}");
        let last = events.last().unwrap();
        assert_eq!(last["type"], "task.finished", "{self:?}");
        last["data"].clone()
    }

    /// Status, reason and exit code at once.
    #[track_caller]
    pub fn assert_ended(&self, exit: i32, status: &str, reason: Option<&str>) -> Value {
        let outcome = self.outcome();
        let ended = (self.exit, outcome["status"].as_str(), outcome["reason"].as_str());
        assert_eq!(ended, (Some(exit), Some(status), reason), "{}\n{:#}", self.stderr, outcome);
        outcome
    }

    /// What the agent's tools said, in order.
    #[track_caller]
    pub fn tool_outputs(&self) -> Vec<String> {
        self.of_type("tool.result").iter().map(|data| data["output"].as_str().unwrap().to_owned()).collect()
    }
}

#[track_caller]
pub fn assert_gapless(events: &[Value]) {
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], index + 1, "{event}");
        assert!(event["at"].as_str().unwrap().ends_with('Z'), "{event}");
        assert_eq!(event["session_id"], events[0]["session_id"], "{event}");
        assert_eq!(event.as_object().unwrap().len(), 5, "{event}");
    }
}

/// Every file below a folder with its kind, mode, time and content.
pub fn fingerprint(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    collect(folder, folder, &mut found);
    found
}

fn collect(root: &Path, folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let name = path.strip_prefix(root).unwrap().to_owned();
        if metadata.is_dir() {
            found.insert(name, format!("folder {:o}", metadata.mode()));
            collect(root, &path, found);
        } else {
            let content = fs::read(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&content).into_owned();
            let time = (metadata.mtime(), metadata.mtime_nsec());
            found.insert(name, format!("{:o} {time:?} {text}", metadata.mode()));
        }
    }
}

/// The type of a value and, for objects, of everything in it.
pub fn schema(value: &Value) -> Value {
    match value {
        Value::Null => json!("null"),
        Value::Bool(_) => json!("boolean"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("string"),
        Value::Array(items) => json!(items.first().map(|item| vec![schema(item)]).unwrap_or_default()),
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, Value> = fields.iter().map(|(name, value)| (name, schema(value))).collect();
            json!(sorted)
        }
    }
}
