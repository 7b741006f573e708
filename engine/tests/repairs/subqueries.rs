//! Subqueries in each place of a statement, checked row by row.

use std::cmp::Ordering;

use arrow::array::{Int16Array, Int32Array, Int64Array};
use rand::Rng;

use super::{Tables, answer, array, random, rows, seeds};

type Value = Option<i64>;
type Truth = Option<bool>;

/// A column of few values and NULLs.
fn column(random: &mut impl Rng, rows: usize) -> Vec<Value> {
    (0..rows)
        .map(|_| (!random.random_ratio(1, 5)).then(|| random.random_range(0..4)))
        .collect()
}

fn compare(left: Value, right: Value, holds: fn(Ordering) -> bool) -> Truth {
    Some(holds(left?.cmp(&right?)))
}

/// `OR` of all.
fn any(truths: impl Iterator<Item = Truth>) -> Truth {
    let truths: Vec<Truth> = truths.collect();
    match truths.contains(&Some(true)) {
        true => Some(true),
        false => (!truths.contains(&None)).then_some(false),
    }
}

fn shown<T: ToString>(value: Option<T>) -> String {
    value.map_or("NULL".to_owned(), |value| value.to_string())
}

#[tokio::test]
async fn random_subqueries_have_the_values_of_their_rows() {
    for seed in seeds(6) {
        let mut random = random(seed);
        let (a, g) = (column(&mut random, 8), column(&mut random, 8));
        let size = random.random_range(0..6);
        let (b, h) = (column(&mut random, size), column(&mut random, size));
        let context = super::support::SETTINGS[1].context();
        let numbers = |values: &Vec<Value>| array(Int64Array::from(values.clone()));
        let ids = |rows: usize| array(Int64Array::from_iter_values(0..rows as i64));
        let outer = vec![("n", ids(8)), ("a", numbers(&a)), ("g", numbers(&g))];
        let inner = vec![("i", ids(size)), ("b", numbers(&b)), ("h", numbers(&h))];
        super::support::register_rows(&context, "o", &rows(outer));
        super::support::register_rows(&context, "i", &rows(inner));
        // Rows of `i` whose `h` compares with the outer row's `g`.
        let related = |row: usize, holds: fn(Ordering) -> bool| -> Vec<usize> {
            let is_related = |other: &usize| compare(h[*other], g[row], holds) == Some(true);
            (0..size).filter(is_related).collect()
        };
        let equal = |row: usize| related(row, Ordering::is_eq);
        let below = |row: usize| related(row, Ordering::is_lt);
        let is_in = |value: Value, of: &[usize]| any(of.iter().map(|row| compare(value, b[*row], Ordering::is_eq)));
        let is_above = |value: Value, of: &[usize]| any(of.iter().map(|row| compare(value, b[*row], Ordering::is_gt)));
        let not_above = |value: Value, of: &[usize]| any(of.iter().map(|row| compare(value, b[*row], Ordering::is_le)));
        let largest = |of: &[usize]| of.iter().filter_map(|row| b[*row]).max();
        let all: Vec<usize> = (0..size).collect();
        let list = |value: &dyn Fn(usize) -> String| (0..8).map(value).collect::<Vec<_>>().join("; ");
        for (value, expected) in [
            ("EXISTS (SELECT 1 FROM i)", list(&|_| (size > 0).to_string())),
            (
                "EXISTS (SELECT 1 FROM i WHERE h = g)",
                list(&|row| (!equal(row).is_empty()).to_string()),
            ),
            (
                "NOT EXISTS (SELECT 1 FROM i WHERE h < g)",
                list(&|row| below(row).is_empty().to_string()),
            ),
            (
                "EXISTS (SELECT 1 FROM i WHERE h < g OFFSET 1)",
                list(&|row| (below(row).len() > 1).to_string()),
            ),
            ("EXISTS (SELECT count(*) FROM i WHERE h = g)", list(&|_| "true".into())),
            ("a IN (SELECT b FROM i)", list(&|row| shown(is_in(a[row], &all)))),
            (
                "a NOT IN (SELECT b FROM i WHERE h = g)",
                list(&|row| shown(is_in(a[row], &equal(row)).map(|found| !found))),
            ),
            (
                "a IN (SELECT b FROM i WHERE h < g)",
                list(&|row| shown(is_in(a[row], &below(row)))),
            ),
            ("2 IN (SELECT b FROM i)", list(&|_| shown(is_in(Some(2), &all)))),
            ("NULL IN (SELECT b FROM i)", list(&|_| shown(is_in(None, &all)))),
            ("a > ANY (SELECT b FROM i)", list(&|row| shown(is_above(a[row], &all)))),
            (
                "a > ALL (SELECT b FROM i WHERE h = g)",
                list(&|row| shown(not_above(a[row], &equal(row)).map(|found| !found))),
            ),
            (
                "(SELECT max(b) FROM i WHERE h < g)",
                list(&|row| shown(largest(&below(row)))),
            ),
            (
                "(SELECT count(*) FROM i WHERE h < g)",
                list(&|row| below(row).len().to_string()),
            ),
            (
                "(SELECT count(b) + a FROM i WHERE h = g)",
                list(&|row| {
                    let counted = equal(row).iter().filter(|other| b[**other].is_some()).count();
                    shown(a[row].map(|a| a + counted as i64))
                }),
            ),
            (
                "(SELECT b FROM i WHERE h < g ORDER BY i.i DESC LIMIT 1)",
                list(&|row| shown(below(row).last().and_then(|last| b[*last]))),
            ),
            (
                "(SELECT b FROM i WHERE h = g ORDER BY i.i LIMIT 1)",
                list(&|row| shown(equal(row).first().and_then(|first| b[*first]))),
            ),
            (
                "(SELECT b FROM i WHERE h < g ORDER BY i.i LIMIT 1 OFFSET 1)",
                list(&|row| shown(below(row).get(1).and_then(|second| b[*second]))),
            ),
            (
                "(SELECT max(b) FROM i WHERE h = g HAVING count(*) > 1)",
                list(&|row| {
                    let of = equal(row);
                    shown((of.len() > 1).then(|| largest(&of)).flatten())
                }),
            ),
        ] {
            let sql = format!("SELECT {value} AS v FROM o ORDER BY n");
            assert_eq!(answer(&context, &sql).await.unwrap(), expected, "{sql}");
            // In the condition of a filter, below an operator that tells false and unknown apart.
            let kept = expected.split("; ").enumerate().filter(|(_, value)| *value == "NULL");
            let kept = kept.map(|(row, _)| row.to_string()).collect::<Vec<_>>().join("; ");
            let sql = format!("SELECT n FROM o WHERE ({value}) IS NULL ORDER BY n");
            assert_eq!(answer(&context, &sql).await.unwrap(), kept, "{sql}");
        }
    }
}

