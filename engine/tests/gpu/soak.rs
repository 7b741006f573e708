//! Sessions that run random queries at once on one machine, with random cancellations. Each answer must be the CPU's.
//!
//! The test is ignored by default, since it runs for as long as it is told. On a machine with a GPU:
//!
//! ```text
//! export GRAMPUS_SOAK_TARGET=cuda GRAMPUS_SOAK_SECONDS=300 GRAMPUS_SOAK_DATA=<folder of `grampus taxi generate`>
//! target/debug/deps/gpu-<hash> soak:: --ignored --nocapture
//! ```
//!
//! | variable | meaning |
//! | --- | --- |
//! | `GRAMPUS_SOAK_DATA` | ORC files of the taxi table with its core columns; absent: a small table is written |
//! | `GRAMPUS_SOAK_SECONDS` | duration; absent: 5 |
//! | `GRAMPUS_SOAK_TARGET` | `cuda`, `host` (default) |
//! | `GRAMPUS_SOAK_CACHE_BYTES` | device memory of each device, by default 4 GiB; on host threads 64 MiB |
//! | `GRAMPUS_TEST_SEED` | the seed, which a run prints |
//!
//! Four connections run at once. Two share a session, and with it the device; the others have one each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use grampus::gpu::gpu_aggregate_exec::GpuAggregateExec;
use grampus::{Device, GpuTarget, GrampusConfig, GrampusOptions};
use grampus_orc_layout::write::WriterProperties;
use rand::{Rng, SeedableRng};

use crate::compare::difference;
use crate::support::{has_compiler, kernel_folder, write_orc};

/// Statements with a place for a literal. Orders are total, so that rows can be compared one by one.
const STATEMENTS: [&str; 7] = [
    "SELECT count(*) AS n, sum(total_amount) AS s FROM trips WHERE trip_distance >= {}",
    "SELECT sum(total_amount - extra - tolls_amount - mta_tax) / sum(trip_distance) AS d, count(*) AS n \
     FROM trips WHERE trip_distance >= {}",
    "SELECT passenger_count, count(*) AS n, avg(total_amount) AS a FROM trips WHERE trip_distance < {} \
     GROUP BY passenger_count ORDER BY passenger_count NULLS FIRST",
    "SELECT cab_type, count(*) AS n, max(fare_amount) AS m FROM trips WHERE trip_distance > {} \
     GROUP BY cab_type ORDER BY cab_type NULLS FIRST",
    "SELECT count(*) AS n, min(tip_amount) AS m FROM trips WHERE store_and_fwd_flag = 'N' AND fare_amount > {}",
    "SELECT count(*) AS n, count(ehail_fee) AS e, sum(tolls_amount) AS s FROM trips WHERE mta_tax IS NOT NULL \
     AND total_amount > {}",
    "SELECT store_and_fwd_flag, cab_type, count(*) AS n FROM trips WHERE extra < {} \
     GROUP BY store_and_fwd_flag, cab_type ORDER BY store_and_fwd_flag NULLS FIRST, cab_type NULLS FIRST",
];
const LITERALS: [&str; 5] = ["30", "20", "5", "0.5", "1000"];
const BACKINGS: [&str; 5] = ["auto", "paged", "mapped", "queued", "resident"];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// A small table with the columns of the statements.
fn write_small(path: &Path) {
    const ROWS: usize = 60_000;
    let double = |scale: f64, nulls: usize| -> ArrayRef {
        let value = |row: usize| (row % nulls != 1).then(|| (row * 7919 % 10_007) as f64 / 8.0 * scale);
        Arc::new(Float64Array::from_iter((0..ROWS).map(value)))
    };
    let text = |words: &'static [&'static str]| -> ArrayRef {
        Arc::new(StringArray::from_iter(
            (0..ROWS).map(|row| words.get(row * 31 % 5).copied()),
        ))
    };
    let columns = [
        ("trip_distance", double(0.03, usize::MAX)),
        ("total_amount", double(1.0, usize::MAX)),
        ("fare_amount", double(0.5, 11)),
        ("tip_amount", double(0.1, usize::MAX)),
        ("extra", double(0.01, usize::MAX)),
        ("mta_tax", double(0.25, 7)),
        ("tolls_amount", double(2.0, usize::MAX)),
        ("ehail_fee", double(1.0, 2)),
        ("passenger_count", double(0.001, usize::MAX)),
        ("cab_type", text(&["yellow", "green", "fhv"])),
        ("store_and_fwd_flag", text(&["N", "Y", "N", "N"])),
    ];
    let rows = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
    let options = WriterProperties {
        row_index_stride: 5_000,
        stripe_rows: 20_000,
        ..WriterProperties::default()
    };
    write_orc(path, rows.schema(), std::slice::from_ref(&rows), options);
}

