//! Names of the columns that wildcards, pivots and aliases give: those of DuckDB 2.0.0.

use super::*;

#[tokio::test]
async fn columns_are_named_as_in_duckdb() {
    let context = Grampus::builder().build().unwrap().context().unwrap();
    let table = "CREATE TABLE t(a INT, b INT, s TEXT) AS VALUES (1, 10, 'x'), (2, 20, 'y'), (3, 30, 'x')";
    answer(&context, table).await.unwrap();
    for (sql, names) in [
        ("PIVOT t ON s USING sum(b) GROUP BY a", "a x y"),
        (
            "PIVOT t ON s USING sum(b) AS total, count(*) AS n GROUP BY a",
            "a x_total x_n y_total y_n",
        ),
        ("SELECT * FROM t PIVOT (sum(b) FOR s IN ('x', 'y'))", "a x y"),
        ("SELECT * FROM t PIVOT (sum(b) FOR s IN ('x' AS first))", "a first"),
        ("UNPIVOT t ON a, b INTO NAME n VALUE v", "s n v"),
        ("UNPIVOT t ON a, b", "s name value"),
        ("SELECT * FROM t UNPIVOT (v FOR n IN (a, b))", "s n v"),
        ("SELECT COLUMNS('a|b') FROM t", "a b"),
        ("SELECT COLUMNS('(.)') AS 'x_\\1' FROM t", "x_a x_b x_s"),
        ("SELECT * RENAME (a AS z) FROM t", "z b s"),
        ("SELECT * EXCLUDE (b) REPLACE (a + 1 AS a) FROM t", "a s"),
        ("SELECT st.* FROM (SELECT {'p': 1, 'q': 2} AS st)", "p q"),
        ("SELECT a + 1 AS c, c * 2 AS d FROM t WHERE c > 2", "c d"),
        ("SELECT a, s FROM t EXCEPT ALL SELECT b, s FROM t", "a s"),
        ("SELECT a FROM t TABLESAMPLE (2 ROWS)", "a"),
    ] {
        let frame = data_frame(&context, sql, SQLOptions::new()).await;
        let frame = frame.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let found: Vec<&str> = (frame.schema().fields().iter())
            .map(|field| field.name().as_str())
            .collect();
        assert_eq!(found.join(" "), names, "{sql}");
    }
}

/// Samples are drawn anew, of rows that are there.
#[tokio::test]
async fn samples_are_rows_of_the_table() {
    let context = Grampus::builder().build().unwrap().context().unwrap();
    let sql = "SELECT count(*), count(DISTINCT n), min(n) >= 1 AND max(n) <= 10000 FROM (SELECT n FROM
        generate_series(1, 10000) AS t(n) TABLESAMPLE (100 ROWS)) AS s";
    assert!(answer(&context, sql).await.unwrap().contains("| 100 "));
    let sql = "SELECT count(*) BETWEEN 600 AND 1400 AS usual FROM generate_series(1, 10000) AS t(n)
        TABLESAMPLE (10 PERCENT)";
    assert!(
        answer(&context, sql).await.unwrap().contains("true"),
        "more than 13 deviations"
    );
}
