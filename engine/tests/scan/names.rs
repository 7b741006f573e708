//! Names of tables and columns in any letter case, and `FROM t` without SELECT, as `plan_sql` plans them.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use grampus::session::plan_cache::plan_sql;
use grampus_orc_layout::write::WriterProperties;

use super::common::{context, register, text, write_orc};

async fn answer(context: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>, String> {
    let message = |error| grampus::error::message(&error);
    let (plan, task) = plan_sql(context, sql).await.map_err(message)?;
    collect(plan, task).await.map_err(message)
}

/// The rows, comma-separated, without the heading.
async fn rows(context: &SessionContext, sql: &str) -> Vec<String> {
    let batches = answer(context, sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let text = text(&batches);
    let lines = text.lines().skip(3).filter(|line| line.starts_with('|'));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            cells.join(",")
        })
        .collect()
}

/// The headings of an answer.
async fn headings(context: &SessionContext, sql: &str) -> Vec<String> {
    let (plan, _) = plan_sql(context, sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    plan.schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect()
}

fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    write_orc(
        path,
        &[RecordBatch::try_from_iter_with_nullable(columns).unwrap()],
        WriterProperties::default(),
    );
}

fn ints(values: &[i32]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

/// Tables `Trips` (VendorID, Fare, id), `zones` (ID, VendorID, Name) and `twins` (a, A, B_c, b_C).
async fn session(folder: &Path) -> SessionContext {
    let at = |name: &str| folder.join(name);
    write(
        &at("trips.orc"),
        vec![
            ("VendorID", ints(&[1, 2, 2])),
            ("Fare", ints(&[10, 20, 30])),
            ("id", ints(&[7, 8, 9])),
        ],
    );
    let names: ArrayRef = Arc::new(StringArray::from(vec!["one", "two"]));
    write(
        &at("zones.orc"),
        vec![("ID", ints(&[7, 8])), ("VendorID", ints(&[1, 2])), ("Name", names)],
    );
    write(
        &at("twins.orc"),
        vec![
            ("a", ints(&[1])),
            ("A", ints(&[2])),
            ("B_c", ints(&[3])),
            ("b_C", ints(&[4])),
        ],
    );
    let context = context(1);
    register(&context, "Trips", &at("trips.orc")).await;
    register(&context, "zones", &at("zones.orc")).await;
    register(&context, "twins", &at("twins.orc")).await;
    context
}

#[tokio::test]
async fn unquoted_names_match_in_any_letter_case() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(folder.path()).await;
    for (sql, expected) in [
        (
            "SELECT VendorID FROM Trips WHERE Fare > 15 ORDER BY FARE DESC",
            &["2", "2"][..],
        ),
        (
            "SELECT vendorid, sum(fare) FROM TRIPS GROUP BY vendorid ORDER BY vendorid",
            &["1,10", "2,50"],
        ),
        ("SELECT trips.VendorID FROM trips WHERE Trips.id = 7", &["1"]),
        ("SELECT t.vendorId FROM Trips AS T WHERE T.ID = 7", &["1"]),
        (
            "SELECT VendorID FROM (SELECT VendorID, Fare FROM Trips) AS s WHERE s.Fare = 10",
            &["1"],
        ),
        (
            "SELECT vendorid FROM (SELECT Fare AS VendorID FROM Trips) ORDER BY VendorID LIMIT 1",
            &["10"],
        ),
        (
            "WITH c AS (SELECT VendorID AS v, Fare FROM Trips) SELECT max(fare) FROM c WHERE V = 2",
            &["30"],
        ),
        (
            "SELECT VendorID, Name FROM Trips JOIN zones USING (VendorID) WHERE Fare = 10",
            &["1,one"],
        ),
        (
            "SELECT a.id, b.id FROM Trips a JOIN zones b ON a.id = b.id AND a.VendorID = b.VendorID",
            &["7,7", "8,8"],
        ),
        (
            "SELECT count(*) FROM Trips WHERE Fare > (SELECT avg(Fare) FROM Trips)",
            &["1"],
        ),
        (
            "SELECT count(*) FROM zones WHERE EXISTS (SELECT 1 FROM Trips WHERE Trips.id = zones.Id)",
            &["2"],
        ),
        (
            "SELECT Fare FROM Trips ORDER BY row_number() OVER (ORDER BY Fare DESC) LIMIT 1",
            &["30"],
        ),
        (
            "SELECT * EXCLUDE (Fare, VendorID) FROM Trips ORDER BY 1 LIMIT 1",
            &["7"],
        ),
        (r#"SELECT "VendorID" FROM "Trips" WHERE "id" = 7"#, &["1"]),
        (
            "SELECT CASE WHEN Fare > 15 THEN VendorID END FROM Trips ORDER BY id",
            &["", "2", "2"],
        ),
        (
            "SELECT count(DISTINCT VendorID) FILTER (WHERE Fare > 0) FROM Trips",
            &["2"],
        ),
    ] {
        assert_eq!(rows(&context, sql).await, expected, "{sql}");
    }
    assert_eq!(
        headings(&context, "SELECT vendorid, Trips.FARE AS Cost FROM trips").await,
        ["VendorID", "cost"]
    );
    assert_eq!(
        headings(&context, "SELECT * FROM trips").await,
        ["VendorID", "Fare", "id"]
    );
    assert_eq!(
        headings(&context, "SELECT Trips.* FROM Trips").await,
        ["VendorID", "Fare", "id"]
    );
}

#[tokio::test]
async fn statements_that_plan_keep_their_meaning() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(folder.path()).await;
    // The exact name comes first: `a` is not `A`, and the alias in lower case hides the column.
    assert_eq!(rows(&context, r#"SELECT a, A AS b, "A" FROM twins"#).await, ["1,1,2"]);
    let alias = r#"SELECT -"Fare" AS fare FROM "Trips" ORDER BY Fare LIMIT 1"#;
    assert_eq!(rows(&context, alias).await, ["-30"]);
    // A common table expression hides a table of the same name in another letter case, but not from itself.
    let cte = "WITH trips AS (SELECT * FROM Trips WHERE Fare > 15) SELECT count(*) FROM trips";
    assert_eq!(rows(&context, cte).await, ["2"]);
    // A table of the exact name comes first, also for a statement that was planned before.
    let sql = "SELECT count(*) FROM trips";
    assert_eq!(rows(&context, sql).await, ["3"]);
    register(&context, "trips", &folder.path().join("twins.orc")).await;
    assert_eq!(rows(&context, sql).await, ["1"]);
    assert_eq!(rows(&context, "SELECT count(*) FROM \"Trips\"").await, ["3"]);
}

#[tokio::test]
async fn names_that_match_several_or_none_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(folder.path()).await;
    register(&context, "ZONES", &folder.path().join("zones.orc")).await;
    register(&context, "Zones2", &folder.path().join("zones.orc")).await;
    register(&context, "zoneS2", &folder.path().join("zones.orc")).await;
    for (sql, expected) in [
        (
            "SELECT b_c FROM twins",
            r#"column b_c is one of "B_c", "b_C": quote the name that you mean"#,
        ),
        (
            "SELECT twins.B_C FROM twins",
            r#"column b_c is one of "B_c", "b_C": quote"#,
        ),
        (
            "SELECT * FROM zones2",
            r#"table zones2 is one of "Zones2", "zoneS2": quote"#,
        ),
        ("SELECT \"vendorid\" FROM Trips", "vendorid"),
        ("SELECT * FROM \"trips\"", "trips"),
        ("SELECT nowhere FROM Trips", "nowhere"),
        ("SELECT VendorID FROM Trips, zones", "VendorID"),
    ] {
        let error = answer(&context, sql).await.expect_err(sql);
        assert!(error.contains(expected), "{sql}: {error}");
    }
}

#[tokio::test]
async fn other_statements_match_names_too() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(folder.path()).await;
    let done = |sql: &'static str| {
        let context = context.clone();
        async move {
            answer(&context, sql)
                .await
                .unwrap_or_else(|error| panic!("{sql}: {error}"))
        }
    };
    done("CREATE TABLE Copy AS SELECT VendorID, Fare FROM Trips").await;
    assert_eq!(headings(&context, "SELECT * FROM copy").await, ["VendorID", "Fare"]);
    done("INSERT INTO Copy (VendorID, Fare) SELECT vendorid, Fare FROM Trips").await;
    assert_eq!(rows(&context, "SELECT count(*), sum(fare) FROM Copy").await, ["6,120"]);
    // A new table is not the one of another spelling.
    done("CREATE TABLE trips AS SELECT id FROM Trips WHERE id > 7").await;
    assert_eq!(rows(&context, "SELECT count(*) FROM trips").await, ["2"]);
    done("DESCRIBE Zones").await;
    done("EXPLAIN SELECT vendorid FROM ZONES").await;
}

