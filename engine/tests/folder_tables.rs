//! Folders of ORC files as tables that statements make and fill: declared columns, INSERT INTO, INSERT OVERWRITE.

#[path = "folder_tables/other_formats.rs"]
mod other_formats;
#[path = "folder_tables/show_create.rs"]
mod show_create;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::DataType;
use arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::Result;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::SessionContext;
use grampus::GrampusConfig;
use grampus::session::plan_cache::plan_sql;
use grampus_atomic_output::temporary_folder::{Purpose, TemporaryFolder};

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
        for (name, expected) in [("id", "INTEGER"), ("name", "VARCHAR"), ("u", "BIGINT")] {
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
        ("a BIGINT, PRIMARY KEY (a)", "new/", "no table checks its keys"),
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

/// A session with the table `t` of a folder with three files, whose values `a` are 1.
async fn three_files(folder: &Path) -> SessionContext {
    let context = context();
    for file in 1..=3 {
        let copy = format!(
            "COPY (SELECT 1 AS a, value AS b FROM generate_series(1, 100)) TO '{}/t/{file}.orc'",
            folder.display()
        );
        answer(&context, &copy).await.unwrap();
    }
    open(&context, folder).await;
    context
}

async fn open(context: &SessionContext, folder: &Path) {
    let create = format!(
        "CREATE EXTERNAL TABLE t STORED AS ORC LOCATION '{}/t'",
        folder.display()
    );
    answer(context, &create).await.unwrap();
}

const TOTAL: &str = "SELECT count(*) AS n, sum(a) AS s FROM t";

#[tokio::test]
async fn overwriting_replaces_all_files_also_by_rows_of_the_same_table() {
    let folder = tempfile::tempdir().unwrap();
    let context = three_files(folder.path()).await;
    fs::write(folder.path().join("t/_SUCCESS"), "").unwrap();
    let done = answer(&context, "INSERT OVERWRITE t SELECT a + 1, b FROM t WHERE b > 50")
        .await
        .unwrap();
    assert!(done.contains("| 150   |"), "{done}");
    assert!(answer(&context, TOTAL).await.unwrap().contains("| 150 | 300 |"));
    answer(&context, "INSERT OVERWRITE t VALUES (7, 8)").await.unwrap();
    assert!(answer(&context, TOTAL).await.unwrap().contains("| 1 | 7 |"));
    assert_eq!(
        (visible(&folder.path().join("t")), names(folder.path())),
        (1, vec!["t".to_owned()])
    );
    // Without rows, the columns stay.
    answer(&context, "INSERT OVERWRITE t SELECT * FROM t WHERE false")
        .await
        .unwrap();
    let other = self::context();
    open(&other, folder.path()).await;
    for context in [context, other] {
        assert!(answer(&context, TOTAL).await.unwrap().contains("| 0 |   |"));
    }
}

#[tokio::test]
async fn overwriting_fills_declared_tables() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let create = format!(
        "CREATE EXTERNAL TABLE t (a INT) STORED AS ORC LOCATION '{}/new/'",
        folder.path().display()
    );
    answer(&context, &create).await.unwrap();
    for value in [3, 4] {
        answer(&context, &format!("INSERT OVERWRITE t VALUES ({value})"))
            .await
            .unwrap();
        assert!(
            answer(&context, TOTAL)
                .await
                .unwrap()
                .contains(&format!("| 1 | {value} |"))
        );
    }
}

#[tokio::test]
async fn failed_and_cancelled_overwriting_leaves_the_old_files() {
    let folder = tempfile::tempdir().unwrap();
    let context = three_files(folder.path()).await;
    let error = answer(&context, "INSERT OVERWRITE t SELECT a / (b - 99), b FROM t")
        .await
        .unwrap_err();
    assert!(error.to_string().to_lowercase().contains("divide by zero"), "{error}");
    let endless = "INSERT OVERWRITE t SELECT 2, a.value FROM generate_series(1, 1000000000) a";
    let cancelled = tokio::time::timeout(std::time::Duration::from_millis(300), answer(&context, endless)).await;
    assert!(cancelled.is_err());
    assert!(answer(&context, TOTAL).await.unwrap().contains("| 300 | 300 |"));
    assert_eq!(names(&folder.path().join("t")), ["1.orc", "2.orc", "3.orc"]);
    answer(&context, "INSERT OVERWRITE t VALUES (1, 1)").await.unwrap();
    assert_eq!(names(folder.path()), ["t"], "nothing stays of the others");
}

