//! `Pruner`: excludes stripes and row groups in which no row can pass the filter.
//!
//! DataFusion's pruning predicates decide, from ORC statistics and, for equality, from bloom filters.
//!
//! **Invariant:** a statistic that is not certain counts as unknown, and an unknown excludes nothing.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::physical_plan::PhysicalExpr;
use grampus_orc_layout::bloom::BloomFilter;
use grampus_orc_layout::schema::TypeKind;
use grampus_orc_layout::statistics::ColumnStatistics;

use super::equal_zeros::over_plain_operands;
use crate::config::InvalidUtf8;
use crate::table::column_bounds::{self, Bound};

/// The pruning form of a filter: a predicate for each conjunct that statistics can decide.
#[derive(Debug, Clone)]
pub(crate) struct Pruner {
    predicates: Vec<PruningPredicate>,
    /// Table columns whose statistics the predicates use.
    columns: Vec<usize>,
    /// The columns among them that are compared with literals for equality, which bloom filters can decide.
    equality_columns: Vec<usize>,
}

impl Pruner {
    /// The pruner of a conjunction, given as conjuncts with their table columns; `None`: statistics cannot help.
    pub(crate) fn new<'a>(
        conjuncts: impl Iterator<Item = (&'a Arc<dyn PhysicalExpr>, &'a [usize])>,
        schema: &SchemaRef,
    ) -> Option<Self> {
        let mut pruner = Self {
            predicates: Vec::new(),
            columns: Vec::new(),
            equality_columns: Vec::new(),
        };
        for (expr, columns) in conjuncts {
            let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema));
            let Ok(predicate) = builder.try_build(over_plain_operands(expr)) else {
                continue;
            };
            if predicate.always_true() {
                continue;
            }
            pruner.columns.extend_from_slice(columns);
            let literal_columns = predicate.literal_columns();
            let equality = literal_columns.iter().filter_map(|name| schema.index_of(name).ok());
            pruner.equality_columns.extend(equality);
            pruner.predicates.push(predicate);
        }
        pruner.columns.sort_unstable();
        pruner.columns.dedup();
        (!pruner.predicates.is_empty()).then_some(pruner)
    }

    /// Table columns whose statistics the pruner uses, ascending.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Whether a bloom filter of this table column can help.
    pub(crate) fn wants_bloom_filter(&self, column: usize) -> bool {
        self.equality_columns.contains(&column)
    }

    /// For each container, whether its rows may pass. A predicate that fails to evaluate excludes nothing.
    pub(crate) fn may_pass(&self, containers: &Containers<'_>) -> Vec<bool> {
        let mut keep = vec![true; containers.rows.len()];
        for predicate in &self.predicates {
            if let Ok(passes) = predicate.prune(containers) {
                keep.iter_mut()
                    .zip(passes)
                    .for_each(|(keep, may_pass)| *keep &= may_pass);
            }
        }
        keep
    }
}

/// The known statistics of one table column, by container.
#[derive(Debug)]
pub(crate) enum ContainerStatistics<'a> {
    /// Stored statistics and bloom filters.
    Stored {
        /// The ORC type.
        kind: TypeKind,
        /// Statistics by container, if the file has them.
        statistics: Vec<Option<&'a ColumnStatistics>>,
        /// Bloom filters by container; empty: none.
        bloom_filters: &'a [BloomFilter],
        /// Whether the filters' dates are of the hybrid calendar.
        is_hybrid_calendar: bool,
    },
    /// One value for all rows: of a partition column, or NULL for a column that the file lacks.
    Constant(ScalarValue),
}

/// Stripes of files or row groups of a stripe, in the form of DataFusion's pruning.
#[derive(Debug)]
pub(crate) struct Containers<'a> {
    /// The table's schema.
    pub(crate) schema: &'a Schema,
    /// The treatment of strings that are not UTF-8, whose statistics and hashes are of the stored bytes.
    pub(crate) invalid_utf8: InvalidUtf8,
    /// Rows by container.
    pub(crate) rows: Vec<u64>,
    /// Statistics by table column.
    pub(crate) columns: Vec<(usize, ContainerStatistics<'a>)>,
}

