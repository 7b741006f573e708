//! The faults of DataFusion alone. If one of these tests fails, DataFusion is mended and the repair can go.

use arrow::array::{RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Field};
use datafusion::prelude::{SessionConfig, SessionContext};

use super::answer_by_datafusion;

async fn stock(sql: &str) -> String {
    let found = answer_by_datafusion(&SessionContext::new(), sql).await;
    found.unwrap_or_else(|error| format!("error: {error}"))
}

/// `decimal_comparisons`, `decimal_literals`: apache/datafusion#4072, #12817.
#[tokio::test]
async fn datafusion_compares_decimals_by_way_of_doubles() {
    let equal = "SELECT CAST('10128677.64' AS DECIMAL(12, 2)) = 10128677.64";
    assert_eq!(stock(equal).await, "false");
    let column = "SELECT count(*) FROM (SELECT CAST(i AS DECIMAL(10, 2)) / 100 AS d, i / 100.0 AS x
        FROM generate_series(1, 4000) t(i)) s WHERE d = x";
    assert_ne!(stock(column).await, "4000");
    let literal = "SELECT CAST(10046137.9887 AS DECIMAL(38, 15))";
    assert_ne!(stock(literal).await, "10046137.988700000000000");
    let integer = "SELECT arrow_cast(n + 0.5, 'Decimal64(12, 2)') = n FROM generate_series(1, 1) t(n)";
    assert_eq!(stock(integer).await, "true");
}

/// `exact_sums`.
#[tokio::test]
async fn datafusion_wraps_sums_around() {
    let days = "SELECT sum(arrow_cast(v, 'Duration(Second)')) < arrow_cast(0, 'Duration(Second)')
        FROM (VALUES (9223372036854775807), (1)) t(v)";
    assert_eq!(stock(days).await, "true");
    let average = "SELECT avg(arrow_cast(v, 'Duration(Second)')) < arrow_cast(0, 'Duration(Second)')
        FROM (VALUES (9223372036854775807), (1)) t(v)";
    assert_eq!(stock(average).await, "true");
    let decimals = "SELECT sum(CAST('90000000000000000000000000000000000000' AS DECIMAL(38, 0)))
        FROM generate_series(1, 20)";
    assert_eq!(stock(decimals).await, "98588165395307682683126962841158942720");
}

/// `sound_simplification`.
#[tokio::test]
async fn datafusion_merges_lists_by_their_text() {
    let columns = "SELECT a IN (b, 1, 2, 3, 4) AND a IN (c, 6, 7, 8, 9) FROM (VALUES (5, 5, 5)) t(a, b, c)";
    assert_eq!(stock(columns).await, "false");
    let null = "SELECT a FROM (VALUES (6)) t(a) WHERE a NOT IN (1, 2, 3, 4, NULL) AND a IN (2, 3, 4, 6)";
    assert_eq!(stock(null).await, "6");
    let unknown = "SELECT (a IN (1, 2, 3, 4) AND a IN (5, 6, 7, 8)) IS NULL FROM (VALUES (NULL::INT)) t(a)";
    assert_eq!(stock(unknown).await, "false");
    let text = "SELECT (s ~ '.*') IS NULL FROM (VALUES (NULL::VARCHAR)) t(s)";
    assert_eq!(stock(text).await, "false");
}

/// `sound_pushdown`.
#[tokio::test]
async fn datafusion_pushes_filters_to_another_column_of_the_name() {
    let (folder, context) = (tempfile::tempdir().unwrap(), SessionContext::new());
    for (table, rows) in [
        ("l", "(1::INT), (2::INT)) t(k)"),
        ("r", "(2::BIGINT), (3::BIGINT)) t(k)"),
    ] {
        let file = folder.path().join(format!("{table}.parquet")).display().to_string();
        for sql in [
            format!("COPY (SELECT * FROM (VALUES {rows}) TO '{file}'"),
            format!("CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{file}'"),
        ] {
            answer_by_datafusion(&context, &sql).await.unwrap();
        }
    }
    let sql = "SELECT r.k FROM l RIGHT JOIN r ON l.k = r.k WHERE l.k IS NULL";
    assert_eq!(answer_by_datafusion(&context, sql).await.unwrap(), "");
}

/// `computed_keys`: apache/datafusion#18327.
#[tokio::test]
async fn datafusion_refuses_orders_by_conditions() {
    let sql = "SELECT i FROM (SELECT l.i, r.i IS NULL AS m FROM generate_series(1, 9) l(i)
        LEFT JOIN generate_series(2, 4) r(i) ON l.i = r.i) z ORDER BY abs(i) > 1 OR m";
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    let found = answer_by_datafusion(&context, sql).await;
    assert!(found.is_err(), "{found:?}");
}

/// `relations::bags`.
#[tokio::test]
async fn datafusion_drops_all_copies_of_rows() {
    let except = "SELECT a FROM (VALUES (1), (1)) t(a) EXCEPT ALL SELECT 1";
    assert_eq!(stock(except).await, "");
    let intersect = "SELECT a FROM (VALUES (1), (1)) t(a) INTERSECT ALL SELECT 1";
    assert_eq!(stock(intersect).await, "1; 1");
}

