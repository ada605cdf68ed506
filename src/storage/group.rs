//! A plan whose bytes go on to somewhere else, cut into groups of parts: each is read into a slot of its own, as large
//! as the group, and its bytes then copied to their place in the whole.

use super::layout::{Layout, Part};
use super::plan::Plan;

/// Parts that follow each other in the layout of the whole.
#[derive(Debug)]
pub(crate) struct Group {
    /// To read them by themselves: one piece, all of the slot.
    pub(crate) plan: Plan,
    /// Where their bytes begin in that slot.
    pub(crate) from: usize,
    /// Where their bytes begin in the whole.
    pub(crate) to: usize,
    /// How many they are.
    pub(crate) len: usize,
}

/// Cuts those parts of `plan` for which `belongs` holds into groups of about `size` bytes. Parts between which others
/// lie are in different groups.
pub(crate) fn groups(plan: &Plan, size: usize, belongs: impl Fn(&Part) -> bool) -> Vec<Group> {
    let mut groups = Vec::new();
    for run in plan.layout.parts.chunk_by(|a, b| belongs(a) == belongs(b)).filter(|run| belongs(&run[0])) {
        let mut rest = run;
        while let Some(first) = rest.first() {
            let within = |part: &&Part| end(part) - first.landing <= size;
            let count = rest.iter().take_while(within).count().max(1);
            let (parts, later) = rest.split_at(count);
            groups.push(group(plan, parts));
            rest = later;
        }
    }
    groups
}

fn group(plan: &Plan, parts: &[Part]) -> Group {
    // What a landing is a multiple of stays so.
    let grain = plan.memory_align.max(4096);
    let (first, last) = (&parts[0], &parts[parts.len() - 1]);
    let base = first.landing / grain * grain;
    let files = plan.files[first.file as usize..=last.file as usize].to_vec();
    let rebased = |part: &Part| Part { file: part.file - first.file, landing: part.landing - base, ..part.clone() };
    let len = end(last) - base;
    let pieces = std::iter::once(0..len).collect();
    let layout = Layout { parts: parts.iter().map(rebased).collect(), pieces, len };
    let from = first.landing - base;
    let plan = Plan { files, layout, memory_align: plan.memory_align };
    Group { plan, from, to: first.landing, len: len - from }
}

fn end(part: &Part) -> usize {
    part.landing + (part.wide.end - part.wide.start) as usize
}
