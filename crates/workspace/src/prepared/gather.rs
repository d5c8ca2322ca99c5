//! Takes over what an installation added to a checkout. It is all from strangers, so no link is ever followed and nothing
//! that the repository itself has is replaced.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::Path;

const NO_SETUID: u32 = 0o1777;

/// Something that was added, with its path relative to the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extra {
    pub(super) path: String,
    is_folder: bool,
}

/// Whom the files of a snapshot belong to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// The same as of this folder.
    pub(super) fn of(folder: &Path) -> io::Result<Self> {
        let found = fs::metadata(folder)?;
        Ok(Self { uid: found.uid(), gid: found.gid() })
    }
}

/// Moves everything that is in `from` and not in `into`. Names that git could not be told of stay behind.
pub(super) fn gather(from: &Path, into: &Path, owner: Owner) -> io::Result<Vec<Extra>> {
    let mut extras = Vec::new();
    step(from, into, "", owner, &mut extras)?;
    extras.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(extras)
}

fn step(from: &Path, into: &Path, prefix: &str, owner: Owner, extras: &mut Vec<Extra>) -> io::Result<()> {
    own(from, &fs::symlink_metadata(from)?, owner)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        if name.contains(char::is_control) || name == ".git" {
            continue;
        }
        let (source, target, path) = (entry.path(), into.join(&name), format!("{prefix}{name}"));
        let found = fs::symlink_metadata(&source)?;
        match fs::symlink_metadata(&target) {
            Ok(tracked) if tracked.is_dir() && found.is_dir() => {
                step(&source, &target, &format!("{path}/"), owner, extras)?;
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if found.is_dir() || found.is_file() || found.is_symlink() {
                    own_all(&source, owner)?;
                    fs::rename(&source, &target)?;
                    extras.push(Extra { path, is_folder: found.is_dir() });
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn own_all(path: &Path, owner: Owner) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    own(path, &found, owner)?;
    if found.is_dir() {
        for entry in fs::read_dir(path)? {
            own_all(&entry?.path(), owner)?;
        }
    }
    Ok(())
}

/// Root's sandboxes have uids of their own; what they leave must seem to belong to whoever uses it next. Folders that
/// cannot be written, as Go makes them, could not be removed either.
fn own(path: &Path, found: &Metadata, owner: Owner) -> io::Result<()> {
    if (found.uid(), found.gid()) != (owner.uid, owner.gid) {
        lchown(path, Some(owner.uid), Some(owner.gid))?;
    }
    if found.is_symlink() {
        return Ok(());
    }
    let mode = found.mode() & 0o7777;
    let wanted = (mode & NO_SETUID) | if found.is_dir() { 0o700 } else { 0o400 };
    if mode != wanted {
        fs::set_permissions(path, Permissions::from_mode(wanted))?;
    }
    Ok(())
}

/// Lets the owner of every folder below into it.
pub(super) fn open_up(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.is_dir() {
        fs::set_permissions(path, Permissions::from_mode(found.mode() & 0o7777 | 0o700))?;
        for entry in fs::read_dir(path)? {
            open_up(&entry?.path())?;
        }
    }
    Ok(())
}

/// Tells git to look away, in the checkout's own list.
pub(super) fn exclude(tree: &Path, extras: &[Extra]) -> io::Result<()> {
    let folder = tree.join(".git/info");
    fs::create_dir_all(&folder)?;
    let patterns: String = extras.iter().map(|extra| format!("{}\n", pattern(extra))).collect();
    fs::write(folder.join("exclude"), format!("/{}/\n{patterns}", super::OWN_FOLDER))
}

/// Fits this path and no other.
fn pattern(extra: &Extra) -> String {
    let mut pattern = String::from("/");
    for c in extra.path.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | ' ' | '!' | '#') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    if extra.is_folder {
        pattern.push('/');
    }
    pattern
}

/// What the tree takes on disk.
pub(super) fn size(path: &Path) -> u64 {
    let Ok(found) = fs::symlink_metadata(path) else { return 0 };
    let own = found.blocks() * 512;
    if !found.is_dir() {
        return own;
    }
    let below = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    own + below.map(|entry| size(&entry.path())).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn only_what_was_added_is_taken_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (work, tree, outside) = (folder.path().join("work"), folder.path().join("tree"), folder.path().join("out"));
        for root in [&work, &tree] {
            write(&root.join("src/main.js"), "original");
            write(&root.join("lib/a.js"), "original");
            write(&root.join(".git/config"), "clean");
        }
        write(&outside.join("secret"), "secret");
        // What an install script may do.
        write(&work.join("src/main.js"), "changed");
        write(&work.join(".git/config"), "poisoned");
        write(&work.join(".git/hooks/post-checkout"), "#!/bin/sh");
        fs::remove_dir_all(work.join("lib")).unwrap();
        symlink(&outside, work.join("lib")).unwrap();
        write(&work.join("node_modules/a/index.js"), "a");
        write(&work.join("src/generated.js"), "g");
        symlink(outside.join("secret"), work.join("link")).unwrap();
        let closed = work.join("cache/closed");
        write(&closed.join("file"), "x");
        fs::set_permissions(closed.join("file"), Permissions::from_mode(0o4555)).unwrap();
        fs::set_permissions(&closed, Permissions::from_mode(0o555)).unwrap();

        let extras = gather(&work, &tree, Owner::of(folder.path()).unwrap()).unwrap();
        let paths: Vec<&str> = extras.iter().map(|extra| extra.path.as_str()).collect();
        assert_eq!(paths, ["cache", "link", "node_modules", "src/generated.js"]);
        assert_eq!(fs::read_to_string(tree.join("src/main.js")).unwrap(), "original");
        assert_eq!(fs::read_to_string(tree.join("lib/a.js")).unwrap(), "original");
        assert_eq!(fs::read_to_string(tree.join(".git/config")).unwrap(), "clean");
        assert!(!tree.join(".git/hooks").exists());
        assert_eq!(fs::read_link(tree.join("link")).unwrap(), outside.join("secret"));
        assert_eq!(fs::metadata(tree.join("cache/closed/file")).unwrap().mode() & 0o7777, 0o555);
        assert_eq!(fs::metadata(tree.join("cache/closed")).unwrap().mode() & 0o7777, 0o755);
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }

    #[test]
    fn patterns_fit_one_path() {
        let extra = |path: &str, is_folder| Extra { path: path.into(), is_folder };
        assert_eq!(pattern(&extra("node_modules", true)), "/node_modules/");
        assert_eq!(pattern(&extra("a/*", false)), r"/a/\*");
        assert_eq!(pattern(&extra("x [1] ", false)), r"/x\ \[1\]\ ");
    }
}
