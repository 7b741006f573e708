//! Random queries: rows in order, any rows up to a limit, groups, joins, and overlapping executions of one scan.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::{SortColumn, lexsort_to_indices, take_record_batch};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::utils::normalize_float_zero_scalar;
use datafusion::common::{JoinType, ScalarValue};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::{count, count_distinct, max, min, sum};
use datafusion::logical_expr::{ExprSchemable, LogicalPlan};
use datafusion::prelude::{DataFrame, Expr, col, lit};
use proptest::prelude::*;

use super::filters::{FilterSpec, filters};

/// A query. Columns are taken modulo the number of the table's columns.
#[derive(Debug, Clone)]
pub(crate) struct QuerySpec {
    pub(crate) filter: Option<FilterSpec>,
    pub(crate) shape: Shape,
}

/// Rows to skip, and rows to return.
type Limit = (usize, usize);

/// What a query makes of the rows that pass its filter.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// Columns in the order of a column, then of the row number.
    Rows {
        columns: Vec<usize>,
        /// The column, and whether it ascends.
        order: Option<(usize, bool)>,
        limit: Option<Limit>,
    },
    /// Columns of any rows, up to a limit.
    AnyRows { columns: Vec<usize>, limit: Limit },
    /// Columns of all rows, by several executions of the scan at once.
    Overlap { columns: Vec<usize>, seed: u64 },
    /// Aggregate functions and their arguments, by groups.
    Groups {
        keys: Vec<usize>,
        functions: Vec<(usize, usize)>,
    },
    /// The number of rows up to a limit.
    CountOfLimit(Limit),
    /// The rows joined with those that pass another filter: by their numbers or, if rows stay single, by any column.
    Join {
        kind: usize,
        key: usize,
        columns: Vec<usize>,
        other: FilterSpec,
    },
}

const JOINS: [JoinType; 5] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::LeftAnti,
];

pub(crate) fn queries() -> impl Strategy<Value = QuerySpec> {
    let columns = || prop::collection::vec(0..8_usize, 0..5);
    let limit = || (prop_oneof![3 => Just(0_usize), 1 => 0..500_usize], 0..4_000_usize);
    let shape = prop_oneof![
        3 => (columns(), prop::option::of((0..8_usize, any::<bool>())), prop::option::of(limit()))
            .prop_map(|(columns, order, limit)| Shape::Rows { columns, order, limit }),
        2 => (columns(), limit()).prop_map(|(columns, limit)| Shape::AnyRows { columns, limit }),
        3 => (columns(), any::<u64>()).prop_map(|(columns, seed)| Shape::Overlap { columns, seed }),
        3 => (prop::collection::vec(0..8_usize, 0..3), prop::collection::vec((0..5_usize, 0..8_usize), 0..4))
            .prop_map(|(keys, functions)| Shape::Groups { keys, functions }),
        1 => limit().prop_map(Shape::CountOfLimit),
        1 => (0..JOINS.len(), 0..8_usize, columns(), filters())
            .prop_map(|(kind, key, columns, other)| Shape::Join { kind, key, columns, other }),
    ];
    (prop::option::weighted(0.8, filters()), shape).prop_map(|(filter, shape)| QuerySpec { filter, shape })
}

/// Names of distinct columns by index modulo the number of columns. The row number is always among them.
pub(crate) fn names(columns: &[usize], rows: &RecordBatch) -> Vec<String> {
    let columns = columns.iter().map(|index| index % rows.num_columns());
    let mut names: Vec<String> = columns.map(|index| rows.schema().field(index).name().clone()).collect();
    names.push("row".to_owned());
    names.sort();
    names.dedup();
    names
}

impl QuerySpec {
    /// The rows of `table` that pass the filter.
    pub(crate) fn filtered(&self, table: DataFrame, rows: &RecordBatch, usable: &[usize]) -> Result<DataFrame> {
        match &self.filter {
            Some(filter) => table.filter(filter.expression(rows, usable)),
            None => Ok(table),
        }
    }

