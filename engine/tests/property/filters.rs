//! Random filters over a random table. Literals come from the table's rows, so that the filters hit.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::prelude::{Expr, binary_expr, col, lit, not};
use proptest::prelude::*;

/// A filter. Columns and rows are taken modulo the numbers of the table.
#[derive(Debug, Clone)]
pub(crate) enum FilterSpec {
    Compare {
        column: usize,
        operator: usize,
        row: usize,
    },
    Between {
        column: usize,
        low: usize,
        high: usize,
        negated: bool,
    },
    In {
        column: usize,
        rows: Vec<usize>,
        negated: bool,
    },
    IsNull {
        column: usize,
        negated: bool,
    },
    Like {
        column: usize,
        pattern: usize,
        negated: bool,
    },
    Not(Box<FilterSpec>),
    And(Vec<FilterSpec>),
    Or(Vec<FilterSpec>),
}

const OPERATORS: [Operator; 8] = [
    Operator::Eq,
    Operator::NotEq,
    Operator::Lt,
    Operator::LtEq,
    Operator::Gt,
    Operator::GtEq,
    Operator::IsDistinctFrom,
    Operator::IsNotDistinctFrom,
];

const PATTERNS: [&str; 7] = ["%", "a%", "%1", "_ord 3", "a\\_c%", "%ab%", "0001__"];

pub(crate) fn filters() -> impl Strategy<Value = FilterSpec> {
    let (column, row) = (0..8_usize, 0..3_000_usize);
    let leaf = prop_oneof![
        5 => (column.clone(), 0..OPERATORS.len(), row.clone())
            .prop_map(|(column, operator, row)| FilterSpec::Compare { column, operator, row }),
        2 => (column.clone(), row.clone(), row.clone(), any::<bool>())
            .prop_map(|(column, low, high, negated)| FilterSpec::Between { column, low, high, negated }),
        2 => (column.clone(), prop::collection::vec(row, 1..6), any::<bool>())
            .prop_map(|(column, rows, negated)| FilterSpec::In { column, rows, negated }),
        1 => (column.clone(), any::<bool>()).prop_map(|(column, negated)| FilterSpec::IsNull { column, negated }),
        1 => (column, 0..PATTERNS.len(), any::<bool>())
            .prop_map(|(column, pattern, negated)| FilterSpec::Like { column, pattern, negated }),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            1 => inner.clone().prop_map(|filter| FilterSpec::Not(Box::new(filter))),
            4 => prop::collection::vec(inner.clone(), 2..4).prop_map(FilterSpec::And),
            2 => prop::collection::vec(inner, 2..4).prop_map(FilterSpec::Or),
        ]
    })
}

impl FilterSpec {
    /// The DataFusion expression over `rows`, whose columns `usable` (by index) can be compared.
    pub(crate) fn expression(&self, rows: &RecordBatch, usable: &[usize]) -> Expr {
        let index = |column: usize| usable[column % usable.len()];
        let name = |column: usize| col(rows.schema().field(index(column)).name());
        let literal = |column: usize, row: usize| {
            let values = rows.column(index(column));
            lit(if values.is_empty() {
                ScalarValue::try_from(values.data_type()).expect("a NULL of a plain type")
            } else {
                ScalarValue::try_from_array(values, row % values.len()).expect("a value of a plain type")
            })
        };
        let list = |filters: &[Self], operator| {
            let filters = filters.iter().map(|filter| filter.expression(rows, usable));
            filters
                .reduce(|left, right| binary_expr(left, operator, right))
                .expect("at least one")
        };
        match self {
            Self::Compare { column, operator, row } => {
                binary_expr(name(*column), OPERATORS[*operator], literal(*column, *row))
            }
            Self::Between {
                column,
                low,
                high,
                negated,
            } => {
                let (low, high) = (literal(*column, *low), literal(*column, *high));
                if *negated {
                    name(*column).not_between(low, high)
                } else {
                    name(*column).between(low, high)
                }
            }
            Self::In {
                column,
                rows: places,
                negated,
            } => name(*column).in_list(places.iter().map(|&row| literal(*column, row)).collect(), *negated),
            Self::IsNull { column, negated } if *negated => name(*column).is_not_null(),
            Self::IsNull { column, .. } => name(*column).is_null(),
            Self::Like {
                column,
                pattern,
                negated,
            } => {
                let subject = name(*column);
                if rows.column(index(*column)).data_type() != &DataType::Utf8 {
                    return subject.is_not_null();
                }
                let pattern = lit(PATTERNS[*pattern]);
                if *negated {
                    subject.not_like(pattern)
                } else {
                    subject.like(pattern)
                }
            }
            Self::Not(filter) => not(filter.expression(rows, usable)),
            Self::And(filters) => list(filters, Operator::And),
            Self::Or(filters) => list(filters, Operator::Or),
        }
    }
}