#[tokio::test]
async fn statements_about_tables_match_names_too() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(folder.path()).await;
    register(&context, "Zones2", &folder.path().join("zones.orc")).await;
    register(&context, "zoneS2", &folder.path().join("zones.orc")).await;
    for sql in ["DESCRIBE TRIPS", "SHOW COLUMNS FROM TRIPS", "SHOW COLUMNS IN trips"] {
        let columns = rows(&context, sql).await.join(" ");
        for column in ["VendorID", "Fare", "id"] {
            assert!(columns.contains(column), "{sql}: {columns}");
        }
        assert_eq!(rows(&context, sql).await.len(), 3, "{sql}");
    }
    for sql in ["SHOW COLUMNS FROM zones2", "DROP TABLE ZONES2", "DESCRIBE zones2"] {
        let error = answer(&context, sql).await.expect_err(sql);
        assert!(
            error.contains(r#"is one of "Zones2", "zoneS2": quote"#),
            "{sql}: {error}"
        );
    }
    // A quoted name is another table, or none.
    assert!(answer(&context, r#"DROP TABLE "TRIPS""#).await.is_err());
    assert!(answer(&context, r#"DROP TABLE IF EXISTS "TRIPS""#).await.is_ok());
    assert_eq!(rows(&context, "SELECT count(*) FROM trips").await, ["3"]);
    assert!(answer(&context, "DROP TABLE trips").await.is_ok());
    assert!(answer(&context, "SELECT count(*) FROM \"Trips\"").await.is_err());
    assert!(answer(&context, "DROP TABLE IF EXISTS trips").await.is_ok());
    // A table of the exact name comes first.
    register(&context, "ZONES2", &folder.path().join("trips.orc")).await;
    register(&context, "zones2", &folder.path().join("trips.orc")).await;
    assert!(answer(&context, "DROP TABLE Zones2").await.is_ok());
    let left = rows(
        &context,
        "SELECT table_name FROM information_schema.tables WHERE lower(table_name) = 'zones2'",
    );
    assert_eq!(left.await.len(), 3);
    assert!(
        answer(&context, "CREATE VIEW \"Dear\" AS SELECT * FROM zones")
            .await
            .is_ok()
    );
    assert!(answer(&context, "DROP VIEW dear").await.is_ok());
}

#[tokio::test]
async fn from_without_select_returns_all_columns() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(folder.path()).await;
    assert_eq!(rows(&context, "FROM Trips LIMIT 1").await, ["1,10,7"]);
    assert_eq!(rows(&context, "FROM zones").await.len(), 2);
    assert_eq!(rows(&context, "SELECT count(*) FROM (FROM Trips)").await, ["3"]);
    assert_eq!(rows(&context, "FROM Trips SELECT sum(Fare)").await, ["60"]);
}
