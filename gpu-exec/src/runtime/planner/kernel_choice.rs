//! `KernelChoice`: how a query's kernel treats rows and groups, by what is known before it runs.
//!
//! 1. If a third of the rows pass, the kernel is dense: it has no rings. If all columns come to lie in device memory
//!    whole, it is enough that a kernel with rings would fetch one value in fifty.
//! 2. If a dense kernel's keys have few values, groups have codes, and their tables lie in shared memory.
//! 3. The tables belong to lanes, warps or blocks: the narrowest owner for which they fit.

use std::collections::BTreeSet;
use std::fmt;

use crate::codegen::{
    Access, BLOCK_THREADS, ColumnShape, GPU_LANES, Grouping, KernelOutline, KeyRange, Shape, TableScope,
};
use crate::error::RunError;
use crate::options::{Backing, BackingChoice, Request};
use crate::program::{Expr, Function, MathFunction, Program, Type, nodes};
use crate::runtime::planner::key_ranges::{KeyRanges, Stripes};

/// Share of rows that pass from which a dense kernel reads less than it would fetch by row.
const MIN_DENSE_SHARE: f64 = 1.0 / 3.0;
/// Share of values that are fetched from which a dense kernel is faster, if all columns are in device memory whole. It
/// reads them at the memory's speed, and a fetched value costs as much as dozens of values in a row
/// (docs/experiments/0034).
const MIN_RESIDENT_DENSE_SHARE: f64 = 0.02;
/// Warps of a block of small tables.
const BLOCK_WARPS: u32 = BLOCK_THREADS / GPU_LANES;
/// Warps of a block whose table takes all shared memory of a multiprocessor: as many as registers allow.
const MAX_BLOCK_WARPS: u32 = 32;
/// Keys with codes, at most.
const MAX_CODED_KEYS: usize = 8;
/// Values of a key with codes, at least, if a key has more values than there is space for.
const MIN_WINDOW: u64 = 16;

/// The choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KernelChoice {
    pub(crate) dense: bool,
    pub(crate) grouping: Grouping,
    /// By key; empty: groups have no codes.
    pub(crate) ranges: Vec<KeyRange>,
    /// Groups by code.
    pub(crate) groups: u32,
    /// Warps of a block on a GPU.
    pub(crate) block_warps: u32,
    /// Some values of a key have no code although the key's range is known.
    pub(crate) is_window: bool,
}

/// Whether the kernel reads a column whole, if all columns are resident.
pub(crate) fn reads_whole(request: &Request<'_>, column: usize) -> bool {
    let Some(first) = request.program.conjuncts.first() else {
        return true;
    };
    let is_dense = || fetched_share(request.program, request.selectivity) >= MIN_RESIDENT_DENSE_SHARE;
    let is_of_first = || nodes(std::iter::once(first)).any(|expr| *expr == Expr::Column(column));
    request.selectivity >= MIN_DENSE_SHARE || is_of_first() || is_dense()
}

impl KernelChoice {
    pub(crate) fn new(request: &Request<'_>, shared_bytes: u64) -> Result<Self, RunError> {
        Self::from_share(request, shared_bytes, MIN_DENSE_SHARE)
    }

    /// The choice if all columns will be in device memory whole. `None`: [`new`](Self::new) gives the same.
    pub(crate) fn over_resident_columns(request: &Request<'_>, shared_bytes: u64) -> Result<Option<Self>, RunError> {
        let fetched = fetched_share(request.program, request.selectivity);
        if fetched < MIN_RESIDENT_DENSE_SHARE || request.selectivity >= MIN_DENSE_SHARE {
            return Ok(None);
        }
        let choice = Self::from_share(request, shared_bytes, 0.0)?;
        Ok(Some(choice).filter(|choice| choice.dense))
    }

