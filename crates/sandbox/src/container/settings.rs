//! What a container is like: what it sees, what it may do, what it may use.

use std::fs;
use std::path::{Path, PathBuf};

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType,
    ResourcesUlimits,
};
use harvest_link::{Boot, Counters, Identity, Watch};
use rustix::process::Resource;

use super::Options;
use super::engine::About;
use crate::layout::{self, Layout};
use crate::local::Local;
use crate::{Error, Spec};

pub(super) const SANDBOX: &str = "dev.harvest.sandbox";
pub(super) const INSTALLATION: &str = "dev.harvest.installation";

/// The runner's own. A file system of its own whose top only root may enter, whoever owns what is mounted in it.
const PRIVATE: &str = "/harvest/private";
const PRIVATE_OPTIONS: &str = "rw,nosuid,nodev,noexec,size=64k,mode=0700";

/// What the runner needs to start processes as someone else, to end them, and to keep account of their files. They get none.
const CAPABILITIES: [&str; 4] = ["SETUID", "SETGID", "KILL", "DAC_OVERRIDE"];

/// The largest of the file systems in memory. They outlive the processes that fill them, so that all of them together have to
/// leave room for others.
const SCRATCH: u64 = 2 << 30;
const SHARE: u64 = 8;
/// The runner, the wrappers around processes, and whoever the engine sends in.
const BESIDES: u64 = 16;
/// The rlimit is above the limit of the group, which tells when it refused a process and so should be the first to.
const BEYOND: u64 = 256;

/// Everything that decides what one container is like.
#[derive(Debug)]
pub(super) struct Settings<'a> {
    pub spec: &'a Spec,
    pub workspace: &'a Path,
    pub layout: &'a Layout,
    pub options: &'a Options,
    pub about: &'a About,
    pub installation: &'a str,
    pub filter: &'a Path,
    /// Whom processes run as.
    pub identity: Identity,
    /// That one runs nothing else on this host.
    pub own_uid: bool,
}

