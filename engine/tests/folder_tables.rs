//! Folders of ORC files as tables that statements make and fill: declared columns, INSERT INTO.

use std::fs;
use std::path::Path;

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

/// The files and folders in `folder`.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The files in `folder` that the table's readers see.
fn visible(folder: &Path) -> usize {
    names(folder).iter().filter(|name| !name.starts_with('.')).count()
}

#[tokio::test]
async fn declared_table_is_empty_until_an_insert_fills_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    for location in ["new/deep/", "empty"] {
        let path = folder.path().join(location);
        if location == "empty" {
            fs::create_dir(&path).unwrap();
        }
        let context = context();
        let location = format!("{}/{location}", folder.path().display());
        let create = format!(
            "CREATE EXTERNAL TABLE t (id INT, name VARCHAR, at TIMESTAMP, u INT UNSIGNED) STORED AS ORC \
             LOCATION '{location}'"
        );
        answer(&context, &create).await.unwrap();
        let count = "SELECT count(*) AS n, sum(id) AS s FROM t WHERE name > 'a'";
        assert!(answer(&context, count).await.unwrap().contains("| 0 |   |"));
        let columns = answer(&context, "DESCRIBE t").await.unwrap();
        for (name, expected) in [("id", "Int32"), ("name", "Utf8"), ("u", "Int64")] {
            let is_found =
                |line: &str| line.contains(&format!("| {name} ")) && line.contains(&format!("| {expected} "));
            assert!(columns.lines().any(is_found), "{columns}");
        }
        answer(
            &context,
            "INSERT INTO t VALUES (1, 'b', TIMESTAMP '2020-01-01 00:00:00', 7)",
        )
        .await
        .unwrap();
        answer(&context, "INSERT INTO t (name, id) SELECT 'c', 2")
            .await
            .unwrap();
        assert!(answer(&context, count).await.unwrap().contains("| 2 | 3 |"));
        assert_eq!(visible(&path), 2);
        // The same statement holds for the folder with files, and again when they are gone.
        answer(&context, "DROP TABLE t").await.unwrap();
        answer(&context, &create).await.unwrap();
        assert!(answer(&context, count).await.unwrap().contains("| 2 | 3 |"));
        fs::remove_dir_all(&path).unwrap();
        assert!(answer(&context, count).await.unwrap().contains("| 0 |   |"));
    }
}

#[tokio::test]
async fn declared_partitions_are_folders() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let create = |columns: &str, partitions: &str| {
        format!(
            "CREATE EXTERNAL TABLE t ({columns}) STORED AS ORC PARTITIONED BY ({partitions}) LOCATION '{}/p/'",
            folder.path().display()
        )
    };
    answer(&context, &create("year INT, a INT, zone VARCHAR", "year, zone"))
        .await
        .unwrap();
    assert!(
        answer(&context, "SELECT count(*) AS n, max(a) FROM t WHERE year = 2020")
            .await
            .unwrap()
            .contains("| 0 | ")
    );
    answer(&context, "INSERT INTO t VALUES (1, 2020, 'x'), (2, 2021, 'y')")
        .await
        .unwrap();
    let found = answer(&context, "SELECT a, zone FROM t WHERE year = 2021")
        .await
        .unwrap();
    assert!(found.contains("| 2 | y    |"), "{found}");
    assert_eq!(names(&folder.path().join("p")), ["year=2020", "year=2021"]);
    for (columns, partitions, expected) in [
        ("a INT, day DATE", "day", "partition columns are BIGINT or VARCHAR"),
        ("a INT", "zone", "PARTITIONED BY (zone)"),
    ] {
        let error = answer(&context, &create(columns, partitions).replace(" t ", " other ")).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn declared_columns_that_cannot_hold_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let path = folder.path().display();
    answer(
        &context,
        &format!("COPY (SELECT 1 AS a, 'x' AS b) TO '{path}/full/1.orc'"),
    )
    .await
    .unwrap();
    for (columns, location, expected) in [
        ("a BIGINT", "new.orc", "new.orc is no folder"),
        ("a BIGINT", "full/1.orc", "1.orc is no folder"),
        ("a BIGINT", "*/", "is no folder"),
        (
            "a BIGINT NOT NULL",
            "new/",
            "column a: an ORC table does not check NOT NULL",
        ),
        ("a BIGINT DEFAULT 7", "new/", "column a: an ORC table has no DEFAULT"),
        ("a BIGINT, PRIMARY KEY (a)", "new/", "does not check PRIMARY KEY"),
        ("a INTERVAL", "new/", "column 'a' has type Interval"),
        (
            "a BIGINT",
            "full/",
            "have other columns: 2, not 1; leave out the column list",
        ),
        ("a BIGINT, c VARCHAR", "full/", "have other columns: b Utf8, not c Utf8"),
        (
            "a VARCHAR, b VARCHAR",
            "full",
            "have other columns: a Int64, not a Utf8",
        ),
    ] {
        let create = format!("CREATE EXTERNAL TABLE t ({columns}) STORED AS ORC LOCATION '{path}/{location}'");
        let error = answer(&context, &create).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{create}: {error}");
    }
    assert_eq!(names(folder.path()), ["full"]);
}
