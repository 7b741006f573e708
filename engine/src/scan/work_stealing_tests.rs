//! Tests of work stealing: single executions by hand, and random executions that overlap.

use datafusion::prelude::SessionConfig;
use proptest::prelude::*;

use super::*;

const STRIDE: u64 = 10_000;
/// The default minimum of a half.
const HALF_ROWS: u64 = 1 << 17;
const CUTS: RangeCuts = RangeCuts {
    min_half_rows: HALF_ROWS,
    are_early: false,
};

fn work(stripe: usize, groups: usize) -> ScanRange {
    ScanRange {
        file: 0,
        stripe,
        groups: 0..groups,
        rows: groups as u64 * STRIDE,
        stride: Some(STRIDE),
    }
}

/// The stripes of the ranges that are left to a stream.
fn stripes(stream: &mut WorkStream) -> Vec<usize> {
    std::iter::from_fn(|| stream.next()).map(|work| work.stripe).collect()
}

fn begin_all(operator: &ContextQueues, context: &Arc<TaskContext>, lists: &[Vec<ScanRange>]) -> Vec<WorkStream> {
    (0..lists.len())
        .map(|partition| operator.begin(context, partition, lists, CUTS))
        .collect()
}

#[test]
fn idle_partition_takes_the_last_range_of_the_busiest() {
    let lists = [
        vec![work(0, 1)],
        vec![work(1, 1), work(2, 1)],
        vec![work(3, 1), work(4, 1), work(5, 1)],
    ];
    let mut streams = begin_all(&ContextQueues::default(), &Arc::default(), &lists);
    assert_eq!(streams[1].next().map(|work| work.stripe), Some(1));
    assert_eq!(stripes(&mut streams[0]), [0, 5, 4, 3, 2]);
    assert_eq!((stripes(&mut streams[1]), stripes(&mut streams[2])), (vec![], vec![]));
}

#[test]
fn partition_that_is_not_executed_keeps_its_rows() {
    let operator = ContextQueues::default();
    let context = Arc::default();
    let lists = [vec![work(0, 1)], vec![work(1, 1), work(2, 1)]];
    let mut first = operator.begin(&context, 0, &lists, CUTS);
    assert_eq!(stripes(&mut first), [0]);
    let mut second = operator.begin(&context, 1, &lists, CUTS);
    assert_eq!(stripes(&mut second), [1, 2]);
}

#[test]
fn each_execution_has_all_ranges() {
    let operator = ContextQueues::default();
    let context = Arc::default();
    let lists = [vec![work(0, 1)], vec![work(1, 1), work(2, 1)]];
    for _ in 0..3 {
        let mut streams = begin_all(&operator, &context, &lists);
        // The first execution moves both ranges of partition 1. The later ones keep the lists.
        assert_eq!(stripes(&mut streams[0]), [0, 2, 1]);
        assert!(stripes(&mut streams[1]).is_empty());
    }
    // Another context and a copy of the operator begin with the planned lists.
    let mut other = operator.begin(&Arc::default(), 0, &lists, CUTS);
    assert_eq!(stripes(&mut other), [0]);
    let mut copy = operator.clone().begin(&context, 1, &lists, CUTS);
    assert_eq!(stripes(&mut copy), [1, 2]);
    // The queues of a dropped context are removed.
    drop(context);
    operator.begin(&Arc::default(), 0, &lists, CUTS);
    assert_eq!(lock(&operator.known).len(), 1);
}

#[test]
fn overlapping_executions_agree_about_stolen_ranges() {
    let operator = ContextQueues::default();
    let context = Arc::default();
    let lists = [vec![work(0, 1)], vec![work(1, 1), work(2, 1)]];
    let begin = |partition| operator.begin(&context, partition, &lists, CUTS);
    let (mut a0, mut b0, mut b1) = (begin(0), begin(0), begin(1));
    assert_eq!(b1.next().map(|work| work.stripe), Some(1));
    assert_eq!(stripes(&mut a0), [0, 2]);
    assert_eq!(stripes(&mut b0), [0, 2]);
    assert_eq!((stripes(&mut b1), stripes(&mut begin(1))), (vec![], vec![1]));
}

#[test]
fn large_last_range_is_halved_between_row_groups() {
    let lists = [Vec::new(), vec![work(7, 61)]];
    let mut streams = begin_all(&ContextQueues::default(), &Arc::default(), &lists);
    let groups: Vec<_> = std::iter::from_fn(|| streams[0].next())
        .map(|work| work.groups)
        .collect();
    assert_eq!(groups, [31..61, 16..31, 0..16]);
}

#[test]
fn early_cuts_leave_the_rest_of_a_range_to_others() {
    let lists = [Vec::new(), vec![work(7, 61)]];
    let (operator, context) = (ContextQueues::default(), Arc::default());
    let cuts = RangeCuts {
        are_early: true,
        ..CUTS
    };
    let begin = |partition| operator.begin(&context, partition, &lists, cuts);
    let (mut idle, mut busy) = (begin(0), begin(1));
    let groups = |stream: &mut WorkStream| stream.next().map(|work| work.groups);
    assert_eq!(groups(&mut busy), Some(0..16));
    assert_eq!(groups(&mut idle), Some(31..46));
    assert_eq!(groups(&mut busy), Some(16..31));
    assert_eq!((groups(&mut idle), groups(&mut busy)), (Some(46..61), None));
    assert_eq!(groups(&mut idle), None);
}

