//! Settings of cuFile that forbid direct reads or weaken them.

use serde_json::Value;

use crate::byte_count::shown;
use crate::doctor::finding::Finding;

use super::Ways;
use super::cufile_json::{Content, CuFileJson, PATH_VARIABLE};

const KIND: &str = "cufile_json";
/// What cuFile takes where nothing is set.
const DEFAULT_PINNED_KIB: u64 = 32 << 20;
/// Reads smaller than this waste a disk's time.
const SMALL_READ_KIB: u64 = 1024;
/// Reads that are under way at once, unless told otherwise.
const DEPTH: u64 = 32;

impl Ways<'_> {
    pub(super) fn cufile_settings(&self, budget: u64) -> Vec<Finding> {
        let config = &self.config;
        let mut findings = vec![file(config)];
        findings.extend(compatibility(config));
        findings.extend(self.p2pdma_setting());
        findings.extend(sizes(config, budget));
        findings.extend(batches(config));
        findings.extend(slabs(config));
        findings.extend(rdma(config));
        findings.extend(denied(config));
        findings.extend(logging(config));
        findings
    }

    /// cuFile does not try nvidia-fs after P2PDMA: where it is told to use what cannot work, nothing is direct.
    fn p2pdma_setting(&self) -> Option<Finding> {
        const NAME: &str = "use_pci_p2pdma";
        let for_all = flag(&self.config, NAME, "/properties/use_pci_p2pdma", Some("CUFILE_USE_PCIP2PDMA"));
        let for_nvme = flag(&self.config, NAME, "/block/nvme/use_pci_p2pdma", None);
        let (for_all, for_nvme) = match (for_all, for_nvme) {
            (Err(finding), _) | (_, Err(finding)) => return Some(*finding),
            (Ok(for_all), Ok(for_nvme)) => (for_all, for_nvme),
        };
        let is_on = for_all == Some(true) || for_nvme == Some(true);
        match (is_on, self.p2pdma_lacks().is_empty()) {
            (true, true) => Some(Finding::yes(KIND, NAME, "on: cuFile reads by the kernel's P2PDMA")),
            (true, false) => {
                let reason = "on, but P2PDMA is not possible here (see p2pdma), and cuFile tries nothing else";
                Some(Finding::no(KIND, NAME, reason, "mend what p2pdma names, or set it to false and load nvidia-fs"))
            }
            (false, true) if !self.nvidia_fs_works() => {
                let reason = "off, and nvidia-fs cannot be used: cuFile has no way to read directly";
                let fix = "set \"use_pci_p2pdma\": true under \"properties\", or CUFILE_USE_PCIP2PDMA=true";
                Some(Finding::no(KIND, NAME, reason, fix))
            }
            (false, _) => None,
        }
    }
}

fn file(config: &CuFileJson) -> Finding {
    let path = config.path.display();
    match (&config.content, config.from_env) {
        (Content::Settings(_), true) => Finding::yes(KIND, "file", format!("{path}, named by {PATH_VARIABLE}")),
        (Content::Settings(_), false) => Finding::yes(KIND, "file", path.to_string()),
        (Content::Missing, true) => {
            let reason = format!("{PATH_VARIABLE} names {path}, which is not there");
            Finding::no(
                KIND,
                "file",
                reason,
                "name a file that exists (no ~ and no $NAME in it), or unset the variable",
            )
        }
        (Content::Missing, false) => Finding::note(KIND, "file", format!("no {path}: cuFile takes its defaults"))
            .fix("NVIDIA's package of cuFile brings one; without it, set what is needed by CUFILE_ variables"),
        (Content::Unreadable(why), _) => {
            Finding::no(KIND, "file", format!("{path} cannot be read: {why}"), "mend the file or its permissions")
        }
        (Content::Malformed(why), _) => {
            let fix = "mend that place; it is JSON in which // and # begin comments";
            Finding::no(KIND, "file", format!("{path} is not valid: {why}"), fix)
        }
    }
}

