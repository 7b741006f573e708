//! `NOT IN (SELECT …)` beside NULLs, checked by the truth tables of SQL.

use arrow::array::Int64Array;
use rand::Rng;

use super::{Tables, answer, array, random, rows, seeds};

#[tokio::test]
async fn nulls_make_not_in_unknown() {
    let outer = vec![
        ("id", array(Int64Array::from(vec![Some(1), Some(2), None]))),
        ("g", array(Int64Array::from(vec![1, 2, 3]))),
    ];
    let inner = vec![
        ("id", array(Int64Array::from(vec![Some(1), None]))),
        ("g", array(Int64Array::from(vec![1, 2]))),
    ];
    let tables = Tables::new(&[("o", rows(outer)), ("i", rows(inner))], true).await;
    for (filter, expected) in [
        ("3 NOT IN (SELECT id FROM i_{} i WHERE i.g = o.g)", "1; 3"),
        ("NOT (3 IN (SELECT id FROM i_{} i WHERE i.g = o.g))", "1; 3"),
        ("id NOT IN (SELECT id FROM i_{} i WHERE i.g = o.g)", "3"),
        (
            "id NOT IN (SELECT id FROM i_{} i WHERE i.g = o.g AND i.id IS NOT NULL)",
            "2; 3",
        ),
        ("id NOT IN (SELECT id FROM i_{})", ""),
        ("id NOT IN (SELECT id FROM i_{} WHERE id IS NOT NULL)", "2"),
        ("id + 0 NOT IN (SELECT id FROM i_{} WHERE id IS NOT NULL)", "2"),
        ("id NOT IN (SELECT id FROM i_{} WHERE false)", "1; 2; 3"),
        ("5 NOT IN (SELECT id FROM i_{})", ""),
        ("5 NOT IN (SELECT id FROM i_{} WHERE g = 1)", "1; 2; 3"),
        ("NULL NOT IN (SELECT id FROM i_{} WHERE g = 1)", ""),
        ("id NOT IN (SELECT id FROM i_{}) OR g = 1", "1"),
        ("id NOT IN (SELECT id FROM i_{} WHERE g = 1) OR g = 1", "1; 2"),
        ("5 NOT IN (SELECT max(id) FROM i_{} i WHERE i.g = 2)", ""),
        ("5 NOT IN (SELECT id FROM i_{} ORDER BY id LIMIT 1)", "1; 2; 3"),
    ] {
        let sql = format!("SELECT g FROM o_{{}} o WHERE {filter} ORDER BY g");
        tables.check(&sql, expected).await;
    }
    let alone = "SELECT 'q' WHERE 1 NOT IN (SELECT * FROM (VALUES (3), (NULL)) v)";
    assert_eq!(answer(&tables.context, alone).await.unwrap(), "");
    let without = "SELECT 'q' WHERE 1 NOT IN (SELECT * FROM (VALUES (3), (2)) v)";
    assert_eq!(answer(&tables.context, without).await.unwrap(), "q");
}

/// A column of few values and NULLs.
fn column(random: &mut impl Rng, rows: usize) -> Vec<Option<i64>> {
    (0..rows)
        .map(|_| (!random.random_ratio(1, 5)).then(|| random.random_range(0..4)))
        .collect()
}

#[tokio::test]
async fn random_rows_are_kept_as_the_truth_tables_say() {
    for seed in seeds(12) {
        let mut random = random(seed);
        let (a, g) = (column(&mut random, 8), column(&mut random, 8));
        let size = random.random_range(0..5);
        let (b, h) = (column(&mut random, size), column(&mut random, size));
        let context = super::support::SETTINGS[1].context();
        let numbers = |values: &Vec<Option<i64>>| array(Int64Array::from(values.clone()));
        let outer = vec![
            ("n", array(Int64Array::from_iter_values(0..8))),
            ("a", numbers(&a)),
            ("g", numbers(&g)),
        ];
        super::support::register_rows(&context, "o", &rows(outer));
        super::support::register_rows(&context, "i", &rows(vec![("b", numbers(&b)), ("h", numbers(&h))]));
        // Some(true), Some(false) or unknown.
        let not_in = |value: Option<i64>, list: Vec<Option<i64>>| match value {
            _ if list.is_empty() => Some(true),
            None => None,
            Some(_) if list.contains(&value) => Some(false),
            Some(_) if list.contains(&None) => None,
            Some(_) => Some(true),
        };
        let related = |row: usize| -> Vec<Option<i64>> {
            let is_related = |other: &usize| g[row].is_some() && h[*other] == g[row];
            (0..b.len()).filter(is_related).map(|other| b[other]).collect()
        };
        let correlated = |row: usize| not_in(a[row], related(row)) == Some(true);
        let constant = |row: usize| not_in(Some(1), related(row)) == Some(true);
        let part = |row: usize| not_in(a[row], b.clone()) == Some(true) || g[row] == Some(2);
        let plain = |row: usize| not_in(a[row], b.clone()) == Some(true);
        let kept = |holds: &dyn Fn(usize) -> bool| {
            let rows = (0..8).filter(|&row| holds(row)).map(|row| row.to_string());
            rows.collect::<Vec<_>>().join("; ")
        };
        for (filter, expected) in [
            ("a NOT IN (SELECT b FROM i WHERE i.h = o.g)", kept(&correlated)),
            ("1 NOT IN (SELECT b FROM i WHERE i.h = o.g)", kept(&constant)),
            ("a NOT IN (SELECT b FROM i) OR g = 2", kept(&part)),
            ("a NOT IN (SELECT b FROM i)", kept(&plain)),
        ] {
            let sql = format!("SELECT n FROM o WHERE {filter} ORDER BY n");
            assert_eq!(answer(&context, &sql).await.unwrap(), expected, "{sql}");
        }
    }
}
