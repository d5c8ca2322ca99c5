//! Snapshots: one prepared, read-only checkout per commit that any number of workspaces start from.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use harvest_beneath::{Blocks, Folder};
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
    // Beside it, where no repository is: git would take one that it is started in for the one to make.
    git.run(building.parent().unwrap_or(Path::new("/")), &args).await?;
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
    let kind = match copy_tree(snapshot.path(), target, Blocks::Shared).await {
        Ok(()) => WorkspaceKind::Reflink,
        Err(_) => {
            remove(target).await?;
            copy_tree(snapshot.path(), target, Blocks::Written).await?;
            WorkspaceKind::Copy
        }
    };
    write_alternates(target, objects).await?;
    Ok(kind)
}

async fn write_alternates(checkout: &Path, objects: &Path) -> Result<(), Error> {
    let written = in_background(checkout, {
        let text = format!("{}\n", objects.display());
        move |checkout| {
            let objects = Folder::open(checkout)?.folder(Path::new(".git/objects"))?;
            objects.make_folder(OsStr::new("info"))?.write(Path::new("alternates"), text.as_bytes())
        }
    });
    written.await.map_err(Error::io("write the alternates of", checkout))
}

/// Copies a folder of ours to where nothing is yet, without following a link.
pub(crate) async fn copy_tree(from: &Path, to: &Path, blocks: Blocks) -> Result<(), Error> {
    let target = to.to_owned();
    let copied = in_background(from, move |from| {
        let (Some(around), Some(name)) = (from.parent(), from.file_name()) else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        let (Some(into), Some(new)) = (target.parent(), target.file_name()) else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        let (around, into) = (Folder::open_trusted(around)?, Folder::open_trusted(into)?);
        harvest_beneath::copy(&around, Path::new(name), &into, Path::new(new), blocks)
    });
    copied.await.map_err(Error::io("copy to", to))
}

pub(crate) async fn remove(path: &Path) -> Result<(), Error> {
    in_background(path, harvest_beneath::remove).await.map_err(Error::io("remove", path))
}

async fn in_background(
    path: &Path,
    work: impl FnOnce(&Path) -> std::io::Result<()> + Send + 'static,
) -> std::io::Result<()> {
    let path = path.to_owned();
    let working = tokio::task::spawn_blocking(move || work(&path));
    working.await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
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
            let _ = harvest_beneath::remove(&path);
        }
    }
}
