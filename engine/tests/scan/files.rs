//! Tables of many files: folders, globs, partitions, different schemas, changed files.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray};
use grampus::{GrampusConfig, MemoryLimit, OrcTable, session};
use grampus_orc_layout::write::WriterProperties;

use super::common::{context, context_with, failure, measured, register, run, text, value, write_orc};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn ints(values: std::ops::Range<i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values))
}

fn doubles(values: std::ops::Range<i32>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values.map(f64::from)))
}

fn write(path: &Path, batch: &RecordBatch) {
    write_orc(path, std::slice::from_ref(batch), WriterProperties::default());
}

#[tokio::test]
async fn folders_globs_and_hidden_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write(&at("part-1.orc"), &batch(vec![("a", ints(0..10))]));
    write(&at("part-2.orc"), &batch(vec![("a", ints(10..30))]));
    write(&at("deeper/part-3.orc"), &batch(vec![("a", ints(30..60))]));
    for name in ["_SUCCESS", ".hidden.orc", "part-1.orc.crc", "part-2.orc_flush_length"] {
        fs::write(at(name), "of no use").unwrap();
    }
    let context = context(2);
    register(&context, "all", folder.path()).await;
    assert_eq!(value(&context, "SELECT count(*) FROM all").await, "60");
    assert_eq!(value(&context, "SELECT sum(a) FROM all WHERE a >= 0").await, "1770");
    register(&context, "some", &at("part-*.orc")).await;
    assert_eq!(value(&context, "SELECT count(*) FROM some").await, "30");
    let sql = format!(
        "CREATE EXTERNAL TABLE one STORED AS ORC LOCATION '{}'",
        at("part-2.orc").display()
    );
    run(&context, &sql).await;
    assert_eq!(value(&context, "SELECT min(a) FROM one WHERE a > 10").await, "11");

    let url = url::Url::from_file_path(at("part-1.orc")).unwrap();
    session::register_orc(&context, "by_url", url.as_str()).await.unwrap();
    assert_eq!(value(&context, "SELECT count(a) FROM by_url").await, "10");
    let pattern = format!("file://{}", at("part-*.orc").display());
    session::register_orc(&context, "by_pattern", &pattern).await.unwrap();
    assert_eq!(value(&context, "SELECT count(a) FROM by_pattern").await, "30");
    let folders = format!("file://{}/", at("deep*").display());
    session::register_orc(&context, "by_folders", &folders).await.unwrap();
    assert_eq!(value(&context, "SELECT count(a) FROM by_folders").await, "30");
}

#[tokio::test]
async fn locations_without_an_orc_file_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let context = context(1);
    let create = |location: &Path| {
        format!(
            "CREATE EXTERNAL TABLE t STORED AS ORC LOCATION '{}'",
            location.display()
        )
    };
    let missing = folder.path().join("missing.orc");
    let error = failure(&context, &create(&missing)).await;
    assert!(error.contains("missing.orc: no such file or folder"), "{error}");
    let error = failure(&context, &create(folder.path())).await;
    assert!(error.contains("no ORC file there"), "{error}");
    let empty = folder.path().join("empty.orc");
    fs::write(&empty, "").unwrap();
    let error = failure(&context, &create(&empty)).await;
    assert!(error.contains("empty.orc: the file is empty (0 bytes)"), "{error}");
    let text = folder.path().join("text.orc");
    fs::write(&text, "this is no ORC file at all, whatever its name says").unwrap();
    let error = failure(&context, &create(&text)).await;
    assert!(error.contains("text.orc: not an ORC file"), "{error}");
    let error = failure(&context, &create(&folder.path().join("*.none"))).await;
    assert!(error.contains("no ORC file there"), "{error}");
}

