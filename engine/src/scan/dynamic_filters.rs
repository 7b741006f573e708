//! `DynamicFilters`: filters that operators above the scan make while the query runs.
//!
//! A hash join knows the keys of its build side before it reads its probe side, and a sort with a limit knows the worst
//! row that it still keeps. DataFusion pushes both down as expressions that change. The operator that makes a filter
//! excludes the same rows itself. So the scan may evaluate the filter or not, at any time.
//!
//! A join's IN list over floats is the exception: the list tells zeros apart, and the join does not. The scan evaluates
//! such a filter without the list ([`EqualZeros`](super::equal_zeros::EqualZeros)).
//!
//! The state of a filter belongs to a plan, not to an execution. What a sort has learned in one execution is wrong in
//! the next one, whose rows it would exclude all. So only the streams of the first execution use the filters.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, DynamicFilterTracking, Literal};
use datafusion::physical_expr_common::physical_expr::{is_volatile, snapshot_generation, snapshot_physical_expr};
use datafusion::physical_plan::PhysicalExpr;

use super::Scan;
use super::conjunct::Conjunct;
use super::equal_zeros::without_float_lists;
use super::pruning::Pruner;

/// The partitions of a plan that have begun, of a source that is told of each, and whether one has begun twice.
#[derive(Debug, Default)]
pub(crate) struct FirstExecution(Mutex<Begun>);

#[derive(Debug, Default)]
struct Begun {
    partitions: HashSet<usize>,
    is_again: bool,
}

impl FirstExecution {
    /// Notes that a partition begins. True: it does so in the plan's first execution, and may use dynamic filters.
    pub(crate) fn begin(&self, partition: usize) -> bool {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        begun.is_again |= !begun.partitions.insert(partition);
        !begun.is_again
    }
}

/// The dynamic filters of one scan operator.
#[derive(Debug, Default)]
pub(super) struct DynamicFilters {
    conjuncts: Arc<[Conjunct]>,
    user: Mutex<Option<User>>,
}

/// The execution that uses the filters: a task context, and the partitions that have begun under it.
#[derive(Debug)]
struct User {
    context: Weak<TaskContext>,
    begun: Vec<usize>,
    /// A partition has begun twice, so the streams under the context belong to several executions.
    is_ambiguous: bool,
}

/// A copy of an operator is executed by itself.
impl Clone for DynamicFilters {
    fn clone(&self) -> Self {
        Self {
            conjuncts: Arc::clone(&self.conjuncts),
            user: Mutex::default(),
        }
    }
}

impl DynamicFilters {
    /// The dynamic ones of filters over the emitted columns of the scan.
    ///
    /// # Errors
    /// If a filter names a column that the scan does not emit.
    pub(super) fn of<'a>(filters: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>, scan: &Scan) -> Result<Self> {
        let taken = filters.filter(|filter| is_dynamic(filter));
        let conjuncts = taken.map(|filter| Conjunct::new(over_table(filter, scan)?, &scan.table));
        Ok(Self {
            conjuncts: conjuncts.collect::<Result<_>>()?,
            user: Mutex::default(),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.conjuncts.is_empty()
    }

    /// The filters as conjuncts over the table's columns.
    pub(super) fn conjuncts(&self) -> &[Conjunct] {
        &self.conjuncts
    }

    /// The filters that a stream of `partition` under `context` uses: all or none.
    pub(super) fn begin(&self, context: &Arc<TaskContext>, partition: usize) -> Arc<[Conjunct]> {
        if self.conjuncts.is_empty() {
            return Arc::default();
        }
        let mut user = self.user.lock().unwrap_or_else(PoisonError::into_inner);
        let user = user.get_or_insert_with(|| User {
            context: Arc::downgrade(context),
            begun: Vec::new(),
            is_ambiguous: false,
        });
        // A weak reference keeps the address, so no other context has it.
        if user.context.as_ptr() != Arc::as_ptr(context) {
            return Arc::default();
        }
        user.is_ambiguous |= user.begun.contains(&partition);
        user.begun.push(partition);
        match user.is_ambiguous {
            true => Arc::default(),
            false => Arc::clone(&self.conjuncts),
        }
    }
}

/// Whether an operator changes this filter while the query runs.
pub(crate) fn is_dynamic(filter: &Arc<dyn PhysicalExpr>) -> bool {
    filter.is::<DynamicFilterPhysicalExpr>()
}

/// Whether a filter over the emitted columns says the same of a row at any time, so that the scan can evaluate it for
/// each row once and for all.
pub(crate) fn is_constant(filter: &Arc<dyn PhysicalExpr>) -> bool {
    let is_static = matches!(DynamicFilterTracking::classify(filter), DynamicFilterTracking::Static);
    is_static && !is_volatile(filter)
}

/// A filter over the emitted columns as a filter over the table's.
pub(super) fn over_table(filter: &Arc<dyn PhysicalExpr>, scan: &Scan) -> Result<Arc<dyn PhysicalExpr>> {
    let moved = Arc::clone(filter).transform_down(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else {
            return Ok(Transformed::no(expr));
        };
        let Some(&at) = scan.projection.get(column.index()) else {
            return datafusion::common::internal_err!("a filter is of column {column}, which is not emitted");
        };
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(scan.table.field(at).name(), at));
        Ok(Transformed::yes(column))
    });
    moved.data()
}

