//! Conditions with several IN lists of one operand, checked by the truth tables of SQL.

use arrow::array::Int64Array;
use rand::Rng;
use rand::seq::IndexedRandom;

use super::{Tables, answer, array, random, rows, seeds};

#[tokio::test]
async fn lists_of_one_operand_stay_two() {
    let columns = vec![
        ("a", array(Int64Array::from(vec![Some(5), Some(6), Some(1), None]))),
        ("b", array(Int64Array::from(vec![Some(5), Some(0), None, Some(1)]))),
    ];
    let tables = Tables::new(&[("t", rows(columns))], true).await;
    for (condition, expected) in [
        ("a IN (b, 1, 2, 3) AND a IN (b + 0, 6, 7, 8)", "5"),
        ("a IN (b, 5, 2, 3) AND a NOT IN (b + 0, 7, 8, 9)", ""),
        ("a NOT IN (1, 2, 3, 4, NULL) AND a IN (2, 3, 4, 6)", ""),
        ("NOT (a IN (1, 2, 3, 4, 5) AND a IN (2, 3, 4, 6, NULL))", "6"),
        ("(a IN (1, 2, 3, 4) AND a IN (5, 6, 7, 8)) IS NULL", "NULL"),
        ("(a IN (1, 2, 3, 4) AND a NOT IN (1, 2, 3, 4, 5)) IS NULL", "NULL"),
        ("(a NOT IN (1, 2, 3, 4) OR a NOT IN (5, 6, 7, 8)) IS NULL", "NULL"),
        ("(a = 1 AND a IN (5, 6, 7, 8, NULL)) IS NULL", "1; NULL"),
        ("NOT (a IN (1, 2, 3, 4) AND a IN (5, 6, 7, 8))", "1; 5; 6"),
        (
            "a IN (1, 2, 5, 6) AND a IN (5, 6, 7, 8) AND a NOT IN (6, 9, 10, 11)",
            "5",
        ),
    ] {
        let sql = format!("SELECT a FROM t_{{}} WHERE {condition} ORDER BY a");
        tables.check(&sql, expected).await;
        let selected = format!("SELECT a FROM (SELECT a, {condition} AS c FROM t_{{}}) s WHERE c ORDER BY a");
        tables.check(&selected, expected).await;
    }
    let grouped = "SELECT a IN (1, 2, 3, 4) AND a IN (1, 6, 7, 8) AS c, count(*) FROM t_{}
        GROUP BY a IN (1, 2, 3, 4) AND a IN (1, 6, 7, 8) ORDER BY 1";
    tables.check(grouped, "false 2; true 1; NULL 1").await;
    let cube = "SELECT a IN (1, 2, 3, 4) AND a IN (1, 6, 7, 8) AS c, count(*) FROM t_{}
        GROUP BY CUBE (a IN (1, 2, 3, 4) AND a IN (1, 6, 7, 8)) ORDER BY 2, 1";
    tables.check(cube, "true 1; NULL 1; false 2; NULL 4").await;
}

/// A list that all sides of an OR have is evaluated once, and alone.
#[tokio::test]
async fn equal_lists_are_found_in_all_sides_of_an_or() {
    let columns = vec![
        ("a", array(Int64Array::from(vec![Some(5), Some(6), Some(1), None]))),
        ("b", array(Int64Array::from(vec![Some(5), Some(0), None, Some(1)]))),
    ];
    let tables = Tables::new(&[("t", rows(columns))], true).await;
    let condition =
        "(a IN (1, 5, 6, 7) AND b < 3) OR (a IN (1, 5, 6, 7) AND b > 4) OR (a IN (1, 5, 6, 7) AND b IS NULL)";
    let sql = format!("SELECT a FROM t_{{}} WHERE {condition} ORDER BY a");
    tables.check(&sql, "1; 5; 6").await;
    let explain = format!("EXPLAIN SELECT a FROM t_orc WHERE {condition}");
    let plan = answer(&tables.context, &explain).await.unwrap();
    let scan = plan.lines().find(|line| line.contains("OrcScanExec")).unwrap();
    assert_eq!(scan.matches("IN (").count(), 1, "{scan}");
}

