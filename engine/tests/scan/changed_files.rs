//! Files that change under a query: the answer is that of the planned version, or an error that names the file.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Float64Array, RecordBatch, StringArray};
use arrow::datatypes::Float64Type;
use datafusion::error::Result;
use datafusion::physical_plan::{collect, execute_stream};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use grampus::session;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::WriterProperties;

use super::common::{context_with, register, text, value, write_orc};

const ROWS: u32 = 60_000;
const MODES: [&str; 2] = ["mmap", "read"];
const SUM: &str = "SELECT sum(a) FROM t WHERE a >= 0";

/// `a` counts from `first` on, and `b` is its text.
fn rows(first: u32) -> RecordBatch {
    let numbers = first..first + ROWS;
    let a: ArrayRef = Arc::new(Float64Array::from_iter_values(numbers.clone().map(f64::from)));
    let b: ArrayRef = Arc::new(StringArray::from_iter_values(numbers.map(|n| format!("{n:07}"))));
    RecordBatch::try_from_iter([("a", a), ("b", b)]).unwrap()
}

fn sum_from(first: u32) -> String {
    format!("{:?}", (first..first + ROWS).map(f64::from).sum::<f64>())
}

/// The bytes of a file of [`rows`]. Files that begin with different numbers have the same length.
fn file_bytes(folder: &Path, first: u32, codec: Option<Codec>) -> Vec<u8> {
    let path = folder.join("new");
    let options = WriterProperties {
        codec,
        stripe_rows: 20_000,
        dictionary_threshold: 0.0,
        ..WriterProperties::default()
    };
    write_orc(&path, &[rows(first)], options);
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(path).unwrap();
    bytes
}

struct Table {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Table {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.orc");
        fs::write(&path, file_bytes(folder.path(), 0, None)).unwrap();
        Self { folder, path }
    }

    async fn context(&self, mode: &str, batch_rows: &str) -> SessionContext {
        let settings = [
            ("grampus.local_io", mode),
            ("datafusion.execution.batch_size", batch_rows),
        ];
        let context = context_with(1, &settings).await;
        register(&context, "t", &self.path).await;
        context
    }

    /// Changes one value in place. The length stays.
    fn rewrite(&self) {
        let value = 12_345f64.to_le_bytes();
        let bytes = fs::read(&self.path).unwrap();
        let at = bytes.windows(8).position(|window| window == value).unwrap();
        std::thread::sleep(Duration::from_millis(20)); // file times have steps
        let file = File::options().write(true).open(&self.path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &(-1e9f64).to_le_bytes(), at as u64).unwrap();
    }

    fn truncate(&self, length: u64) {
        let file = File::options().write(true).open(&self.path).unwrap();
        file.set_len(length).unwrap();
    }

    fn append(&self) {
        let mut file = File::options().append(true).open(&self.path).unwrap();
        std::io::Write::write_all(&mut file, b"more").unwrap();
    }

    fn replace(&self) {
        let new = self.folder.path().join("replacement");
        fs::write(&new, file_bytes(self.folder.path(), 7, None)).unwrap();
        fs::rename(new, &self.path).unwrap();
    }

    fn remove(&self) {
        fs::remove_file(&self.path).unwrap();
    }
}

fn is_change(error: &datafusion::error::DataFusionError, difference: &str) {
    let error = grampus::error::message(error);
    for words in [
        "t.orc",
        "the file changed while it was being queried",
        difference,
        "run the query again",
    ] {
        assert!(error.contains(words), "{words} in {error}");
    }
}