#[tokio::test]
async fn subqueries_stand_in_each_clause() {
    let outer = vec![
        ("id", array(Int64Array::from(vec![1, 2, 3]))),
        ("g", array(Int64Array::from(vec![Some(1), Some(2), None]))),
    ];
    let inner = vec![
        ("v", array(Int64Array::from(vec![10, 11, 20]))),
        ("h", array(Int64Array::from(vec![1, 1, 3]))),
    ];
    let tables = Tables::new(&[("o", rows(outer)), ("i", rows(inner))], true).await;
    for (sql, expected) in [
        (
            "SELECT sum((SELECT count(*) FROM i_{} i WHERE i.h <= o.g)) FROM o_{} o",
            "4",
        ),
        (
            "SELECT count(*) FILTER (WHERE EXISTS (SELECT 1 FROM i_{} i WHERE i.h = o.g)) FROM o_{} o",
            "1",
        ),
        (
            "SELECT g IN (SELECT h FROM i_{}) AS k, count(*) FROM o_{} GROUP BY 1 ORDER BY 1",
            "false 1; true 1; NULL 1",
        ),
        (
            "SELECT id FROM o_{} o ORDER BY (SELECT max(v) FROM i_{} i WHERE i.h = o.g) NULLS FIRST, id",
            "2; 3; 1",
        ),
        (
            "SELECT o.id, i.v FROM o_{} o LEFT JOIN i_{} i ON o.g = i.h AND i.v IN (SELECT max(v) - 9 FROM i_{}) \
             ORDER BY 1",
            "1 11; 2 NULL; 3 NULL",
        ),
        (
            "SELECT g, count(*) FROM o_{} o GROUP BY g HAVING NOT EXISTS (SELECT 1 FROM i_{} i WHERE i.h = o.g) \
             ORDER BY 1",
            "2 1; NULL 1",
        ),
        (
            "SELECT id, row_number() OVER (ORDER BY EXISTS (SELECT 1 FROM i_{} i WHERE i.h = o.g), id) FROM o_{} o \
             ORDER BY 1",
            "1 3; 2 1; 3 2",
        ),
        (
            "SELECT o.id, s.v FROM o_{} o LEFT JOIN LATERAL (SELECT v FROM i_{} i WHERE i.h <= o.g ORDER BY v DESC \
             LIMIT 1) s ON true ORDER BY 1",
            "1 11; 2 11; 3 NULL",
        ),
    ] {
        tables.check(sql, expected).await;
    }
    for (sql, error) in [
        (
            "SELECT id, (SELECT v FROM i_{} i WHERE i.h = o.g) FROM o_{} o",
            "a scalar subquery has more than one row: add LIMIT 1",
        ),
        (
            "SELECT (SELECT max(v) FROM (SELECT v FROM i_{} i WHERE i.h = o.g UNION ALL SELECT o.id)) FROM o_{} o",
            "a subquery that names columns of the outer query below Union",
        ),
        (
            "SELECT 1 FROM o_{} o LEFT JOIN i_{} i ON EXISTS (SELECT 1 FROM o_{} p WHERE p.id = o.id AND p.g = i.h)",
            "names columns of both sides",
        ),
    ] {
        tables.check_error(sql, error).await;
    }
    let context = &tables.context;
    answer(context, "CREATE TABLE changed AS VALUES (1), (2)")
        .await
        .unwrap();
    for statement in ["DELETE FROM changed", "UPDATE changed SET column1 = 3"] {
        let sql = format!("{statement} WHERE column1 IN (SELECT 1)");
        let error = answer(context, &sql).await.unwrap_err();
        let error = grampus::error::message(&error);
        assert!(error.contains("changed with a subquery"), "{error}");
    }
    assert_eq!(
        answer(context, "SELECT * FROM changed ORDER BY 1").await.unwrap(),
        "1; 2"
    );
}

