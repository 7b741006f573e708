//! [`FileFilter`]: the filter over the columns of one file, and the order of its conjuncts.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{FilterBuilder, prep_null_mask_filter};
use arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{DynamicFilterTracking, Literal};
use datafusion::physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr};
use datafusion::physical_plan::PhysicalExpr;

use crate::scan::conjunct::Conjunct;
use crate::scan::predicate_cascade::{ColumnCost, Seen, order};

/// The conjuncts of a filter over the columns of one file. Their order adapts to the rows that each has excluded.
#[derive(Debug)]
pub(super) struct FileFilter {
    conjuncts: Vec<FileConjunct>,
    seen: Vec<Seen>,
    costs: Vec<ColumnCost>,
}

#[derive(Debug)]
struct FileConjunct {
    conjunct: Conjunct,
    /// An operator above the scan changes it, and excludes the same rows itself.
    is_dynamic: bool,
    generation: u64,
    /// It is true for all rows, as of `generation`.
    is_true: bool,
}

/// Conjuncts that are evaluated together, after their columns were read.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) conjuncts: Vec<usize>,
    /// The columns that no stage before this one has read, ascending.
    pub(super) new_columns: Vec<usize>,
}

impl FileFilter {
    /// `costs` are those of the file's columns.
    pub(super) fn new(conjuncts: &[Arc<dyn PhysicalExpr>], schema: &Schema, costs: Vec<ColumnCost>) -> Result<Self> {
        let conjuncts = conjuncts.iter().map(|expr| {
            Ok(FileConjunct {
                is_dynamic: DynamicFilterTracking::classify(expr).contains_dynamic_filter(),
                generation: 0,
                is_true: is_literal_true(expr),
                conjunct: Conjunct::new(Arc::clone(expr), schema)?,
            })
        });
        let conjuncts = conjuncts.collect::<Result<Vec<_>>>()?;
        Ok(Self {
            seen: vec![Seen::default(); conjuncts.len()],
            conjuncts,
            costs,
        })
    }

    /// Whether an operator may still change a conjunct.
    pub(super) fn is_watching(&self) -> bool {
        self.conjuncts.iter().any(|conjunct| {
            let tracked = DynamicFilterTracking::classify(&conjunct.conjunct.expr);
            matches!(tracked, DynamicFilterTracking::Watching(_))
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.conjuncts.is_empty()
    }

    /// Columns that the conjunct reads, ascending.
    pub(super) fn columns(&self, conjunct: usize) -> &[usize] {
        &self.conjuncts[conjunct].conjunct.columns
    }

    /// The stages in which the filter is evaluated now. Dynamic filters that exclude few rows are left out.
    pub(super) fn stages(&mut self) -> Vec<Stage> {
        self.take_up_changes();
        let useful = self.conjuncts.iter().zip(&self.seen).enumerate();
        let useful =
            useful.filter(|(_, (conjunct, seen))| !(conjunct.is_true || conjunct.is_dynamic && seen.is_seldom_false()));
        let candidates = useful.map(|(at, (conjunct, _))| (at, &conjunct.conjunct));
        let costs = |column: usize| self.costs.get(column).copied().unwrap_or(ColumnCost::Constant);
        let mut stages: Vec<Stage> = Vec::new();
        let mut read: Vec<usize> = Vec::new();
        for at in order(candidates.collect(), &costs, &self.seen) {
            let new_columns = self.columns(at).iter().copied();
            let new_columns: Vec<usize> = new_columns.filter(|column| !read.contains(column)).collect();
            read.extend_from_slice(&new_columns);
            match stages.last_mut() {
                Some(last) if new_columns.is_empty() => last.conjuncts.push(at),
                _ => stages.push(Stage {
                    conjuncts: vec![at],
                    new_columns,
                }),
            }
        }
        stages
    }

    /// Forgets the counts of dynamic filters that have changed.
    fn take_up_changes(&mut self) {
        for (conjunct, seen) in self.conjuncts.iter_mut().zip(&mut self.seen) {
            if !conjunct.is_dynamic {
                continue;
            }
            let expr = &conjunct.conjunct.expr;
            let generation = snapshot_generation(expr);
            if generation != conjunct.generation {
                *seen = Seen::default();
                conjunct.generation = generation;
            }
            let now = snapshot_physical_expr(Arc::clone(expr));
            conjunct.is_true = now.is_ok_and(|now| is_literal_true(&now));
        }
    }

    /// The rows that pass the conjuncts of a stage. `array` has a column's values for the `rows` rows.
    pub(super) fn evaluate(
        &mut self,
        stage: &Stage,
        rows: usize,
        array: &dyn Fn(usize) -> Option<ArrayRef>,
    ) -> Result<BooleanArray> {
        let mut mask: Option<BooleanArray> = None;
        for &at in &stage.conjuncts {
            let conjunct = &self.conjuncts[at].conjunct;
            let arrays: Option<Vec<_>> = conjunct.columns.iter().map(|&column| array(column)).collect();
            let Some(arrays) = arrays else {
                return datafusion::common::internal_err!("a column of {} was not read", conjunct.expr);
            };
            let before = mask.as_ref().map_or(rows, BooleanArray::true_count);
            if before == 0 {
                break;
            }
            // Conditions that may fail see the rows alone that those before let through.
            let passed = match &mask {
                Some(mask) if conjunct.is_fallible || before < rows / SPARSE => {
                    let filter = FilterBuilder::new(mask).optimize().build();
                    let arrays = arrays.iter().map(|array| filter.filter(array));
                    let passed = passing(conjunct, arrays.collect::<Result<_, _>>()?, before)?;
                    scattered(mask, &passed)
                }
                Some(mask) => {
                    let passed = passing(conjunct, arrays, rows)?;
                    BooleanArray::new(mask.values() & passed.values(), None)
                }
                None => passing(conjunct, arrays, rows)?,
            };
            self.seen[at].rows += before as u64;
            self.seen[at].passed += passed.true_count() as u64;
            mask = Some(passed);
        }
        Ok(mask.unwrap_or_else(|| BooleanArray::new(BooleanBuffer::new_set(rows), None)))
    }
}

/// If fewer than one in this many rows are left, the next conjunct is evaluated on these rows alone.
const SPARSE: usize = 4;

/// Rows for which the conjunct is true.
fn passing(conjunct: &Conjunct, arrays: Vec<ArrayRef>, rows: usize) -> Result<BooleanArray> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&conjunct.schema), arrays, &options)?;
    let value = conjunct.evaluate(&batch)?.into_array(rows)?;
    let Some(mask) = value.as_boolean_opt() else {
        return datafusion::common::internal_err!("the filter {} is no condition", conjunct.expr);
    };
    Ok(match mask.null_count() {
        0 => mask.clone(),
        _ => prep_null_mask_filter(mask),
    })
}

/// A mask of all rows, from one of the rows of `mask`.
fn scattered(mask: &BooleanArray, passed: &BooleanArray) -> BooleanArray {
    let mut bits = vec![false; mask.len()];
    for (row, passed) in mask.values().set_indices().zip(passed.values()) {
        bits[row] = passed;
    }
    BooleanArray::from(bits)
}

fn is_literal_true(filter: &Arc<dyn PhysicalExpr>) -> bool {
    let literal = filter.downcast_ref::<Literal>();
    literal.is_some_and(|literal| *literal.value() == ScalarValue::Boolean(Some(true)))
}