impl Containers<'_> {
    fn known(&self, column: &Column) -> Option<(&DataType, &ContainerStatistics<'_>)> {
        let at = self.schema.index_of(&column.name).ok()?;
        let (_, known) = self.columns.iter().find(|(k, _)| *k == at)?;
        Some((self.schema.field(at).data_type(), known))
    }

    fn bounds(&self, column: &Column, bound: Bound) -> Option<ArrayRef> {
        let (data_type, known) = self.known(column)?;
        match known {
            ContainerStatistics::Constant(value) if value.is_null() => None,
            ContainerStatistics::Constant(value) => value.to_array_of_size(self.rows.len()).ok(),
            ContainerStatistics::Stored { statistics, .. } => {
                let unknown = ScalarValue::try_from(data_type).ok()?;
                let values: Vec<ScalarValue> = statistics
                    .iter()
                    .map(|stored| {
                        stored
                            .and_then(|s| bound(s, data_type))
                            .unwrap_or_else(|| unknown.clone())
                    })
                    .collect();
                if values.iter().all(ScalarValue::is_null) {
                    return None;
                }
                ScalarValue::iter_to_array(values).ok()
            }
        }
    }
}

impl PruningStatistics for Containers<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, column_bounds::lower(self.invalid_utf8))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, column_bounds::upper(self.invalid_utf8))
    }

    fn num_containers(&self) -> usize {
        self.rows.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let counts: UInt64Array = match self.known(column)?.1 {
            ContainerStatistics::Constant(value) if value.is_null() => self.rows.clone().into(),
            ContainerStatistics::Constant(_) => vec![0; self.rows.len()].into(),
            ContainerStatistics::Stored { statistics, .. } => {
                let counts = statistics.iter().zip(&self.rows);
                counts.map(|(stored, &rows)| null_count((*stored)?, rows)).collect()
            }
        };
        Some(Arc::new(counts))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from(self.rows.clone())))
    }

    fn contained(&self, column: &Column, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        let (_, known) = self.known(column)?;
        let ContainerStatistics::Stored {
            kind,
            bloom_filters,
            is_hybrid_calendar,
            ..
        } = known
        else {
            return None;
        };
        if bloom_filters.len() != self.rows.len() {
            return None;
        }
        let is_replaced = |value: &ScalarValue| {
            let text = value.try_as_str().flatten();
            self.invalid_utf8 == InvalidUtf8::Replace && text.is_some_and(|text| text.contains('\u{fffd}'))
        };
        let excluded = |filter: &BloomFilter| {
            values.iter().all(|value| {
                may_contain(filter, *kind, *is_hybrid_calendar, value) == Some(false) && !is_replaced(value)
            })
        };
        Some(
            bloom_filters
                .iter()
                .map(|filter| excluded(filter).then_some(false))
                .collect(),
        )
    }
}

/// Nulls in a container of `rows` rows, if the writer's claims agree with each other.
fn null_count(stored: &ColumnStatistics, rows: u64) -> Option<u64> {
    let nulls = rows.checked_sub(stored.values?)?;
    match stored.has_null {
        Some(has_null) if has_null != (nulls > 0) => None,
        _ => Some(nulls),
    }
}

