//! From a physical plan to a [`Program`]: which partial aggregations a GPU can compute, as typed expressions over the table's columns.
//! Where the columns' values lie, and whether it is worth it, is left to `place` and `choose`.
//!
//! ```text
//! fragment   the operators below the aggregation, down to the scan: column references become expressions over the table
//! expr       one physical expression to one of the program's; literals become arguments
//! function   SQL functions by name
//! types      Arrow's types and literals to the program's
//! aggregate  keys, aggregate functions, and which of the program's results each state field is
//! ```
//!
//! What cannot be lowered keeps its reason: the first one that is met, in words that go on after "the CPU answers this: ".

pub(crate) mod aggregates;
pub(crate) mod expr_lowering;
mod function;
pub(crate) mod plan_fragment;
pub(crate) mod types;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use grampus_gpu_exec::program::{Program, Value};

use super::string_dictionary::Dictionary;
use crate::scan::orc_scan_exec::OrcScanExec;
use aggregates::StateField;

/// Why something is not computed on the GPU, for people.
pub(crate) type Reason = String;

/// An aggregation as a program.
#[derive(Debug, Clone)]
pub(crate) struct Lowered {
    /// What to compute.
    pub(crate) program: Program,
    /// Its literals.
    pub(crate) arguments: Vec<Value>,
    /// By position in the program's columns: which column of the table.
    pub(crate) columns: Vec<usize>,
    /// By position after the keys in the partial aggregation's schema: where it comes from.
    pub(crate) state: Vec<StateField>,
    /// The scan below, an [`OrcScanExec`].
    pub(crate) scan: Arc<dyn ExecutionPlan>,
}

impl Lowered {
    /// The scan that the aggregation is over.
    pub(crate) fn scan(&self) -> Option<&OrcScanExec> {
        self.scan.downcast_ref()
    }
}

/// The program of an aggregation over rows (not over other aggregations' states).
///
/// # Errors
/// Why there is none.
pub(crate) fn lower(aggregation: &AggregateExec, dictionary: &Dictionary) -> Result<Lowered, Reason> {
    let source = plan_fragment::source(aggregation.input())?;
    let scan: &OrcScanExec = source.scan.downcast_ref().ok_or("there is no ORC scan below")?;
    let mut builder = expr_lowering::Builder::new(Arc::clone(&scan.scan().table), dictionary);
    let mut conjuncts = Vec::new();
    for &at in &scan.scan().order {
        conjuncts.push(builder.boolean(&scan.scan().conjuncts[at].expr)?);
    }
    for filter in &source.filters {
        conjuncts.push(builder.boolean(filter)?);
    }
    let (keys, aggregates, state) = aggregates::lower(aggregation, &source, &mut builder)?;
    let expr_lowering::Parts {
        columns,
        table_columns,
        arguments,
        values,
    } = builder.into_parts();
    Ok(Lowered {
        program: Program {
            columns,
            arguments,
            conjuncts,
            keys,
            aggregates,
        },
        arguments: values,
        columns: table_columns,
        state,
        scan: Arc::clone(&source.scan),
    })
}