/// `statement::ignored_clauses`.
#[tokio::test]
async fn datafusion_leaves_clauses_out() {
    let sample = "SELECT a FROM (VALUES (1), (1)) t(a) TABLESAMPLE (0 PERCENT)";
    assert_eq!(stock(sample).await, "1; 1");
    let rollup = "SELECT a FROM (VALUES (1), (2)) t(a) GROUP BY a WITH ROLLUP HAVING a > 1 OR a IS NULL";
    assert_eq!(stock(rollup).await, "2");
    let context = SessionContext::new();
    for sql in ["CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (1)"] {
        answer_by_datafusion(&context, sql).await.unwrap();
    }
    let distinct = answer_by_datafusion(&context, "SELECT DISTINCT a FROM t").await;
    assert_eq!(distinct.unwrap(), "1; 1");
}

/// `named_files::common_schema`.
#[tokio::test]
async fn datafusion_takes_missing_columns_for_columns_without_null() {
    let (folder, context) = (tempfile::tempdir().unwrap(), SessionContext::new());
    let path = folder.path().display();
    for sql in [
        format!("COPY (SELECT 1 AS a, 2 AS b) TO '{path}/1.parquet'"),
        format!("COPY (SELECT 1 AS a) TO '{path}/2.parquet'"),
        format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{path}/'"),
    ] {
        answer_by_datafusion(&context, &sql).await.unwrap();
    }
    let found = answer_by_datafusion(&context, "SELECT count(*) FROM t WHERE b IS NULL").await;
    assert_eq!(found.unwrap(), "0");
}

/// A session with the column `d` of two dates, in a Parquet file with statistics.
async fn dates(folder: &tempfile::TempDir, dates: &str) -> SessionContext {
    let context = SessionContext::new();
    let file = folder.path().join("t.parquet").display().to_string();
    for sql in [
        format!("COPY (SELECT CAST(column1 AS DATE) AS d FROM (VALUES {dates})) TO '{file}'"),
        format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{file}'"),
    ] {
        answer_by_datafusion(&context, &sql).await.unwrap();
    }
    context
}

/// `date_comparisons`.
#[tokio::test]
async fn datafusion_compares_dates_in_nanoseconds() {
    let folder = tempfile::tempdir().unwrap();
    let context = dates(&folder, "('9999-12-31'), ('2019-12-01')").await;
    let later = answer_by_datafusion(&context, "SELECT d FROM t WHERE d > now()").await;
    assert!(later.is_err(), "{later:?}");
}

/// `date_differences`: an assertion in DataFusion, or an error.
#[tokio::test]
async fn datafusion_analyzes_differences_of_dates_as_durations() {
    let folder = tempfile::tempdir().unwrap();
    let context = dates(&folder, "('2019-12-01'), ('2019-12-09')").await;
    let filtered =
        async move { answer_by_datafusion(&context, "SELECT d FROM t WHERE d - DATE '2019-12-01' > 5").await };
    let found = tokio::spawn(filtered).await;
    assert!(!matches!(found, Ok(Ok(_))), "{found:?}");
}

/// `date_intervals`.
#[tokio::test]
async fn datafusion_drops_minutes_beside_dates() {
    let sum = "SELECT CAST(DATE '2020-01-01' + INTERVAL '90 minutes' AS VARCHAR)";
    assert_eq!(stock(sum).await, "2020-01-01");
}

/// `order_by_all`, `scalar_forms`, `list_aggregate`.
#[tokio::test]
async fn datafusion_sorts_no_unions_and_matches_parts_of_texts() {
    let session = SessionConfig::new().set_str("datafusion.sql_parser.dialect", "duckdb");
    let context = SessionContext::new_with_config(session);
    let union = "SELECT string_agg(CAST(a AS VARCHAR), '') FROM (SELECT 2 AS a UNION ALL SELECT 1 ORDER BY ALL)";
    let sorted = answer_by_datafusion(&context, union).await;
    assert_ne!(sorted.unwrap_or_default(), "12");
    assert_eq!(stock("SELECT 'abc' SIMILAR TO 'b'").await, "true");
    assert_eq!(
        stock("SELECT array_sum([9007199254740993])").await,
        "9007199254740992.0"
    );
}

/// `short_timestamps`.
#[tokio::test]
async fn datafusion_reads_no_times_without_seconds() {
    assert!(stock("SELECT TIMESTAMP '2024-01-01 10:00'").await.contains("error"));
}

/// `not_in`.
#[tokio::test]
async fn datafusion_forgets_nulls_of_not_in() {
    assert_eq!(
        stock("SELECT 'q' WHERE 1 NOT IN (SELECT * FROM (VALUES (3), (NULL)) v)").await,
        "q"
    );
}

/// `using_keys`: apache/datafusion#22881.
#[tokio::test]
async fn datafusion_loses_keys_of_using() {
    let joined = "SELECT k FROM (VALUES (1), (2)) l(k) RIGHT JOIN (VALUES (3)) r(k) USING (k)";
    assert_eq!(stock(joined).await, "NULL");
}

/// `map_entries`: a panic of arrow's, unless the fields are called `key` and `value`.
#[tokio::test]
async fn datafusion_takes_entries_of_maps_with_certain_names_alone() {
    let item = |name, kind, nullable| Field::new(name, kind, nullable);
    let fields = [
        item("keys", DataType::Utf8, false),
        item("values", DataType::Int32, true),
    ];
    let entries = Field::new("entries", DataType::Struct(fields.to_vec().into()), false);
    let map = new_null_array(&DataType::Map(entries.into(), false), 1);
    let batch = RecordBatch::try_from_iter_with_nullable([("m", map, true)]).unwrap();
    let context = SessionContext::new();
    context.register_batch("t", batch).unwrap();
    let entries = async move { answer_by_datafusion(&context, "SELECT map_entries(m) FROM t").await };
    let found = tokio::spawn(entries).await;
    assert!(!matches!(found, Ok(Ok(_))), "{found:?}");
}
