//! Control groups: limits on memory, processes and CPU that the kernel keeps.
//!
//! Each sandbox has one of its own in every hierarchy that counts, below the one this process is in, so that whatever was
//! imposed on us holds for sandboxes, too. They are made for a [launcher](super::launcher), before it is known which sandbox
//! that will be, and get their limits when it is. On hosts with version 2 the place has to be found: a group with processes of its own
//! cannot have limited groups below it, so it is the nearest one above us that is ours to write to, or our own once everything
//! in it has moved one level down.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::{Error, Limits};

const PREFIX: &str = "harvest-";
/// Where our own process goes when its group has to make room.
const OURSELVES: &str = "harvest.main";
const PERIOD_MICROS: u64 = 100_000;
/// A group is busy for a moment after its last process has ended.
const BUSY: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A place where groups can be made for one kind of limit.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    version: Version,
    folder: PathBuf,
}

/// Where the groups of sandboxes are made on this host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Groups {
    memory: Option<Place>,
    processes: Option<Place>,
    cpu: Option<Place>,
}

/// The groups of one sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Group {
    /// To be joined by the launcher, besides those it is in.
    pub join: Vec<PathBuf>,
    /// Counts what the kernel ended for lack of memory.
    pub memory: Option<PathBuf>,
    /// Counts what the kernel refused to start.
    pub processes: Option<PathBuf>,
}

impl Groups {
    pub fn of_this_host() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let hierarchies = hierarchies(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
        let find = |controller: &str| {
            let named = |(names, _): &&(Vec<String>, Place)| names.iter().any(|name| name == controller);
            match hierarchies.iter().find(named) {
                Some((_, place)) => Some(place.clone()).filter(|place| can_make(&place.folder)),
                None => hierarchies
                    .iter()
                    .find(|(_, place)| place.version == Version::Two)
                    .and_then(|(_, own)| second(&own.folder, controller))
                    .map(|folder| Place { version: Version::Two, folder }),
            }
        };
        Self { memory: find("memory"), processes: find("pids"), cpu: find("cpu") }
    }

    pub fn memory(&self) -> Option<std::path::Display<'_>> {
        self.memory.as_ref().map(|place| place.folder.display())
    }

    pub fn processes(&self) -> Option<std::path::Display<'_>> {
        self.processes.as_ref().map(|place| place.folder.display())
    }

    pub fn cpu(&self) -> Option<std::path::Display<'_>> {
        self.cpu.as_ref().map(|place| place.folder.display())
    }

    /// Every folder that groups of this name may be at.
    pub fn folders(&self, name: &str) -> Vec<PathBuf> {
        let places = [&self.memory, &self.processes, &self.cpu].into_iter().flatten();
        let mut folders: Vec<PathBuf> = places.map(|place| place.folder.join(format!("{PREFIX}{name}"))).collect();
        folders.sort();
        folders.dedup();
        folders
    }

    /// Those that every sandbox is in. Being in a group costs something whenever a process is started, so not one that may
    /// limit nothing.
    fn always(&self, name: &str) -> Vec<PathBuf> {
        Self { cpu: None, ..self.clone() }.folders(name)
    }

    /// Makes groups without limits; returns what has to be written to, to be in them.
    pub fn make(&self, name: &str) -> Result<Vec<PathBuf>, Error> {
        self.always(name).iter().map(|folder| make(folder)).collect()
    }

    /// Limits the groups of this name.
    pub fn limit(&self, name: &str, limits: &Limits) -> Result<Group, Error> {
        let at = |place: &Place| (place.version, place.folder.join(format!("{PREFIX}{name}")));
        let mut group = Group::default();
        if let Some((version, folder)) = self.memory.as_ref().map(at) {
            let (limit, swap, swap_bytes, events) = match version {
                Version::One => {
                    ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", limits.memory_bytes, "memory.oom_control")
                }
                Version::Two => ("memory.max", "memory.swap.max", 0, "memory.events"),
            };
            set(&folder.join(limit), &limits.memory_bytes.to_string())?;
            // Not every kernel counts swap.
            let _ = set(&folder.join(swap), &swap_bytes.to_string());
            group.memory = Some(folder.join(events));
        }
        if let Some((_, folder)) = self.processes.as_ref().map(at) {
            set(&folder.join("pids.max"), &limits.processes.to_string())?;
            group.processes = Some(folder.join("pids.events")).filter(|events| events.exists());
        }
        if let (Some((version, folder)), Some(millis)) = (self.cpu.as_ref().map(at), limits.cpu_millis) {
            // The kernel takes no less than a millisecond.
            let quota = (millis * PERIOD_MICROS / 1000).max(1000);
            if !self.always(name).contains(&folder) {
                group.join.push(make(&folder)?);
            }
            match version {
                Version::One => {
                    set(&folder.join("cpu.cfs_period_us"), &PERIOD_MICROS.to_string())?;
                    set(&folder.join("cpu.cfs_quota_us"), &quota.to_string())?;
                }
                Version::Two => set(&folder.join("cpu.max"), &format!("{quota} {PERIOD_MICROS}"))?,
            }
        }
        Ok(group)
    }
}

