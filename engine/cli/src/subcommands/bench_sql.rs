//! `grampus bench sql`: the time of each statement in one session, from its text to its last row, and its bytes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::json::writer::LineDelimited;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use grampus::session::plan_cache::plan_sql;
use grampus::{ScanIo, scan_io};
use serde::Serialize;

use crate::args::BenchSqlArgs;
use crate::column_headings::{unique, with_names};
use crate::error_messages::explain_alone;
use crate::exit_error::{ErrorReport, ExitError};
use crate::interrupts::{InterruptWatch, with_interrupts};
use crate::output::write_file;
use crate::setting::Setting;
use crate::terminal::note;
use crate::threads::Threads;
use crate::{disk_reads, scratch_folder, session, session_tables, units};

/// The runs of one statement.
#[derive(Debug, Serialize)]
struct Measured {
    /// The file's name without its ending, or the statement's number.
    name: String,
    sql: String,
    /// Milliseconds of the session's first run of this statement.
    first_ms: f64,
    /// Milliseconds of each later run.
    runs_ms: Vec<f64>,
    /// Median of `runs_ms`.
    median_ms: f64,
    /// The names of the answer's columns, in its order. Repeated names have numbers.
    columns: Vec<String>,
    /// The first run's rows as JSON objects, in the order of the answer. All runs had equal rows.
    #[serde(skip)]
    rows: Vec<String>,
    needed_bytes: u64,
    moved_bytes: u64,
    rows_passed: u64,
    /// Bytes that the first run needed. The figures above are of the last run.
    first_needed_bytes: u64,
    /// Bytes that the first run moved.
    first_moved_bytes: u64,
    /// Bytes that disks read for the first run, and ahead of it; `null`: the system does not say.
    first_disk_bytes: Option<u64>,
    /// The lines of the physical plan with its metrics after the first run. That run may have compiled, read and
    /// registered more than later runs.
    first_plan: Vec<String>,
    /// The lines of the physical plan after each later run.
    plans: Vec<Vec<String>>,
}

/// The program and its settings. The JSON object has the statements too.
#[derive(Debug, Serialize)]
struct Setup<'a> {
    version: &'static str,
    tables: &'a [String],
    settings: Vec<String>,
}

/// The answer of one run.
struct Run {
    time: Duration,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    io: ScanIo,
    disk_bytes: Option<u64>,
    plan: String,
}

/// Runs the benchmark.
pub(crate) fn run(arguments: &BenchSqlArgs) -> Result<(), ExitError> {
    let statements = statements(arguments)?;
    with_interrupts(|watch| {
        let _scratch = scratch_folder::create_if_possible(arguments.resources.temp_folder.as_deref())?;
        let threads = Threads::start(arguments.resources.partitions)?;
        let context = session::open(&arguments.resources, false)?;
        open_tables(&context, &threads, arguments, watch)?;
        let mut measured = Vec::with_capacity(statements.len());
        for (name, sql) in statements {
            let one = measure(&context, &threads, name, sql, arguments.runs, watch)?;
            note(format_args!(
                "{:<12} first {:>9.3} ms, then {:>9.3} ms (median of {}), needed {}, moved {}",
                one.name,
                one.first_ms,
                one.median_ms,
                one.runs_ms.len(),
                units::bytes(one.needed_bytes),
                units::bytes(one.moved_bytes),
            ));
            measured.push(one);
        }
        let setup = Setup {
            version: env!("CARGO_PKG_VERSION"),
            tables: &arguments.tables,
            settings: arguments.resources.settings.iter().map(Setting::to_string).collect(),
        };
        match &arguments.json {
            Some(path) => write_json(path, &setup, &measured),
            None => Ok(()),
        }
    })
}

/// Names and texts, in order: files first.
fn statements(arguments: &BenchSqlArgs) -> Result<Vec<(String, String)>, ExitError> {
    let mut statements = Vec::new();
    for path in &arguments.files {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| ErrorReport::file("read", &shown, &error))?;
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
        statements.push((name.into_owned(), text));
    }
    for (at, sql) in arguments.commands.iter().enumerate() {
        statements.push((format!("c{}", at + 1), sql.clone()));
    }
    if statements.is_empty() {
        let report = ErrorReport::new("no statement to measure");
        return Err(ExitError::Usage(report.hint("name files of SQL, or give -c SQL")));
    }
    Ok(statements)
}

