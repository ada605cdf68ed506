//! The figures as text that Prometheus scrapes: its exposition format, version 0.0.4.

use std::fmt::Write as _;

use super::stats::LoaderStats;

impl LoaderStats {
    /// These figures in Prometheus' text format, each with its help and type. `labels` are added to every one, as in
    /// `rank="0"`; it may be empty.
    pub fn prometheus(&self, labels: &str) -> String {
        let mut text = Text { out: String::new(), labels };
        text.family("forebay_batches_total", "counter", "Batches handed out.");
        text.line("forebay_batches_total", &[], self.batches as f64);
        text.family("forebay_samples_total", "counter", "Samples in the batches handed out.");
        text.line("forebay_samples_total", &[], self.samples as f64);
        text.family("forebay_bytes_total", "counter", "Bytes of these samples in their files.");
        text.line("forebay_bytes_total", &[], self.bytes as f64);
        text.family("forebay_skipped_samples_total", "counter", "Corrupt samples that were skipped.");
        text.line("forebay_skipped_samples_total", &[], self.skipped as f64);
        text.family("forebay_missing_samples_total", "counter", "Samples that were left out since they lack a field.");
        text.line("forebay_missing_samples_total", &[], self.missing as f64);
        text.family("forebay_route_bytes_total", "counter", "Bytes read, by the route that carried them.");
        for (route, bytes) in [
            ("direct", self.routes.direct),
            ("direct_compat", self.routes.direct_compat),
            ("bounce", self.routes.bounce),
            ("cached", self.routes.cached),
        ] {
            text.line("forebay_route_bytes_total", &[("route", route)], bytes as f64);
        }
        text.family("forebay_stall_seconds_total", "counter", "Time that the consumer waited, by cause.");
        for (cause, time) in self.stalls.by_name() {
            text.line("forebay_stall_seconds_total", &[("cause", cause)], time.as_secs_f64());
        }
        let stages = self.stages.by_name();
        text.family("forebay_stage_batches_total", "counter", "Batches that have been through a stage.");
        for (stage, stats) in &stages {
            text.line("forebay_stage_batches_total", &[("stage", stage)], stats.batches as f64);
        }
        text.family("forebay_stage_bytes_total", "counter", "Bytes of their samples.");
        for (stage, stats) in &stages {
            text.line("forebay_stage_bytes_total", &[("stage", stage)], stats.bytes as f64);
        }
        text.family("forebay_stage_seconds_total", "counter", "Time that batches spent in a stage, each for itself.");
        for (stage, stats) in &stages {
            text.line("forebay_stage_seconds_total", &[("stage", stage)], stats.time.as_secs_f64());
        }
        text.family("forebay_idle_seconds_total", "counter", "Time in which the consumer had enough.");
        text.line("forebay_idle_seconds_total", &[], self.idle.as_secs_f64());
        text.family("forebay_ready_batches", "gauge", "Batches that are ready.");
        text.line("forebay_ready_batches", &[], self.ready_batches as f64);
        text.family("forebay_ready_bytes", "gauge", "Bytes of memory of these.");
        text.line("forebay_ready_bytes", &[], self.ready_bytes as f64);
        text.family("forebay_under_way_batches", "gauge", "Batches that are under way.");
        text.line("forebay_under_way_batches", &[], self.under_way_batches as f64);
        text.family("forebay_depth_bytes", "gauge", "Bytes that may be ready and under way at once.");
        text.line("forebay_depth_bytes", &[], self.depth_bytes as f64);
        text.out
    }
}

struct Text<'a> {
    out: String,
    labels: &'a str,
}

impl Text<'_> {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let own = labels.iter().map(|(key, value)| format!("{key}=\"{value}\""));
        let given = (!self.labels.is_empty()).then(|| self.labels.to_owned());
        let all: Vec<String> = given.into_iter().chain(own).collect();
        let _ = match all.is_empty() {
            true => writeln!(self.out, "{name} {value}"),
            false => writeln!(self.out, "{name}{{{}}} {value}", all.join(",")),
        };
    }
}
