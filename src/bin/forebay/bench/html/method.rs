//! How it was measured, in words.

use super::text::escaped;
use crate::bench::Summary;
use crate::byte_count::counted;

pub fn method(summary: &Summary) -> String {
    let mut points = vec![
        format!(
            "All that is compared was measured in turns: each of {} ran every row once, so that what the machine did \
             meanwhile fell on all of them. GB/s is the median of the rounds; least and most are the slowest and the fastest.",
            counted(summary.rounds as u64, "round")
        ),
        "The route is the one that the bytes took by proof, not the one that was asked for. 1 GB is 10^9 bytes, 1 KiB 1024."
            .to_owned(),
        "Page cache: cold and warm are what the kernel itself said of the file before each run: less than 0.1 % of it in the \
         page cache, or more than 99.9 %. Unproven is neither, or a kernel that does not tell; memory is a file system \
         that has no drive, where nothing is cold. Cached before and after are the most of any run."
            .to_owned(),
        "A cold file is read once over: in order to its end, at random a sixteenth of it, of which about 3 of 100 reads find what \
         an earlier one brought."
            .to_owned(),
        "Loader: forebay's own loader takes the file as records of one length, in full shuffle and batches of 32 at most (a \
         sixteenth of a small file); its first read is begun when the clock is, and what it began last is waited for. fio beside it \
         reads whole blocks at random, as many as a record fills, and puts nothing together."
            .to_owned(),
        "Polled: the drive was asked for answers over and over (IOPOLL), where others wait for its interrupts; its queue can be \
         polled, and it answered so."
            .to_owned(),
        "Latency is from a read's begin until all of it has landed. Processor time is that of this process and of the \
         kernel's workers for it."
            .to_owned(),
        "Ceilings: memory copies of 64 MiB to 64 MiB, counted once; the warm file out of the page cache by one thread; and for \
         the drive the most that any row got past the page cache, which is not more than the rows asked for. To a GPU: copies \
         from pinned memory by themselves. PCIe is what lanes and encoding carry, of which the heads of packets take some; \
         the link is the fastest that it was seen to run."
            .to_owned(),
        "What the processors could carry is what all of them, or the busiest thread, would reach at what this row took of \
         them, if nothing else held it back."
            .to_owned(),
        "Bound by names the first of these that a row ran into, with how near it was: a link, a processor, memory, the drive, \
         or too few reads at once."
            .to_owned(),
    ];
    points.extend(summary.peer.as_ref().map(|peer| {
        format!(
            "{peer} did the same beside each run: same file, reads, depth and threads, with registered memory and files. The \
             ratio is the median of ours to its, round by round: above 1 we are faster."
        )
    }));
    points.push("Bytes right: in a pass of its own, bytes that came were held against those of the file.".to_owned());
    let points: String = points.iter().map(|point| format!("<li>{}</li>\n", escaped(point))).collect();
    format!("<h2>How it was measured</h2>\n<ul class=\"method\">\n{points}</ul>\n")
}
