//! `PredicateCascade`: the filter as a list of conjuncts, evaluated one after the other on the rows that are left.
//!
//! The order depends on the cost of each conjunct's columns, and on the share of rows that each conjunct has excluded.

use std::sync::Arc;

use super::Scan;
use super::conjunct::Conjunct;
use super::dynamic_filters::FilterStates;
use super::pruning::Pruner;

/// The order of the conjuncts in one partition, and their counts. The order adapts to the counts.
///
/// The scan's own conjuncts come first in the numbering, then the dynamic filters. A dynamic filter that excludes few
/// rows leaves the order until it changes.
#[derive(Debug, Clone)]
pub(super) struct PredicateCascade {
    pub(super) order: Vec<usize>,
    pub(super) seen: Vec<Seen>,
    tiles: usize,
    dynamic: FilterStates,
}

impl PredicateCascade {
    pub(super) fn new(scan: &Scan, dynamic: Arc<[Conjunct]>) -> Self {
        Self {
            order: scan.order.clone(),
            seen: vec![Seen::default(); scan.conjuncts.len() + dynamic.len()],
            tiles: 0,
            dynamic: FilterStates::new(dynamic),
        }
    }

    /// The dynamic filters.
    pub(super) fn dynamic(&self) -> &Arc<[Conjunct]> {
        &self.dynamic.conjuncts
    }

    /// The pruner of the dynamic filters, as of the last call of [`begin_range`](Self::begin_range) or of
    /// [`adapt`](Self::adapt) that renewed it.
    pub(super) fn dynamic_pruner(&self) -> Option<&Pruner> {
        self.dynamic.pruner.as_deref()
    }

    /// Whether the dynamic filters, if there are any, are known as they will be from now on.
    pub(super) fn is_final(&self) -> bool {
        self.dynamic.are_final()
    }

    /// Takes up the dynamic filters as they are now, before a range of row groups is scanned.
    pub(super) fn begin_range(&mut self, scan: &Scan) {
        if self.dynamic.conjuncts.is_empty() {
            return;
        }
        self.forget_changed(scan);
        self.dynamic.renew_pruner(scan);
        self.order = self.new_order(scan);
    }

    /// Computes the order again: after two, four and eight tiles, then after every 16th tile. True: the pruner of the
    /// dynamic filters is another one now.
    pub(super) fn adapt(&mut self, scan: &Scan) -> bool {
        self.tiles += 1;
        let is_fixed = self.order.len() < 2 && self.dynamic.conjuncts.is_empty();
        if is_fixed || !(matches!(self.tiles, 2 | 4 | 8) || self.tiles.is_multiple_of(16)) {
            return false;
        }
        self.forget_changed(scan);
        self.order = self.new_order(scan);
        self.dynamic.renew_pruner(scan)
    }

    /// Forgets the counts of dynamic filters that have changed.
    fn forget_changed(&mut self, scan: &Scan) {
        for filter in self.dynamic.changed() {
            self.seen[scan.conjuncts.len() + filter] = Seen::default();
        }
    }

    fn new_order(&self, scan: &Scan) -> Vec<usize> {
        let dynamic = self.dynamic.conjuncts.iter().enumerate();
        let useful = dynamic.filter(|(filter, _)| {
            let seen = self.seen[scan.conjuncts.len() + filter];
            !self.dynamic.is_true(*filter) && !seen.is_seldom_false()
        });
        let useful = useful.map(|(filter, conjunct)| (scan.conjuncts.len() + filter, conjunct));
        let candidates = scan.conjuncts.iter().enumerate().chain(useful).collect();
        order(candidates, &|column| scan.cost(column), &self.seen)
    }
}

/// Rows after which a dynamic filter is judged.
const MIN_SEEN_ROWS: u64 = 50_000;
/// The share of rows up to which a dynamic filter is evaluated. Above it, to read the excluded rows and to let the
/// operator exclude them costs less.
const MAX_PASS_RATE: f64 = 0.8;

/// The conjunct with this number.
pub(super) fn conjunct_at<'a>(scan: &'a Scan, dynamic: &'a [Conjunct], at: usize) -> &'a Conjunct {
    match at.checked_sub(scan.conjuncts.len()) {
        None => &scan.conjuncts[at],
        Some(filter) => &dynamic[filter],
    }
}

/// A column's form in the files, for EXPLAIN and for costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ColumnCost {
    /// Raw values of this many bytes.
    Direct(f64),
    /// Decoded values of about this many stored bytes per row.
    Decoded(f64),
    /// One value for the whole file: a partition's, or NULL if the file lacks the column.
    Constant,
}

impl ColumnCost {
    /// The cost of reading one value. The unit is the load of eight raw bytes. Each decoded column costs more than each
    /// direct one.
    fn per_row(self) -> f64 {
        match self {
            Self::Direct(width) => width / 8.0,
            Self::Decoded(bytes) => 4.0 + bytes,
            Self::Constant => 0.0,
        }
    }

    /// The word in EXPLAIN.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Direct(_) => "direct",
            Self::Decoded(_) => "decoded",
            Self::Constant => "constant",
        }
    }
}