#[tokio::test]
async fn partition_folders_are_columns() {
    let folder = tempfile::tempdir().unwrap();
    for (year, month) in [(2019, "01"), (2019, "02"), (2020, "01")] {
        let path = folder
            .path()
            .join(format!("year={year}/month={month}/zone=JFK%20T4/t.orc"));
        write(&path, &batch(vec![("a", ints(0..year - 2000))]));
    }
    let context = context(3);
    register(&context, "t", folder.path()).await;
    let all = text(
        &run(
            &context,
            "SELECT year, month, zone, count(*) AS n FROM t GROUP BY ALL ORDER BY 1, 2",
        )
        .await,
    );
    let expected = "\
+------+-------+--------+----+
| year | month | zone   | n  |
+------+-------+--------+----+
| 2019 | 1     | JFK T4 | 19 |
| 2019 | 2     | JFK T4 | 19 |
| 2020 | 1     | JFK T4 | 20 |
+------+-------+--------+----+";
    assert_eq!(all, expected);
    let (answer, _, io) = measured(&context, "SELECT count(a) FROM t WHERE year = 2020 AND a >= 5").await;
    assert!(answer.contains("15"), "{answer}");
    // The two other files are not opened, so nothing is known of their stripes.
    assert_eq!((io.stripes_skipped, io.rows_scanned), (0, 20));
    let create = |column: &str| {
        let location = folder.path().display();
        format!(
            "CREATE EXTERNAL TABLE p{column} STORED AS ORC PARTITIONED BY ({column}, month, zone) LOCATION '{location}'"
        )
    };
    run(&context, &create("year")).await;
    let error = failure(&context, &create("yaer")).await;
    assert!(error.contains("are partitioned by (year, month, zone)"), "{error}");
    // A condition on both kinds of column cannot choose files.
    assert_eq!(
        value(&context, "SELECT count(*) FROM t WHERE a + month > 19").await,
        "2"
    );
    assert_eq!(value(&context, "SELECT count(*) FROM t WHERE year = 2021").await, "0");
    assert_eq!(value(&context, "SELECT max(month) FROM t").await, "2");
}

#[tokio::test]
async fn columns_are_found_by_name_and_missing_ones_are_null() {
    let folder = tempfile::tempdir().unwrap();
    write(
        &folder.path().join("1.orc"),
        &batch(vec![("a", ints(0..10)), ("b", doubles(0..10))]),
    );
    write(
        &folder.path().join("2.orc"),
        &batch(vec![("b", doubles(10..20)), ("a", ints(10..20))]),
    );
    let word: ArrayRef = Arc::new(StringArray::from_iter_values((0..5).map(|k| format!("w{k}"))));
    write(
        &folder.path().join("3.orc"),
        &batch(vec![("c", word), ("a", ints(20..25))]),
    );
    let context = context(1);
    register(&context, "t", folder.path()).await;
    let sums = text(&run(&context, "SELECT sum(a), sum(b), count(b), count(c), count(*) FROM t").await);
    assert!(
        sums.contains("| 300      | 190.0    | 20         | 5          | 25 "),
        "{sums}"
    );
    assert_eq!(
        value(&context, "SELECT count(*) FROM t WHERE b IS NULL AND a > 21").await,
        "3"
    );
    assert_eq!(value(&context, "SELECT count(*) FROM t WHERE c = 'w1'").await, "1");
    assert_eq!(
        value(&context, "SELECT sum(a) FROM t WHERE coalesce(b, 100.0) > 18").await,
        "129"
    );
}

#[tokio::test]
async fn contradicting_schemas_name_file_and_column() {
    let folder = tempfile::tempdir().unwrap();
    write(
        &folder.path().join("1.orc"),
        &batch(vec![("a", ints(0..10)), ("b", doubles(0..10))]),
    );
    let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..10).map(|k| k.to_string())));
    write(
        &folder.path().join("2.orc"),
        &batch(vec![("a", words), ("b", doubles(0..10))]),
    );
    let context = context(1);
    let create = format!(
        "CREATE EXTERNAL TABLE t STORED AS ORC LOCATION '{}'",
        folder.path().display()
    );
    let error = failure(&context, &create).await;
    assert!(error.contains("2.orc: column a is Utf8, but Int32 in"), "{error}");
    assert!(error.contains("1.orc"), "{error}");

    write(&folder.path().join("2.orc"), &batch(vec![("x", ints(0..10))]));
    let error = failure(&context, &create).await;
    assert!(error.contains("2.orc: it has no column in common with"), "{error}");
}