/// `Some(false)`: the filter excludes `value` for certain.
///
/// Only types that all writers hash in the same way are looked up. A NULL equals no value. Zeros are equal and have two
/// hashes, and NaNs have many.
fn may_contain(filter: &BloomFilter, kind: TypeKind, is_hybrid_calendar: bool, value: &ScalarValue) -> Option<bool> {
    if value.is_null() {
        return Some(false);
    }
    match (kind, value) {
        // Integers of all widths have one hash, so a column may be narrower in the file than in the table.
        (TypeKind::Byte | TypeKind::Short | TypeKind::Int | TypeKind::Long, value) => {
            Some(filter.may_contain_long(long(value)?))
        }
        (TypeKind::Date, ScalarValue::Date32(Some(value))) => Some(filter.may_contain_date(*value, is_hybrid_calendar)),
        (TypeKind::Double, ScalarValue::Float64(Some(value))) if !value.is_nan() && *value != 0.0 => {
            Some(filter.may_contain_double(*value))
        }
        (TypeKind::Decimal { .. }, ScalarValue::Decimal128(Some(value), _, scale)) => {
            Some(filter.may_contain_decimal(*value, u8::try_from(*scale).ok()?))
        }
        (TypeKind::Timestamp | TypeKind::TimestampInstant, ScalarValue::TimestampNanosecond(Some(value), _)) => {
            Some(filter.may_contain_timestamp((*value).into()))
        }
        (TypeKind::Timestamp | TypeKind::TimestampInstant, ScalarValue::TimestampMicrosecond(Some(value), _)) => {
            Some(filter.may_contain_timestamp(i128::from(*value) * 1_000))
        }
        (
            TypeKind::String | TypeKind::Varchar { .. },
            ScalarValue::Utf8(Some(value)) | ScalarValue::LargeUtf8(Some(value)) | ScalarValue::Utf8View(Some(value)),
        ) => Some(filter.may_contain_bytes(value.as_bytes())),
        _ => None,
    }
}

