//! Texts of digits with leading zeros stay texts: in names of partition folders and in CSV files.

use std::fs;

use arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use grampus::GrampusConfig;
use grampus::session::plan_cache::plan_sql;

fn context() -> SessionContext {
    grampus::session::context(GrampusConfig::default()).unwrap()
}

async fn answer(context: &SessionContext, sql: &str) -> Result<String> {
    let (plan, task) = plan_sql(context, sql).await?;
    Ok(pretty_format_batches(&collect(plan, task).await?)?.to_string())
}

/// The rows of an answer, comma-separated.
async fn rows(context: &SessionContext, sql: &str) -> Vec<String> {
    let text = answer(context, sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let lines = text.lines().skip(3).filter(|line| line.starts_with('|'));
    let cells = |line: &str| {
        line.trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect::<Vec<_>>()
            .join(",")
    };
    lines.map(cells).collect()
}

/// `00501` is no number: neither in the session that wrote it nor in a later one, by the same statement or by the path.
#[tokio::test]
async fn texts_of_digits_stay_texts_as_partitions() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("t");
    let create = |partitions: &str, columns: &str| {
        let place = place.display();
        format!("CREATE EXTERNAL TABLE t {columns} STORED AS ORC {partitions} LOCATION '{place}/'")
    };
    let declared = create("PARTITIONED BY (zip)", "(a INT, zip VARCHAR)");
    let first = context();
    answer(&first, &declared).await.unwrap();
    for (a, zip) in ["'10001'", "'20002'", "NULL"].into_iter().enumerate() {
        answer(&first, &format!("INSERT INTO t VALUES ({a}, {zip})"))
            .await
            .unwrap();
    }
    // All values look like integers, and the declared type holds.
    let second = context();
    answer(&second, &declared).await.unwrap();
    let zips = "SELECT zip, arrow_typeof(zip) AS type FROM t ORDER BY zip";
    assert_eq!(rows(&second, zips).await, ["10001,Utf8", "20002,Utf8", ",Utf8"]);
    answer(
        &second,
        "INSERT INTO t VALUES (3, '00501'), (4, '+5'), (5, '-0'), (6, ' 7'), (7, '1e3')",
    )
    .await
    .unwrap();
    let texts = ["' 7'", "'+5'", "'-0'", "'00501'", "'10001'", "'1e3'", "'20002'", ""];
    let quoted = "SELECT '''' || zip || '''' FROM t ORDER BY zip";
    for context in [first, second] {
        assert_eq!(rows(&context, quoted).await, texts);
    }
    // Later sessions: the same statement, types of partitions alone, no types, and the path.
    for statement in [
        declared.clone(),
        create("PARTITIONED BY (zip VARCHAR)", ""),
        create("PARTITIONED BY (zip)", ""),
        create("", ""),
    ] {
        let context = context();
        answer(&context, &statement)
            .await
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
        assert_eq!(rows(&context, quoted).await, texts, "{statement}");
        let found = rows(&context, "SELECT a FROM t WHERE zip = '00501'").await;
        assert_eq!(found, ["3"], "{statement}");
    }
    let by_path = format!("SELECT a FROM '{}/' WHERE zip = '00501'", place.display());
    assert_eq!(rows(&context(), &by_path).await, ["3"]);
    let numbers = create("PARTITIONED BY (zip)", "(a INT, zip BIGINT)");
    let error = answer(&context(), &numbers).await.unwrap_err().to_string();
    assert!(
        error.contains("is no BIGINT, as zip is declared: declare zip VARCHAR"),
        "{error}"
    );
}

#[tokio::test]
async fn declared_integers_are_read_from_folders_with_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    for (month, a) in [("01", 1), ("02", 2), ("12", 12)] {
        let place = folder.path().join(format!("t/month={month}/1.orc"));
        answer(&context, &format!("COPY (SELECT {a} AS a) TO '{}'", place.display()))
            .await
            .unwrap();
    }
    for (number, columns, partitions) in [
        (0, "(a BIGINT, month INT)", "(month)"),
        (1, "", "(month INT)"),
        (2, "", "(month BIGINT)"),
    ] {
        let place = folder.path().join("t");
        let create = format!(
            "CREATE EXTERNAL TABLE t{number} {columns} STORED AS ORC PARTITIONED BY {partitions} LOCATION '{}/'",
            place.display()
        );
        answer(&context, &create)
            .await
            .unwrap_or_else(|error| panic!("{create}: {error}"));
        let sum = format!("SELECT sum(month) AS m, min(a) AS a FROM t{number} WHERE month > 1");
        assert_eq!(rows(&context, &sum).await, ["14,2"], "{create}");
    }
    // Two digits are months, days or hours also without a type.
    let place = folder.path().join("t");
    let months = format!("SELECT month FROM '{}/' WHERE a < 10 ORDER BY month", place.display());
    assert_eq!(rows(&context, &months).await, ["1", "2"]);
    for filter in ["month = 2", "month = '02'"] {
        let found = format!("SELECT a FROM '{}/' WHERE {filter}", place.display());
        assert_eq!(rows(&context, &found).await, ["2"], "{filter}");
    }
}