fn make(folder: &Path) -> Result<PathBuf, Error> {
    fs::create_dir(folder).map_err(|error| Error::io(folder, error))?;
    Ok(folder.join("cgroup.procs"))
}

/// Removes groups whose processes have ended. Not being there is fine.
pub(super) fn remove(folders: &[PathBuf]) -> Result<(), Error> {
    for folder in folders {
        let end = Instant::now() + BUSY;
        loop {
            match fs::remove_dir(folder) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(error) => return Err(Error::io(folder, error)),
            }
        }
    }
    Ok(())
}

fn set(file: &Path, value: &str) -> Result<(), Error> {
    fs::write(file, value).map_err(|error| Error::io(file, error))
}

/// The hierarchies this process is in: their controllers, and where we are.
fn hierarchies(membership: &str, mounts: &str) -> Vec<(Vec<String>, Place)> {
    let mut found = Vec::new();
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(own)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let version = if number == "0" { Version::Two } else { Version::One };
        let names: Vec<String> = controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let folder = mounts.lines().find_map(|mount| {
            let (place, kind) = mount.split_once(" - ")?;
            let mut kind = kind.split(' ');
            let (system, options) = (kind.next()?, kind.nth(1)?);
            let fits = match version {
                Version::Two => system == "cgroup2",
                Version::One => {
                    system == "cgroup"
                        && !names.is_empty()
                        && names.iter().all(|name| options.split(',').any(|option| option == name))
                }
            };
            let mut place = place.split(' ');
            let (root, target) = (place.nth(3)?, place.next()?);
            // Seen from a container the mount may begin further down than the path we are told.
            let below = own.strip_prefix(root.trim_end_matches('/')).unwrap_or(own);
            fits.then(|| Path::new(target).join(below.trim_start_matches('/')))
        });
        found.extend(folder.map(|folder| (names, Place { version, folder })));
    }
    found
}

/// Whether groups can be made here, found out by making one.
fn can_make(folder: &Path) -> bool {
    let probe = folder.join(format!("{PREFIX}probe.{}", std::process::id()));
    fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)).is_ok()
}

