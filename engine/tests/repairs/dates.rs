//! DATE beside TIMESTAMP, differences of dates, and times without seconds.

use std::cmp::Ordering;

use arrow::array::{Date32Array, Int64Array, TimestampMicrosecondArray, TimestampNanosecondArray};
use rand::Rng as _;

use super::{Tables, answer, array, random, rows, seeds};

const DAY_NS: i128 = 86_400_000_000_000;
/// 9999-12-31.
const NO_END: i32 = 2_932_896;

#[tokio::test]
async fn dates_of_any_year_are_compared_with_timestamps() {
    let dates = Date32Array::from(vec![Some(NO_END), Some(18_628), Some(18_627), None, Some(-719_162)]);
    let noon = 18_628 * 86_400_000_000_000 + 43_200_000_000_000;
    let columns = vec![
        ("i", array(Int64Array::from_iter_values(0..5))),
        ("d", array(dates)),
        (
            "t",
            array(TimestampNanosecondArray::from(vec![
                Some(0),
                Some(noon),
                None,
                Some(1),
                Some(-1_000_000_000),
            ])),
        ),
    ];
    let tables = Tables::new(&[("v", rows(columns))], true).await;
    for (filter, expected) in [
        ("d > now()", "0"),
        ("d < now()", "1; 2; 4"),
        ("now() > d", "1; 2; 4"),
        ("d > TIMESTAMP '2021-01-01'", "0"),
        ("d >= TIMESTAMP '2021-01-01'", "0; 1"),
        ("d >= TIMESTAMP '2021-01-01 00:00:00.000000001'", "0"),
        ("d = TIMESTAMP '2021-01-01'", "1"),
        ("d = TIMESTAMP '2021-01-01 00:00:01'", ""),
        ("d <> TIMESTAMP '2021-01-01 00:00:01'", "0; 1; 2; 4"),
        ("d < TIMESTAMP '2021-01-01 00:00:01'", "1; 2; 4"),
        ("TIMESTAMP '2020-12-31 12:00' < d", "0; 1"),
        ("d = TIMESTAMP '9999-12-31'", "0"),
        (
            "d BETWEEN TIMESTAMP '2020-12-31' AND TIMESTAMP '2021-01-01 10:00'",
            "1; 2",
        ),
        ("d BETWEEN TIMESTAMP '2020-12-31' AND now()", "1; 2"),
        ("d IN (TIMESTAMP '2021-01-01', TIMESTAMP '9999-12-31', now())", "0; 1"),
        (
            "d NOT IN (TIMESTAMP '2021-01-01', TIMESTAMP '2021-01-01 10:00')",
            "0; 2; 4",
        ),
        ("d > t", "0"),
        ("d < t", "1; 4"),
        ("(d < t) IS NULL", "2; 3"),
        ("d > arrow_cast(t, 'Timestamp(Microsecond, None)')", "0"),
        ("d > arrow_cast(t, 'Timestamp(Second, None)')", "0"),
        ("CASE WHEN d > now() THEN 1 ELSE 0 END = 1", "0"),
    ] {
        tables
            .check(&format!("SELECT i FROM v_{{}} WHERE {filter} ORDER BY i"), expected)
            .await;
    }
    let joined = "SELECT a.i, b.i FROM v_{} a JOIN v_{} b ON a.d = date_trunc('day', b.t)";
    tables.check(joined, "1 1").await;
    let context = &tables.context;
    assert_eq!(
        answer(context, "SELECT DATE '9999-12-31' > now()").await.unwrap(),
        "true"
    );
    let plan = answer(context, &format!("EXPLAIN {}", joined.replace("{}", "orc")))
        .await
        .unwrap();
    assert!(plan.contains("HashJoin"), "{plan}");
}

