//! Tests of the operator over a fake device that refuses, fails, or waits to be cancelled.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow::array::{RecordBatch, StringArray};
use arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;

use crate::config::{Device, GpuTarget, GrampusOptions};
use crate::gpu::fake_device::{Behaviour, add_table, grampus_of, session};
use crate::gpu::session::GpuSession;
use crate::gpu::string_dictionary::DictionaryLimits;

const SQL: &str = "SELECT count(*) AS n, sum(x) AS s FROM t WHERE x >= 10";

async fn shown(context: &SessionContext, sql: &str) -> Result<String, String> {
    let outcome = async { context.sql(sql).await?.collect().await };
    let batches = outcome.await.map_err(|error| crate::error::message(&error))?;
    Ok(pretty_format_batches(&batches).unwrap().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_falls_back_if_the_device_refuses() {
    let folder = tempfile::tempdir().unwrap();
    for device in [Device::Gpu, Device::Prefer] {
        let (context, fake) = session(folder.path(), device, Behaviour::Refuses).await;
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

/// The CPU's plan behind the operator has the final aggregation that is left out above.
#[tokio::test(flavor = "multi_thread")]
async fn whole_aggregation_falls_back() {
    let folder = tempfile::tempdir().unwrap();
    let (context, fake) = session(folder.path(), Device::Prefer, Behaviour::Refuses).await;
    let sql = "SELECT CAST(x AS BIGINT) % 3 AS k, count(*), avg(x) FROM t GROUP BY 1 ORDER BY 1";
    let plan = shown(&context, &format!("EXPLAIN {sql}")).await.unwrap();
    assert!(plan.contains("GpuAggregateExec: mode=Single, device=a fake"), "{plan}");
    assert!(!plan.contains(" AggregateExec"), "{plan}");
    let answer = shown(&context, sql).await.unwrap();
    for group in [
        "| 0 | 334      | 499.5    |",
        "| 1 | 333      | 499.0    |",
        "| 2 | 333      | 500.0    |",
    ] {
        assert!(answer.contains(group), "{answer}");
    }
    assert_eq!(fake.ended.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_falls_back_after_device_errors_unless_the_gpu_is_required() {
    let folder = tempfile::tempdir().unwrap();
    let (context, _) = session(folder.path(), Device::Prefer, Behaviour::Fails).await;
    assert!(shown(&context, SQL).await.unwrap().contains("| 990 | 499455.0 |"));
    let (context, _) = session(folder.path(), Device::Gpu, Behaviour::Fails).await;
    let error = shown(&context, SQL).await.unwrap_err();
    assert_eq!(error, "invalid program: it is broken");
}

/// Queries over the same rows and columns share an input. Those over others, or over a file that was replaced, do not.
#[tokio::test(flavor = "multi_thread")]
async fn an_input_is_built_once() {
    let folder = tempfile::tempdir().unwrap();
    let (context, fake) = session(folder.path(), Device::Prefer, Behaviour::Refuses).await;
    let sum = "SELECT sum(x) AS s FROM t WHERE x >= 10";
    let statements = [
        SQL,
        SQL,
        sum,
        "SELECT sum(x) AS s FROM t WHERE x >= 11",
        sum,
        "SET grampus.invalid_utf8 = 'replace'",
        sum,
    ];
    for statement in statements {
        shown(&context, statement).await.unwrap();
    }
    let path = folder.path().join("t.orc");
    std::fs::copy(&path, folder.path().join("again")).unwrap();
    std::fs::rename(folder.path().join("again"), &path).unwrap();
    shown(&context, SQL).await.unwrap();
    let inputs = fake.inputs.lock().unwrap();
    let first = |input| inputs.iter().position(|other| Arc::ptr_eq(input, other)).unwrap();
    let shared: Vec<usize> = inputs.iter().map(first).collect();
    assert_eq!(shared, [0, 0, 0, 3, 0, 5, 6]);
}

/// A dropped query frees its thread.
#[tokio::test(flavor = "multi_thread")]
async fn dropped_query_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let (context, fake) = session(folder.path(), Device::Gpu, Behaviour::WaitsForCancel).await;
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
    let (context, _) = session(folder.path(), Device::Gpu, Behaviour::Fails).await;
    let plain = shown(&context, &format!("EXPLAIN {SQL}")).await.unwrap();
    assert!(
        plain.contains("GpuAggregateExec: mode=Partial, device=a fake, gby=[], aggr=[count(Int64(1)), sum(t.x)]"),
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

/// Planning and EXPLAIN do not wait for a query that runs.
#[tokio::test(flavor = "multi_thread")]
async fn planning_waits_for_no_running_query() {
    let folder = tempfile::tempdir().unwrap();
    let (context, fake) = session(folder.path(), Device::Gpu, Behaviour::WaitsForCancel).await;
    let running = tokio::spawn(context.sql(SQL).await.unwrap().collect());
    while fake.begun.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for _ in 0..3 {
        shown(&context, &format!("EXPLAIN {SQL}")).await.unwrap();
    }
    assert_eq!(fake.ended.load(Ordering::Relaxed), 0, "it still runs");
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
}

/// A session over a table `w` of a thousand different words, with dictionaries of `strings` strings.
async fn words(folder: &Path, strings: usize) -> (SessionContext, Arc<GpuSession>) {
    let gpu = Arc::new(GpuSession::with_dictionary(DictionaryLimits {
        bytes: 1 << 20,
        strings,
    }));
    let options = GrampusOptions {
        device: Device::Prefer,
        gpu_target: GpuTarget::Host,
        cache_folder: folder.display().to_string(),
        ..GrampusOptions::default()
    };
    let builder = SessionStateBuilder::new().with_default_features();
    let grampus = grampus_of(options, Arc::clone(&gpu));
    let context = SessionContext::new_with_state(grampus.register(builder).build());
    let many = StringArray::from_iter_values((0..1000).map(|row| format!("word {row}")));
    let few = StringArray::from_iter_values((0..1000).map(|row| ["a", "b"][row % 2]));
    let rows = RecordBatch::try_from_iter([
        ("many", Arc::new(many) as Arc<dyn arrow::array::Array>),
        ("few", Arc::new(few) as _),
    ])
    .unwrap();
    add_table(&context, folder, "w", &rows).await;
    (context, gpu)
}

const MANY: &str = "SELECT count(*) FROM (SELECT many, count(*) FROM w GROUP BY many)";
const FEW: &str = "SELECT few, count(*) AS n FROM w WHERE few <> 'x' GROUP BY few ORDER BY few";

/// Whether the aggregation of `sql` was computed by kernels.
async fn ran_on_device(context: &SessionContext, sql: &str) -> bool {
    let analyzed = shown(context, &format!("EXPLAIN ANALYZE {sql}")).await.unwrap();
    assert!(analyzed.contains("GpuAggregateExec"), "{analyzed}");
    !analyzed.contains("answered_by_cpu")
}

/// One wide GROUP BY fills the dictionary. The next query begins a new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_wide_group_by_does_not_end_strings_on_the_gpu() {
    if grampus_cuda::host_compiler().is_err() {
        grampus_test_support::missing(grampus_test_support::Resource::Compiler, "for kernels on host threads");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The query alone has too many strings.
    let (context, gpu) = words(folder.path(), 500).await;
    assert!(ran_on_device(&context, FEW).await);
    assert!(!ran_on_device(&context, MANY).await, "the CPU answers");
    assert!(shown(&context, MANY).await.unwrap().contains("| 1000 "));
    assert!(gpu.dictionary().len() <= 500);
    assert!(ran_on_device(&context, FEW).await);
    assert!(shown(&context, FEW).await.unwrap().contains("| b   | 500 |"));
    // It fits, but not beside those of the query before.
    let (context, gpu) = words(folder.path(), 1001).await;
    let first = gpu.dictionary().number();
    assert!(ran_on_device(&context, FEW).await);
    assert_eq!((gpu.dictionary().len(), gpu.dictionary().number()), (3, first));
    assert!(ran_on_device(&context, MANY).await);
    assert_eq!((gpu.dictionary().len(), gpu.dictionary().number()), (1000, first + 1));
    assert!(ran_on_device(&context, FEW).await);
    assert!(shown(&context, FEW).await.unwrap().contains("| a   | 500 |"));
}

/// Plans enter no string, whether the aggregation goes to the GPU or stays on the CPU.
#[tokio::test(flavor = "multi_thread")]
async fn planning_enters_no_string() {
    let folder = tempfile::tempdir().unwrap();
    let (context, gpu) = words(folder.path(), 500).await;
    shown(&context, &format!("EXPLAIN {FEW}")).await.unwrap();
    shown(&context, &format!("EXPLAIN VERBOSE {FEW}")).await.unwrap();
    shown(&context, "SET grampus.device = 'auto'").await.unwrap();
    shown(&context, FEW).await.unwrap(); // on the CPU: it is short
    assert_eq!(gpu.dictionary().len(), 0);
}

/// A lost device is the CPU's turn, and an error where the GPU is required. No plan opens it.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_device_is_found_by_the_first_execution() {
    for (behaviour, reason) in [
        (Behaviour::CannotOpen, "it is gone"),
        (
            Behaviour::Dies,
            "illegal memory access was encountered; restart this process",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (context, fake) = session(folder.path(), Device::Prefer, behaviour).await;
        for _ in 0..2 {
            let plan = shown(&context, &format!("EXPLAIN {SQL}")).await.unwrap();
            assert!(plan.contains("GpuAggregateExec: mode=Partial, device=a fake"), "{plan}");
        }
        assert_eq!(fake.begun.load(Ordering::Relaxed), 0);
        assert!(shown(&context, SQL).await.unwrap().contains("| 990 | 499455.0 |"));
        let plan = shown(&context, &format!("EXPLAIN {SQL}")).await.unwrap();
        assert!(plan.contains("not on the GPU: ") && plan.contains(reason), "{plan}");
        assert!(shown(&context, SQL).await.unwrap().contains("| 990 | 499455.0 |"));
        assert_eq!(fake.begun.load(Ordering::Relaxed), 1, "it is known to be absent");
        let (context, _) = session(folder.path(), Device::Gpu, behaviour).await;
        let error = shown(&context, SQL).await.unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}
