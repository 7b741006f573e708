//! Keys of RIGHT, FULL and NATURAL joins with USING.

use arrow::array::{Int32Array, Int64Array, StringArray};

use super::{Tables, array, rows};

#[tokio::test]
async fn joins_keep_the_keys_of_both_sides() {
    let left = vec![
        ("k", array(Int32Array::from(vec![1, 2]))),
        ("a", array(StringArray::from(vec!["x", "y"]))),
    ];
    let right = vec![
        ("k", array(Int64Array::from(vec![2, 3]))),
        ("b", array(StringArray::from(vec!["p", "q"]))),
    ];
    let tables = Tables::new(&[("l", rows(left)), ("r", rows(right))], true).await;
    for (sql, expected) in [
        (
            "SELECT k, a, b FROM l_{} RIGHT JOIN r_{} USING (k) ORDER BY k",
            "2 y p; 3 NULL q",
        ),
        (
            "SELECT k, a, b FROM l_{} FULL JOIN r_{} USING (k) ORDER BY k",
            "1 x NULL; 2 y p; 3 NULL q",
        ),
        (
            "SELECT k, a, b FROM l_{} LEFT JOIN r_{} USING (k) ORDER BY k",
            "1 x NULL; 2 y p",
        ),
        (
            "SELECT k, a, b FROM l_{} NATURAL FULL JOIN r_{} ORDER BY k",
            "1 x NULL; 2 y p; 3 NULL q",
        ),
        (
            "SELECT * FROM l_{} NATURAL RIGHT JOIN r_{} ORDER BY k",
            "2 y p; 3 NULL q",
        ),
        ("SELECT sum(k), count(k) FROM l_{} FULL JOIN r_{} USING (k)", "6 3"),
        (
            "SELECT k, count(*) FROM l_{} FULL JOIN r_{} USING (k) GROUP BY k ORDER BY k DESC",
            "3 1; 2 1; 1 1",
        ),
        (
            "SELECT b FROM (SELECT k, b FROM l_{} FULL JOIN r_{} USING (k)) x WHERE k = 3",
            "q",
        ),
        (
            "SELECT k FROM l_{} FULL JOIN r_{} USING (k) GROUP BY k HAVING k = 3",
            "3",
        ),
        (
            "SELECT x.k FROM (SELECT k FROM l_{} RIGHT JOIN r_{} USING (k)) x ORDER BY x.k",
            "2; 3",
        ),
        (
            "SELECT r.k, b FROM l_{} l RIGHT JOIN r_{} r USING (k) ORDER BY r.k",
            "2 p; 3 q",
        ),
        (
            "SELECT b FROM l_{} l RIGHT JOIN r_{} r ON l.k = r.k WHERE l.a IS NULL",
            "q",
        ),
    ] {
        tables.check(sql, expected).await;
    }
    let both = "SELECT b, l.k FROM l_{} l RIGHT JOIN r_{} r USING (k)";
    tables.check_error(both, "write the join with ON l.k = r.k").await;
    tables
        .check_error("SELECT l.* FROM l_{} l FULL JOIN r_{} r USING (k)", "ON l.k = r.k")
        .await;
}
