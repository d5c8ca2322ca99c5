//! Looks for secrets in everything that is below a folder: in files as they are, in objects of git repositories, in compressed
//! files and in archives; raw, in base64, hex and percent encodings.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// A secret and all forms of it that are looked for.
struct Wanted {
    name: String,
    forms: Vec<Vec<u8>>,
}

/// Looks for a list of secrets.
pub struct Scanner(Vec<Wanted>);

impl Scanner {
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let wanted = |secret: &str| Wanted { name: secret.to_owned(), forms: forms(secret) };
        Self(secrets.into_iter().map(wanted).collect())
    }

    /// `path: secret` for every one that is found below `folder`.
    pub fn scan(&self, folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        self.folder(folder, &mut found);
        found.sort();
        found.dedup();
        found
    }

    /// The names of the secrets in a text.
    pub fn found_in(&self, content: &[u8]) -> Vec<&str> {
        let holds = |form: &Vec<u8>| content.windows(form.len()).any(|window| window == form);
        self.0.iter().filter(|wanted| wanted.forms.iter().any(holds)).map(|wanted| wanted.name.as_str()).collect()
    }

    fn folder(&self, folder: &Path, found: &mut Vec<String>) {
        if folder.join("objects").is_dir() && folder.join("HEAD").exists() {
            let objects = ["cat-file", "--batch-all-objects", "--unordered", "--batch", "--buffer"];
            let git = Command::new("git")
                .arg("--git-dir")
                .arg(folder)
                .args(objects)
                .env_clear()
                .env("PATH", crate::support::PATH)
                .output();
            self.look(&git.unwrap().stdout, &folder.join("(objects)"), 0, found);
        }
        for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                self.folder(&path, found);
            } else if kind.is_file() {
                self.look(&fs::read(&path).unwrap_or_default(), &path, 0, found);
            }
        }
    }

    /// Looks at a file, and at what is packed into it.
    fn look(&self, content: &[u8], path: &Path, depth: usize, found: &mut Vec<String>) {
        found.extend(self.found_in(content).into_iter().map(|name| format!("{}: {name}", path.display())));
        let unpack: &[&str] = match content {
            _ if depth > 3 => return,
            [0x1f, 0x8b, ..] => &["gzip", "-dc"],
            [0x28, 0xb5, 0x2f, 0xfd, ..] => &["zstd", "-dcq"],
            [0xfd, b'7', b'z', b'X', b'Z', ..] => &["xz", "-dc"],
            // An archive is read member by member: one may be compressed.
            _ if content.get(257..262) == Some(b"ustar") => return self.archive(content, path, depth, found),
            _ => return,
        };
        self.look(&piped(unpack, content), &path.join("(unpacked)"), depth + 1, found);
    }

    fn archive(&self, content: &[u8], path: &Path, depth: usize, found: &mut Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("archive.tar");
        fs::write(&file, content).unwrap();
        let into = folder.path().join("members");
        fs::create_dir(&into).unwrap();
        let _ = Command::new("tar").arg("-xf").arg(&file).arg("-C").arg(&into).output();
        let mut members = Vec::new();
        self.folder(&into, &mut members);
        let shown =
            |line: &String| format!("{}{}", path.display(), line.trim_start_matches(&into.display().to_string()));
        found.extend(members.iter().map(shown));
        let _ = depth;
    }
}

fn piped(command: &[&str], content: &[u8]) -> Vec<u8> {
    let mut child = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut stdin, content) = (child.stdin.take().unwrap(), content.to_vec());
    let writing = std::thread::spawn(move || drop(stdin.write_all(&content)));
    let output = child.wait_with_output().unwrap().stdout;
    writing.join().unwrap();
    output
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
