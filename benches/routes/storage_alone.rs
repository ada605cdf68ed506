//! Reads to host memory, and no copy.

use std::collections::VecDeque;
use std::time::Instant;

use forebay::{Read, Reader};

use crate::child;
use crate::machine;
use crate::requests::Requests;
use crate::work::{Order, Outcome};

pub fn run(order: &Order) -> Result<Outcome, String> {
    let room = order.ahead as u64 * order.request + (64 << 20);
    let reader = Reader::builder().depth(order.depth).chunk(order.chunk.min(1 << 20)).budget(order.budget.max(room));
    let reader = reader.build().map_err(|e| e.to_string())?;
    let file = reader.open(&order.file).map_err(|e| e.to_string())?;
    let mut requests = Requests::new(&file, order);
    for warm_up in requests.warm_up() {
        reader.read_blocking(&warm_up).map_err(|e| e.to_string())?;
    }

    child::settle();
    let before = reader.stats();
    let cpu_before = machine::own_cpu_seconds();
    let start = Instant::now();
    requests.start();
    let mut under_way: VecDeque<Read> = VecDeque::with_capacity(order.ahead);
    let mut bytes = 0;
    loop {
        while under_way.len() < order.ahead {
            let Some(extents) = requests.next() else { break };
            under_way.push_back(reader.read(&extents));
        }
        let Some(read) = under_way.pop_front() else { break };
        let pieces = read.wait().map_err(|e| e.to_string())?;
        bytes += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
    }
    let seconds = start.elapsed().as_secs_f64();
    let cpu_seconds = machine::own_cpu_seconds() - cpu_before;

    let stats = reader.stats();
    let buffered = stats.bytes_buffered - before.bytes_buffered;
    let note = (buffered * 100 > bytes).then(|| format!("{} % through the page cache", buffered * 100 / bytes.max(1)));
    Ok(Outcome { bytes, seconds, cpu_seconds, device: "host memory".into(), note, ..Outcome::default() })
}