#[test]
fn setting_turns_work_stealing_off() {
    let mut config = SessionConfig::new();
    config.options_mut().execution.enable_file_stream_work_stealing = false;
    let context = Arc::new(TaskContext::default().with_session_config(config));
    let lists = [vec![work(0, 1)], vec![work(1, 1)]];
    let mut streams = begin_all(&ContextQueues::default(), &context, &lists);
    assert_eq!((stripes(&mut streams[0]), stripes(&mut streams[1])), (vec![0], vec![1]));
}

#[test]
fn dropped_partition_is_not_scanned() {
    let lists = [vec![work(0, 1)], vec![work(1, 1)]];
    let mut streams = begin_all(&ContextQueues::default(), &Arc::default(), &lists);
    drop(streams.pop());
    assert_eq!(stripes(&mut streams[0]), [0]);
}

/// One step of a caller. Numbers are taken modulo the number of choices.
#[derive(Debug, Clone)]
enum Step {
    /// Begins the next partition of an execution, in the execution's own order.
    Begin(usize),
    /// Takes a range of an open stream.
    Next(usize),
    /// Drops a stream, which may be open.
    Drop(usize),
}

#[derive(Debug, Clone)]
struct Case {
    /// Row groups of the stripes, by partition.
    lists: Vec<Vec<usize>>,
    /// Executions: the context of each, and a seed of the order of its partitions.
    executions: Vec<(usize, u64)>,
    steps: Vec<Step>,
    min_half_groups: u64,
    are_early: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let partitions = prop::sample::select(vec![1_usize, 2, 7]);
    let lists = partitions.prop_flat_map(|partitions| {
        prop::collection::vec(prop::collection::vec(1..40_usize, 0..6), partitions..=partitions)
    });
    let executions = prop::collection::vec((0..2_usize, any::<u64>()), 1..5);
    let step = prop_oneof![
        3 => any::<usize>().prop_map(Step::Begin),
        8 => any::<usize>().prop_map(Step::Next),
        1 => any::<usize>().prop_map(Step::Drop),
    ];
    let steps = prop::collection::vec(step, 0..250);
    let cuts = (1..20_u64, any::<bool>());
    (lists, executions, steps, cuts).prop_map(|(lists, executions, steps, (min_half_groups, are_early))| Case {
        lists,
        executions,
        steps,
        min_half_groups,
        are_early,
    })
}

/// The stream of one partition of one execution.
#[derive(Default)]
struct Run {
    stream: Option<WorkStream>,
    groups: Vec<(usize, usize)>,
    is_dropped: bool,
}

impl Run {
    /// Takes one range. False: the stream has ended.
    fn step(&mut self) -> bool {
        let range = self.stream.as_mut().and_then(WorkStream::next);
        let groups = range
            .iter()
            .flat_map(|range| range.groups.clone().map(|group| (range.stripe, group)));
        self.groups.extend(groups);
        range.is_some()
    }
}

fn run(case: &Case) -> Result<(), TestCaseError> {
    let mut stripe = 0;
    let mut all: Vec<(usize, usize)> = Vec::new();
    let mut lists: Vec<Vec<ScanRange>> = Vec::new();
    for groups in &case.lists {
        let mut list = Vec::new();
        for &groups in groups {
            all.extend((0..groups).map(|group| (stripe, group)));
            list.push(work(stripe, groups));
            stripe += 1;
        }
        lists.push(list);
    }
    let partitions = lists.len();
    let cuts = RangeCuts {
        min_half_rows: case.min_half_groups * STRIDE,
        are_early: case.are_early,
    };
    let operator = ContextQueues::default();
    let contexts: [Arc<TaskContext>; 2] = Default::default();
    let begin = |execution: usize, nth: usize| {
        let (context, seed) = case.executions[execution];
        // An odd step modulo a prime or 1 or 2 visits each partition once.
        let partition =
            (seed as usize % 1_000 + nth * (1 + (seed >> 32) as usize % partitions.max(2).div_ceil(2))) % partitions;
        operator.begin(&contexts[context], partition, &lists, cuts)
    };
    let mut runs: Vec<Vec<Run>> = case.executions.iter().map(|_| Vec::new()).collect();
    let executions = runs.len();
    for step in &case.steps {
        match step {
            Step::Begin(number) => {
                let execution = number % executions;
                if runs[execution].len() < partitions {
                    let stream = begin(execution, runs[execution].len());
                    runs[execution].push(Run {
                        stream: Some(stream),
                        ..Run::default()
                    });
                }
            }
            Step::Next(number) | Step::Drop(number) => {
                let mut begun: Vec<&mut Run> = runs.iter_mut().flatten().collect();
                let count = begun.len().max(1);
                let Some(run) = begun.get_mut(number % count) else {
                    continue;
                };
                match step {
                    Step::Next(_) => drop(run.step()),
                    _ => {
                        run.is_dropped |= run.stream.take().is_some();
                    }
                }
            }
        }
    }
    // All others run to their ends, the last execution first.
    for (execution, runs) in runs.iter_mut().enumerate().rev() {
        for nth in runs.len()..partitions {
            runs.push(Run {
                stream: Some(begin(execution, nth)),
                ..Run::default()
            });
        }
        for run in runs.iter_mut() {
            while run.step() {}
        }
        let mut read: Vec<_> = runs.iter().flat_map(|run| run.groups.clone()).collect();
        read.sort_unstable();
        match runs.iter().any(|run| run.is_dropped) {
            true => {
                let count = read.len();
                read.dedup();
                prop_assert_eq!(read.len(), count, "execution {} reads a row group twice", execution);
            }
            false => prop_assert_eq!(&read, &all, "execution {}", execution),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn overlapping_executions_read_each_row_once(case in cases()) {
        run(&case)?;
    }
}
