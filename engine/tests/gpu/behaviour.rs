//! What the GPU path says of itself, and what becomes of queries that it cannot or should not run.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use grampus::{Device, GrampusOptions, scan_io, session};
use grampus_orc_layout::write::WriterOptions;

use crate::support::{GPU_SETTINGS, Setting, gpu_runs, has_compiler, ignored, write_orc};

/// 3,000 rows: `x` counts, `i` counts modulo 7, `word` is one of three or NULL.
fn rows() -> RecordBatch {
    let words = (0..3000).map(|row| ["a", "b", "c"].get(row % 4).copied());
    let columns: [(&str, ArrayRef); 3] = [
        ("x", Arc::new(Float64Array::from_iter_values((0..3000).map(f64::from)))),
        (
            "i",
            Arc::new(Int32Array::from_iter_values((0..3000).map(|row| row % 7))),
        ),
        ("word", Arc::new(StringArray::from_iter(words))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

fn options() -> WriterOptions {
    WriterOptions {
        row_index_stride: 500,
        stripe_rows: 1000,
        ..WriterOptions::default()
    }
}

fn write(path: &Path, rows: &RecordBatch) {
    write_orc(path, rows.schema(), std::slice::from_ref(rows), options());
}

/// A session on host threads with `t`, the rows above.
async fn open(folder: &Path, setting: &Setting) -> SessionContext {
    let path = folder.join("t.orc");
    if !path.exists() {
        write(&path, &rows());
    }
    let context = setting.context();
    session::register_orc(&context, "t", &path.display().to_string())
        .await
        .unwrap();
    context
}

async fn set(context: &SessionContext, name: &str, value: &str) {
    context
        .sql(&format!("SET {name} = '{value}'"))
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
}

async fn text(context: &SessionContext, sql: &str) -> String {
    let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

async fn failure(context: &SessionContext, sql: &str) -> String {
    let outcome = async { context.sql(sql).await?.collect().await };
    grampus::error::message(&outcome.await.expect_err(sql))
}

/// The plan after it was run, and the answer.
async fn ran(context: &SessionContext, sql: &str) -> (Arc<dyn ExecutionPlan>, String) {
    let frame = context.sql(sql).await.unwrap();
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await.unwrap();
    let batches = collect(Arc::clone(&plan), task).await.unwrap();
    (plan, pretty_format_batches(&batches).unwrap().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_what_will_be_done_and_analyze_what_was() {
    if !has_compiler("explain_says_what_will_be_done_and_analyze_what_was") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let context = open(folder.path(), &GPU_SETTINGS[0]).await;
    let sql = "SELECT sum(x) FROM t WHERE x >= 1500 AND word = 'a'";
    let plan = text(&context, &format!("EXPLAIN {sql}")).await;
    for words in [
        "GpuAggregateExec: device=",
        "aggr=[sum(t.x)]",
        "files=1, stripes=2",
        "columns=[x (resident, ",
        "word (resident, ",
        "filter=[x >= 1500, word = a]",
        "estimated=",
        "because grampus.device = 'prefer'",
    ] {
        assert!(plan.contains(words), "{words} in\n{plan}");
    }
    let verbose = text(&context, &format!("EXPLAIN VERBOSE {sql}")).await;
    assert!(
        verbose.contains("grampus_query") && verbose.contains("x, float64"),
        "{verbose}"
    );
    let analyzed = text(&context, &format!("EXPLAIN ANALYZE {sql}")).await;
    for words in [
        "compile_time=",
        "scan_time=",
        "kernel_time=",
        "decode_time=",
        "pushed_bytes=",
        "rows_passed=375",
        "io_amplification=",
    ] {
        assert!(analyzed.contains(words), "{words} in\n{analyzed}");
    }
    let (plan, _) = ran(&context, sql).await;
    let io = scan_io(&plan);
    assert_eq!(
        (io.rows_scanned, io.rows_passed, io.stripes_skipped),
        (1500, 375, 1),
        "{io:?}"
    );
    assert!(io.needed_bytes > 0, "{io:?}");
}

/// Columns of which pages are brought as they are missed: what a page is depends on how they are stored.
#[tokio::test(flavor = "multi_thread")]
async fn explain_names_pages_and_analyze_counts_them() {
    if !has_compiler("explain_names_pages_and_analyze_counts_them") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let context = open(folder.path(), &GPU_SETTINGS[2]).await;
    let sql = "SELECT sum(x), count(word) FROM t WHERE i = 3";
    let plan = text(&context, &format!("EXPLAIN {sql}")).await;
    for words in [
        "i (resident, ",
        "x (paged, 64 B at a time",
        "word (paged, 2.0 KiB at a time",
    ] {
        assert!(plan.contains(words), "{words} in\n{plan}");
    }
    let verbose = text(&context, &format!("EXPLAIN VERBOSE {sql}")).await;
    assert!(verbose.contains("by loads from pages"), "{verbose}");
    let analyzed = text(&context, &format!("EXPLAIN ANALYZE {sql}")).await;
    for words in ["page_bytes=", "pages=", "passes=", "gather_time=", "rows_passed=429"] {
        assert!(analyzed.contains(words), "{words} in\n{analyzed}");
    }
    let analyzed = text(&context, &format!("EXPLAIN ANALYZE {sql}")).await;
    for words in ["passes=1,", "pages=0,", "page_bytes=0,"] {
        assert!(analyzed.contains(words), "{words} in\n{analyzed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_device_gpu_is_an_error_where_it_cannot_be() {
    if !has_compiler("the_device_gpu_is_an_error_where_it_cannot_be") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let context = open(folder.path(), &GPU_SETTINGS[0]).await;
    set(&context, "grampus.device", "gpu").await;
    for (sql, reason) in [
        (
            "SELECT count(DISTINCT i), count(DISTINCT x) FROM t",
            "count(DISTINCT t.i) is not computed on the GPU",
        ),
        (
            "SELECT sum(x) FROM t WHERE word LIKE 'a%'",
            "LIKE is not computed on the GPU",
        ),
        ("SELECT x FROM t WHERE i = 3", "its rows are wanted as they are"),
        ("SELECT count(*) FROM t a JOIN t b ON a.i = b.i", "the rows of a join"),
    ] {
        let error = failure(&context, sql).await;
        assert!(
            error.contains(reason) && error.contains("grampus.device = 'gpu'"),
            "{sql}: {error}"
        );
    }
    // What reads no ORC file has nothing to do with it, nor what statistics leave nothing of.
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
async fn what_is_not_worth_it_stays_on_the_cpu_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let context = open(folder.path(), &GPU_SETTINGS[0]).await;
    set(&context, "grampus.device", "auto").await;
    let plan = text(&context, "EXPLAIN SELECT sum(x) FROM t WHERE i > 3").await;
    assert!(
        plan.contains("not on the GPU: the CPU takes an estimated 0.0 ms, too little"),
        "{plan}"
    );
    let plan = text(&context, "EXPLAIN SELECT max(word) FROM t WHERE i > 3").await;
    assert!(plan.contains("not on the GPU: max(t.word) orders strings"), "{plan}");
    set(&context, "grampus.device", "cpu").await;
    let plan = text(&context, "EXPLAIN SELECT sum(x) FROM t WHERE i > 3").await;
    assert!(!plan.contains("GPU"), "{plan}");
}

/// On a machine without a GPU: the CPU answers, and EXPLAIN says so once.
#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_that_is_not_there_is_a_normal_answer() {
    let folder = tempfile::tempdir().unwrap();
    let context = open(folder.path(), &GPU_SETTINGS[0]).await;
    set(&context, "grampus.gpu_target", "cuda").await;
    set(&context, "grampus.device", "auto").await;
    if grampus_gpu_exec::library().is_ok() {
        return ignored("a_gpu_that_is_not_there_is_a_normal_answer", "there may be a GPU");
    }
    let sql = "SELECT sum(a.s) FROM (SELECT i, sum(x) s FROM t GROUP BY i) a JOIN (SELECT i, max(x) m FROM t GROUP BY i) b ON a.i = b.i";
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
async fn errors_are_the_cpus() {
    if !has_compiler("errors_are_the_cpus") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let gpu = open(folder.path(), &GPU_SETTINGS[0]).await;
    let cpu = open(
        folder.path(),
        &Setting {
            gpu: None,
            ..GPU_SETTINGS[0]
        },
    )
    .await;
    for sql in [
        "SELECT sum(10 / i) FROM t",
        "SELECT sum(CAST(x * 1e30 AS INT)) FROM t",
        "SELECT i % (i - 2), count(*) FROM t GROUP BY 1",
    ] {
        let (wanted, found) = (failure(&cpu, sql).await, failure(&gpu, sql).await);
        assert_eq!(wanted, found, "{sql}");
    }
    // Where the divisor is never zero for the rows that pass, there is an answer.
    let sql = "SELECT sum(10 / i) FROM t WHERE i > 0";
    let (plan, answer) = ran(&gpu, sql).await;
    assert_eq!(gpu_runs(&plan), (1, 0));
    assert_eq!(answer, text(&cpu, sql).await);
}

/// A plan outlives the file it was made for: the device notices, the CPU still holds the old file open, the next query sees the
/// new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_is_noticed() {
    if !has_compiler("a_file_that_changes_is_noticed") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let context = open(folder.path(), &GPU_SETTINGS[0]).await;
    let sql = "SELECT count(*), sum(x) FROM t WHERE x >= 0";
    assert!(text(&context, sql).await.contains("| 3000     | 4498500.0 |"));
    let plan = async || context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    let lenient = plan().await;
    set(&context, "grampus.device", "gpu").await;
    let strict = plan().await;
    let fewer = rows().slice(0, 1000);
    let other = folder.path().join("other.orc");
    write(&other, &fewer);
    std::fs::rename(&other, folder.path().join("t.orc")).unwrap();
    let error = collect(strict, context.task_ctx())
        .await
        .expect_err("the file is another");
    assert!(error.to_string().contains("t.orc"), "{error}");
    let old = collect(Arc::clone(&lenient), context.task_ctx()).await.unwrap();
    assert!(pretty_format_batches(&old).unwrap().to_string().contains("| 3000 "));
    assert_eq!(gpu_runs(&lenient), (0, 1));
    let (plan, answer) = ran(&context, sql).await;
    assert_eq!(gpu_runs(&plan), (1, 0));
    assert!(answer.contains("| 1000     | 499500.0 "), "{answer}");
}

/// Two files that number their columns differently are one table: what is kept of one is not taken for the other's.
#[tokio::test(flavor = "multi_thread")]
async fn columns_are_told_apart_across_files() {
    if !has_compiler("columns_are_told_apart_across_files") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let both = folder.path().join("both");
    std::fs::create_dir(&both).unwrap();
    let column = |from: i64| Arc::new(Int64Array::from_iter_values(from..from + 10)) as ArrayRef;
    let table = |names: [&str; 2]| {
        let columns = [(names[0], column(0)), (names[1], column(1000))];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
    };
    write(&both.join("1.orc"), &table(["a", "b"]));
    write(&both.join("2.orc"), &table(["b", "a"]));
    let context = open(folder.path(), &GPU_SETTINGS[0]).await;
    session::register_orc(&context, "both", &both.display().to_string())
        .await
        .unwrap();
    let second = both.join("2.orc").display().to_string();
    session::register_orc(&context, "second", &second).await.unwrap();
    for (table, sums) in [
        ("both", "| 10090 | 10090 |"),
        ("second", "| 10045 | 45 "),
        ("both", "| 10090 | 10090 |"),
    ] {
        let answer = text(&context, &format!("SELECT sum(a) AS a, sum(b) AS b FROM {table}")).await;
        assert!(answer.contains(sums), "{table}: {answer}");
    }
}

/// Strings keep their numbers from query to query, whatever literals come first.
#[tokio::test(flavor = "multi_thread")]
async fn strings_are_found_by_equality() {
    if !has_compiler("strings_are_found_by_equality") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let context = open(folder.path(), &GPU_SETTINGS[0]).await;
    for (word, count) in [("never there", "0  "), ("c", "750"), ("a", "750")] {
        let answer = text(&context, &format!("SELECT count(*) AS n FROM t WHERE word = '{word}'")).await;
        assert!(
            answer.contains(&format!("| {count} |").replace("0   |", "0 |")),
            "{word}: {answer}"
        );
    }
    let (plan, answer) = ran(
        &context,
        "SELECT coalesce(word, 'none') AS w, count(*) FROM t GROUP BY w ORDER BY w",
    )
    .await;
    assert_eq!(gpu_runs(&plan), (1, 0));
    assert!(answer.contains("none") && answer.contains("| a    | 750"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_elses_session_gets_it_in_a_line() {
    if !has_compiler("somebody_elses_session_gets_it_in_a_line") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("t.orc"), &rows());
    let mut options = GrampusOptions::default();
    options.device = Device::Prefer;
    options.gpu_target = grampus::GpuTarget::Host;
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
