//! System calls: what is refused, what is not, and that ordinary programs do not notice.

use crate::support::{self, Place, finish, python, run};
use harvest_sandbox::Sandbox;

async fn sandbox() -> (Place, Sandbox) {
    let place = support::local();
    let sandbox = place.create().await;
    (place, sandbox)
}

/// Makes each call with arguments that would do something, and tells how it was answered.
#[cfg(target_arch = "x86_64")]
const REFUSED: &str = r"
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    answer = libc.syscall(*[ctypes.c_long(a) for a in arguments])
    if answer != -1 or ctypes.get_errno() != errno.ENOSYS:
        print(name, answer, errno.errorcode.get(ctypes.get_errno()))
own = os.getpid()
call('ptrace', 101, 0, 0, 0, 0)
call('syslog', 103, 10, 0, 0)
call('acct', 163, 0)
call('mount', 165, 0, 0, 0, 0, 0)
call('umount2', 166, 0, 0)
call('swapon', 167, 0, 0)
call('reboot', 169, 0, 0, 0, 0)
call('init_module', 175, 0, 0, 0)
call('quotactl', 179, 0, 0, 0, 0)
call('kexec_load', 246, 0, 0, 0, 0)
call('add_key', 248, 0, 0, 0, 0, 0)
call('request_key', 249, 0, 0, 0, 0)
call('keyctl', 250, 0, -3, 1)
call('unshare', 272, 0x20000000)
call('perf_event_open', 298, 0, 0, 0, 0, 0)
call('open_by_handle_at', 304, 0, 0, 0)
call('setns', 308, 0, 0)
call('process_vm_readv', 310, own, 0, 0, 0, 0, 0)
call('kcmp', 312, own, own, 0, 0, 0)
call('bpf', 321, 0, 0, 0)
call('userfaultfd', 323, 0)
call('io_uring_setup', 425, 1, 0)
call('open_tree', 428, -100, 0, 0)
call('fsopen', 430, 0, 0)
call('clone3', 435, 0, 0)
call('pidfd_getfd', 438, 0, 0, 0)
call('mount_setattr', 442, 0, 0, 0, 0, 0)
call('statmount', 457, 0, 0, 0, 0)
call('a call of tomorrow', 999, 0, 0, 0)
for name, flag in dict(user=0x10000000, mount=0x20000, pid=0x20000000, net=0x40000000, ipc=0x8000000, uts=0x4000000,
                       cgroup=0x2000000).items():
    call('clone ' + name, 56, flag | 17, 0, 0, 0, 0)
call('another personality', 135, 0x0400000)
call('typing for someone else', 16, 0, 0x5412, 0)
for family in [socket.AF_PACKET, socket.AF_VSOCK, socket.AF_ALG, 44, 30, 29]:
    call('family %d' % family, 41, int(family), 2, 0)
