//! The runs of rows that a query's tiles are made of: selected rows, counted over all stripes.

use std::ops::Range;

use crate::codegen::GPU_LANES;
use crate::options::{Backing, Request};
use crate::runtime::planner::QueryPlan;
use crate::runtime::transfer::transfer_plan::TransferPlan;

/// First rows and numbers of rows, ascending.
pub(crate) fn row_runs(request: &Request<'_>, plan: &QueryPlan, transfer: &TransferPlan) -> Vec<(u64, u64)> {
    let runs = selected_rows(request);
    // Windows end where tiles do, and tiles are counted from the beginnings of the stripes' runs.
    if transfer.windows.memory.is_some() {
        return runs.collect();
    }
    divided_at_lines(joined(runs), request, plan, transfer)
}

/// The selected rows of each stripe.
fn selected_rows(request: &Request<'_>) -> impl Iterator<Item = (u64, u64)> {
    let bases = request.input.first_rows();
    let stripes = request.input.stripes.iter().zip(bases);
    stripes.flat_map(|(stripe, base)| {
        let run = move |rows: &Range<u64>| (base + rows.start, rows.end - rows.start);
        stripe.selected.iter().map(run)
    })
}

/// Runs that follow one another become one. Kernels search fewer runs faster. The few tiles in which one stripe follows
/// another are read row by row.
fn joined(runs: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    runs.fold(Vec::new(), |mut joined: Vec<(u64, u64)>, (row, rows)| {
        match joined.last_mut() {
            Some((first, count)) if *first + *count == row => *count += rows,
            _ => joined.push((row, rows)),
        }
        joined
    })
}

/// The runs divided so that tiles of a mapped predicate column begin where lines of host memory do. There a warp's load
/// of 256 bytes over PCIe is two requests; elsewhere it is three. (Files' streams begin at any byte.)
fn divided_at_lines(
    runs: Vec<(u64, u64)>,
    request: &Request<'_>,
    plan: &QueryPlan,
    transfer: &TransferPlan,
) -> Vec<(u64, u64)> {
    let mut columns = plan.choices.iter().zip(&plan.dense);
    let Some(column) = columns.position(|(choice, dense)| *dense && choice.backing == Backing::Mapped) else {
        return runs;
    };
    let width = u64::from(request.program.columns[column].stored.bytes());
    let extents = &transfer.columns[column].extents;
    let mut out = Vec::with_capacity(2 * runs.len());
    for (mut row, mut rows) in runs {
        while rows > 0 {
            let at = extents.partition_point(|e| e.first_row + e.rows <= row);
            let Some(extent) = extents.get(at).filter(|e| e.first_row <= row) else {
                out.push((row, rows));
                break;
            };
            let here = rows.min(extent.first_row + extent.rows - row);
            let lead = rows_to_line(extent.mapped + (row - extent.first_row) * width, width).min(here);
            out.extend([(row, lead), (row + lead, here - lead)]);
            (row, rows) = (row + here, rows - here);
        }
    }
    out
}

/// Rows before the first row whose value's 8-byte word begins at a multiple of a warp's load.
fn rows_to_line(address: u64, width: u64) -> u64 {
    let at_line = |rows: &u64| ((address + rows * width) / 8 * 8).is_multiple_of(8 * u64::from(GPU_LANES));
    (0..8 * u64::from(GPU_LANES) / width.max(1)).find(at_line).unwrap_or(0)
}
