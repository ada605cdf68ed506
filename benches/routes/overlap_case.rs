//! Whether the route `bounce` takes as long as the slower of reads and copies, and not as long as both.
//!
//! It runs under the tests' stand-in for the driver, whose link has a modelled rate. Reads alone, copies alone and the
//! route move the same bytes, in turns.

use serde_json::{Value, json};

use crate::args::Args;
use crate::contender::Contender;
use crate::place::Place;
use crate::rounds::{self, Count, NOISE, Rounds};
use crate::spread::Spread;
use crate::stand_in;
use crate::throttle::Throttle;
use crate::work::{Order, Outcome};

/// The most that the route may take, in times of the slower of the two.
const BOUND: f64 = 1.05;
/// What a copy over the link costs beside its bytes.
const LATENCY_US: u32 = 10;
const HEAD: &str = "\
shape                 link GB/s  read s  copy s  bounce s  of the slower         of their sum          CPU s/GB of all three  target";

struct Shape {
    name: &'static str,
    chunk: u64,
    piece: u64,
    into: bool,
    bytes: u64,
}

const MIB: u64 = 1 << 20;
/// One request for what is in order; scattered pieces are one request together.
const REQUEST: u64 = 64 * MIB;

const SHAPES: [Shape; 5] = [
    Shape::in_order("in order, 1 MiB", MIB),
    Shape::in_order("in order, 4 MiB", 4 * MIB),
    Shape::in_order("in order, 16 MiB", 16 * MIB),
    Shape::scattered("scattered, 64 KiB", false),
    Shape::scattered("scattered, into", true),
];

impl Shape {
    const fn in_order(name: &'static str, chunk: u64) -> Self {
        Self { name, chunk, piece: 0, into: false, bytes: 1 << 30 }
    }

    /// One request of thousands of pieces.
    const fn scattered(name: &'static str, into: bool) -> Self {
        Self { name, chunk: 4 * MIB, piece: 64 << 10, into, bytes: 1 << 30 }
    }

    /// Scattered pieces are a quarter of the file at most, so that neighbours are seldom.
    fn bytes_of(&self, file: u64) -> u64 {
        self.bytes.min(if self.piece == 0 { file } else { file / 4 })
    }
}

pub fn run(args: &Args, place: &Place) -> Result<Vec<Value>, String> {
    let folder = stand_in::folder()?;
    let library_path = folder.path().to_string_lossy().into_owned();
    let throttle = args.storage.map(|rate| Throttle::new(&place.file, rate)).transpose()?;
    let vars = |link: f64| {
        let script = format!("h2d_gbps={link:.4};latency_us={LATENCY_US};jitter_us=0");
        [("LD_LIBRARY_PATH", library_path.clone()), ("FOREBAY_EMULATOR", script)]
    };
    println!("EMULATED: the link to the device is modelled; {} MiB on {}", place.len >> 20, place.on);
    println!("{HEAD}");
    let mut rows = Vec::new();
    for shape in SHAPES.iter().filter(|shape| shape.name.contains(&args.shape)) {
        let orders = orders(args, place, shape, throttle.as_ref());
        let links = match args.links.is_empty() {
            false => args.links.clone(),
            true => {
                let storage = storage_rate(&orders[0], place)?;
                vec![storage / 2.0, storage, 2.0 * storage]
            }
        };
        for link in links {
            let rounds = rounds::measure(&orders, args.count(), &vars(link), place)?;
            if let Some(why) = rounds.failures.iter().flatten().next() {
                return Err(format!("{}: {why}", shape.name));
            }
            let row = Row { shape, link, rounds };
            println!("{}", row.line());
            rows.push(row.json());
        }
    }
    Ok(rows)
}

