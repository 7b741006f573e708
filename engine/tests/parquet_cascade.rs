//! The cascade over Parquet files: random filters, joins and sorts with a limit beside the same rows in memory.
//!
//! The files differ in row groups, pages, statistics, dictionaries, page indexes, bloom filters and schemas.
//! `GRAMPUS_TEST_SEED` and `GRAMPUS_TEST_CASES` replay and repeat the random tests.

mod support;

use std::fs::{File, create_dir_all};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::file::properties::{EnabledStatistics, WriterProperties};
use datafusion::prelude::SessionContext;
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;

use support::SETTINGS;
use support::seeds::{number, random, seeds};

/// Values with NULLs among them.
fn values<T>(rng: &mut ChaCha8Rng, rows: usize, mut value: impl FnMut(&mut ChaCha8Rng, usize) -> T) -> Vec<Option<T>> {
    let nulls = *[0.0, 0.1, 0.9].choose(rng).unwrap();
    (0..rows)
        .map(|row| (!rng.random_bool(nulls)).then(|| value(rng, row)))
        .collect()
}

const FLOATS: [f64; 8] = [0.0, -0.0, f64::NAN, 1.5, -3.25, f64::INFINITY, f64::NEG_INFINITY, 7.0];
const WORDS: [&str; 6] = ["", "ant", "bee", "a longer word than fits a view", "cat", "ünïcode"];

/// Rows whose `id` ascends from `first`, so that bounds exclude row groups and pages.
fn rows(rng: &mut ChaCha8Rng, first: i64, rows: usize) -> RecordBatch {
    let id = Int64Array::from_iter_values((0..rows as i64).map(|row| first + row));
    let key = Int32Array::from(values(rng, rows, |rng, _| rng.random_range(0..20)));
    let x = Float64Array::from(values(rng, rows, |rng, _| *FLOATS.choose(rng).unwrap()));
    let word = StringArray::from(values(rng, rows, |rng, _| *WORDS.choose(rng).unwrap()));
    let text = StringArray::from(values(rng, rows, |rng, row| {
        format!("text {row} {}", rng.random::<u32>())
    }));
    let day = Date32Array::from(values(rng, rows, |rng, row| (row / 16) as i32 + rng.random_range(0..5)));
    let price = values(rng, rows, |rng, _| i128::from(rng.random_range(-5000..5000i32)));
    let price = Decimal128Array::from(price).with_precision_and_scale(12, 2).unwrap();
    let flag = BooleanArray::from(values(rng, rows, |rng, _| rng.random()));
    let time = TimestampMicrosecondArray::from(values(rng, rows, |rng, row| {
        row as i64 * 1_000_000 + rng.random_range(0..999)
    }));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(id)),
        ("key", Arc::new(key)),
        ("x", Arc::new(x)),
        ("word", Arc::new(word)),
        ("text", Arc::new(text)),
        ("day", Arc::new(day)),
        ("price", Arc::new(price)),
        ("flag", Arc::new(flag)),
        ("time", Arc::new(time)),
    ];
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn properties(rng: &mut ChaCha8Rng, rows: usize) -> WriterProperties {
    let statistics = [
        EnabledStatistics::None,
        EnabledStatistics::Chunk,
        EnabledStatistics::Page,
    ];
    let page_rows = rng.random_range(1..=rows / 2 + 1);
    WriterProperties::builder()
        .set_max_row_group_row_count(Some(rng.random_range(rows / 5 + 1..=rows + 1)))
        .set_data_page_row_count_limit(page_rows)
        .set_write_batch_size(page_rows)
        .set_statistics_enabled(*statistics.choose(rng).unwrap())
        .set_offset_index_disabled(rng.random_bool(0.3))
        .set_dictionary_enabled(rng.random())
        .set_bloom_filter_enabled(rng.random_bool(0.3))
        .set_compression(*[Compression::UNCOMPRESSED, Compression::SNAPPY].choose(rng).unwrap())
        .build()
}

