//! [`RowFilter`], conditions that choose rows while a file is read.

use std::fmt;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::error::ArrowError;

use super::projection::ProjectionMask;

/// A condition on rows, evaluated on the columns of its projection.
pub trait ArrowPredicate: Send + 'static {
    /// The columns that [`evaluate`](Self::evaluate) sees, in the file's order.
    fn projection(&self) -> &ProjectionMask;

    /// One value for each row of `batch`. A row passes if its value is true; null and false are the same.
    ///
    /// # Errors
    /// Any error ends the read.
    fn evaluate(&mut self, batch: RecordBatch) -> Result<BooleanArray, ArrowError>;
}

/// A predicate made of a function.
pub struct ArrowPredicateFn<F> {
    projection: ProjectionMask,
    function: F,
}

impl<F> ArrowPredicateFn<F>
where
    F: FnMut(RecordBatch) -> Result<BooleanArray, ArrowError> + Send + 'static,
{
    /// The predicate that `function` evaluates on the columns of `projection`.
    pub fn new(projection: ProjectionMask, function: F) -> Self {
        Self { projection, function }
    }
}

impl<F> ArrowPredicate for ArrowPredicateFn<F>
where
    F: FnMut(RecordBatch) -> Result<BooleanArray, ArrowError> + Send + 'static,
{
    fn projection(&self) -> &ProjectionMask {
        &self.projection
    }

    fn evaluate(&mut self, batch: RecordBatch) -> Result<BooleanArray, ArrowError> {
        (self.function)(batch)
    }
}

/// Predicates that all must hold. Each one is evaluated for the rows that passed those before it, and its columns are
/// read for these rows only. The cheapest and the most selective ones should come first.
pub struct RowFilter {
    pub(super) predicates: Vec<Box<dyn ArrowPredicate>>,
}

impl RowFilter {
    /// The filter of these predicates.
    pub fn new(predicates: Vec<Box<dyn ArrowPredicate>>) -> Self {
        Self { predicates }
    }

    /// The predicates, in the order of evaluation.
    pub fn predicates(&self) -> &[Box<dyn ArrowPredicate>] {
        &self.predicates
    }
}

impl fmt::Debug for RowFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let projections = self.predicates.iter().map(|predicate| predicate.projection());
        f.debug_list().entries(projections).finish()
    }
}
