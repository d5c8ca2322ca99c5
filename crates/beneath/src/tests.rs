//! Links, hard links and races below a folder, against every operation.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags};

use super::*;

/// A folder that an attacker has shaped beside one of the host's.
struct World {
    root: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { root: tempfile::tempdir().unwrap() };
        for folder in ["tree/d", "source/d", "host"] {
            fs::create_dir_all(world.path(folder)).unwrap();
        }
        fs::write(world.path("source/d/x"), "planted").unwrap();
        fs::write(world.path("host/secret"), "secret").unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn folder(&self, name: &str) -> Folder {
        Folder::open(&self.path(name)).unwrap()
    }

    /// The host's folder is as it was.
    fn assert_untouched(&self) {
        let names: Vec<_> = fs::read_dir(self.path("host")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["secret"]);
        assert_eq!(fs::read_to_string(self.path("host/secret")).unwrap(), "secret");
        assert_eq!(
            fs::metadata(self.path("host/secret")).unwrap().uid(),
            fs::metadata(self.path("host")).unwrap().uid()
        );
    }
}

/// Ends the attacker's thread also where an assertion fails, so that the test fails and does not hang.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn copy_x(world: &World) -> std::io::Result<()> {
    let x = Path::new("d/x");
    copy(&world.folder("source"), x, &world.folder("tree"), x, Blocks::SharedIfPossible)
}

#[test]
fn a_link_in_the_way_is_refused_by_every_operation() {
    let world = World::new();
    fs::remove_dir(world.path("tree/d")).unwrap();
    symlink(world.path("host"), world.path("tree/d")).unwrap();
    symlink(world.path("host/secret"), world.path("tree/file")).unwrap();
    let tree = world.folder("tree");
    assert!(copy_x(&world).is_err());
    assert!(tree.folder(Path::new("d")).is_err());
    assert!(tree.node_beneath(Path::new("d/secret")).is_err());
    assert!(tree.make_folder(OsStr::new("d")).is_err());
    for path in ["d/secret", "file", "../host/secret", "d/../../host/secret", "/etc/passwd"] {
        assert!(tree.read(Path::new(path), 100).is_err(), "{path}");
        assert!(tree.write(Path::new(path), b"planted").is_err(), "{path}");
    }
    assert!(Folder::open(&world.path("tree/d")).is_err());
    remove(&world.path("tree/d")).unwrap();
    world.assert_untouched();
    assert!(!world.path("tree/d").exists());
}

#[test]
fn a_folder_swapped_for_a_link_while_the_host_works_leads_nowhere() {
    let world = World::new();
    fs::write(world.path("tree/d/secret"), "own").unwrap();
    symlink(world.path("host"), world.path("tree/link")).unwrap();
    let is_over = AtomicBool::new(false);
    let (mut arrived, mut refused) = (0u32, 0u32);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (folder, link) = (world.path("tree/d"), world.path("tree/link"));
            while !is_over.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let _over = Over(&is_over);
        for round in 0..20_000u32 {
            let tree = world.folder("tree");
            match copy_x(&world) {
                Ok(()) => arrived += 1,
                Err(_) => refused += 1,
            }
            let _ = tree.write(Path::new("d/new"), b"planted");
            if let Ok(text) = tree.read(Path::new("d/secret"), 100) {
                assert_eq!(text, b"own");
            }
            if round % 100 == 0 {
                let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
                let other = if uid == 0 { 4242 } else { uid };
                let _ = give(&world.path("tree"), other, if uid == 0 { 4242 } else { gid });
            }
            for folder in ["d", "link"] {
                let Ok(folder) = tree.folder(Path::new(folder)) else { continue };
                for name in ["x", "new"] {
                    let _ = folder.unlink(OsStr::new(name), Kind::File);
                }
            }
        }
    });
    world.assert_untouched();
    assert!(arrived > 0 && refused > 0, "{arrived} arrived, {refused} were refused");
    remove(&world.path("tree")).unwrap();
    world.assert_untouched();
}

#[test]
fn a_tree_that_is_removed_while_links_are_swapped_in_takes_nothing_else_along() {
    let world = World::new();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = fs::create_dir(world.path("tree"));
                let _ = fs::create_dir(world.path("tree/d"));
                let _ = symlink(world.path("host"), world.path("tree/link"));
                let (folder, link) = (world.path("tree/d"), world.path("tree/link"));
                let _ = rustix::fs::renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE);
            }
        });
        let _over = Over(&is_over);
        for _ in 0..5_000 {
            let _ = remove(&world.path("tree"));
        }
    });
    world.assert_untouched();
}

#[test]
fn a_file_with_another_name_outside_is_not_given_away() {
    if !rustix::process::getuid().is_root() {
        return harvest_testing::skip("only root can give files to someone else");
    }
    let world = World::new();
    fs::hard_link(world.path("host/secret"), world.path("tree/d/hard")).unwrap();
    fs::write(world.path("tree/d/own"), "own").unwrap();
    fs::hard_link(world.path("tree/d/own"), world.path("tree/d/twin")).unwrap();
    symlink(world.path("host/secret"), world.path("tree/d/soft")).unwrap();
    give(&world.path("tree"), 4242, 4242).unwrap();
    let owner = |name: &str| fs::symlink_metadata(world.path(name)).unwrap().uid();
    assert_eq!(owner("host/secret"), 0);
    for name in ["tree", "tree/d", "tree/d/own", "tree/d/twin", "tree/d/soft"] {
        assert_eq!(owner(name), 4242, "{name}");
    }
}

