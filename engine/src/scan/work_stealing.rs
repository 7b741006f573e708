//! `WorkQueues`: work stealing between the partitions of one execution.
//!
//! A partition without work takes a range that the busiest partition has not begun. Cores are not equally fast, least
//! of all on a shared machine, and a query waits for its slowest partition.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use datafusion::execution::TaskContext;

use super::scan_ranges::ScanRange;

/// Minimum rows of a half. The last range of a partition is stolen by halves, down to this size. Opening a stripe takes
/// as long as filtering some ten thousand rows.
const MIN_HALF_ROWS: u64 = 1 << 17;

/// The ranges that the partitions of one execution have not begun.
#[derive(Debug)]
pub(super) struct WorkQueues {
    /// Lists by partition.
    lists: Mutex<Vec<List>>,
}

#[derive(Debug)]
struct List {
    work: VecDeque<ScanRange>,
    /// Whether the partition has begun. Only ranges of begun partitions are stolen: a caller that executes some of the
    /// partitions gets only their rows.
    begun: bool,
}

impl WorkQueues {
    fn new(work: &[Vec<ScanRange>]) -> Self {
        let lists = work.iter().map(|work| List {
            work: work.iter().cloned().collect(),
            begun: false,
        });
        Self {
            lists: Mutex::new(lists.collect()),
        }
    }

    /// The next range for `partition`: its own next one, or one of the partition with the most rows left.
    pub(super) fn next(&self, partition: usize) -> Option<ScanRange> {
        let mut lists = lock(&self.lists);
        if let Some(own) = lists.get_mut(partition)?.work.pop_front() {
            return Some(own);
        }
        let busiest = lists
            .iter_mut()
            .filter(|list| list.begun)
            .max_by_key(|list| rows_of(&list.work))?;
        let last = busiest.work.pop_back()?;
        if busiest.work.is_empty()
            && let Some((kept, taken)) = last.halves(MIN_HALF_ROWS)
        {
            busiest.work.push_back(kept);
            return Some(taken);
        }
        Some(last)
    }

    /// Drops the remaining ranges of `partition`, which needs no more rows.
    pub(super) fn close(&self, partition: usize) {
        if let Some(list) = lock(&self.lists).get_mut(partition) {
            list.work.clear();
        }
    }

    /// Begins `partition`. True for its first begin.
    fn begin(&self, partition: usize) -> bool {
        let mut lists = lock(&self.lists);
        let list = lists.get_mut(partition);
        list.is_some_and(|list| !std::mem::replace(&mut list.begun, true))
    }
}

fn rows_of(work: &VecDeque<ScanRange>) -> u64 {
    work.iter().map(|work| work.rows).sum()
}

/// Locks a mutex. No holder panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The begun executions of one operator, keyed by their task contexts.
///
/// A plan may be executed more than once, and each execution returns all rows.
#[derive(Debug, Default)]
pub(super) struct Executions {
    begun: Mutex<Vec<(Weak<TaskContext>, Arc<WorkQueues>)>>,
}

/// A copy of an operator has no executions.
impl Clone for Executions {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Executions {
    /// Begins `partition` of the execution with `context`. `work` has the ranges by partition.
    ///
    /// DataFusion's setting for file scans turns work stealing on and off:
    /// `datafusion.execution.enable_file_stream_work_stealing`.
    pub(super) fn begin(
        &self,
        context: &Arc<TaskContext>,
        partition: usize,
        work: &[Vec<ScanRange>],
    ) -> Arc<WorkQueues> {
        let options = context.session_config().options();
        if !options.execution.enable_file_stream_work_stealing {
            return Arc::new(WorkQueues::new(work));
        }
        let mut begun = lock(&self.begun);
        begun.retain(|(known, _)| known.strong_count() > 0);
        let same = begun
            .iter()
            .filter(|(known, _)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(context)))
            .find(|(_, queues)| queues.begin(partition));
        if let Some((_, queues)) = same {
            return Arc::clone(queues);
        }
        let queues = Arc::new(WorkQueues::new(work));
        queues.begin(partition);
        begun.push((Arc::downgrade(context), Arc::clone(&queues)));
        queues
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionConfig;

    use super::*;

    const STRIDE: u64 = 10_000;

