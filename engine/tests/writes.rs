//! Statements that write ORC, and files of other formats in statements.

mod support;

use std::fs;
use std::path::Path;

use arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use grampus::GrampusConfig;
use grampus::session::plan_cache::plan_sql;
use grampus::session::register_files;

/// A value of each type that ORC stores, then its extremes or another value, then NULL.
const TYPES: &[(&str, &str)] = &[
    ("b", "CAST(column1 = 1 AS BOOLEAN)"),
    ("i8", "CAST(CASE column1 WHEN 1 THEN -128 ELSE 127 END AS TINYINT)"),
    (
        "i16",
        "CAST(CASE column1 WHEN 1 THEN -32768 ELSE 32767 END AS SMALLINT)",
    ),
    (
        "i32",
        "CAST(CASE column1 WHEN 1 THEN -2147483648 ELSE 2147483647 END AS INT)",
    ),
    (
        "i64",
        "CASE column1 WHEN 1 THEN -9223372036854775807 ELSE 9223372036854775807 END",
    ),
    ("u32", "CAST(column1 * 2000000000 AS INT UNSIGNED)"),
    ("f32", "CAST(column1 * 0.5 AS REAL)"),
    ("f64", "column1 * -0.1"),
    ("dec", "CAST(column1 * 1.25 AS DECIMAL(38, 10))"),
    ("d", "DATE '1969-12-31' + CAST(column1 AS INT)"),
    ("ts", "TIMESTAMP '1969-12-31 23:59:58.999999999'"),
    ("s", "CASE column1 WHEN 1 THEN '' ELSE 'ä\"x, y' END"),
    (
        "bin",
        "arrow_cast(CASE column1 WHEN 1 THEN 'a' ELSE 'bc' END, 'Binary')",
    ),
    ("l", "make_array(column1, NULL, 7)"),
    ("st", "named_struct('x', column1, 'y', 'z')"),
];

fn context() -> SessionContext {
    grampus::session::context(GrampusConfig::default()).unwrap()
}

async fn answer(context: &SessionContext, sql: &str) -> Result<String> {
    let (plan, task) = plan_sql(context, sql).await?;
    Ok(pretty_format_batches(&collect(plan, task).await?)?.to_string())
}

/// The select list of [`TYPES`] over the rows 1, 2 and NULL, where the third row has NULLs only.
fn source(nested: bool) -> String {
    let columns = TYPES
        .iter()
        .filter(|(name, _)| nested || !["l", "st", "bin"].contains(name));
    let columns: Vec<String> = columns
        .map(|(name, expr)| format!("CASE WHEN column1 < 3 THEN {expr} END AS {name}"))
        .collect();
    format!(
        "SELECT column1 AS id, {} FROM (VALUES (1), (2), (3))",
        columns.join(", ")
    )
}

/// The files and folders in `folder`.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_every_type_come_back_from_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    for (file, nested) in [
        ("t.orc", true),
        ("t.arrow", true),
        ("t.csv", false),
        ("t.json", false),
        ("t.ndjson", false),
    ] {
        let path = folder.path().join(file);
        let stored = if file.ends_with("json") { "STORED AS JSON" } else { "" };
        let copy = format!("COPY ({} ORDER BY id) TO '{}' {stored}", source(nested), path.display());
        answer(&context, &copy).await.unwrap();
        // CSV and JSON hold text, so that their columns get the types that their values look like.
        let count = format!(
            "SELECT count(*) AS n, count(i8) AS v, sum(i16) AS s FROM '{}'",
            path.display()
        );
        assert!(
            answer(&context, &count).await.unwrap().contains("| 3 | 2 | -1 |"),
            "{file}"
        );
        if nested {
            let sql = format!("SELECT * FROM '{}' ORDER BY id", path.display());
            let wanted = answer(&context, &format!("{} ORDER BY id", source(true)))
                .await
                .unwrap();
            assert_eq!(answer(&context, &sql).await.unwrap(), wanted, "{file}");
        }
    }
}

