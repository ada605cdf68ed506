//! Every route beside pinned copies and storage, on one device and one file.

use serde_json::{Value, json};

use crate::args::Args;
use crate::contender::Contender;
use crate::place::Place;
use crate::rounds::{self, NOISE, Rounds};
use crate::spread::Spread;
use crate::work::{Order, Outcome};

const HEAD: &str = "\
route            GB/s                  CPU s/GB  of copy             of min(copy, storage)  carried as";

/// Runs all rounds and prints the table; gives its rows.
pub fn run(args: &Args, place: &Place) -> Result<Vec<Value>, String> {
    let contenders: Vec<Contender> =
        Contender::ALL.into_iter().filter(|contender| args.device != "host" || is_on_host(*contender)).collect();
    let orders: Vec<Order> = contenders.iter().map(|&contender| order(args, place, contender)).collect();
    let rounds = rounds::measure(&orders, args.count(), &[], place)?;
    let table = Table { orders, rounds, place };
    table.print();
    Ok(table.rows())
}

fn is_on_host(contender: Contender) -> bool {
    matches!(contender, Contender::Storage | Contender::Bounce | Contender::Cached | Contender::Auto)
}

fn order(args: &Args, place: &Place, contender: Contender) -> Order {
    let order = Order {
        contender,
        device: args.device.clone(),
        file: place.file.clone(),
        chunk: args.chunk,
        depth: args.depth,
        budget: 256 << 20,
        request: 64 << 20,
        ahead: 3,
        piece: args.piece,
        into: false,
        bytes: u64::MAX,
        seconds: args.seconds,
        seed: 1,
        check: true,
        group: None,
    };
    match contender {
        // The link at its best, whatever chunk the routes have.
        Contender::Copy => Order { chunk: order.chunk.max(16 << 20), ..order },
        Contender::Storage => order.with_requests_of_storage(),
        _ => order,
    }
}

struct Table<'a> {
    orders: Vec<Order>,
    rounds: Rounds,
    place: &'a Place,
}

impl Table<'_> {
    fn print(&self) {
        let order = &self.orders[0];
        let all = || (0..self.orders.len()).flat_map(|index| self.rounds.outcomes(index));
        // Storage alone ends on the host, whatever the device of the others is.
        let device = all().map(|outcome| &outcome.device).find(|device| order.is_host() || *device != "host memory");
        let device = device.map_or("no device that works", String::as_str);
        if all().any(|outcome| outcome.emulated) {
            println!("EMULATED: the driver is the tests' stand-in; no figure below says anything about a GPU");
        }
        let pieces = if order.piece > 0 { format!("pieces of {} KiB", order.piece >> 10) } else { "in order".into() };
        println!("{}: {device}; {} MiB on {}", order.device, self.place.len >> 20, self.place.on);
        println!("chunk {} MiB, depth {}, {pieces}; median [least..greatest]", self.chunk() >> 20, order.depth);
        println!("{HEAD}");
        for index in 0..self.orders.len() {
            println!("{}", self.line(index));
        }
        if self.rounds.noise() > NOISE {
            println!("note: others took up to {:.0} % of the CPUs", self.rounds.noise() * 100.0);
        }
    }

    fn chunk(&self) -> u64 {
        self.orders.last().map_or(0, |order| order.chunk)
    }

    fn line(&self, index: usize) -> String {
        let name = self.orders[index].contender.name();
        if let Some(why) = &self.rounds.failures[index] {
            return format!("{name:<16} not had: {why}");
        }
        let shown = |spread: Option<Spread>| spread.map_or("-".into(), |spread| spread.to_string());
        format!(
            "{name:<16} {:<21} {:<9.3} {:<19} {:<22} {}",
            self.rate(index).to_string(),
            self.cpu(index),
            shown(self.of_copy(index)),
            shown(self.of_floor(index)),
            self.remarks(index).join("; "),
        )
    }

    fn rate(&self, index: usize) -> Spread {
        Spread::of(self.rounds.outcomes(index).map(|outcome| outcome.bytes_per_second() / 1e9))
    }

    fn cpu(&self, index: usize) -> f64 {
        Spread::of(self.rounds.outcomes(index).map(Outcome::cpu_seconds_per_gb)).median
    }

    fn of_copy(&self, index: usize) -> Option<Spread> {
        let copy = self.index_of(Contender::Copy)?;
        spread(self.rounds.each([index, copy], |[it, copy]| it.bytes_per_second() / copy.bytes_per_second()))
    }

    /// As a share of what is slower, the copies or the reads; on the host, of the reads.
    fn of_floor(&self, index: usize) -> Option<Spread> {
        let storage = self.index_of(Contender::Storage)?;
        let copy = self.index_of(Contender::Copy).unwrap_or(storage);
        spread(self.rounds.each([index, copy, storage], |[it, copy, storage]| {
            it.bytes_per_second() / copy.bytes_per_second().min(storage.bytes_per_second())
        }))
    }

    fn index_of(&self, contender: Contender) -> Option<usize> {
        self.orders.iter().position(|order| order.contender == contender)
    }

    fn remarks(&self, index: usize) -> Vec<String> {
        let mut remarks = Vec::new();
        let last = self.rounds.outcomes(index).last();
        let routes = last.map(|outcome| outcome.routes.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
        if !routes.is_empty() {
            remarks.push(routes.join(" + "));
        }
        if self.orders[index].contender.is_warm() && !self.place.in_memory {
            remarks.push("page cache warm".into());
        }
        remarks.extend(last.and_then(|outcome| outcome.note.clone()));
        remarks
    }

    fn rows(&self) -> Vec<Value> {
        (0..self.orders.len()).map(|index| self.row(index)).collect()
    }

    fn row(&self, index: usize) -> Value {
        let order = &self.orders[index];
        let outcomes: Vec<Value> = self.rounds.outcomes(index).map(Outcome::to_json).collect();
        let emulated = self.rounds.outcomes(index).any(|outcome| outcome.emulated);
        json!({
            "case": "routes",
            "route": order.contender.name(),
            "device": order.device,
            "on": self.place.on,
            "chunk": order.chunk,
            "depth": order.depth,
            "piece": order.piece,
            "emulated": emulated,
            "not_had": self.rounds.failures[index],
            "bytes_per_second": self.rate(index).json(),
            "cpu_seconds_per_gb": self.cpu(index),
            "of_copy": self.of_copy(index).map(Spread::json),
            "of_min_of_copy_and_storage": self.of_floor(index).map(Spread::json),
            "noise": self.rounds.noise(),
            "remarks": self.remarks(index),
            "runs": outcomes,
        })
    }
}

fn spread(numbers: Vec<f64>) -> Option<Spread> {
    (!numbers.is_empty()).then(|| Spread::of(numbers.into_iter()))
}