    /// The choice, which is dense if `min_dense_share` of the rows pass.
    fn from_share(request: &Request<'_>, shared_bytes: u64, min_dense_share: f64) -> Result<Self, RunError> {
        let program = request.program;
        let asks_for_rows = matches!(request.backing, BackingChoice::All(Backing::Paged | Backing::Queued));
        // Tables by code have no way for columns that are read by command.
        let by_command = request.backing == BackingChoice::All(Backing::Queued);
        let choice = Self {
            dense: program.conjuncts.is_empty() || (request.selectivity >= min_dense_share && !asks_for_rows),
            grouping: if program.keys.is_empty() {
                Grouping::Ungrouped
            } else {
                Grouping::Private
            },
            ranges: Vec::new(),
            groups: 0,
            block_warps: BLOCK_WARPS,
            is_window: false,
        };
        if !choice.dense || by_command || program.keys.is_empty() || program.keys.len() > MAX_CODED_KEYS {
            return Ok(choice);
        }
        let kernel = coded_kernel(program)?;
        match Codes::new(request, &kernel, shared_bytes as usize)?.fitted() {
            Some(ranges) => choice.with_codes((program, &kernel), ranges, shared_bytes as usize),
            None => Ok(choice),
        }
    }

    /// The choice for many groups: a warp's own table has few of them. Warps keep their own tables if an aggregate
    /// has moments: those of a frequent group would wait for its lock in the table of all warps.
    pub(crate) fn with_more_groups(self, program: &Program) -> Self {
        let locks = (program.aggregates.iter()).any(|a| a.function == Function::Moments);
        match self.grouping {
            Grouping::Private if !locks => Self {
                grouping: Grouping::Global,
                ..self
            },
            Grouping::Private | Grouping::Ungrouped | Grouping::Global | Grouping::Coded(_) => self,
        }
    }

    /// Groups that have codes. `None`: groups have none.
    pub(crate) fn coded_groups(&self) -> Option<u32> {
        match self.grouping {
            Grouping::Coded(_) => Some(self.groups),
            Grouping::Ungrouped | Grouping::Private | Grouping::Global => None,
        }
    }

    fn with_codes(
        self,
        (program, kernel): (&Program, &KernelOutline<'_>),
        (ranges, is_window): (Vec<KeyRange>, bool),
        shared_bytes: usize,
    ) -> Result<Self, RunError> {
        let bytes = |scope, warps| -> Result<usize, RunError> {
            Ok(kernel.group_layout(scope, &ranges)?.block_bytes(warps, GPU_LANES))
        };
        let counts_alone = (program.aggregates.iter()).all(|a| a.function == Function::Count);
        // Atomics on few addresses wait for each other, except additions of one.
        let for_lanes = if counts_alone {
            shared_bytes / 4
        } else {
            shared_bytes / 2
        };
        let (scope, block_warps) = if bytes(TableScope::Lane, BLOCK_WARPS)? <= for_lanes {
            (TableScope::Lane, BLOCK_WARPS)
        } else if kernel.sums_floats() && bytes(TableScope::Warp, BLOCK_WARPS)? <= shared_bytes {
            (TableScope::Warp, BLOCK_WARPS)
        } else if kernel.sums_floats() && bytes(TableScope::Warp, BLOCK_WARPS / 2)? <= shared_bytes {
            (TableScope::Warp, BLOCK_WARPS / 2)
        } else if kernel.has_moments() {
            return Ok(self);
        } else {
            // Blocks of a multiprocessor share its memory: the larger the table, the more warps have it in common.
            let table = bytes(TableScope::Block, BLOCK_WARPS)?;
            let blocks = (shared_bytes / table.max(1)).clamp(1, 4) as u32;
            (TableScope::Block, MAX_BLOCK_WARPS / blocks.next_power_of_two().min(4))
        };
        Ok(Self {
            groups: kernel.group_layout(scope, &ranges)?.groups,
            grouping: Grouping::Coded(scope),
            ranges,
            block_warps,
            is_window,
            ..self
        })
    }
}

/// Share of values that a kernel with rings fetches by row, of all values of the columns behind the first conjunct's.
/// It supposes that each conjunct with a further column passes the same share of the rows that reach it.
fn fetched_share(program: &Program, selectivity: f64) -> f64 {
    let mut seen = BTreeSet::new();
    let mut new_columns = |exprs: &mut dyn Iterator<Item = &Expr>| {
        let columns = nodes(exprs).filter_map(|expr| match expr {
            Expr::Column(at) => Some(*at),
            _ => None,
        });
        let columns: BTreeSet<usize> = columns.collect();
        let new = columns.difference(&seen).count();
        seen.extend(columns);
        new
    };
    let mut steps: Vec<usize> = (program.conjuncts.iter())
        .map(|conjunct| new_columns(&mut std::iter::once(conjunct)))
        .filter(|new| *new > 0)
        .collect();
    let conjuncts = steps.len().max(1) as i32;
    steps.push(new_columns(&mut program.expressions()));
    let passed_by_each = selectivity.powf(1.0 / f64::from(conjuncts));
    let fetched = steps.iter().zip(0..).skip(1);
    let fetched: f64 = fetched
        .map(|(new, passed)| *new as f64 * passed_by_each.powi(passed))
        .sum();
    match steps.iter().skip(1).sum::<usize>() {
        0 => selectivity,
        all => fetched / all as f64,
    }
}

/// A kernel with the words that tables by code have, whatever their scope.
fn coded_kernel(program: &Program) -> Result<KernelOutline<'_>, RunError> {
    let column = |nullable| ColumnShape {
        access: Access::Plain,
        aligned: false,
        on_device: false,
        nullable,
    };
    let shape = Shape {
        columns: program.columns.iter().map(|c| column(c.nullable)).collect(),
        grouping: Grouping::Coded(TableScope::Block),
        dense: true,
    };
    KernelOutline::new(program, &shape)
}

