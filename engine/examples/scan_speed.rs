//! The speed of the on-demand scan, next to its limit: a plain loop over the memory-mapped predicate column.
//!
//! ```text
//! grampus taxi generate --rows 20000000 --out /tmp/core
//! cargo run --release -p grampus --example scan_speed -- /tmp/core [partitions] [setting=value …]
//! ```
//!
//! Prints the best wall-clock time and CPU time of several runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::error::Result;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use grampus::file::IoCounters;
use grampus::file::file_cache::FileCache;
use grampus::{GrampusConfig, LocalIo, OrcTable, scan_io, session};
use grampus_orc_layout::access::Access;
use grampus_orc_layout::source::ByteSource;

const RUNS: usize = 9;
const EXPENSES: &str = "total_amount - extra - coalesce(ehail_fee, 0) - tolls_amount - mta_tax";

/// CPU time of the live threads of this process.
fn processor_time() -> Duration {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return Duration::ZERO;
    };
    let nanoseconds = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

fn report(what: &str, times: &[(Duration, Duration)], limit: Option<Duration>) -> Duration {
    let wall = times.iter().map(|time| time.0).min().unwrap_or_default();
    let processor = times.iter().map(|time| time.1).min().unwrap_or_default();
    let share = limit.map_or(String::new(), |limit| {
        format!(
            "  {:5.1} % of the plain loop's speed",
            100.0 * limit.as_secs_f64() / wall.as_secs_f64()
        )
    });
    println!(
        "{what:<12} wall {:8.2} ms  processor {:8.2} ms{share}",
        millis(wall),
        millis(processor)
    );
    wall
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The mapped bytes of trip_distance in each stripe.
async fn predicate_column(context: &SessionContext, folder: &str) -> Result<Vec<bytes::Bytes>> {
    let state = context.state();
    let table = OrcTable::open(&state, &[folder.to_owned()]).await?;
    let cache = FileCache::default();
    let io = IoCounters::default();
    let mut columns = Vec::new();
    for table_file in table.files(&state).await? {
        let file = &table_file.file;
        let at = datafusion::catalog::TableProvider::schema(&table).index_of("trip_distance")?;
        let column = table_file.place_of(at).expect("the column is in every file");
        let handle = cache.handle(file).map_err(grampus::error::layout)?;
        let source = handle.source(LocalIo::Mmap, io.clone());
        for stripe in 0..file.tail.stripes.len() {
            let layout = cache.stripe(file, stripe, &io).await.map_err(grampus::error::layout)?;
            let access = Access::of(&file.tail, &layout, column, None, source.as_ref(), true);
            let Access::Direct(direct) = access.map_err(grampus::error::layout)? else {
                panic!("trip_distance is not direct");
            };
            for segment in &direct.segments {
                let range = segment.offset..segment.offset + segment.rows * u64::from(direct.width);
                columns.push(source.read(range).map_err(grampus::error::layout)?);
            }
        }
    }
    Ok(columns)
}

/// Counts and sums the values that are at least 30, on `threads` threads.
fn plain_loop(columns: &[bytes::Bytes], threads: usize) -> (u64, f64) {
    let pieces: Vec<&[u8]> = columns.iter().flat_map(|column| column.chunks(1 << 20)).collect();
    if threads == 1 {
        let parts = pieces.iter().map(|piece| sum(piece));
        return parts.fold((0, 0.0), |(n, total), (count, sum)| (n + count, total + sum));
    }
    let shares = pieces.chunks(pieces.len().div_ceil(threads));
    std::thread::scope(|scope| {
        let workers: Vec<_> = shares
            .map(|share| scope.spawn(move || share.iter().map(|piece| sum(piece))))
            .collect();
        let parts = workers.into_iter().flat_map(|worker| worker.join().expect("no panic"));
        parts.fold((0, 0.0), |(n, total), (count, sum)| (n + count, total + sum))
    })
}

fn sum(bytes: &[u8]) -> (u64, f64) {
    let (values, _) = bytes.as_chunks::<8>();
    let mut count = [0u64; 4];
    let mut sum = [0.0f64; 4];
    for four in values.chunks_exact(4) {
        for lane in 0..4 {
            let value = f64::from_le_bytes(four[lane]);
            let passes = value >= 30.0;
            count[lane] += u64::from(passes);
            sum[lane] += if passes { value } else { 0.0 };
        }
    }
    (count.iter().sum(), sum.iter().sum())
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder of ORC files");
    let partitions: usize = arguments
        .next()
        .map_or(1, |text| text.parse().expect("a number of partitions"));
    let context = session::context(GrampusConfig {
        target_partitions: Some(partitions),
        ..GrampusConfig::default()
    })?;
    for setting in arguments {
        let (name, value) = setting.split_once('=').expect("setting=value");
        context.sql(&format!("SET {name} = '{value}'")).await?.collect().await?;
    }
    session::register_orc(&context, "trips", &folder).await?;

    let columns = predicate_column(&context, &folder).await?;
    let bytes: usize = columns.iter().map(bytes::Bytes::len).sum();
    let times: Vec<_> = (0..RUNS)
        .map(|_| {
            let (wall, processor) = (Instant::now(), processor_time());
            std::hint::black_box(plain_loop(&columns, partitions));
            (wall.elapsed(), processor_time() - processor)
        })
        .collect();
    let limit = report("plain loop", &times, None);
    println!(
        "{:.2} GB/s, {partitions} threads",
        bytes as f64 / limit.as_secs_f64() / 1e9
    );

    for bound in [30, 20] {
        let filter = format!("FROM trips WHERE trip_distance >= {bound}");
        let q0 = format!("SELECT count(*), sum(trip_distance) {filter}");
        let q5 = format!(
            "SELECT sum({EXPENSES}) / sum(trip_distance), avg(({EXPENSES}) / trip_distance), count(*) {filter}"
        );
        for (name, sql) in [("q0", q0), ("q5", q5)] {
            let mut times = Vec::new();
            let mut io = None;
            for _ in 0..RUNS {
                let (wall, processor) = (Instant::now(), processor_time());
                let plan = context.sql(&sql).await?.create_physical_plan().await?;
                collect(Arc::clone(&plan), context.task_ctx()).await?;
                times.push((wall.elapsed(), processor_time() - processor));
                io = Some(scan_io(&plan));
            }
            report(&format!("{name} >= {bound}"), &times, Some(limit));
            let io = io.unwrap_or_default();
            println!(
                "             amplification {:.3}, {} rows passed",
                io.amplification(),
                io.rows_passed
            );
        }
    }
    Ok(())
}
