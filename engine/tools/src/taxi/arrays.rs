//! Arrow arrays that several column sets have.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanBufferBuilder, Float64Array, StringBuilder, TimestampNanosecondArray};
use arrow::buffer::NullBuffer;

/// The name of a trip's cab type.
pub(super) fn cab_type(green: bool) -> &'static str {
    if green { "green" } else { "yellow" }
}

/// The validity bitmap of these flags; `None` if all are true.
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

pub(super) fn bytes_as_doubles(values: &[u8], nulls: Option<NullBuffer>) -> ArrayRef {
    doubles(values.iter().map(|&v| f64::from(v)).collect(), nulls)
}

/// The e-hail fee: 0 for the trips that `has` marks, NULL for the others.
pub(super) fn ehail_fee(has: &[bool]) -> ArrayRef {
    let valid = nulls(has);
    doubles(vec![0.0; has.len()], valid)
}

/// Timestamps from local times in seconds since 1970.
pub(super) fn timestamps(seconds: &[i64]) -> ArrayRef {
    let nanoseconds = seconds.iter().map(|s| s * 1_000_000_000);
    Arc::new(TimestampNanosecondArray::from_iter_values(nanoseconds))
}

/// The store-and-forward flag: "Y" for trips that a cab kept in memory before it could send them, "N" for others, NULL
/// where `known` is false.
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
