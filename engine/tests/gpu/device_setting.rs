//! The setting `grampus.device`: which queries run on the GPU, and the words and errors for those that do not.

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use grampus::{Device, GrampusOptions};

use crate::common::{failure, metrics_of, open, ran, rows, set, text, write};
use crate::support::{GPU_SETTINGS, gpu_runs, has_compiler};

#[tokio::test(flavor = "multi_thread")]
async fn device_gpu_refuses_queries_that_cannot_run_there() {
    if !has_compiler("device_gpu_refuses_queries_that_cannot_run_there") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let context = open(folder.path(), &GPU_SETTINGS[0]).await;
    set(&context, "grampus.device", "gpu").await;
    for (sql, reason) in [
        (
            "SELECT count(DISTINCT i), count(DISTINCT x) FROM t",
            "count(DISTINCT t.x) is not computed on the GPU",
        ),
        ("SELECT corr(x, x) FROM t", "corr(t.x,t.x) is not computed on the GPU"),
        ("SELECT x FROM t WHERE i = 3", "its rows are wanted as they are"),
        ("SELECT count(*) FROM t a JOIN t b ON a.i = b.i", "the rows of a join"),
    ] {
        let error = failure(&context, sql).await;
        assert!(
            error.contains(reason) && error.contains("grampus.device = 'gpu'"),
            "{sql}: {error}"
        );
    }
    // The setting does not concern queries that read no ORC file, or whose rows statistics exclude.
    for sql in [
        "SELECT 1",
        "SHOW grampus.device",
        "SELECT sum(x) FROM t WHERE x > 5000",
        "SELECT sum(x) FROM t WHERE x > 2000",
    ] {
        text(&context, sql).await;
    }
    let (plan, _) = ran(&context, "SELECT word, count(*) FROM t GROUP BY word").await;
    assert_eq!(gpu_runs(&plan), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn device_auto_keeps_small_queries_on_the_cpu_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let context = open(folder.path(), &GPU_SETTINGS[0]).await;
    set(&context, "grampus.device", "auto").await;
    let plan = text(&context, "EXPLAIN SELECT sum(x) FROM t WHERE i > 3").await;
    assert!(
        plan.contains("not on the GPU: the CPU takes an estimated 0.0 ms, too little"),
        "{plan}"
    );
    let plan = text(
        &context,
        "EXPLAIN SELECT max(word) FILTER (WHERE x > 1) FROM t WHERE i > 3",
    )
    .await;
    assert!(
        plan.contains("not on the GPU: max(t.word) FILTER (WHERE t.x > Int64(1)) orders strings"),
        "{plan}"
    );
    set(&context, "grampus.device", "cpu").await;
    let plan = text(&context, "EXPLAIN SELECT sum(x) FROM t WHERE i > 3").await;
    assert!(!plan.contains("GPU"), "{plan}");
}

/// On a machine without a GPU, the CPU answers, and EXPLAIN gives the reason once.
#[tokio::test(flavor = "multi_thread")]
async fn absent_gpu_is_a_normal_answer() {
    let folder = tempfile::tempdir().unwrap();
    let context = open(folder.path(), &GPU_SETTINGS[0]).await;
    set(&context, "grampus.gpu_target", "cuda").await;
    set(&context, "grampus.device", "auto").await;
    if grampus_cuda::library().is_ok() {
        println!("ignored: there may be a GPU");
        return;
    }
    let sql = "SELECT sum(a.s) FROM (SELECT i, sum(x) s FROM t GROUP BY i) a \
               JOIN (SELECT i, max(x) m FROM t GROUP BY i) b ON a.i = b.i";
    for device in ["auto", "prefer"] {
        set(&context, "grampus.device", device).await;
        let plan = text(&context, &format!("EXPLAIN {sql}")).await;
        assert_eq!(plan.matches("not on the GPU: no NVIDIA driver").count(), 1, "{plan}");
        assert!(text(&context, sql).await.contains("4498500"), "{device}");
    }
    set(&context, "grampus.device", "gpu").await;
    let error = failure(&context, sql).await;
    assert!(error.contains("no NVIDIA driver"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn register_adds_the_gpu_to_an_embedders_session() {
    if !has_compiler("register_adds_the_gpu_to_an_embedders_session") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("t.orc"), &rows());
    let mut options = GrampusOptions::default();
    options.device = Device::Prefer;
    options.gpu_target = crate::support::gpu_target();
    options.cache_folder = crate::support::kernel_folder();
    let builder = SessionStateBuilder::new().with_default_features();
    let context = SessionContext::new_with_state(grampus::register(builder, options).build());
    let location = folder.path().join("t.orc").display().to_string();
    let sql = format!("CREATE EXTERNAL TABLE t STORED AS ORC LOCATION '{location}'");
    context.sql(&sql).await.unwrap().collect().await.unwrap();
    let (plan, answer) = ran(&context, "SELECT sum(x) FROM t WHERE i = 3").await;
    assert_eq!(gpu_runs(&plan), (1, 0));
    assert!(answer.contains("643929"), "{answer}");
}

/// What kernels read by command for a single value: sectors of the size that is set.
#[tokio::test(flavor = "multi_thread")]
async fn sectors_are_as_large_as_the_setting_says() {
    if !has_compiler("sectors_are_as_large_as_the_setting_says") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sql = "SELECT count(*), sum(x) FROM t WHERE x >= 2990";
    let mut bytes = Vec::new();
    for (sector, shown) in [("512", "512 B at a time"), ("4096", "4.0 KiB at a time")] {
        let context = open(folder.path(), &GPU_SETTINGS[0]).await;
        set(&context, "grampus.gpu_backing", "queued").await;
        set(&context, "grampus.gpu_sector_bytes", sector).await;
        set(&context, "grampus.prune", "false").await;
        let plan = text(&context, &format!("EXPLAIN {sql}")).await;
        assert!(plan.contains(&format!("x (queued, {shown}")), "{plan}");
        let (plan, answer) = ran(&context, sql).await;
        assert!(answer.contains("29945"), "{answer}");
        let metrics = metrics_of(&plan);
        bytes.extend(metrics.into_iter().find(|(name, _)| name == "command_bytes"));
        let error = failure(&context, "SET grampus.gpu_sector_bytes = 1000").await;
        assert!(error.contains("is 512, 1024, 2048 or 4096, not '1000'"), "{error}");
    }
    assert!(
        bytes.len() == 2 && bytes[0].1 > 0 && bytes[0].1 <= bytes[1].1,
        "{bytes:?}"
    );
}
