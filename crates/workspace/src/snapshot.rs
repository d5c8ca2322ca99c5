//! Snapshots: one prepared, read-only checkout per commit that any number of workspaces start from.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use harvest_core::WorkspaceKind;

use crate::lock::{self, Kind};
use crate::{Error, Git, Home, Manifest, Mirror};

/// Unused snapshots kept per repository.
const KEPT: usize = 4;
const CHECKOUT_LIMIT: Duration = Duration::from_secs(600);

/// Settings of every workspace: a copied or overlaid checkout has other inode numbers, owners and change times than the
/// index recorded, and comparing them would make git read every file again.
const CONFIG: &[(&str, &str)] = &[
    ("core.checkStat", "minimal"),
    ("core.trustctime", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("advice.detachedHead", "false"),
];

#[derive(Debug, Clone)]
pub struct Snapshots {
    root: PathBuf,
    git: Git,
}

/// A snapshot in use. It is not collected while this value lives.
#[derive(Debug)]
pub struct Snapshot {
    path: PathBuf,
    commit: String,
    manifest: Option<Manifest>,
    _in_use: lock::Guard,
}

/// Keeps a snapshot from being collected, whoever opened it and is gone.
#[derive(Debug)]
pub struct SnapshotHold {
    _in_use: lock::Guard,
}

impl SnapshotHold {
    /// `path` is where its checkout is.
    pub async fn of(path: &Path) -> Result<Self, Error> {
        // A prepared one has the checkout in a folder of its own.
        let path = path.parent().filter(|_| path.ends_with("tree")).unwrap_or(path);
        Ok(Self { _in_use: lock::lock(&lock_file(path), Kind::Shared).await? })
    }
}

impl Snapshots {
    pub fn new(root: PathBuf) -> Self {
        Self { root, git: Git::new(Home::Nobody).with_limit(CHECKOUT_LIMIT) }
    }

    /// The snapshot of `commit`, made when it is not there yet. `objects` is where workspaces will see the mirror's objects.
    pub async fn open(&self, mirror: &Mirror, commit: &str, objects: &Path) -> Result<Snapshot, Error> {
        let folder = self.root.join(mirror.key());
        tokio::fs::create_dir_all(&folder).await.map_err(Error::io("make", &folder))?;
        let path = folder.join(commit);
        let in_use = lock::lock(&lock_file(&path), Kind::Shared).await?;
        if !path.exists() {
            let _building = lock::lock(&folder.join("build.lock"), Kind::Exclusive).await?;
            if !path.exists() {
                check_out(&self.git, mirror, commit, objects, &[], &path).await?;
                collect(&folder, &path);
            }
        }
        Ok(Snapshot { path, commit: commit.to_owned(), manifest: None, _in_use: in_use })
    }
}

/// A clean checkout at `path`, there as a whole or not at all. `sparse` are the only folders wanted, or none for all.
pub(crate) async fn check_out(
    git: &Git,
    mirror: &Mirror,
    commit: &str,
    objects: &Path,
    sparse: &[String],
    path: &Path,
) -> Result<(), Error> {
    let building = path.with_extension("building");
    remove(&building).await?;
    let format = git.line(mirror.path(), &["rev-parse", "--show-object-format"]).await?;
    let format = format!("--object-format={format}");
    let args = ["init", "--quiet", "--template=", &format, "--"];
    let args: Vec<&OsStr> = args.iter().map(OsStr::new).chain([building.as_os_str()]).collect();
    git.run(mirror.path(), &args).await?;
    for (key, value) in CONFIG {
        git.run(&building, &["config", key, value]).await?;
    }
    let shallow = mirror.path().join("shallow");
    if shallow.exists() {
        let copy = building.join(".git/shallow");
        tokio::fs::copy(&shallow, &copy).await.map_err(Error::io("write", copy))?;
    }
    if !sparse.is_empty() {
        let args = ["sparse-checkout", "set", "--cone", "--"].into_iter().chain(sparse.iter().map(String::as_str));
        git.run(&building, &args.collect::<Vec<_>>()).await?;
    }
    // Quoted, since a colon would end the path.
    let mirrored = mirror.objects().display().to_string().replace('\\', r"\\").replace('"', "\\\"");
    let mirrored = format!("\"{mirrored}\"");
    let alternates = [("GIT_ALTERNATE_OBJECT_DIRECTORIES", OsStr::new(&mirrored))];
    git.run_with(&building, &["checkout", "--quiet", "--detach", commit, "--"], &alternates, b"").await?;
    // Fetches say by refs what they have; without one they would be sent everything again.
    git.run_with(&building, &["update-ref", "refs/harvest/base", commit], &alternates, b"").await?;
    write_alternates(&building, objects).await?;
    tokio::fs::rename(&building, path).await.map_err(Error::io("make", path))
}

impl Snapshot {
    pub(crate) fn prepared(path: PathBuf, manifest: Manifest, in_use: lock::Guard) -> Self {
        Self { path, commit: manifest.commit.clone(), manifest: Some(manifest), _in_use: in_use }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the checkout is.
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// What was installed in it, if anything was.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }
}

/// A private full copy of a snapshot for sandboxes that cannot overlay: shares blocks where the file system can.
pub async fn materialise(snapshot: &Snapshot, target: &Path, objects: &Path) -> Result<WorkspaceKind, Error> {
    if let Some(parent) = target.parent() {
        tokio::fs::create_dir_all(parent).await.map_err(Error::io("make", parent))?;
    }
    let kind = match copy_tree(snapshot.path(), target, "--reflink=always").await {
        Ok(()) => WorkspaceKind::Reflink,
        Err(_) => {
            remove(target).await?;
            copy_tree(snapshot.path(), target, "--reflink=never").await?;
            WorkspaceKind::Copy
        }
    };
    write_alternates(target, objects).await?;
    Ok(kind)
}

async fn write_alternates(checkout: &Path, objects: &Path) -> Result<(), Error> {
    let file = checkout.join(".git/objects/info/alternates");
    if let Some(parent) = file.parent() {
        tokio::fs::create_dir_all(parent).await.map_err(Error::io("make", parent))?;
    }
    tokio::fs::write(&file, format!("{}\n", objects.display())).await.map_err(Error::io("write", file))
}

#[expect(clippy::disallowed_methods, reason = "a fixed program with a cleared environment on folders of ours")]
pub(crate) async fn copy_tree(from: &Path, to: &Path, reflink: &str) -> Result<(), Error> {
    let output = tokio::process::Command::new("cp")
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .args(["--archive", reflink, "--no-target-directory", "--"])
        .args([from, to])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(Error::io("copy", from))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Io { action: "copy to", path: to.to_owned(), source: std::io::Error::other(message) })
}

pub(crate) async fn remove(path: &Path) -> Result<(), Error> {
    match tokio::fs::remove_dir_all(path).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

fn lock_file(snapshot: &Path) -> PathBuf {
    snapshot.with_extension("lock")
}

/// Removes the oldest snapshots that no one uses. What cannot be removed now is tried again after the next build.
fn collect(folder: &Path, newest: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut snapshots: Vec<(SystemTime, PathBuf)> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.path() != newest)
        .filter(|entry| entry.path().extension().is_none())
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    snapshots.sort();
    let surplus = snapshots.len().saturating_sub(KEPT);
    for (_, path) in snapshots.into_iter().take(surplus) {
        if let Some(_unused) = lock::try_exclusive(&lock_file(&path)) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}
