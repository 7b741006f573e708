//! [`ExactGroups`]: the sums of all groups.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal256Array, UInt64Array};
use arrow::datatypes::{Decimal256Type, UInt64Type, i256};
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::exact_lanes::ExactLanes;
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

/// Whether the row has a value that the filter lets pass.
fn has_value(values: &dyn Array, filter: Option<&BooleanArray>, row: usize) -> bool {
    values.is_valid(row) && filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
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
        let values = &values[0];
        let numbers = ExactLanes::of(values)?;
        for (row, &group) in group_indices.iter().enumerate() {
            if !has_value(values, opt_filter, row) {
                continue;
            }
            self.counts[group] += 1;
            for (sums, numbers) in self.sums.lanes.iter_mut().zip(&numbers.lanes) {
                sums[group] = self.task.add(sums[group], numbers[row])?;
            }
        }
        Ok(())
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
        for (sums, states) in self.sums.lanes.iter_mut().zip(&values[1..]) {
            let states = states.as_primitive::<Decimal256Type>();
            for (row, &group) in group_indices.iter().enumerate() {
                if states.is_valid(row) {
                    sums[group] = self.task.add(sums[group], states.value(row))?;
                }
            }
        }
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let array = &values[0];
        let mut sums = ExactLanes::of(array)?;
        let rows = 0..array.len();
        let counts: Vec<u64> = rows.map(|row| u64::from(has_value(array, opt_filter, row))).collect();
        for lane in &mut sums.lanes {
            for (number, _) in lane.iter_mut().zip(&counts).filter(|(_, count)| **count == 0) {
                *number = i256::ZERO;
            }
        }
        states(sums, counts)
    }

    fn size(&self) -> usize {
        let lanes = self.sums.lanes.iter().map(|lane| lane.capacity() * size_of::<i256>());
        self.counts.capacity() * size_of::<u64>() + lanes.sum::<usize>()
    }
}
