//! `TurnQueue`: a bounded number of places that queries take in the order of their arrival.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Interval of looks at the caller's flag while a query waits.
const STOP_POLL: Duration = Duration::from_millis(1);

/// Places, and the queries that wait for one.
#[derive(Debug)]
pub(crate) struct TurnQueue {
    places: usize,
    turns: Mutex<Turns>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Turns {
    /// Tickets of the queries that wait, in the order of their arrival.
    waiting: VecDeque<u64>,
    /// By ticket: the queries that have a place, and whether they wait for memory.
    inside: BTreeMap<u64, bool>,
    tickets: u64,
    /// Number of places that were left.
    left: u64,
}

impl Turns {
    /// Queries that have a place and run.
    fn running(&self) -> usize {
        self.inside.values().filter(|waits| !**waits).count()
    }
}

/// A place. Dropping it lets the next query in.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    queue: &'a TurnQueue,
    ticket: u64,
}

impl TurnQueue {
    pub(crate) fn new(places: usize) -> Self {
        Self {
            places: places.max(1),
            turns: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, turns: MutexGuard<'g, Turns>) -> MutexGuard<'g, Turns> {
        let waited = self.changed.wait_timeout(turns, STOP_POLL);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits for a place behind all queries that came before. `None` when `stop` says so.
    pub(crate) fn enter(&self, stop: impl Fn() -> bool) -> Option<Turn<'_>> {
        let mut turns = self.turns();
        let ticket = turns.tickets;
        turns.tickets += 1;
        turns.waiting.push_back(ticket);
        loop {
            if stop() {
                turns.waiting.retain(|waiting| *waiting != ticket);
                drop(turns);
                self.changed.notify_all();
                return None;
            }
            if turns.waiting.front() == Some(&ticket) && turns.inside.len() < self.places {
                turns.waiting.pop_front();
                turns.inside.insert(ticket, false);
                drop(turns);
                self.changed.notify_all();
                return Some(Turn { queue: self, ticket });
            }
            turns = self.wait(turns);
        }
    }

    /// A place, if one is free and no query waits.
    pub(crate) fn try_enter(&self) -> Option<Turn<'_>> {
        let mut turns = self.turns();
        if !turns.waiting.is_empty() || turns.inside.len() >= self.places {
            return None;
        }
        let ticket = turns.tickets;
        turns.tickets += 1;
        turns.inside.insert(ticket, false);
        Some(Turn { queue: self, ticket })
    }

    /// Whether a query waits for a place.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.turns().waiting.is_empty()
    }
}

impl Turn<'_> {
    /// Queries that have a place and run, this one included.
    pub(crate) fn running(&self) -> usize {
        self.queue.turns().running()
    }

    /// Queries that have left their places so far.
    pub(crate) fn left(&self) -> u64 {
        self.queue.turns().left
    }

    /// Waits until another query has left its place, and with it the memory that it held. `left`: [`Turn::left`] before
    /// the memory was asked for; a query that left since then is not waited for. False: no other query runs, or `stop`
    /// says so. Of queries that all wait, the first one goes on.
    pub(crate) fn wait_for_memory(&self, left: u64, stop: impl Fn() -> bool) -> bool {
        let mut turns = self.queue.turns();
        if turns.left != left {
            return !stop();
        }
        if turns.running() == 1 && turns.inside.len() == 1 {
            return false;
        }
        if turns.running() == 1 && turns.inside.keys().next() == Some(&self.ticket) {
            return false; // the others wait, and hold nothing
        }
        turns.inside.insert(self.ticket, true);
        self.queue.changed.notify_all();
        let goes_on = loop {
            if stop() {
                break false;
            }
            let is_first = turns.inside.keys().next() == Some(&self.ticket);
            if turns.left != left || (is_first && turns.running() == 0) {
                break true;
            }
            turns = self.queue.wait(turns);
        };
        turns.inside.insert(self.ticket, false);
        goes_on
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut turns = self.queue.turns();
        turns.inside.remove(&self.ticket);
        turns.left += 1;
        drop(turns);
        self.queue.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const NEVER: fn() -> bool = || false;

    fn wait(turn: Turn<'_>) -> (bool, Turn<'_>) {
        (turn.wait_for_memory(turn.left(), NEVER), turn)
    }

    fn wait_until(what: impl Fn() -> bool) {
        while !what() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn places_are_taken_in_the_order_of_arrival() {
        let queue = TurnQueue::new(1);
        let order = Mutex::new(Vec::new());
        let first = queue.enter(NEVER).unwrap();
        assert!(queue.try_enter().is_none() && !queue.is_wanted());
        std::thread::scope(|scope| {
            for name in 0..4 {
                let (queue, order) = (&queue, &order);
                scope.spawn(move || {
                    let _turn = queue.enter(NEVER).unwrap();
                    order.lock().unwrap().push(name);
                });
                wait_until(|| queue.turns().waiting.len() == name + 1);
            }
            drop(first);
        });
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
        assert!(queue.try_enter().is_some());
    }

    #[test]
    fn a_query_that_stops_waiting_holds_nobody_up() {
        let queue = TurnQueue::new(1);
        let (stopped, first) = (AtomicBool::new(false), queue.enter(NEVER).unwrap());
        std::thread::scope(|scope| {
            let cancelled = scope.spawn(|| queue.enter(|| stopped.load(Ordering::Relaxed)).is_none());
            wait_until(|| queue.turns().waiting.len() == 1);
            let next = scope.spawn(|| queue.enter(NEVER).is_some());
            wait_until(|| queue.turns().waiting.len() == 2);
            stopped.store(true, Ordering::Relaxed);
            assert!(cancelled.join().unwrap());
            assert!(queue.is_wanted());
            drop(first);
            assert!(next.join().unwrap());
        });
    }

    #[test]
    fn memory_that_came_back_before_the_wait_is_not_waited_for() {
        let queue = TurnQueue::new(2);
        let (one, other) = (queue.enter(NEVER).unwrap(), queue.enter(NEVER).unwrap());
        let left = one.left();
        drop(other);
        assert!(one.wait_for_memory(left, NEVER));
        assert!(!one.wait_for_memory(one.left(), NEVER));
    }

    #[test]
    fn queries_that_wait_for_memory_go_on_when_another_leaves_or_all_wait() {
        let queue = TurnQueue::new(4);
        let alone = queue.enter(NEVER).unwrap();
        assert!(!alone.wait_for_memory(alone.left(), NEVER), "no other query has any");
        let (other, third) = (queue.enter(NEVER).unwrap(), queue.enter(NEVER).unwrap());
        std::thread::scope(|scope| {
            let waits = scope.spawn(move || wait(other));
            wait_until(|| queue.turns().running() == 2);
            drop(third);
            let (goes_on, other) = waits.join().unwrap();
            assert!(goes_on);
            let first = scope.spawn(move || wait(alone));
            wait_until(|| queue.turns().running() == 1);
            // The last one that runs gives up waiting for those that came before: the first goes on.
            let second = scope.spawn(move || wait(other));
            let (goes_on, alone) = first.join().unwrap();
            assert!(goes_on && !second.is_finished());
            drop(alone);
            assert!(second.join().unwrap().0);
        });
    }
}
