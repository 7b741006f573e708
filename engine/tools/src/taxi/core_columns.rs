//! The 15 columns that the queries in `queries/` use, and the six doubles of q0–q5 alone.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::arrays::{bytes_as_doubles, cab_type, doubles, ehail_fee, nulls, stored_flag, timestamps};
use super::trips::Trips;

/// The columns of q0–q5, in the order in which these queries add them.
const SIX: [&str; 6] = [
    "trip_distance",
    "total_amount",
    "extra",
    "ehail_fee",
    "tolls_amount",
    "mta_tax",
];

/// The columns of the queries in `queries/`.
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

/// Names and types of the 15 columns, in file order.
pub(super) fn schema() -> SchemaRef {
    let field = |&name: &&str| {
        let data_type = match name {
            "pickup_datetime" | "dropoff_datetime" => DataType::Timestamp(TimeUnit::Nanosecond, None),
            "cab_type" | "store_and_fwd_flag" => DataType::Utf8,
            _ => DataType::Float64,
        };
        Field::new(name, data_type, true)
    };
    Arc::new(Schema::new(CORE.iter().map(field).collect::<Vec<_>>()))
}

/// Names and types of the six doubles, in file order.
pub(super) fn six_schema() -> SchemaRef {
    let fields = SIX.iter().map(|&name| Field::new(name, DataType::Float64, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The arrays of [`six_schema`].
pub(super) fn six_arrays(trips: Trips) -> Vec<ArrayRef> {
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

/// The arrays of [`schema`].
pub(super) fn arrays(trips: Trips) -> Vec<ArrayRef> {
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
