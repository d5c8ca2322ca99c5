//! The `/etc` of every sandbox: an allow list of the host's, and a few files of our own, copied together once.
//!
//! A copy and not twenty mounts, since bubblewrap takes longer for each of them than for everything else together. It is named
//! after what it was made from, so a host that changes gets a new one and live sandboxes keep theirs.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use crate::{Error, folder, layout, remove};

/// What may be seen of the host's. Nothing here tells one host from another or holds a secret.
const ALLOWED: &[&str] = &[
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "debian_version",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "lsb-release",
    "mime.types",
    "os-release",
    "pki/ca-trust",
    "pki/tls/certs",
    "protocols",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
];

/// Files that say the same in every sandbox.
const SYNTHESISED: &[(&str, &str)] = &[
    (
        "passwd",
        "root:x:0:0:root:/root:/usr/sbin/nologin\n\
         harvest:x:1000:1000:harvest:/home/harvest:/bin/sh\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("group", "root:x:0:\nharvest:x:1000:\nnogroup:x:65534:\n"),
    ("hosts", "127.0.0.1 localhost harvest\n::1 localhost\n"),
    ("hostname", "harvest\n"),
    (
        "nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n",
    ),
];

/// Makes it below `state` unless it is there, and says where.
pub(super) fn make(state: &Path) -> Result<PathBuf, Error> {
    let sources = sources();
    let mut hash = DefaultHasher::new();
    SYNTHESISED.hash(&mut hash);
    for source in &sources {
        fingerprint(source, &mut hash);
    }
    let place = state.join(format!(".etc-{:016x}", hash.finish()));
    if place.is_dir() {
        return Ok(place);
    }
    let temporary = state.join(format!(".etc.{}", std::process::id()));
    remove::remove(&temporary)?;
    folder::make_readable(&temporary)?;
    for source in &sources {
        let target = temporary.join(source.strip_prefix("/etc").unwrap_or(source));
        copy_top(source, &target).map_err(|error| Error::io(source, error))?;
    }
    for (name, content) in SYNTHESISED {
        layout::write(&temporary.join(name), content.as_bytes())?;
    }
    match fs::rename(&temporary, &place) {
        // Someone else was faster.
        Err(_) if place.is_dir() => remove::remove(&temporary)?,
        renamed => renamed.map_err(|error| Error::io(&place, error))?,
    }
    Ok(place)
}

fn sources() -> Vec<PathBuf> {
    let etc = Path::new("/etc");
    // Debian keeps what a JDK needs to start in `/etc/java-<version>-openjdk`.
    let java = fs::read_dir(etc).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let java = java.filter(|name| name.to_string_lossy().starts_with("java-")).map(|name| etc.join(name));
    let mut all: Vec<PathBuf> =
        ALLOWED.iter().map(|name| etc.join(name)).chain(java).filter(|path| path.exists()).collect();
    all.sort();
    all
}

/// Folders change when something in them is replaced, which is how these files are updated.
fn fingerprint(path: &Path, hash: &mut DefaultHasher) {
    let Ok(data) = fs::symlink_metadata(path) else { return };
    (path, data.mtime(), data.mtime_nsec(), data.len()).hash(hash);
    if data.is_dir() {
        let mut folders: Vec<PathBuf> = fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.path())
            .collect();
        folders.sort();
        folders.iter().for_each(|folder| fingerprint(folder, hash));
    }
}

/// One entry of the list. A link out of what a sandbox can see is replaced by what it leads to.
fn copy_top(source: &Path, target: &Path) -> io::Result<()> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    let real = fs::canonicalize(source)?;
    let visible = ["/usr", "/opt"].iter().any(|folder| real.starts_with(folder));
    if fs::symlink_metadata(source)?.is_symlink() && !visible { copy(&real, target) } else { copy(source, target) }
}

fn copy(source: &Path, target: &Path) -> io::Result<()> {
    let data = fs::symlink_metadata(source)?;
    if data.is_symlink() {
        symlink(fs::read_link(source)?, target)
    } else if data.is_dir() {
        fs::create_dir(target)?;
        fs::set_permissions(target, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        for entry in fs::read_dir(source)? {
            let name = entry?.file_name();
            copy(&source.join(&name), &target.join(&name))?;
        }
        Ok(())
    } else if data.is_file() && data.mode() & 0o004 != 0 {
        fs::write(target, fs::read(source)?)?;
        fs::set_permissions(target, std::os::unix::fs::PermissionsExt::from_mode(0o644))
    } else {
        // Not for everyone on the host, so not for a sandbox.
        Ok(())
    }
}