fn long(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int8(value) => value.map(i64::from),
        ScalarValue::Int16(value) => value.map(i64::from),
        ScalarValue::Int32(value) => value.map(i64::from),
        ScalarValue::Int64(value) => *value,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, TimeUnit};
    use datafusion::common::DFSchema;
    use datafusion::execution::context::ExecutionProps;
    use datafusion::logical_expr::{Expr, col, lit};
    use datafusion::prelude::SessionContext;
    use grampus_orc_layout::statistics::TypedStatistics;

    use super::*;

    fn double(min: f64, max: f64, sum: Option<f64>) -> ColumnStatistics {
        ColumnStatistics {
            values: Some(10),
            has_null: Some(false),
            typed: Some(TypedStatistics::Double { min, max, sum }),
        }
    }

    fn string(min: Option<&str>, max: Option<&str>) -> ColumnStatistics {
        ColumnStatistics {
            values: Some(10),
            has_null: Some(false),
            typed: Some(TypedStatistics::String {
                min: min.map(str::to_owned),
                max: max.map(str::to_owned),
                exact: false,
                total_length: None,
            }),
        }
    }

    /// For each container of 10 rows with these statistics of column `c`, whether `filter` keeps it.
    fn kept(data_type: DataType, kind: TypeKind, statistics: &[ColumnStatistics], filter: Expr) -> Vec<bool> {
        let schema = Arc::new(Schema::new(vec![Field::new("c", data_type, true)]));
        let df_schema = DFSchema::try_from(Arc::clone(&schema)).unwrap();
        let _ = ExecutionProps::new();
        let expr = SessionContext::new()
            .state()
            .create_physical_expr(filter, &df_schema)
            .unwrap();
        let Some(pruner) = Pruner::new([(&expr, &[0][..])].into_iter(), &schema) else {
            return vec![true; statistics.len()];
        };
        let known = ContainerStatistics::Stored {
            kind,
            statistics: statistics.iter().map(Some).collect(),
            bloom_filters: &[],
            is_hybrid_calendar: false,
        };
        pruner.may_pass(&Containers {
            schema: &schema,
            invalid_utf8: InvalidUtf8::default(),
            rows: vec![10; statistics.len()],
            columns: vec![(0, known)],
        })
    }

    #[test]
    fn double_bounds_without_a_sum_prune() {
        // Statistics without a sum are Trino's; those that may hide a NaN have no bounds.
        let hidden = ColumnStatistics {
            typed: None,
            ..double(1.0, 5.0, None)
        };
        let statistics = [double(1.0, 5.0, Some(30.0)), double(1.0, 5.0, None), hidden];
        let keep = |filter| kept(DataType::Float64, TypeKind::Double, &statistics, filter);
        assert_eq!(keep(col("c").gt(lit(10.0))), [false, false, true]);
        assert_eq!(keep(col("c").lt(lit(0.5))), [false, false, true]);
        assert_eq!(keep(col("c").gt_eq(lit(5.0))), [true, true, true]);
    }

    #[test]
    fn timestamp_bounds_prune_in_both_units() {
        let bounds = |min, max| ColumnStatistics {
            typed: Some(TypedStatistics::Timestamp { min, max }),
            ..double(0.0, 0.0, None)
        };
        let first = -62_135_596_800_000_000_000; // 0001-01-01
        let statistics = [bounds(first, first + 999_999), bounds(-1, 1_999), bounds(5_000, 7_000)];
        let keep = |unit, filter| {
            kept(
                DataType::Timestamp(unit, Some("UTC".into())),
                TypeKind::TimestampInstant,
                &statistics,
                filter,
            )
        };
        let micros = |value| lit(ScalarValue::TimestampMicrosecond(Some(value), Some("UTC".into())));
        let nanos = |value| lit(ScalarValue::TimestampNanosecond(Some(value), Some("UTC".into())));
        // -1 ns is cut to -1 µs.
        assert_eq!(
            keep(TimeUnit::Microsecond, col("c").eq(micros(-1))),
            [false, true, false]
        );
        assert_eq!(keep(TimeUnit::Microsecond, col("c").gt(micros(0))), [false, true, true]);
        assert_eq!(
            keep(TimeUnit::Microsecond, col("c").gt(micros(1))),
            [false, false, true]
        );
        assert_eq!(
            keep(TimeUnit::Microsecond, col("c").lt(micros(-2))),
            [true, false, false]
        );
        assert_eq!(keep(TimeUnit::Nanosecond, col("c").eq(nanos(-1))), [false, true, false]);
        assert_eq!(keep(TimeUnit::Nanosecond, col("c").lt(nanos(-2))), [true, false, false]);
    }

    #[test]
    fn zero_bounds_include_both_zeros() {
        let statistics = [double(0.0, 5.0, Some(30.0)), double(-5.0, -0.0, Some(-30.0))];
        let keep = |filter| kept(DataType::Float64, TypeKind::Double, &statistics, filter);
        // In comparisons, both zeros are equal.
        assert_eq!(keep(col("c").lt(lit(0.0))), [false, true]);
        assert_eq!(keep(col("c").gt(lit(-0.0))), [true, false]);
        assert_eq!(keep(col("c").eq(lit(-0.0))), [true, true]);
        assert_eq!(keep(col("c").lt(lit(-1.0))), [false, true]);
    }

    #[test]
    fn string_bounds_prune_only_on_the_side_that_they_have() {
        let statistics = [
            string(Some("b"), Some("d")),
            string(None, Some("d")),
            string(Some("b"), None),
        ];
        let keep = |filter| kept(DataType::Utf8, TypeKind::String, &statistics, filter);
        assert_eq!(keep(col("c").eq(lit("a"))), [false, true, false]);
        assert_eq!(keep(col("c").eq(lit("e"))), [false, false, true]);
        assert_eq!(keep(col("c").like(lit("c%"))), [true, true, true]);
        assert_eq!(keep(col("c").like(lit("x%"))), [false, false, true]);
    }

    #[test]
    fn pruner_ignores_missing_and_contradictory_statistics() {
        let all_null = ColumnStatistics {
            values: Some(0),
            has_null: Some(true),
            typed: None,
        };
        let contradiction = ColumnStatistics {
            values: Some(0),
            has_null: Some(false),
            typed: None,
        };
        let statistics = [ColumnStatistics::default(), all_null, contradiction];
        let keep = |filter| kept(DataType::Int32, TypeKind::Int, &statistics, filter);
        assert_eq!(keep(col("c").gt(lit(10))), [true, false, true]);
        assert_eq!(keep(col("c").is_null()), [true, true, true]);
        assert_eq!(keep(col("c").is_not_null()), [true, false, true]);
    }

    #[test]
    fn single_precision_bounds_are_rounded_outwards() {
        let statistics = [double(0.1, 0.1, Some(1.0))];
        let keep = |filter| kept(DataType::Float32, TypeKind::Float, &statistics, filter);
        assert_eq!(keep(col("c").eq(lit(0.1f32))), [true]);
        assert_eq!(keep(col("c").gt(lit(0.2f32))), [false]);
    }
}
