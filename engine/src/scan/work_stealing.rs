//! `WorkQueues`: work stealing between the partitions of an operator.
//!
//! A partition without work takes a range that the busiest partition has not begun. Cores are not equally fast, least
//! of all on a shared machine, and a query waits for its slowest partition.
//!
//! A caller may execute a plan several times at once, under one task context or several. DataFusion passes no identity
//! of an execution: a stream knows its operator, its partition and its task context alone. If partition 0 begins
//! twice and partition 1 begins twice, each pair may be an execution. So streams of a partition do not divide the
//! partition's ranges among themselves. Each of them reads all, and to steal is to change the list for all of them.
//!
//! The rule: a range moves from the list of partition `v` to the list of partition `t` only if
//!
//! 1. no stream of `v` has taken the range, and
//! 2. no stream of `t` has ended.
//!
//! **Invariant:** a stream of partition `p` that runs to its end takes exactly the ranges of the final list of `p`.
//! At the stream's end, no range of the list is left to it, and what it has taken stays in the list by (1). After its
//! end, no range enters the list by (2). The lists are at any time a division of all ranges. So any choice of one
//! finished stream per partition returns each row once, whichever executions the streams belong to.
//!
//! The lists are shared by the streams of one task context, which "contains the state required during a single query's
//! execution" ([`TaskContext`]): the partitions of one execution begin under one context. The first execution under a
//! context steals freely. A later one finds ended streams, so it keeps the lists as they are.
//!
//! DataFusion's file scans keep one queue per operator, and need `reset_state` between two executions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use datafusion::execution::TaskContext;

use super::scan_ranges::ScanRange;

/// How ranges are cut for partitions without work.
#[derive(Debug, Clone, Copy)]
pub(super) struct RangeCuts {
    /// Minimum rows of a half. The last range of a partition is stolen by halves, down to this size.
    pub(super) min_half_rows: u64,
    /// A range is cut down to this size before a stream takes it, so that others can take the rest. Rows that pass are
    /// thought to lie in few stripes, which one partition would read while the others have nothing to do.
    pub(super) are_early: bool,
}

/// The ranges of all partitions of an operator, for the streams of one task context.
#[derive(Debug)]
struct WorkQueues {
    /// Lists by partition.
    lists: Mutex<Vec<List>>,
    /// `None`: nothing is stolen.
    cuts: Option<RangeCuts>,
}

/// The ranges of one partition.
#[derive(Debug)]
struct List {
    ranges: Vec<ScanRange>,
    /// Ranges from the start that a stream has taken.
    taken: usize,
    /// Streams that have begun and not ended.
    open_streams: usize,
    /// Whether a stream has ended.
    has_ended: bool,
}

impl List {
    /// Rows in the ranges that no stream has taken.
    fn untaken_rows(&self) -> u64 {
        self.ranges[self.taken..].iter().map(|range| range.rows).sum()
    }

    /// Whether other partitions may steal from the list. A partition that is not executed keeps its rows: a caller
    /// that executes some of the partitions gets only their rows. Nothing is read for a partition whose streams are
    /// dropped.
    fn can_give(&self) -> bool {
        self.open_streams > 0 && self.taken < self.ranges.len()
    }

    /// Removes the last range, or half of it if it is the only range and large.
    fn give(&mut self, min_half_rows: u64) -> Option<ScanRange> {
        let last = self.ranges.pop()?;
        if self.ranges.len() == self.taken
            && let Some((kept, given)) = last.halves(min_half_rows)
        {
            self.ranges.push(kept);
            return Some(given);
        }
        Some(last)
    }

    /// Cuts a range that no stream has taken, as often as halves are large enough.
    fn cut(&mut self, at: usize, min_half_rows: u64) {
        while at >= self.taken
            && let Some((first, rest)) = self.ranges.get(at).and_then(|range| range.halves(min_half_rows))
        {
            self.ranges[at] = first;
            self.ranges.insert(at + 1, rest);
        }
    }

    fn end_stream(&mut self) {
        self.open_streams = self.open_streams.saturating_sub(1);
        self.has_ended = true;
    }
}