/// The codes of a request's keys.
struct Codes<'a> {
    request: &'a Request<'a>,
    /// By key: the number of codes beside those of values. 1 for NULL.
    nulls: Vec<u64>,
    /// Groups for which a block's table has space.
    space: u64,
}

impl<'a> Codes<'a> {
    fn new(request: &'a Request<'a>, kernel: &KernelOutline<'_>, shared_bytes: usize) -> Result<Self, RunError> {
        let program = request.program;
        let one: Vec<KeyRange> = (program.keys.iter()).map(|_| KeyRange { first: 0, codes: 1 }).collect();
        let layout = kernel.group_layout(TableScope::Block, &one)?;
        let each = layout
            .block_bytes(1, 1)
            .div_ceil((layout.groups as usize).next_multiple_of(2));
        let nullable = |at: usize| program.columns[at].nullable;
        let nulls = program
            .keys
            .iter()
            .map(|key| u64::from(program.can_be_null(key, &nullable)));
        Ok(Self {
            request,
            nulls: nulls.collect(),
            space: (shared_bytes / each.max(1)).saturating_sub(1) as u64,
        })
    }

    fn groups(&self, ranges: &[KeyRange]) -> u64 {
        let radix = |(range, null): (&KeyRange, &u64)| u64::from(range.codes) + null;
        (ranges.iter().zip(&self.nulls))
            .map(radix)
            .fold(1u64, |all, radix| all.saturating_mul(radix))
    }

    fn ranges(&self, stripes: Stripes) -> Option<Vec<KeyRange>> {
        let known = KeyRanges {
            program: self.request.program,
            input: self.request.input,
            stripes,
        };
        self.request.program.keys.iter().map(|key| known.of(key)).collect()
    }

    /// Ranges for which there is space, and whether values of the keys lie outside. `None`: there are too many values.
    fn fitted(&self) -> Option<(Vec<KeyRange>, bool)> {
        let fits = |ranges: &[KeyRange]| self.groups(ranges) <= self.space;
        if let Some(all) = self.ranges(Stripes::All).filter(|all| fits(all)) {
            return Some((all, false));
        }
        let typical = self.ranges(Stripes::Typical)?;
        if fits(&typical) {
            return Some((typical, true));
        }
        self.window(typical).map(|ranges| (ranges, true))
    }