#[tokio::test]
async fn random_dates_and_timestamps_are_compared_exactly() {
    for seed in seeds(8) {
        let mut random = random(seed);
        let dates: Vec<i32> = (0..40)
            .map(|_| match random.random_range(0..3) {
                0 => random.random_range(-106_760..=106_760),
                1 => random.random_range(-800_000..=3_000_000),
                _ => random.random_range(-3..=3),
            })
            .collect();
        let nanoseconds: Vec<i64> = (0..40)
            .map(|row| {
                match (
                    random.random_range(0..3),
                    i64::from(dates[row]).checked_mul(DAY_NS as i64),
                ) {
                    (0, Some(midnight)) => midnight.saturating_add(random.random_range(-1..=1)),
                    (1, _) => random.random_range(-2 * DAY_NS as i64..2 * DAY_NS as i64),
                    _ => random.random_range(i64::MIN + 1..i64::MAX),
                }
            })
            .collect();
        let microseconds: Vec<i64> = (0..40)
            .map(|row| i64::from(dates[row]) * (DAY_NS / 1_000) as i64 + random.random_range(-1..=1))
            .collect();
        let columns = vec![
            ("i", array(Int64Array::from_iter_values(0..40))),
            ("d", array(Date32Array::from(dates.clone()))),
            ("n", array(TimestampNanosecondArray::from(nanoseconds.clone()))),
            ("m", array(TimestampMicrosecondArray::from(microseconds.clone()))),
        ];
        let context = super::support::SETTINGS[1].context();
        super::support::register_rows(&context, "v", &rows(columns));
        for (column, instants) in [
            ("n", nanoseconds.iter().map(|&at| i128::from(at)).collect::<Vec<_>>()),
            ("m", microseconds.iter().map(|&at| i128::from(at) * 1_000).collect()),
        ] {
            let kept = |holds: fn(Ordering) -> bool| {
                let rows = (0..40).filter(|&row| holds((i128::from(dates[row]) * DAY_NS).cmp(&instants[row])));
                rows.map(|row| row.to_string()).collect::<Vec<_>>().join("; ")
            };
            for (op, expected) in [
                ("=", kept(Ordering::is_eq)),
                ("<>", kept(Ordering::is_ne)),
                ("<", kept(Ordering::is_lt)),
                ("<=", kept(Ordering::is_le)),
                (">", kept(Ordering::is_gt)),
                (">=", kept(Ordering::is_ge)),
            ] {
                let sql = format!("SELECT i FROM v WHERE d {op} {column} ORDER BY i");
                assert_eq!(answer(&context, &sql).await.unwrap(), expected, "{sql}");
            }
        }
    }
}

#[tokio::test]
async fn differences_of_dates_are_numbers() {
    let dates = Date32Array::from_iter_values(18_220..18_240);
    let columns = vec![("i", array(Int64Array::from_iter_values(0..20))), ("d", array(dates))];
    let tables = Tables::new(&[("t", rows(columns))], true).await;
    for (sql, expected) in [
        ("SELECT count(*) FROM t_{} WHERE d - DATE '2019-12-01' > 5", "3"),
        ("SELECT count(*) FROM t_{} WHERE (d - DATE '2019-12-01')::INT > 5", "3"),
        (
            "SELECT count(*) FROM t_{} WHERE 5 < d - DATE '2019-12-01' OR i = 0",
            "4",
        ),
        (
            "SELECT count(*) FROM t_{} WHERE DATE '2019-12-01' - d BETWEEN -5 AND 0",
            "6",
        ),
        (
            "SELECT count(*) FROM (SELECT d - DATE '2019-12-01' AS x FROM t_{}) s WHERE x IN (5, 6)",
            "2",
        ),
        (
            "SELECT max(d - DATE '2019-12-01'), arrow_typeof(max(d - d)) FROM t_{}",
            "8 Int64",
        ),
        ("SELECT max(d) - min(d) FROM t_{} HAVING max(d) - min(d) > 3", "19"),
        ("SELECT count(*) FROM t_{} a JOIN t_{} b ON a.d - b.d > 17", "3"),
        ("SELECT i FROM t_{} ORDER BY DATE '2020-01-01' - d LIMIT 1", "19"),
    ] {
        tables.check(sql, expected).await;
    }
}

#[tokio::test]
async fn times_without_seconds_are_read() {
    let context = super::support::SETTINGS[0].context();
    for (expression, expected) in [
        ("TIMESTAMP '2024-01-01 10:00'", "2024-01-01T10:00:00"),
        ("CAST('2024-01-01T10:00' AS TIMESTAMP)", "2024-01-01T10:00:00"),
        ("TRY_CAST('2024-01-01 10:00' AS TIMESTAMP)", "2024-01-01T10:00:00"),
        ("'2024-01-01 10:00'::timestamp", "2024-01-01T10:00:00"),
        ("to_timestamp('2024-01-01 10:00')", "2024-01-01T10:00:00"),
        ("TIMESTAMP '2024-01-01 10:00+02:00'", "2024-01-01T08:00:00"),
        ("TIMESTAMP '2024-01-01 10:00:30' > '2024-01-01 10:00'", "true"),
        ("TRY_CAST('2024-01-01 10' AS TIMESTAMP)", "NULL"),
    ] {
        assert_eq!(
            answer(&context, &format!("SELECT {expression}")).await.unwrap(),
            expected,
            "{expression}"
        );
    }
}
