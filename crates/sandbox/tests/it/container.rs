//! Containers of a real Podman: what an agent may try there, and what comes of it. The suite for all providers runs, too.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use harvest_core::SandboxId;
use harvest_sandbox::{Error, File, Limits, Output, ProcessSpec, Provider, Sandbox, Spec, Workspace, container};

use crate::podman;
use crate::support::{self, Place, finish, next, python, run, shell};

/// What was killed is gone by then.
const DYING: Duration = Duration::from_secs(10);

/// None where there is no Podman, which is said.
pub fn place() -> Option<Place> {
    if let Err(reason) = podman::get() {
        harvest_testing::skip(reason);
        return None;
    }
    let mut place = support::place(provider);
    place.traces = traces;
    Some(place)
}

pub fn options(folder: &Path) -> container::Options {
    container::Options {
        sockets: vec![podman::get().unwrap().socket.clone()],
        image: podman::IMAGE.to_owned(),
        runtime: None,
        state: folder.join("state"),
        runtime_folder: folder.join("run"),
        binaries: support::binaries(folder),
    }
}

fn provider(folder: &Path) -> Arc<dyn Provider> {
    Arc::new(container::Container::new(options(folder)).unwrap())
}

fn traces(folder: &Path, id: &SandboxId) -> Vec<String> {
    let look = || {
        let mut found = support::traces(folder, id);
        let label = format!("label=dev.harvest.sandbox={id}");
        let containers = podman::get().unwrap().output(&["ps", "--all", "--quiet", "--filter", &label]);
        found.extend(containers.lines().map(|line| format!("container {line}")));
        found
    };
    // The process that watches a container ends a moment after it.
    let (begun, mut found) = (Instant::now(), look());
    while !found.is_empty() && found == support::processes_with(id.as_str()) && begun.elapsed() < DYING {
        std::thread::sleep(Duration::from_millis(20));
        found = look();
    }
    found
}

async fn sandbox() -> Option<(Place, Sandbox)> {
    let place = place()?;
    let sandbox = place.create().await;
    Some((place, sandbox))
}

#[test]
fn podman_is_there_for_whoever_can_have_it() {
    let root = rustix::process::geteuid().is_root() && std::env::var_os("HARVEST_TEST_SKIP_PODMAN").is_none();
    assert_eq!(podman::get().is_ok(), root);
}

#[tokio::test]
async fn nothing_of_the_host_is_visible_but_what_was_given() {
    let Some((place, sandbox)) = sandbox().await else { return };
    let folder = place.folder.path().display().to_string();
    for path in ["/etc/shadow", "/etc/ssh", "/root/.ssh", "/boot", "/proc/1/root/", "/proc/1/cwd/", &folder] {
        let look = format!("ls -d {path} || cat {path}");
        let outcome = run(&sandbox, &format!("see{}", path.replace('/', "-")), &look).await;
        assert_ne!(outcome.code(), Some(0), "{path}: {outcome:?}");
    }
    let script = "for f in /usr/x /etc/x /etc/passwd /x /harvest/bin/x /harvest/x /home/x /run/x /var/x /dev/x /sys/x \
                  /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sysrq-trigger /sys/fs/cgroup/memory/x; do \
                  (echo x > $f) 2>/dev/null && echo wrote $f; done; (echo over > /harvest/bin/harvest-runner) 2>/dev/null; \
                  head -c1 /proc/kcore 2>/dev/null; ls /dev/kvm /dev/vda /dev/mem 2>/dev/null; id -un; id -u; echo ~";
    let outcome = run(&sandbox, "write", script).await;
    let [name, uid, home] = outcome.stdout.as_slice() else { panic!("{outcome:?}") };
    assert_eq!((name.as_str(), home.as_str()), ("harvest", "/home/harvest"));
    // No uid of a person or a service.
    assert!(uid.parse::<u32>().unwrap() >= 0x6000_0000, "{uid}");
    place.provider.destroy(sandbox.id()).await.unwrap();
}

