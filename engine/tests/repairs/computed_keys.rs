//! Conditions in keys of an order, above joins of several partitions.

use arrow::array::{Int64Array, StringArray};

use super::{Tables, array, rows};

const JOINED: &str = "(SELECT l.i, l.a, l.s, r.i IS NULL AS m FROM l_{} l LEFT JOIN r_{} r ON l.a = r.i) z";

/// `a` of `l` has partners for 1 and 3.
async fn tables() -> Tables {
    let left = vec![
        ("i", array(Int64Array::from_iter_values(0..6))),
        (
            "a",
            array(Int64Array::from(vec![
                Some(1),
                Some(-2),
                None,
                Some(3),
                Some(0),
                Some(-1),
            ])),
        ),
        (
            "s",
            array(StringArray::from(vec![
                Some("x"),
                None,
                Some("a"),
                Some("b"),
                None,
                Some("y"),
            ])),
        ),
    ];
    let right = vec![("i", array(Int64Array::from(vec![1, 3])))];
    Tables::new(&[("l", rows(left)), ("r", rows(right))], true).await
}

#[tokio::test]
async fn rows_are_sorted_by_conditions() {
    let tables = tables().await;
    // |a| > 1: F T N T F F; m: F T T F T T; coalesce(s, 'b') > 'b': T F F F F T.
    for (key, expected) in [
        ("abs(a) > 1 OR m", "0; 1; 2; 3; 4; 5"),
        ("abs(a) > 1 AND m", "0; 3; 4; 5; 1; 2"),
        ("abs(a) > 1 AND NOT m", "0; 1; 2; 4; 5; 3"),
        ("m OR coalesce(s, 'b') > 'b'", "3; 0; 1; 2; 4; 5"),
        ("(coalesce(s, 'b') > 'b') = m", "0; 1; 2; 4; 3; 5"),
        ("abs(a) BETWEEN 1 AND 2", "3; 4; 0; 1; 5; 2"),
        ("CASE WHEN abs(a) > 1 OR m THEN 0 ELSE 1 END", "1; 2; 3; 4; 5; 0"),
        ("upper(s) > 'A' OR m", "0; 1; 2; 3; 4; 5"),
        (
            "EXISTS (SELECT 1 FROM r_{} q WHERE q.i = z.i) OR coalesce(s, 'b') > 'b'",
            "2; 4; 0; 1; 3; 5",
        ),
    ] {
        for limit in ["", "LIMIT 6"] {
            let sql = format!("SELECT i FROM {JOINED} ORDER BY {key}, i {limit}");
            tables.check(&sql, expected).await;
        }
        let descending = format!("SELECT i FROM {JOINED} ORDER BY {key} DESC NULLS LAST, i LIMIT 2");
        let named =
            format!("SELECT i FROM (SELECT i, {key} AS k FROM {JOINED}) y ORDER BY k DESC NULLS LAST, i LIMIT 2");
        for kind in &tables.names {
            let answer = super::answer(&tables.context, &named.replace("{}", kind))
                .await
                .unwrap();
            tables.check(&descending, &answer).await;
        }
    }
}

#[tokio::test]
async fn windows_and_aggregates_are_ordered_by_conditions() {
    let tables = tables().await;
    let key = "coalesce(s, 'b') > 'b' OR m";
    for (sql, expected) in [
        (
            format!("SELECT i, row_number() OVER (ORDER BY {key}, i) AS n FROM {JOINED} ORDER BY i"),
            "0 2; 1 3; 2 4; 3 1; 4 5; 5 6",
        ),
        (
            format!("SELECT i, row_number() OVER (PARTITION BY {key} ORDER BY i) AS n FROM {JOINED} ORDER BY i"),
            "0 1; 1 2; 2 3; 3 1; 4 4; 5 5",
        ),
        (
            format!("SELECT i, row_number() OVER (PARTITION BY m ORDER BY {key}, i) AS n FROM {JOINED} ORDER BY i"),
            "0 2; 1 1; 2 2; 3 1; 4 3; 5 4",
        ),
        (
            format!(
                "SELECT m, string_agg(CAST(i AS VARCHAR), '' ORDER BY {key}, i) FROM {JOINED} GROUP BY m ORDER BY m"
            ),
            "false 30; true 1245",
        ),
        (
            format!("SELECT m, first_value(i ORDER BY {key}, i) AS v FROM {JOINED} GROUP BY m ORDER BY m"),
            "false 3; true 1",
        ),
    ] {
        tables.check(&sql, expected).await;
    }
}