/// What one partition knows of the dynamic filters that it uses.
#[derive(Debug, Clone)]
pub(super) struct FilterStates {
    pub(super) conjuncts: Arc<[Conjunct]>,
    states: Vec<FilterState>,
    /// The filters' form for statistics.
    pub(super) pruner: Option<Arc<Pruner>>,
    /// A filter has changed since the pruner was made.
    is_pruner_old: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct FilterState {
    generation: u64,
    /// The filter will not change any more.
    is_final: bool,
    /// The filter will always be true.
    is_true: bool,
}

impl FilterStates {
    pub(super) fn new(conjuncts: Arc<[Conjunct]>) -> Self {
        Self {
            states: vec![FilterState::default(); conjuncts.len()],
            conjuncts,
            pruner: None,
            is_pruner_old: false,
        }
    }

    /// True if a filter will always be true.
    pub(super) fn is_true(&self, filter: usize) -> bool {
        self.states[filter].is_true
    }

    /// True if the filters are known as they will be from now on.
    pub(super) fn are_final(&self) -> bool {
        !self.is_pruner_old && self.states.iter().all(|state| state.is_final)
    }

    /// Positions of the filters that have changed since the last call.
    pub(super) fn changed(&mut self) -> Vec<usize> {
        let mut changed = Vec::new();
        for (at, (conjunct, state)) in self.conjuncts.iter().zip(&mut self.states).enumerate() {
            // A filter that is final now has its last generation afterwards.
            let tracked = DynamicFilterTracking::classify(&conjunct.expr);
            let is_final = !matches!(tracked, DynamicFilterTracking::Watching(_));
            let is_complete = matches!(tracked, DynamicFilterTracking::AllComplete);
            let generation = snapshot_generation(&conjunct.expr);
            let is_true = is_complete && snapshot(conjunct).is_some_and(|now| is_literal_true(&now));
            if (generation, is_true) != (state.generation, state.is_true) {
                changed.push(at);
            }
            *state = FilterState {
                generation,
                is_final,
                is_true,
            };
        }
        self.is_pruner_old |= !changed.is_empty();
        changed
    }

    /// Makes the pruner of the filters as they are now. False: it has been made since their last known change.
    pub(super) fn renew_pruner(&mut self, scan: &Scan) -> bool {
        if !std::mem::take(&mut self.is_pruner_old) {
            return false;
        }
        let now: Vec<_> = (self.conjuncts.iter())
            .filter_map(|conjunct| {
                let now = without_float_lists(snapshot(conjunct)?, &scan.table).ok()?;
                Some((now, conjunct.columns.as_slice()))
            })
            .collect();
        let parts = now.iter().map(|(filter, columns)| (filter, *columns));
        let pruner = Pruner::new(parts, &scan.table).filter(|_| scan.options.prune);
        self.pruner = pruner.map(Arc::new);
        true
    }
}

/// The filter as it is now. `None`: it cannot be told, and excludes nothing.
fn snapshot(conjunct: &Conjunct) -> Option<Arc<dyn PhysicalExpr>> {
    snapshot_physical_expr(Arc::clone(&conjunct.expr)).ok()
}

fn is_literal_true(filter: &Arc<dyn PhysicalExpr>) -> bool {
    let literal = filter.downcast_ref::<Literal>();
    literal.is_some_and(|literal| *literal.value() == ScalarValue::Boolean(Some(true)))
}
