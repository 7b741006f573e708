//! `SUMMARIZE`: figures of each column of a table or a query, by `plan_sql` and `data_frame`.

mod support;

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::Result;
use datafusion::execution::context::SQLOptions;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use grampus::GrampusConfig;
use grampus::session::plan_cache::{data_frame, plan_sql};
use grampus::session::register_orc;
use grampus_orc_layout::write::WriterProperties;

fn session() -> SessionContext {
    grampus::session::context(GrampusConfig::default()).unwrap()
}

/// The rows of a statement, with a space between the values.
async fn rows(context: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let (plan, task) = plan_sql(context, sql).await?;
    Ok(collect(plan, task).await?.iter().flat_map(lines).collect())
}

fn lines(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::new().with_null("-");
    let columns = batch.columns().iter();
    let columns: Vec<_> = columns
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
        .collect();
    let row = |row| {
        columns
            .iter()
            .map(|column| column.value(row).to_string())
            .collect::<Vec<_>>()
    };
    (0..batch.num_rows()).map(|number| row(number).join(" ")).collect()
}

/// The rows with `q` for each quartile that is not NULL.
fn without_quartiles(batch: &RecordBatch) -> Vec<String> {
    let hidden = |(name, column): (&str, &ArrayRef)| -> ArrayRef {
        match name {
            "q25" | "q50" | "q75" => Arc::new(StringArray::from_iter(
                (0..column.len()).map(|row| column.is_valid(row).then_some("q")),
            )),
            _ => Arc::clone(column),
        }
    };
    let schema = batch.schema();
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let columns = names.zip(batch.columns()).map(hidden).collect();
    lines(&RecordBatch::try_new(batch.schema(), columns).unwrap())
}

/// Writes the columns `Id`, 0 to 99, and `odd "name" é`, the same with NULL for each odd number.
fn write_numbers(path: &Path) {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let odd: ArrayRef = Arc::new(Int64Array::from_iter((0..100).map(|id| (id % 2 == 0).then_some(id))));
    let batch = RecordBatch::try_from_iter_with_nullable([("Id", ids, true), ("odd \"name\" é", odd, true)]).unwrap();
    support::write_orc(path, batch.schema(), &[batch], WriterProperties::default());
}

#[tokio::test]
async fn each_type_has_the_figures_that_it_can_have() {
    let context = session();
    let create = "CREATE TABLE t AS SELECT CAST(v AS INT) AS i, v * 0.5 AS f, CAST(v AS DECIMAL(10, 2)) AS d, \
                  v > 4 AS b, DATE '2019-12-31' + CAST(v AS INT) AS day, \
                  to_timestamp(1577836800 + v * 60) AS at, \
                  CASE WHEN v > 4 THEN 'x' || v END AS s, arrow_cast('b', 'Binary') AS y, make_array(v) AS l, \
                  named_struct('a', v) AS st, NULL AS n, arrow_cast('k', 'Dictionary(Int32, Utf8)') AS k \
                  FROM generate_series(1, 9) AS g(v)";
    rows(&context, create).await.unwrap();
    // The standard deviation of 1 to 9 is √7.5. Quartiles are estimates: here only whether there are any.
    let expected = [
        "i INTEGER 1 9 9 5.0 2.7386127875258306 q q q 9 0.0",
        "f DOUBLE 0.5 4.5 9 2.5 1.3693063937629153 q q q 9 0.0",
        "d DECIMAL(10,2) 1.00 9.00 9 5.0 2.7386127875258306 q q q 9 0.0",
        "b BOOLEAN false true 2 - - - - - 9 0.0",
        "day DATE 2020-01-01 2020-01-09 9 - - q q q 9 0.0",
        "at TIMESTAMP 2020-01-01T00:01:00 2020-01-01T00:09:00 9 - - q q q 9 0.0",
        "s VARCHAR x5 x9 5 - - - - - 9 44.44",
        "y BYTEA - - 1 - - - - - 9 0.0",
        "l BIGINT[] - - - - - - - - 9 0.0",
        "st STRUCT(a BIGINT) - - - - - - - - 9 0.0",
        "n NULL - - - - - - - - 9 100.0",
        "k VARCHAR k k 1 - - - - - 9 0.0",
    ];
    let (plan, task) = plan_sql(&context, "SUMMARIZE t").await.unwrap();
    let found = collect(plan, task).await.unwrap();
    assert_eq!(found.iter().flat_map(without_quartiles).collect::<Vec<_>>(), expected);
    let names = "column_name column_type min max approx_unique avg std q25 q50 q75 count null_percentage";
    let schema = found[0].schema();
    let found: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(found.join(" "), names);
}

#[tokio::test]
async fn quartiles_are_close_also_of_dates_and_timestamps() {
    let context = session();
    let sql = "SUMMARIZE SELECT v, to_timestamp(v) AS at, DATE '1970-01-01' + CAST(v AS INT) AS day \
               FROM generate_series(0, 1000) AS g(v)";
    let (plan, task) = plan_sql(&context, sql).await.unwrap();
    let found = collect(plan, task).await.unwrap();
    for (name, share) in [("q25", 0.25), ("q50", 0.5), ("q75", 0.75)] {
        let texts = found[0].column_by_name(name).unwrap().as_string::<i32>();
        let number: f64 = texts.value(0).parse().unwrap();
        assert!((number - 1000.0 * share).abs() < 10.0, "{name} {number}");
        let place = |text: &str| {
            let parsed = ScalarValue::from(text).cast_to(&DataType::Timestamp(TimeUnit::Millisecond, None));
            match parsed.unwrap() {
                ScalarValue::TimestampMillisecond(Some(milliseconds), _) => milliseconds as f64 / 1e3,
                other => panic!("{other}"),
            }
        };
        assert!(
            (place(texts.value(1)) - 1000.0 * share).abs() < 10.0,
            "{name} {}",
            texts.value(1)
        );
        assert!(
            (place(texts.value(2)) / 86_400.0 - 1000.0 * share).abs() < 10.0,
            "{name} {}",
            texts.value(2)
        );
    }
}

