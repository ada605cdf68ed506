//! nvidia-fs, one of the two ways by which cuFile reads directly.

use crate::doctor::finding::Finding;

use super::Ways;

const KIND: &str = "nvidia_fs";

impl Ways<'_> {
    pub(super) fn nvidia_fs(&self) -> Finding {
        let Some(module) = &self.nvidia_fs else { return self.not_loaded() };
        let version = module.version.as_ref().map_or("unknown".to_owned(), |version| version.to_string());
        if module.is_broken() {
            let fix = "install nvidia-fs 2.25.7 or newer";
            return Finding::no(KIND, version, "direct reads fail in this release", fix);
        }
        if !module.nodes {
            let reason = "loaded, but /dev/nvidia-fs* is missing here: cuFile reads by the CPU without a word";
            let fix = match self.platform.container {
                Some(_) => "give the container those devices: NVIDIA_GDS=enabled with NVIDIA's runtime, or `--device`",
                None => "`rmmod nvidia_fs; modprobe nvidia_fs`, and see dmesg",
            };
            return Finding::no(KIND, version, reason, fix);
        }
        if !module.stats {
            let reason = "loaded; its statistics are not shown, so that they cannot prove which reads were direct";
            let fix = "a release built with statistics; in a container, leave /proc/driver visible";
            return Finding::note(KIND, version, reason).fix(fix);
        }
        if module.counts_reads == Some(false) {
            let reason = "loaded; it counts no reads, so that its statistics cannot prove which were direct";
            let fix = "`echo 1 > /sys/module/nvidia_fs/parameters/rw_stats_enabled`";
            return Finding::note(KIND, version, reason).fix(fix);
        }
        if module.corrupts_large_rdma() {
            let reason = "loaded; over RDMA, transfers of more than 4 GiB can be wrong in this release";
            return Finding::note(KIND, version, reason).fix("2.28.4 or newer, if data comes over RDMA");
        }
        Finding::yes(KIND, version, "loaded, with statistics")
    }

    fn not_loaded(&self) -> Finding {
        let reason = "the module is not loaded";
        if self.p2pdma_lacks().is_empty() {
            return Finding::note(KIND, "kernel", format!("{reason}; the kernel's P2PDMA may take its place"));
        }
        let place = if self.platform.container.is_some() { "on the host, " } else { "" };
        let fix = format!(
            "{place}install nvidia-fs (package nvidia-gds) and `modprobe nvidia_fs`, or mend what p2pdma names below"
        );
        Finding::no(KIND, "kernel", format!("{reason}: cuFile reads by the CPU without a word"), fix)
    }
}

#[cfg(test)]
mod tests;
