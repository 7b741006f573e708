//! `Grampus`, the runtime that several sessions share: what they share, and what each change does to a session.

#[path = "sessions/column_names.rs"]
mod column_names;
#[path = "sessions/datafusion_repairs.rs"]
mod datafusion_repairs;
mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use grampus::session::plan_cache::{data_frame, plan_sql, plan_sql_with_options};
use grampus::session::register_orc;
use grampus::{Device, Grampus, GrampusConfig, MemoryLimit, OrcTable, SessionChange};
use grampus_orc_layout::write::WriterProperties;

/// Writes the column `a` with the numbers below `rows`.
fn orc(path: &Path, rows: i64) {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    support::write_orc(path, batch.schema(), &[batch], WriterProperties::default());
}

fn owned(grampus: &Grampus) -> SessionContext {
    let own = SessionStateBuilder::new().with_default_features();
    SessionContext::new_with_state(grampus.register(own).build())
}

async fn answer(context: &SessionContext, sql: &str) -> Result<String> {
    let (plan, task) = plan_sql(context, sql).await?;
    Ok(pretty_format_batches(&collect(plan, task).await?)?.to_string())
}

#[tokio::test]
async fn sessions_of_a_runtime_share_files_and_memory_but_no_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    orc(&path, 10);
    let grampus = Grampus::builder().build().unwrap();
    let sessions = [owned(&grampus), grampus.context().unwrap()];
    let mut files = Vec::new();
    for session in &sessions {
        let state = session.state();
        let table = OrcTable::open(&state, &[path.display().to_string()]).await.unwrap();
        files.push(Arc::clone(&table.files(&state).await.unwrap()[0].file));
    }
    assert!(Arc::ptr_eq(&files[0], &files[1]));
    let other = grampus::session::context(GrampusConfig::default()).unwrap().state();
    let table = OrcTable::open(&other, &[path.display().to_string()]).await.unwrap();
    assert!(!Arc::ptr_eq(&files[0], &table.files(&other).await.unwrap()[0].file));

    register_orc(&sessions[0], "t", path.to_str().unwrap()).await.unwrap();
    assert!(sessions[0].sql("SELECT * FROM t").await.is_ok());
    assert!(sessions[1].sql("SELECT * FROM t").await.is_err());
    let pool = |context: &SessionContext| Arc::clone(&context.runtime_env().memory_pool);
    assert!(Arc::ptr_eq(&pool(&sessions[1]), &pool(&grampus.context().unwrap())));
    assert!(Arc::ptr_eq(&pool(&sessions[1]), &grampus.memory_pool()));
}

#[test]
fn threads_with_their_own_tokio_runtimes_share_a_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    orc(&path, 50_000);
    let grampus = Grampus::builder().build().unwrap();
    // Each thread's runtime ends before the next one asks again.
    for _ in 0..2 {
        std::thread::scope(|scope| {
            for least in [0_i64, 10, 49_999] {
                let (grampus, path) = (grampus.clone(), &path);
                scope.spawn(move || {
                    let runtime = tokio::runtime::Runtime::new().unwrap();
                    let context = grampus.context().unwrap();
                    let sql = format!(
                        "SELECT count(*) AS n, sum(a) AS s FROM '{}' WHERE a >= {least}",
                        path.display()
                    );
                    let text = runtime.block_on(answer(&context, &sql)).unwrap();
                    let (rows, sum) = (50_000 - least, (least + 49_999) * (50_000 - least) / 2);
                    assert!(
                        text.contains(&format!("| {rows} ")) && text.contains(&format!(" {sum} |")),
                        "{text}"
                    );
                });
            }
        });
    }
}

/// Rows of the table of [`eight_sessions_answer_mixed_queries_within_the_memory_of_one`].
const MIXED_ROWS: i64 = 300_000;