call('netlink for audit', 41, 16, 3, 9)
print('done')
";

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn calls_that_no_agent_needs_do_not_exist() {
    let (place, sandbox) = sandbox().await;
    let outcome = finish(&mut sandbox.start(python("p", REFUSED)).await.unwrap()).await;
    assert_eq!(outcome.stdout, ["done"], "{outcome:?}");
    // What is allowed still works.
    let allowed = "import ctypes, os, socket\n\
                   libc = ctypes.CDLL(None, use_errno=True)\n\
                   [socket.socket(f, socket.SOCK_STREAM) for f in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)]\n\
                   socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)\n\
                   assert libc.personality(0xffffffff) != -1\n\
                   assert libc.personality(0x0040000) != -1\n\
                   import threading; t = threading.Thread(target=lambda: print('thread')); t.start(); t.join()\n\
                   print(os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)[1])";
    let outcome = finish(&mut sandbox.start(python("q", allowed)).await.unwrap()).await;
    assert_eq!(outcome.stdout, ["thread", "0"], "{outcome:?}");
    place.provider.destroy(sandbox.id()).await.unwrap();
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn pairs_of_sockets_are_of_one_family_only() {
    let (place, sandbox) = sandbox().await;
    let script = "import ctypes, errno, socket\n\
                  libc = ctypes.CDLL(None, use_errno=True)\n\
                  pair = (ctypes.c_int * 2)()\n\
                  for family in [2, 10, 16, 17, 21, 29, 30, 38, 40, 44]:\n\
                  \x20   for kind in [1, 2, 3, 5]:\n\
                  \x20       answer = libc.syscall(ctypes.c_long(53), family, kind, 0, pair)\n\
                  \x20       if answer != -1 or ctypes.get_errno() != errno.ENOSYS:\n\
                  \x20           print(family, kind, answer, errno.errorcode.get(ctypes.get_errno()))\n\
                  one, other = socket.socketpair()\n\
                  one.send(b'through'); print(other.recv(10).decode())";
    let outcome = finish(&mut sandbox.start(python("p", script)).await.unwrap()).await;
    assert_eq!(outcome.stdout, ["through"], "{outcome:?}");
    place.provider.destroy(sandbox.id()).await.unwrap();
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn a_second_numbering_of_calls_is_deadly() {
    let (place, sandbox) = sandbox().await;
    // getpid of x32.
    let script = "import ctypes; ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 + 39)); print('alive')";
    let outcome = finish(&mut sandbox.start(python("p", script)).await.unwrap()).await;
    const SIGSYS: i32 = 31;
    assert_eq!((outcome.text().as_str(), outcome.code()), ("", Some(128 + SIGSYS)), "{outcome:?}");
    place.provider.destroy(sandbox.id()).await.unwrap();
}

#[tokio::test]
async fn the_filter_is_on_everyone_inside() {
    let (place, sandbox) = sandbox().await;
    let outcome = run(&sandbox, "p", "grep -h -e ^Seccomp: -e ^NoNewPrivs: /proc/[0-9]*/status | sort | uniq -c").await;
    // The init of the namespace, the shell and its programs; and there is no one without.
    let kinds: Vec<&str> =
        outcome.stdout.iter().filter_map(|line| line.trim().split_once(' ')).map(|(_, kind)| kind).collect();
    assert_eq!(kinds, ["NoNewPrivs:\t1", "Seccomp:\t2"], "{outcome:?}");
    let runners = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let cmdline = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        cmdline.starts_with(b"/harvest/bin/harvest-runner")
            && String::from_utf8_lossy(&cmdline).contains(sandbox.id().as_str())
    });
    for runner in runners {
        let status = std::fs::read_to_string(runner.path().join("status")).unwrap();
        assert!(status.contains("Seccomp:\t2") && status.contains("CapEff:\t0000000000000000"), "{status}");
    }
    place.provider.destroy(sandbox.id()).await.unwrap();
}

#[tokio::test]
async fn the_programs_that_agents_are_made_of_run() {
    let (place, sandbox) = sandbox().await;
    let script = "set -e; git init -q r; cd r; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one; git log --oneline | wc -l; \
                  python3 -c 'import subprocess, tempfile, multiprocessing.shared_memory as s; \
                  m = s.SharedMemory(create=True, size=9); m.unlink(); print(subprocess.check_output([\"echo\", \"py\"], text=True).strip())'; \
                  if command -v node >/dev/null; then node -e 'const w = require(\"worker_threads\"); \
                  require(\"child_process\").execFile(\"echo\", [\"js\"], (e, out) => console.log(e || out.trim()))'; else echo js; fi; \
                  echo ok > /dev/shm/x; cat /dev/shm/x; [ -e /dev/ptmx ] && script -qec 'echo tty' /dev/null | tr -d '\\r'; \
                  if command -v cargo >/dev/null; then cargo --version >/dev/null; fi; echo end";
    let outcome = run(&sandbox, "p", script).await;
    assert_eq!(outcome.stdout, ["1", "py", "js", "ok", "tty", "end"], "{outcome:?}");
    place.provider.destroy(sandbox.id()).await.unwrap();
}
