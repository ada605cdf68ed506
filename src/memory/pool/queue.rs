//! The requests that wait, in the order they came, each with its ticket: the first that does not fit holds up those behind it.

use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

use super::spans::{GRAIN, Span, Spans, Want};

/// What a pool keeps under its lock.
#[derive(Debug)]
pub(super) struct State {
    pub(super) spans: Spans,
    /// What will never be released of what is in use, by where it begins.
    pub(super) lost: BTreeMap<usize, Span>,
    /// By ticket, so in the order they came.
    waiting: BTreeMap<u64, Waiter>,
    next_ticket: u64,
}

#[derive(Debug)]
struct Waiter {
    want: Want,
    /// Its span, until its future is polled.
    served: Option<Span>,
    waker: Option<Waker>,
}

impl State {
    pub(super) fn new(len: usize) -> Self {
        Self { spans: Spans::new(len), lost: BTreeMap::new(), waiting: BTreeMap::new(), next_ticket: 0 }
    }

    /// Whether a request waits for memory.
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting.values().any(|waiter| waiter.served.is_none())
    }

    /// The ticket of a request that comes now.
    pub(super) fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Queues a request where its ticket says.
    pub(super) fn insert(&mut self, ticket: u64, want: Want) {
        self.waiting.insert(ticket, Waiter { want, served: None, waker: None });
    }

    /// Whether a request was served: then it leaves the queue. Else its waker is kept; what is returned beside that must be
    /// dropped without the lock, since a waker may hold the last of a task, and that memory of this pool.
    pub(super) fn poll(&mut self, ticket: u64, context: &Context<'_>) -> (Poll<Span>, Option<Waker>) {
        let Some(waiter) = self.waiting.get_mut(&ticket) else {
            // Polled again after it was ready: there is nothing more to come.
            return (Poll::Pending, None);
        };
        let Some(span) = waiter.served else {
            return (Poll::Pending, waiter.waker.replace(context.waker().clone()));
        };
        (Poll::Ready(span), self.waiting.remove(&ticket).and_then(|waiter| waiter.waker))
    }

    /// Takes a request out of the queue, and back what it was served and did not take. Whether it was there.
    pub(super) fn remove(&mut self, ticket: u64) -> bool {
        let Some(waiter) = self.waiting.remove(&ticket) else { return false };
        if let Some(span) = waiter.served {
            self.spans.put(span);
        }
        true
    }

    /// Gives nothing beyond `limit` from now on, and gives the wakers of those that may go on. Requests that were served beyond it
    /// and have not taken it yet wait again, each at its place: what is left below it belongs to the first of all.
    pub(super) fn limit(&mut self, limit: usize) -> Vec<Waker> {
        for waiter in self.waiting.values_mut() {
            if let Some(span) = waiter.served.take_if(|span| span.end() > limit && span.len <= limit) {
                self.spans.put(span);
            }
        }
        self.spans.set_limit(limit);
        self.serve()
    }

    /// Serves from the front until the first that does not fit, and gives the wakers of those served.
    pub(super) fn serve(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let mut from = 0;
        while let Some((ticket, want)) = self.first_unserved(from) {
            let Some(span) = self.spans.take(want) else { break };
            from = ticket + 1;
            if let Some(waiter) = self.waiting.get_mut(&ticket) {
                waiter.served = Some(span);
                wakers.extend(waiter.waker.take());
            }
        }
        wakers
    }

    /// Whether so many bytes in one piece can never be free again, since others were lost.
    pub(super) fn is_hopeless(&self, want: Want) -> bool {
        let len = want.len.max(1).next_multiple_of(GRAIN);
        let mut from = 0;
        let ends = self.lost.values().map(|span| (span.start, span.end())).chain([(self.spans.len(), usize::MAX)]);
        for (end, next) in ends {
            let start = usize::next_multiple_of(from, want.align.max(GRAIN));
            if start.saturating_add(len) <= end {
                return false;
            }
            from = next.min(self.spans.len());
        }
        true
    }

    /// The wakers of all that wait.
    pub(super) fn wakers(&mut self) -> Vec<Waker> {
        self.waiting.values_mut().filter_map(|waiter| waiter.waker.take()).collect()
    }

    /// Those served are among the first in the queue, and few: they only have yet to notice.
    fn first_unserved(&self, from: u64) -> Option<(u64, Want)> {
        let mut waiting = self.waiting.range(from..);
        waiting.find(|(_, waiter)| waiter.served.is_none()).map(|(&ticket, waiter)| (ticket, waiter.want))
    }
}