/// A filter, groups, first rows, a join, a window and many groups.
const MIXED: [&str; 6] = [
    "SELECT count(*), sum(a), min(a), max(a) FROM t WHERE a % 7 = 3 AND a > 1000",
    "SELECT a % 10 AS d, count(*), sum(a) FROM t GROUP BY d ORDER BY d",
    "SELECT a FROM t ORDER BY (a * 7919) % 300000 DESC LIMIT 5",
    "SELECT count(*), sum(s.a), sum(t.a) FROM t AS s JOIN t ON s.a = t.a + 1",
    "SELECT sum(a), sum(n) FROM (SELECT a, row_number() OVER (ORDER BY (a * 7919) % 300000) AS n FROM t)",
    "SELECT count(*), max(n) FROM (SELECT a / 2 AS h, count(*) AS n FROM t GROUP BY h)",
];

#[test]
fn eight_sessions_answer_mixed_queries_within_the_memory_of_one() {
    const LIMIT_BYTES: usize = 64 << 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    orc(&path, MIXED_ROWS);
    let path = path.to_str().unwrap();
    let config = |memory_limit| GrampusConfig {
        target_partitions: Some(2),
        memory_limit,
        ..GrampusConfig::default()
    };
    let ask = |context: &SessionContext, sql: &str| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            if !context.table_exist("t").unwrap() {
                register_orc(context, "t", path).await.unwrap();
            }
            answer(context, sql)
                .await
                .unwrap_or_else(|error| panic!("{sql}: {error}"))
        })
    };
    let alone = grampus::session::context(config(MemoryLimit::Unlimited)).unwrap();
    let expected = MIXED.map(|sql| ask(&alone, sql));
    let n = MIXED_ROWS;
    assert!(expected[3].contains(&format!("| {} ", n - 1)), "{}", expected[3]);
    assert!(
        expected[4].contains(&format!("| {} | {} |", n * (n - 1) / 2, n * (n + 1) / 2)),
        "{}",
        expected[4]
    );

    let grampus = Grampus::builder()
        .config(config(MemoryLimit::Bytes(LIMIT_BYTES)))
        .build()
        .unwrap();
    let most = AtomicUsize::new(0);
    let left = AtomicUsize::new(8);
    std::thread::scope(|scope| {
        for session in 0..8 {
            let (grampus, ask, expected, left) = (&grampus, &ask, &expected, &left);
            scope.spawn(move || {
                let context = grampus.context().unwrap();
                for turn in 0..MIXED.len() {
                    let at = (session + turn) % MIXED.len();
                    assert_eq!(
                        ask(&context, MIXED[at]),
                        expected[at],
                        "session {session}: {}",
                        MIXED[at]
                    );
                }
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        // A thread that panics never counts itself, so the watch has an end of its own.
        let pool = grampus.memory_pool();
        let watch = std::time::Instant::now();
        while left.load(Ordering::Relaxed) > 0 && watch.elapsed().as_secs() < 120 {
            most.fetch_max(pool.reserved(), Ordering::Relaxed);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
    let most = most.into_inner();
    assert!((1 << 20..=LIMIT_BYTES).contains(&most), "{most} bytes were reserved");
    assert_eq!(grampus.memory_pool().reserved(), 0);
}

/// The names of a session's rules, table factories and ORC's format.
fn names(state: &SessionState) -> Vec<String> {
    let analyzers = state.analyzer().rules.iter().map(|rule| rule.name().to_owned());
    let optimizers = state.physical_optimizers().iter().map(|rule| rule.name().to_owned());
    let format = state.get_file_format_factory("orc").map(|_| "format orc".to_owned());
    analyzers
        .chain(optimizers)
        .chain(format)
        .chain(state.table_factories().keys().cloned())
        .collect()
}

#[test]
fn each_change_is_switched_off_alone() {
    let plain = names(&SessionStateBuilder::new().with_default_features().build());
    let registered = |without: &[SessionChange]| {
        let builder = without
            .iter()
            .fold(Grampus::builder(), |builder, change| builder.without(*change));
        let added = names(&owned(&builder.build().unwrap()).state());
        added
            .into_iter()
            .filter(|name| !plain.contains(name))
            .collect::<Vec<_>>()
    };
    let all = registered(&[]);
    for change in SessionChange::ALL {
        let left = registered(&[change]);
        let gone: Vec<&String> = all.iter().filter(|name| !left.contains(name)).collect();
        let expected: &[&str] = match change {
            SessionChange::OrcTables => &["replaced_files", "ORC"],
            SessionChange::OrcFormat => &["format orc"],
            SessionChange::DataFusionRepairs => &[
                "memberships",
                "short_timestamps",
                "decimal_comparisons",
                "date_comparisons",
                "wide_sums",
                "decimal_literals",
                "exact_sums",
                "date_differences",
                "short_timestamps",
                "computed_keys",
                "subqueries",
                "missing_sorts",
                "guarded_filters",
            ],
            SessionChange::CharLiterals => &["char_literals"],
            SessionChange::TimestampLiterals => &["timestamp_literals"],
            SessionChange::FloatZeros => &["float_literals"],
            SessionChange::ParquetNans => &["parquet_bounds", "parquet_filters"],
            SessionChange::ParquetCascade => &["parquet_cascade"],
            SessionChange::DrawnOnce => &["drawn_once"],
            SessionChange::FilterSamples => &["filter_samples"],
            SessionChange::GpuAggregates => &["gpu_aggregates"],
            SessionChange::IndexedAggregates => &["indexed_aggregates"],
            SessionChange::SpillSafeRepartitions => &["spill_safe_repartitions"],
            SessionChange::SpillingJoins => &["spilling_joins"],
            SessionChange::CooperativeJoins => &["cooperative_joins"],
            _ => &[], // no rules: the plan cache, functions
        };
        assert_eq!(gone, expected, "{change:?}");
        assert_eq!(left.len() + gone.len(), all.len(), "{change:?}");
    }
    assert_eq!(registered(&SessionChange::ALL), Vec::<String>::new());
}

#[test]
fn a_required_gpu_cannot_be_switched_off() {
    let mut config = GrampusConfig::default();
    config.options.device = Device::Gpu;
    let builder = Grampus::builder().config(config).without(SessionChange::GpuAggregates);
    let error = builder.build().unwrap_err().to_string();
    assert!(error.contains("grampus.device is 'gpu'"), "{error}");
}

#[tokio::test]
async fn sql_options_refuse_statements_before_they_have_an_effect() {
    let context = Grampus::builder().build().unwrap().context().unwrap();
    answer(&context, "CREATE TABLE t AS VALUES (1), (2)").await.unwrap();
    let queries = SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false);
    for refused in [
        "DROP TABLE t",
        "CREATE TABLE u AS SELECT * FROM t",
        "INSERT INTO t VALUES (3)",
        "SET grampus.prune = false",
        "PREPARE p AS SELECT 1",
    ] {
        let error = plan_sql_with_options(&context, refused, queries).await.unwrap_err();
        assert!(error.to_string().contains("not supported"), "{refused}: {error}");
        assert!(data_frame(&context, refused, queries).await.is_err(), "{refused}");
    }
    // The second time the plan comes from the cache.
    for _ in 0..2 {
        let planned = plan_sql_with_options(&context, "SELECT sum(column1) AS s FROM t", queries).await;
        let (plan, task) = planned.unwrap();
        let text = pretty_format_batches(&collect(plan, task).await.unwrap())
            .unwrap()
            .to_string();
        assert!(text.contains("| 3 |"), "{text}");
    }
}

#[tokio::test]
async fn prepared_statements_and_parameters_get_their_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    orc(&path, 100);
    let context = Grampus::builder().build().unwrap().context().unwrap();
    register_orc(&context, "t", path.to_str().unwrap()).await.unwrap();
    answer(
        &context,
        "PREPARE p(BIGINT) AS SELECT count(*) AS n FROM t WHERE A >= $1",
    )
    .await
    .unwrap();
    for (least, count) in [(90, "| 10 |"), (99, "| 1 "), (90, "| 10 |")] {
        let text = answer(&context, &format!("EXECUTE p({least})")).await.unwrap();
        assert!(text.contains(count), "{least}: {text}");
    }
    let sql = "SELECT count(*) AS n FROM T WHERE A >= $1";
    for (least, count) in [(98, "| 2 "), (97, "| 3 ")] {
        let frame = data_frame(&context, sql, SQLOptions::new()).await.unwrap();
        let frame = frame.with_param_values(vec![ScalarValue::Int64(Some(least))]).unwrap();
        let text = frame.to_string().await.unwrap();
        assert!(text.contains(count), "{least}: {text}");
    }
}
