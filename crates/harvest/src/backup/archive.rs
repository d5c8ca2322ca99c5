//! The file of a backup: a tar of the database, the sessions' repositories and the mirrors they stand on, and at its end a
//! manifest with the digest of every file. Without the manifest, or with anything that differs from it, it is no backup.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use harvest_beneath::{Folder, Kind};
use harvest_core::Timestamp;
use harvest_engine::DataFolder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tar::{Archive, Builder, EntryType, Header};

use harvest_store::sqlite::file;

use crate::{evidence, keychain};

const FORMAT: u32 = 1;
const MANIFEST: &str = "manifest.json";
const DATABASE: &str = "harvest.db";
/// Below these, everything belongs to git.
const REPOSITORIES: [&str; 2] = ["sessions", "mirrors"];
const ALTERNATES: &str = "repository.git/objects/info/alternates";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the database could not be copied: {0}")]
    Database(#[from] harvest_store::Error),
    #[error("{0}")]
    Damaged(String),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    pub harvest: String,
    pub created_at: Timestamp,
    /// Where it was.
    pub data_dir: PathBuf,
    pub files: BTreeMap<String, Entry>,
    #[serde(default)]
    pub left_out: LeftOut,
    #[serde(default)]
    pub keys: Keys,
}

/// The keys of a data directory. A backup has none of them, so that it opens nothing for whoever finds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// Whether credentials were sealed with a key in the data directory.
    pub master: bool,
    /// The public half of the key that signed evidence.
    pub evidence: Option<String>,
}

impl Keys {
    /// The names of the files.
    pub fn files(&self) -> Vec<&'static str> {
        let evidence = self.evidence.as_ref().map(|_| evidence::KEY_FILE);
        self.master.then_some(keychain::KEY_FILE).into_iter().chain(evidence).collect()
    }
}

/// Links and special files, which a backup does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub count: u64,
    /// The names of the first ones.
    pub first: Vec<String>,
}

impl LeftOut {
    const NAMED: usize = 10;

    fn add(&mut self, name: String) {
        self.count += 1;
        if self.first.len() < Self::NAMED {
            self.first.push(name);
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub bytes: u64,
    pub sha256: String,
}

impl Manifest {
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|entry| entry.bytes).sum()
    }
}

/// Writes everything of `data` to `out`. `scratch` is an empty folder with room for a copy of the database.
pub fn write(
    data: &DataFolder,
    keys: Keys,
    scratch: &Path,
    out: impl Write,
    now: Timestamp,
) -> Result<Manifest, Error> {
    let mut writer = Writer {
        tar: Builder::new(out),
        manifest: Manifest {
            format: FORMAT,
            harvest: env!("CARGO_PKG_VERSION").to_owned(),
            created_at: now,
            data_dir: data.path().to_owned(),
            files: BTreeMap::new(),
            left_out: LeftOut::default(),
            keys,
        },
    };
    // The database first: what it knows of is in the repositories by then.
    let copy = scratch.join(DATABASE);
    file::copy(&data.database(), &copy)?;
    writer.file(File::open(&copy)?, DATABASE)?;
    for name in REPOSITORIES {
        match Folder::open_trusted(&data.path().join(name)) {
            Ok(folder) => writer.folder(&folder, name)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    let text = serde_json::to_vec_pretty(&writer.manifest).map_err(io::Error::other)?;
    writer.tar.append_data(&mut header(EntryType::Regular, text.len() as u64), MANIFEST, text.as_slice())?;
    writer.tar.into_inner()?.flush()?;
    Ok(writer.manifest)
}

struct Writer<W: Write> {
    tar: Builder<W>,
    manifest: Manifest,
}

impl<W: Write> Writer<W> {
    /// Refs before objects: whatever a copied ref names is there when the objects are copied. Git wrote these folders for
    /// agents, so they are read by descriptor, and a link in them is not followed.
    fn folder(&mut self, folder: &Folder, name: &str) -> Result<(), Error> {
        self.tar.append_data(&mut header(EntryType::Directory, 0), format!("{name}/"), io::empty())?;
        let mut names = Vec::new();
        for file in folder.names()? {
            match file.into_string() {
                Ok(file) => names.push(file),
                // Git on Harvest's side makes no such names, and a manifest cannot have them.
                Err(file) => self.manifest.left_out.add(format!("{name}/{}", file.to_string_lossy())),
            }
        }
        let mut names: Vec<(bool, String)> =
            names.into_iter().filter(|file| !is_passing(file)).map(|file| (file == "objects", file)).collect();
        names.sort();
        for (_, file) in names {
            let Some(node) = folder.node(OsStr::new(&file))? else { continue };
            let name = format!("{name}/{file}");
            match node.status().kind {
                Kind::Folder => match node.enter() {
                    Ok(inner) => self.folder(&inner, &name)?,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error.into()),
                },
                Kind::File => match folder.file(Path::new(&file)) {
                    Ok(content) => self.file(content, &name)?,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error.into()),
                },
                Kind::Link | Kind::Special => self.manifest.left_out.add(name),
            }
        }
        Ok(())
    }

    fn file(&mut self, file: File, name: &str) -> Result<(), Error> {
        let bytes = file.metadata()?.len();
        let mut reader = Hashing::new(file.take(bytes));
        self.tar.append_data(&mut header(EntryType::Regular, bytes), name, &mut reader)?;
        let entry = reader.finish();
        if entry.bytes != bytes {
            return Err(Error::Io(io::Error::other(format!("{name} changed while it was read; try again"))));
        }
        self.manifest.files.insert(name.to_owned(), entry);
        Ok(())
    }
}