/// A table whose folders are integers refuses a later folder that is none, also `007`.
#[tokio::test]
async fn later_folders_with_zeros_are_refused_where_integers_are_inferred() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let copy = |zip: &str| {
        let place = folder.path().join(format!("t/zip={zip}/1.orc"));
        format!("COPY (SELECT 1 AS a) TO '{}'", place.display())
    };
    answer(&context, &copy("501")).await.unwrap();
    let place = folder.path().join("t");
    answer(
        &context,
        &format!("CREATE EXTERNAL TABLE t STORED AS ORC LOCATION '{}/'", place.display()),
    )
    .await
    .unwrap();
    assert_eq!(rows(&context, "SELECT zip + 1 FROM t").await, ["502"]);
    answer(&context, &copy("00501")).await.unwrap();
    let error = answer(&context, "SELECT zip FROM t").await.unwrap_err().to_string();
    assert!(
        error.contains("zip=00501") && error.contains("create the table again"),
        "{error}"
    );
}

/// Numbers with leading zeros make a column of a CSV file text, wherever they are.
#[tokio::test]
async fn numbers_with_leading_zeros_are_texts_in_csv_files() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
        fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).display().to_string()
    };
    let context = context();
    let zip = write("zip.csv", "zip,n,x\n00501,1,0.5\n02134,20,-0.25\n10001,0,0\n");
    let types = format!("SELECT zip, arrow_typeof(zip), arrow_typeof(n), arrow_typeof(x) FROM '{zip}' ORDER BY zip");
    assert_eq!(rows(&context, &types).await[0], "00501,Utf8,Int64,Float64");
    assert_eq!(
        rows(&context, &format!("SELECT n FROM '{zip}' WHERE zip = '02134'")).await,
        ["20"]
    );
    // After more rows than types are inferred from, in quotation marks, with signs, in the second file.
    let late: String = (0..1_500).map(|row| format!("{row},{}\n", row + 1)).collect();
    let late = write("late.csv", &format!("a,zip\n{late}7,00501\n"));
    let quoted = write("quoted.csv", "a,zip\r\n1,\"10001\"\r\n2,\"00501\"\r\n");
    let signed = write("signed.csv", "zip\n5\n-05\n");
    let float = write("float.csv", "zip\n1.5\n00.5\n");
    let tabs = write("tabs.tsv", "a\tzip\n1\t10001\n2\t00501\n");
    write("two/1.csv", &format!("zip\n{}", "10001\n".repeat(1_200)));
    let two = write("two/2.csv", "zip\n00501\n").replace("2.csv", "*.csv");
    for (path, least) in [
        (&late, "00501"),
        (&quoted, "00501"),
        (&signed, "-05"),
        (&float, "00.5"),
        (&tabs, "00501"),
        (&two, "00501"),
    ] {
        let found = rows(
            &context,
            &format!("SELECT count(*) AS n FROM '{path}' WHERE zip = '{least}'"),
        )
        .await;
        assert_eq!(found, ["1"], "{path}");
        let types = format!("SELECT DISTINCT arrow_typeof(zip) FROM '{path}'");
        assert_eq!(rows(&context, &types).await, ["Utf8"], "{path}");
    }
    // The statement's own types hold, and COPY keeps the zeros.
    let create = |columns: &str| format!("CREATE EXTERNAL TABLE t {columns} STORED AS CSV LOCATION '{zip}'");
    for (columns, first) in [
        ("", "00501"),
        ("(zip BIGINT, n INT, x DOUBLE)", "501"),
        ("(zip VARCHAR, n INT, x DOUBLE)", "00501"),
    ] {
        answer(&context, &create(columns)).await.unwrap();
        assert_eq!(
            rows(&context, "SELECT zip FROM t WHERE n = 1").await,
            [first],
            "{columns}"
        );
        answer(&context, "DROP TABLE t").await.unwrap();
    }
    let orc = folder.path().join("zip.orc").display().to_string();
    answer(&context, &format!("COPY (SELECT * FROM '{zip}') TO '{orc}'"))
        .await
        .unwrap();
    assert_eq!(
        rows(&context, &format!("SELECT min(zip) FROM '{orc}'")).await,
        ["00501"]
    );
}

/// Types of partition columns alone would make a table without the columns of its files.
#[tokio::test]
async fn partitions_of_parquet_tables_keep_their_zeros_and_their_other_columns() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("p");
    let context = context();
    let rows_of = "(VALUES (1, '00501'), (2, '10001')) AS v(a, zip)";
    let copy = format!(
        "COPY (SELECT * FROM {rows_of}) TO '{}/' STORED AS PARQUET PARTITIONED BY (zip)",
        place.display()
    );
    answer(&context, &copy).await.unwrap();
    let create = |columns: &str, partitions: &str| {
        format!(
            "CREATE OR REPLACE EXTERNAL TABLE t {columns} STORED AS PARQUET PARTITIONED BY {partitions} LOCATION '{}/'",
            place.display()
        )
    };
    for (columns, partitions) in [("", "(zip)"), ("(a BIGINT, zip VARCHAR)", "(zip)")] {
        answer(&context, &create(columns, partitions)).await.unwrap();
        let found = rows(&context, "SELECT a FROM t WHERE zip = '00501'").await;
        assert_eq!(found, ["1"], "{columns}");
    }
    let error = answer(&context, &create("", "(zip VARCHAR)"))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("list all columns, or write PARTITIONED BY (zip) without types"),
        "{error}"
    );
}
