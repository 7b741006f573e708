//! Sums and averages of durations and intervals, and sums of decimals.

use std::collections::BTreeSet;

use arrow::array::{
    ArrayRef, Decimal128Array, DurationMicrosecondArray, DurationMillisecondArray, DurationNanosecondArray,
    DurationSecondArray, Int64Array, IntervalYearMonthArray, TimestampNanosecondArray,
};
use arrow::datatypes::i256;
use rand::Rng as _;

use super::{Tables, answer, array, random, rows, seeds};

const HOUR_NS: i64 = 3_600_000_000_000;

#[tokio::test]
async fn durations_of_many_trips_have_a_right_average() {
    // 40,000 trips of 100 hours pass 2^63 nanoseconds 1.5 times.
    let trips = 40_000;
    let begin = TimestampNanosecondArray::from_iter_values((0..trips).map(|trip| trip * 1_000));
    let end = TimestampNanosecondArray::from_iter_values((0..trips).map(|trip| trip * 1_000 + 100 * HOUR_NS));
    let columns = vec![
        (
            "g",
            array(Int64Array::from_iter_values((0..trips).map(|trip| trip % 2))),
        ),
        ("b", array(begin)),
        ("e", array(end)),
    ];
    let tables = Tables::new(&[("t", rows(columns))], true).await;
    let text = answer(
        &tables.context,
        "SELECT arrow_cast(360000000000000, 'Duration(Nanosecond)')",
    )
    .await
    .unwrap();
    for (sql, expected) in [
        ("SELECT avg(e - b) FROM t_{}", text.clone()),
        ("SELECT avg(DISTINCT e - b) FROM t_{}", text.clone()),
        ("SELECT sum(DISTINCT e - b) FROM t_{}", text.clone()),
        (
            "SELECT g, avg(e - b) FROM t_{} GROUP BY g ORDER BY g",
            format!("0 {text}; 1 {text}"),
        ),
        (
            "SELECT g, mean(e - b) FROM t_{} GROUP BY g HAVING g = 1",
            format!("1 {text}"),
        ),
        ("SELECT DISTINCT avg(e - b) OVER () FROM t_{}", text.clone()),
        (
            "SELECT DISTINCT avg(e - b) OVER (ORDER BY b ROWS 30000 PRECEDING) FROM t_{}",
            text.clone(),
        ),
        ("SELECT avg(e - b) FILTER (WHERE g = 0) FROM t_{}", text.clone()),
        ("SELECT avg(e - b) FROM t_{} WHERE g = 7", "NULL".to_owned()),
        (
            "SELECT sum(arrow_cast(e - b, 'Duration(Second)')) = arrow_cast(14400000000, 'Duration(Second)') FROM t_{}",
            "true".to_owned(),
        ),
    ] {
        tables.check(sql, &expected).await;
    }
    for sql in [
        "SELECT sum(e - b) FROM t_{}",
        "SELECT sum(e - b) OVER () FROM t_{}",
        "SELECT g % 1, sum(e - b) FROM t_{} GROUP BY g % 1",
    ] {
        tables.check_error(sql, "292 years; sum whole seconds").await;
    }
    // A sum may pass the bound and come back.
    let sql = "SELECT sum(x) = arrow_cast(0, 'Duration(Nanosecond)') FROM
        (SELECT e - b AS x FROM t_{} UNION ALL SELECT b - e FROM t_{})";
    tables.check(sql, "true").await;
}

