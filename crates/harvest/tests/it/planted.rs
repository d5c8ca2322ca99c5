//! Every world is planted with secrets that Harvest has no use for, in its environment and in the person's home. They must
//! come out nowhere: not in what is printed or answered, and not in anything that is left when the world ends. Secrets that
//! a test itself gives to Harvest must not be left in the data directory either.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::secret_scan::{Scanned, Scanner};
use crate::support::PATH;

/// Variables of every `harvest` that a test starts.
pub const VARIABLES: [(&str, &str); 2] = [
    ("AWS_SECRET_ACCESS_KEY", "kestrel/of+the+environment/0123456789ab"),
    ("NPM_TOKEN", "npm_kestrelOfTheEnvironment0123456789abcd"),
];
/// Files of every home, with the secret in each.
const FILES: [(&str, &str, &str); 4] = [
    (".netrc", "machine kestrel.example login ada password ", "kestrel-of-netrc-0123456789"),
    (".git-credentials", "https://ada@kestrel.example:", "kestrel-of-git-0123456789"),
    (".aws/credentials", "[default]\naws_secret_access_key = ", "kestrel+of/the/aws/0123456789abcdefghij"),
    (
        ".ssh/id_ed25519",
        "-----BEGIN OPENSSH PRIVATE KEY-----\n",
        "a2VzdHJlbC1vZi1zc2gtMDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u",
    ),
];
/// `scripts/test` names a file here, which gets a line for each world that was scanned.
const SCANNED: &str = "HARVEST_TEST_SCANNED";
/// A shorter value is no secret but a placeholder, which may occur anywhere.
const SHORTEST: usize = 16;

fn secrets() -> impl Iterator<Item = &'static str> {
    VARIABLES.iter().map(|(_, secret)| *secret).chain(FILES.iter().map(|(_, _, secret)| *secret))
}

/// The planted secrets do not occur in this.
#[track_caller]
pub fn assert_absent(from: &str, text: &str) {
    for secret in secrets() {
        assert!(!text.contains(secret), "a planted secret came out of {from}: {text}");
    }
}

/// What a world was given, and where it may have left it.
#[derive(Debug, Default)]
pub struct Planted {
    given: Mutex<BTreeSet<String>>,
    data: Mutex<BTreeSet<PathBuf>>,
    databases: Mutex<BTreeSet<String>>,
}

impl Planted {
    pub fn at_home(home: &Path) -> Self {
        for (name, before, secret) in FILES {
            let file = home.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{before}{secret}\n")).unwrap();
        }
        Self::default()
    }

    /// A secret of the test's own that Harvest gets and must not keep in clear.
    pub fn give(&self, secret: &str) {
        for line in secret.lines().filter(|line| line.len() >= SHORTEST && !line.starts_with("-----")) {
            self.given.lock().unwrap().insert(line.to_owned());
        }
    }

    /// A value of the environment is a secret if its name says so.
    pub fn give_variable(&self, name: &str, value: &str) {
        if ["_KEY", "_TOKEN", "_SECRET", "_PASSWORD"].iter().any(|end| name.ends_with(end)) {
            self.give(value);
        }
    }

    pub fn uses_data(&self, folder: &Path) {
        self.data.lock().unwrap().insert(folder.to_owned());
    }

    pub fn data_folders(&self) -> Vec<PathBuf> {
        self.data.lock().unwrap().iter().cloned().collect()
    }

    pub fn uses_database(&self, url: &str) {
        self.databases.lock().unwrap().insert(url.to_owned());
    }