/// The group of version 2 whose children can have limits of this kind; `own` is the one we are in.
fn second(own: &Path, controller: &str) -> Option<PathBuf> {
    let has = |folder: &Path, file: &str| {
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        text.split_ascii_whitespace().any(|name| name == controller)
    };
    let offers = |folder: &Path| {
        let offered = has(folder, "cgroup.controllers")
            && (has(folder, "cgroup.subtree_control")
                || fs::write(folder.join("cgroup.subtree_control"), format!("+{controller}")).is_ok());
        offered && can_make(folder)
    };
    // Nothing above the first that is not ours: we could not leave it.
    let ours = |folder: &&Path| rustix::fs::access(folder.join("cgroup.procs"), rustix::fs::Access::WRITE_OK).is_ok();
    let is_empty = |folder: &Path| fs::read_to_string(folder.join("cgroup.procs")).is_ok_and(|text| text.is_empty());
    if own.ends_with(OURSELVES) {
        return own.parent().filter(|folder| offers(folder)).map(Path::to_owned);
    }
    let above = own.ancestors().skip(1).take_while(ours).find(|folder| is_empty(folder) && offers(folder));
    if let Some(folder) = above {
        return Some(folder.to_owned());
    }
    (ours(&own) && make_room(own).is_ok() && offers(own)).then(|| own.to_owned())
}

/// Moves this process one level down, if it is alone in its group.
fn make_room(own: &Path) -> io::Result<()> {
    let members = fs::read_to_string(own.join("cgroup.procs"))?;
    if members.split_ascii_whitespace().any(|pid| pid != std::process::id().to_string()) {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    let below = own.join(OURSELVES);
    match fs::create_dir(&below) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => fs::write(below.join("cgroup.procs"), "0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
25 24 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
26 25 0:23 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
27 25 0:24 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
28 25 0:25 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
29 25 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";

    #[test]
    fn our_place_is_found_in_every_hierarchy() {
        let membership = "9:memory:/service/x\n8:cpu,cpuacct:/\n7:pids:/docker/abc/y\n1:name=systemd:/\n0::/\n";
        let found = hierarchies(membership, HYBRID);
        let place = |controller: &str| {
            let named = |(names, _): &&(Vec<String>, Place)| names.iter().any(|name| name == controller);
            found.iter().find(named).map(|(_, place)| place.folder.to_string_lossy().into_owned())
        };
        assert_eq!(place("memory").as_deref(), Some("/sys/fs/cgroup/memory/service/x"));
        assert_eq!(place("cpu").as_deref(), Some("/sys/fs/cgroup/cpu,cpuacct/"));
        assert_eq!(place("pids").as_deref(), Some("/sys/fs/cgroup/pids/y"));
        let second = found.iter().find(|(_, place)| place.version == Version::Two).unwrap();
        assert_eq!(second.1.folder, Path::new("/sys/fs/cgroup/unified"));
    }

    /// A folder that looks like a group of version 2.
    fn group(path: &Path, members: &str, controllers: &str, passed_on: &str) {
        fs::create_dir_all(path).unwrap();
        for (file, text) in
            [("cgroup.procs", members), ("cgroup.controllers", controllers), ("cgroup.subtree_control", passed_on)]
        {
            fs::write(path.join(file), text).unwrap();
        }
    }

    #[test]
    fn groups_go_beside_us_where_the_one_above_is_ours_and_free() {
        let root = tempfile::tempdir().unwrap();
        let slice = root.path().join("user@1000.service/app.slice");
        group(&slice, "", "cpu memory pids", "memory pids");
        group(&slice.join("terminal.scope"), "17\n18\n", "memory pids", "");
        assert_eq!(second(&slice.join("terminal.scope"), "memory"), Some(slice.clone()));
        assert_eq!(second(&slice.join("terminal.scope"), "io"), None);
    }

    #[test]
    fn our_own_group_is_used_only_when_we_are_alone_in_it() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("harvest.service");
        group(&own, &format!("{}\n1\n", std::process::id()), "memory pids", "");
        assert_eq!(second(&own, "memory"), None);
        group(&own, &format!("{}\n", std::process::id()), "memory pids", "memory");
        assert_eq!(second(&own, "memory"), Some(own.clone()));
        assert_eq!(fs::read_to_string(own.join(OURSELVES).join("cgroup.procs")).unwrap(), "0");
    }
}
