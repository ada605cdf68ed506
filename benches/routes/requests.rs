//! The requests of a run: the same ones for every contender.

use std::time::{Duration, Instant};

use forebay::{Extent, File};

use crate::random::Random;
use crate::work::Order;

pub struct Requests<'a> {
    file: &'a File,
    order: &'a Order,
    random: Random,
    /// The numbers of all pieces of the file, in the order of this pass; empty where bytes are asked for in order.
    pieces: Vec<u64>,
    /// The next piece in that list, or the next byte of the file.
    next: u64,
    asked: u64,
    until: Option<Instant>,
}

impl<'a> Requests<'a> {
    pub fn new(file: &'a File, order: &'a Order) -> Self {
        let pieces = match order.piece {
            0 => Vec::new(),
            piece => (0..file.len() / piece).collect(),
        };
        let mut requests =
            Self { file, order, random: Random::new(order.seed), pieces, next: 0, asked: 0, until: None };
        requests.shuffle();
        requests
    }

    /// Starts the clock.
    pub fn start(&mut self) {
        self.until = Some(Instant::now() + Duration::from_secs_f64(self.order.seconds.min(1e6)));
    }

    /// As much as is under way at once: whatever is done at the first use of files and of memory is done then.
    pub fn warm_up(&self) -> Vec<Vec<Extent>> {
        let len = self.order.request.min(self.file.len());
        vec![vec![Extent::new(self.file, 0, len)]; self.order.ahead]
    }

    fn shuffle(&mut self) {
        for i in (1..self.pieces.len()).rev() {
            let j = self.random.below(i as u64 + 1) as usize;
            self.pieces.swap(i, j);
        }
    }

    fn in_order(&mut self, len: u64) -> Vec<Extent> {
        let from = if self.next < self.file.len() { self.next } else { 0 };
        let len = len.min(self.file.len() - from);
        self.next = from + len;
        vec![Extent::new(self.file, from, len)]
    }

    fn scattered(&mut self, len: u64) -> Vec<Extent> {
        let piece = self.order.piece;
        let count = (len / piece).max(1).min(self.pieces.len() as u64);
        if self.next + count > self.pieces.len() as u64 {
            self.shuffle();
            self.next = 0;
        }
        let chosen = &self.pieces[self.next as usize..(self.next + count) as usize];
        self.next += count;
        chosen.iter().map(|&number| Extent::new(self.file, number * piece, piece)).collect()
    }
}

impl Iterator for Requests<'_> {
    type Item = Vec<Extent>;

    fn next(&mut self) -> Option<Vec<Extent>> {
        let len = self.order.request.min(self.order.bytes.saturating_sub(self.asked));
        if len == 0 || self.until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        let request = if self.pieces.is_empty() { self.in_order(len) } else { self.scattered(len) };
        self.asked += request.iter().map(Extent::len).sum::<u64>();
        Some(request)
    }
}