fn write(path: &Path, rows: &RecordBatch, properties: WriterProperties) {
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), rows.schema(), Some(properties)).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
}

async fn run(context: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let frame = context.sql(sql).await.map_err(|error| format!("{sql}: {error}"))?;
    let batches = frame.collect().await.map_err(|error| format!("{sql}: {error}"))?;
    let options = FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns: Vec<_> = (batch.columns().iter())
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            rows.push(cells.join("|"));
        }
    }
    Ok(rows)
}

/// The rows in any order.
async fn sorted(context: &SessionContext, sql: &str) -> Vec<String> {
    let mut rows = run(context, sql).await.unwrap();
    rows.sort_unstable();
    rows
}

fn condition(rng: &mut ChaCha8Rng, rows: usize) -> String {
    let row = rng.random_range(0..rows);
    let comparison = *["=", "<>", "<", "<=", ">", ">="].choose(rng).unwrap();
    match rng.random_range(0..16) {
        0 => format!("id {comparison} {row}"),
        1 => format!("id BETWEEN {row} AND {}", row + rng.random_range(0..40)),
        2 => format!("key {comparison} {}", rng.random_range(0..20)),
        3 => "key IN (1, 3, 5, 7)".to_owned(),
        4 => "key IS NULL".to_owned(),
        5 => format!(
            "x {comparison} {}",
            ["0.0", "-0.0", "1.5", "7.0", "'NaN'::DOUBLE"].choose(rng).unwrap()
        ),
        6 => "x IN (0.0, 1.5)".to_owned(),
        7 => format!("word {comparison} '{}'", WORDS.choose(rng).unwrap()),
        8 => "word LIKE '%a%'".to_owned(),
        9 => format!("text LIKE '%{}%'", rng.random_range(0..99)),
        10 => format!(
            "day {comparison} DATE '1970-01-01' + {}",
            rng.random_range(0..rows / 16 + 3)
        ),
        11 => format!("price {comparison} {}", rng.random_range(-50..50)),
        12 => "flag".to_owned(),
        13 => "flag IS NOT TRUE".to_owned(),
        14 => format!("time {comparison} '1970-01-01T00:00:00'::TIMESTAMP + INTERVAL '{row} seconds'"),
        _ => format!("(key = {} OR id < {row})", rng.random_range(0..20)),
    }
}

const COLUMNS: [&str; 9] = ["id", "key", "x", "word", "text", "day", "price", "flag", "time"];

fn query(rng: &mut ChaCha8Rng, rows: usize) -> String {
    let count = rng.random_range(0..5);
    let conditions: Vec<String> = (0..count).map(|_| condition(rng, rows)).collect();
    let filter = match conditions.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", conditions.join(" AND ")),
    };
    let width = rng.random_range(1..=COLUMNS.len());
    let columns: Vec<&str> = COLUMNS.choose_multiple(rng, width).copied().collect();
    let columns = columns.join(", ");
    match rng.random_range(0..6) {
        0 => format!("SELECT count(*) FROM t{filter}"),
        1 => format!("SELECT count(*), count(key), sum(price), min(word), max(day) FROM t{filter}"),
        2 => format!("SELECT {columns}, id AS i FROM t{filter} ORDER BY key DESC NULLS LAST, id LIMIT 7"),
        3 => format!("SELECT {columns}, id AS i FROM t{filter} ORDER BY id DESC LIMIT 3"),
        4 => {
            let few = rng.random_range(0..8);
            format!("SELECT {columns}, n FROM (SELECT * FROM t{filter}) JOIN small ON key = k WHERE n < {few}")
        }
        _ => format!("SELECT {columns} FROM t{filter}"),
    }
}

