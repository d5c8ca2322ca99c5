//! What a program cannot run without: the rest of its package and the packages that this one names, its virtual environment
//! and the Python of that, and the interpreter in its first line.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::{executable, is_of_the_system, shim};

/// Packages that are shown one by one. Each is a mount in every sandbox, so of more their common folder is shown.
const MANY: usize = 12;

#[derive(Debug, Default)]
pub struct Needs {
    pub shown: Vec<PathBuf>,
    /// The folder with the interpreter, if that is not the system's.
    pub interpreter_folder: Option<PathBuf>,
}

/// `program` was found as `typed`; interpreters are looked for beside that, then along `path`.
pub fn of(program: &Path, typed: &Path, path: &str) -> Needs {
    let mut needs = Needs { shown: own_places(program), interpreter_folder: None };
    if let Some(interpreter) = interpreter_of(program, typed, path) {
        if !needs.shown.iter().any(|place| interpreter.starts_with(place)) {
            needs.shown.extend(own_places(&interpreter));
        }
        needs.interpreter_folder = interpreter.parent().map(Path::to_owned);
    }
    needs
}

fn own_places(program: &Path) -> Vec<PathBuf> {
    if let Some(environment) = program.ancestors().skip(1).find(|folder| folder.join("pyvenv.cfg").is_file()) {
        return [environment.to_owned()].into_iter().chain(python_of(environment)).collect();
    }
    match package_of(program) {
        Some(package) => packages(&package),
        None => vec![program.to_owned()],
    }
}

/// The folders with the Python of a virtual environment: as its settings name it, and behind links. The system's is shown
/// anyway. A folder that also holds the environment is not the Python's own and is left out.
fn python_of(environment: &Path) -> Vec<PathBuf> {
    let settings = fs::read_to_string(environment.join("pyvenv.cfg")).unwrap_or_default();
    let home = settings.lines().find_map(|line| line.strip_prefix("home")?.trim_start().strip_prefix('='));
    let is_plain = |home: &&Path| {
        home.is_absolute() && home.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
    };
    let home = home.map(|home| Path::new(home.trim())).filter(is_plain);
    let named = home.and_then(|home| Some(home.parent()?.to_owned()));
    let linked = environment.join("bin/python").canonicalize().ok();
    let linked = linked.and_then(|python| Some(python.parent()?.parent()?.to_owned()));
    let is_its_own =
        |prefix: &PathBuf| prefix.join("lib").is_dir() && !environment.starts_with(prefix) && !is_of_the_system(prefix);
    let all: BTreeSet<PathBuf> = named.into_iter().chain(linked).filter(is_its_own).collect();
    all.into_iter().collect()
}

/// The folder of the npm package that a file belongs to.
fn package_of(program: &Path) -> Option<PathBuf> {
    let modules = program.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "node_modules"))?;
    let inside = program.strip_prefix(modules).ok()?;
    let scoped = inside.to_string_lossy().starts_with('@');
    Some(inside.components().take(if scoped { 2 } else { 1 }).fold(modules.to_owned(), |place, part| place.join(part)))
}

/// A package and those that it depends on, each where Node.js finds it.
fn packages(package: &Path) -> Vec<PathBuf> {
    // pnpm links packages to each other inside of one folder, which works only as a whole.
    if let Some(store) = package.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == ".pnpm")) {
        return vec![store.to_owned()];
    }
    let (mut seen, mut pending) = (BTreeSet::from([package.to_owned()]), vec![package.to_owned()]);
    let mut is_linked = false;
    while let Some(package) = pending.pop() {
        for place in dependencies(&package).iter().filter_map(|name| resolve(&package, name)) {
            let Ok(found) = place.canonicalize() else { continue };
            if found != place {
                // A link may lead to a package elsewhere, and to nothing else.
                if !found.join("package.json").is_file() && package_folder(&found).is_none() {
                    continue;
                }
                // Node.js comes to it by the link, so the folder with the link is needed too.
                is_linked = true;
                seen.extend(package_folder(&place));
            }
            if seen.insert(found.clone()) {
                pending.push(found);
            }
        }
    }
    // A package inside of another one's folder is shown with that.
    let outer = |place: &&PathBuf| !seen.iter().any(|other| other != *place && place.starts_with(other));
    let places: Vec<PathBuf> = seen.iter().filter(outer).cloned().collect();
    if places.len() <= MANY {
        return places;
    }
    let folder = if is_linked {
        common_store(&places)
    } else {
        places.iter().filter_map(|place| package_folder(place)).min_by_key(|folder| folder.components().count())
    };
    folder.map_or(places, |folder| vec![folder])
}

/// The folder that holds all these packages, if that is a store of a package manager and not, say, someone's home.
fn common_store(places: &[PathBuf]) -> Option<PathBuf> {
    let folder = places.first()?.ancestors().find(|folder| places.iter().all(|place| place.starts_with(folder)))?;
    let is_store = |name: &OsStr| ["node_modules", ".pnpm", "links"].iter().any(|store| name == *store);
    folder.iter().any(is_store).then(|| folder.to_owned())
}

/// The `node_modules` that a package lies in.
fn package_folder(package: &Path) -> Option<PathBuf> {
    package
        .ancestors()
        .skip(1)
        .find(|folder| folder.file_name().is_some_and(|name| name == "node_modules"))
        .map(Path::to_owned)
}

fn dependencies(package: &Path) -> Vec<String> {
    let text = fs::read(package.join("package.json")).unwrap_or_default();
    let manifest: Value = serde_json::from_slice(&text).unwrap_or_default();
    let lists = ["dependencies", "optionalDependencies", "peerDependencies"].map(|list| manifest[list].as_object());
    lists.into_iter().flatten().flat_map(|list| list.keys()).filter(|name| is_package_name(name)).cloned().collect()
}

/// `name` or `@scope/name`. Anything else would lead out of the `node_modules` where packages are looked for.
fn is_package_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let is_plain = |c: char| !c.is_control() && !matches!(c, '/' | '\\');
        !part.is_empty() && !part.starts_with('.') && part.chars().all(is_plain)
    };
    match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| is_part(scope) && is_part(name)),
        None => is_part(name),
    }
}

/// Node.js looks in the `node_modules` of every folder from the package upwards.
fn resolve(package: &Path, name: &str) -> Option<PathBuf> {
    let folders = package.ancestors().filter(|folder| folder.file_name().is_none_or(|name| name != "node_modules"));
    folders.map(|folder| folder.join("node_modules").join(name)).find(|place| place.is_dir())
}

/// The interpreter in the first line of a script, unless the system has it.
fn interpreter_of(program: &Path, typed: &Path, path: &str) -> Option<PathBuf> {
    let mut first = Vec::new();
    File::open(program).ok()?.take(256).read_to_end(&mut first).ok()?;
    let line = first.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.strip_prefix("#!")?.split_whitespace();
    let named = Path::new(words.next()?);
    let found = if named.file_name().is_some_and(|name| name == "env") {
        let name =
            words.find(|word| !word.starts_with('-') && !word.contains('=')).filter(|name| !name.contains('/'))?;
        let beside = typed.parent().map(Path::to_owned);
        beside.into_iter().chain(std::env::split_paths(path)).find_map(|folder| {
            let typed = folder.join(name);
            let target = executable(&typed)?;
            Some(shim::behind(&typed, &target).unwrap_or(target))
        })?
    } else {
        executable(named)?
    };
    (!is_of_the_system(&found)).then_some(found)
}
