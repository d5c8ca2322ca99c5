//! Looks for secrets in everything that is below a folder: in files as they are, in objects of git repositories, in compressed
//! files and in archives; raw, in base64, hex and percent encodings.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use rusqlite::types::ValueRef;

use crate::support::PATH;

/// Archives in archives are read this deep.
const DEEPEST: usize = 4;

/// Looks for a list of secrets. `grep` does the searching: the tests themselves are not optimised.
pub struct Scanner {
    /// Every form that is looked for, with its secret.
    forms: BTreeMap<Vec<u8>, String>,
    patterns: tempfile::NamedTempFile,
}

/// The result of a scan.
#[derive(Debug, Default)]
pub struct Scanned {
    /// `path: secret` for every one that was found.
    pub found: Vec<String>,
    /// The size of everything that was looked at, unpacked.
    pub bytes: u64,
}

impl Scanner {
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let forms: BTreeMap<Vec<u8>, String> = secrets
            .into_iter()
            .flat_map(|secret| forms(secret).into_iter().map(move |form| (form, secret.to_owned())))
            .collect();
        let mut patterns = tempfile::Builder::new().prefix("hvpatterns").tempfile_in("/tmp").unwrap();
        for form in forms.keys() {
            patterns.write_all(form).unwrap();
            patterns.write_all(b"\n").unwrap();
        }
        patterns.flush().unwrap();
        Self { forms, patterns }
    }

    /// `path: secret` for every one that is found below `folder`.
    pub fn scan(&self, folder: &Path) -> Vec<String> {
        self.look_below(&[folder]).found
    }

    /// Looks at everything below these files and folders.
    pub fn look_below(&self, places: &[&Path]) -> Scanned {
        let mut scanned = Scanned::default();
        self.look_at(places, 0, &mut scanned);
        scanned.found.sort();
        scanned.found.dedup();
        scanned
    }

    /// The names of the secrets in a text.
    pub fn found_in(&self, content: &[u8]) -> Vec<&str> {
        let text = String::from_utf8_lossy(content);
        let holds = |form: &[u8]| std::str::from_utf8(form).is_ok_and(|form| text.contains(form));
        let mut names: Vec<&str> =
            self.forms.iter().filter(|(form, _)| holds(form)).map(|(_, name)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// All files as they are, in one go; then those that have something packed in them, one by one.
    fn look_at(&self, places: &[&Path], depth: usize, scanned: &mut Scanned) {
        let mut packed = Vec::new();
        for place in places {
            list(place, &mut packed, &mut scanned.bytes);
        }
        let mut grep = self.grep();
        let output =
            grep.args(["--recursive", "--with-filename", "--null", "--"]).args(places).output().unwrap().stdout;
        for line in output.split(|byte| *byte == b'\n') {
            let Some(end) = line.iter().position(|byte| *byte == 0) else { continue };
            let path = Path::new(std::ffi::OsStr::from_bytes(&line[..end]));
            self.found(path, &line[end + 1..], scanned);
        }
        for (path, kind) in packed {
            self.look_into(&path, kind, depth, scanned);
        }
    }

    fn grep(&self) -> Command {
        let mut grep = Command::new("grep");
        grep.env_clear().envs([("PATH", PATH), ("LC_ALL", "C")]).stderr(Stdio::null());
        grep.args(["--text", "--only-matching", "--fixed-strings", "--devices=skip", "--file"]);
        grep.arg(self.patterns.path());
        grep
    }

    fn found(&self, path: &Path, form: &[u8], scanned: &mut Scanned) {
        if let Some(name) = self.forms.get(form) {
            scanned.found.push(format!("{}: {name}", path.display()));
        }
    }

    fn look_into(&self, path: &Path, kind: Packed, depth: usize, scanned: &mut Scanned) {
        let from_file = |command: &[&str]| piped(command, &fs::read(path).unwrap_or_default());
        match kind {
            Packed::Repository => {
                let mut git = Command::new("git");
                git.env_clear().env("PATH", PATH).arg("--git-dir").arg(path);
                git.args(["cat-file", "--batch-all-objects", "--unordered", "--batch", "--buffer"]);
                self.stream(&git.output().unwrap().stdout, &path.join("(objects)"), depth, scanned);
            }
            // A value may be spread over pages that do not follow each other.
            Packed::Database => self.stream(&values_of(path), &path.join("(values)"), depth, scanned),
            Packed::By(command) => self.stream(&from_file(command), &path.join("(unpacked)"), depth, scanned),
            Packed::Archive if depth < DEEPEST => {
                let into = tempfile::Builder::new().prefix("hvmembers").tempdir_in("/tmp").unwrap();
                let _ = Command::new("tar").arg("-xf").arg(path).arg("-C").arg(into.path()).output();
                let mut members = Scanned::default();
                self.look_at(&[into.path()], depth + 1, &mut members);
                let outside = into.path().display().to_string();
                scanned
                    .found
                    .extend(members.found.iter().map(|line| line.replace(&outside, &path.display().to_string())));
                scanned.bytes += members.bytes;
            }
            Packed::Archive => {}
        }
    }

    /// What came out of something else, which may be packed itself.
    pub fn stream(&self, content: &[u8], path: &Path, depth: usize, scanned: &mut Scanned) {
        scanned.bytes += content.len() as u64;
        let mut grep = self.grep();
        let found = piped_to(grep.arg("-"), content);
        for form in found.split(|byte| *byte == b'\n') {
            self.found(path, form, scanned);
        }
        if depth < DEEPEST && Packed::of(content).is_some() {
            let mut file = tempfile::Builder::new().prefix("hvpacked").tempfile_in("/tmp").unwrap();
            file.write_all(content).unwrap();
            let mut inner = Scanned::default();
            self.look_at(&[file.path()], depth + 1, &mut inner);
            let outside = file.path().display().to_string();
            scanned.found.extend(inner.found.iter().map(|line| line.replace(&outside, &path.display().to_string())));
        }
    }
}

/// A file or folder that has to be unpacked before it can be looked at.
#[derive(Debug, Clone, Copy)]
enum Packed {
    Repository,
    Database,
    Archive,
    By(&'static [&'static str]),
}

