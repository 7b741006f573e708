//! Column sets: from trips to Arrow batches. `core` and `six` are here, the 51 columns in `full`.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBufferBuilder, Float64Array, RecordBatch, StringArray, StringBuilder, TimestampNanosecondArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;

use super::ColumnSet;
use super::full_columns;
use super::trip_maker::Trips;

/// Names and types of a column set, in file order.
pub(super) fn schema(columns: ColumnSet) -> SchemaRef {
    let timestamp = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let field = |name: &str, data_type: &DataType| Field::new(name, data_type.clone(), true);
    let fields: Vec<Field> = match columns {
        ColumnSet::Full => return full_columns::schema(),
        ColumnSet::Six => SIX.iter().map(|name| field(name, &DataType::Float64)).collect(),
        ColumnSet::Core => CORE
            .iter()
            .map(|&name| match name {
                "pickup_datetime" | "dropoff_datetime" => field(name, &timestamp),
                "cab_type" | "store_and_fwd_flag" => field(name, &DataType::Utf8),
                _ => field(name, &DataType::Float64),
            })
            .collect(),
    };
    Arc::new(Schema::new(fields))
}

/// What q0–q5 read, in the order in which they add columns.
const SIX: [&str; 6] = [
    "trip_distance",
    "total_amount",
    "extra",
    "ehail_fee",
    "tolls_amount",
    "mta_tax",
];

/// What the queries of `queries/` read.
const CORE: [&str; 15] = [
    "pickup_datetime",
    "dropoff_datetime",
    "cab_type",
    "passenger_count",
    "trip_distance",
    "fare_amount",
    "extra",
    "mta_tax",
    "tip_amount",
    "tolls_amount",
    "ehail_fee",
    "total_amount",
    "payment_type",
    "store_and_fwd_flag",
    "congestion_surcharge",
];

/// One batch of these trips.
pub(super) fn batch(
    columns: ColumnSet,
    schema: &SchemaRef,
    seed: u64,
    trips: Trips,
) -> Result<RecordBatch, ArrowError> {
    let arrays = match columns {
        ColumnSet::Core => core(trips),
        ColumnSet::Full => full_columns::arrays(seed, trips),
        ColumnSet::Six => six(trips),
    };
    RecordBatch::try_new(Arc::clone(schema), arrays)
}

fn six(trips: Trips) -> Vec<ArrayRef> {
    let ehail_fee = vec![0.0; trips.len()];
    let columns = [
        trips.trip_distance,
        trips.total_amount,
        trips.extra,
        ehail_fee,
        trips.tolls_amount,
        trips.mta_tax,
    ];
    columns.into_iter().map(|values| doubles(values, None)).collect()
}

fn core(trips: Trips) -> Vec<ArrayRef> {
    let reported = nulls(&trips.complete);
    let cabs: StringArray = trips.green.iter().map(|&green| Some(cab_type(green))).collect();
    vec![
        timestamps(&trips.pickup_s),
        timestamps(&trips.dropoff_s),
        Arc::new(cabs),
        bytes_as_doubles(&trips.passengers, reported.clone()),
        doubles(trips.trip_distance, None),
        doubles(trips.fare_amount, None),
        doubles(trips.extra, None),
        doubles(trips.mta_tax, None),
        doubles(trips.tip_amount, None),
        doubles(trips.tolls_amount, None),
        ehail_fee(&trips.has_ehail_fee),
        doubles(trips.total_amount, None),
        bytes_as_doubles(&trips.payment, reported),
        stored_flag(&trips.stored, &trips.complete),
        doubles(trips.congestion_surcharge, nulls(&trips.has_congestion_surcharge)),
    ]
}

/// The word for a trip's cab.
pub(super) fn cab_type(green: bool) -> &'static str {
    if green { "green" } else { "yellow" }
}

/// The validity that these flags mean; `None` if all are true.
pub(super) fn nulls(valid: &[bool]) -> Option<NullBuffer> {
    if valid.iter().all(|&v| v) {
        return None;
    }
    let mut bits = BooleanBufferBuilder::new(valid.len());
    bits.append_slice(valid);
    Some(NullBuffer::new(bits.finish()))
}

pub(super) fn doubles(values: Vec<f64>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(Float64Array::new(values.into(), nulls))
}

fn bytes_as_doubles(values: &[u8], nulls: Option<NullBuffer>) -> ArrayRef {
    doubles(values.iter().map(|&v| f64::from(v)).collect(), nulls)
}

/// Zero where it is at all.
pub(super) fn ehail_fee(has: &[bool]) -> ArrayRef {
    let valid = nulls(has);
    doubles(vec![0.0; has.len()], valid)
}

pub(super) fn timestamps(seconds: &[i64]) -> ArrayRef {
    let nanoseconds = seconds.iter().map(|s| s * 1_000_000_000);
    Arc::new(TimestampNanosecondArray::from_iter_values(nanoseconds))
}

/// "Y" for trips that a cab kept in memory before it could send them.
pub(super) fn stored_flag(stored: &[bool], known: &[bool]) -> ArrayRef {
    let mut flags = StringBuilder::with_capacity(stored.len(), stored.len());
    for (&stored, &known) in stored.iter().zip(known) {
        match (known, stored) {
            (false, _) => flags.append_null(),
            (true, true) => flags.append_value("Y"),
            (true, false) => flags.append_value("N"),
        }
    }
    Arc::new(flags.finish())
}