/// Opens the tables.
fn open_tables(
    context: &SessionContext,
    threads: &Threads,
    arguments: &BenchSqlArgs,
    watch: &InterruptWatch,
) -> Result<(), ExitError> {
    for spec in session_tables::specs(&[], &arguments.tables)? {
        let opening = context.clone();
        let opened = async move { grampus::session::register_files(&opening, &spec.name, &spec.location).await };
        threads.race(watch, opened)?.map_err(|error| explain_alone(&error))?;
    }
    Ok(())
}

fn measure(
    context: &SessionContext,
    threads: &Threads,
    name: String,
    sql: String,
    runs: usize,
    watch: &InterruptWatch,
) -> Result<Measured, ExitError> {
    let run = || -> Result<Run, ExitError> {
        let answered = threads.race(watch, answer(context.clone(), sql.clone()))?;
        answered.map_err(|error| explain_alone(&error))
    };
    let first = run()?;
    let comparable = comparable_rows(&first.batches)?;
    let lines = |plan: &str| plan.lines().map(str::to_owned).collect();
    let (columns, rows) = (names(&first.schema), shown_rows(&first.batches)?);
    let (first_io, first_disk_bytes, first_plan) = (first.io, first.disk_bytes, lines(&first.plan));
    let mut last = None;
    let mut plans = Vec::with_capacity(runs);
    let mut runs_ms = Vec::with_capacity(runs);
    for _ in 0..runs {
        let again = run()?;
        if !agree(&comparable_rows(&again.batches)?, &comparable) {
            let report = ErrorReport::new(format!("{name}: two runs gave different answers"));
            return Err(report
                .hint("floats were compared within 1e-9; sums that cancel out differ by more: use one partition (-p 1)")
                .into());
        }
        runs_ms.push(milliseconds(again.time));
        plans.push(lines(&again.plan));
        last = Some(again);
    }
    let first_ms = milliseconds(first.time);
    let last = last.unwrap_or(first);
    Ok(Measured {
        name,
        median_ms: median(&runs_ms).unwrap_or(first_ms),
        first_ms,
        runs_ms,
        columns,
        rows,
        needed_bytes: last.io.needed_bytes,
        moved_bytes: last.io.moved_bytes,
        rows_passed: last.io.rows_passed,
        first_needed_bytes: first_io.needed_bytes,
        first_moved_bytes: first_io.moved_bytes,
        first_disk_bytes,
        first_plan,
        plans,
        sql,
    })
}

async fn answer(context: SessionContext, sql: String) -> Result<Run, DataFusionError> {
    let disk_before = disk_reads::bytes();
    let start = Instant::now();
    let (plan, task) = plan_sql(&context, &sql).await?;
    let batches = collect(Arc::clone(&plan), task).await?;
    let time = start.elapsed();
    let shown = datafusion::physical_plan::display::DisplayableExecutionPlan::with_metrics(plan.as_ref());
    Ok(Run {
        time,
        schema: plan.schema(),
        batches,
        io: scan_io(&plan),
        disk_bytes: disk_reads::bytes_since(disk_before),
        plan: shown.indent(false).to_string(),
    })
}

/// The names of an answer's columns, each once.
fn names(schema: &SchemaRef) -> Vec<String> {
    let unique = unique(schema);
    unique.fields().iter().map(|field| field.name().clone()).collect()
}

/// The rows of an answer as JSON objects, with NULLs, in its order. NaN and infinities are `null` in JSON.
fn shown_rows(batches: &[RecordBatch]) -> Result<Vec<String>, ExitError> {
    let mut writer = arrow::json::WriterBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, LineDelimited>(Vec::new());
    for batch in batches {
        let named = with_names(batch, &unique(&batch.schema())).map_err(not_json)?;
        writer.write(&named).map_err(not_json)?;
    }
    writer.finish().map_err(not_json)?;
    let text = String::from_utf8_lossy(&writer.into_inner()).into_owned();
    Ok(text.lines().map(str::to_owned).collect())
}