    /// The query over `table`. Its answer has one order, or gets it from [`ordered`](Self::ordered). The answer of
    /// [`Shape::AnyRows`] and [`Shape::Overlap`] has all rows that pass the filter, in the order of the row number.
    pub(crate) fn frame(&self, table: &DataFrame, rows: &RecordBatch, usable: &[usize]) -> Result<DataFrame> {
        let filtered = self.filtered(table.clone(), rows, usable)?;
        match &self.shape {
            Shape::Rows { columns, order, limit } => {
                let mut sort = vec![col("row").sort(true, false)];
                let mut names = names(columns, rows);
                if let Some((column, ascending)) = order {
                    let name = rows.schema().field(usable[column % usable.len()]).name().clone();
                    sort.insert(0, col(&name).sort(*ascending, !ascending));
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                let sorted = filtered.select(names.iter().map(col))?.sort(sort)?;
                match limit {
                    Some((skip, fetch)) => sorted.limit(*skip, Some(*fetch)),
                    None => Ok(sorted),
                }
            }
            Shape::AnyRows { columns, .. } | Shape::Overlap { columns, .. } => {
                let selected = filtered.select(names(columns, rows).iter().map(col))?;
                selected.sort(vec![col("row").sort(true, false)])
            }
            Shape::Groups { keys, functions } => groups(filtered, rows, usable, keys, functions),
            Shape::CountOfLimit((skip, fetch)) => {
                let limited = filtered.limit(*skip, Some(*fetch))?;
                limited.aggregate(vec![], vec![count(lit(1)).alias("n")])
            }
            Shape::Join {
                kind,
                key,
                columns,
                other,
            } => {
                let mut names = names(columns, rows);
                let is_single = matches!(JOINS[*kind], JoinType::LeftSemi | JoinType::LeftAnti);
                let key = match is_single {
                    true => rows.schema().field(usable[key % usable.len()]).name().clone(),
                    false => "row".to_owned(),
                };
                if !names.contains(&key) {
                    names.push(key.clone());
                }
                let left = filtered.select(names.iter().map(col))?;
                let right = table.clone().filter(other.expression(rows, usable))?;
                let right = right.select(names.iter().map(|name| col(name).alias(format!("r_{name}"))))?;
                // Sorted by `ordered`: below a FULL JOIN, DataFusion 55.2 takes the column of `row = 5` for a constant
                // above the join too, and leaves the sort out.
                left.join(right, JOINS[*kind], &[&key], &[&format!("r_{key}")], None)
            }
        }
    }

    /// The rows of the query's answer in the order of [`frame`](Self::frame): joins are sorted here.
    pub(crate) fn ordered(&self, answer: &RecordBatch) -> RecordBatch {
        if !matches!(self.shape, Shape::Join { .. }) || answer.num_rows() == 0 {
            return answer.clone();
        }
        let columns = ["row", "r_row"]
            .into_iter()
            .filter_map(|name| answer.column_by_name(name));
        let columns: Vec<SortColumn> = columns
            .map(|values| SortColumn {
                values: Arc::clone(values),
                options: None,
            })
            .collect();
        let order = lexsort_to_indices(&columns, None).expect("numbers can be sorted");
        take_record_batch(answer, &order).expect("indices of the rows")
    }

    /// A query without an order, whose rows are any of those of [`frame`](Self::frame).
    pub(crate) fn any_rows(&self, table: DataFrame, rows: &RecordBatch, usable: &[usize]) -> Result<DataFrame> {
        let (columns, limit) = match &self.shape {
            Shape::AnyRows { columns, limit } => (columns, Some(limit)),
            Shape::Rows { columns, .. } | Shape::Overlap { columns, .. } | Shape::Join { columns, .. } => {
                (columns, None)
            }
            Shape::Groups { keys, .. } => (keys, None),
            Shape::CountOfLimit(limit) => return self.filtered(table, rows, usable)?.limit(limit.0, Some(limit.1)),
        };
        let filtered = self.filtered(table, rows, usable)?;
        let selected = filtered.select(names(columns, rows).iter().map(col))?;
        match limit {
            Some((skip, fetch)) => selected.limit(*skip, Some(*fetch)),
            None => Ok(selected),
        }
    }
}

/// A query of DataFusion alone with IN lists and sorts that have one zero of floats. It tells `-0.0` from `0.0` there.
pub(crate) fn with_one_zero(frame: DataFrame) -> Result<DataFrame> {
    let (state, plan) = frame.into_parts();
    let plan = plan.transform_up(|node| match node {
        LogicalPlan::Sort(mut sort) => {
            let schema = Arc::clone(sort.input.schema());
            for key in &mut sort.expr {
                let data_type = key.expr.get_type(&schema)?;
                if data_type.is_floating() {
                    key.expr = key.expr.clone() + lit(ScalarValue::new_zero(&data_type)?);
                }
            }
            Ok(Transformed::yes(LogicalPlan::Sort(sort)))
        }
        node => node.map_expressions(|expr| expr.transform_up(|expr| Ok(list_with_one_zero(expr)))),
    })?;
    Ok(DataFrame::new(state, plan.data))
}

fn list_with_one_zero(expr: Expr) -> Transformed<Expr> {
    let Expr::InList(mut list) = expr else {
        return Transformed::no(expr);
    };
    let mut zero = None;
    for item in &mut list.list {
        if let Expr::Literal(value, _) = item
            && value.data_type().is_floating()
        {
            zero = ScalarValue::new_zero(&value.data_type()).ok();
            *value = normalize_float_zero_scalar(value.clone());
        }
    }
    if let Some(zero) = zero {
        *list.expr = *list.expr.clone() + lit(zero);
    }
    Transformed::yes(Expr::InList(list))
}

/// Aggregates whose values do not depend on the order of the rows.
fn groups(
    filtered: DataFrame,
    rows: &RecordBatch,
    usable: &[usize],
    keys: &[usize],
    functions: &[(usize, usize)],
) -> Result<DataFrame> {
    let schema = rows.schema();
    let is_float = |index: usize| schema.field(index).data_type().is_floating();
    // Zeros of both signs are one group, whose key is either of them.
    let groupable: Vec<usize> = usable.iter().copied().filter(|&index| !is_float(index)).collect();
    let mut keys: Vec<usize> = keys.iter().map(|key| groupable[key % groupable.len()]).collect();
    keys.sort_unstable();
    keys.dedup();
    let keys: Vec<Expr> = keys.iter().map(|&key| col(schema.field(key).name())).collect();
    let functions = functions.iter().enumerate().map(|(number, (function, column))| {
        let index = usable[column % usable.len()];
        let column = || col(schema.field(index).name());
        // DataFusion's minimum of a group with NaN, or with zeros of both signs, depends on the order of the rows.
        let value = match function {
            0 if !is_float(index) => count_distinct(column()),
            1 if !is_float(index) => min(column()),
            2 if !is_float(index) => max(column()),
            3 if schema.field(index).data_type().is_integer() => sum(column()),
            _ => count(column()),
        };
        value.alias(format!("a{number}"))
    });
    let mut functions: Vec<Expr> = functions.collect();
    functions.push(count(lit(1)).alias("n"));
    let sort = keys.iter().map(|key| key.clone().sort(true, false)).collect();
    let grouped = filtered.aggregate(keys.clone(), functions)?;
    match keys.is_empty() {
        true => Ok(grouped),
        false => grouped.sort(sort),
    }
}
