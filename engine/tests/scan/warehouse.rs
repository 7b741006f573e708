//! Folders as Hive and Spark leave them: row versions, names without a suffix, files of 0 bytes, later schemas.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{DataType, Field};
use grampus_orc_layout::write::WriterProperties;

use super::common::{context, failure, register, run, value, write_orc};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn ints(values: std::ops::Range<i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values))
}

fn longs(values: std::ops::Range<i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn words(values: std::ops::Range<i32>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values.map(|k| format!("w{k}"))))
}

fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    write_orc(path, &[batch(columns)], WriterProperties::default());
}

fn create(location: &Path) -> String {
    let location = location.display();
    format!("CREATE EXTERNAL TABLE t STORED AS ORC LOCATION '{location}'")
}

/// Writes a file of row versions as Hive does.
fn write_versions(path: &Path, rows: std::ops::Range<i32>) {
    let count = rows.len() as i32;
    let row = StructArray::from(vec![(Arc::new(Field::new("a", DataType::Int32, true)), ints(rows))]);
    let columns = vec![
        ("operation", ints(0..count)),
        ("originalTransaction", longs(0..i64::from(count))),
        ("bucket", ints(0..count)),
        ("rowId", longs(0..i64::from(count))),
        ("currentTransaction", longs(0..i64::from(count))),
        ("row", Arc::new(row) as ArrayRef),
    ];
    write(path, columns);
}

#[tokio::test]
async fn transactional_hive_folders_are_refused() {
    for (folders, named) in [
        (&["base_0000005"][..], "base_0000005"),
        (&["delta_0000001_0000001_0000"], "delta_0000001_0000001_0000"),
        (&["delete_delta_0000002_0000002_0000", "base_5"], "base_5"),
        (&["year=2020/delta_1_1"], "delta_1_1"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        for name in folders {
            write(&folder.path().join(name).join("bucket_00000"), vec![("a", ints(0..3))]);
        }
        let context = context(1);
        for location in [folder.path().to_owned(), folder.path().join("*")] {
            let error = failure(&context, &create(&location)).await;
            assert!(error.contains("transactional Hive table (ACID)"), "{error}");
            assert!(error.contains(named) && error.contains("bucket_00000"), "{error}");
            assert!(error.contains("'transactional'='false'"), "{error}");
        }
    }
}

#[tokio::test]
async fn row_versions_are_read_from_a_file_named_by_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = folder.path().join("bucket_00000");
    write_versions(&bucket, 5..8);
    let context = context(1);
    let error = failure(&context, &create(folder.path())).await;
    assert!(error.contains("bucket_00000: its columns (operation, "), "{error}");
    let error = failure(&context, &create(&folder.path().join("bucket_*"))).await;
    assert!(error.contains("bucket_00000: its columns (operation, "), "{error}");
    register(&context, "one", &bucket).await;
    assert_eq!(value(&context, "SELECT sum(row['a']) FROM one").await, "18");
}

#[tokio::test]
async fn each_visible_file_of_a_folder_is_data() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write(&at("part-00000-x.snappy.orc"), vec![("a", ints(0..10))]);
    write(&at("000000_0"), vec![("a", ints(10..20))]);
    write(&at("part-00001"), vec![("a", ints(20..30))]);
    write(&at("_temporary/0/part-00002.orc"), vec![("a", ints(30..40))]);
    write(&at(".hive-staging_hive_1/000000_0"), vec![("a", ints(30..40))]);
    for name in ["_SUCCESS", ".part-00001.crc", "part-00001_flush_length"] {
        fs::write(at(name), "of no use").unwrap();
    }
    for name in ["000001_0", "part-00003.orc"] {
        fs::write(at(name), "").unwrap();
    }
    let context = context(2);
    register(&context, "t", folder.path()).await;
    assert_eq!(value(&context, "SELECT count(*) FROM t").await, "30");
    assert_eq!(value(&context, "SELECT sum(a) FROM t WHERE a >= 0").await, "435");

    fs::write(at("notes.csv"), "a,b,c\n1,2,3\n").unwrap();
    let error = failure(&context, "SELECT count(*) FROM t").await;
    assert!(error.contains("notes.csv: not an ORC file"), "{error}");
    assert!(error.contains("folder/*.orc"), "{error}");
    register(&context, "by_pattern", &at("*.orc")).await;
    assert_eq!(value(&context, "SELECT count(*) FROM by_pattern").await, "10");
}

#[tokio::test]
async fn files_of_zero_bytes_have_no_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("000000_0");
    fs::write(&path, "").unwrap();
    let context = context(1);
    let error = failure(&context, &create(folder.path())).await;
    assert!(error.contains("all files there are empty (0 bytes)"), "{error}");
    write(&path, vec![("a", ints(0..10))]);
    register(&context, "t", folder.path()).await;
    assert_eq!(value(&context, "SELECT count(*) FROM t").await, "10");
    fs::write(&path, "").unwrap();
    assert_eq!(value(&context, "SELECT count(*) FROM t").await, "0");
    let batches = run(&context, "SELECT a FROM t WHERE a > 1").await;
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
}

