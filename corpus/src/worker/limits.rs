//! The resource limits of a worker, and its confinement.

use crate::policy::LONGEST;
use std::time::Duration;

/// The memory that a worker may use whatever the size of its files, in bytes.
const LEAST_MEMORY: u64 = 768 << 20;
/// The least number of bytes of files that must be loaded per second.
const READ_IN_A_SECOND: u64 = 32 << 20;
/// The address space allowed beyond the memory: the program and its libraries.
#[cfg(unix)]
const ROOM: u64 = 2 << 30;

/// The limits for work on files of a given size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Memory in bytes.
    pub(super) memory: u64,
    /// Time for loading in seconds.
    pub(super) loading: u64,
}

impl Limits {
    /// Returns the limits for files of `bytes` bytes in total: 768 MiB plus four times their size, and ten seconds plus
    /// one for each 32 MiB.
    pub(super) const fn of(bytes: u64) -> Self {
        Self {
            memory: LEAST_MEMORY.saturating_add(bytes.saturating_mul(4)),
            loading: LONGEST.as_secs() + bytes / READ_IN_A_SECOND,
        }
    }

    pub(super) const fn loading(self) -> Duration {
        Duration::from_secs(self.loading)
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        [self.memory.to_le_bytes(), self.loading.to_le_bytes()].concat()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (memory, loading) = bytes.split_at_checked(8)?;
        Some(Self {
            memory: u64::from_le_bytes(memory.try_into().ok()?),
            loading: u64::from_le_bytes(loading.try_into().ok()?),
        })
    }
}

/// Limits this process permanently, and returns which limits could not be imposed.
pub(super) fn confine(limits: Limits) -> Option<String> {
    let mut missing = Vec::new();
    #[cfg(unix)]
    if let Err(error) = limit(limits) {
        missing.push(format!("limits of its memory ({error})"));
    }
    #[cfg(not(unix))]
    {
        let _ = limits;
        missing.push("limits of its memory".to_owned());
    }
    if let Err(why) = filter::install() {
        missing.push(format!("a filter of its system calls ({why})"));
    }
    (!missing.is_empty()).then(|| format!("it runs without {}", missing.join(" and without ")))
}

#[cfg(unix)]
fn limit(limits: Limits) -> rustix::io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let most = |bytes| Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    // The process ends with the program that started it.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    setrlimit(Resource::Core, most(0))?;
    // No file can grow.
    setrlimit(Resource::Fsize, most(0))?;
    // Limits allocated memory where the kernel counts it; elsewhere, the address space.
    #[cfg(target_os = "linux")]
    setrlimit(Resource::Data, most(limits.memory))?;
    setrlimit(Resource::As, most(limits.memory.saturating_add(ROOM)))
}

/// Sets the processor time that this process may use from now on, over all of its threads.
pub(super) fn take_processor(wall: Duration) {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        use rustix::time::{ClockId, clock_gettime};
        let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec.unsigned_abs();
        let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let more = wall.as_secs().saturating_mul(threads).saturating_add(1);
        let limit = Rlimit {
            current: Some(used.saturating_add(more)),
            maximum: None,
        };
        // If this fails, the limits of the requester still apply.
        let _ = setrlimit(Resource::Cpu, limit);
    }
    #[cfg(not(unix))]
    let _ = wall;
}

