//! Takes over what an installation added to a checkout. It is all from strangers, so no link is ever followed and nothing
//! that the repository itself has is replaced.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use harvest_beneath::{Folder, Kind, Node};

const NO_SETUID: u32 = 0o1777;
/// Folders inside each other that are taken over.
const DEEPEST: usize = 256;

/// Something that was added, with its path relative to the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extra {
    pub(super) path: String,
    is_folder: bool,
}

/// The owner that the files of a snapshot get.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// The same as of this folder.
    pub(super) fn of(folder: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let found = std::fs::metadata(folder)?;
        Ok(Self { uid: found.uid(), gid: found.gid() })
    }
}

/// Moves everything that is in `from` and not in `into`. Names that git could not be told of stay behind, and so does every
/// `.git`, at any depth: its configuration would be a stranger's.
pub(super) fn gather(from: &Path, into: &Path, owner: Owner) -> io::Result<Vec<Extra>> {
    let mut gathering = Gathering { owner, extras: Vec::new() };
    // By its name in the folder around it, which is Harvest's own, so that it can be made one's own first.
    let name = from.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let around = Folder::open_trusted(from.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
    let top = around.node(name)?.ok_or(io::ErrorKind::NotFound)?;
    gathering.own(&top)?;
    gathering.step(&top.enter()?, &Folder::open(into)?, "", 0)?;
    let mut extras = gathering.extras;
    extras.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(extras)
}

struct Gathering {
    owner: Owner,
    extras: Vec<Extra>,
}

impl Gathering {
    fn step(&mut self, from: &Folder, into: &Folder, prefix: &str, depth: usize) -> io::Result<()> {
        check_depth(depth)?;
        for name in from.names()? {
            let Some(text) = name.to_str() else { continue };
            if text.contains(char::is_control) || is_git_folder(&name) {
                continue;
            }
            let Some(found) = from.node(&name)? else { continue };
            let path = format!("{prefix}{text}");
            match into.node(&name)? {
                Some(tracked) if tracked.status().kind == Kind::Folder && found.status().kind == Kind::Folder => {
                    self.own(&found)?;
                    self.step(&found.enter()?, &tracked.enter()?, &format!("{path}/"), depth + 1)?;
                }
                Some(_) => {}
                None if found.status().kind == Kind::Special => {}
                None => {
                    self.own_all(&found, depth)?;
                    from.move_into(&name, into)?;
                    self.extras.push(Extra { path, is_folder: found.status().kind == Kind::Folder });
                }
            }
        }
        Ok(())
    }

    fn own_all(&self, node: &Node, depth: usize) -> io::Result<()> {
        check_depth(depth)?;
        self.own(node)?;
        if node.status().kind != Kind::Folder {
            return Ok(());
        }
        let folder = node.enter()?;
        for name in folder.names()? {
            let Some(inner) = folder.node(&name)? else { continue };
            if is_git_folder(&name) || inner.status().kind == Kind::Special {
                self.drop_all(&folder, &name, &inner, depth + 1)?;
            } else {
                self.own_all(&inner, depth + 1)?;
            }
        }
        Ok(())
    }

    fn drop_all(&self, around: &Folder, name: &OsStr, node: &Node, depth: usize) -> io::Result<()> {
        check_depth(depth)?;
        if node.status().kind == Kind::Folder {
            self.own(node)?;
            let folder = node.enter()?;
            for name in folder.names()? {
                if let Some(inner) = folder.node(&name)? {
                    self.drop_all(&folder, &name, &inner, depth + 1)?;
                }
            }
        }
        around.unlink(name, node.status().kind)
    }

    /// Root's sandboxes have uids of their own; what they leave must seem to belong to the session that uses it next. Folders
    /// that cannot be written, as Go makes them, could not be removed either.
    fn own(&self, node: &Node) -> io::Result<()> {
        let found = node.status();
        if (found.uid, found.gid) != (self.owner.uid, self.owner.gid) {
            node.give(self.owner.uid, self.owner.gid)?;
        }
        if found.kind == Kind::Link {
            return Ok(());
        }
        let wanted = (found.mode & NO_SETUID) | if found.kind == Kind::Folder { 0o700 } else { 0o400 };
        if found.mode != wanted {
            node.set_mode(wanted)?;
        }
        Ok(())
    }
}

fn check_depth(depth: usize) -> io::Result<()> {
    if depth <= DEEPEST {
        return Ok(());
    }
    Err(io::Error::other(format!("the installation left more than {DEEPEST} folders inside each other")))
}

/// A file system that does not tell cases apart finds `.Git` as well.
fn is_git_folder(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

/// Tells git to look away, in the checkout's own list.
pub(super) fn exclude(tree: &Path, extras: &[Extra]) -> io::Result<()> {
    let patterns: String = extras.iter().map(|extra| format!("{}\n", pattern(extra))).collect();
    let info = Folder::open(tree)?.folder(Path::new(".git"))?.make_folder(OsStr::new("info"))?;
    info.write(Path::new("exclude"), format!("/{}/\n{patterns}", super::OWN_FOLDER).as_bytes())
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

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
        for name in ["node_modules/a/.git/config", "node_modules/a/.GIT/hooks/post-checkout", "src/deep/er/.git/config"]
        {
            write(&work.join(name), "poisoned");
        }
        write(&work.join("node_modules/b/.git"), "gitdir: ../a/poisoned");
        let extras = gather(&work, &tree, Owner::of(folder.path()).unwrap()).unwrap();
        let paths: Vec<&str> = extras.iter().map(|extra| extra.path.as_str()).collect();
        assert_eq!(paths, ["cache", "link", "node_modules", "src/deep", "src/generated.js"]);
        assert_eq!(fs::read_to_string(tree.join("src/main.js")).unwrap(), "original");
        assert_eq!(fs::read_to_string(tree.join("lib/a.js")).unwrap(), "original");
        assert_eq!(fs::read_to_string(tree.join(".git/config")).unwrap(), "clean");
        assert!(!tree.join(".git/hooks").exists());
        for name in ["node_modules/a/.git", "node_modules/a/.GIT", "node_modules/b/.git", "src/deep/er/.git"] {
            assert!(fs::symlink_metadata(tree.join(name)).is_err(), "{name}");
        }
        assert!(tree.join("node_modules/a/index.js").exists() && tree.join("src/deep/er").is_dir());
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
