//! The on-demand scan against a whole-column reader under the same plans, and against the fastest plain loop.
//!
//! The queries are the taxi queries on a generated `core` table, uncompressed and in snappy, with one thread and with
//! all.
//!
//! ```text
//! cargo bench -p grampus --bench on_demand -- [--rows N] [--runs N] [--threads 1,16] [--json FILE] [--dir FOLDER]
//! ```
//!
//! 1. The answers of all readers are compared.
//! 2. Rounds are timed: every query by one reader, then by the other, then the plain loops. Readers are interleaved, so
//!    that a change of the machine's speed affects all of them.
//! 3. Times are medians with files in the page cache. No time is asserted.
//!
//! "On demand" and "whole col" plan each run from SQL text. "Again" is on demand with the cached plan of the text.

#[path = "on_demand/plain_loop.rs"]
mod plain_loop;
#[path = "on_demand/report.rs"]
mod report;
#[path = "on_demand/whole_column.rs"]
mod whole_column;

use std::error::Error;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use clap::Parser;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use grampus::{Device, GrampusConfig, GrampusOptions, LocalIo, ScanIo, scan_io};
use grampus_orc_layout::codec::Codec;
use grampus_tools::taxi::{GenerateOptions, generate};
use tokio::runtime::Runtime;

use plain_loop::{LOOPS, PlainColumn};
use report::{Measurement, Report};
use whole_column::WholeColumnTable;

/// The program's allocator, for all readers.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

#[derive(Debug, Parser)]
struct Arguments {
    /// Trips in each table
    #[arg(long, default_value_t = 20_000_000)]
    rows: u64,
    /// Timed runs of each query; their median counts
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Numbers of threads, by commas; default: one, and one per core
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
    /// Only the queries whose names start so, by commas
    #[arg(long, value_delimiter = ',')]
    query: Vec<String>,
    /// Only this table: uncompressed or snappy
    #[arg(long)]
    table: Option<String>,
    /// Timed runs of the whole-column reader, if other than the rest; 0: only its answer is compared
    #[arg(long)]
    whole_column_runs: Option<usize>,
    /// How local files are read: mmap or read
    #[arg(long, default_value = "mmap")]
    local_io: LocalIo,
    /// Also write what was measured to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Keep the tables in this folder and use those that are there; default: a temporary folder
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Ignored: the argument that `cargo bench` adds
    #[arg(long, hide = true)]
    bench: bool,
}

const TABLES: [(&str, Option<Codec>); 2] = [("uncompressed", None), ("snappy", Some(Codec::Snappy))];

const AMOUNT: &str = "total_amount - extra - coalesce(ehail_fee, 0) - tolls_amount - mta_tax";

/// A query's name, the bound of its plain loop, and its SQL.
fn queries() -> Vec<(&'static str, Option<f64>, String)> {
    let mut queries = Vec::new();
    for (bound, q0, q1, q5) in [(30.0, "q0_30", "q1_30", "q5_30"), (20.0, "q0_20", "q1_20", "q5_20")] {
        let from = format!("FROM trips WHERE trip_distance >= {bound}");
        queries.push((
            q0,
            Some(bound),
            format!("SELECT count(*) AS trips, sum(trip_distance) AS miles {from}"),
        ));
        queries.push((
            q1,
            None,
            format!("SELECT sum(trip_distance) AS miles, sum(total_amount) AS total {from}"),
        ));
        queries.push((
            q5,
            None,
            format!(
                "SELECT sum({AMOUNT}) / sum(trip_distance) AS dollars_per_mile, \
                 avg(({AMOUNT}) / trip_distance) AS mean_dollars_per_mile, count(*) AS trips {from}"
            ),
        ));
    }
    let year = "extract(year FROM pickup_datetime) AS pickup_year";
    queries.push((
        "t1",
        None,
        "SELECT cab_type, count(*) AS trips FROM trips GROUP BY cab_type ORDER BY 1".into(),
    ));
    queries.push((
        "t2",
        None,
        "SELECT passenger_count, avg(total_amount) AS mean_total FROM trips GROUP BY passenger_count ORDER BY 1".into(),
    ));
    queries.push((
        "t3",
        None,
        format!(
            "SELECT passenger_count, {year}, count(*) AS trips FROM trips GROUP BY passenger_count, pickup_year \
             ORDER BY pickup_year, trips DESC, passenger_count"
        ),
    ));
    queries.push((
        "t4",
        None,
        format!(
            "SELECT passenger_count, {year}, cast(floor(trip_distance) AS int) AS distance, count(*) AS trips \
             FROM trips \
             GROUP BY passenger_count, pickup_year, distance \
             ORDER BY pickup_year, trips DESC, distance, passenger_count LIMIT 50"
        ),
    ));
    queries
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let temporary = tempfile::tempdir()?;
    let folder = arguments.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    let cores = std::thread::available_parallelism()?.get();
    let mut threads = arguments.threads.clone();
    if threads.is_empty() {
        threads = if cores > 1 { vec![1, cores] } else { vec![1] };
    }
    let mut report = Report {
        rows: arguments.rows,
        runs: arguments.runs,
        local_io: arguments.local_io.to_string(),
        table_bytes: Vec::new(),
        measurements: Vec::new(),
        aims: Vec::new(),
    };
    for (name, codec) in TABLES {
        if arguments.table.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let files = table(&folder.join(name), codec, arguments.rows)?;
        let bytes = warm(&files)?;
        println!(
            "{name}: {} rows, {} files, {:.1} MB",
            arguments.rows,
            files.len(),
            bytes as f64 / 1e6
        );
        report.table_bytes.push((name, bytes));
        let plain = if codec.is_none() {
            PlainColumn::find(&files, "trip_distance")?
        } else {
            None
        };
        for &threads in &threads {
            let bench = Bench::open(&files, threads, &arguments)?;
            let wanted = |name: &str| {
                let only = &arguments.query;
                only.is_empty() || only.iter().any(|start| name.starts_with(start.as_str()))
            };
            let asked: Vec<Asked<'_>> = queries()
                .into_iter()
                .filter(|(name, ..)| wanted(name))
                .map(|(name, bound, sql)| Asked {
                    name,
                    sql,
                    limit: plain.as_ref().zip(bound),
                })
                .collect();
            report.measurements.extend(bench.measure(name, &asked, &arguments)?);
        }
    }
    report.judge();
    report.print();
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)?)?;
    }
    Ok(())
}

