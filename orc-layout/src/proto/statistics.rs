//! Messages of column statistics (ORC v1, "Column Statistics"). All bounds are inclusive.

/// Statistics of BYTE, SHORT, INT and LONG.
#[derive(Clone, PartialEq, prost::Message)]
pub struct IntegerStatistics {
    /// Smallest value.
    #[prost(sint64, optional, tag = "1")]
    pub minimum: Option<i64>,
    /// Largest value.
    #[prost(sint64, optional, tag = "2")]
    pub maximum: Option<i64>,
    /// Sum of the values; absent if it overflows.
    #[prost(sint64, optional, tag = "3")]
    pub sum: Option<i64>,
}

/// Statistics of FLOAT and DOUBLE.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DoubleStatistics {
    /// Smallest value.
    #[prost(double, optional, tag = "1")]
    pub minimum: Option<f64>,
    /// Largest value.
    #[prost(double, optional, tag = "2")]
    pub maximum: Option<f64>,
    /// Sum of the values.
    #[prost(double, optional, tag = "3")]
    pub sum: Option<f64>,
}

/// Statistics of STRING, CHAR and VARCHAR.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StringStatistics {
    /// Smallest value, if it has at most 1,024 bytes.
    #[prost(string, optional, tag = "1")]
    pub minimum: Option<String>,
    /// Largest value, if it has at most 1,024 bytes.
    #[prost(string, optional, tag = "2")]
    pub maximum: Option<String>,
    /// Bytes of all values.
    #[prost(sint64, optional, tag = "3")]
    pub sum: Option<i64>,
    /// A bound in the place of a longer minimum.
    #[prost(string, optional, tag = "4")]
    pub lower_bound: Option<String>,
    /// A bound in the place of a longer maximum.
    #[prost(string, optional, tag = "5")]
    pub upper_bound: Option<String>,
}

/// Statistics of BOOLEAN.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BucketStatistics {
    /// Number of true values, as the first entry.
    #[prost(uint64, repeated, tag = "1")]
    pub count: Vec<u64>,
}

/// Statistics of DECIMAL, as decimal text.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DecimalStatistics {
    /// Smallest value.
    #[prost(string, optional, tag = "1")]
    pub minimum: Option<String>,
    /// Largest value.
    #[prost(string, optional, tag = "2")]
    pub maximum: Option<String>,
    /// Sum of the values.
    #[prost(string, optional, tag = "3")]
    pub sum: Option<String>,
}

/// Statistics of DATE, in days since 1970-01-01.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DateStatistics {
    /// Earliest day.
    #[prost(sint32, optional, tag = "1")]
    pub minimum: Option<i32>,
    /// Latest day.
    #[prost(sint32, optional, tag = "2")]
    pub maximum: Option<i32>,
}

/// Statistics of TIMESTAMP and TIMESTAMP_INSTANT, in milliseconds since 1970.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TimestampStatistics {
    /// Earliest time in the writer's zone, as old writers state it.
    #[prost(sint64, optional, tag = "1")]
    pub minimum: Option<i64>,
    /// Latest time in the writer's zone.
    #[prost(sint64, optional, tag = "2")]
    pub maximum: Option<i64>,
    /// Earliest time in UTC (ORC-135).
    #[prost(sint64, optional, tag = "3")]
    pub minimum_utc: Option<i64>,
    /// Latest time in UTC.
    #[prost(sint64, optional, tag = "4")]
    pub maximum_utc: Option<i64>,
    /// Nanoseconds of the earliest time below its millisecond, plus one.
    #[prost(int32, optional, tag = "5")]
    pub minimum_nanos: Option<i32>,
    /// Nanoseconds of the latest time below its millisecond, plus one.
    #[prost(int32, optional, tag = "6")]
    pub maximum_nanos: Option<i32>,
}

/// Statistics of BINARY.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BinaryStatistics {
    /// Bytes of all values.
    #[prost(sint64, optional, tag = "1")]
    pub sum: Option<i64>,
}

/// Statistics of LIST and MAP.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CollectionStatistics {
    /// Fewest elements of a value.
    #[prost(uint64, optional, tag = "1")]
    pub min_children: Option<u64>,
    /// Most elements of a value.
    #[prost(uint64, optional, tag = "2")]
    pub max_children: Option<u64>,
    /// Elements of all values.
    #[prost(uint64, optional, tag = "3")]
    pub total_children: Option<u64>,
}

/// Statistics of a column in a row group, a stripe or a file. At most one of the typed parts is present.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ColumnStatistics {
    /// Values that are not null.
    #[prost(uint64, optional, tag = "1")]
    pub number_of_values: Option<u64>,
    /// Integers.
    #[prost(message, optional, tag = "2")]
    pub int_statistics: Option<IntegerStatistics>,
    /// Floats and doubles.
    #[prost(message, optional, tag = "3")]
    pub double_statistics: Option<DoubleStatistics>,
    /// Strings.
    #[prost(message, optional, tag = "4")]
    pub string_statistics: Option<StringStatistics>,
    /// Booleans.
    #[prost(message, optional, tag = "5")]
    pub bucket_statistics: Option<BucketStatistics>,
    /// Decimals.
    #[prost(message, optional, tag = "6")]
    pub decimal_statistics: Option<DecimalStatistics>,
    /// Dates.
    #[prost(message, optional, tag = "7")]
    pub date_statistics: Option<DateStatistics>,
    /// Binary values.
    #[prost(message, optional, tag = "8")]
    pub binary_statistics: Option<BinaryStatistics>,
    /// Timestamps.
    #[prost(message, optional, tag = "9")]
    pub timestamp_statistics: Option<TimestampStatistics>,
    /// Whether a value is null; old writers do not state it.
    #[prost(bool, optional, tag = "10")]
    pub has_null: Option<bool>,
    /// Bytes of the column's streams in the file.
    #[prost(uint64, optional, tag = "11")]
    pub bytes_on_disk: Option<u64>,
    /// Lists and maps.
    #[prost(message, optional, tag = "12")]
    pub collection_statistics: Option<CollectionStatistics>,
}