#[tokio::test]
async fn no_engine_socket_can_be_found() {
    let Some((place, sandbox)) = sandbox().await else { return };
    let engine = podman::get().unwrap().socket.display().to_string();
    let script = format!(
        "find / -xdev -type s 2>/dev/null; for d in /home /workspace /run /tmp /harvest /var; do find $d -type s 2>/dev/null; done; \
         for p in /run/podman /var/run/docker.sock /run/containerd /run/secrets {engine}; do ls -d $p 2>/dev/null; done; true"
    );
    assert_eq!(run(&sandbox, "p", &script).await.text(), "");
    place.provider.destroy(sandbox.id()).await.unwrap();
}

#[tokio::test]
async fn an_agent_has_no_capability_and_can_get_none() {
    let Some((place, sandbox)) = sandbox().await else { return };
    let script = "grep -E '^(CapInh|CapPrm|CapEff|CapAmb|NoNewPrivs|Seccomp|Groups):' /proc/self/status | tr -d '\\t '";
    let outcome = run(&sandbox, "status", script).await;
    let none = "0000000000000000";
    assert_eq!(
        outcome.stdout,
        [
            "Groups:",
            &format!("CapInh:{none}"),
            &format!("CapPrm:{none}"),
            &format!("CapEff:{none}"),
            &format!("CapAmb:{none}"),
            "NoNewPrivs:1",
            "Seccomp:2"
        ],
        "{outcome:?}"
    );
    let script = "unshare -U true && echo userns; mount -t tmpfs none /tmp && echo mount; mknod n c 1 1 && echo device; \
                  chroot / true && echo chroot; umount /proc && echo umount; mount -o remount,rw / && echo remount; \
                  cp /bin/sh s && chmod 6755 s && ./s -p -c 'id -u' | grep -x 0; \
                  python3 -c 'import os; os.setuid(0)' 2>/dev/null && echo root; true";
    assert_eq!(run(&sandbox, "more", script).await.text(), "");
    place.provider.destroy(sandbox.id()).await.unwrap();
}

/// Row 21: the agent speaks to the runner's socket, signals it, edits the spool.
#[tokio::test]
async fn the_runner_cannot_be_spoken_to_signalled_or_looked_into() {
    let Some((place, sandbox)) = sandbox().await else { return };
    let mut other = sandbox.start(shell("other", "echo ready; exec sleep 60")).await.unwrap();
    assert!(matches!(next(&mut other).await, Output::Line { .. }));
    let script = "import os, socket\n\
                  for path in ('link/link.sock', 'link/gateway.sock'):\n\
                  \x20   try: socket.socket(socket.AF_UNIX).connect('/harvest/private/' + path); print('spoke', path)\n\
                  \x20   except OSError: pass\n\
                  for path in ('spool/other', 'boot.json', 'filter', '.'):\n\
                  \x20   for how in (os.O_RDONLY, os.O_WRONLY):\n\
                  \x20       try: os.open('/harvest/private/' + path, how); print('opened', path)\n\
                  \x20       except OSError: pass\n\
                  for pid in [int(p) for p in os.listdir('/proc') if p.isdigit()]:\n\
                  \x20   with open(f'/proc/{pid}/cmdline') as f: line = f.read()\n\
                  \x20   if not line.startswith('/harvest/bin/harvest-runner'): continue\n\
                  \x20   print('runner')\n\
                  \x20   for signal in (0, 2, 9, 15, 19):\n\
                  \x20       try: os.kill(pid, signal); print('signalled', pid, signal)\n\
                  \x20       except PermissionError: pass\n\
                  \x20   for name in ('environ', 'mem', 'fd', 'root/', 'cwd/', 'maps'):\n\
                  \x20       path = f'/proc/{pid}/{name}'\n\
                  \x20       try: os.listdir(path) if name in ('fd', 'root/', 'cwd/') else open(path).read(1); print('saw', path)\n\
                  \x20       except OSError: pass\n";
    let outcome = finish(&mut sandbox.start(python("p", script)).await.unwrap()).await;
    // The runner, and the wrappers of both processes: they can be seen, and nothing more.
    assert_eq!(outcome.stdout, ["runner", "runner", "runner"], "{outcome:?}");
    // As far as it can reach, everything goes.
    run(&sandbox, "kill", "kill -9 -1").await;
    assert!(finish(&mut other).await.exit.is_some());
    assert_eq!(run(&sandbox, "after", "echo alive").await.text(), "alive");
    place.provider.destroy(sandbox.id()).await.unwrap();
}