/// The table's files. If the folder has none, they are generated.
fn table(folder: &Path, codec: Option<Codec>, rows: u64) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if folder.is_dir() {
        for entry in std::fs::read_dir(folder)? {
            files.push(entry?.path());
        }
        files.retain(|path| path.extension().is_some_and(|extension| extension == "orc"));
        files.sort();
    }
    if files.is_empty() {
        let options = GenerateOptions {
            codec,
            ..GenerateOptions::new(rows, folder)
        };
        let start = Instant::now();
        let written = generate(&options, &|_| ControlFlow::Continue(()))?;
        let seconds = start.elapsed().as_secs_f64();
        println!("generated {:.1} MB in {seconds:.1} s", written.bytes as f64 / 1e6);
        files = written.files;
    }
    Ok(files)
}

/// Reads the files once, so that the page cache has them.
fn warm(files: &[PathBuf]) -> Result<u64> {
    let mut bytes = 0;
    for file in files {
        bytes += std::io::copy(&mut std::fs::File::open(file)?, &mut std::io::sink())?;
    }
    Ok(bytes)
}

/// A query, and the plain loop over its predicate column, if that loop is a limit.
struct Asked<'a> {
    name: &'static str,
    sql: String,
    limit: Option<(&'a PlainColumn, f64)>,
}

/// Seconds of each run of a query.
#[derive(Debug, Clone, Default)]
struct Times {
    on_demand: Vec<f64>,
    again: Vec<f64>,
    whole_column: Vec<f64>,
    plain: [Vec<f64>; LOOPS.len()],
}