/// What git is about to rename or remove.
fn is_passing(file: &str) -> bool {
    file.ends_with(".lock") || file.ends_with(".building") || file.starts_with("tmp_") || file.contains("incoming-")
}

fn header(kind: EntryType, bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(bytes);
    header.set_mode(if kind == EntryType::Directory { 0o700 } else { 0o600 });
    header.set_mtime(0);
    header
}

struct Hashing<R> {
    inner: R,
    hash: Sha256,
    bytes: u64,
}

impl<R: Read> Hashing<R> {
    fn new(inner: R) -> Self {
        Self { inner, hash: Sha256::new(), bytes: 0 }
    }

    fn finish(self) -> Entry {
        let sha256 = self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Entry { bytes: self.bytes, sha256 }
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}

/// Unpacks a backup into the empty folder `staging` and checks all of it. The repositories are made to find each other in
/// `home`, where the folder is going to be.
pub fn read(from: impl Read, staging: &Path, home: &Path) -> Result<Manifest, Error> {
    let damaged = |what: &str| Error::Damaged(what.to_owned());
    let mut found: BTreeMap<String, Entry> = BTreeMap::new();
    let mut manifest: Option<Manifest> = None;
    let mut archive = Archive::new(from);
    // Only the system's own errors: those of the parser quote the file, which can be anything.
    let unreadable = |error: io::Error| {
        let why = error.raw_os_error().map(|_| format!(": {error}")).unwrap_or_default();
        Error::Damaged(format!("it is not a backup, or was cut short{why}"))
    };
    for entry in archive.entries().map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if manifest.is_some() {
            return Err(damaged("there is data after its manifest"));
        }
        let name = entry.path().map_err(unreadable)?.to_str().map(|name| name.trim_end_matches('/').to_owned());
        let name = name
            .filter(|name| is_ours(name))
            .ok_or_else(|| damaged("it contains files that do not belong in a backup"))?;
        match entry.header().entry_type() {
            EntryType::Directory => std::fs::create_dir_all(staging.join(&name))?,
            EntryType::Regular if name == MANIFEST => {
                manifest = Some(
                    serde_json::from_reader(entry)
                        .map_err(|error| Error::Damaged(format!("its manifest cannot be read: {error}")))?,
                );
            }
            EntryType::Regular => {
                let bytes = entry.size();
                let mut reader = Hashing::new(entry);
                let mut file = File::create_new(staging.join(&name))?;
                io::copy(&mut reader, &mut file).map_err(unreadable)?;
                file.sync_all()?;
                let written = reader.finish();
                if written.bytes != bytes {
                    return Err(Error::Damaged(format!("{name} was cut short")));
                }
                found.insert(name, written);
            }
            _ => return Err(damaged("it holds something that is neither a file nor a folder")),
        }
    }
    let manifest = manifest.ok_or_else(|| damaged("it has no manifest: it is not a backup, or was cut short"))?;
    if manifest.format != FORMAT {
        return Err(Error::Damaged(format!("it has format {}; this Harvest supports {FORMAT}", manifest.format)));
    }
    for (name, entry) in &manifest.files {
        match found.remove(name) {
            Some(file) if file == *entry => {}
            Some(_) => return Err(Error::Damaged(format!("{name} is not what was backed up: its digest differs"))),
            None => return Err(Error::Damaged(format!("{name} is missing"))),
        }
    }
    if let Some(name) = found.into_keys().next() {
        return Err(Error::Damaged(format!("{name} is not in its manifest")));
    }
    file::check(&staging.join(DATABASE))
        .map_err(|error| Error::Damaged(format!("its database is damaged: {error}")))?;
    find_mirrors_in(home, staging)?;
    Ok(manifest)
}

fn is_ours(name: &str) -> bool {
    let plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    let top = name.split('/').next().unwrap_or_default();
    plain && (name == DATABASE || name == MANIFEST || REPOSITORIES.contains(&top))
}

/// A session's repository names its mirror by full path, whichever way the data directory was reached then.
fn find_mirrors_in(home: &Path, staging: &Path) -> Result<(), Error> {
    let sessions = match std::fs::read_dir(staging.join("sessions")) {
        Ok(sessions) => sessions,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for session in sessions {
        let file = session?.path().join(ALTERNATES);
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let parts: Vec<Component<'_>> = Path::new(text.trim_end_matches('\n')).components().collect();
        let Some([mirrors, mirror, objects]) = parts.last_chunk() else { continue };
        if mirrors.as_os_str() == "mirrors" && objects.as_os_str() == "objects" {
            std::fs::write(&file, format!("{}\n", home.join("mirrors").join(mirror).join("objects").display()))?;
        }
    }
    Ok(())
}