#[tokio::test]
async fn planted_links_do_not_lead_the_runner_to_its_own_files() {
    let Some((place, sandbox)) = sandbox().await else { return };
    run(&sandbox, "plant", "ln -s /harvest/private/spool ~/innocent; ln -s /harvest/private/spool/x ~/settings.json")
        .await;
    for (id, path) in [("a", "/home/harvest/innocent/evil"), ("b", "/home/harvest/settings.json")] {
        let files = vec![File { path: path.to_owned(), content: "x".to_owned(), executable: false }];
        let refused = sandbox.start(ProcessSpec { files, ..shell(id, "true") }).await;
        assert!(matches!(refused, Err(Error::Start { .. })), "{path}");
    }
    let files = vec![File { path: "/home/harvest/a/b".to_owned(), content: "x".to_owned(), executable: false }];
    let spec = ProcessSpec { files, ..shell("c", "stat -c %U ~/a ~/a/b; echo more >> ~/a/b && echo mine") };
    let outcome = finish(&mut sandbox.start(spec).await.unwrap()).await;
    assert_eq!(outcome.stdout, ["harvest", "harvest", "mine"], "{outcome:?}");
    place.provider.destroy(sandbox.id()).await.unwrap();
}

#[tokio::test]
async fn a_crowd_of_daemons_ends_with_the_process_that_left_them() {
    let Some((place, sandbox)) = sandbox().await else { return };
    // Each has forgotten its environment, its session and its parent, and starts another every moment.
    let daemon = "import os, time\n\
                  for _ in range(20):\n\
                  \x20   if os.fork(): continue\n\
                  \x20   os.setsid()\n\
                  \x20   if os.fork(): os._exit(0)\n\
                  \x20   os.execve('/bin/sh', ['sh', '-c', 'while :; do echo >> beat; (sleep 0.05 &); sleep 0.01; done'], {})\n\
                  while not os.path.exists('beat'): time.sleep(0.01)\n";
    assert_eq!(finish(&mut sandbox.start(python("p", daemon)).await.unwrap()).await.code(), Some(0));
    let script = "a=$(stat -c %s beat); sleep 0.5; [ $a = $(stat -c %s beat) ] && echo still";
    assert_eq!(run(&sandbox, "left", script).await.text(), "still");
    place.provider.destroy(sandbox.id()).await.unwrap();
}

#[tokio::test]
async fn files_in_memory_are_bounded_and_half_a_core_is_half_a_core() {
    let Some(place) = place() else { return };
    let limits = Limits { memory_bytes: 240 << 20, cpu_millis: Some(500), ..Limits::default() };
    let sandbox = place.provider.create(Spec { limits, ..place.spec() }).await.unwrap();
    let script =
        "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: pass\nprint(time.process_time())";
    let used = finish(&mut sandbox.start(python("spin", script)).await.unwrap()).await.text();
    assert!(used.parse::<f64>().unwrap() < 1.4, "{used}");
    // An eighth each: whoever fills them leaves room for those who come after.
    let script =
        "for d in /tmp /var/tmp /dev/shm; do head -c 40000000 /dev/zero > $d/big 2>/dev/null || echo full; done";
    assert_eq!(run(&sandbox, "fill", script).await.stdout, ["full", "full", "full"]);
    assert_eq!(run(&sandbox, "after", "stat -c %s /tmp/big").await.text(), (30 << 20).to_string());
    place.provider.destroy(sandbox.id()).await.unwrap();
}

