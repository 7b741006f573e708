//! SQL behaviour over ORC tables: every `slt/*.slt` file, under settings that must not change any answer.
//!
//! `slt/fixtures.rs` and `slt/evolved.rs` write the tables of the files.

mod support;

#[path = "slt/evolved.rs"]
mod evolved;
#[path = "slt/fixtures.rs"]
mod fixtures;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::execution::context::SQLOptions;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use grampus::session::plan_cache::data_frame;
use sqllogictest::{AsyncDB, ColumnType, DBOutput, Runner, strict_column_validator};

use support::{GPU_SETTINGS, SETTINGS, Setting, gpu_runs, has_compiler};

/// Minimum number of queries in the files of which kernels compute a part.
const KERNEL_QUERIES: usize = 40;

#[test]
fn sql_behaves_the_same_under_every_setting() {
    check(&SETTINGS);
}

/// Runs the files with generated kernels, for the queries of which kernels compute a part.
#[test]
fn sql_behaves_the_same_on_the_gpu_path() {
    if has_compiler("sql_behaves_the_same_on_the_gpu_path") {
        let (computed, given_back) = check(&GPU_SETTINGS);
        println!("{computed} aggregations by kernels, {given_back} given back to the CPU");
        assert!(computed >= 2 * KERNEL_QUERIES, "{computed} aggregations by kernels");
    }
}

/// Runs all files under all settings. Returns the numbers of aggregations that the GPU computed, and that fell back.
fn check(settings: &[Setting]) -> (usize, usize) {
    let (computed, given_back) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let folder = tempfile::tempdir().expect("a temporary folder");
    fixtures::write(folder.path());
    evolved::write(folder.path());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let mut failures = Vec::new();
    for file in files() {
        for setting in settings {
            if let Err(failure) = runtime.block_on(run(&file, folder.path(), setting, &computed, &given_back)) {
                failures.push(format!("{} with {setting:?}\n{failure}", file.display()));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} failed:\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
    (computed.load(Ordering::Relaxed), given_back.load(Ordering::Relaxed))
}

/// The files whose name contains `$GRAMPUS_SLT`, or all.
fn files() -> Vec<PathBuf> {
    let wanted = std::env::var("GRAMPUS_SLT").unwrap_or_default();
    let mut files: Vec<_> = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt"))
        .expect("the folder of .slt files")
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().contains(&wanted))
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no .slt file");
    files
}

async fn run(
    file: &Path,
    data: &Path,
    setting: &Setting,
    computed: &Arc<AtomicUsize>,
    given_back: &Arc<AtomicUsize>,
) -> Result<(), String> {
    let mut runner = Runner::new(|| async {
        let (computed, given_back) = (Arc::clone(computed), Arc::clone(given_back));
        Ok(Database::open(data, setting, computed, given_back).await)
    });
    runner.with_column_validator(strict_column_validator);
    runner.set_var("DIR".to_owned(), data.display().to_string());
    let result = runner.run_file_async(file).await;
    runner.shutdown_async().await;
    result.map_err(|error| error.display(false).to_string())
}

/// One session with the fixtures' tables.
struct Database {
    context: SessionContext,
    /// Aggregations that kernels computed, and aggregations that fell back to the CPU.
    computed: Arc<AtomicUsize>,
    given_back: Arc<AtomicUsize>,
}

impl Database {
    async fn open(data: &Path, setting: &Setting, computed: Arc<AtomicUsize>, given_back: Arc<AtomicUsize>) -> Self {
        let context = setting.context();
        for (name, place) in fixtures::TABLES {
            let location = data.join(place).display().to_string();
            grampus::session::register_orc(&context, name, &location)
                .await
                .unwrap_or_else(|error| panic!("table {name}: {error}"));
        }
        Self {
            context,
            computed,
            given_back,
        }
    }

    async fn answer(&self, sql: &str) -> datafusion::error::Result<(Vec<SqlType>, Vec<Vec<String>>)> {
        let frame = data_frame(&self.context, sql, SQLOptions::new()).await?;
        let types = frame
            .schema()
            .fields()
            .iter()
            .map(|field| SqlType::of(field.data_type()))
            .collect();
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await?;
        let batches = collect(Arc::clone(&plan), task).await?;
        let (computed, given_back) = gpu_runs(&plan);
        self.computed.fetch_add(computed, Ordering::Relaxed);
        self.given_back.fetch_add(given_back, Ordering::Relaxed);
        let mut rows = Vec::new();
        for batch in &batches {
            add_rows(batch, &mut rows)?;
        }
        Ok((types, rows))
    }
}

/// Prints NULL as `NULL`, the empty string as `(empty)`, and everything else as Arrow does.
fn add_rows(batch: &RecordBatch, rows: &mut Vec<Vec<String>>) -> datafusion::error::Result<()> {
    let options = FormatOptions::new().with_null("NULL");
    let columns = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    for row in 0..batch.num_rows() {
        let cells = columns.iter().map(|column| match column.value(row).to_string() {
            empty if empty.is_empty() => "(empty)".to_owned(),
            text => text,
        });
        rows.push(cells.collect());
    }
    Ok(())
}

/// An error with the text for people.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

#[async_trait::async_trait]
impl AsyncDB for Database {
    type Error = Refused;
    type ColumnType = SqlType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<SqlType>, Refused> {
        let (types, rows) = self
            .answer(sql)
            .await
            .map_err(|error| Refused(grampus::error::message(&error)))?;
        Ok(if types.is_empty() {
            DBOutput::StatementComplete(rows.len() as u64)
        } else {
            DBOutput::Rows { types, rows }
        })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "grampus"
    }
}

/// The letter of a column in a `query` line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SqlType {
    /// `B`
    Boolean,
    /// `I`
    Integer,
    /// `R`: floating point and decimal
    Real,
    /// `T`
    Text,
    /// `D`: date, time, timestamp, interval
    Date,
    /// `?`
    Other,
}

impl SqlType {
    fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Boolean,
            integer if integer.is_integer() => Self::Integer,
            number if number.is_numeric() => Self::Real,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            time if time.is_temporal() => Self::Date,
            _ => Self::Other,
        }
    }
}

impl ColumnType for SqlType {
    fn from_char(letter: char) -> Option<Self> {
        Some(match letter {
            'B' => Self::Boolean,
            'I' => Self::Integer,
            'R' => Self::Real,
            'T' => Self::Text,
            'D' => Self::Date,
            '?' => Self::Other,
            _ => return None,
        })
    }

    fn to_char(&self) -> char {
        match self {
            Self::Boolean => 'B',
            Self::Integer => 'I',
            Self::Real => 'R',
            Self::Text => 'T',
            Self::Date => 'D',
            Self::Other => '?',
        }
    }
}