#[cfg(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]
mod filter {
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, apply_filter_all_threads,
    };
    use std::collections::BTreeMap;

    /// System calls that a worker does not need: the network, opening and changing files, other programs and processes,
    /// memory and queues that these share, and ways around this filter. They fail with "operation not permitted".
    const DENIED: &[i64] = &[
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept4,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_io_uring_setup,
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_open_by_handle_at,
        libc::SYS_unlinkat,
        libc::SYS_renameat2,
        libc::SYS_linkat,
        libc::SYS_symlinkat,
        libc::SYS_mkdirat,
        libc::SYS_mknodat,
        libc::SYS_fchmodat,
        libc::SYS_fchownat,
        libc::SYS_truncate,
        libc::SYS_utimensat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_process_madvise,
        libc::SYS_migrate_pages,
        libc::SYS_move_pages,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_setpriority,
        libc::SYS_ioprio_set,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setattr,
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_shmctl,
        libc::SYS_msgget,
        libc::SYS_msgsnd,
        libc::SYS_msgrcv,
        libc::SYS_msgctl,
        libc::SYS_semget,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_semctl,
        libc::SYS_mq_open,
        libc::SYS_mq_unlink,
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_pidfd_send_signal,
        libc::SYS_mount,
        libc::SYS_mount_setattr,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_fsopen,
        libc::SYS_fspick,
        libc::SYS_fsmount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_setns,
        libc::SYS_unshare,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_memfd_create,
        FCHMODAT2,
        SETXATTRAT,
        REMOVEXATTRAT,
        FILE_SETATTR,
    ];
    /// Later calls, which have one number on all architectures; `libc` does not name them on each.
    const FCHMODAT2: i64 = 452;
    const SETXATTRAT: i64 = 463;
    const REMOVEXATTRAT: i64 = 466;
    const FILE_SETATTR: i64 = 469;

    /// Commands of `fcntl` and `prctl`, of which `libc` does not name all.
    const F_SETOWN: u64 = 8;
    const F_SETSIG: u64 = 10;
    const F_SETOWN_EX: u64 = 15;
    const PR_SET_PDEATHSIG: u64 = 1;

    #[cfg(target_arch = "x86_64")]
    const DENIED_TOO: &[i64] = &[
        libc::SYS_open,
        libc::SYS_creat,
        libc::SYS_accept,
        libc::SYS_unlink,
        libc::SYS_rename,
        libc::SYS_renameat,
        libc::SYS_link,
        libc::SYS_symlink,
        libc::SYS_mkdir,
        libc::SYS_rmdir,
        libc::SYS_mknod,
        libc::SYS_chmod,
        libc::SYS_chown,
        libc::SYS_lchown,
        libc::SYS_utime,
        libc::SYS_utimes,
        libc::SYS_futimesat,
        libc::SYS_fork,
        libc::SYS_vfork,
    ];
    #[cfg(target_arch = "aarch64")]
    const DENIED_TOO: &[i64] = &[libc::SYS_accept, libc::SYS_renameat];
    #[cfg(target_arch = "riscv64")]
    const DENIED_TOO: &[i64] = &[libc::SYS_accept];

    /// Calls with another number for programs with short pointers on x86-64 (x32), such as `execve`.
    const SHORT_ALONE: std::ops::Range<i64> = 512..548;

    /// Returns the numbers of a call: on x86-64, kernels with x32 take each call by a second one, from any program.
    pub(super) fn numbers(call: i64) -> impl Iterator<Item = i64> {
        let short = cfg!(target_arch = "x86_64").then_some(call | 0x4000_0000);
        std::iter::once(call).chain(short)
    }

    /// An argument's number, how it is compared, and the value.
    type Condition = (u8, SeccompCmpOp, u64);

    /// Returns the rules of what is denied, by number.
    pub(super) fn rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
        let alone = cfg!(target_arch = "x86_64").then_some(SHORT_ALONE);
        let denied = DENIED.iter().chain(DENIED_TOO).copied();
        let denied = denied.chain(alone.into_iter().flatten());
        let mut rules: BTreeMap<_, _> = denied
            .flat_map(numbers)
            .map(|number| (number, Vec::new()))
            .collect();
        let me = u64::from(std::process::id());
        let thread = libc::CLONE_THREAD.unsigned_abs().into();
        let own = [F_SETOWN, F_SETSIG, F_SETOWN_EX].map(|command| (1, SeccompCmpOp::Eq, command));
        let conditions: [(i64, &[Condition]); 5] = [
            // A process that aborts signals itself.
            (libc::SYS_tgkill, &[(0, SeccompCmpOp::Ne, me)]),
            // A process that this one started would not end with the program, and has processor time of its own.
            (libc::SYS_clone, &[(0, SeccompCmpOp::MaskedEq(thread), 0)]),
            // Its own limits, under the number 0.
            (libc::SYS_prlimit64, &[(0, SeccompCmpOp::Ne, 0)]),
            (libc::SYS_prctl, &[(0, SeccompCmpOp::Eq, PR_SET_PDEATHSIG)]),
            // A pipe can be made to signal a process.
            (libc::SYS_fcntl, &own),
        ];
        for (call, any) in conditions {
            let rule = |(argument, compared, value): &Condition| {
                let length = SeccompCmpArgLen::Dword;
                let condition = SeccompCondition::new(*argument, length, compared.clone(), *value)?;
                SeccompRule::new(vec![condition])
            };
            let any = any.iter().map(rule).collect::<Result<Vec<_>, _>>()?;
            rules.extend(numbers(call).map(|number| (number, any.clone())));
        }
        Ok(rules)
    }

    pub(super) fn install() -> Result<(), String> {
        let rules = rules().map_err(|error| error.to_string())?;
        apply(rules, libc::EPERM)?;
        // Its flags lie where no filter can read them. Where it does not exist, the C library uses `clone`.
        let unread = numbers(libc::SYS_clone3).map(|number| (number, Vec::new()));
        apply(unread.collect(), libc::ENOSYS)
    }

    /// Makes calls fail with an error from now on, in all threads.
    fn apply(rules: BTreeMap<i64, Vec<SeccompRule>>, error: i32) -> Result<(), String> {
        let architecture = std::env::consts::ARCH
            .try_into()
            .map_err(|_| "another architecture".to_owned())?;
        let filter = SeccompFilter::new(
            rules,
            SeccompAction::Allow,
            SeccompAction::Errno(error.unsigned_abs()),
            architecture,
        );
        let filter: BpfProgram = filter
            .and_then(TryInto::try_into)
            .map_err(|error| error.to_string())?;
        apply_filter_all_threads(&filter).map_err(|error| error.to_string())
    }
}

