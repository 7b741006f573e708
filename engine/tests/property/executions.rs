//! Several executions of one scan at once: begins, polls and drops of their streams in random order.

use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{sort_to_indices, take_record_batch};
use arrow::datatypes::Int64Type;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::support::{difference, one_batch};

/// One execution: the partitions that have not begun, the open streams, and the batches.
#[derive(Default)]
struct Execution {
    context: usize,
    partitions: Vec<usize>,
    streams: Vec<SendableRecordBatchStream>,
    batches: Vec<RecordBatch>,
    is_dropped: bool,
}

/// The scan of a plan, if the plan has exactly one.
pub(crate) fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    match plan.children().as_slice() {
        [] => (plan.name() == "OrcScanExec").then(|| Arc::clone(plan)),
        [child] => scan_of(child),
        _ => None,
    }
}

/// Executes `scan` up to four times at once, under up to two task contexts. The first difference from `expected`, which
/// has all rows in the order of their numbers; `None`: each execution returns these rows, and one whose stream was
/// dropped returns none twice.
pub(crate) async fn overlap(
    scan: &Arc<dyn ExecutionPlan>,
    context: &SessionContext,
    expected: &RecordBatch,
    seed: u64,
) -> Result<Option<String>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let contexts = [context.task_ctx(), context.task_ctx()];
    let mut executions: Vec<Execution> = (0..random.random_range(2..5))
        .map(|_| {
            let mut partitions: Vec<usize> = (0..scan.output_partitioning().partition_count()).collect();
            partitions.shuffle(&mut random);
            Execution {
                context: random.random_range(0..contexts.len()),
                partitions,
                ..Execution::default()
            }
        })
        .collect();
    let drops = random.random_bool(0.3);
    loop {
        let mut open: Vec<&mut Execution> = executions
            .iter_mut()
            .filter(|execution| !execution.partitions.is_empty() || !execution.streams.is_empty())
            .collect();
        if open.is_empty() {
            break;
        }
        let number = random.random_range(0..open.len());
        let execution = &mut *open[number];
        let begins = execution.streams.is_empty() || random.random_ratio(1, 4);
        if begins && let Some(partition) = execution.partitions.pop() {
            let context = Arc::clone(&contexts[execution.context]);
            execution.streams.push(scan.execute(partition, context)?);
        } else if !execution.streams.is_empty() {
            let number = random.random_range(0..execution.streams.len());
            if drops && random.random_ratio(1, 20) {
                drop(execution.streams.swap_remove(number));
                execution.is_dropped = true;
            } else if let Some(batch) = execution.streams[number].next().await {
                execution.batches.push(batch?);
            } else {
                drop(execution.streams.swap_remove(number));
            }
        }
    }
    for (number, execution) in executions.iter().enumerate() {
        let read = by_row(&one_batch(&scan.schema(), &execution.batches));
        let wanted = match execution.is_dropped {
            false => expected.clone(),
            true => match rows_like(expected, &read) {
                Some(rows) => rows,
                None => return Ok(Some(format!("execution {number} returns rows twice or of nowhere"))),
            },
        };
        let columns: Vec<usize> = (read.schema().fields().iter())
            .map(|field| wanted.schema().index_of(field.name()))
            .collect::<Result<_, _>>()?;
        if let Some(words) = difference(&wanted.project(&columns)?, &read) {
            return Ok(Some(format!("execution {number} of {}: {words}", executions.len())));
        }
    }
    Ok(None)
}

fn numbers(rows: &RecordBatch) -> &Int64Array {
    let row = rows.column_by_name("row").expect("each query selects the row number");
    row.as_primitive::<Int64Type>()
}

/// Rows in the order of their numbers.
pub(crate) fn by_row(rows: &RecordBatch) -> RecordBatch {
    let order = sort_to_indices(numbers(rows), None, None).expect("numbers can be sorted");
    take_record_batch(rows, &order).expect("indices of the rows")
}

/// The rows of `all`, in ascending order of their numbers, that have the numbers of `some`. `None`: a number of `some`,
/// which ascend, comes twice or is not in `all`.
pub(crate) fn rows_like(all: &RecordBatch, some: &RecordBatch) -> Option<RecordBatch> {
    let (all_numbers, some_numbers) = (numbers(all).values(), numbers(some).values());
    if some_numbers.windows(2).any(|pair| pair[0] >= pair[1]) {
        return None;
    }
    let places = some_numbers
        .iter()
        .map(|number| Some(all_numbers.binary_search(number).ok()? as u32));
    let places: Option<Vec<u32>> = places.collect();
    take_record_batch(all, &UInt32Array::from(places?)).ok()
}