#[tokio::test]
async fn objects_are_there_and_read_only_and_the_engine_was_told_what_it_should() {
    let Some(place) = place() else { return };
    let objects = place.folder.path().join("objects");
    fs::create_dir(&objects).unwrap();
    fs::write(objects.join("pack"), "packed").unwrap();
    let sandbox = place.provider.create(Spec { objects: Some(objects), ..place.spec() }).await.unwrap();
    let outcome =
        run(&sandbox, "p", "cat /harvest/objects/pack; (echo x > /harvest/objects/pack) 2>/dev/null || echo closed")
            .await;
    assert_eq!(outcome.text(), "packedclosed");
    let name = format!("harvest-{}", sandbox.id());
    let told = podman::get().unwrap().output(&["container", "inspect", &name]);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let told = &told[0];
    let host = &told["HostConfig"];
    assert_eq!(host["ReadonlyRootfs"], true);
    assert_eq!(host["Privileged"], false);
    assert_eq!(host["NetworkMode"], "none");
    assert_eq!(host["Memory"], Limits::default().memory_bytes);
    assert_eq!(told["BoundingCaps"], serde_json::json!(["CAP_DAC_OVERRIDE", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"]));
    place.provider.destroy(sandbox.id()).await.unwrap();
}

#[tokio::test]
async fn a_container_without_its_folders_is_still_found_and_removed() {
    let Some((place, sandbox)) = sandbox().await else { return };
    let id = sandbox.id().clone();
    let mut process = sandbox.start(shell("p", "echo ready; sleep 60")).await.unwrap();
    assert!(matches!(next(&mut process).await, Output::Line { .. }));
    for part in ["state", "run"] {
        harvest_sandbox::remove_tree(&place.folder.path().join(part).join(id.as_str())).unwrap();
    }
    let later = (place.again)(place.folder.path());
    assert_eq!(later.list().await.unwrap(), std::slice::from_ref(&id));
    later.destroy(&id).await.unwrap();
    assert_eq!(place.traces(&id), [""; 0]);
    // Another installation on the same engine knows nothing of any of them.
    let (first, elsewhere) = (place.create().await, self::place().unwrap());
    assert!(elsewhere.provider.list().await.unwrap().is_empty());
    place.provider.destroy(first.id()).await.unwrap();
}

#[tokio::test]
async fn what_is_missing_is_named_with_a_way_out() {
    let Some(place) = place() else { return };
    let options = options(place.folder.path());
    container::check_image(&options.sockets, &options.image).unwrap();
    let nowhere = "localhost/nowhere:1".to_owned();
    let image = container::Options { image: nowhere.clone(), ..options.clone() };
    let created = container::Container::new(image).unwrap().create(place.spec()).await;
    let checked = container::check_image(&options.sockets, &nowhere);
    for error in [created.unwrap_err(), checked.unwrap_err()] {
        assert_eq!(error.code(), harvest_core::Code::EngineMissing);
        assert!(error.to_string().contains(&nowhere), "{error}");
    }
    let socket = container::Options { sockets: vec!["/nowhere/engine.sock".into()], ..options.clone() };
    let error = container::Container::new(socket).unwrap_err();
    assert_eq!(error.code(), harvest_core::Code::EngineMissing);
    assert!(error.to_string().contains("/nowhere/engine.sock"), "{error}");
    let runtime = container::Options { runtime: Some("no-such-runtime".to_owned()), ..options };
    let provider = container::Container::new(runtime).unwrap();
    let spec = place.spec();
    let id = spec.id.clone();
    if let Ok(sandbox) = provider.create(spec).await {
        // This Podman takes its own choice for an answer.
        provider.destroy(sandbox.id()).await.unwrap();
    }
    assert_eq!(place.traces(&id), [""; 0]);
    let overlay = Workspace::Overlay { lower: place.folder.path().to_owned() };
    let refused = place.provider.create(Spec { workspace: overlay, ..place.spec() }).await;
    assert!(matches!(refused, Err(Error::OverlayUnsupported)));
    assert!(place.provider.list().await.unwrap().is_empty());
}