/// A session over the Parquet files at `location` as `t`, with the cascade or without.
async fn over_files(setting: usize, location: &Path, small: &RecordBatch, has_cascade: bool) -> SessionContext {
    let context = SETTINGS[setting].context();
    let switch = format!("SET grampus.parquet_cascade = {has_cascade}");
    context.sql(&switch).await.unwrap().collect().await.unwrap();
    grampus::session::register_files(&context, "t", location.to_str().unwrap())
        .await
        .unwrap();
    support::register_rows(&context, "small", small);
    context
}

fn small() -> RecordBatch {
    let keys: ArrayRef = Arc::new(Int32Array::from(vec![
        Some(1),
        Some(2),
        Some(2),
        None,
        Some(19),
        Some(40),
    ]));
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![0, 1, 2, 3, 4, 5]));
    RecordBatch::try_from_iter_with_nullable([("k", keys, true), ("n", numbers, true)]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_over_parquet_answer_as_over_rows_in_memory() {
    for seed in seeds(8) {
        let mut rng = random(seed);
        let rows_of_file = rng.random_range(1..600);
        let files = rng.random_range(1..=3);
        let folder = tempfile::tempdir().unwrap();
        let batches: Vec<RecordBatch> = (0..files)
            .map(|file| rows(&mut rng, (file * rows_of_file) as i64, rows_of_file))
            .collect();
        for (file, batch) in batches.iter().enumerate() {
            let path = folder.path().join(format!("{file}.parquet"));
            write(&path, batch, properties(&mut rng, rows_of_file));
        }
        let all = support::one_batch(&batches[0].schema(), &batches);
        let memory = SETTINGS[0].context();
        support::register_rows(&memory, "t", &all);
        support::register_rows(&memory, "small", &small());
        let location = folder.path().join("*.parquet");
        let setting = rng.random_range(0..SETTINGS.len());
        let context = over_files(setting, &location, &small(), true).await;
        for _ in 0..number("GRAMPUS_TEST_QUERIES").unwrap_or(25) {
            let sql = query(&mut rng, files * rows_of_file);
            assert_eq!(sorted(&context, &sql).await, sorted(&memory, &sql).await, "{sql}");
        }
    }
}

/// The columns of a file that was written before the table had its present schema.
fn evolved(batch: &RecordBatch) -> (RecordBatch, RecordBatch) {
    let column = |name: &str| Arc::clone(batch.column_by_name(name).unwrap());
    let narrow = cast(&column("id"), &DataType::Int32).unwrap();
    let stored: Vec<(&str, ArrayRef, bool)> = vec![
        ("word", column("word"), true),
        ("price", column("price"), true),
        ("id", narrow, true),
        ("text", column("text"), true),
    ];
    let schema = batch.schema();
    let wanted = schema.fields().iter().map(|field| {
        let name = field.name().as_str();
        let is_stored = stored.iter().any(|(stored, ..)| *stored == name);
        let array = match is_stored {
            true => column(name),
            false => arrow::array::new_null_array(field.data_type(), batch.num_rows()),
        };
        (name.to_owned(), array, true)
    });
    let wanted: Vec<_> = wanted.collect();
    let stored = RecordBatch::try_from_iter_with_nullable(stored).unwrap();
    (stored, RecordBatch::try_from_iter_with_nullable(wanted).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_lack_columns_and_partition_columns_answer_as_rows_in_memory() {
    for seed in seeds(4) {
        let mut rng = random(seed);
        let count = rng.random_range(20..300);
        let folder = tempfile::tempdir().unwrap();
        let new = rows(&mut rng, 0, count);
        let (stored, old) = evolved(&rows(&mut rng, count as i64, count));
        for (part, batch) in [("part=1", &new), ("part=2", &stored)] {
            create_dir_all(folder.path().join(part)).unwrap();
            let path = folder.path().join(part).join("rows.parquet");
            write(&path, batch, properties(&mut rng, count));
        }
        let memory = SETTINGS[0].context();
        support::register_rows(&memory, "rows", &support::one_batch(&new.schema(), &[new.clone(), old]));
        let view = format!("CREATE VIEW t AS SELECT *, CASE WHEN id < {count} THEN 1 ELSE 2 END AS part FROM rows");
        memory.sql(&view).await.unwrap().collect().await.unwrap();
        support::register_rows(&memory, "small", &small());
        let location = format!("{}/", folder.path().display());
        for has_cascade in [true, false] {
            let context = SETTINGS[rng.random_range(0..SETTINGS.len())].context();
            let columns = "id BIGINT, \"key\" INT, x DOUBLE, word TEXT, text TEXT, day DATE, price DECIMAL(12, 2), \
                           flag BOOLEAN, time TIMESTAMP, part INT";
            let create = format!(
                "CREATE EXTERNAL TABLE t ({columns}) STORED AS PARQUET PARTITIONED BY (part) LOCATION '{location}'"
            );
            let switch = format!("SET grampus.parquet_cascade = {has_cascade}");
            for statement in [switch, create] {
                run(&context, &statement).await.unwrap();
            }
            support::register_rows(&context, "small", &small());
            for _ in 0..20 {
                let sql = query(&mut rng, 2 * count);
                let part = *["", " AND part = 1", " AND part > 1"].choose(&mut rng).unwrap();
                let sql = match sql.contains(" WHERE ") {
                    true => sql.replacen(" WHERE ", &format!(" WHERE 1 = 1{part} AND "), 1),
                    false => sql,
                };
                assert_eq!(
                    sorted(&context, &sql).await,
                    sorted(&memory, &sql).await,
                    "cascade {has_cascade}: {sql}"
                );
            }
        }
    }
}

/// A file of `rows` rows in row groups of `group` and pages of `page` rows.
fn table_of(folder: &Path, count: usize, group: usize, page: usize) -> std::path::PathBuf {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let path = folder.join("t.parquet");
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(group))
        .set_data_page_row_count_limit(page)
        .set_write_batch_size(page)
        .set_dictionary_enabled(false)
        .build();
    write(&path, &rows(&mut rng, 0, count), properties);
    path
}

/// The value of a metric of the scan in EXPLAIN ANALYZE.
fn metric(explained: &[String], name: &str) -> String {
    let scan = explained.iter().flat_map(|plan| plan.lines());
    let scan = scan.filter(|line| line.contains("DataSourceExec")).collect::<String>();
    let at = scan
        .find(&format!("{name}="))
        .unwrap_or_else(|| panic!("no {name}: {explained:?}"));
    let value = &scan[at + name.len() + 1..];
    value.split([',', ']']).next().unwrap().to_owned()
}

#[tokio::test]
async fn later_columns_are_read_for_rows_that_passed() {
    let folder = tempfile::tempdir().unwrap();
    let path = table_of(folder.path(), 4000, 4000, 100);
    let context = over_files(0, &path, &small(), true).await;
    let plan = run(&context, "EXPLAIN SELECT text FROM t WHERE id % 1000 = 3")
        .await
        .unwrap();
    let plan = plan.join("\n");
    assert!(
        plan.contains("filter_by=cascade") && !plan.contains("FilterExec"),
        "{plan}"
    );
    let few = run(&context, "EXPLAIN ANALYZE SELECT text FROM t WHERE id % 1000 = 3")
        .await
        .unwrap();
    assert_eq!(metric(&few, "rows_scanned"), "4.00 K");
    assert_eq!(metric(&few, "rows_passed"), "4");
    let bytes = |explained: &[String]| {
        let text = metric(explained, "bytes_scanned");
        let mut words = text.split(' ');
        let number: f64 = words.next().unwrap().parse().unwrap();
        number * if words.next() == Some("K") { 1e3 } else { 1.0 }
    };
    let all = run(&context, "EXPLAIN ANALYZE SELECT text FROM t WHERE id % 1000 >= 0")
        .await
        .unwrap();
    // Four of forty pages, and the filter's column.
    assert!(bytes(&few) < 0.6 * bytes(&all), "{few:?} {all:?}");
}

#[tokio::test]
async fn the_keys_of_a_join_exclude_rows_of_its_other_side() {
    let folder = tempfile::tempdir().unwrap();
    let path = table_of(folder.path(), 200_000, 50_000, 1000);
    let context = over_files(0, &path, &small(), true).await;
    let sql = "SELECT count(text) FROM t JOIN small ON key = k WHERE n = 4";
    let explained = run(&context, &format!("EXPLAIN ANALYZE {sql}")).await.unwrap();
    let passed = metric(&explained, "rows_passed");
    // One of 20 keys.
    assert!(
        passed.ends_with(" K") && passed[..passed.len() - 2].parse::<f64>().unwrap() < 15.0,
        "{passed}"
    );
}

#[tokio::test]
async fn the_threshold_of_a_sort_excludes_row_groups() {
    let folder = tempfile::tempdir().unwrap();
    let path = table_of(folder.path(), 20_000, 1000, 100);
    let context = over_files(0, &path, &small(), true).await;
    for order in ["id", "id DESC"] {
        let sql = format!("SELECT text FROM t WHERE key >= 0 OR key IS NULL ORDER BY {order} LIMIT 3");
        let explained = run(&context, &format!("EXPLAIN ANALYZE {sql}")).await.unwrap();
        assert_eq!(metric(&explained, "row_groups_pruned_dynamic"), "19", "{explained:?}");
        assert_eq!(metric(&explained, "rows_scanned"), "1.00 K", "{explained:?}");
    }
}

#[tokio::test]
async fn conditions_that_may_fail_see_rows_that_passed_those_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = table_of(folder.path(), 3000, 1000, 100);
    let context = over_files(2, &path, &small(), true).await;
    let count = "SELECT count(*) FROM t WHERE id > 0 AND 100 / id = 1";
    assert_eq!(run(&context, count).await.unwrap(), ["50"]);
    let error = run(&context, "SELECT count(*) FROM t WHERE 100 / id = 1")
        .await
        .unwrap_err();
    assert!(error.contains("ivide by zero"), "{error}");
    // Conditions that are drawn anew stay above the scan.
    let plan = run(&context, "EXPLAIN SELECT id FROM t WHERE random() < 0.5 AND id > 3")
        .await
        .unwrap();
    assert!(plan.join("\n").contains("FilterExec: random()"), "{plan:?}");
}

#[tokio::test]
async fn the_setting_leaves_parquet_to_datafusion() {
    let folder = tempfile::tempdir().unwrap();
    let path = table_of(folder.path(), 3000, 1000, 100);
    let context = over_files(2, &path, &small(), false).await;
    let plan = run(&context, "EXPLAIN SELECT text FROM t WHERE id = 3")
        .await
        .unwrap()
        .join("\n");
    assert!(!plan.contains("cascade") && plan.contains("FilterExec"), "{plan}");
}

#[tokio::test]
async fn a_plan_that_runs_twice_answers_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = table_of(folder.path(), 3000, 500, 100);
    let context = over_files(2, &path, &small(), true).await;
    for sql in [
        "SELECT id FROM t WHERE id >= 0 ORDER BY id LIMIT 2",
        "SELECT id FROM t JOIN small ON key = k WHERE n = 1 ORDER BY id LIMIT 2",
    ] {
        let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let mut answers = Vec::new();
        for _ in 0..3 {
            // As a recursive query runs its plans.
            let plan = datafusion::physical_plan::execution_plan::reset_plan_states(Arc::clone(&plan)).unwrap();
            let batches = datafusion::physical_plan::collect(plan, context.task_ctx())
                .await
                .unwrap();
            answers.push(support::one_batch(&batches[0].schema(), &batches));
        }
        assert_eq!(answers[0], answers[1], "{sql}");
        assert_eq!(answers[0], answers[2], "{sql}");
        assert_eq!(answers[0].num_rows(), 2);
    }
}