#[tokio::test]
async fn files_of_other_formats_join_orc() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let context = context();
    fs::write(path("a.csv"), "id,name\n1,one\n2,two\n").unwrap();
    fs::write(path("a.tsv"), "id\tx\n2\ttab\n").unwrap();
    fs::write(path("b.ndjson"), "{\"id\":2,\"v\":0.5}\n{\"id\":3,\"v\":1.5}\n").unwrap();
    answer(&context, &format!("COPY (VALUES (2), (3)) TO '{}'", path("c.orc")))
        .await
        .unwrap();
    register_files(&context, "a", &path("a.csv")).await.unwrap();
    let sql = format!(
        "SELECT a.name, x, v FROM a JOIN '{}' b ON a.id = b.id JOIN '{}' c ON c.column1 = a.id \
         JOIN '{}' t ON t.id = a.id",
        path("b.ndjson"),
        path("c.orc"),
        path("a.tsv")
    );
    let text = answer(&context, &sql).await.unwrap();
    assert!(
        text.contains("| two  | tab | 0.5 |") && text.lines().count() == 5,
        "{text}"
    );
    for missing in ["no.csv", "no.json", "no.arrow"] {
        let error = register_files(&context, "m", &path(missing))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(missing) && error.contains("no such file"), "{error}");
    }
}

#[tokio::test]
async fn partitioned_copies_and_inserts_are_read_by_their_values() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let place = folder.path().join("t");
    let copy = format!(
        "COPY (SELECT column1 AS v, column2 AS year FROM (VALUES (1, 2019), (2, 2020), (3, 2020))) TO '{}/' \
         STORED AS ORC PARTITIONED BY (year) OPTIONS (compression 'zstd')",
        place.display()
    );
    answer(&context, &copy).await.unwrap();
    assert_eq!(names(&place), ["year=2019", "year=2020"]);
    let create = format!("CREATE EXTERNAL TABLE t STORED AS ORC LOCATION '{}/'", place.display());
    answer(&context, &create).await.unwrap();
    answer(&context, "INSERT INTO t VALUES (4, 2021), (5, 2020)")
        .await
        .unwrap();
    let text = answer(&context, "SELECT year, sum(v) AS s FROM t GROUP BY year ORDER BY year")
        .await
        .unwrap();
    for row in ["| 2019 | 1  |", "| 2020 | 10 |", "| 2021 | 4  |"] {
        assert!(text.contains(row), "{text}");
    }
}

#[tokio::test]
async fn partitioned_tables_are_overwritten_whole() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let place = folder.path().join("t");
    let create = format!(
        "CREATE EXTERNAL TABLE t (v BIGINT, year BIGINT, kind VARCHAR) STORED AS ORC PARTITIONED BY (year, kind) \
         LOCATION '{}/'",
        place.display()
    );
    answer(&context, &create).await.unwrap();
    answer(
        &context,
        "INSERT INTO t VALUES (1, 2019, 'a'), (2, 2020, 'b'), (3, 2020, NULL)",
    )
    .await
    .unwrap();
    let left = place.join("year=2020/kind=b/.grampus-abcdefghijkl.tmp");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("lock"), "of a killed process").unwrap();
    // Rows of the table itself: 2019 is gone afterwards, and a partition of another value comes.
    answer(
        &context,
        "INSERT OVERWRITE t SELECT v * 10, year, coalesce(kind, 'c d=e/%') FROM t WHERE year = 2020",
    )
    .await
    .unwrap();
    assert_eq!(
        (names(&place), names(folder.path())),
        (vec!["year=2020".to_owned()], vec!["t".to_owned()])
    );
    let rows = "SELECT * FROM t ORDER BY v";
    let text = answer(&context, rows).await.unwrap();
    assert!(
        text.contains("| 20 | 2020 | b       |") && text.contains("| 30 | 2020 | c d=e/% |"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 6, "{text}");

    let failing = "INSERT OVERWRITE t SELECT v / (v - 30), year, kind FROM t";
    assert!(answer(&context, failing).await.is_err());
    assert_eq!(answer(&context, rows).await.unwrap(), text);
    let notes = place.join("year=2020/kind=b/notes.txt");
    fs::write(&notes, "mine").unwrap();
    let error = answer(&context, "INSERT OVERWRITE t VALUES (1, 2, 'x')")
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("t/year=2020/kind=b/notes.txt is no ORC file of the table"),
        "{error}"
    );
    fs::remove_file(notes).unwrap();

    answer(&context, "INSERT OVERWRITE t SELECT * FROM t WHERE false")
        .await
        .unwrap();
    let again = format!("CREATE EXTERNAL TABLE u STORED AS ORC LOCATION '{}/'", place.display());
    answer(&context, &again).await.unwrap();
    for table in ["t", "u"] {
        let text = answer(
            &context,
            &format!("SELECT count(v), count(year), count(kind) FROM {table}"),
        )
        .await
        .unwrap();
        assert!(text.contains("| 0 "), "{text}");
    }
}

