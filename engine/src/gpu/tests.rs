//! The operator over a device that does as the test says: gives up, fails, waits to be cancelled.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{Float64Array, RecordBatch};
use arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use grampus_gpu_exec::{Backing, ColumnChoice, MachineProfile, Output, RefusalReason, Request, RunError};
use grampus_orc_layout::write::{OrcWriter, WriterOptions};

use super::calibration::Calibration;
use super::device::Runner;
use super::session::GpuSession;
use crate::config::{Device, GrampusOptions};

/// What the device does when it is asked to run.
#[derive(Debug, Clone, Copy)]
enum Does {
    GivesUp,
    Fails,
    WaitsForCancel,
}

#[derive(Debug)]
struct Fake {
    does: Does,
    /// Runs that have ended.
    ended: AtomicUsize,
}

impl Runner for Fake {
    fn name(&self) -> String {
        "a fake".to_owned()
    }

    fn choose(&self, request: &Request<'_>) -> Result<Vec<ColumnChoice>, RunError> {
        let choice = ColumnChoice {
            backing: match self.does {
                Does::GivesUp => Backing::Resident,
                Does::Fails | Does::WaitsForCancel => Backing::Mapped,
            },
            granularity_bytes: 32,
            estimated_bytes: 1000,
            // As over a link of 5 KB/s.
            estimated_time: Duration::from_millis(200),
            scan_time: Duration::ZERO,
            resident_bytes: 0,
            reason: String::new(),
        };
        Ok(vec![choice; request.program.columns.len()])
    }

    fn run(&self, request: &Request<'_>) -> Result<Output, RunError> {
        let begun = Instant::now();
        let error = match self.does {
            Does::GivesUp => RunError::Refused(RefusalReason::ValueOutOfRange),
            Does::Fails => RunError::Invalid("it is broken".to_owned()),
            Does::WaitsForCancel => loop {
                if request.cancel.load(Ordering::Relaxed) {
                    break RunError::Cancelled;
                }
                if begun.elapsed() > Duration::from_secs(30) {
                    break RunError::Invalid("nobody cancelled".to_owned());
                }
                std::thread::sleep(Duration::from_millis(1));
            },
        };
        self.ended.fetch_add(1, Ordering::Relaxed);
        Err(error)
    }

    fn kernel_text(&self, _: &Request<'_>) -> Result<String, RunError> {
        Ok("no kernel".to_owned())
    }
}

/// A session with the device and a table `t` of a thousand rows.
async fn session(folder: &Path, device: Device, does: Does) -> (SessionContext, Arc<Fake>) {
    let fake = Arc::new(Fake {
        does,
        ended: AtomicUsize::new(0),
    });
    let gpu = Arc::new(GpuSession::default());
    let options = GrampusOptions {
        device,
        cache_folder: folder.display().to_string(),
        ..GrampusOptions::default()
    };
    gpu.preset(&options, Arc::clone(&fake) as Arc<dyn Runner>);
    let builder = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_target_partitions(3))
        .with_default_features();
    let state = crate::session::register_with(builder, options, gpu).build();
    let context = SessionContext::new_with_state(state);
    let path = folder.join("t.orc");
    let column: Arc<Float64Array> = Arc::new(Float64Array::from_iter_values((0..1000).map(f64::from)));
    let rows = RecordBatch::try_from_iter([("x", column as _)]).unwrap();
    let mut writer = OrcWriter::new(File::create(&path).unwrap(), rows.schema(), WriterOptions::default()).unwrap();
    writer.write(&rows).unwrap();
    writer.finish().unwrap();
    crate::session::register_orc(&context, "t", &path.display().to_string())
        .await
        .unwrap();
    (context, fake)
}

const SQL: &str = "SELECT count(*) AS n, sum(x) AS s FROM t WHERE x >= 10";