fn compatibility(config: &CuFileJson) -> Vec<Finding> {
    let mut findings = Vec::new();
    match flag(config, "force_compat_mode", "/properties/force_compat_mode", Some("CUFILE_FORCE_COMPAT_MODE")) {
        Err(finding) => findings.push(*finding),
        Ok(Some(true)) => {
            let fix = "set it to false, or unset CUFILE_FORCE_COMPAT_MODE";
            findings.push(Finding::no(KIND, "force_compat_mode", "on: cuFile reads everything by the CPU", fix));
            return findings;
        }
        Ok(_) => {}
    }
    match flag(config, "allow_compat_mode", "/properties/allow_compat_mode", Some("CUFILE_ALLOW_COMPAT_MODE")) {
        Err(finding) => findings.push(*finding),
        Ok(Some(false)) => {
            let reason = "off: what cannot be read directly is an error";
            findings.push(Finding::yes(KIND, "allow_compat_mode", reason));
        }
        Ok(_) => {
            let reason =
                "on, as it is unless told otherwise: what cannot be read directly goes by the CPU without a word";
            let fix = "set it to false, or CUFILE_ALLOW_COMPAT_MODE=false, to have an error instead";
            findings.push(Finding::note(KIND, "allow_compat_mode", reason).fix(fix));
        }
    }
    findings
}

fn sizes(config: &CuFileJson, budget: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    match number(config, "max_direct_io_size_kb") {
        Err(finding) => findings.push(*finding),
        Ok(Some(kib)) if kib < SMALL_READ_KIB || kib % 64 != 0 => {
            let reason = format!("{kib}: cuFile cuts reads into pieces of that many KiB, which costs speed");
            let fix = "16384, or another multiple of 64 that is not below 1024";
            findings.push(Finding::no(KIND, "max_direct_io_size_kb", reason, fix));
        }
        Ok(_) => {}
    }
    match number(config, "max_device_pinned_mem_size_kb") {
        Err(finding) => findings.push(*finding),
        Ok(Some(kib)) if kib.saturating_mul(1024) < budget => {
            let reason = format!(
                "{}: device buffers of the budget of {} cannot all be registered",
                shown(kib.saturating_mul(1024)),
                shown(budget)
            );
            let fix = format!("{DEFAULT_PINNED_KIB}, which is what it is unless set");
            findings.push(Finding::no(KIND, "max_device_pinned_mem_size_kb", reason, fix));
        }
        Ok(_) => {}
    }
    findings
}

fn batches(config: &CuFileJson) -> Option<Finding> {
    match number(config, "io_batchsize") {
        Err(finding) => Some(*finding),
        Ok(Some(size)) if !(1..=256).contains(&size) => {
            let reason = format!("{size}: cuFile takes 1 to 256 reads in a batch");
            Some(Finding::no(KIND, "io_batchsize", reason, "128, which is what it is unless set"))
        }
        Ok(_) => None,
    }
}

/// The host buffers by which cuFile reads what it cannot read directly.
fn slabs(config: &CuFileJson) -> Option<Finding> {
    const SUBJECT: &str = "posix_pool_slab";
    let list = |name: &str| config.setting(&format!("/properties/{name}")).map(numbers);
    let (sizes, counts) = (list("posix_pool_slab_size_kb"), list("posix_pool_slab_count"));
    let fix = "\"posix_pool_slab_size_kb\": [4, 1024, 16384], \"posix_pool_slab_count\": [128, 64, 64]";
    match (sizes, counts) {
        (Some(None), _) | (_, Some(None)) => {
            Some(Finding::no(KIND, SUBJECT, "its sizes or counts are not lists of numbers", fix))
        }
        (Some(Some(sizes)), Some(Some(counts))) if sizes.len() != counts.len() => {
            let reason = format!("{} sizes and {} counts: each size needs its count", sizes.len(), counts.len());
            Some(Finding::no(KIND, SUBJECT, reason, fix))
        }
        (_, Some(Some(counts))) => {
            let least = counts.iter().copied().min().filter(|least| *least < DEPTH)?;
            let reason =
                format!("a count is {least}: batches of more reads than that have been seen to hang by the CPU");
            Some(Finding::note(KIND, SUBJECT, reason).fix(fix))
        }
        _ => None,
    }
}