    /// Looks at all that a world left below `world`, where its `home` is, and at `others`.
    pub fn scan(&self, world: &Path, home: &Path, others: &[PathBuf]) -> Scanned {
        let (given, data) = (self.given.lock().unwrap().clone(), self.data.lock().unwrap().clone());
        let wanted: Vec<String> = secrets().map(str::to_owned).chain(given).collect();
        let scanner = Scanner::new(wanted.iter().map(String::as_str));
        let below = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let planted = |path: &PathBuf| FILES.iter().any(|(name, ..)| home.join(name).starts_with(path));
        let mut places: Vec<PathBuf> = below(world).filter(|path| path != home).collect();
        places.extend(below(home).filter(|path| !planted(path)));
        places.extend(data.iter().filter(|folder| !folder.starts_with(world)).cloned());
        places.extend(others.iter().cloned());
        let places: Vec<&Path> = places.iter().map(PathBuf::as_path).collect();
        let mut scanned = scanner.look_below(&places);
        for url in &*self.databases.lock().unwrap() {
            scanner.stream(&dump(url), &Path::new("(database)").join("(values)"), 0, &mut scanned);
        }
        // What a test itself wrote beside the data directory may hold what it gives to Harvest; and what is in the person's
        // repository, by a commit or by an agent's work, is in Harvest's copies of it.
        let repository = world.join("repo");
        let secret_of = |line: &str| line.rsplit_once(": ").map(|(_, secret)| secret.to_owned()).unwrap_or_default();
        let in_repository: BTreeSet<String> = scanned
            .found
            .iter()
            .filter(|line| Path::new(line).starts_with(&repository))
            .map(|line| secret_of(line))
            .collect();
        let is_copy = |place: &Path, folder: &Path| {
            ["mirrors", "sessions", "snapshots", "workspaces"]
                .iter()
                .any(|copies| place.starts_with(folder.join(copies)))
        };
        scanned.found.retain(|line| {
            let (place, secret) = (Path::new(line), secret_of(line));
            let is_public = in_repository.contains(&secret);
            let is_kept = place.starts_with("(database)")
                || data.iter().any(|folder| place.starts_with(folder) && !(is_public && is_copy(place, folder)));
            secrets().any(|planted| planted == secret) || is_kept
        });
        scanned
    }
}

/// Everything in a PostgreSQL; nothing, when it is away.
fn dump(url: &str) -> Vec<u8> {
    let mut dump = Command::new("pg_dump");
    dump.env_clear().env("PATH", PATH).args(["--data-only", "--dbname", url]).output().unwrap().stdout
}

/// Tells `scripts/test` of a world that was scanned.
pub fn report(scanned: &Scanned) {
    let Some(path) = std::env::var_os(SCANNED) else { return };
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // One write of one line: tests of several threads append to the same file.
    let line = format!("{test}\t{}\t{}\n", scanned.bytes, scanned.found.len());
    if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path) {
        let _ = file.write_all(line.as_bytes());
    }
}

/// The scan of a world finds what is planted there, wherever it comes to lie.
#[test]
fn a_world_that_leaves_a_planted_secret_is_found_out() {
    let world = crate::support::World::empty();
    let clean = world.scan();
    assert_eq!(clean.found, Vec::<String>::new());
    for (place, secret) in [("data/log", FILES[0].2), ("backup.txt", VARIABLES[0].1), ("home/.local/state", FILES[3].2)]
    {
        let file = world.path().join(place);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, format!("before {secret} after")).unwrap();
        assert_eq!(world.scan().found, [format!("{}: {secret}", file.display())]);
        fs::remove_file(&file).unwrap();
    }
    let mut command = world.harvest(&["credential", "add"]).env("OPENAI_API_KEY", "given-by-the-test-0123456789");
    command = command.input("typed-by-the-test-0123456789\n");
    drop(command);
    fs::create_dir_all(world.data()).unwrap();
    for secret in ["given-by-the-test-0123456789", "typed-by-the-test-0123456789"] {
        fs::write(world.path().join("beside"), secret).unwrap();
        assert_eq!(world.scan().found, Vec::<String>::new(), "what a test writes itself");
        fs::write(world.data().join("kept"), secret).unwrap();
        assert_eq!(world.scan().found.len(), 1, "{secret}");
        fs::remove_file(world.data().join("kept")).unwrap();
    }
}

/// So does the scan of its database, if that is a PostgreSQL.
#[test]
fn a_planted_secret_is_found_in_a_postgresql() {
    use crate::cluster::{Cluster, WITHOUT};
    let Some(cluster) = Cluster::shared() else { return harvest_testing::skip(WITHOUT) };
    let url = cluster.url("postgres");
    let psql = |command: &str| {
        let args = ["--quiet", "--dbname", &url, "--command", command];
        let output = Command::new("psql").env_clear().env("PATH", PATH).args(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let name = format!("kestrel{}", std::process::id());
    psql(&format!("CREATE TABLE {name} AS SELECT '{}'::text AS x, '{}'::bytea AS y", VARIABLES[1].1, FILES[0].2));
    let world = crate::support::World::empty().on_database(url.clone());
    let found = world.scan().found;
    psql(&format!("DROP TABLE {name}"));
    for secret in [VARIABLES[1].1, FILES[0].2] {
        assert!(found.iter().any(|line| line.ends_with(secret)), "{secret}: {found:?}");
    }
}
