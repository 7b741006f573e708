//! `PredicateCascade`: the filter as a list of conjuncts, evaluated one after the other on the rows that are left.
//!
//! The order depends on the cost of each conjunct's columns, and on the share of rows that each conjunct has excluded.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::PhysicalExpr;

use super::Scan;
use super::comparison_kernel::ComparisonKernel;

/// The order of the conjuncts in one partition, and their counts. The order adapts to the counts.
#[derive(Debug)]
pub(super) struct PredicateCascade {
    pub(super) order: Vec<usize>,
    pub(super) seen: Vec<Seen>,
    tiles: usize,
}

impl PredicateCascade {
    pub(super) fn new(scan: &Scan) -> Self {
        Self {
            order: scan.order.clone(),
            seen: vec![Seen::default(); scan.conjuncts.len()],
            tiles: 0,
        }
    }

    /// Computes the order again: after two tiles, then after every 16th tile.
    pub(super) fn adapt(&mut self, scan: &Scan) {
        self.tiles += 1;
        if self.order.len() > 1 && (self.tiles == 2 || self.tiles.is_multiple_of(16)) {
            self.order = order(&scan.conjuncts, &|column| scan.cost(column), &self.seen);
        }
    }
}

/// One conjunct of the filter, ready to be evaluated on a batch of just its columns.
#[derive(Debug)]
pub(crate) struct Conjunct {
    /// The expression over the table's columns.
    pub(crate) expr: Arc<dyn PhysicalExpr>,
    /// The expression over `schema`.
    pub(crate) compact: Arc<dyn PhysicalExpr>,
    /// The table columns of the expression, ascending.
    pub(crate) columns: Vec<usize>,
    /// The schema of `columns`.
    pub(crate) schema: SchemaRef,
    /// The kernel, if the expression has the shape that the kernel supports.
    pub(super) kernel: Option<ComparisonKernel>,
}

impl Conjunct {
    /// Prepares `expr`, an expression over `table`.
    ///
    /// # Errors
    /// If the expression names a column that the table does not have.
    pub(crate) fn new(expr: Arc<dyn PhysicalExpr>, table: &Schema) -> Result<Self> {
        let mut columns: Vec<usize> = collect_columns(&expr).iter().map(|column| column.index()).collect();
        columns.sort_unstable();
        let schema = Arc::new(table.project(&columns)?);
        Ok(Self {
            kernel: ComparisonKernel::recognise(&expr),
            compact: reassign_expr_columns(Arc::clone(&expr), &schema)?,
            expr,
            columns,
            schema,
        })
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
}

/// The cheapest order. Each step takes the conjunct with the least cost per excluded row. Columns of earlier conjuncts
/// cost nothing, and ties keep the order of the query.
pub(crate) fn order(conjuncts: &[Conjunct], costs: &dyn Fn(usize) -> ColumnCost, seen: &[Seen]) -> Vec<usize> {
    /// The cost of evaluating an expression for one row, in the unit of [`ColumnCost::per_row`].
    const EVALUATE: f64 = 0.25;
    let mut order: Vec<usize> = Vec::with_capacity(conjuncts.len());
    let mut read: Vec<usize> = Vec::new();
    let mut left: Vec<usize> = (0..conjuncts.len()).collect();
    while !left.is_empty() {
        let rank = |&c: &usize| {
            let new = conjuncts[c].columns.iter().filter(|column| !read.contains(column));
            let cost: f64 = EVALUATE + new.map(|&column| costs(column).per_row()).sum::<f64>();
            cost / (1.0 - seen[c].pass_rate()).max(1e-6)
        };
        let best = (0..left.len())
            .min_by(|&a, &b| rank(&left[a]).total_cmp(&rank(&left[b])))
            .unwrap_or(0);
        let chosen = left.remove(best);
        read.extend_from_slice(&conjuncts[chosen].columns);
        order.push(chosen);
    }
    order
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, col, lit};

    use super::*;

    fn conjunct(schema: &Schema, column: &str) -> Conjunct {
        let expr = binary(col(column, schema).unwrap(), Operator::Gt, lit(1.0), schema).unwrap();
        Conjunct::new(expr, schema).unwrap()
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
        assert_eq!(order(&conjuncts, &costs, &seen), [2, 1, 0]);
        seen[2] = Seen {
            rows: 100_000,
            passed: 99_000,
        };
        assert_eq!(order(&conjuncts, &costs, &seen), [1, 0, 2]);
    }
}