/// The row counts of a conjunct.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    /// Rows that the conjunct was evaluated for.
    pub(crate) rows: u64,
    /// Rows that passed.
    pub(crate) passed: u64,
}

impl Seen {
    /// The share of rows that pass. The prior is one half, with the weight of `PRIOR_ROWS` rows.
    fn pass_rate(self) -> f64 {
        const PRIOR_ROWS: f64 = 256.0;
        (self.passed as f64 + PRIOR_ROWS / 2.0) / (self.rows as f64 + PRIOR_ROWS)
    }

    /// Whether a dynamic filter with these counts excludes too few rows to be evaluated.
    pub(crate) fn is_seldom_false(self) -> bool {
        self.rows >= MIN_SEEN_ROWS && self.pass_rate() > MAX_PASS_RATE
    }
}

/// The cheapest order of numbered conjuncts, as their numbers. Each step takes the conjunct with the least cost per
/// excluded row. Columns of earlier conjuncts cost nothing, and ties keep the given order. `seen` is by number.
///
/// A conjunct that may fail on a row comes after all that are written before it: `id < 1000 AND CAST(s AS INT) = 1` is
/// an error only if one of the first thousand is no number.
pub(crate) fn order(
    mut left: Vec<(usize, &Conjunct)>,
    costs: &dyn Fn(usize) -> ColumnCost,
    seen: &[Seen],
) -> Vec<usize> {
    /// The cost of evaluating an expression for one row, in the unit of [`ColumnCost::per_row`].
    const EVALUATE: f64 = 0.25;
    let mut order: Vec<usize> = Vec::with_capacity(left.len());
    let mut read: Vec<usize> = Vec::new();
    while !left.is_empty() {
        let rank = |(number, conjunct): &(usize, &Conjunct)| {
            let new = conjunct.columns.iter().filter(|column| !read.contains(column));
            let cost: f64 = EVALUATE + new.map(|&column| costs(column).per_row()).sum::<f64>();
            cost / (1.0 - seen[*number].pass_rate()).max(1e-6)
        };
        let is_guarded = |at: usize| {
            let (number, conjunct) = left[at];
            conjunct.is_fallible && left.iter().any(|(other, _)| *other < number)
        };
        let best = (0..left.len())
            .filter(|&at| !is_guarded(at))
            .min_by(|&a, &b| rank(&left[a]).total_cmp(&rank(&left[b])))
            .unwrap_or(0);
        let (number, chosen) = left.remove(best);
        read.extend_from_slice(&chosen.columns);
        order.push(number);
    }
    order
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, col, lit};

    use super::*;

    fn conjunct(schema: &Schema, column: &str) -> Conjunct {
        let expr = binary(col(column, schema).unwrap(), Operator::Gt, lit(1.0), schema).unwrap();
        Conjunct::new(expr, schema).unwrap()
    }

    #[test]
    fn conjuncts_that_may_fail_come_after_those_written_before_them() {
        let schema = Schema::new(vec![
            Field::new("costly", DataType::Int64, true),
            Field::new("cheap", DataType::Int64, true),
        ]);
        let op = |left: &str, op, right: i64| binary(col(left, &schema).unwrap(), op, lit(right), &schema).unwrap();
        let fallible = binary(op("cheap", Operator::Divide, 3), Operator::Eq, lit(1i64), &schema).unwrap();
        let conjuncts = [op("costly", Operator::Lt, 5), fallible, op("cheap", Operator::Gt, 7)];
        let conjuncts = conjuncts.map(|expr| Conjunct::new(expr, &schema).unwrap());
        let costs = |column: usize| ColumnCost::Decoded([9.0, 1.0][column]);
        let order = |numbered: Vec<(usize, &Conjunct)>| order(numbered, &costs, &[Seen::default(); 3]);
        assert_eq!(order(conjuncts.iter().enumerate().collect()), [2, 0, 1]);
        // Nothing is written before it.
        assert_eq!(order(vec![(0, &conjuncts[1]), (1, &conjuncts[0])]), [0, 1]);
    }

    #[test]
    fn order_puts_direct_before_decoded_and_selective_first() {
        let field = |name| Field::new(name, DataType::Float64, true);
        let schema = Schema::new(vec![field("decoded"), field("wide"), field("narrow")]);
        let conjuncts = [
            conjunct(&schema, "decoded"),
            conjunct(&schema, "wide"),
            conjunct(&schema, "narrow"),
        ];
        let costs = |column| match column {
            0 => ColumnCost::Decoded(0.1),
            1 => ColumnCost::Direct(8.0),
            _ => ColumnCost::Direct(4.0),
        };
        let mut seen = [Seen::default(); 3];
        let numbered = || conjuncts.iter().enumerate().collect();
        assert_eq!(order(numbered(), &costs, &seen), [2, 1, 0]);
        seen[2] = Seen {
            rows: 100_000,
            passed: 99_000,
        };
        assert_eq!(order(numbered(), &costs, &seen), [1, 0, 2]);
    }
}