    /// Cuts the key with the most values to those for which there is space, if it is a float's whole part: few values
    /// that are far away are usual there.
    fn window(&self, mut ranges: Vec<KeyRange>) -> Option<Vec<KeyRange>> {
        let widest = (0..ranges.len()).max_by_key(|&at| ranges[at].codes)?;
        if !comes_of_float(self.request.program, &self.request.program.keys[widest]) {
            return None;
        }
        let mut others = ranges.clone();
        others[widest].codes = 1 - self.nulls[widest] as u32;
        let space = (self.space / self.groups(&others).max(1)).saturating_sub(self.nulls[widest]);
        if space < MIN_WINDOW {
            return None;
        }
        let range = &mut ranges[widest];
        let last = range.first + i64::from(range.codes) - 1;
        if range.first < 0 && last > 0 {
            range.first = 0;
        }
        range.codes = space.min((last - range.first + 1) as u64) as u32;
        Some(ranges)
    }
}

/// Whether a key is a float, or the whole part of one.
fn comes_of_float(program: &Program, key: &Expr) -> bool {
    match key {
        Expr::Cast { value, .. }
        | Expr::Math {
            function: MathFunction::Floor | MathFunction::Ceil,
            value,
        } => comes_of_float(program, value),
        Expr::Column(_) => matches!(program.type_of(key), Ok(Type::Float32 | Type::Float64)),
        _ => false,
    }
}

/// The choice in words, for EXPLAIN.
impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.dense { "dense" } else { "by row" })?;
        let owner = match self.grouping {
            Grouping::Ungrouped => return Ok(()),
            Grouping::Private => return f.write_str(", groups of warps"),
            Grouping::Global => return f.write_str(", groups in device memory"),
            Grouping::Coded(TableScope::Lane) => "lane",
            Grouping::Coded(TableScope::Warp) => "warp",
            Grouping::Coded(TableScope::Block) => "block",
        };
        write!(f, ", {} groups by code in a table for each {owner}", self.groups)?;
        if self.is_window {
            f.write_str(", rare values in device memory")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Aggregate, BinaryOp, Column};

    /// A program with conjuncts over the given columns, and a sum of the last column.
    fn program(conjuncts: &[usize], columns: usize) -> Program {
        let column = |at| Box::new(Expr::Column(at));
        let positive = |at: &usize| Expr::Binary {
            op: BinaryOp::Gt,
            left: column(*at),
            right: column(*at),
        };
        Program {
            columns: (0..columns)
                .map(|at| Column::new(format!("c{at}"), Type::Float64, false))
                .collect(),
            arguments: vec![],
            conjuncts: conjuncts.iter().map(positive).collect(),
            keys: vec![],
            aggregates: vec![Aggregate {
                function: Function::Sum,
                argument: Some(Expr::Column(columns - 1)),
                filter: None,
            }],
        }
    }

    #[test]
    fn conjuncts_fetch_values_of_rows_that_later_ones_reject() {
        let close = |share: f64, wanted: f64| assert!((share - wanted).abs() < 1e-12, "{share}, not {wanted}");
        close(fetched_share(&program(&[0], 2), 0.01), 0.01);
        // A second conjunct over the same column fetches nothing.
        close(fetched_share(&program(&[0, 0], 2), 0.01), 0.01);
        // A tenth of the second column's values, and a hundredth of the third's.
        close(fetched_share(&program(&[0, 1], 3), 0.01), 0.055);
        // TPC-H's Q6: 27, 7 and 1.9 % of three columns.
        let share = fetched_share(&program(&[0, 0, 1, 1, 2], 4), 0.019);
        close(
            share,
            (0.019f64.powf(1.0 / 3.0) + 0.019f64.powf(2.0 / 3.0) + 0.019) / 3.0,
        );
        // No column but the first conjunct's.
        close(fetched_share(&program(&[0], 1), 0.3), 0.3);
    }
}