impl Times {
    fn plain_loops(&mut self, limit: Option<(&PlainColumn, f64)>, threads: usize) {
        let Some((column, bound)) = limit else {
            return;
        };
        for (scan, seconds) in LOOPS.into_iter().zip(&mut self.plain) {
            let start = Instant::now();
            std::hint::black_box(column.count_and_sum(scan, std::hint::black_box(bound), threads));
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
}

/// Both readers of one table on some number of threads.
struct Bench {
    threads: usize,
    runtime: Runtime,
    on_demand: SessionContext,
    whole_column: SessionContext,
    whole_column_table: Arc<WholeColumnTable>,
}

impl Bench {
    fn open(files: &[PathBuf], threads: usize, arguments: &Arguments) -> Result<Self> {
        let runtime = if threads == 1 {
            tokio::runtime::Builder::new_current_thread().enable_all().build()?
        } else {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(threads)
                .enable_all()
                .build()?
        };
        let mut options = GrampusOptions::default();
        options.local_io = arguments.local_io;
        // The benchmark compares CPU paths, with or without a GPU in the machine.
        options.device = Device::Cpu;
        let config = GrampusConfig {
            target_partitions: Some(threads),
            options,
            ..GrampusConfig::default()
        };
        let (on_demand, whole_column) = (
            grampus::session::context(config.clone())?,
            grampus::session::context(config)?,
        );
        let folder = files.first().and_then(|file| file.parent()).ok_or("no file")?;
        runtime.block_on(grampus::session::register_orc(
            &on_demand,
            "trips",
            &folder.display().to_string(),
        ))?;
        let whole_column_table = Arc::new(WholeColumnTable::open(files)?);
        whole_column.register_table("trips", Arc::clone(&whole_column_table) as _)?;
        Ok(Self {
            threads,
            runtime,
            on_demand,
            whole_column,
            whole_column_table,
        })
    }

    /// Compares the answers, then times the rounds.
    fn measure(&self, table: &'static str, asked: &[Asked<'_>], arguments: &Arguments) -> Result<Vec<Measurement>> {
        let runs = arguments.runs.max(1);
        let whole_column_runs = arguments.whole_column_runs.unwrap_or(runs);
        let mut costs = Vec::with_capacity(asked.len());
        for query in asked {
            let cost = self.check(query);
            costs.push(cost.map_err(|error| format!("{table} {}: {error}", query.name))?);
        }
        let mut times = vec![Times::default(); asked.len()];
        for round in 0..runs.max(whole_column_runs) {
            if round < runs {
                self.warm_up(&self.on_demand, asked)?;
                for (query, times) in asked.iter().zip(&mut times) {
                    times.on_demand.push(self.run(&self.on_demand, &query.sql)?.2);
                }
                // The same query does not run twice in a row: its values would still be in the CPU's caches.
                for (query, times) in asked.iter().zip(&mut times) {
                    times.again.push(self.again(&query.sql)?);
                }
            }
            if round < whole_column_runs {
                self.warm_up(&self.whole_column, asked)?;
                for (query, times) in asked.iter().zip(&mut times) {
                    times.whole_column.push(self.run(&self.whole_column, &query.sql)?.2);
                }
            }
            for (query, times) in asked.iter().zip(&mut times) {
                times.plain_loops(query.limit, self.threads);
            }
        }
        let measured = asked.iter().zip(costs).zip(times);
        Ok(measured
            .map(|((query, (io, whole_column_bytes)), times)| Measurement {
                table,
                threads: self.threads,
                query: query.name,
                on_demand_s: median(times.on_demand).unwrap_or(f64::NAN),
                again_s: median(times.again).unwrap_or(f64::NAN),
                whole_column_s: median(times.whole_column),
                plain_loop_s: times.plain.into_iter().filter_map(median).min_by(f64::total_cmp),
                needed_bytes: io.needed_bytes,
                moved_bytes: io.moved_bytes,
                read_requests: io.read_requests,
                amplification: io.amplification(),
                whole_column_bytes,
                rows_passed: io.rows_passed,
            })
            .collect())
    }

    /// Compares the answers of all readers; the on-demand scan's I/O and the bytes that the whole-column reader moved.
    fn check(&self, query: &Asked<'_>) -> Result<(ScanIo, u64)> {
        let (rows, io, _) = self.run(&self.on_demand, &query.sql)?;
        self.again(&query.sql)?; // caches the plan
        self.whole_column_table.take_moved_bytes();
        let (expected, _, _) = self.run(&self.whole_column, &query.sql)?;
        let whole_column_bytes = self.whole_column_table.take_moved_bytes();
        agree(&expected, &rows)?;
        if let Some((column, bound)) = query.limit {
            for scan in LOOPS {
                let plain = column.count_and_sum(scan, bound, self.threads);
                let row = [vec![plain.0.to_string(), plain.1.to_string()]];
                agree(&expected, &row).map_err(|words| format!("plain loop: {words}"))?;
            }
        }
        Ok((io, whole_column_bytes))
    }

    /// Runs before a reader's round. The first query would otherwise pay for the other reader's CPU caches.
    fn warm_up(&self, context: &SessionContext, asked: &[Asked<'_>]) -> Result<()> {
        if let Some(first) = asked.first() {
            self.run(context, &first.sql)?;
        }
        Ok(())
    }

    /// Seconds of a text whose plan is cached.
    fn again(&self, sql: &str) -> Result<f64> {
        self.runtime.block_on(async {
            let start = Instant::now();
            let (plan, task) = grampus::session::plan_cache::plan_sql(&self.on_demand, sql).await?;
            collect(plan, task).await?;
            Ok(start.elapsed().as_secs_f64())
        })
    }

    /// The answer, the scan's I/O, and the seconds from SQL text to the last batch.
    fn run(&self, context: &SessionContext, sql: &str) -> Result<(Vec<Vec<String>>, ScanIo, f64)> {
        self.runtime.block_on(async {
            let start = Instant::now();
            let plan = context.sql(sql).await?.create_physical_plan().await?;
            let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
            let seconds = start.elapsed().as_secs_f64();
            Ok((cells(&batches)?, scan_io(&plan), seconds))
        })
    }
}

fn median(mut seconds: Vec<f64>) -> Option<f64> {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied()
}

fn cells(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>> {
    let options = FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column as &dyn Array, &options));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        rows.extend(
            (0..batch.num_rows()).map(|row| columns.iter().map(|column| column.value(row).to_string()).collect()),
        );
    }
    Ok(rows)
}

/// Whether two texts are equal, or numbers within 1e-9 of each other. Sums in another order differ in their last
/// digits.
fn agree(expected: &[Vec<String>], got: &[Vec<String>]) -> Result<(), String> {
    let near = |a: &str, b: &str| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
        _ => false,
    };
    if expected.len() != got.len() {
        return Err(format!("{} rows instead of {}", got.len(), expected.len()));
    }
    for (expected, got) in expected.iter().flatten().zip(got.iter().flatten()) {
        if expected != got && !near(expected, got) {
            return Err(format!("{got} instead of {expected}"));
        }
    }
    Ok(())
}