#[tokio::test]
async fn a_failed_copy_leaves_the_old_file_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let place = folder.path().join("t.orc");
    let write = |query: &str| format!("COPY ({query}) TO '{}'", place.display());
    answer(&context, &write("SELECT 1 AS a")).await.unwrap();
    let old = fs::read(&place).unwrap();
    // The last of many rows fails, when earlier ones have been written.
    let failing = "SELECT 10 / (50000 - value) AS a FROM generate_series(1, 50000)";
    assert!(answer(&context, &write(failing)).await.is_err());
    assert_eq!(
        (names(folder.path()), fs::read(&place).unwrap()),
        (vec!["t.orc".to_owned()], old)
    );
    let parts = format!(
        "COPY (SELECT value % 3 AS p, 10 / (50000 - value) AS a FROM generate_series(1, 50000)) TO '{}/' \
         STORED AS ORC PARTITIONED BY (p)",
        folder.path().join("parts").display()
    );
    assert!(answer(&context, &parts).await.is_err());
    assert_eq!(names(folder.path()), ["t.orc"]);
    // A type that ORC does not have.
    let error = answer(&context, &write("SELECT INTERVAL '1 day' AS i"))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("'i'") && error.contains("cannot be written"), "{error}");
    let error = answer(&context, &format!("{} OPTIONS (delimiter ';')", write("SELECT 1 AS a")))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("delimiter is no option of ORC"), "{error}");
    answer(&context, &write("SELECT 7 AS a")).await.unwrap();
    let text = answer(&context, &format!("SELECT a FROM '{}'", place.display()))
        .await
        .unwrap();
    assert!(text.contains("| 7 |"), "{text}");
}

#[tokio::test]
async fn tables_are_created_from_queries_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    for format in ["ORC", "PARQUET", "CSV", "JSON", "ARROW"] {
        let place = folder.path().join(format);
        let nested = !["CSV", "JSON"].contains(&format);
        let create = format!(
            "CREATE EXTERNAL TABLE {format} STORED AS {format} LOCATION '{}/' AS {}",
            place.display(),
            source(nested)
        );
        let created = answer(&context, &create).await.unwrap();
        assert!(created.contains("| 3     |"), "{format}: {created}");
        let wanted = format!("SELECT * FROM ({}) ORDER BY id", source(nested));
        let wanted = answer(&context, &wanted).await.unwrap();
        let found = answer(&context, &format!("SELECT * FROM {format} ORDER BY id"))
            .await
            .unwrap();
        if nested {
            assert_eq!(found, wanted, "{format}");
        }
        let count = format!("SELECT count(*) AS n, count(i8) AS v, sum(i16) AS s FROM {format}");
        let count = answer(&context, &count).await.unwrap();
        assert!(count.contains("| 3 | 2 | -1 |"), "{format}: {count}");
        // The table goes on as any other.
        let insert = format!("INSERT INTO {format} SELECT * FROM {format} WHERE id = 2");
        answer(&context, &insert).await.unwrap();
        let count = answer(&context, &format!("SELECT count(*) AS n FROM {format}"))
            .await
            .unwrap();
        assert!(count.contains("| 4 |"), "{format}: {count}");
    }
}