/// Reads alone, copies alone, and both.
fn orders(args: &Args, place: &Place, shape: &Shape, throttle: Option<&Throttle>) -> [Order; 3] {
    let order = Order {
        contender: Contender::Bounce,
        device: "cuda:0".into(),
        file: place.file.clone(),
        chunk: shape.chunk,
        depth: args.depth,
        budget: 256 << 20,
        request: if shape.piece == 0 { REQUEST } else { shape.bytes_of(place.len) },
        ahead: if shape.piece == 0 { 3 } else { 1 },
        piece: shape.piece,
        into: shape.into,
        bytes: shape.bytes_of(place.len),
        seconds: f64::MAX,
        seed: 1,
        check: false,
        group: throttle.map(|throttle| throttle.group().to_owned()),
    };
    let storage = Order { contender: Contender::Storage, ..order.clone() };
    [storage.with_requests_of_storage(), Order { contender: Contender::Copy, ..order.clone() }, order]
}

fn storage_rate(order: &Order, place: &Place) -> Result<f64, String> {
    let rounds = rounds::measure(std::slice::from_ref(order), Count { rounds: 3, within: None }, &[], place)?;
    match &rounds.failures[0] {
        Some(why) => Err(why.clone()),
        None => Ok(Spread::of(rounds.outcomes(0).map(|outcome| outcome.bytes_per_second() / 1e9)).median),
    }
}

struct Row<'a> {
    shape: &'a Shape,
    link: f64,
    rounds: Rounds,
}

impl Row<'_> {
    fn of_slower(&self) -> Spread {
        let ratio = |[read, copy, both]: [&Outcome; 3]| both.seconds / read.seconds.max(copy.seconds);
        Spread::of(self.rounds.each([0, 1, 2], ratio).into_iter())
    }

    fn of_sum(&self) -> Spread {
        let ratio = |[read, copy, both]: [&Outcome; 3]| both.seconds / (read.seconds + copy.seconds);
        Spread::of(self.rounds.each([0, 1, 2], ratio).into_iter())
    }

    fn seconds(&self, order: usize) -> f64 {
        Spread::of(self.rounds.outcomes(order).map(|outcome| outcome.seconds)).median
    }

    fn cpu(&self, order: usize) -> f64 {
        Spread::of(self.rounds.outcomes(order).map(Outcome::cpu_seconds_per_gb)).median
    }

    fn is_met(&self) -> bool {
        self.of_slower().median <= BOUND
    }

    fn line(&self) -> String {
        let noise = self.rounds.noise();
        format!(
            "{:<21} {:<10.3} {:<7.3} {:<7.3} {:<9.3} {:<21} {:<21} {:<22} ≤ {BOUND}: {}{}",
            self.shape.name,
            self.link,
            self.seconds(0),
            self.seconds(1),
            self.seconds(2),
            format!("{:.3}", self.of_slower()),
            format!("{:.3}", self.of_sum()),
            format!("{:.2} {:.2} {:.2}", self.cpu(0), self.cpu(1), self.cpu(2)),
            if self.is_met() { "met" } else { "MISSED" },
            if noise > NOISE {
                format!(" (others took up to {:.0} % of the CPUs)", noise * 100.0)
            } else {
                String::new()
            },
        )
    }

    fn json(&self) -> Value {
        json!({
            "case": "overlap",
            "shape": self.shape.name,
            "chunk": self.shape.chunk,
            "piece": self.shape.piece,
            "bytes": self.rounds.outcomes(2).last().map(|outcome| outcome.bytes),
            "emulated": true,
            "link_gb_per_second": self.link,
            "read_seconds": self.seconds(0),
            "copy_seconds": self.seconds(1),
            "bounce_seconds": self.seconds(2),
            "of_slower": self.of_slower().json(),
            "of_sum": self.of_sum().json(),
            "cpu_seconds_per_gb": [self.cpu(0), self.cpu(1), self.cpu(2)],
            "into": self.shape.into,
            "bound": BOUND,
            "met": self.is_met(),
            "noise": self.rounds.noise(),
        })
    }
}