#[tokio::test]
async fn orc_files_are_read_once_and_names_match_as_in_queries() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.orc");
    write_numbers(&path);
    let path = path.display().to_string();
    let context = session();
    register_orc(&context, "Numbers", &path).await.unwrap();
    let whole = rows(&context, "SUMMARIZE numbers").await.unwrap();
    assert!(
        whole[0].starts_with("Id BIGINT 0 99 ") && whole[0].ends_with(" 100 0.0"),
        "{whole:?}"
    );
    assert!(
        whole[1].starts_with("odd \"name\" é BIGINT 0 98 ") && whole[1].ends_with(" 100 50.0"),
        "{whole:?}"
    );
    let named = rows(&context, &format!("-- by path\nsummarize '{path}'"))
        .await
        .unwrap();
    assert_eq!(named, whole);
    let few = "SUMMARIZE SELECT ID, id % 3 AS rest FROM numbers WHERE iD < 10 ORDER BY id LIMIT 6;";
    let few = rows(&context, few).await.unwrap();
    assert!(
        few[0].starts_with("Id BIGINT 0 5 6 2.5 ") && few[1].starts_with("rest BIGINT 0 2 3 1.0 "),
        "{few:?}"
    );
    let (plan, _) = plan_sql(&context, "SUMMARIZE numbers").await.unwrap();
    let plan = displayable(plan.as_ref()).indent(false).to_string();
    assert_eq!(plan.matches("OrcScanExec").count(), 1, "{plan}");
}

#[tokio::test]
async fn summaries_are_explained() {
    let context = session();
    rows(&context, "CREATE TABLE t AS SELECT 1 AS a").await.unwrap();
    for (explain, expected) in [
        ("EXPLAIN", "Unnest: lists[summary"),
        ("EXPLAIN VERBOSE", "initial_logical_plan"),
        ("EXPLAIN ANALYZE", "output_rows=1"),
    ] {
        let found = rows(&context, &format!("{explain} SUMMARIZE t"))
            .await
            .unwrap()
            .join("\n");
        assert!(found.contains(expected) && found.contains("approx_distinct"), "{found}");
    }
}

/// Planning looks at each column a fixed number of times. With an aggregate for each figure, 400 columns took minutes.
#[tokio::test]
async fn many_columns_are_planned_at_once() {
    let context = session();
    let columns: Vec<String> = (0..400).map(|at| format!("v + {at} AS c{at:03}")).collect();
    let create = format!(
        "CREATE TABLE t AS SELECT {} FROM generate_series(1, 5) AS g(v)",
        columns.join(", ")
    );
    rows(&context, &create).await.unwrap();
    let (plan, _) = plan_sql(&context, "SUMMARIZE t").await.unwrap();
    let plan = displayable(plan.as_ref()).indent(false).to_string();
    assert!((1..=2).contains(&plan.matches("approx_distinct").count()), "{plan}");
    let found = rows(&context, "SUMMARIZE t").await.unwrap();
    assert_eq!(found.len(), 400);
    assert!(
        found[399].starts_with("c399 BIGINT 400 404 5 402.0 1.58113883"),
        "{}",
        found[399]
    );
    assert!(found[399].ends_with(" 5 0.0"), "{}", found[399]);
}

#[tokio::test]
async fn empty_inputs_and_equal_names_have_a_row_for_each_column() {
    let context = session();
    rows(&context, "CREATE TABLE t AS SELECT 1 AS a, 'x' AS b")
        .await
        .unwrap();
    let empty = rows(&context, "SUMMARIZE (SELECT a FROM t WHERE false)").await.unwrap();
    assert_eq!(empty, ["a BIGINT - - 0 - - - - - 0 -"]);
    let twice = rows(&context, "SUMMARIZE SELECT x.b, y.b FROM t x, t y").await.unwrap();
    assert_eq!(twice, ["b VARCHAR x x 1 - - - - - 1 0.0"; 2]);
    let values = rows(&context, "SUMMARIZE VALUES (1.5), (NULL)").await.unwrap();
    assert_eq!(values, ["column1 DOUBLE 1.5 1.5 1 1.5 - 1.5 1.5 1.5 2 50.0"]);
}

#[tokio::test]
async fn parameters_and_options_hold_for_summaries() {
    let context = session();
    rows(
        &context,
        "CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 9)",
    )
    .await
    .unwrap();
    let only_queries = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false);
    let frame = data_frame(&context, "SUMMARIZE SELECT a FROM t WHERE a > $1", only_queries)
        .await
        .unwrap();
    let frame = frame.with_param_values(vec![ScalarValue::from(7_i64)]).unwrap();
    let found: Vec<String> = frame.collect().await.unwrap().iter().flat_map(lines).collect();
    assert!(found[0].starts_with("a BIGINT 8 9 2 8.5 "), "{found:?}");
    for (wrong, expected) in [
        ("SUMMARIZE none", "table 'datafusion.public.none' not found"),
        ("SUMMARIZE", "identifier, found: EOF"),
        ("SUMMARIZE t; SELECT 1", "more than one SQL statement"),
        (" ", "no SQL statement"),
    ] {
        let error = rows(&context, wrong).await.unwrap_err().to_string();
        assert!(
            error.to_lowercase().contains(&expected.to_lowercase()),
            "{wrong}: {error}"
        );
    }
}