fn not_json(error: impl std::fmt::Display) -> ErrorReport {
    ErrorReport::new(format!("a result that JSON cannot hold: {error}"))
}

/// Rows as JSON objects, for comparison alone.
type Rows = Vec<serde_json::Map<String, serde_json::Value>>;

/// Whether rows are equal, with floats within 1e-9 of each other. Sums depend on the order of the partitions.
fn agree(some: &Rows, others: &Rows) -> bool {
    let is_close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
    let same = |(one, other): (&serde_json::Value, &serde_json::Value)| match (one.as_f64(), other.as_f64()) {
        (Some(a), Some(b)) if one.is_f64() && other.is_f64() => is_close(a, b),
        _ => one == other,
    };
    let alike = |(one, other): (&serde_json::Map<_, _>, &serde_json::Map<_, _>)| {
        one.keys().eq(other.keys()) && one.values().zip(other.values()).all(same)
    };
    some.len() == others.len() && some.iter().zip(others).all(alike)
}

/// The rows of an answer, sorted. Floats keep twelve digits, so that sums in another order sort equally.
fn comparable_rows(batches: &[RecordBatch]) -> Result<Rows, ExitError> {
    let rows = shown_rows(batches)?;
    let rows = rows.iter().map(|row| serde_json::from_str(row).map_err(not_json));
    let mut rows = rows.collect::<Result<Rows, _>>()?;
    for value in rows.iter_mut().flat_map(|row| row.values_mut()) {
        if let Some(float) = value.as_f64().filter(|_| value.is_f64()) {
            *value = serde_json::json!(format!("{float:.11e}").parse::<f64>().unwrap_or(float));
        }
    }
    // Without ORDER BY, the order of rows is arbitrary.
    rows.sort_by_cached_key(|row| {
        let sorted: BTreeMap<_, _> = row.iter().map(|(name, value)| (name, value.to_string())).collect();
        format!("{sorted:?}")
    });
    Ok(rows)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

fn write_json(path: &Path, setup: &Setup<'_>, measured: &[Measured]) -> Result<(), ExitError> {
    let mut statements = Vec::with_capacity(measured.len());
    for one in measured {
        // A float that was read and written again would not be the same: rows stay text.
        statements.push(with_list(&pretty(one)?, "rows", &one.rows));
    }
    let mut text = with_list(&pretty(setup)?, "statements", &statements);
    text.push('\n');
    if path.as_os_str() == "-" {
        use std::io::Write;
        return std::io::stdout()
            .write_all(text.as_bytes())
            .map_err(|error| ExitError::output(&error));
    }
    write_file(path, &text)
}

fn pretty(object: &impl Serialize) -> Result<String, ExitError> {
    Ok(serde_json::to_string_pretty(object).map_err(|error| ErrorReport::new(error.to_string()))?)
}

/// The JSON object with one more member, a list of JSON values.
fn with_list(object: &str, name: &str, values: &[String]) -> String {
    let open = object.strip_suffix('}').unwrap_or(object).trim_end();
    format!("{open},\n  \"{name}\": [\n{}\n  ]\n}}", values.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_even_number_of_runs_lies_between_the_middle_runs() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn sums_in_another_order_agree() {
        let rows = |sum: f64, trips: i64| {
            vec![
                serde_json::json!({"sum": sum, "trips": trips})
                    .as_object()
                    .unwrap()
                    .clone(),
            ]
        };
        // The twelfth digits of these sums differ.
        assert!(agree(&rows(1.2345678901251, 7), &rows(1.2345678901249, 7)));
        assert!(agree(&rows(0.0, 7), &rows(-0.0, 7)));
        assert!(!agree(&rows(1.0, 7), &rows(1.0 + 1e-8, 7)));
        assert!(!agree(&rows(1.0, 7), &rows(1.0, 8)));
        assert!(!agree(&rows(1.0, 7), &Vec::new()));
    }
}