/// The adapters by which files over a network are read directly, and the ways that are tried instead of the nearest one.
fn rdma(config: &CuFileJson) -> Vec<Finding> {
    const ADAPTERS: &str = "rdma_dev_addr_list";
    const ROUTING: &str = "rdma_dynamic_routing";
    const ORDER: &str = "rdma_dynamic_routing_order";
    let mut findings = Vec::new();
    if let Some(adapters) = config.setting(&format!("/properties/{ADAPTERS}")) {
        let fix = "a list of the adapters' IPv4 addresses, such as [ \"172.16.8.1\" ]";
        let addresses = adapters.as_array().map(|list| list.iter().map(text).collect::<Vec<String>>());
        findings.push(match addresses {
            None => Finding::no(KIND, ADAPTERS, "it is not a list: cuFile finds no RDMA adapter by it", fix),
            Some(list) if list.is_empty() => {
                Finding::note(KIND, ADAPTERS, "empty: files over a network are not read directly").fix(fix)
            }
            Some(list) => match list.iter().find(|address| address.parse::<std::net::Ipv4Addr>().is_err()) {
                Some(wrong) => Finding::no(KIND, ADAPTERS, format!("{wrong} is no IPv4 address"), fix),
                None => Finding::yes(KIND, ADAPTERS, format!("files over a network by {}", list.join(", "))),
            },
        });
    }
    match flag(config, ROUTING, &format!("/properties/{ROUTING}"), None) {
        Err(finding) => findings.push(*finding),
        Ok(Some(true)) if config.setting(&format!("/properties/{ORDER}")).is_none() => {
            let fix = format!("set {ORDER}, such as [ \"GPU_MEM_NVLINKS\", \"GPU_MEM\", \"SYS_MEM\", \"P2P\" ]");
            findings.push(Finding::no(KIND, ROUTING, format!("on, and {ORDER} does not say what to try"), fix));
        }
        Ok(_) => {}
    }
    findings
}

fn denied(config: &CuFileJson) -> Vec<Finding> {
    let lists = ["drivers", "devices", "mounts", "filesystems"].into_iter().filter_map(|name| {
        let denied = config.setting(&format!("/denylist/{name}"))?.as_array().filter(|list| !list.is_empty())?;
        let names: Vec<String> = denied.iter().map(text).collect();
        let reason = format!("{name} that cuFile must not read directly: {}", names.join(", "));
        Some(Finding::no(KIND, "denylist", reason, "take out what holds your data"))
    });
    lists.collect()
}

fn logging(config: &CuFileJson) -> Option<Finding> {
    let in_file = config.setting("/logging/level").map(text);
    let level = config.variable("CUFILE_LOGGING_LEVEL").map(str::to_owned).or(in_file)?;
    if !["DEBUG", "TRACE"].contains(&level.to_ascii_uppercase().as_str()) {
        return None;
    }
    let reason = format!("{level}: cuFile writes lines to its log for every read, which costs speed");
    Some(Finding::note(KIND, "logging level", reason).fix("ERROR, unless you look for a fault"))
}

/// A finding is large, so it is boxed where most answers are none.
type Answer<T> = Result<Option<T>, Box<Finding>>;

/// A switch, by the variable that outweighs the file, then by the file; `None` where neither sets it.
fn flag(config: &CuFileJson, name: &'static str, pointer: &str, variable: Option<&'static str>) -> Answer<bool> {
    if let Some((variable, value)) = variable.and_then(|variable| Some((variable, config.variable(variable)?))) {
        return match value.to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(Some(true)),
            "false" | "0" => Ok(Some(false)),
            _ => Err(wrong(name, &format!("{variable} is {value}, which is neither true nor false"), "true or false")),
        };
    }
    let Some(value) = config.setting(pointer) else { return Ok(None) };
    let wrong = || wrong(name, &format!("{}, which is neither true nor false", text(value)), "true or false, unquoted");
    value.as_bool().map(Some).ok_or_else(wrong)
}

fn number(config: &CuFileJson, name: &'static str) -> Answer<u64> {
    let Some(value) = config.setting(&format!("/properties/{name}")) else { return Ok(None) };
    let wrong = || wrong(name, &format!("{}, which is no whole number", text(value)), "a whole number, unquoted");
    value.as_u64().map(Some).ok_or_else(wrong)
}

fn wrong(name: &'static str, reason: &str, fix: &str) -> Box<Finding> {
    Box::new(Finding::no(KIND, name, reason, fix))
}

fn numbers(value: &Value) -> Option<Vec<u64>> {
    value.as_array()?.iter().map(Value::as_u64).collect()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests;