#[tokio::test]
async fn folders_with_other_files_are_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let context = three_files(folder.path()).await;
    let table = folder.path().join("t");
    let refused = async |name: &str| {
        let error = answer(&context, "INSERT OVERWRITE t VALUES (7, 8)")
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(name) && error.contains("is no ORC file of the table: move it away"),
            "{error}"
        );
    };
    for name in ["notes.txt", ".hidden", "_tmp"] {
        fs::write(table.join(name), "mine").unwrap();
        refused(name).await;
        fs::remove_file(table.join(name)).unwrap();
    }
    fs::create_dir(table.join("_folder")).unwrap();
    refused("_folder").await;
    fs::remove_dir(table.join("_folder")).unwrap();
    assert!(answer(&context, TOTAL).await.unwrap().contains("| 300 | 300 |"));
    let path = folder.path().display();
    for (location, expected) in [("t/1.orc", "is no folder"), ("t/*.orc", "is no folder")] {
        let create = format!("CREATE OR REPLACE EXTERNAL TABLE u STORED AS ORC LOCATION '{path}/{location}'");
        answer(&context, &create).await.unwrap();
        let error = answer(&context, "INSERT OVERWRITE u VALUES (7, 8)")
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Hidden folders of killed statements are removed; those of running ones, and files of other programs, are not.
#[tokio::test]
async fn leftovers_of_killed_statements_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let context = three_files(folder.path()).await;
    let table = folder.path().join("t");
    let live = TemporaryFolder::create(&table, Purpose::Staging).unwrap();
    let (dead, others) = (table.join(".grampus-abcdefghijkl.tmp"), table.join(".a.orc.x1.grampus"));
    fs::create_dir(&dead).unwrap();
    fs::write(&others, "of another program").unwrap();
    answer(&context, "INSERT INTO t VALUES (7, 8)").await.unwrap();
    assert!(!dead.exists() && live.path().exists() && others.exists());
    // Either of them refuses, whichever the folder lists first.
    drop(live);
    let error = answer(&context, "INSERT OVERWRITE t VALUES (7, 8)").await.unwrap_err();
    assert!(error.to_string().contains(".a.orc.x1.grampus"), "{error}");
    fs::remove_file(others).unwrap();
    answer(&context, "INSERT OVERWRITE t VALUES (7, 8)").await.unwrap();
    assert!(answer(&context, TOTAL).await.unwrap().contains("| 1 "));
    assert!(names(&table).iter().all(|name| !name.starts_with('.')));
}

/// Readers that run while a table is overwritten see one generation whole, or end with an error.
#[tokio::test(flavor = "multi_thread")]
async fn readers_see_one_generation_of_an_overwritten_table() {
    let folder = tempfile::tempdir().unwrap();
    let context = three_files(folder.path()).await;
    let writer = context.clone();
    let writing = tokio::spawn(async move {
        for value in 2..30 {
            let rows = format!("SELECT {value}, value FROM generate_series(1, 300)");
            answer(&writer, &format!("INSERT OVERWRITE t {rows}")).await.unwrap();
        }
    });
    let mut answers = 0;
    while !writing.is_finished() {
        let Ok(found) = answer(&context, "SELECT count(*) AS n, min(a) = max(a) AS same FROM t").await else {
            continue;
        };
        assert!(found.contains("| 300 | true |"), "{found}");
        answers += 1;
    }
    writing.await.unwrap();
    println!("{answers} answers meanwhile");
    assert!(answer(&context, TOTAL).await.unwrap().contains("| 300 | 8700 |"));
}

/// A program's `ListingTable`, with the format that the session has.
async fn listing_table(context: &SessionContext, location: &str, partitions: &[(&str, DataType)]) -> ListingTable {
    let state = context.state();
    let format = state.get_file_format_factory("orc").unwrap().default();
    let partitions = partitions.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone()));
    let options = ListingOptions::new(format)
        .with_file_extension("")
        .with_table_partition_cols(partitions.collect());
    let config = ListingTableConfig::new(ListingTableUrl::parse(location).unwrap()).with_listing_options(options);
    ListingTable::try_new(config.infer_schema(&state).await.unwrap()).unwrap()
}

#[tokio::test]
async fn listing_tables_of_programs_read_and_write_orc() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let place = format!("{}/t/", folder.path().display());
    let copy = format!(
        "COPY (SELECT value AS v, value * 0.5 AS w, 'text ' || value AS s, value % 3 AS p \
         FROM generate_series(1, 60000)) TO '{place}' STORED AS ORC PARTITIONED BY (p) OPTIONS (row_group_rows 1000)"
    );
    answer(&context, &copy).await.unwrap();
    fs::write(folder.path().join("t/p=0/empty.orc"), "").unwrap();
    let table = listing_table(&context, &place, &[("p", DataType::Int64)]).await;
    context.register_table("listed", Arc::new(table)).unwrap();
    answer(
        &context,
        &format!("CREATE EXTERNAL TABLE own STORED AS ORC LOCATION '{place}'"),
    )
    .await
    .unwrap();
    for query in [
        "SELECT * FROM {} AS t WHERE v < 10 ORDER BY v",
        "SELECT s, p, w + v AS x FROM {} AS t WHERE v = 777",
        "SELECT p, count(*), sum(w), min(s) FROM {} AS t GROUP BY p ORDER BY p",
        "SELECT count(*) FROM {} AS t WHERE p = 1 AND w > 100 AND s LIKE '%9'",
        "SELECT s FROM {} AS t ORDER BY w DESC LIMIT 3",
        "SELECT count(*) FROM {} AS t",
    ] {
        let [listed, own] = ["listed", "own"].map(|table| query.replace("{}", table));
        let (listed, own) = (
            answer(&context, &listed).await.unwrap(),
            answer(&context, &own).await.unwrap(),
        );
        assert_eq!(listed, own, "{query}");
    }
    // The filter reaches the scan, which reads the other column for the rows that pass.
    let sql = "EXPLAIN ANALYZE SELECT sum(w) FROM listed WHERE v BETWEEN 100 AND 110";
    let plan = answer(&context, sql).await.unwrap();
    let scan = plan.lines().find(|line| line.contains("OrcScanExec")).unwrap();
    // Statistics exclude all row groups but one of each file. No operator evaluates the filter again.
    assert!(
        scan.contains("output_rows=11,") && scan.contains("rows_scanned=3.00 K"),
        "{plan}"
    );
    assert!(!plan.contains("FilterExec"), "{plan}");
    answer(&context, "INSERT INTO listed VALUES (0, 0.0, 'zero', 2)")
        .await
        .unwrap();
    let count = answer(&context, "SELECT count(*) AS n FROM own WHERE s = 'zero' AND p = 2")
        .await
        .unwrap();
    assert!(count.contains("| 1 |"), "{count}");
    fs::write(folder.path().join("t/p=0/notes.txt"), "mine").unwrap();
    let error = answer(&context, "SELECT * FROM listed").await.unwrap_err().to_string();
    assert!(error.contains("notes.txt"), "{error}");
}

