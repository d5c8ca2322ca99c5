//! Stand-ins for programs. asdf, mise, pyenv, nodenv and volta put a stand-in for each program on the search path, which
//! needs its manager and the manager's state to run; pnpm writes a shell script with the place of the program in it.

use std::fs;
use std::path::{Path, PathBuf};

use super::executable;

/// More than any stand-in has. What is longer is a program of its own.
const LONGEST: u64 = 16 << 10;

/// The program that the stand-in `typed` stands for; `target` is the file behind its links. `None` for a program itself.
pub fn behind(typed: &Path, target: &Path) -> Option<PathBuf> {
    let (folder, name) = (typed.parent()?, typed.file_name()?);
    if target.file_name().is_some_and(|name| name == "volta-shim") {
        let image = folder.parent()?.join("tools/image");
        // A package with a scope lies one folder deeper.
        let packages = children(&image.join("packages"));
        let scoped = packages.iter().flat_map(|place| children(place)).collect();
        let all = [packages, scoped, children(&image.join("node"))].concat();
        return newest(all.into_iter().map(|place| place.join("bin").join(name)));
    }
    if folder.file_name().is_some_and(|folder| folder == "shims") {
        let root = folder.parent()?;
        let versions = children(&root.join("versions"));
        let installs = children(&root.join("installs")).iter().flat_map(|tool| children(tool)).collect();
        return newest([versions, installs].concat().into_iter().map(|place| place.join("bin").join(name)));
    }
    let target_folder = target.parent()?;
    named_by_script(target).and_then(|relative| executable(&target_folder.join(relative)))
}

/// The path in a script of the kind that pnpm writes: `exec node "$basedir/…/node_modules/…" "$@"`, since version 11
/// `exec node "$basedir_abs"/'…/node_modules/…' "$@"`.
fn named_by_script(script: &Path) -> Option<PathBuf> {
    if fs::metadata(script).ok()?.len() > LONGEST {
        return None;
    }
    let text = fs::read_to_string(script).ok().filter(|text| text.starts_with("#!"))?;
    let named = text.split("\"$basedir").skip(1).filter_map(|rest| match rest.strip_prefix('/') {
        Some(path) => path.split('"').next(),
        None => rest.split_once('"')?.1.strip_prefix("/'")?.split('\'').next(),
    });
    named.map(PathBuf::from).find(|path| path.components().any(|part| part.as_os_str() == "node_modules"))
}

/// Of the programs that exist, the one in the folder that was changed last: the version that was installed last.
fn newest(programs: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let changed = |path: &PathBuf| fs::metadata(path.parent()?).ok()?.modified().ok();
    programs.filter(|path| path.exists()).max_by_key(changed).and_then(|path| executable(&path))
}

fn children(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