/// A change of a table, and the words for the difference.
type Change = (fn(&Table), &'static str);

const CHANGES: [Change; 4] = [
    (Table::rewrite, "written to"),
    (|table| table.truncate(100_000), "has 100000 now"),
    (|table| table.truncate(0), "has 0 now"),
    (Table::append, "now"),
];

#[tokio::test]
async fn kept_plan_over_a_changed_file_is_an_error() {
    for mode in MODES {
        for (change, difference) in CHANGES {
            let table = Table::new();
            let context = table.context(mode, "8192").await;
            let plan = context.sql(SUM).await.unwrap().create_physical_plan().await.unwrap();
            collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
            change(&table);
            let error = collect(plan, context.task_ctx()).await.unwrap_err();
            is_change(&error, difference);
        }
    }
}

#[tokio::test]
async fn change_during_a_query_ends_it() {
    for mode in MODES {
        for sql in ["SELECT a FROM t", "SELECT a, b FROM t WHERE a >= 0"] {
            for (change, difference) in CHANGES {
                let table = Table::new();
                let context = table.context(mode, "100").await;
                let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
                let mut stream = execute_stream(plan, context.task_ctx()).unwrap();
                let first = stream.next().await.unwrap().unwrap();
                assert_eq!(first.column(0).as_primitive::<Float64Type>().value(99), 99.0);
                change(&table);
                let rest: Vec<Result<RecordBatch>> = stream.collect().await;
                // Batches that were made before the change may still come.
                let (last, before) = rest.split_last().unwrap();
                is_change(last.as_ref().unwrap_err(), difference);
                let mut next = 100.0;
                for batch in before {
                    let numbers = batch.as_ref().unwrap().column(0).as_primitive::<Float64Type>();
                    assert!(numbers.values().iter().all(|number| {
                        next += 1.0;
                        *number == next - 1.0
                    }));
                }
            }
        }
    }
}

#[tokio::test]
async fn replaced_or_removed_file_is_read_to_its_end() {
    for mode in MODES {
        for change in [Table::replace, Table::remove] {
            let table = Table::new();
            let context = table.context(mode, "100").await;
            let plan = context.sql("SELECT a FROM t").await.unwrap();
            let plan = plan.create_physical_plan().await.unwrap();
            let mut stream = execute_stream(Arc::clone(&plan), context.task_ctx()).unwrap();
            let mut sum = 0.0;
            change(&table);
            while let Some(batch) = stream.next().await {
                let batch = batch.unwrap();
                sum += batch
                    .column(0)
                    .as_primitive::<Float64Type>()
                    .values()
                    .iter()
                    .sum::<f64>();
            }
            assert_eq!(format!("{sum:?}"), sum_from(0));
        }
        let table = Table::new();
        let context = table.context(mode, "100").await;
        assert_eq!(value(&context, SUM).await, sum_from(0));
        table.replace();
        assert_eq!(
            value(&context, SUM).await,
            sum_from(7),
            "the next query sees the new file"
        );
    }
}

fn numbers(batches: &[RecordBatch]) -> Vec<f64> {
    let columns = batches
        .iter()
        .map(|batch| batch.column(0).as_primitive::<Float64Type>());
    columns.flat_map(|column| column.values().to_vec()).collect()
}

#[tokio::test]
async fn batches_outlive_changes_of_the_file() {
    for mode in MODES {
        for (change, _) in CHANGES {
            for sql in [
                "SELECT a FROM t",
                "SELECT a FROM t WHERE a >= 0",
                "SELECT a, b FROM t WHERE a > -1",
            ] {
                let table = Table::new();
                let context = table.context(mode, "8192").await;
                let kept = context.sql(sql).await.unwrap().collect().await.unwrap();
                let before = numbers(&kept);
                assert_eq!(before.len(), ROWS as usize);
                change(&table);
                assert!(numbers(&kept) == before, "{mode}, {sql}");
            }
        }
    }
}

#[tokio::test]
async fn stream_dropped_early_reports_nothing() {
    for mode in MODES {
        let table = Table::new();
        let context = table.context(mode, "100").await;
        let plan = context.sql("SELECT a FROM t").await.unwrap();
        let mut stream = execute_stream(plan.create_physical_plan().await.unwrap(), context.task_ctx()).unwrap();
        stream.next().await.unwrap().unwrap();
        table.rewrite();
        drop(stream);
        // Each batch of a limited query was checked before it left the scan.
        assert_eq!(value(&context, "SELECT a FROM t LIMIT 1").await, "0.0");
    }
}

/// Changes the file at random moments of many queries. Every query returns the answer of one version, or an error about
/// the change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_at_random_moments_give_one_version_or_an_error() {
    let mut outcomes = [0usize; 2];
    for (mode, codec) in [
        ("mmap", None),
        ("read", None),
        ("mmap", Some(Codec::Zstd)),
        ("mmap", Some(Codec::Snappy)),
    ] {
        let table = Table::new();
        let versions = [0, 1_000_000].map(|first| file_bytes(table.folder.path(), first, codec));
        fs::write(&table.path, &versions[0]).unwrap();
        let context = table.context(mode, "8192").await;
        let sql = "SELECT count(*), sum(a), min(b), max(b) FROM t WHERE a >= 0 AND b <> ''";
        let mut answers = Vec::new();
        for version in &versions {
            fs::write(&table.path, version).unwrap();
            answers.push(text(&context.sql(sql).await.unwrap().collect().await.unwrap()));
        }
        assert_ne!(answers[0], answers[1]);
        let stop = Arc::new(AtomicBool::new(false));
        let (path, flag) = (table.path.clone(), Arc::clone(&stop));
        let changes = std::thread::spawn(move || {
            let mut state = 1u64;
            let mut random = || {
                // A linear congruential generator, Knuth's constants.
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state >> 33
            };
            while !flag.load(Ordering::Relaxed) {
                let version = &versions[random() as usize % 2];
                match random() % 4 {
                    0 => fs::write(&path, version).unwrap(), // truncates first
                    1 => {
                        let file = File::options().write(true).open(&path).unwrap();
                        file.set_len(random() % version.len() as u64).unwrap();
                    }
                    2 => {
                        let file = File::options().write(true).open(&path).unwrap();
                        std::os::unix::fs::FileExt::write_all_at(&file, version, 0).unwrap();
                        file.set_len(version.len() as u64).unwrap();
                    }
                    _ => {
                        fs::write(path.with_extension("new"), version).unwrap();
                        fs::rename(path.with_extension("new"), &path).unwrap();
                    }
                }
                std::thread::sleep(Duration::from_millis(11 + random() % 15)); // file times have steps
            }
        });
        for _ in 0..40 {
            let outcome = async { context.sql(sql).await?.collect().await }.await;
            match outcome.map(|batches| text(&batches)) {
                Ok(answer) => {
                    assert!(answers.contains(&answer), "{mode}: {answer}");
                    outcomes[0] += 1;
                }
                Err(error) => {
                    let error = grampus::error::message(&error);
                    assert!(error.contains("t.orc"), "{mode}: {error}");
                    outcomes[1] += 1;
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        changes.join().unwrap();
    }
    println!("{} answers, {} errors", outcomes[0], outcomes[1]);
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
}

#[tokio::test]
async fn session_tables_of_one_folder_see_each_version_whole() {
    let table = Table::new();
    let context = table.context("mmap", "8192").await;
    session::register_orc(&context, "u", table.path.to_str().unwrap())
        .await
        .unwrap();
    assert_eq!(value(&context, SUM).await, sum_from(0));
    table.rewrite();
    let sum = (0..ROWS).map(f64::from).sum::<f64>() - 12_345.0;
    assert_eq!(
        value(&context, SUM).await,
        format!("{sum:?}"),
        "the changed value does not pass"
    );
    assert_eq!(
        value(&context, &SUM.replace("FROM t", "FROM u")).await,
        format!("{sum:?}")
    );
}