    fn work(stripe: usize, groups: usize) -> ScanRange {
        ScanRange {
            file: 0,
            stripe,
            groups: 0..groups,
            rows: groups as u64 * STRIDE,
            stride: Some(STRIDE),
        }
    }

    fn stripes(queues: &WorkQueues, partition: usize) -> Vec<usize> {
        std::iter::from_fn(|| queues.next(partition))
            .map(|work| work.stripe)
            .collect()
    }

    #[test]
    fn idle_partition_takes_the_last_range_of_the_busiest() {
        let executions = Executions::default();
        let context = Arc::new(TaskContext::default());
        let lists = [
            vec![work(0, 1)],
            vec![work(1, 1), work(2, 1)],
            vec![work(3, 1), work(4, 1), work(5, 1)],
        ];
        let queues = executions.begin(&context, 0, &lists);
        executions.begin(&context, 1, &lists);
        executions.begin(&context, 2, &lists);
        assert_eq!(queues.next(1).map(|work| work.stripe), Some(1));
        assert_eq!(stripes(&queues, 0), [0, 5, 4, 3, 2]);
        assert_eq!((stripes(&queues, 1), stripes(&queues, 2)), (vec![], vec![]));
    }

    #[test]
    fn partition_that_is_not_executed_keeps_its_rows() {
        let executions = Executions::default();
        let context = Arc::new(TaskContext::default());
        let lists = [vec![work(0, 1)], vec![work(1, 1), work(2, 1)]];
        let first = executions.begin(&context, 0, &lists);
        assert_eq!(stripes(&first, 0), [0]);
        let second = executions.begin(&context, 1, &lists);
        assert_eq!(stripes(&second, 1), [1, 2]);
    }

    #[test]
    fn execution_has_all_rows_each_time() {
        let executions = Executions::default();
        let context = Arc::new(TaskContext::default());
        let lists = [vec![work(0, 1)], vec![work(1, 1)]];
        // The same context begins twice, then another context, then a copy of the operator.
        for again in 0..2 {
            let queues = executions.begin(&context, 0, &lists);
            assert!(Arc::ptr_eq(&queues, &executions.begin(&context, 1, &lists)), "{again}");
            assert_eq!(stripes(&queues, 1), [1, 0]);
        }
        let other = executions.begin(&Arc::new(TaskContext::default()), 0, &lists);
        assert_eq!(stripes(&other, 0), [0]);
        let copy = executions.clone().begin(&context, 1, &lists);
        assert_eq!(stripes(&copy, 1), [1]);
        // An execution that has ended is removed.
        drop(context);
        executions.begin(&Arc::new(TaskContext::default()), 0, &lists);
        assert_eq!(lock(&executions.begun).len(), 1);
    }

    #[test]
    fn large_last_range_is_halved_between_row_groups() {
        let executions = Executions::default();
        let context = Arc::new(TaskContext::default());
        let lists = [Vec::new(), vec![work(7, 61)]];
        let queues = executions.begin(&context, 0, &lists);
        executions.begin(&context, 1, &lists);
        let groups: Vec<_> = std::iter::from_fn(|| queues.next(0)).map(|work| work.groups).collect();
        assert_eq!(groups, [31..61, 16..31, 0..16]);
    }

    #[test]
    fn setting_turns_work_stealing_off() {
        let executions = Executions::default();
        let mut config = SessionConfig::new();
        config.options_mut().execution.enable_file_stream_work_stealing = false;
        let context = Arc::new(TaskContext::default().with_session_config(config));
        let lists = [vec![work(0, 1)], vec![work(1, 1)]];
        let (first, second) = (
            executions.begin(&context, 0, &lists),
            executions.begin(&context, 1, &lists),
        );
        assert_eq!((stripes(&first, 0), stripes(&second, 1)), (vec![0], vec![1]));
    }

    #[test]
    fn closed_partition_is_not_scanned() {
        let executions = Executions::default();
        let context = Arc::new(TaskContext::default());
        let lists = [vec![work(0, 1)], vec![work(1, 1)]];
        let queues = executions.begin(&context, 0, &lists);
        executions.begin(&context, 1, &lists);
        queues.close(1);
        assert_eq!(stripes(&queues, 0), [0]);
    }
}
