//! Statistics of files that pyorc writes: ours are what pyorc states, for every type, and hold for the values at each
//! level. `peers/check_writer.py` does the reverse, with files of our writer.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use common::statistics_check::check_statistics;
use common::{Memory, columns_by_decoder};
use grampus_orc_layout::metadata_reader;
use grampus_orc_layout::statistics::{ColumnStatistics, TypedStatistics};
use grampus_test_support::{Resource, python};
use serde_json::Value;

/// Width of timestamp bounds, which are whole milliseconds.
const MILLISECOND_NS: i128 = 1_000_000;

#[test]
fn statistics_of_every_type_are_those_that_pyorc_states() {
    let Some(python) = python(&[Resource::Pyorc]) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/write_statistics.py");
    let out = Command::new(python)
        .arg(script)
        .arg(folder.path())
        .output()
        .expect("a Python that starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let files: BTreeMap<String, BTreeMap<String, Value>> = serde_json::from_slice(&out.stdout).expect("JSON");
    let (mut typed, mut checked) = (0, 0);
    for (file, stated) in &files {
        let bytes = Bytes::from(std::fs::read(folder.path().join(file)).expect("a file just written"));
        let length = bytes.len() as u64;
        let source = Arc::new(Memory(bytes));
        let tail = Arc::new(metadata_reader::read_tail(&file.as_str().into(), length, &*source).unwrap());
        assert_eq!(stated.len(), tail.schema.fields().len(), "{file}");
        for (&column, field) in tail.schema.fields().iter().zip(tail.schema.arrow.fields()) {
            let ours = &tail.file_statistics[column as usize];
            let stated = &stated[field.name()];
            compare(&format!("{file} {}", field.name()), ours, stated);
            typed += usize::from(ours.typed.is_some());
        }
        if tail.rows > 0 {
            let columns = columns_by_decoder(&tail, &source).unwrap();
            checked += check_statistics(&tail, &*source, &columns).0;
        }
    }
    // 17 of the 21 columns have a typed part, in each of the three files with values.
    assert_eq!((typed, files.len()), (3 * 17, 5));
    assert!(checked > 200, "{checked} statistics");
}

fn compare(place: &str, ours: &ColumnStatistics, stated: &Value) {
    assert_eq!(
        (ours.values, ours.has_null),
        (stated["number_of_values"].as_u64(), stated["has_null"].as_bool()),
        "{place}"
    );
    let number = |key: &str| stated[key].as_i64();
    // The blanks that pad CHAR values do not count.
    let unpadded = |text: &str| text.trim_end_matches(' ').to_owned();
    let text = |key: &str| stated[key].as_str().map(unpadded);
    let decimal = |key: &str| stated[key].as_str().and_then(|text| text.parse::<i128>().ok());
    match &ours.typed {
        None => assert!(stated["minimum"].is_null(), "{place}: {stated}"),
        Some(TypedStatistics::Integer { min, max, sum }) => {
            let ours = (Some(*min), Some(*max), *sum);
            assert_eq!(ours, (number("minimum"), number("maximum"), number("sum")), "{place}");
        }
        Some(TypedStatistics::Double { min, max, sum }) => {
            let number = |key: &str| stated[key].as_f64();
            let ours = (Some(*min), Some(*max), *sum);
            assert_eq!(ours, (number("minimum"), number("maximum"), number("sum")), "{place}");
        }
        Some(TypedStatistics::String {
            min, max, total_length, ..
        }) => {
            let ours = (min.as_deref().map(unpadded), max.as_deref().map(unpadded));
            assert_eq!(ours, (text("minimum"), text("maximum")), "{place}");
            assert_eq!(*total_length, number("total_length"), "{place}");
        }
        Some(TypedStatistics::Boolean { true_count }) => {
            assert_eq!(Some(*true_count), stated["true_count"].as_u64(), "{place}");
        }
        Some(TypedStatistics::Date { min, max }) => {
            let ours = (Some(i64::from(*min)), Some(i64::from(*max)));
            assert_eq!(ours, (number("minimum"), number("maximum")), "{place}");
        }
        Some(TypedStatistics::Timestamp { min, max }) => {
            // pyorc states fractions of seconds before 1970 wrongly; `check_statistics` compares these with the values.
            let bounds = (number("lower_bound"), number("upper_bound"));
            let (Some(low), Some(high)) = (bounds.0.map(i128::from), bounds.1.map(i128::from)) else {
                panic!("{place}: {stated}")
            };
            let (below, above) = (low - MILLISECOND_NS..=low, high - 1..=high + MILLISECOND_NS);
            assert!(low < 0 || below.contains(min), "{place}: {min}, {stated}");
            assert!(high < 0 || above.contains(max), "{place}: {max}, {stated}");
        }
        Some(TypedStatistics::Decimal { min, max, sum }) => {
            let ours = (Some(*min), Some(*max), *sum);
            let theirs = (decimal("minimum"), decimal("maximum"), decimal("sum"));
            assert_eq!(ours, theirs, "{place}");
        }
        Some(TypedStatistics::Binary { total_length }) => {
            assert_eq!(Some(*total_length), number("total_length"), "{place}");
        }
        Some(other) => panic!("{place}: {other:?}"),
    }
}
