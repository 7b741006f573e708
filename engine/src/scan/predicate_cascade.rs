//! The filter as a cascade of conjuncts: which columns each needs, what those cost, and in which order to ask.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::PhysicalExpr;

use super::comparison_kernel::SparseCompare;

/// One conjunct of the filter, ready to be evaluated on a batch of just its columns.
#[derive(Debug)]
pub struct Conjunct {
    /// As pushed down, over the table's columns.
    pub expr: Arc<dyn PhysicalExpr>,
    /// The same over `schema`.
    pub compact: Arc<dyn PhysicalExpr>,
    /// Its table columns, ascending.
    pub columns: Vec<usize>,
    /// Those columns.
    pub schema: SchemaRef,
    /// Set if it is a comparison that a loop over the values answers.
    pub(super) sparse: Option<SparseCompare>,
}

impl Conjunct {
    /// Prepares `expr`, an expression over `table`.
    ///
    /// # Errors
    /// If it names a column that the table does not have.
    pub fn new(expr: Arc<dyn PhysicalExpr>, table: &Schema) -> Result<Self> {
        let mut columns: Vec<usize> = collect_columns(&expr).iter().map(|column| column.index()).collect();
        columns.sort_unstable();
        let schema = Arc::new(table.project(&columns)?);
        Ok(Self {
            sparse: SparseCompare::recognise(&expr),
            compact: reassign_expr_columns(Arc::clone(&expr), &schema)?,
            expr,
            columns,
            schema,
        })
    }
}

/// How a column lies in the files, for EXPLAIN and for costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ColumnCost {
    /// Raw values of this many bytes.
    Direct(f64),
    /// Decoded from about this many stored bytes per row.
    Decoded(f64),
    /// One value for the whole file (a partition's, or NULL where the file lacks the column).
    Constant,
}

impl ColumnCost {
    /// The cost of reading one value, in units of loading eight raw bytes. Any decoded column costs more than any
    /// direct one.
    fn per_row(self) -> f64 {
        match self {
            Self::Direct(width) => width / 8.0,
            Self::Decoded(bytes) => 4.0 + bytes,
            Self::Constant => 0.0,
        }
    }

    /// The word for it in EXPLAIN.
    pub fn word(self) -> &'static str {
        match self {
            Self::Direct(_) => "direct",
            Self::Decoded(_) => "decoded",
            Self::Constant => "constant",
        }
    }
}

/// How many rows a conjunct has seen and let pass.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// Rows asked about.
    pub rows: u64,
    /// Rows that passed.
    pub passed: u64,
}

impl Seen {
    /// The share of rows that pass, by a guess of one half that weighs as much as `GUESS_ROWS` rows.
    fn pass_rate(self) -> f64 {
        const GUESS_ROWS: f64 = 256.0;
        (self.passed as f64 + GUESS_ROWS / 2.0) / (self.rows as f64 + GUESS_ROWS)
    }
}

/// The cheapest order: again and again the conjunct with the least cost per excluded row, where columns that
/// are already there cost nothing. Ties keep the order of the query.
pub fn order(conjuncts: &[Conjunct], costs: &dyn Fn(usize) -> ColumnCost, seen: &[Seen]) -> Vec<usize> {
    /// What evaluating an expression costs, in the same unit.
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
    fn direct_comes_before_decoded_and_what_excludes_more_comes_first() {
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
