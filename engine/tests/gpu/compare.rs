//! The difference of two answers to one query. Sums of floats may differ in their last digits.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float32Type, Float64Type};

/// Maximum relative difference of sums of floats.
const TOLERANCE: f64 = 1e-11;

/// The first difference between two answers with rows in the same order, if there is one.
pub(crate) fn difference(expected: &RecordBatch, actual: &RecordBatch) -> Option<String> {
    if expected.num_rows() != actual.num_rows() || expected.num_columns() != actual.num_columns() {
        return Some(format!(
            "{} rows x {} columns instead of {} x {}",
            actual.num_rows(),
            actual.num_columns(),
            expected.num_rows(),
            expected.num_columns()
        ));
    }
    for (index, field) in expected.schema().fields().iter().enumerate() {
        let (wanted, found) = (expected.column(index), actual.column(index));
        if wanted.data_type() != found.data_type() {
            return Some(format!(
                "{} is {} instead of {}",
                field.name(),
                found.data_type(),
                wanted.data_type()
            ));
        }
        if let Some(row) = (0..wanted.len()).find(|&row| !is_same(wanted, found, row)) {
            let (wanted, found) = (wanted.slice(row, 1), found.slice(row, 1));
            return Some(format!("{}, row {row}: {found:?} instead of {wanted:?}", field.name()));
        }
    }
    None
}

fn is_same(wanted: &ArrayRef, found: &ArrayRef, row: usize) -> bool {
    if wanted.is_null(row) || found.is_null(row) {
        return wanted.is_null(row) && found.is_null(row);
    }
    let floats = match wanted.data_type() {
        DataType::Float64 => (
            wanted.as_primitive::<Float64Type>().value(row),
            found.as_primitive::<Float64Type>().value(row),
        ),
        DataType::Float32 => (
            f64::from(wanted.as_primitive::<Float32Type>().value(row)),
            f64::from(found.as_primitive::<Float32Type>().value(row)),
        ),
        _ => return wanted.slice(row, 1).to_data() == found.slice(row, 1).to_data(),
    };
    is_close(floats.0, floats.1)
}

fn is_close(wanted: f64, found: f64) -> bool {
    if wanted.is_nan() || found.is_nan() {
        return wanted.is_nan() && found.is_nan();
    }
    if wanted.is_infinite() || found.is_infinite() {
        return wanted == found;
    }
    wanted == found || (wanted - found).abs() <= TOLERANCE * wanted.abs().max(found.abs())
}

#[test]
fn difference_ignores_only_the_last_digits_of_sums() {
    assert!(is_close(0.1 + 0.2, 0.3));
    assert!(is_close(f64::NAN, -f64::NAN));
    assert!(!is_close(1.0, f64::NAN));
    assert!(!is_close(1.0, 1.000_000_1));
    assert!(!is_close(f64::INFINITY, f64::MAX));
}