impl Packed {
    fn of(content: &[u8]) -> Option<Self> {
        match content {
            [0x1f, 0x8b, ..] => Some(Self::By(&["gzip", "-dc"])),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::By(&["zstd", "-dcq"])),
            [0xfd, b'7', b'z', b'X', b'Z', ..] => Some(Self::By(&["xz", "-dc"])),
            _ if content.starts_with(b"SQLite format 3\0") => Some(Self::Database),
            _ if content.get(257..262) == Some(b"ustar") => Some(Self::Archive),
            _ => None,
        }
    }
}

/// What is packed below a place, and the size of everything there. Links are not followed.
fn list(place: &Path, packed: &mut Vec<(PathBuf, Packed)>, bytes: &mut u64) {
    let Ok(metadata) = fs::symlink_metadata(place) else { return };
    if metadata.is_dir() {
        make_readable(place, &metadata);
        if place.join("objects").is_dir() && place.join("HEAD").exists() {
            packed.push((place.to_owned(), Packed::Repository));
        }
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            list(&entry.path(), packed, bytes);
        }
    } else if metadata.is_file() {
        make_readable(place, &metadata);
        *bytes += metadata.len();
        let mut head = Vec::new();
        if let Ok(file) = File::open(place) {
            let _ = file.take(512).read_to_end(&mut head);
        }
        packed.extend(Packed::of(&head).map(|kind| (place.to_owned(), kind)));
    }
}

/// Agents and overlays leave closed files and folders, which an ordinary user cannot look into as they are.
pub fn make_readable(path: &Path, metadata: &fs::Metadata) {
    let (mode, needed) = (metadata.mode() & 0o7777, if metadata.is_dir() { 0o500 } else { 0o400 });
    let uid = crate::support::uid();
    if uid != 0 && metadata.uid() == uid && mode & needed != needed {
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(mode | needed));
    }
}

/// Every value of every table, one to a line. Of a database that is broken, as much as can be read.
fn values_of(path: &Path) -> Vec<u8> {
    let mut values = Vec::new();
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let _ = rusqlite::Connection::open_with_flags(path, flags).and_then(|database| {
        let mut tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?;
        let names: Vec<String> = tables.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        for name in names {
            let mut rows = database.prepare(&format!("SELECT * FROM \"{name}\""))?;
            let columns = rows.column_count();
            let mut rows = rows.query([])?;
            while let Some(row) = rows.next()? {
                for column in 0..columns {
                    if let ValueRef::Text(value) | ValueRef::Blob(value) = row.get_ref(column)? {
                        values.extend_from_slice(&unpacked(value));
                        values.push(b'\n');
                    }
                }
            }
        }
        Ok(())
    });
    values
}

/// A value of a database with what is packed in it.
fn unpacked(value: &[u8]) -> Vec<u8> {
    match Packed::of(value) {
        Some(Packed::By(command)) => [value, &piped(command, value)].concat(),
        _ => value.to_vec(),
    }
}

fn piped(command: &[&str], content: &[u8]) -> Vec<u8> {
    piped_to(Command::new(command[0]).args(&command[1..]), content)
}

fn piped_to(command: &mut Command, content: &[u8]) -> Vec<u8> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(stdin.write_all(content)));
        child.wait_with_output().unwrap().stdout
    })
}

fn forms(secret: &str) -> Vec<Vec<u8>> {
    let hex: String = secret.bytes().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    let percent = |kept: fn(u8) -> bool, upper: bool| {
        secret.bytes().fold(String::new(), |mut text, byte| {
            match (kept(byte), upper) {
                (true, _) => text.push(char::from(byte)),
                (false, true) => drop(write!(text, "%{byte:02X}")),
                (false, false) => drop(write!(text, "%{byte:02x}")),
            }
            text
        })
    };
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let everything = |_: u8| false;
    let mut forms = vec![secret.to_owned(), hex.to_uppercase(), hex];
    for upper in [true, false] {
        forms.extend([percent(unreserved, upper), percent(everything, upper)]);
    }
    for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        for before in 0..3 {
            let padded = [&[0; 2][..before], secret.as_bytes()].concat();
            let encoded = engine.encode(&padded);
            let from = if before == 0 { 0 } else { before + 1 };
            forms.push(encoded[from..padded.len() / 3 * 4].to_owned());
        }
    }
    forms.sort();
    forms.dedup();
    forms.into_iter().map(String::into_bytes).collect()
}