/// DataFusion removes the operator of a condition that the scan evaluates for each row. The other table's scan is given
/// its conditions when it is planned.
#[tokio::test]
async fn conditions_over_listing_tables_are_evaluated_by_the_scan_alone() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let place = format!("{}/t/", folder.path().display());
    let copy = format!(
        "COPY (SELECT value AS v, CASE WHEN value % 5 > 0 THEN value * 0.5 END AS w, 'n' || (value % 9) AS s, \
         value % 3 AS p FROM generate_series(1, 6000)) TO '{place}' STORED AS ORC PARTITIONED BY (p) \
         OPTIONS (row_group_rows 500)"
    );
    answer(&context, &copy).await.unwrap();
    let table = listing_table(&context, &place, &[("p", DataType::Int64)]).await;
    context.register_table("listed", Arc::new(table)).unwrap();
    let create = format!("CREATE EXTERNAL TABLE own STORED AS ORC LOCATION '{place}'");
    answer(&context, &create).await.unwrap();
    for (query, has_filter) in [
        ("SELECT count(*), sum(w) AS x FROM {} WHERE w < 100", false),
        ("SELECT count(*) FROM {} WHERE w IS NULL OR NOT (w < 100)", false),
        ("SELECT count(*) FROM {} WHERE NOT (w < 100) AND s <> 'n3'", false),
        ("SELECT v FROM {} WHERE s = 'n7' AND p = 1 ORDER BY v", false),
        ("SELECT count(*) FROM {} WHERE p = 2 OR v = 5", false),
        (
            "SELECT s, count(*) FROM {} WHERE v > 99 GROUP BY s HAVING count(*) > 1 ORDER BY s",
            true,
        ),
        ("SELECT count(*) FROM {} WHERE v % 5 <> 0 AND 100 / (v % 5) > 30", false),
        ("SELECT count(*) FROM {} WHERE v < 0", false),
        ("SELECT count(*) FROM {} WHERE random() >= 0 AND v < 70", true),
        ("SELECT count(*) FROM (SELECT v FROM {} WHERE w > 100 LIMIT 7)", false),
        (
            "SELECT count(*) FROM (SELECT v FROM (SELECT v, w FROM {} LIMIT 5000) WHERE w IS NULL OR w >= 0)",
            true,
        ),
        // Columns of one name on both sides.
        (
            "SELECT count(*) FROM {} a JOIN {} b ON a.v = b.v WHERE a.w < 50 AND b.w >= 20",
            false,
        ),
        (
            "SELECT count(*) FROM {} a LEFT JOIN (SELECT * FROM {} WHERE v < 10) b ON a.v = b.v WHERE b.v IS NULL",
            true,
        ),
        (
            "SELECT count(*) FROM {} a JOIN {} b ON a.s = b.s WHERE a.v < 30 AND b.w < 4 AND a.w > b.w",
            false,
        ),
        (
            "SELECT a.v FROM {} a WHERE a.v IN (SELECT v FROM {} WHERE w < 9) AND a.s = 'n4' ORDER BY 1",
            false,
        ),
    ] {
        let [listed, own] = ["listed", "own"].map(|table| query.replace("{}", table));
        let expected = answer(&context, &own).await.unwrap();
        let (plan, task) = plan_sql(&context, &listed).await.unwrap();
        // A plan that is executed again has the same rows.
        let again = reset_plan_states(Arc::clone(&plan)).unwrap();
        for plan in [&plan, &again] {
            let batches = collect(Arc::clone(plan), Arc::clone(&task)).await.unwrap();
            assert_eq!(
                pretty_format_batches(&batches).unwrap().to_string(),
                expected,
                "{listed}"
            );
        }
        let text = displayable(plan.as_ref()).indent(false).to_string();
        assert_eq!(text.contains("FilterExec"), has_filter, "{listed}: {text}");
    }
}
