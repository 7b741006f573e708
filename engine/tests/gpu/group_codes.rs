//! The grouped queries t1 to t4 of `queries/` by kernels with groups by code, and by the CPU's plan: over trips with
//! NULLs, a fraction of a passenger, and distances that are far away.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use grampus_orc_layout::write::WriterProperties;

use crate::common::{answer, open_table, text};
use crate::compare::difference;
use crate::support::{GPU_SETTINGS, Setting, has_compiler, write_orc};

/// A join of two aggregations, each of few groups. Both of its inputs keep their partitions.
const JOIN: &str = "SELECT a.cab_type, a.n, b.s FROM \
     (SELECT cab_type, count(*) AS n FROM trips GROUP BY cab_type) AS a \
     JOIN (SELECT cab_type, sum(total_amount) AS s FROM trips GROUP BY cab_type) AS b ON a.cab_type = b.cab_type \
     ORDER BY a.cab_type";

const ROWS: usize = 60_000;

/// The queries, and how EXPLAIN names their kernels.
const QUERIES: [(&str, &str); 4] = [
    ("t1", "kernel=[dense, 16 groups by code in a table for each lane]"),
    ("t2", "kernel=[dense, 8 groups by code in a table for each lane]"),
    ("t3", "kernel=[dense, 56 groups by code in a table for each block]"),
    (
        "t4",
        "groups by code in a table for each block, rare values in device memory]",
    ),
];

fn write(path: &Path) {
    let passengers = |row: usize| match row {
        777 => Some(1.5),
        _ => (!row.is_multiple_of(11)).then_some((row % 7) as f64),
    };
    let distance = |row: usize| match row {
        12_345 => 1.9e7,
        54_321 => -3.0,
        _ => (row * 7919 % 900) as f64 / 10.0,
    };
    // From 2009-01-01, about one in an hour.
    let pickup = |row: usize| 1_230_768_000_000_000_000 + row as i64 * 3_600_000_000_000;
    let columns: [(&str, ArrayRef); 5] = [
        (
            "cab_type",
            Arc::new(StringArray::from_iter(
                (0..ROWS).map(|row| ["yellow", "green"].get(row * row % 3).copied()),
            )),
        ),
        (
            "passenger_count",
            Arc::new(Float64Array::from_iter((0..ROWS).map(passengers))),
        ),
        (
            "pickup_datetime",
            Arc::new(TimestampNanosecondArray::from_iter_values((0..ROWS).map(pickup))),
        ),
        (
            "trip_distance",
            Arc::new(Float64Array::from_iter_values((0..ROWS).map(distance))),
        ),
        (
            "total_amount",
            Arc::new(Float64Array::from_iter_values(
                (0..ROWS).map(|row| (row % 1000) as f64 / 8.0),
            )),
        ),
    ];
    let rows = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
    let options = WriterProperties {
        row_index_stride: 2_000,
        stripe_rows: 10_000,
        ..WriterProperties::default()
    };
    write_orc(path, rows.schema(), std::slice::from_ref(&rows), options);
}

#[tokio::test(flavor = "multi_thread")]
async fn grouped_queries_use_codes_and_match_the_cpu() {
    if !has_compiler("grouped_queries_use_codes_and_match_the_cpu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trips.orc");
    write(&path);
    let cpu = Setting {
        gpu: None,
        ..GPU_SETTINGS[0]
    };
    let expected = open_table(&cpu, "trips", &path).await;
    // Without a filter, columns that are asked for by page are resident too.
    for setting in [&GPU_SETTINGS[0], &GPU_SETTINGS[2]] {
        let context = open_table(setting, "trips", &path).await;
        for (name, kernel) in QUERIES {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../queries/{name}.sql"));
            let sql = std::fs::read_to_string(file).unwrap();
            let (wanted, _) = answer(&expected, &sql).await;
            // The dictionary has no strings in the first run.
            for run in 0..2 {
                let (found, ran) = answer(&context, &sql).await;
                let what = format!("{name}, run {run}, {setting:?}");
                assert_eq!(difference(&wanted, &found), None, "{what}");
                assert_eq!(ran, (1, 0), "{what}: computed by kernels, given back");
            }
            let plan = text(&context, &format!("EXPLAIN {sql}")).await;
            assert!(plan.contains(kernel), "{name}: {kernel} in\n{plan}");
            // One partition merges few groups.
            assert!(!plan.contains("RepartitionExec"), "{name}:\n{plan}");
        }
        let (wanted, _) = answer(&expected, JOIN).await;
        let (found, ran) = answer(&context, JOIN).await;
        assert_eq!((difference(&wanted, &found), ran), (None, (2, 0)), "{JOIN}");
    }
}

/// A filter that many rows pass leaves the kernel dense; one that few pass does not. If all columns are resident, 5 %
/// are many, and 1 % are few.
#[tokio::test(flavor = "multi_thread")]
async fn filters_decide_between_kernels_by_their_selectivity() {
    if !has_compiler("filters_decide_between_kernels_by_their_selectivity") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trips.orc");
    write(&path);
    let cpu = Setting {
        gpu: None,
        ..GPU_SETTINGS[0]
    };
    let (expected, context) = (
        open_table(&cpu, "trips", &path).await,
        open_table(&GPU_SETTINGS[0], "trips", &path).await,
    );
    for (bound, kernel) in [
        (30, "kernel=[dense, 8 groups by code in a table for each lane]"),
        (85, "kernel=[dense, 8 groups by code in a table for each lane]"),
        (89, "kernel=[by row, groups of warps]"),
    ] {
        let sql = format!(
            "SELECT passenger_count, count(*), sum(total_amount), min(total_amount) FROM trips \
             WHERE trip_distance >= {bound} GROUP BY passenger_count ORDER BY passenger_count NULLS FIRST"
        );
        let (wanted, _) = answer(&expected, &sql).await;
        let (found, ran) = answer(&context, &sql).await;
        assert_eq!(difference(&wanted, &found), None, "{sql}");
        assert_eq!(ran, (1, 0), "{sql}");
        let plan = text(&context, &format!("EXPLAIN {sql}")).await;
        assert!(plan.contains(kernel), "{kernel} in\n{plan}");
    }
}
