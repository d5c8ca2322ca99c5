//! Which system calls there are inside: those of an ordinary program on an ordinary machine.
//!
//! What is refused looks as if this kernel did not have it, so that programs fall back to something older; for `clone3`, whose
//! arguments a filter cannot see, that is `clone`. Calls that are newer than this list do not exist either.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule as Rule, TargetArch, sock_filter,
};

use crate::{Error, layout};

/// Compiled filters, in files that bubblewrap can be given.
#[derive(Debug, Clone)]
pub(crate) struct Filters {
    /// For the runner, which has to make namespaces for its processes.
    pub runner: PathBuf,
    pub process: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    Runner,
    Process,
}

/// Refused to everyone inside, the runner too.
const REFUSED: &[i64] = &[
    // Of the machine.
    libc::SYS_acct,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_nfsservctl,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    // Ways around: into the kernel, into other processes, past what a filter sees.
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_fanotify_init,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_memfd_secret,
    libc::SYS_open_by_handle_at,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_sysfs,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
];

/// Refused to processes: namespaces and mounts.
const REFUSED_TO_PROCESSES: &[i64] = &[
    libc::SYS_chroot,
    libc::SYS_clone3,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_setns,
    libc::SYS_umount2,
    libc::SYS_unshare,
    // statmount, listmount, open_tree_attr: the same numbers on every architecture.
    457,
    458,
    467,
];

/// The newest call known here, `open_tree_attr`; what came later was never looked at.
const NEWEST: u32 = 467;
/// Set in the numbers of x32, a second way to make every call of x86-64.
const X32: u32 = 0x4000_0000;

/// CLONE_NEWTIME is not among them: it lies where `clone` has its exit signal and means nothing there.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// `personality` may ask, and switch the layout of memory from random to fixed, which test programs do.
const PERSONALITIES: [u64; 4] = [0, 0x0004_0000, 0x0002_0000, 0xffff_ffff];
/// Puts characters into a terminal as if they were typed there; and the console's own way to do so.
const IOCTLS: [u64; 2] = [0x5412, 0x541c];

/// Writes both below `state`, unless they are there.
pub(crate) fn make(state: &Path) -> Result<Filters, Error> {
    let write = |name: &str, whom| -> Result<PathBuf, Error> {
        let (path, program) = (state.join(name), bytes(&compile(whom)?));
        if std::fs::read(&path).ok().as_ref() != Some(&program) {
            layout::write(&path, &program)?;
        }
        Ok(path)
    };
    Ok(Filters { runner: write(".filter-runner", For::Runner)?, process: write(".filter-process", For::Process)? })
}

fn compile(whom: For) -> Result<BpfProgram, Error> {
    let failed = |error: seccompiler::BackendError| Error::failed(format!("the system call filter: {error}"));
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(failed)?;
    let filter = SeccompFilter::new(
        rules(whom).map_err(failed)?,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
        architecture,
    );
    let compiled: BpfProgram = filter.and_then(TryInto::try_into).map_err(failed)?;
    Ok(numbers().into_iter().chain(compiled).collect())
}

fn rules(whom: For) -> Result<BTreeMap<i64, Vec<Rule>>, seccompiler::BackendError> {
    let always = |call: &i64| (*call, Vec::new());
    let mut rules: BTreeMap<i64, Vec<Rule>> = REFUSED.iter().map(always).collect();
    let is_not = |argument: u8, allowed: &[u64]| {
        let differs = |value: &u64| Condition::new(argument, Length::Dword, Op::Ne, *value);
        Rule::new(allowed.iter().map(differs).collect::<Result<_, _>>()?)
    };
    let is = |argument: u8, value: u64| Rule::new(vec![Condition::new(argument, Length::Dword, Op::Eq, value)?]);
    rules.insert(libc::SYS_personality, vec![is_not(0, &PERSONALITIES)?]);
    rules.insert(libc::SYS_ioctl, vec![is(1, IOCTLS[0])?, is(1, IOCTLS[1])?]);
    if whom == For::Process {
        rules.extend(REFUSED_TO_PROCESSES.iter().map(always));
        let mut makes_namespaces = Vec::new();
        for flag in NAMESPACES {
            let flag = u64::from(flag.unsigned_abs());
            makes_namespaces.push(Rule::new(vec![Condition::new(0, Length::Dword, Op::MaskedEq(flag), flag)?])?);
        }
        rules.insert(libc::SYS_clone, makes_namespaces);
        let families = FAMILIES.map(|family| u64::from(family.unsigned_abs()));
        let netlink = Condition::new(0, Length::Dword, Op::Eq, u64::from(libc::AF_NETLINK.unsigned_abs()))?;
        let not_routes = Condition::new(2, Length::Dword, Op::Ne, u64::from(libc::NETLINK_ROUTE.unsigned_abs()))?;
        rules.insert(libc::SYS_socket, vec![is_not(0, &families)?, Rule::new(vec![netlink, not_routes])?]);
        // It makes sockets as well. Of the families above only this one has pairs; one that is not above may have them, too.
        rules.insert(libc::SYS_socketpair, vec![is_not(0, &[u64::from(libc::AF_UNIX.unsigned_abs())])?]);
    }
    Ok(rules)
}

/// What comes before the rules: calls are told by number, and these numbers no rule can name.
fn numbers() -> [sock_filter; 5] {
    let statement = |code: u32, k: u32| sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let jump =
        |k: u32, jt: u8, jf: u8| sock_filter { code: (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16, jt, jf, k };
    let answer = |action: u32| statement(libc::BPF_RET | libc::BPF_K, action);
    [
        // The number of the call is the first word of what a filter is given.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        jump(NEWEST + 1, 0, 3),
        jump(X32, 0, 1),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
        answer(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
    ]
}

fn bytes(program: &[sock_filter]) -> Vec<u8> {
    let one = |filter: &sock_filter| {
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&filter.code.to_ne_bytes());
        bytes[2] = filter.jt;
        bytes[3] = filter.jf;
        bytes[4..].copy_from_slice(&filter.k.to_ne_bytes());
        bytes
    };
    program.iter().flat_map(one).collect()
}