#[tokio::test]
async fn lists_of_other_tables_are_unnested_in_from() {
    let context = super::support::SETTINGS[2].context();
    let lists = "CREATE TABLE t AS SELECT 1 AS id, [10, 20] AS l UNION ALL SELECT 2, [] UNION ALL SELECT 3, NULL \
                 UNION ALL SELECT 4, [30, NULL]";
    answer(&context, lists).await.unwrap();
    for (from, expected) in [
        ("t, unnest(t.l) AS x(u)", "1 10; 1 20; 4 30; 4 NULL"),
        ("t CROSS JOIN unnest(l) AS x(u)", "1 10; 1 20; 4 30; 4 NULL"),
        ("t CROSS JOIN LATERAL unnest(l) AS x(u)", "1 10; 1 20; 4 30; 4 NULL"),
        ("t JOIN unnest(l) AS x(u) ON u > id + 9", "1 20; 4 30"),
        (
            "t LEFT JOIN LATERAL unnest(l) AS x(u) ON true",
            "1 10; 1 20; 2 NULL; 3 NULL; 4 30; 4 NULL",
        ),
        ("t LEFT JOIN unnest(l) AS x(u) ON u > 10", "1 20; 2 NULL; 3 NULL; 4 30"),
        ("t JOIN unnest([id, 7]) AS x(u) ON id < 3", "1 1; 1 7; 2 2; 2 7"),
        ("t, unnest(l) WITH ORDINALITY AS x(v, u)", "1 1; 1 2; 4 1; 4 2"),
        (
            "t, LATERAL unnest(l) WITH ORDINALITY AS x(u)",
            "1 10; 1 20; 4 30; 4 NULL",
        ),
        (
            "t, unnest(l, [7]) AS x(u, w)",
            "1 10; 1 20; 2 NULL; 3 NULL; 4 30; 4 NULL",
        ),
    ] {
        let sql = format!("SELECT id, u FROM {from} ORDER BY 1, 2");
        assert_eq!(answer(&context, &sql).await.unwrap(), expected, "{sql}");
    }
    for (sql, expected) in [
        (
            "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM unnest(l) AS x(u) WHERE u > 20)",
            "4",
        ),
        (
            "SELECT id, (SELECT sum(u) FROM unnest(l) AS x(u)) FROM t ORDER BY 1",
            "1 30; 2 NULL; 3 NULL; 4 30",
        ),
        (
            "SELECT id, (SELECT count(*) FROM unnest(l) AS x(u)) FROM t ORDER BY 1",
            "1 2; 2 0; 3 0; 4 2",
        ),
        (
            "SELECT id, 10 IN (SELECT u FROM unnest(l) AS x(u)) FROM t ORDER BY 1",
            "1 true; 2 false; 3 false; 4 NULL",
        ),
    ] {
        assert_eq!(answer(&context, sql).await.unwrap(), expected, "{sql}");
    }
}

