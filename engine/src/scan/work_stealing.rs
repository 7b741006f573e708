//! Partitions of one execution help each other: who has done its own work takes what another has not begun. Processors are not equally
//! fast, on a shared machine least of all, and the slowest partition is what a query waits for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use datafusion::execution::TaskContext;

use super::scan_ranges::ScanRange;

/// A piece that is the last of its partition is taken in halves, as long as these have so many rows: opening a stripe takes as long as
/// filtering some ten thousand.
const MIN_HALF_ROWS: u64 = 1 << 17;

/// What the partitions of one execution have not begun.
#[derive(Debug)]
pub(super) struct WorkQueues {
    /// By partition.
    lists: Mutex<Vec<List>>,
}

#[derive(Debug)]
struct List {
    work: VecDeque<ScanRange>,
    /// Nobody takes from a partition that is not being executed: whoever executes only some of them gets only their rows.
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

    /// What `partition` is to scan next: the next of its own pieces, or one of whoever has most left.
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

    /// `partition` wants no more rows: what is left of its work is nobody's.
    pub(super) fn give_up(&self, partition: usize) {
        if let Some(list) = lock(&self.lists).get_mut(partition) {
            list.work.clear();
        }
    }

    /// True the first time that `partition` begins.
    fn begin(&self, partition: usize) -> bool {
        let mut lists = lock(&self.lists);
        let list = lists.get_mut(partition);
        list.is_some_and(|list| !std::mem::replace(&mut list.begun, true))
    }
}

fn rows_of(work: &VecDeque<ScanRange>) -> u64 {
    work.iter().map(|work| work.rows).sum()
}

/// Nobody panics while they hold it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The executions of one operator that have begun. A plan may be executed more than once, and each time all its rows are wanted: an
/// execution is known by its task context.
#[derive(Debug, Default)]
pub(super) struct Executions {
    begun: Mutex<Vec<(Weak<TaskContext>, Arc<WorkQueues>)>>,
}

/// A copy of an operator has not been executed.
impl Clone for Executions {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Executions {
    /// Begins `partition` of the execution with `context`, of `work` by partition. DataFusion's own setting for scans of files decides
    /// whether partitions help each other (`datafusion.execution.enable_file_stream_work_stealing`).
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
            .find(|(_, sharing)| sharing.begin(partition));
        if let Some((_, sharing)) = same {
            return Arc::clone(sharing);
        }
        let sharing = Arc::new(WorkQueues::new(work));
        sharing.begin(partition);
        begun.push((Arc::downgrade(context), Arc::clone(&sharing)));
        sharing
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

    fn stripes(sharing: &WorkQueues, partition: usize) -> Vec<usize> {
        std::iter::from_fn(|| sharing.next(partition))
            .map(|work| work.stripe)
            .collect()
    }

    #[test]
    fn who_is_done_takes_the_last_of_who_has_most() {
        let executions = Executions::default();
        let context = Arc::new(TaskContext::default());
        let lists = [
            vec![work(0, 1)],
            vec![work(1, 1), work(2, 1)],
            vec![work(3, 1), work(4, 1), work(5, 1)],
        ];
        let sharing = executions.begin(&context, 0, &lists);
        executions.begin(&context, 1, &lists);
        executions.begin(&context, 2, &lists);
        assert_eq!(sharing.next(1).map(|work| work.stripe), Some(1));
        assert_eq!(stripes(&sharing, 0), [0, 5, 4, 3, 2]);
        assert_eq!((stripes(&sharing, 1), stripes(&sharing, 2)), (vec![], vec![]));
    }

    #[test]
    fn partitions_that_are_not_executed_keep_their_rows() {
        let executions = Executions::default();
        let context = Arc::new(TaskContext::default());
        let lists = [vec![work(0, 1)], vec![work(1, 1), work(2, 1)]];
        let first = executions.begin(&context, 0, &lists);
        assert_eq!(stripes(&first, 0), [0]);
        let second = executions.begin(&context, 1, &lists);
        assert_eq!(stripes(&second, 1), [1, 2]);
    }

    #[test]
    fn every_execution_has_all_rows() {
        let executions = Executions::default();
        let context = Arc::new(TaskContext::default());
        let lists = [vec![work(0, 1)], vec![work(1, 1)]];
        // The same context twice, another one, and a copy of the operator.
        for again in 0..2 {
            let sharing = executions.begin(&context, 0, &lists);
            assert!(Arc::ptr_eq(&sharing, &executions.begin(&context, 1, &lists)), "{again}");
            assert_eq!(stripes(&sharing, 1), [1, 0]);
        }
        let other = executions.begin(&Arc::new(TaskContext::default()), 0, &lists);
        assert_eq!(stripes(&other, 0), [0]);
        let copy = executions.clone().begin(&context, 1, &lists);
        assert_eq!(stripes(&copy, 1), [1]);
        // What has ended is forgotten.
        drop(context);
        executions.begin(&Arc::new(TaskContext::default()), 0, &lists);
        assert_eq!(lock(&executions.begun).len(), 1);
    }

    #[test]
    fn a_large_last_piece_is_halved_between_row_groups() {
        let executions = Executions::default();
        let context = Arc::new(TaskContext::default());
        let lists = [Vec::new(), vec![work(7, 61)]];
        let sharing = executions.begin(&context, 0, &lists);
        executions.begin(&context, 1, &lists);
        let groups: Vec<_> = std::iter::from_fn(|| sharing.next(0)).map(|work| work.groups).collect();
        assert_eq!(groups, [31..61, 16..31, 0..16]);
    }

    #[test]
    fn the_setting_keeps_everybody_to_their_own() {
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
    fn what_is_given_up_is_not_scanned() {
        let executions = Executions::default();
        let context = Arc::new(TaskContext::default());
        let lists = [vec![work(0, 1)], vec![work(1, 1)]];
        let sharing = executions.begin(&context, 0, &lists);
        executions.begin(&context, 1, &lists);
        sharing.give_up(1);
        assert_eq!(stripes(&sharing, 0), [0]);
    }
}