#[tokio::test]
async fn partitioned_tables_are_created_from_queries_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let place = folder.path().join("t");
    let create = |words: &str, query: &str| {
        format!(
            "{words} t STORED AS ORC PARTITIONED BY (Year) OPTIONS (compression 'zstd') LOCATION '{}/' AS {query}",
            place.display()
        )
    };
    let values = "SELECT column1 AS v, column2 AS \"year\", column1 * 2 AS w FROM (VALUES (1, 2019), (2, 2020))";
    for (query, expected) in [
        (
            "SELECT 1 / (v - 1) AS w, v AS year FROM generate_series(1, 3) AS g(v)",
            "ivide by zero",
        ),
        (
            "SELECT * FROM (VALUES (1, 2)) AS x(a, year), (VALUES (3)) AS y(a)",
            "named a",
        ),
        ("SELECT 1 AS v", "PARTITIONED BY (year)"),
        ("SELECT INTERVAL '1 day' AS i, 1 AS year", "'i'"),
        ("SELECT no_such FROM (VALUES (1))", "no_such"),
    ] {
        let error = answer(&context, &create("CREATE TABLE", query))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{query}: {error}");
        let missing = answer(&context, "SELECT * FROM t").await.unwrap_err().to_string();
        assert!(missing.contains("'datafusion.public.t' not found"), "{missing}");
    }
    answer(&context, &create("CREATE EXTERNAL TABLE IF NOT EXISTS", values))
        .await
        .unwrap();
    let text = answer(&context, "SELECT * FROM t ORDER BY v").await.unwrap();
    assert!(
        text.contains("| v | w | year |") && text.contains("| 2 | 4 | 2020 |"),
        "{text}"
    );
    assert_eq!(names(&place), ["year=2019", "year=2020"]);

    let error = answer(&context, &create("CREATE EXTERNAL TABLE", values))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("the table t exists"), "{error}");
    let error = answer(&context, &create("CREATE OR REPLACE EXTERNAL TABLE", values))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("has files"), "{error}");
    let skipped = create("CREATE EXTERNAL TABLE IF NOT EXISTS", "SELECT 7 AS v, 1 AS year");
    answer(&context, &skipped).await.unwrap();
    fs::remove_dir_all(&place).unwrap();
    let replaced = create("CREATE OR REPLACE EXTERNAL TABLE", "SELECT 'x' AS s, 1 AS year");
    answer(&context, &replaced).await.unwrap();
    let text = answer(&context, "SELECT * FROM T").await.unwrap();
    assert!(text.contains("| x | 1    |"), "{text}");
}

/// A program that allows no DDL allows no table of a query either.
#[tokio::test]
async fn tables_from_queries_are_ddl_and_dml() {
    use datafusion::execution::context::SQLOptions;
    use grampus::session::plan_cache::{data_frame, plan_sql_with_options};
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let create = format!(
        "CREATE EXTERNAL TABLE t STORED AS ORC LOCATION '{}/t/' AS SELECT 1 AS a",
        folder.path().display()
    );
    for (options, expected) in [
        (SQLOptions::new().with_allow_ddl(false), "DDL not supported"),
        (SQLOptions::new().with_allow_dml(false), "DML not supported"),
    ] {
        let refused = plan_sql_with_options(&context, &create, options)
            .await
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(refused.contains(expected), "{refused}");
        let refused = data_frame(&context, &create, options)
            .await
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(refused.contains(expected), "{refused}");
    }
    data_frame(&context, &create, SQLOptions::new())
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert!(answer(&context, "SELECT a FROM t").await.unwrap().contains("| 1 |"));
}

/// A row whose partition is NULL comes back with NULL, not with 0 or an empty text.
#[tokio::test]
async fn null_in_partition_columns_stays_null_or_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let copy = |format: &str, more: &str| {
        format!(
            "COPY (VALUES (1, 7, 'x'), (2, NULL, 'y'), (3, 0, ''), (4, 8, NULL)) TO '{}/{format}/' STORED AS {format} \
             PARTITIONED BY (column2, column3) {more}",
            folder.path().display()
        )
    };
    answer(&context, &copy("ORC", "")).await.unwrap();
    let sql = format!("SELECT * FROM '{}/ORC/' ORDER BY column1", folder.path().display());
    let text = answer(&context, &sql).await.unwrap();
    for row in [
        "| 1       | 7       | x       |",
        "| 2       |         | y       |",
        "| 3       | 0       |         |",
    ] {
        assert!(text.contains(row), "{text}");
    }
    let sql = format!(
        "SELECT column1 FROM '{}/ORC/' WHERE column3 IS NULL",
        folder.path().display()
    );
    let text = answer(&context, &sql).await.unwrap();
    assert!(text.contains("| 4       |") && text.lines().count() == 5, "{text}");
    let keep = "OPTIONS (execution.keep_partition_by_columns true)";
    for (format, more) in [("PARQUET", ""), ("CSV", ""), ("ORC", keep)] {
        let error = answer(&context, &copy(format, more)).await.unwrap_err().to_string();
        assert!(
            error.contains("partition column column") && error.contains("coalesce"),
            "{error}"
        );
    }
}