#[tokio::test]
async fn rows_of_values_are_found_in_subqueries() {
    let values = |values: [Option<i64>; 4]| array(Int64Array::from(values.to_vec()));
    let outer = vec![
        ("n", values([Some(0), Some(1), Some(2), Some(3)])),
        ("a", values([Some(1), Some(1), None, Some(2)])),
        ("b", values([Some(5), Some(6), Some(5), None])),
    ];
    let inner = vec![
        ("x", values([Some(1), Some(1), None, Some(3)])),
        ("y", values([Some(5), Some(5), Some(7), Some(8)])),
    ];
    let tables = Tables::new(&[("o", rows(outer)), ("i", rows(inner))], true).await;
    for (sql, expected) in [
        (
            "SELECT (a, b) IN (SELECT x, y FROM i_{}) FROM o_{} ORDER BY n",
            "true; false; NULL; NULL",
        ),
        (
            "SELECT (a, b) NOT IN (SELECT x, y FROM i_{}) FROM o_{} ORDER BY n",
            "false; true; NULL; NULL",
        ),
        (
            "SELECT n FROM o_{} WHERE (a, b) IN (SELECT x, y FROM i_{}) ORDER BY n",
            "0",
        ),
        (
            "SELECT n FROM o_{} WHERE (a, b) NOT IN (SELECT x, y FROM i_{}) ORDER BY n",
            "1",
        ),
        (
            "SELECT n FROM o_{} WHERE (a, b) NOT IN (SELECT x, y FROM i_{} WHERE x = a) ORDER BY n",
            "1; 2; 3",
        ),
        (
            "SELECT n FROM o_{} WHERE n > 0 AND ((a + 0, 5) IN (SELECT x, y FROM i_{})) ORDER BY n",
            "1",
        ),
    ] {
        tables.check(sql, expected).await;
    }
}

/// Columns of several widths, compared with one another, and conditions that stand twice.
#[tokio::test]
async fn values_of_other_types_are_found_in_correlated_subqueries() {
    let inner = vec![
        ("s", array(Int16Array::from(vec![Some(1), Some(2), Some(300), None]))),
        ("h", array(Int64Array::from(vec![Some(1), Some(2), Some(2), Some(1)]))),
    ];
    let outer = vec![
        ("a", array(Int64Array::from(vec![Some(1), Some(2), Some(300), None]))),
        ("g", array(Int32Array::from(vec![Some(1), Some(2), Some(1), Some(2)]))),
        ("m", array(Int64Array::from(vec![2, 1, 301, 0]))),
    ];
    let tables = Tables::new(&[("i", rows(inner)), ("o", rows(outer))], true).await;
    for (sql, expected) in [
        (
            "SELECT a FROM o_{} o WHERE a IN (SELECT s FROM i_{} i WHERE i.s < o.m) ORDER BY 1",
            "1; 300",
        ),
        (
            "SELECT a FROM o_{} o WHERE 2 IN (SELECT s FROM i_{} i WHERE i.s <> o.a) ORDER BY 1",
            "1; 300",
        ),
        (
            "SELECT a, (SELECT count(*) FROM i_{} i WHERE i.h = o.g AND i.h = o.g) AS v FROM o_{} o ORDER BY 1",
            "1 2; 2 2; 300 2; NULL 2",
        ),
        (
            "SELECT a, (SELECT min(s) FROM i_{} i WHERE i.s = o.a) AS v FROM o_{} o ORDER BY 1",
            "1 1; 2 2; 300 300; NULL NULL",
        ),
        (
            "SELECT count((SELECT count(*) FROM i_{} i WHERE i.s = o.a)) AS n FROM o_{} o WHERE a < 5",
            "2",
        ),
    ] {
        tables.check(sql, expected).await;
    }
}
