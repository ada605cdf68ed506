//! What the machine and the limits of this process say.

use std::path::Path;

use forebay::{PageKind, facts};
use nix::errno::Errno;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

use crate::byte_count::shown;

use super::finding::Finding;
use super::trial::Trial;

/// The page size that the arena asks for when huge pages are reserved.
const HUGE_PAGE: u64 = 2 << 20;

/// Where facts are read from, and the host memory that a reader would take.
#[derive(Debug, Clone, Copy)]
pub struct Machine<'a> {
    pub sys: &'a Path,
    pub proc: &'a Path,
    pub budget: u64,
    /// What became of a reader with that much.
    pub trial: &'a Trial,
}

impl Machine<'_> {
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = vec![self.kernel(), self.memory(), self.memlock(), open_files()];
        findings.extend(self.huge_pages());
        findings.push(self.transparent_huge_pages());
        findings.extend(self.numa());
        findings
    }

    fn kernel(&self) -> Finding {
        let release = facts::kernel_release(self.proc).unwrap_or_else(|| "unknown".to_owned());
        Finding::note("kernel", release, "what it can do is tried below, not told from its version")
    }

    fn memory(&self) -> Finding {
        let budget = shown(self.budget);
        let available = facts::memory_available(self.proc);
        let limit = facts::memory_limit(self.proc, self.sys);
        if let Some(limit) = limit.as_ref().filter(|limit| limit.bytes < self.budget) {
            let reason = format!("the budget is {budget} and the control group allows {}", shown(limit.bytes));
            let fix = format!("raise {}, or use a smaller --budget", limit.file.display());
            return Finding::no("memory", "budget", reason, fix);
        }
        match available {
            Some(available) if available < self.budget => {
                let reason = format!("the budget is {budget} and {} can be had", shown(available));
                Finding::no("memory", "budget", reason, "free memory, or use a smaller --budget")
            }
            Some(available) => {
                let group =
                    limit.map(|limit| format!(", control group limit {}", shown(limit.bytes))).unwrap_or_default();
                Finding::yes("memory", "budget", format!("{budget} of {} available{group}", shown(available)))
            }
            None => Finding::note("memory", "budget", "the kernel does not show how much memory is available"),
        }
    }

    fn memlock(&self) -> Finding {
        const SUBJECT: &str = "RLIMIT_MEMLOCK";
        let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_MEMLOCK) else {
            return Finding::note("memlock", SUBJECT, "the kernel does not tell the limit");
        };
        let (budget, limits) = (shown(self.budget), format!("{} (hard limit {})", limit(soft), limit(hard)));
        match self.trial.registered {
            Some(Ok(())) => {
                Finding::yes("memlock", SUBJECT, format!("{limits}: the budget, {budget}, was registered with a ring"))
            }
            Some(Err(errno)) => {
                let error = errno.map_or_else(String::new, |errno| format!(": {}", Errno::from_raw(errno).desc()));
                let reason = format!(
                    "{limits}: the budget, {budget}, could not be registered with a ring{error}; reads work, but the \
                     kernel pins pages anew for each"
                );
                let fix = match errno.map(Errno::from_raw) {
                    Some(Errno::ENOMEM) => LOCK_MORE,
                    Some(Errno::EPERM | Errno::EACCES | Errno::ENOSYS) => ALLOW_REGISTER,
                    _ => "use a smaller --budget, and see the kernel log",
                };
                Finding::no("memlock", SUBJECT, reason, fix)
            }
            None => {
                let why = self.trial.failed.as_deref().unwrap_or("without io_uring no memory is locked");
                Finding::note("memlock", SUBJECT, format!("{limits}; {why}"))
            }
        }
    }

    fn huge_pages(&self) -> Vec<Finding> {
        let wanted = self.budget.div_ceil(HUGE_PAGE);
        let pools = facts::huge_pages(self.sys);
        let mut findings: Vec<Finding> = pools.iter().filter_map(|pool| self.huge_page_pool(pool, wanted)).collect();
        if !pools.iter().any(|pool| pool.size == HUGE_PAGE) {
            let reason = "the kernel has no pool of this size; buffers use transparent huge pages or small ones";
            findings.push(Finding::note("huge_pages", shown(HUGE_PAGE), reason));
        }
        findings
    }

    fn huge_page_pool(&self, pool: &facts::HugePages, wanted: u64) -> Option<Finding> {
        let (subject, reserved) = (shown(pool.size), pool.reserved.unwrap_or_default());
        if pool.size != HUGE_PAGE {
            let reason = format!("{reserved} reserved; forebay takes pages of {} only", shown(HUGE_PAGE));
            return (reserved > 0).then(|| Finding::note("huge_pages", subject, reason));
        }
        let free = pool.free.unwrap_or_default();
        if free >= wanted && self.trial.pages == Some(PageKind::Transparent) {
            let reason = format!("{free} of {reserved} free, but this process was given none of them");
            let fix = "raise hugetlb.2MB.max of its control group (`--hugetlb-limit`, hugepages-2Mi)";
            return Some(Finding::no("huge_pages", subject, reason, fix));
        }
        if free >= wanted {
            let reason = format!("{free} of {reserved} free, the budget needs {wanted}");
            return Some(Finding::yes("huge_pages", subject, reason));
        }
        let state = if reserved == 0 { "none reserved".to_owned() } else { format!("{free} of {reserved} free") };
        let reason = format!("{state}, the budget needs {wanted}: buffers use transparent huge pages where allowed");
        let fix = format!("`sysctl vm.nr_hugepages={}`", reserved.saturating_add(wanted - free));
        Some(Finding::no("huge_pages", subject, reason, fix))
    }

    fn transparent_huge_pages(&self) -> Finding {
        const KIND: &str = "transparent_huge_pages";
        let Some(setting) = facts::transparent_huge_pages(self.sys) else {
            return Finding::note(KIND, "kernel", "the kernel has none, or does not show them");
        };
        let defrag = setting.defrag.map(|defrag| format!(", defrag {defrag}")).unwrap_or_default();
        match setting.enabled.as_str() {
            "never" => {
                let fix = "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`";
                Finding::no(KIND, setting.enabled, "buffers are made of small pages, slower to pin and to map", fix)
            }
            enabled => match (self.trial.pages, self.trial.huge_bytes) {
                (Some(PageKind::Transparent), Some(0)) if self.budget >= HUGE_PAGE => {
                    let reason = format!("a buffer of {} was given none{defrag}", shown(self.budget));
                    Finding::note(KIND, enabled, reason)
                        .fix("free memory, or compact it (`echo 1 > /proc/sys/vm/compact_memory`)")
                }
                (Some(PageKind::Transparent), Some(bytes)) if bytes > 0 => {
                    Finding::yes(KIND, enabled, format!("a buffer was given {} of them{defrag}", shown(bytes)))
                }
                _ => Finding::note(KIND, enabled, format!("buffers may have them{defrag}")),
            },
        }
    }

    fn numa(&self) -> Vec<Finding> {
        let nodes = facts::numa_nodes(self.sys);
        match nodes.as_slice() {
            [] => vec![Finding::note("numa", "nodes", "the kernel shows none")],
            [node] => {
                let reason = format!("one node of {} CPUs: nothing to place", node.cpus.count());
                vec![Finding::yes("numa", format!("node {}", node.number), reason)]
            }
            nodes => nodes.iter().map(|node| self.numa_node(node)).collect(),
        }
    }

    fn numa_node(&self, node: &facts::NumaNode) -> Finding {
        let subject = format!("node {}", node.number);
        match node.cpus.count() {
            0 => Finding::note("numa", subject, "memory without CPUs"),
            count => Finding::note("numa", subject, format!("{count} CPUs: {}", node.cpus)),
        }
    }
}

