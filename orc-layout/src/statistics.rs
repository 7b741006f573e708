//! Column statistics of a file, a stripe or a row group, freed of their protobuf clothes and of values that cannot be trusted.

/// What is known about the values of one column in one place.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColumnStatistics {
    /// Number of non-null values, if stated.
    pub values: Option<u64>,
    /// Whether there are nulls; `None` when the writer did not say (old writers).
    pub has_null: Option<bool>,
    /// Type-specific part; `None` when absent or not to be trusted.
    pub typed: Option<TypedStatistics>,
}

/// Bounds and sums by type. Bounds are inclusive, and *bounds*: a truncated string bound is a bound, not a value.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // min, max and sum of the variant's type
pub enum TypedStatistics {
    /// BYTE, SHORT, INT, LONG.
    Integer { min: i64, max: i64, sum: Option<i64> },
    /// FLOAT, DOUBLE. Absent (`typed == None`) when a bound is NaN; a column with NaN values has no usable bounds.
    Double { min: f64, max: f64, sum: Option<f64> },
    /// STRING, CHAR, VARCHAR. `None` = unbounded on that side.
    String {
        min: Option<String>,
        max: Option<String>,
        exact: bool,
        total_length: Option<i64>,
    },
    /// BOOLEAN: how many are true.
    Boolean { true_count: u64 },
    /// DATE, days since 1970-01-01.
    Date { min: i32, max: i32 },
    /// TIMESTAMP, as nanoseconds that bound every value: the millisecond statistics widened to whole milliseconds.
    /// For local TIMESTAMP these are local wall-clock nanoseconds (the UTC statistics of ORC-135 writers); absent otherwise.
    Timestamp { min: i64, max: i64 },
    /// DECIMAL, unscaled at the column's scale.
    Decimal { min: i128, max: i128, sum: Option<i128> },
    /// BINARY: total bytes.
    Binary { total_length: i64 },
}