#[tokio::test]
async fn tables_keep_their_columns_when_later_files_differ() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write(&at("1.orc"), vec![("a", longs(0..10)), ("b", words(0..10))]);
    let context = context(1);
    register(&context, "t", folder.path()).await;
    // A narrower type, another order, a further column.
    write(
        &at("2.orc"),
        vec![("c", words(0..5)), ("b", words(10..15)), ("a", ints(10..15))],
    );
    assert_eq!(value(&context, "SELECT sum(a) FROM t").await, "105");
    assert_eq!(value(&context, "SELECT count(b) FROM t WHERE a >= 10").await, "5");
    assert_eq!(run(&context, "SELECT * FROM t LIMIT 1").await[0].num_columns(), 2);
    register(&context, "with_c", folder.path()).await;
    assert_eq!(value(&context, "SELECT count(c) FROM with_c").await, "5");
    // A wider type does not fit.
    let doubles: ArrayRef = Arc::new(Float64Array::from_iter_values([0.5]));
    write(&at("3.orc"), vec![("a", doubles)]);
    let error = failure(&context, "SELECT sum(a) FROM t").await;
    assert!(
        error.contains("3.orc: column a is Float64, but Int64 in the table"),
        "{error}"
    );
    assert!(error.contains("make the table again"), "{error}");
    write(&at("3.orc"), vec![("z", longs(0..3))]);
    let error = failure(&context, "SELECT sum(a) FROM t").await;
    assert!(
        error.contains("3.orc: it has no column in common with the table"),
        "{error}"
    );
}

#[tokio::test]
async fn columns_without_names_need_one_order_of_columns() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write(&at("1.orc"), vec![("a", ints(0..3)), ("b", words(0..3))]);
    write(&at("000000_0"), vec![("_col0", longs(3..6)), ("_col1", words(3..6))]);
    let context = context(1);
    register(&context, "pair", folder.path()).await;
    assert_eq!(value(&context, "SELECT sum(a) FROM pair WHERE b >= 'w1'").await, "15");
    write(&at("2.orc"), vec![("b", words(0..3)), ("a", ints(0..3))]);
    let error = failure(&context, &create(folder.path())).await;
    assert!(error.contains("000000_0: its columns have no names"), "{error}");
    assert!(error.contains("2.orc has columns at other positions"), "{error}");
    fs::remove_file(at("1.orc")).unwrap();
    fs::remove_file(at("2.orc")).unwrap();
    register(&context, "unnamed", folder.path()).await;
    assert_eq!(value(&context, "SELECT sum(_col0) FROM unnamed").await, "12");
}

#[tokio::test]
async fn columns_of_several_files_match_in_any_letter_case() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write(&at("1.orc"), vec![("VendorID", ints(0..3))]);
    write(&at("2.orc"), vec![("vendorid", longs(3..6))]);
    let context = context(1);
    register(&context, "pair", folder.path()).await;
    assert_eq!(value(&context, r#"SELECT sum("VendorID") FROM pair"#).await, "15");
    // Both spellings in one file are two columns; a third spelling cannot be told.
    write(&at("3.orc"), vec![("VENDORID", ints(0..1))]);
    write(&at("0.orc"), vec![("VendorID", ints(0..1)), ("vendorid", ints(10..11))]);
    let error = failure(&context, &create(folder.path())).await;
    assert!(
        error.contains("3.orc: column VENDORID differs in letter case from 2 columns"),
        "{error}"
    );
}

#[tokio::test]
async fn partition_filters_choose_files_before_they_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (place, rows) in [
        ("year=2019/zone=a/t.orc", 0..10),
        ("year=2020/zone=a/t.orc", 10..30),
        ("year=2020/zone=__HIVE_DEFAULT_PARTITION__/t.orc", 30..60),
    ] {
        write(&at(place), vec![("a", ints(rows))]);
    }
    let context = context(2);
    register(&context, "t", folder.path()).await;
    // The file is no ORC file any more, which only a query that opens it can see.
    fs::write(at("year=2019/zone=a/t.orc"), "damaged").unwrap();
    for (filter, expected) in [
        ("year = 2020", "50"),
        ("year > 2019 AND zone IS NULL", "30"),
        ("year = 2020 AND zone = 'a' AND a >= 15", "15"),
        ("year IN (2020, 2021) AND (zone = 'a' OR year = 2020)", "50"),
        ("year = 2021", "0"),
        ("year = 2020 AND NULL", "0"),
        ("zone = 'b'", "0"),
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {filter}");
        assert_eq!(value(&context, &sql).await, expected, "{filter}");
    }
    let error = failure(&context, "SELECT count(*) FROM t WHERE zone = 'a'").await;
    assert!(error.contains("year=2019/zone=a/t.orc: not an ORC file"), "{error}");
}

/// The variable that tells a test that it is the child of the same test.
const CHILD: &str = "GRAMPUS_TEST_FEW_DESCRIPTORS";

/// A query over 1,000 files, in a process that may open 256.
#[tokio::test]
async fn queries_over_many_files_need_few_descriptors() {
    if let Some(folder) = std::env::var_os(CHILD) {
        let context = context(4);
        register(&context, "t", Path::new(&folder)).await;
        for _ in 0..2 {
            assert_eq!(value(&context, "SELECT sum(a) FROM t").await, "45000");
            assert_eq!(value(&context, "SELECT count(*) FROM t WHERE a > 7").await, "2000");
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("0.orc");
    write(&first, vec![("a", ints(0..10))]);
    for k in 1..1000 {
        fs::copy(&first, folder.path().join(format!("{k}.orc"))).unwrap();
    }
    let child = Command::new("sh")
        .args(["-c", r#"ulimit -n 256 && exec "$0" --exact "$1" --nocapture"#])
        .arg(std::env::current_exe().unwrap())
        .arg("warehouse::queries_over_many_files_need_few_descriptors")
        .env(CHILD, folder.path())
        .output()
        .unwrap();
    let output = format!(
        "{}{}",
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr)
    );
    assert!(child.status.success() && output.contains("1 passed"), "{output}");
}