async fn shown(context: &SessionContext, sql: &str) -> Result<String, String> {
    let outcome = async { context.sql(sql).await?.collect().await };
    let batches = outcome.await.map_err(|error| crate::error::message(&error))?;
    Ok(pretty_format_batches(&batches).unwrap().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_device_gives_up_the_cpu_answers_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    for device in [Device::Gpu, Device::Prefer] {
        let (context, fake) = session(folder.path(), device, Does::GivesUp).await;
        let answer = shown(&context, SQL).await.unwrap();
        assert!(answer.contains("| 990 | 499455.0 |"), "{answer}");
        let analyzed = shown(&context, &format!("EXPLAIN ANALYZE {SQL}")).await.unwrap();
        assert!(
            analyzed.contains("answered by the CPU: a value out of a type's range"),
            "{analyzed}"
        );
        assert!(analyzed.contains("answered_by_cpu=1"), "{analyzed}");
        assert_eq!(fake.ended.load(Ordering::Relaxed), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_device_fails_the_cpu_answers_unless_the_gpu_was_insisted_on() {
    let folder = tempfile::tempdir().unwrap();
    let (context, _) = session(folder.path(), Device::Prefer, Does::Fails).await;
    assert!(shown(&context, SQL).await.unwrap().contains("| 990 | 499455.0 |"));
    let (context, _) = session(folder.path(), Device::Gpu, Does::Fails).await;
    let error = shown(&context, SQL).await.unwrap_err();
    assert_eq!(error, "invalid program: it is broken");
}

/// A query that nobody waits for any more frees its thread.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_query_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let (context, fake) = session(folder.path(), Device::Gpu, Does::WaitsForCancel).await;
    let query = context.sql(SQL).await.unwrap();
    let task = tokio::spawn(query.collect());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(fake.ended.load(Ordering::Relaxed), 0, "it is waiting");
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    let begun = Instant::now();
    while fake.ended.load(Ordering::Relaxed) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(10), "it was never told");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_verbose_shows_the_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let (context, _) = session(folder.path(), Device::Gpu, Does::Fails).await;
    let plain = shown(&context, &format!("EXPLAIN {SQL}")).await.unwrap();
    assert!(
        plain.contains("GpuAggregateExec: device=a fake, gby=[], aggr=[count(Int64(1)), sum(t.x)]"),
        "{plain}"
    );
    assert!(
        plain.contains("columns=[x (mapped, 32 B at a time, 1000 B)]"),
        "{plain}"
    );
    assert!(!plain.contains("no kernel"), "{plain}");
    let verbose = shown(&context, &format!("EXPLAIN VERBOSE {SQL}")).await.unwrap();
    assert!(verbose.contains("no kernel"), "{verbose}");
}

/// `auto` brings columns to stay when queries of them have missed as much as that costs: here the first would be faster on the CPU.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_again_and_again_moves_to_the_device() {
    let folder = tempfile::tempdir().unwrap();
    // A machine whose CPU is slow, and the way to the GPU slower.
    let slow = MachineProfile {
        cpu_scan_bytes_per_s: 1e5,
        cpu_scan_all_bytes_per_s: 1e5,
        push_bytes_per_s: 5e3,
        query_s: 1e-6,
        ..MachineProfile::of_cores(1)
    };
    Calibration::of(slow).save(folder.path()).unwrap();
    let (context, fake) = session(folder.path(), Device::Auto, Does::GivesUp).await;
    let mut on_gpu = Vec::new();
    for _ in 0..4 {
        let plan = shown(&context, &format!("EXPLAIN {SQL}")).await.unwrap();
        on_gpu.push(plan.contains("with its columns there"));
        assert!(
            on_gpu.last() == Some(&true) || plan.contains("not on the GPU: the GPU is estimated to take"),
            "{plan}"
        );
    }
    // 8 KB: 80 ms on the CPU, 200 ms to bring what the fake says, next to nothing once it is there.
    assert_eq!(on_gpu, [false, true, true, true]);
    assert_eq!(fake.ended.load(Ordering::Relaxed), 0);
}
