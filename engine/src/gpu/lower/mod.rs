//! [`lower`]: a partial aggregation of a physical plan becomes a [`Program`] with typed expressions over the table's
//! columns.
//!
//! | file | content |
//! | --- | --- |
//! | `typed_expr` | `TypedExpr`, an expression with the type of its value |
//! | `types` | types and literals: Arrow's as the program's |
//! | `program_builder` | `ProgramBuilder`, the columns and literals of a program |
//! | `function` | SQL functions by name |
//! | `expr_lowering` | `ExprLowering`, physical expressions to the program's |
//! | `plan_fragment` | `PlanFragment`, the operators from the aggregation down to the scan |
//! | `aggregates` | `Aggregates`, keys and aggregate functions |
//!
//! Lowering takes four steps:
//!
//! 1. Fold the operators below the aggregation, so that column references become expressions over the table.
//! 2. Lower the conjuncts of the scan, and the filters above the scan.
//! 3. Lower the keys and the aggregate functions.
//! 4. Note which of the program's results each state field of the aggregation takes.
//!
//! `count(DISTINCT …)`, and MIN and MAX of strings, become further keys of the program: their states follow from the
//! keys of the finer groups.
//!
//! The first step that fails gives the [`Refusal`].

mod aggregates;
mod expr_lowering;
mod function;
mod plan_fragment;
mod program_builder;
mod typed_expr;
pub(crate) mod types;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use grampus_gpu_exec::program::{Program, Type};

use super::grouping_sets::GroupingSets;
use super::partial_state::StateSource;
use super::refusal::Refusal;
use super::text_function::TextFunction;
use crate::scan::orc_scan_exec::OrcScanExec;
use aggregates::Aggregates;
use expr_lowering::ExprLowering;
use plan_fragment::PlanFragment;
use types::Argument;

/// An aggregation as a program.
#[derive(Debug, Clone)]
pub(crate) struct Lowered {
    /// The computation.
    pub(crate) program: Program,
    /// By position in the program's arguments: the literal's value.
    pub(crate) arguments: Vec<Argument>,
    /// By position in the program's columns: the table's column.
    pub(crate) columns: Vec<usize>,
    /// By position in the program's columns: the function that its strings are values of.
    pub(crate) functions: Vec<Option<Arc<TextFunction>>>,
    /// By position after the keys in the partial aggregation's schema: the program's result that the field takes.
    pub(crate) state: Vec<StateSource>,
    /// If the aggregation has grouping sets: the program groups by all keys.
    pub(crate) grouping_sets: Option<GroupingSets>,
    /// The scan below, an [`OrcScanExec`].
    pub(crate) scan: Arc<dyn ExecutionPlan>,
}

impl Lowered {
    /// Whether the program reads strings or is given some.
    pub(crate) fn uses_strings(&self) -> bool {
        let is_text = |argument: &Argument| matches!(argument, Argument::Text(_));
        self.program.columns.iter().any(|column| column.ty == Type::Code) || self.arguments.iter().any(is_text)
    }

    /// Whether each of the aggregation's groups occurs once in the program's output, if there are keys. Programs take
    /// 0.0 and -0.0 for one key, as DataFusion does.
    pub(crate) fn has_groups_once(&self) -> bool {
        let has_finer_groups = self
            .state
            .iter()
            .any(|source| matches!(source, StateSource::Key(_) | StateSource::KeyAsList(_)));
        self.grouping_sets.is_none() && !has_finer_groups
    }

    /// The scan below the aggregation.
    pub(crate) fn scan(&self) -> Option<&OrcScanExec> {
        self.scan.downcast_ref()
    }
}

/// The program of an aggregation over rows. Aggregations over other aggregations' states have none.
///
/// # Errors
/// The first part of the plan that the GPU does not compute.
pub(crate) fn lower(aggregation: &AggregateExec) -> Result<Lowered, Refusal> {
    let fragment = PlanFragment::of(aggregation.input())?;
    let scan: &OrcScanExec = fragment.scan.downcast_ref().ok_or(Refusal::NoOrcScan)?;
    let mut expressions = ExprLowering::new(Arc::clone(&scan.scan().table));
    let mut conjuncts = Vec::new();
    for &at in &scan.scan().order {
        conjuncts.push(expressions.boolean(&scan.scan().conjuncts[at].expr)?);
    }
    for filter in &fragment.filters {
        conjuncts.push(expressions.boolean(filter)?);
    }
    let Aggregates {
        keys,
        aggregates,
        state,
        ..
    } = Aggregates::of(aggregation, &fragment, &mut expressions)?;
    let built = expressions.finish(conjuncts, keys, aggregates);
    Ok(Lowered {
        program: built.program,
        arguments: built.values,
        columns: built.table_columns,
        functions: built.functions,
        state,
        grouping_sets: GroupingSets::of(aggregation).map_err(Refusal::Expression)?,
        scan: Arc::clone(&fragment.scan),
    })
}
