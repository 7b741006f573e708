//! [`ExactGroups`]: the sums of all groups.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal256Array, UInt64Array};
use arrow::datatypes::{Decimal256Type, UInt64Type, i256};
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::exact_lanes::{ExactLanes, Numbers, Rows, lanes_of};
use super::exact_task::{STATE, Task};

/// The sums of groups by number.
#[derive(Debug)]
pub(super) struct ExactGroups {
    task: Task,
    counts: Vec<u64>,
    sums: ExactLanes,
}

impl ExactGroups {
    pub(super) fn new(task: Task) -> Self {
        let sums = ExactLanes::new(task.lane_count());
        Self {
            task,
            counts: Vec::new(),
            sums,
        }
    }

    fn grow(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
        for lane in &mut self.sums.lanes {
            lane.resize(groups, i256::ZERO);
        }
    }

    fn add(&mut self, sums: &[Numbers<'_>], group_indices: &[usize], rows: &Rows) -> Result<()> {
        let mut fits = true;
        for (sums, numbers) in self.sums.lanes.iter_mut().zip(sums) {
            fits &= numbers.add_to(sums, group_indices, rows);
        }
        if fits { Ok(()) } else { Err(self.task.beyond()) }
    }

    fn take(&mut self, emit_to: EmitTo) -> (ExactLanes, Vec<u64>) {
        let lanes = self
            .sums
            .lanes
            .iter_mut()
            .map(|lane| emit_to.take_needed(lane))
            .collect();
        (ExactLanes { lanes }, emit_to.take_needed(&mut self.counts))
    }
}

/// The fields of the state.
fn states(sums: ExactLanes, counts: Vec<u64>) -> Result<Vec<ArrayRef>> {
    let counts: ArrayRef = std::sync::Arc::new(UInt64Array::from(counts));
    let lanes = sums.lanes.into_iter().map(|lane| {
        let lane = Decimal256Array::new(lane.into(), None).with_data_type(STATE);
        std::sync::Arc::new(lane) as ArrayRef
    });
    Ok([counts].into_iter().chain(lanes).collect())
}

impl GroupsAccumulator for ExactGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.grow(total_num_groups);
        let rows = Rows::of(&values[0], opt_filter);
        rows.for_each(|row| self.counts[group_indices[row]] += 1);
        self.add(&lanes_of(&values[0])?, group_indices, &rows)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, counts) = self.take(emit_to);
        self.task.results(sums, &counts)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, counts) = self.take(emit_to);
        states(sums, counts)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.grow(total_num_groups);
        let counts = values[0].as_primitive::<UInt64Type>();
        for (row, &group) in group_indices.iter().enumerate() {
            if counts.is_valid(row) {
                self.counts[group] += counts.value(row);
            }
        }
        for (lane, states) in values[1..].iter().enumerate() {
            let (rows, states) = (Rows::of(states, None), states.as_primitive::<Decimal256Type>());
            let sums = &mut self.sums.lanes[lane];
            if !Numbers::Long(states.values()).add_to(sums, group_indices, &rows) {
                return Err(self.task.beyond());
            }
        }
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = Rows::of(&values[0], opt_filter);
        let mut counts = vec![0; values[0].len()];
        rows.for_each(|row| counts[row] = 1);
        let numbers = lanes_of(&values[0])?;
        let mut sums = ExactLanes {
            lanes: vec![vec![i256::ZERO; counts.len()]; numbers.len()],
        };
        for (sums, numbers) in sums.lanes.iter_mut().zip(&numbers) {
            rows.for_each(|row| sums[row] = numbers.get(row));
        }
        states(sums, counts)
    }

    fn size(&self) -> usize {
        let lanes = self.sums.lanes.iter().map(|lane| lane.capacity() * size_of::<i256>());
        self.counts.capacity() * size_of::<u64>() + lanes.sum::<usize>()
    }
}