const LOCK_MORE: &str = "`ulimit -l unlimited`, LimitMEMLOCK=infinity for a service, `--ulimit memlock=-1` for a container, \
                         or a smaller --budget";
pub const ALLOW_REGISTER: &str =
    "allow io_uring_register in the seccomp filter, or the security module, that forbids it";

/// Reads need few descriptors at once, since files are closed and opened again as needed; this many are plenty.
const PLENTY_OF_FILES: u64 = 1024;

fn open_files() -> Finding {
    const SUBJECT: &str = "RLIMIT_NOFILE";
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return Finding::note("open_files", SUBJECT, "the kernel does not tell the limit");
    };
    // As a reader does.
    let raised = if soft < hard { setrlimit(Resource::RLIMIT_NOFILE, hard, hard) } else { Ok(()) };
    let (now, allowed) = match raised {
        Ok(()) if soft < hard => (format!("{soft}, raised to {hard} for reads"), hard),
        Ok(()) => (soft.to_string(), soft),
        Err(error) => (format!("{soft}, and it could not be raised to {hard}: {}", error.desc()), soft),
    };
    if allowed >= PLENTY_OF_FILES {
        return Finding::yes("open_files", SUBJECT, now);
    }
    let reason = format!("{now}: data sets of many files are opened again and again");
    Finding::no(
        "open_files",
        SUBJECT,
        reason,
        format!("raise the hard limit to {PLENTY_OF_FILES} or more (`ulimit -Hn`)"),
    )
}

fn limit(bytes: u64) -> String {
    if bytes == RLIM_INFINITY { "unlimited".to_owned() } else { shown(bytes) }
}

#[cfg(test)]
mod tests;