#[cfg(not(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
)))]
mod filter {
    pub(super) fn install() -> Result<(), String> {
        Err("this system has none".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_the_size_and_travel() {
        let small = Limits::of(448);
        assert!(small.memory < 1 << 30 && small.loading == 10);
        let large = Limits::of(1 << 30);
        assert_eq!((large.memory >> 20, large.loading), (768 + 4096, 42));
        assert_eq!(Limits::from_bytes(&large.to_bytes()), Some(large));
        assert_eq!(Limits::from_bytes(&[1; 15]), None);
    }

    /// The path that the process to be confined tries to change.
    #[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
    const CHANGED: &str = "RETICENT_CONFINED_CHANGES";

    /// This test, started again, confines itself: it starts a thread, and changes neither the file nor the process that
    /// started it. It aborts, by a signal to itself.
    #[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
    #[test]
    fn a_confined_process_has_threads_and_can_abort_and_no_more() {
        use rustix::process::{
            Resource, Rlimit, getppid, prlimit, set_parent_process_death_signal,
        };
        use std::os::unix::process::ExitStatusExt;
        const ABORTED: i32 = 6;
        if let Some(path) = std::env::var_os(CHANGED) {
            // Where the system has no filter, a worker says so.
            if confine(Limits::of(0)).is_some() {
                return;
            }
            let changed = std::os::unix::fs::lchown(path, None, None);
            let refused = changed.map_err(|error| error.kind());
            assert_eq!(refused, Err(std::io::ErrorKind::PermissionDenied));
            assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
            let refused = Err(rustix::io::Errno::PERM);
            assert_eq!(set_parent_process_death_signal(None), refused);
            let none = Rlimit {
                current: Some(0),
                maximum: Some(0),
            };
            let of_parent = prlimit(getppid(), Resource::Core, none);
            assert_eq!(of_parent.map(drop), refused);
            std::process::abort();
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "worker::limits::tests::a_confined_process_has_threads_and_can_abort_and_no_more",
            ])
            .env(CHANGED, file.path())
            .output()
            .unwrap();
        let status = output.status;
        assert!(
            status.signal() == Some(ABORTED) || status.success(),
            "{status}: {}",
            String::from_utf8_lossy(&output.stdout)
        );
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[test]
    fn calls_are_denied_by_their_second_numbers_too() {
        let rules = filter::rules().unwrap();
        for call in [
            libc::SYS_openat,
            libc::SYS_socket,
            libc::SYS_shmget,
            libc::SYS_setpriority,
            libc::SYS_tgkill,
            libc::SYS_clone,
            libc::SYS_fcntl,
            520,
        ] {
            let denied = |number| rules.contains_key(&number);
            assert!(filter::numbers(call).all(denied), "{call}");
            assert_eq!(filter::numbers(call).count(), 2);
        }
        assert!(!rules.contains_key(&libc::SYS_read));
    }
}