#[tokio::test]
async fn a_pattern_of_any_text_is_unknown_for_null() {
    let texts = arrow::array::StringArray::from(vec![Some("x"), Some(""), None]);
    let tables = Tables::new(&[("t", rows(vec![("s", array(texts))]))], true).await;
    tables.check("SELECT count(*) FROM t_{} WHERE s ~ '.*'", "2").await;
    tables
        .check("SELECT count(*) FROM t_{} WHERE NOT (s ~ '.*')", "0")
        .await;
    tables
        .check("SELECT count(*) FROM t_{} WHERE (s ~ '.*') IS NULL", "1")
        .await;
}

/// True, false or unknown.
type Truth = Option<bool>;

/// A random condition over the columns a, b and c, and its truth for each row.
fn condition(random: &mut impl Rng, values: &[[Option<i64>; 3]], depth: u32) -> (String, Vec<Truth>) {
    if depth > 0 && random.random_bool(0.8) {
        let (left, l) = condition(random, values, depth - 1);
        if random.random_ratio(1, 5) {
            return (
                format!("NOT ({left})"),
                l.into_iter().map(|truth| truth.map(|it| !it)).collect(),
            );
        }
        let (right, r) = condition(random, values, depth - 1);
        let decides = random.random();
        let word = if decides { "OR" } else { "AND" };
        let both = |(l, r): (Truth, Truth)| match (l, r) {
            _ if [l, r].contains(&Some(decides)) => Some(decides),
            (Some(_), Some(_)) => Some(!decides),
            _ => None,
        };
        return (
            format!("({left} {word} {right})"),
            l.into_iter().zip(r).map(both).collect(),
        );
    }
    let items: Vec<Result<usize, Option<i64>>> = (0..random.random_range(1..6))
        .map(|_| match random.random_range(0..10) {
            0 => Ok(1),
            1 => Ok(2),
            2 => Err(None),
            _ => Err(Some(random.random_range(0..5))),
        })
        .collect();
    let is_negated = random.random();
    let texts: Vec<String> = (items.iter())
        .map(|item| match item {
            Ok(column) => ["a", "b", "c"][*column].to_owned(),
            Err(None) => "NULL".to_owned(),
            Err(Some(value)) => value.to_string(),
        })
        .collect();
    let of_row = |row: &[Option<i64>; 3]| {
        let value = row[0]?;
        let all: Vec<Option<i64>> = items
            .iter()
            .map(|item| item.map_or_else(|it| it, |column| row[column]))
            .collect();
        let found = match all.contains(&Some(value)) {
            true => Some(true),
            false if all.contains(&None) => None,
            false => Some(false),
        };
        found.map(|found| found != is_negated)
    };
    let word = if is_negated { "NOT IN" } else { "IN" };
    (
        format!("a {word} ({})", texts.join(", ")),
        values.iter().map(of_row).collect(),
    )
}

#[tokio::test]
async fn random_lists_hold_as_the_truth_tables_say() {
    for seed in seeds(60) {
        let mut random = random(seed);
        let numbers = [None, Some(0), Some(1), Some(2), Some(3), Some(4)];
        let values: Vec<[Option<i64>; 3]> = (0..12)
            .map(|_| std::array::from_fn(|_| *numbers.choose(&mut random).unwrap()))
            .collect();
        let column = |at: usize| array(Int64Array::from_iter(values.iter().map(|row| row[at])));
        let context = super::support::SETTINGS[1].context();
        let columns = vec![
            ("n", array(Int64Array::from_iter_values(0..12))),
            ("a", column(0)),
            ("b", column(1)),
            ("c", column(2)),
        ];
        super::support::register_rows(&context, "t", &rows(columns));
        for _ in 0..10 {
            let (text, truths) = condition(&mut random, &values, 3);
            let rows_of = |wanted: Truth| {
                let rows = (0..12).filter(|&row| truths[row] == wanted).map(|row| row.to_string());
                rows.collect::<Vec<_>>().join("; ")
            };
            for (sql, wanted) in [
                (format!("SELECT n FROM t WHERE {text} ORDER BY n"), Some(true)),
                (format!("SELECT n FROM t WHERE ({text}) IS NULL ORDER BY n"), None),
                (format!("SELECT n FROM t WHERE NOT ({text}) ORDER BY n"), Some(false)),
            ] {
                assert_eq!(
                    answer(&context, &sql).await.unwrap(),
                    rows_of(wanted),
                    "seed {seed}: {sql}"
                );
            }
        }
    }
}