async fn session(data: &str, device: Device) -> SessionContext {
    let is_cuda = std::env::var("GRAMPUS_SOAK_TARGET").is_ok_and(|target| target == "cuda");
    let memory = if is_cuda { 4 << 30 } else { 64 << 20 };
    let mut options = GrampusOptions::default();
    options.device = device;
    options.gpu_target = if is_cuda { GpuTarget::Cuda } else { GpuTarget::Host };
    options.gpu_cache_bytes = number("GRAMPUS_SOAK_CACHE_BYTES").unwrap_or(memory);
    options.cache_folder = kernel_folder();
    let config = GrampusConfig {
        options,
        ..GrampusConfig::default()
    };
    let context = grampus::session::context(config).unwrap();
    grampus::session::register_orc(&context, "trips", data).await.unwrap();
    context
}

/// The processor that answered a query. `CpuAfterFallback` has the reason.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Answered {
    Kernels,
    Cpu,
    CpuAfterFallback(String),
}

fn answered(plan: &Arc<dyn ExecutionPlan>) -> Answered {
    if let Some(gpu) = plan.downcast_ref::<GpuAggregateExec>() {
        return match gpu.fell_back() {
            None => Answered::Kernels,
            Some(reason) => Answered::CpuAfterFallback(reason.to_owned()),
        };
    }
    let below = plan.children().into_iter().map(answered);
    below.min().unwrap_or(Answered::Cpu)
}

async fn answer(context: &SessionContext, sql: &str) -> datafusion::error::Result<(RecordBatch, Answered)> {
    let frame = context.sql(sql).await?;
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await?;
    let batches = collect(Arc::clone(&plan), task).await?;
    Ok((concat_batches(&plan.schema(), &batches)?, answered(&plan)))
}

#[derive(Debug, Default)]
struct Counts {
    /// By backing too.
    answered: Mutex<BTreeMap<(Answered, &'static str), u64>>,
    cancelled: AtomicU64,
}

/// One connection, until the time is over.
async fn connection(
    context: SessionContext,
    expected: Arc<Vec<(String, RecordBatch)>>,
    (seed, end): (u64, Instant),
    counts: Arc<Counts>,
) {
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    while Instant::now() < end {
        let (sql, wanted) = &expected[random.random_range(0..expected.len())];
        let backing = BACKINGS[random.random_range(0..BACKINGS.len())];
        let set = context
            .sql(&format!("SET grampus.gpu_backing = '{backing}'"))
            .await
            .unwrap();
        set.collect().await.unwrap();
        let after = random
            .random_bool(0.25)
            .then(|| Duration::from_micros(random.random_range(0..20_000)));
        let run = answer(&context, sql);
        let ended = match after {
            Some(after) => tokio::time::timeout(after, run).await.ok(),
            None => Some(run.await),
        };
        match ended {
            None => {
                counts.cancelled.fetch_add(1, Ordering::Relaxed);
            }
            Some(Ok((found, answered))) => {
                let words = difference(wanted, &found);
                assert!(
                    words.is_none(),
                    "seed {seed}, {backing}, {sql}: {}",
                    words.unwrap_or_default()
                );
                *counts.answered.lock().unwrap().entry((answered, backing)).or_default() += 1;
            }
            Some(Err(error)) => panic!("seed {seed}, {backing}, {sql}: {error}"),
        };
    }
}

#[test]
#[ignore = "runs for as long as it is told (see above)"]
fn sessions_at_once_with_random_cancellations() {
    if !has_compiler("sessions_at_once_with_random_cancellations") {
        return;
    }
    let seconds = number("GRAMPUS_SOAK_SECONDS").unwrap_or(5);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = number("GRAMPUS_TEST_SEED").unwrap_or_else(|| now.map_or(1, |time| time.as_secs()));
    let folder = tempfile::tempdir().unwrap();
    let data = std::env::var_os("GRAMPUS_SOAK_DATA").map_or_else(
        || {
            write_small(&folder.path().join("trips.orc"));
            folder.path().to_owned()
        },
        PathBuf::from,
    );
    let data = data.display().to_string();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let counts = Arc::new(Counts::default());
    runtime.block_on(async {
        let cpu = session(&data, Device::Cpu).await;
        let mut expected = Vec::new();
        for statement in STATEMENTS {
            for literal in LITERALS {
                let sql = statement.replace("{}", literal);
                let (answer, _) = answer(&cpu, &sql).await.unwrap();
                expected.push((sql, answer));
            }
        }
        let expected = Arc::new(expected);
        let shared = session(&data, Device::Prefer).await;
        let beside = SessionContext::new_with_state(shared.state());
        let others = [session(&data, Device::Prefer).await, session(&data, Device::Auto).await];
        let end = Instant::now() + Duration::from_secs(seconds);
        let connections = [shared, beside].into_iter().chain(others).enumerate();
        let tasks: Vec<_> = connections
            .map(|(at, context)| {
                let (expected, counts) = (Arc::clone(&expected), Arc::clone(&counts));
                tokio::spawn(connection(context, expected, (seed + at as u64, end), counts))
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    println!(
        "seed {seed}, {seconds} s, {} cancelled",
        counts.cancelled.load(Ordering::Relaxed)
    );
    let answered = counts.answered.lock().unwrap();
    for ((by, backing), count) in answered.iter() {
        println!("{count} with {backing}: {by:?}");
    }
    let by_kernels = answered.keys().any(|(by, _)| *by == Answered::Kernels);
    assert!(by_kernels, "no query ran by a kernel");
}