impl Settings<'_> {
    pub fn boot(&self) -> Boot {
        let limits = &self.spec.limits;
        let paths = Local::paths();
        let own = |name: &str| Path::new(PRIVATE).join(name);
        let Identity { uid, gid } = self.identity;
        let runner = paths.bin.join("harvest-runner").display().to_string();
        let wrap = [&runner, "attempt", &uid.to_string(), &gid.to_string(), "{filter}", "--"];
        Boot {
            sandbox: self.spec.id.to_string(),
            link: own("link/link.sock"),
            gateway: own("link/gateway.sock"),
            spool: own("spool"),
            wrap: wrap.map(str::to_owned).to_vec(),
            identity: Some(self.identity),
            deadline_secs: limits.wall.as_secs(),
            max_spool_bytes: limits.output_bytes,
            open_files: None,
            filter: Some(own("filter")),
            watch: Watch {
                memory_bytes: Some(limits.memory_bytes),
                processes: Some(limits.processes),
                disk_bytes: Some(limits.disk_bytes),
                inodes: Some(limits.inodes),
                folders: vec![paths.workspace.clone(), paths.home.clone()],
                counters: self.counters(),
            },
            workspace: paths.workspace,
            home: paths.home,
        }
    }

    /// Where the engine shows a container its own control group. The runner measures where it does not.
    fn counters(&self) -> Counters {
        let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let (memory, processes) = if unified {
            ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/pids.events")
        } else {
            ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/pids/pids.events")
        };
        Counters {
            memory: self.about.limits_memory.then(|| PathBuf::from(memory)),
            processes: self.about.limits_processes.then(|| PathBuf::from(processes)),
        }
    }

    /// Programs ask for the name of who runs them, and the image knows nothing of this uid.
    pub fn write_names(&self) -> Result<(), Error> {
        let Identity { uid, gid } = self.identity;
        let home = Local::paths().home;
        let users = format!("root:x:0:0:root:/:/sbin/nologin\nharvest:x:{uid}:{gid}::{}:/bin/sh\n", home.display());
        layout::write(&self.users(), users.as_bytes())?;
        layout::write(&self.groups(), format!("root:x:0:\nharvest:x:{gid}:\n").as_bytes())
    }

    fn users(&self) -> PathBuf {
        self.layout.state.join("passwd")
    }

    fn groups(&self) -> PathBuf {
        self.layout.state.join("group")
    }

    pub fn container(&self) -> Result<ContainerCreateBody, Error> {
        let paths = Local::paths();
        let text = |path: PathBuf| path.display().to_string();
        let labels = [(SANDBOX, self.spec.id.as_str()), (INSTALLATION, self.installation)];
        Ok(ContainerCreateBody {
            image: Some(self.options.image.clone()),
            hostname: Some("harvest".to_owned()),
            user: Some("0:0".to_owned()),
            entrypoint: Some(vec![text(paths.bin.join("harvest-runner"))]),
            // The id at the end tells whose it is in a list of processes.
            cmd: Some(vec!["run".to_owned(), format!("{PRIVATE}/boot.json"), self.spec.id.to_string()]),
            working_dir: Some("/".to_owned()),
            env: Some(Vec::new()),
            labels: Some(labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
            network_disabled: Some(true),
            healthcheck: Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }),
            stop_signal: Some("SIGKILL".to_owned()),
            stop_timeout: Some(0),
            host_config: Some(self.host()?),
            ..ContainerCreateBody::default()
        })
    }

    fn host(&self) -> Result<HostConfig, Error> {
        let limits = &self.spec.limits;
        let scratch = SCRATCH.min(limits.memory_bytes / SHARE);
        let memory = self.about.limits_memory.then(|| signed(limits.memory_bytes));
        let nano_cpus = limits.cpu_millis.filter(|_| self.about.limits_cpu).map(|millis| signed(millis * 1_000_000));
        let in_memory = format!("rw,exec,nosuid,nodev,mode=1777,size={scratch}");
        let tmpfs = [("/tmp", in_memory.as_str()), ("/var/tmp", &in_memory), (PRIVATE, PRIVATE_OPTIONS)];
        Ok(HostConfig {
            mounts: Some(self.mounts()?),
            tmpfs: Some(tmpfs.map(|(path, options)| (path.to_owned(), options.to_owned())).into()),
            shm_size: Some(signed(scratch)),
            readonly_rootfs: Some(true),
            network_mode: Some("none".to_owned()),
            ipc_mode: Some("private".to_owned()),
            privileged: Some(false),
            cap_drop: Some(vec!["ALL".to_owned()]),
            cap_add: Some(CAPABILITIES.map(str::to_owned).to_vec()),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            // So that our own files are our own in there, too.
            userns_mode: self.about.is_rootless.then(|| "keep-id".to_owned()),
            memory,
            // Together with swap: none.
            memory_swap: memory,
            nano_cpus,
            pids_limit: self.about.limits_processes.then(|| signed(limits.processes + BESIDES)),
            ulimits: Some(self.ulimits()),
            runtime: self.options.runtime.clone(),
            init: Some(false),
            auto_remove: Some(false),
            ..HostConfig::default()
        })
    }

    fn ulimits(&self) -> Vec<ResourcesUlimits> {
        let limits = &self.spec.limits;
        // An engine without the right to raise limits fails when it is asked for more than there is.
        let most = |resource| rustix::process::getrlimit(resource).maximum;
        let within = |resource, value: u64| most(resource).map_or(value, |most| value.min(most));
        // Counted over all processes of that uid on the host, so only of use where it has no others.
        let processes =
            if self.own_uid { Some(within(Resource::Nproc, limits.processes + BEYOND)) } else { most(Resource::Nproc) };
        let rows = [
            ("core", Some(0)),
            ("nofile", Some(within(Resource::Nofile, limits.open_files))),
            ("nproc", processes),
            ("fsize", Some(within(Resource::Fsize, limits.disk_bytes.max(limits.output_bytes)))),
        ];
        let set = |(name, value): (&str, Option<u64>)| {
            let value = Some(signed(value?));
            Some(ResourcesUlimits { name: Some(name.to_owned()), soft: value, hard: value })
        };
        rows.into_iter().filter_map(set).collect()
    }

    fn mounts(&self) -> Result<Vec<Mount>, Error> {
        let paths = Local::paths();
        let layout = self.layout;
        let own = |name: &str| Path::new(PRIVATE).join(name);
        let mut mounts = vec![
            bind(self.workspace, &paths.workspace, Access::Writable)?,
            bind(&layout.home(), &paths.home, Access::Writable)?,
            bind(&self.options.binaries.folder, &paths.bin, Access::ReadOnly)?,
            bind(&self.users(), Path::new("/etc/passwd"), Access::ReadOnly)?,
            bind(&self.groups(), Path::new("/etc/group"), Access::ReadOnly)?,
            bind(&layout.sockets, &own("link"), Access::ReadOnly)?,
            bind(&layout.spool(), &own("spool"), Access::Writable)?,
            bind(&layout.boot(), &own("boot.json"), Access::ReadOnly)?,
            bind(self.filter, &own("filter"), Access::ReadOnly)?,
        ];
        if let Some(objects) = &self.spec.objects {
            mounts.push(bind(objects, &paths.objects, Access::ReadOnly)?);
        }
        Ok(mounts)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    ReadOnly,
    Writable,
}

fn bind(source: &Path, target: &Path, access: Access) -> Result<Mount, Error> {
    let source = std::path::absolute(source).map_err(|error| Error::io(source, error))?;
    // Podman writes mounts down as a list with commas, and quotes nothing.
    let text = source.to_str().filter(|text| !text.contains([',', '"', '\n'])).ok_or_else(|| {
        let shown = source.display();
        Error::failed(format!(
            "{shown} cannot be shown in a container, since its path has a comma or a quote in it, or is no UTF-8; \
             choose another place with --data-dir"
        ))
    })?;
    fs::symlink_metadata(&source).map_err(|error| Error::io(&source, error))?;
    Ok(Mount {
        typ: Some(MountType::BIND),
        source: Some(text.to_owned()),
        target: Some(target.display().to_string()),
        read_only: Some(access == Access::ReadOnly),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    })
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
