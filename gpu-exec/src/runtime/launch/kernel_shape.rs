//! The shape of a query's kernel: what it must know of the columns, as planned or as they were transferred.

use crate::codegen::{Access, ColumnShape, Shape};
use crate::input::{Placement, Stripe};
use crate::options::{Backing, Request};
use crate::runtime::planner::QueryPlan;
use crate::runtime::transfer::transfer_plan::TransferPlan;

/// The shape if every column comes to be where the plan has it.
pub(crate) fn planned_shape(request: &Request<'_>, plan: &QueryPlan) -> Shape {
    let column = |at: usize| {
        let backing = plan.choices[at].backing;
        let aligned = backing != Backing::Mapped || lies_aligned(request, at);
        column_shape(request, plan, at, aligned, backing == Backing::Paged)
    };
    Shape {
        columns: (0..request.program.columns.len()).map(column).collect(),
        grouping: plan.kernel.grouping,
        dense: plan.kernel.dense,
    }
}

/// The shape as columns lie.
pub(crate) fn transferred_shape(request: &Request<'_>, plan: &QueryPlan, transfer: &TransferPlan) -> Shape {
    let column = |at: usize| {
        let width = u64::from(request.program.columns[at].stored.bytes());
        let extents = &transfer.columns[at].extents;
        let aligned = extents.iter().all(|e| e.mapped.is_multiple_of(width));
        // A paged column that has become whole is loaded without a look at its bits.
        let paged = transfer.page_table.program_columns.contains(&at);
        column_shape(request, plan, at, aligned, paged)
    };
    Shape {
        columns: (0..request.program.columns.len()).map(column).collect(),
        grouping: plan.kernel.grouping,
        dense: plan.kernel.dense,
    }
}

/// Whether all the column's values in files begin at multiples of their size.
fn lies_aligned(request: &Request<'_>, column: usize) -> bool {
    let width = u64::from(request.program.columns[column].stored.bytes());
    let direct = |stripe: &Stripe| match &stripe.columns[column] {
        Placement::Direct(segments) => segments.iter().all(|s| s.offset.is_multiple_of(width)),
        _ => true,
    };
    request.input.stripes.iter().all(direct)
}

fn column_shape(
    request: &Request<'_>,
    plan: &QueryPlan,
    column: usize,
    plain_aligned: bool,
    paged: bool,
) -> ColumnShape {
    let backing = plan.choices[column].backing;
    let queued = backing == Backing::Queued;
    ColumnShape {
        access: match (queued, paged) {
            (true, _) => Access::Queued,
            (false, true) => Access::Paged,
            (false, false) => Access::Plain,
        },
        aligned: if queued {
            lies_aligned(request, column)
        } else {
            plain_aligned
        },
        on_device: matches!(backing, Backing::Resident | Backing::Paged),
        nullable: !queued && request.has_nulls(column),
    }
}