#[tokio::test]
async fn changed_file_is_read_again_by_the_next_query() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    for mode in ["mmap", "read"] {
        write(&path, &batch(vec![("a", doubles(0..1000))]));
        let context = context_with(1, &[("grampus.local_io", mode)]).await;
        register(&context, "t", &path).await;
        let sql = "SELECT sum(a) FROM t WHERE a > 0";
        assert_eq!(value(&context, sql).await, "499500.0");
        // Another file takes the place.
        let new = folder.path().join("new");
        write(&new, &batch(vec![("a", doubles(0..100))]));
        fs::rename(&new, &path).unwrap();
        assert_eq!(value(&context, sql).await, "4950.0");
        // The same file becomes longer, then shorter.
        write(&path, &batch(vec![("a", doubles(0..2000))]));
        assert_eq!(value(&context, sql).await, "1999000.0");
        let length = fs::metadata(&path).unwrap().len();
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(length / 2)
            .unwrap();
        let error = failure(&context, sql).await;
        assert!(error.contains("t.orc"), "{error}");
        // A new schema does not fit the registered table.
        write(&path, &batch(vec![("a", ints(0..10))]));
        let error = failure(&context, sql).await;
        assert!(error.contains("column a is Int32, but Float64"), "{error}");
        // A query over a removed file fails.
        fs::remove_file(&path).unwrap();
        let error = failure(&context, sql).await;
        assert!(error.contains("no such file or folder"), "{error}");
    }
}

#[tokio::test]
async fn folder_of_more_tails_than_the_cache_holds_keeps_some_of_them() {
    const FILES: i32 = 200;
    let folder = tempfile::tempdir().unwrap();
    for number in 0..FILES {
        let path = folder.path().join(format!("{number:03}.orc"));
        write(&path, &batch(vec![("a", ints(number..number + 3))]));
    }
    let context = session::context(GrampusConfig {
        memory_limit: MemoryLimit::Bytes(2 << 20), // tails take at most a sixteenth
        ..GrampusConfig::default()
    })
    .unwrap();
    let state = context.state();
    let table = OrcTable::open(&state, &[folder.path().display().to_string()])
        .await
        .unwrap();
    let mut queries: Vec<Vec<u64>> = Vec::new();
    for _ in 0..3 {
        let files = table.files(&state).await.unwrap();
        queries.push(files.iter().map(|file| file.file.id).collect()); // a tail that is read again has another id
    }
    let kept = |one: &[u64], other: &[u64]| one.iter().zip(other).filter(|(one, other)| one == other).count();
    let counts = [kept(&queries[0], &queries[1]), kept(&queries[1], &queries[2])];
    assert!((20..FILES as usize).contains(&counts[0]), "{counts:?}");
    assert_eq!(counts[0], counts[1]);
    // Another folder still finds space.
    let one = [folder.path().join("199.orc").display().to_string()];
    let other = OrcTable::open(&state, &one).await.unwrap();
    let id = other.files(&state).await.unwrap()[0].file.id;
    assert_eq!(other.files(&state).await.unwrap()[0].file.id, id);
}

/// Spark writes stripes of no rows, whose footers list no streams.
#[tokio::test]
async fn stripes_without_streams_have_no_rows() {
    let Some(path) = grampus_test_support::data("strangers/empty_stripes.orc") else {
        return;
    };
    let context = context(2);
    register(&context, "t", &path).await;
    let rows = run(&context, "SELECT a FROM t ORDER BY a").await;
    assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 4);
    assert_eq!(value(&context, "SELECT sum(a) FROM t").await, "10");
    assert_eq!(value(&context, "SELECT count(*) FROM t WHERE a > 1").await, "3");
}
