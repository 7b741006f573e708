//! `KernelOutline`: what the runtime asks of a kernel before its source is generated. An outline has no text, so that
//! planning a query does not generate sources.

use super::group_codes::{GroupLayout, KeyRange};
use super::plan::Plan;
use super::words::Op;
use super::{Shape, TableScope};
use crate::error::RunError;
use crate::program::Program;

/// A kernel without its source.
#[derive(Debug)]
pub struct KernelOutline<'a> {
    program: &'a Program,
    plan: Plan,
}

impl<'a> KernelOutline<'a> {
    /// The outline of the kernel that [`QueryKernel::generate`](super::QueryKernel::generate) gives.
    ///
    /// # Errors
    /// As `generate`'s.
    pub fn new(program: &'a Program, shape: &Shape) -> Result<Self, RunError> {
        program.check()?;
        Ok(Self {
            program,
            plan: Plan::new(program, shape)?,
        })
    }

    /// Columns that are read whole, in tiles. The others are fetched by row.
    pub fn tile_columns(&self) -> &[usize] {
        &self.plan.tile_columns
    }

    /// Whether an aggregate sums floats: the order of additions then counts.
    pub fn sums_floats(&self) -> bool {
        self.plan.words.ops.contains(&Op::AddFloat) || self.has_moments()
    }

    /// Whether an aggregate has words that no atomics combine.
    pub fn has_moments(&self) -> bool {
        self.plan.words.ops.contains(&Op::Moments)
    }

    /// The groups by code for ranges of the keys, with the tables of a scope.
    ///
    /// # Errors
    /// [`RunError::Invalid`]: not one range for each key, or too many groups.
    pub fn group_layout(&self, scope: TableScope, ranges: &[KeyRange]) -> Result<GroupLayout, RunError> {
        GroupLayout::new(self.program, &self.plan, scope, ranges)
    }
}
