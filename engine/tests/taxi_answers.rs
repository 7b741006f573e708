//! The queries of `queries/` on a sample of real trips give the answers of another engine.
//!
//! The tables are ORC files of other writers, and Parquet files converted by `grampus-tools`, in every codec and with
//! several numbers of partitions.
//!
//! The sample is not part of the project. The tests look in `shared/data/taxi` beside the workspace, or under
//! `GRAMPUS_SHARED`. Without the sample, the tests are ignored.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use grampus::config::GrampusConfig;
use grampus::session;
use grampus_orc_layout::codec::Codec;
use grampus_tools::convert::{ConvertOptions, convert};
use serde_json::Value;

/// Maximum relative difference of floats, because the order of additions differs.
const TOLERANCE: f64 = 1e-9;

/// The folder of the sample, if it is there.
fn data() -> Option<PathBuf> {
    let answers = grampus_test_support::data("taxi/answers.json")?;
    Some(answers.parent()?.to_owned())
}

/// The queries by name, and the answers of one data set by query.
struct Answers {
    sql: BTreeMap<String, String>,
    answers: Value,
}

fn answers(folder: &Path, set: &str) -> Answers {
    let text = fs::read_to_string(folder.join("answers.json")).unwrap();
    let mut json: Value = serde_json::from_str(&text).unwrap();
    Answers {
        sql: serde_json::from_value(json["sql"].take()).unwrap(),
        answers: json["answers"][set].take(),
    }
}

/// Runs all queries on the table at `location` and compares the answers.
async fn check(location: &Path, answers: &Answers, target_partitions: usize) {
    let context = session::context(GrampusConfig {
        target_partitions: Some(target_partitions),
        ..GrampusConfig::default()
    })
    .unwrap();
    let location = location.to_str().unwrap();
    session::register_orc(&context, "trips", location).await.unwrap();
    for (name, sql) in &answers.sql {
        let what = format!("{name} on {location}, {target_partitions} partitions");
        let frame = context.sql(sql).await.unwrap_or_else(|e| panic!("{what}: {e}"));
        let batches = frame.collect().await.unwrap_or_else(|e| panic!("{what}: {e}"));
        compare(&batches, &answers.answers[name], &what);
    }
}

fn compare(batches: &[RecordBatch], wanted: &Value, what: &str) {
    let columns = wanted["columns"].as_array().unwrap();
    let rows = wanted["rows"].as_array().unwrap();
    let found: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(found, rows.len(), "{what}: rows");
    let mut rows = rows.iter();
    for batch in batches {
        let names: Vec<_> = batch
            .schema()
            .fields()
            .iter()
            .map(|f| Value::from(f.name().as_str()))
            .collect();
        assert_eq!(&names, columns, "{what}: column names");
        for (row, wanted) in (0..batch.num_rows()).zip(&mut rows) {
            for (array, wanted) in batch.columns().iter().zip(wanted.as_array().unwrap()) {
                assert!(
                    equal(array, row, wanted),
                    "{what}: {} instead of {wanted}",
                    show(array, row)
                );
            }
        }
    }
}

fn show(array: &ArrayRef, row: usize) -> String {
    arrow::util::display::array_value_to_string(array, row).unwrap()
}

fn equal(array: &ArrayRef, row: usize, wanted: &Value) -> bool {
    if array.is_null(row) || wanted.is_null() {
        return array.is_null(row) && wanted.is_null();
    }
    let value = || array.slice(row, 1);
    match (array.data_type(), wanted) {
        (DataType::Float64, Value::Number(wanted)) => {
            let (found, wanted) = (value().as_primitive::<Float64Type>().value(0), wanted.as_f64().unwrap());
            (found - wanted).abs() <= TOLERANCE * wanted.abs()
        }
        (t, Value::Number(wanted)) if t.is_integer() => {
            let found = cast(&value(), &DataType::Int64).unwrap();
            wanted.as_i64() == Some(found.as_primitive::<Int64Type>().value(0))
        }
        (DataType::Timestamp(..), Value::String(wanted)) => show(array, row).replace('T', " ") == *wanted,
        (_, Value::String(wanted)) => show(array, row) == *wanted,
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn orc_files_of_other_writers_give_the_stored_answers() {
    let Some(folder) = data() else { return };
    let answers = answers(&folder, "yellow_90k");
    let files = [
        ("uncompressed", 1),
        ("uncompressed", 5),
        ("zlib", 3),
        ("snappy", 1),
        ("lz4", 4),
        ("zstd", 2),
    ];
    for (codec, target_partitions) in files {
        let file = folder.join(format!("yellow_90k_{codec}.orc"));
        check(&file, &answers, target_partitions).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn converted_parquet_gives_the_stored_answers() {
    let Some(folder) = data() else { return };
    let answers = answers(&folder, "yellow_2018_2020");
    let out = tempfile::tempdir().unwrap();
    // One file with several stripes, several files, and original chunks in a compressed file. Each has another codec.
    let amounts = &["total_amount", "extra", "tolls_amount", "mta_tax"][..];
    let cases = [
        ("none", None, None, &[][..], 7),
        ("snappy", Some(Codec::Snappy), Some(100_000), amounts, 1),
        ("zstd", Some(Codec::Zstd), None, &[], 2),
        ("lz4", Some(Codec::Lz4), Some(300_000), &["trip_distance"], 5),
        ("zlib", Some(Codec::Zlib), None, &[], 3),
    ];
    for (name, codec, rows_per_file, direct, target_partitions) in cases {
        let options = ConvertOptions {
            inputs: vec![folder.join("yellow_2018_2020.parquet")],
            out: out.path().join(name),
            codec,
            rows_per_file,
            stripe_rows: Some(80_000),
            direct_columns: direct.iter().map(|d| (*d).to_owned()).collect(),
            ..ConvertOptions::default()
        };
        let report = convert(&options, &|_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.rows, 360_000);
        check(&options.out, &answers, target_partitions).await;
    }
}

/// The words of a query, without comments and line ends.
fn words(sql: &str) -> String {
    let lines = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
    let words: Vec<_> = lines.flat_map(str::split_whitespace).collect();
    words.join(" ").trim_end_matches(';').trim_end().to_owned()
}

#[test]
fn query_files_have_the_answered_questions() {
    let Some(folder) = data() else { return };
    let asked = answers(&folder, "yellow_90k").sql;
    let queries = Path::new(env!("CARGO_MANIFEST_DIR")).join("../queries");
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(queries).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "sql") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            found.insert(name, words(&fs::read_to_string(&path).unwrap()));
        }
    }
    let asked: BTreeMap<_, _> = asked.iter().map(|(name, sql)| (name.clone(), words(sql))).collect();
    assert_eq!(found, asked);
}