#[test]
fn a_copy_is_like_the_original() {
    let world = World::new();
    let source = world.path("source/d");
    fs::write(source.join("program"), "#!/bin/sh").unwrap();
    fs::set_permissions(source.join("program"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::hard_link(source.join("x"), source.join("y")).unwrap();
    fs::create_dir(source.join("inner")).unwrap();
    fs::hard_link(source.join("x"), source.join("inner/z")).unwrap();
    symlink("../x", source.join("inner/link")).unwrap();
    symlink("/nowhere", source.join("dangling")).unwrap();
    rustix::fs::mknodat(CWD, source.join("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
    for name in ["x", "inner"] {
        let times = fs::FileTimes::new().set_modified(long_ago).set_accessed(long_ago);
        fs::File::open(source.join(name)).unwrap().set_times(times).unwrap();
    }
    let d = Path::new("d");
    copy(&world.folder("source"), d, &world.folder("tree"), Path::new("copy"), Blocks::Written).unwrap();
    let copied = world.path("tree/copy");
    for name in ["x", "y", "inner/z"] {
        assert_eq!(fs::read_to_string(copied.join(name)).unwrap(), "planted");
        assert_eq!(fs::metadata(copied.join(name)).unwrap().ino(), fs::metadata(copied.join("x")).unwrap().ino());
    }
    assert_ne!(fs::metadata(copied.join("x")).unwrap().ino(), fs::metadata(source.join("x")).unwrap().ino());
    for name in ["x", "inner"] {
        assert_eq!(fs::metadata(copied.join(name)).unwrap().modified().unwrap(), long_ago, "{name}");
    }
    assert_eq!(fs::metadata(copied.join("program")).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(fs::read_link(copied.join("inner/link")).unwrap(), Path::new("../x"));
    assert_eq!(fs::read_link(copied.join("dangling")).unwrap(), Path::new("/nowhere"));
    assert!(!copied.join("pipe").exists());
    // What is there is never replaced.
    assert!(copy(&world.folder("source"), d, &world.folder("tree"), Path::new("copy"), Blocks::Written).is_err());
}

#[test]
fn a_pipe_is_refused_without_waiting_for_it() {
    let world = World::new();
    rustix::fs::mknodat(CWD, world.path("tree/pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let tree = world.folder("tree");
    assert!(tree.read(Path::new("pipe"), 100).is_err());
    assert!(tree.write(Path::new("pipe"), b"x").is_err());
    fs::write(world.path("tree/large"), "12345").unwrap();
    assert_eq!(tree.read(Path::new("large"), 5).unwrap(), b"12345");
    assert!(tree.read(Path::new("large"), 4).is_err());
}

#[test]
fn a_link_counts_as_itself() {
    let top = tempfile::tempdir().unwrap();
    let (inner, outer) = (top.path().join("inner"), top.path().join("outer"));
    fs::create_dir_all(inner.join("folder")).unwrap();
    fs::create_dir(&outer).unwrap();
    fs::write(outer.join("large"), vec![1; 1 << 20]).unwrap();
    symlink(&outer, inner.join("link")).unwrap();
    symlink(outer.join("large"), inner.join("folder/link")).unwrap();
    assert!(Folder::open(&inner).unwrap().disk_usage().unwrap() < 1 << 20);
    assert!(Folder::open(&outer).unwrap().disk_usage().unwrap() >= 1 << 20);
}

/// Runs a test once more in a process of its own, whose limits no other test has. True within that process.
#[expect(clippy::disallowed_methods, reason = "the test starts itself in a process of its own")]
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "HARVEST_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    let test = format!("tests::{test}");
    let ran = alone.args(["--exact", &test, "--nocapture"]).env(ALONE, "1").output().unwrap();
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    false
}

/// Allows this process so many bytes of memory more than it has.
fn allow_memory(bytes: u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let data = status.lines().find_map(|line| line.strip_prefix("VmData:")).unwrap();
    let kilobytes: u64 = data.trim().trim_end_matches(" kB").parse().unwrap();
    let most = Some(kilobytes * 1024 + bytes);
    let limit = rustix::process::Rlimit { current: most, maximum: most };
    rustix::process::setrlimit(rustix::process::Resource::Data, limit).unwrap();
}

/// Someone to give files to.
fn other() -> (u32, u32) {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    if uid == 0 { (4242, 4242) } else { (uid, gid) }
}

/// The paths of this tree would take 500 megabytes: 2,000 folders inside each other, and a file with two names in each.
#[test]
fn a_deep_tree_of_files_with_several_names_takes_memory_for_its_depth_only() {
    if !is_alone("a_deep_tree_of_files_with_several_names_takes_memory_for_its_depth_only") {
        return;
    }
    let world = World::new();
    let name = "n".repeat(250);
    let mut folder = world.folder("source").folder(Path::new("d")).unwrap();
    for _ in 0..2_000 {
        folder.write(Path::new("one"), b"").unwrap();
        rustix::fs::linkat(&folder, "one", &folder, "two", rustix::fs::AtFlags::empty()).unwrap();
        folder = folder.make_folder(OsStr::new(&name)).unwrap();
    }
    allow_memory(16 << 20);
    let other = other();
    assert!(world.folder("source").disk_usage().unwrap() > 0);
    copy(&world.folder("source"), Path::new("d"), &world.folder("tree"), Path::new("copy"), Blocks::Written).unwrap();
    give(&world.path("tree"), other.0, other.1).unwrap();
    let one = world.folder("tree").node_beneath(&Path::new("copy").join(&name).join("one")).unwrap().unwrap();
    assert_eq!((one.status().uid, one.status().links), (other.0, 2));
    remove(&world.path("tree")).unwrap();
    remove(&world.path("source")).unwrap();
}

/// The names of this tree's folders would take 24 megabytes: 20 folders inside each other with 4,000 names each.
#[test]
fn folders_with_many_names_inside_each_other_take_memory_for_their_depth_only() {
    if !is_alone("folders_with_many_names_inside_each_other_take_memory_for_their_depth_only") {
        return;
    }
    let world = World::new();
    let mut folder = world.folder("source").folder(Path::new("d")).unwrap();
    for _ in 0..20 {
        for number in 0..4_000 {
            rustix::fs::symlinkat("nowhere", &folder, format!("{number:0>250}")).unwrap();
        }
        folder = folder.make_folder(OsStr::new("inner")).unwrap();
    }
    allow_memory(8 << 20);
    copy(&world.folder("source"), Path::new("d"), &world.folder("tree"), Path::new("copy"), Blocks::Written).unwrap();
    let other = other();
    give(&world.path("tree"), other.0, other.1).unwrap();
    for inner in ["copy", "copy/inner/inner/inner"] {
        // The folder inside is one more, and the first has the file `x`. The folder of second names is gone.
        let copied = world.folder("tree").folder(Path::new(inner)).unwrap();
        assert_eq!(copied.names().unwrap().len(), 4_001 + usize::from(inner == "copy"), "{inner}");
    }
    remove(&world.path("tree")).unwrap();
    remove(&world.path("source")).unwrap();
}

/// Every file has its turn to be given, however many have several names.
#[test]
fn files_with_several_names_are_given_in_as_many_walks_as_it_takes() {
    if !rustix::process::getuid().is_root() {
        return harvest_testing::skip("only root can give files to someone else");
    }
    let world = World::new();
    let names: Vec<String> = (0..50).map(|number| format!("tree/d/{number}")).collect();
    for name in &names {
        fs::write(world.path(name), "").unwrap();
        fs::hard_link(world.path(name), world.path(&format!("{name}-twin"))).unwrap();
    }
    fs::hard_link(world.path("host/secret"), world.path("tree/d/hard")).unwrap();
    give::give_counting(&world.path("tree"), 4242, 4242, 7).unwrap();
    for name in &names {
        assert_eq!(fs::metadata(world.path(name)).unwrap().uid(), 4242, "{name}");
    }
    assert_eq!(fs::metadata(world.path("host/secret")).unwrap().uid(), 0);
}

/// Every operation on a whole tree goes down 2,000 folders while the process may open few files.
#[test]
fn a_very_deep_tree_takes_few_descriptors() {
    const DEPTH: usize = 2_000;
    if !is_alone("a_very_deep_tree_takes_few_descriptors") {
        return;
    }
    let world = World::new();
    let name = OsStr::new("a folder with a name so long that paths to the end of the tree are no paths");
    let mut folder = world.folder("source").folder(Path::new("d")).unwrap();
    for _ in 0..DEPTH {
        folder = folder.make_folder(name).unwrap();
    }
    folder.write(Path::new("end"), b"reached").unwrap();
    rustix::fs::linkat(&folder, "end", &folder, "twin", rustix::fs::AtFlags::empty()).unwrap();
    drop(folder);
    let few = rustix::process::Rlimit { current: Some(128), maximum: Some(128) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
    assert!(world.folder("source").disk_usage().unwrap() > 0);
    copy(&world.folder("source"), Path::new("d"), &world.folder("tree"), Path::new("copy"), Blocks::Written).unwrap();
    let other = other();
    give(&world.path("tree"), other.0, other.1).unwrap();
    let deep: PathBuf = std::iter::repeat_n(Path::new(name), DEPTH).collect();
    let end = world.folder("tree").folder(&Path::new("copy").join(deep)).unwrap();
    assert_eq!(end.read(Path::new("end"), 100).unwrap(), b"reached");
    for name in ["end", "twin"] {
        let node = end.node(OsStr::new(name)).unwrap().unwrap();
        assert_eq!((node.status().uid, node.status().links), (other.0, 2), "{name}");
    }
    remove(&world.path("tree")).unwrap();
    remove(&world.path("source")).unwrap();
}