/// Locks a mutex. No holder panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WorkQueues {
    fn new(work: &[Vec<ScanRange>], cuts: Option<RangeCuts>) -> Self {
        let lists = work.iter().map(|ranges| List {
            ranges: ranges.clone(),
            taken: 0,
            open_streams: 0,
            has_ended: false,
        });
        Self {
            lists: Mutex::new(lists.collect()),
            cuts,
        }
    }

    /// Moves a range of the partition with the most rows left to the end of another partition's list. False: the rule
    /// forbids it, or no range is left.
    fn steal(&self, lists: &mut [List], partition: usize) -> bool {
        let Some(cuts) = self.cuts.filter(|_| !lists[partition].has_ended) else {
            return false;
        };
        let busiest = lists.iter_mut().filter(|list| list.can_give());
        let stolen = busiest
            .max_by_key(|list| list.untaken_rows())
            .and_then(|list| list.give(cuts.min_half_rows));
        let is_stolen = stolen.is_some();
        lists[partition].ranges.extend(stolen);
        is_stolen
    }
}

/// The ranges of one stream of a partition.
#[derive(Debug)]
pub(super) struct WorkStream {
    queues: Arc<WorkQueues>,
    partition: usize,
    /// Ranges that the stream has taken.
    taken: usize,
    has_ended: bool,
}

impl WorkStream {
    /// The next range: the partition's own next one, or one of the partition with the most rows left. `None` ends the
    /// stream.
    pub(super) fn next(&mut self) -> Option<ScanRange> {
        let queues = Arc::clone(&self.queues);
        let mut lists = lock(&queues.lists);
        if self.has_ended || self.partition >= lists.len() {
            return None;
        }
        if self.taken == lists[self.partition].ranges.len() && !self.queues.steal(&mut lists, self.partition) {
            // Under the same lock: a range that enters the list after this answer would be lost.
            self.has_ended = true;
            lists[self.partition].end_stream();
            return None;
        }
        self.take(&mut lists)
    }

    /// The partition's own next range, for work that begins before the range is scanned. `None` does not end the
    /// stream.
    pub(super) fn next_of_own(&mut self) -> Option<ScanRange> {
        let queues = Arc::clone(&self.queues);
        let mut lists = lock(&queues.lists);
        match lists.get(self.partition) {
            Some(own) if !self.has_ended && self.taken < own.ranges.len() => self.take(&mut lists),
            _ => None,
        }
    }

    fn take(&mut self, lists: &mut [List]) -> Option<ScanRange> {
        let has_others = lists.len() > 1;
        let list = &mut lists[self.partition];
        if let Some(cuts) = self.queues.cuts.filter(|cuts| cuts.are_early && has_others) {
            list.cut(self.taken, cuts.min_half_rows);
        }
        let next = list.ranges.get(self.taken).cloned();
        self.taken += 1;
        list.taken = list.taken.max(self.taken);
        next
    }
}

/// A dropped stream has ended: it needs no more rows.
impl Drop for WorkStream {
    fn drop(&mut self) {
        if !self.has_ended
            && let Some(list) = lock(&self.queues.lists).get_mut(self.partition)
        {
            list.end_stream();
        }
    }
}

/// The queues of one operator, by task context.
#[derive(Debug, Default)]
pub(super) struct ContextQueues {
    known: Mutex<Vec<(Weak<TaskContext>, Arc<WorkQueues>)>>,
}

/// A copy of an operator has queues of its own.
impl Clone for ContextQueues {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl ContextQueues {
    /// Begins a stream of `partition`. `work` has the ranges by partition.
    ///
    /// DataFusion's setting for file scans turns work stealing on and off:
    /// `datafusion.execution.enable_file_stream_work_stealing`.
    pub(super) fn begin(
        &self,
        context: &Arc<TaskContext>,
        partition: usize,
        work: &[Vec<ScanRange>],
        cuts: RangeCuts,
    ) -> WorkStream {
        let mut known = lock(&self.known);
        // A weak reference keeps the address, so no new context has the address of a known one.
        known.retain(|(context, _)| context.strong_count() > 0);
        let found = known.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(context));
        let queues = match found {
            Some((_, queues)) => Arc::clone(queues),
            None => {
                let options = &context.session_config().options().execution;
                let cuts = options.enable_file_stream_work_stealing.then_some(cuts);
                let queues = Arc::new(WorkQueues::new(work, cuts));
                known.push((Arc::downgrade(context), Arc::clone(&queues)));
                queues
            }
        };
        if let Some(list) = lock(&queues.lists).get_mut(partition) {
            list.open_streams += 1;
        }
        WorkStream {
            queues,
            partition,
            taken: 0,
            has_ended: false,
        }
    }
}

#[cfg(test)]
#[path = "work_stealing_tests.rs"]
mod tests;