#[test]
fn a_control_secret_is_found_in_every_form_and_place() {
    const CONTROL: &str = "hv_control+secret/0123456789";
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let scanner = Scanner::new([CONTROL]);
    fs::write(at("clean"), "nothing at all").unwrap();
    assert_eq!(scanner.scan(folder.path()), Vec::<String>::new());
    let encode = base64::engine::general_purpose::STANDARD;
    let hex: String = CONTROL.bytes().map(|byte| format!("{byte:02x}")).collect();
    fs::write(at("raw"), format!("a {CONTROL} b")).unwrap();
    fs::write(at("hex"), &hex).unwrap();
    fs::write(at("upper"), hex.to_uppercase()).unwrap();
    fs::write(at("percent"), "hv_control%2Bsecret%2F0123456789").unwrap();
    for shift in 0..3 {
        fs::write(at(&format!("base64-{shift}")), encode.encode(format!("{}{CONTROL}zz", "x".repeat(shift)))).unwrap();
    }
    for (name, command) in [("gzip", ["gzip", "-c"]), ("zstd", ["zstd", "-cq"]), ("xz", ["xz", "-c"])] {
        fs::write(at(name), piped(&command, format!("deep {CONTROL}").as_bytes())).unwrap();
    }
    let members = tempfile::tempdir().unwrap();
    fs::write(members.path().join("member.gz"), piped(&["gzip", "-c"], CONTROL.as_bytes())).unwrap();
    let tar =
        Command::new("tar").args(["-cf", "-", "-C"]).arg(members.path()).arg("member.gz").output().unwrap().stdout;
    fs::write(at("backup.tar"), tar).unwrap();
    let database = rusqlite::Connection::open(at("harvest.db")).unwrap();
    database.execute_batch(&format!("CREATE TABLE t (x); INSERT INTO t VALUES ('{CONTROL}')")).unwrap();
    drop(database);
    // A value that goes on in another page, which begins in the midst of the secret; and one that is compressed.
    let database = rusqlite::Connection::open(at("spread.db")).unwrap();
    database.execute_batch("PRAGMA page_size = 4096; CREATE TABLE t (x)").unwrap();
    let first_page = 3632;
    let mut long = "x".repeat(20_000);
    long.replace_range(first_page - 10..first_page - 10 + CONTROL.len(), CONTROL);
    database.execute("INSERT INTO t VALUES (?1)", [&long]).unwrap();
    drop(database);
    let as_it_is = fs::read(at("spread.db")).unwrap();
    assert_eq!(scanner.found_in(&as_it_is), Vec::<&str>::new(), "it is cut in two");
    let database = rusqlite::Connection::open(at("packed.db")).unwrap();
    database.execute_batch("CREATE TABLE t (x)").unwrap();
    database.execute("INSERT INTO t VALUES (?1)", [piped(&["gzip", "-c"], CONTROL.as_bytes())]).unwrap();
    drop(database);
    // A folder that its owner has closed.
    fs::create_dir(at("closed")).unwrap();
    fs::write(at("closed/file"), CONTROL).unwrap();
    fs::set_permissions(at("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let repository = at("packed.git");
    fs::create_dir(&repository).unwrap();
    crate::support::git(&repository, &["init", "--quiet", "--bare", "."]);
    let tree = tempfile::tempdir().unwrap();
    crate::support::init(tree.path());
    fs::write(tree.path().join("file"), format!("packed {CONTROL}\n{}", "line\n".repeat(500))).unwrap();
    crate::support::git(tree.path(), &["add", "--all"]);
    crate::support::git(tree.path(), &["commit", "--quiet", "--message", "one"]);
    crate::support::git(tree.path(), &["push", "--quiet", repository.to_str().unwrap(), "HEAD:refs/heads/main"]);
    crate::support::git(&repository, &["repack", "--quiet", "-a", "-d"]);
    let found = scanner.scan(folder.path());
    let places: Vec<PathBuf> = [
        "raw",
        "hex",
        "upper",
        "percent",
        "base64-0",
        "base64-1",
        "base64-2",
        "gzip/(unpacked)",
        "zstd/(unpacked)",
        "xz/(unpacked)",
        "harvest.db",
        "spread.db/(values)",
        "packed.db/(values)",
        "closed/file",
        "packed.git/(objects)",
    ]
    .iter()
    .map(|name| at(name))
    .collect();
    for place in places {
        assert!(
            found.iter().any(|line| line.starts_with(&format!("{}: ", place.display()))),
            "{}: {found:#?}",
            place.display()
        );
    }
    assert!(found.iter().any(|line| line.contains("backup.tar/member.gz")), "{found:#?}");
    assert!(!found.iter().any(|line| line.contains("clean")));
}