#[tokio::test]
async fn random_durations_of_each_unit_are_summed_exactly() {
    for seed in seeds(6) {
        let mut random = random(seed);
        let count = random.random_range(1..60);
        let long: Vec<Option<i64>> = (0..count)
            .map(|_| (!random.random_ratio(1, 8)).then(|| random.random_range(i64::MIN..=i64::MAX)))
            .collect();
        let groups: Vec<i64> = (0..count).map(|_| random.random_range(0..3)).collect();
        let units: [(&str, ArrayRef); 4] = [
            ("Second", array(DurationSecondArray::from(long.clone()))),
            ("Millisecond", array(DurationMillisecondArray::from(long.clone()))),
            ("Microsecond", array(DurationMicrosecondArray::from(long.clone()))),
            ("Nanosecond", array(DurationNanosecondArray::from(long.clone()))),
        ];
        for (unit, durations) in units {
            let columns = vec![("g", array(Int64Array::from(groups.clone()))), ("x", durations)];
            let context = super::support::SETTINGS[1].context();
            super::support::register_rows(&context, "t", &rows(columns));
            for group in 0..3 {
                let rows = (0..count).filter(|&row| groups[row] == group);
                let all: Vec<i128> = rows.filter_map(|row| long[row]).map(i128::from).collect();
                let sum: i128 = all.iter().sum();
                let average = (!all.is_empty()).then(|| sum / all.len() as i128);
                let distinct = all.iter().copied().collect::<BTreeSet<i128>>();
                let distinct_sum: i128 = distinct.iter().sum();
                let distinct_average = (!all.is_empty()).then(|| distinct_sum / distinct.len() as i128);
                let number = |call: &str| format!("SELECT CAST({call} AS BIGINT) FROM t WHERE g = {group}");
                let text = |number: Option<i128>| number.map_or("NULL".to_owned(), |number| number.to_string());
                let check = async |sql: String, expected: Option<i128>| {
                    let found = answer(&context, &sql).await;
                    match expected.is_none_or(|expected| i64::try_from(expected).is_ok()) {
                        true => assert_eq!(found.unwrap(), text(expected), "{unit}: {sql}"),
                        false => assert!(found.unwrap_err().to_string().contains("overflow"), "{unit}: {sql}"),
                    }
                };
                check(number("avg(x)"), average).await;
                check(number("avg(DISTINCT x)"), distinct_average).await;
                check(number("sum(x)"), average.map(|_| sum)).await;
                check(number("sum(DISTINCT x)"), average.map(|_| distinct_sum)).await;
                let grouped = format!("SELECT CAST(avg(x) AS BIGINT) FROM t GROUP BY g HAVING g = {group}");
                if groups.contains(&group) {
                    check(grouped, average).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn sums_of_intervals_do_not_wrap() {
    let months = array(IntervalYearMonthArray::from(vec![i32::MAX, 1, -1]));
    let columns = vec![("i", array(Int64Array::from(vec![1, 2, 3]))), ("x", months)];
    let context = super::support::SETTINGS[0].context();
    super::support::register_rows(&context, "t", &rows(columns));
    assert_eq!(
        answer(&context, "SELECT sum(x) FROM t").await.unwrap(),
        "178956970 years 7 mons"
    );
    let error = answer(&context, "SELECT sum(x) FROM t WHERE i < 3")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("overflow: sum(t.x) does not fit"), "{error}");
    let text = "SELECT sum(v) FROM (VALUES (INTERVAL '1 month 2 days 3 seconds'), (INTERVAL '4 days')) t(v)";
    assert_eq!(answer(&context, text).await.unwrap(), "1 mons 6 days 3.000000000 secs");
    let large = "SELECT sum(v) FROM (VALUES (INTERVAL '2147483647 days'), (INTERVAL '1 day')) t(v)";
    assert!(
        answer(&context, large)
            .await
            .unwrap_err()
            .to_string()
            .contains("overflow")
    );
}

#[tokio::test]
async fn narrow_decimals_are_summed_in_128_bits() {
    let narrow = arrow::array::Decimal32Array::from(vec![999_999_999; 50])
        .with_precision_and_scale(9, 2)
        .unwrap();
    let tables = Tables::new(&[("t", rows(vec![("d", array(narrow))]))], false).await;
    tables
        .check(
            "SELECT sum(d), arrow_typeof(sum(d)) FROM t_{}",
            "499999999.50 Decimal128(19, 2)",
        )
        .await;
    tables
        .check("SELECT x + 1 FROM (SELECT sum(d) AS x FROM t_{}) s", "500000000.50")
        .await;
}

#[tokio::test]
async fn long_decimals_are_summed_exactly_or_refused() {
    let nines = 10_i128.pow(38) - 1;
    let values = [Some(nines), Some(1), None, Some(-nines), Some(nines), Some(-nines)];
    let long = array(
        Decimal128Array::from_iter(values)
            .with_precision_and_scale(38, 4)
            .unwrap(),
    );
    let columns = vec![("i", array(Int64Array::from_iter_values(0..6))), ("d", long)];
    let tables = Tables::new(&[("t", rows(columns))], true).await;
    // 10^38 and 2 * 10^38 pass 38 digits on the way.
    for (sql, expected) in [
        ("SELECT sum(d) FROM t_{}", "0.0001"),
        ("SELECT sum(d) FROM t_{} WHERE i = 2", "NULL"),
        ("SELECT sum(DISTINCT d) FROM t_{}", "0.0001"),
        (
            "SELECT i % 2, sum(d) FROM t_{} WHERE i NOT IN (0, 3) GROUP BY i % 2 ORDER BY 1",
            "0 9999999999999999999999999999999999.9999; 1 -9999999999999999999999999999999999.9998",
        ),
        ("SELECT sum(d) FILTER (WHERE i IN (0, 3, 1)) FROM t_{}", "0.0001"),
        (
            "SELECT max(s) FROM (SELECT sum(d) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s \
             FROM t_{} WHERE i > 1) w",
            "0.0000",
        ),
    ] {
        tables.check(sql, expected).await;
    }
    for sql in [
        "SELECT sum(d) FROM t_{} WHERE i < 2",
        "SELECT i / 2, sum(d) FROM t_{} GROUP BY i / 2",
        "SELECT sum(d) OVER (ORDER BY i) FROM t_{}",
    ] {
        tables.check_error(sql, "does not fit Decimal128(38, ").await;
    }
}

#[tokio::test]
async fn random_decimals_are_summed_exactly() {
    for seed in seeds(12) {
        let mut random = random(seed);
        let (precision, count) = (random.random_range(29..=38), random.random_range(1..3_000_i64));
        let bound = 10_i128.pow(precision) - 1;
        let values: Vec<Option<i128>> = (0..count)
            .map(|_| random.random_bool(0.9).then(|| random.random_range(-bound..=bound)))
            .collect();
        let decimals = Decimal128Array::from_iter(values.iter().copied())
            .with_precision_and_scale(precision as u8, 0)
            .unwrap();
        let columns = vec![
            ("i", array(Int64Array::from_iter_values(0..count))),
            ("d", array(decimals)),
        ];
        let tables = Tables::new(&[("t", rows(columns))], true).await;
        for group in 0..3 {
            let of_group = values.iter().skip(group).step_by(3).flatten();
            let sum = of_group.fold(i256::ZERO, |sum, &value| sum.wrapping_add(i256::from_i128(value)));
            let grouped = format!(
                "SELECT s FROM (SELECT i % 3 AS g, sum(d) AS s FROM t_{{}} WHERE i % 3 = {group} GROUP BY i % 3) a"
            );
            let all = format!("SELECT sum(d) FROM t_{{}} WHERE i % 3 = {group}");
            let is_empty = values.iter().skip(group).step_by(3).flatten().next().is_none();
            for sql in [grouped, all] {
                match sum.to_i128().filter(|sum| sum.unsigned_abs() < 10_u128.pow(38)) {
                    _ if is_empty => {}
                    Some(sum) => tables.check(&sql, &sum.to_string()).await,
                    None => tables.check_error(&sql, "does not fit Decimal128(38, 0)").await,
                }
            }
        }
    }
}
