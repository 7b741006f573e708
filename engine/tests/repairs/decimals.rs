//! DECIMAL beside literals and other numbers, checked by integer arithmetic.

use std::cmp::Ordering;

use arrow::array::{Decimal32Array, Decimal64Array, Decimal128Array, Float32Array, Float64Array, Int64Array};
use arrow::datatypes::i256;
use datafusion::scalar::ScalarValue;
use rand::Rng;

use super::{Tables, answer, answer_by_datafusion, array, random, rows, seeds, with_parameters};

/// Mantissas of a column, and of a second one of DOUBLEs.
fn money(values: &[Option<i128>], precision: u8, scale: i8) -> arrow::array::RecordBatch {
    let decimals = Decimal128Array::from(values.to_vec())
        .with_precision_and_scale(precision, scale)
        .unwrap();
    rows(vec![
        ("i", array(Int64Array::from_iter_values(0..values.len() as i64))),
        ("d", array(decimals)),
    ])
}

const MONEY: [Option<i128>; 8] = [
    Some(101_661),
    Some(-250),
    Some(1_012_867_764),
    None,
    Some(3_581),
    Some(1_661),
    Some(0),
    Some(999_999_999_999),
];

#[tokio::test]
async fn literals_are_compared_exactly_with_decimals() {
    let tables = Tables::new(&[("t", money(&MONEY, 12, 2))], true).await;
    let select = |filter: &str| format!("SELECT i FROM t_{{}} WHERE {filter} ORDER BY i");
    for (filter, expected) in [
        ("d = 10128677.64", "2"),
        ("10128677.64 = d", "2"),
        ("d = 1.012867764e7", "2"),
        ("d = 1012867764E-2", "2"),
        ("d = -2.50", "1"),
        ("d = -(2.5)", "1"),
        ("d = +16.61", "5"),
        ("d = 10128677.64000000000000000000000000000000000000000000", "2"),
        ("d = 10128677.640000000000000000000000001", ""),
        ("d = 10128677.645", ""),
        ("d = '10128677.645'", ""),
        ("d = '10128677.64'", "2"),
        ("d <> 10128677.645 AND d > 1e6", "2; 7"),
        ("d < 16.615", "1; 5; 6"),
        ("d <= 16.605", "1; 6"),
        ("d > 16.605 AND d <= 16.61", "5"),
        ("d >= 1016.611", "2; 7"),
        ("16.615 > d", "1; 5; 6"),
        ("d >= -2.505 AND d < -2.495", "1"),
        ("d IN (1016.61, 35.81, 16.61)", "0; 4; 5"),
        ("d IN (1016.61, 35.815, 16.61, 7)", "0; 5"),
        ("d IN (35.815, 1e30)", ""),
        ("d NOT IN (1016.61, 35.815, 16.61)", "1; 2; 4; 6; 7"),
        ("d NOT IN (35.815)", "0; 1; 2; 4; 5; 6; 7"),
        ("d NOT IN (35.81, NULL)", ""),
        ("d BETWEEN 16.605 AND 35.81", "4; 5"),
        ("d BETWEEN 16.615 AND 16.619", ""),
        ("d NOT BETWEEN 16.605 AND 1e300", "1; 6"),
        ("d < 1e300", "0; 1; 2; 4; 5; 6; 7"),
        (
            "d > -99999999999999999999999999999999999999999999.5",
            "0; 1; 2; 4; 5; 6; 7",
        ),
        ("d > 9999999999.99", ""),
        ("d >= 9999999999.99", "7"),
        ("d > 99999999999999999999999999999999999999", ""),
        ("d = 0", "6"),
        ("d = -0.0", "6"),
        ("d IS DISTINCT FROM 10128677.64", "0; 1; 3; 4; 5; 6; 7"),
        ("d IS NOT DISTINCT FROM 10128677.64", "2"),
        ("d IS DISTINCT FROM 0.001", "0; 1; 2; 3; 4; 5; 6; 7"),
        ("NOT (d = 0.001)", "0; 1; 2; 4; 5; 6; 7"),
        ("(d = 0.001) IS NULL", "3"),
        ("(d < 1e20) IS NULL", "3"),
        (
            "CASE d WHEN 10128677.64 THEN true WHEN 35.815 THEN true ELSE false END",
            "2",
        ),
        ("CASE WHEN d = 10128677.64 THEN 1 ELSE 0 END = 1", "2"),
        ("nullif(d, 10128677.64) IS NULL", "2; 3"),
        ("nullif(d, 10128677.645) IS NULL", "3"),
        ("d = 5.0 + 11.61", "5"),
        ("d BETWEEN 16.60 + 0.01 AND 16.62 - 0.01", "5"),
        ("d = 33.22 / 2", "5"),
        ("10128677.64 IN (SELECT d FROM t_{} u WHERE u.i = t_{}.i)", "2"),
    ] {
        tables.check(&select(filter), expected).await;
    }
    tables
        .check("SELECT max(d) FROM t_{} HAVING max(d) = 9999999999.99", "9999999999.99")
        .await;
    tables
        .check("SELECT d FROM t_{} GROUP BY d HAVING d IN (16.61, 16.615)", "16.61")
        .await;
    tables
        .check("SELECT count(*) FILTER (WHERE d = 10128677.64) FROM t_{}", "1")
        .await;
    tables
        .check(
            "SELECT a.i, b.i FROM t_{} a JOIN t_{} b ON a.d = b.d AND b.d = 10128677.64",
            "2 2",
        )
        .await;
    tables
        .check(
            "SELECT a.i FROM t_{} a LEFT JOIN (VALUES (16.61)) v(x) ON a.d = v.x WHERE v.x IS NOT NULL",
            "5",
        )
        .await;
}

#[tokio::test]
async fn types_and_names_of_literals_stay() {
    let tables = Tables::new(&[("t", money(&MONEY, 12, 2))], true).await;
    for (expression, expected) in [
        ("arrow_typeof(0.1)", "Float64"),
        ("arrow_typeof(0.12345678901234567890)", "Float64"),
        ("arrow_typeof(d * 0.5)", "Float64"),
        ("0.1 + 0.2", "0.30000000000000004"),
        ("arrow_typeof(coalesce(d, 0.5))", "Decimal128(30, 15)"),
        (
            "coalesce(NULL, nullif(d, d), 10046137.9887)",
            "10046137.988700000000000",
        ),
        (
            "CASE WHEN i > 0 THEN d ELSE 10046137.9887 END",
            "10046137.988700000000000",
        ),
        ("CAST(10046137.9887 AS DECIMAL(38, 15))", "10046137.988700000000000"),
        ("CAST(900719925474.0993 AS DECIMAL(38, 4))", "900719925474.0993"),
        ("CAST(-900719925474.0993 AS DECIMAL(38, 4))", "-900719925474.0993"),
    ] {
        tables
            .check(&format!("SELECT {expression} FROM t_{{}} WHERE i = 0"), expected)
            .await;
    }
    let names = ["0.12345678901234567890", "-0.12345678901234567890", "0.1"];
    for name in names {
        let sql = format!("SELECT {name} FROM t_memory LIMIT 1");
        let plan = grampus::session::plan_cache::plan_sql(&tables.context, &sql)
            .await
            .unwrap()
            .0;
        let stock = tables.context.sql(&sql).await.unwrap();
        assert_eq!(*plan.schema(), *stock.schema().inner().as_ref(), "{sql}");
    }
}

#[tokio::test]
async fn parameters_and_integers_are_exact() {
    let tables = Tables::new(&[("t", money(&MONEY, 12, 2))], true).await;
    for (value, expected) in [
        (ScalarValue::Float64(Some(10_128_677.64)), "2"),
        (ScalarValue::Int64(Some(0)), "6"),
        (ScalarValue::Utf8(Some("16.61".to_owned())), "5"),
        (ScalarValue::Decimal128(Some(35_810), 10, 3), "4"),
    ] {
        let sql = "SELECT i FROM t_orc WHERE d = $1";
        assert_eq!(
            with_parameters(&tables.context, sql, vec![value.clone()]).await,
            expected,
            "{value}"
        );
    }
    let long = Decimal128Array::from(vec![10_i128.pow(37) * 9 + 1, 5])
        .with_precision_and_scale(38, 0)
        .unwrap();
    let fraction = Decimal128Array::from(vec![10_i128.pow(37) * 5, 1])
        .with_precision_and_scale(38, 38)
        .unwrap();
    let columns = vec![
        ("d", array(long)),
        ("f", array(fraction)),
        ("n", array(Int64Array::from(vec![1, 5]))),
    ];
    let tables = Tables::new(&[("u", rows(columns))], true).await;
    for (filter, expected) in [
        ("d = 90000000000000000000000000000000000001", "1"),
        ("d = 90000000000000000000000000000000000002", ""),
        ("d > 90000000000000000000000000000000000000.5", "1"),
        ("d > 18446744073709551616", "1"),
        ("f = 0.5", "1"),
        ("f = 5", ""),
        ("f < 5", "1; 5"),
        ("f < n", "1; 5"),
        ("f = 0.00000000000000000000000000000000000001", "5"),
        ("f < d", "1; 5"),
        ("d = n", "5"),
        ("d + 0 = 5.0", "5"),
    ] {
        tables
            .check(&format!("SELECT n FROM u_{{}} WHERE {filter} ORDER BY n"), expected)
            .await;
    }
}

#[tokio::test]
async fn decimals_and_doubles_are_compared_as_doubles() {
    // `i / 100` as DECIMAL and as DOUBLE; the text of a long DECIMAL is rounded once.
    let count = 4_000_i128;
    let cents = Decimal128Array::from_iter_values(0..count)
        .with_precision_and_scale(10, 2)
        .unwrap();
    let long = (0..count).map(|i| 900_719_925_474_099_300_000 + i * 1_234_567_891);
    let long: Vec<i128> = long.collect();
    let doubles = long.iter().map(|mantissa| {
        let text = mantissa.to_string();
        format!("{}.{}", &text[..text.len() - 5], &text[text.len() - 5..])
            .parse::<f64>()
            .unwrap()
    });
    let columns = vec![
        ("i", array(Int64Array::from_iter_values(0..count as i64))),
        ("e", array(cents)),
        (
            "x",
            array(Float64Array::from_iter_values((0..count).map(|i| i as f64 / 100.0))),
        ),
        (
            "r",
            array(Float32Array::from_iter_values((0..count).map(|i| i as f32 / 4.0))),
        ),
        ("y", array(Float64Array::from_iter_values(doubles))),
        (
            "l",
            array(Decimal128Array::from(long).with_precision_and_scale(21, 5).unwrap()),
        ),
    ];
    let tables = Tables::new(&[("t", rows(columns))], true).await;
    for (sql, expected) in [
        ("SELECT count(*) FROM t_{} WHERE e = x", "4000"),
        ("SELECT count(*) FROM t_{} WHERE e = i / 100.0", "4000"),
        ("SELECT count(*) FROM t_{} WHERE i / 100.0 BETWEEN e AND e", "4000"),
        ("SELECT count(*) FROM t_{} WHERE x IN (e, 0.5)", "4000"),
        ("SELECT count(*) FROM t_{} WHERE e IN (x, 0.5)", "4000"),
        ("SELECT count(*) FROM t_{} WHERE l = y", "4000"),
        ("SELECT count(*) FROM t_{} a JOIN t_{} b ON a.e = b.x", "4000"),
        (
            "SELECT count(*) FROM (SELECT e AS k FROM t_{}) a JOIN (SELECT x AS k FROM t_{}) b USING (k)",
            "4000",
        ),
        ("SELECT count(*) FROM t_{} WHERE e IN (SELECT x FROM t_{})", "4000"),
        ("SELECT count(*) FROM t_{} WHERE x IN (SELECT e FROM t_{})", "4000"),
        ("SELECT count(*) FROM t_{} WHERE l NOT IN (SELECT y FROM t_{})", "0"),
        ("SELECT count(*) FROM t_{} WHERE e * 25 = r", "4000"),
        ("SELECT count(*) FROM t_{} WHERE e < CAST('NaN' AS DOUBLE)", "4000"),
        ("SELECT count(*) FROM t_{} WHERE e < CAST('inf' AS DOUBLE)", "4000"),
    ] {
        tables.check(sql, expected).await;
    }
}

#[tokio::test]
async fn narrow_decimals_are_compared_exactly() {
    let narrow = Decimal32Array::from(vec![150, 299])
        .with_precision_and_scale(5, 2)
        .unwrap();
    let middle = Decimal64Array::from(vec![150, 299])
        .with_precision_and_scale(12, 2)
        .unwrap();
    let columns = vec![
        ("n", array(Int64Array::from(vec![1, 2]))),
        ("a", array(narrow)),
        ("b", array(middle)),
    ];
    let tables = Tables::new(&[("t", rows(columns))], false).await;
    for (filter, expected) in [
        ("a = 1.5", "1"),
        ("a > n", "1; 2"),
        ("b > n", "1; 2"),
        ("b = n", ""),
        ("a = b", "1; 2"),
        ("b < 2.995", "1; 2"),
        ("b = 2.995", ""),
    ] {
        tables
            .check(&format!("SELECT n FROM t_{{}} WHERE {filter} ORDER BY n"), expected)
            .await;
    }
}

/// A mantissa of up to `precision` digits.
fn mantissa(random: &mut impl Rng, precision: u8) -> i128 {
    let digits = random.random_range(0..=u32::from(precision));
    let bound = 10_i128.pow(digits);
    random.random_range(-bound + 1..bound)
}

/// The text of `mantissa` · 10^-`scale`, in one of its forms.
fn literal(random: &mut impl Rng, mantissa: i256, scale: usize) -> String {
    let text = mantissa.to_string();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.as_str()),
    };
    if random.random_ratio(1, 4) {
        return format!("{sign}{digits}e-{scale}");
    }
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let zeros = "0".repeat(random.random_range(0..3));
    format!("{sign}{whole}.{fraction}{zeros}")
}

/// `mantissa` · 10^`power`.
fn scaled(mantissa: i128, power: usize) -> i256 {
    let power = i256::from_string(&format!("1{}", "0".repeat(power))).unwrap();
    i256::from_i128(mantissa).checked_mul(power).unwrap()
}

#[tokio::test]
async fn random_decimals_are_compared_with_random_literals() {
    for seed in seeds(20) {
        let mut random = random(seed);
        let precision = random.random_range(1..=38_u8);
        let scale = random.random_range(0..=precision);
        let values: Vec<Option<i128>> = (0..30)
            .map(|_| (!random.random_ratio(1, 10)).then(|| mantissa(&mut random, precision)))
            .collect();
        let tables = Tables::new(&[("t", money(&values, precision, scale as i8))], true).await;
        for _ in 0..8 {
            // Near a value, with as many digits behind the point, fewer, or more.
            let more = random.random_range(0..5_usize);
            let near = values[random.random_range(0..values.len())].unwrap_or(0);
            let step = [0, 0, 1, -1, 5, -5][random.random_range(0..6)];
            let exact = scaled(near, more).checked_add(i256::from(step)).unwrap();
            let text = literal(&mut random, exact, usize::from(scale) + more);
            let op = ["=", "<>", "<", "<=", ">", ">="][random.random_range(0..6)];
            let holds = |ordering: Ordering| match op {
                "=" => ordering.is_eq(),
                "<>" => ordering.is_ne(),
                "<" => ordering.is_lt(),
                "<=" => ordering.is_le(),
                ">" => ordering.is_gt(),
                _ => ordering.is_ge(),
            };
            let kept: Vec<String> = (0..values.len())
                .filter(|&row| values[row].is_some_and(|value| holds(scaled(value, more).cmp(&exact))))
                .map(|row| row.to_string())
                .collect();
            let expected = kept.join("; ");
            let nulls = values.iter().filter(|value| value.is_none()).count();
            println!("DECIMAL({precision}, {scale}) {op} {text}");
            tables
                .check(
                    &format!("SELECT i FROM t_{{}} WHERE d {op} {text} ORDER BY i"),
                    &expected,
                )
                .await;
            let exchanged = op.replace(['<', '>'], if op.starts_with('<') { ">" } else { "<" });
            if op != "<>" {
                let sql = format!("SELECT i FROM t_{{}} WHERE {text} {exchanged} d ORDER BY i");
                tables.check(&sql, &expected).await;
            }
            let sql = format!("SELECT count(*) FROM t_{{}} WHERE (d {op} {text}) IS NULL");
            tables.check(&sql, &nulls.to_string()).await;
            if exact.to_string().trim_start_matches('-').trim_end_matches('0').len() <= 15 {
                let sql = format!("SELECT i FROM t_orc WHERE d {op} {text} ORDER BY i");
                assert_eq!(
                    answer_by_datafusion(&tables.context, &sql).await.unwrap(),
                    expected,
                    "{sql}"
                );
            }
        }
    }
}

#[tokio::test]
async fn literals_of_many_digits_are_told_apart() {
    let context = super::support::SETTINGS[0].context();
    for (sql, expected) in [
        (
            "SELECT CAST('900719925474.0993' AS DECIMAL(38,4)) = 900719925474.0993",
            "true",
        ),
        (
            "SELECT CAST('900719925474.0993' AS DECIMAL(38,4)) IN (900719925474.0992, 900719925474.0994)",
            "false",
        ),
        (
            "SELECT CAST('900719925474.0993' AS DECIMAL(38,4)) > 900719925474.0992",
            "true",
        ),
        (
            "SELECT CAST('-900719925474.0993' AS DECIMAL(38,4)) = -900719925474.0993",
            "true",
        ),
        ("SELECT 900719925474.0993 = 900719925474.0992", "true"), // two DOUBLEs
    ] {
        assert_eq!(answer(&context, sql).await.unwrap(), expected, "{sql}");
    }
}

#[tokio::test]
async fn literals_of_many_digits_stand_where_others_do() {
    let context = super::support::SETTINGS[0].context();
    for (sql, expected) in [
        (
            "SELECT x FROM (VALUES (0.12345678901234567890), (1.5)) v(x) WHERE x IN (0.12345678901234567890, 2)",
            "0.12345678901234568",
        ),
        (
            "SELECT 0.12345678901234567890 AS x UNION SELECT 0.12345678901234567891",
            "0.12345678901234568",
        ),
        (
            "WITH RECURSIVE w AS (SELECT 0.12345678901234567890 AS x
                UNION ALL SELECT x + 0.52345678901234567890 FROM w WHERE x < 0.5) SELECT x FROM w ORDER BY x",
            "0.12345678901234568; 0.6469135780246914",
        ),
        (
            "SELECT 0.12345678901234567890, count(*) FROM (VALUES (1)) v(i) GROUP BY 0.12345678901234567890",
            "0.12345678901234568 1",
        ),
        (
            "SELECT lag(i, 1, 0.5123456789012345678) OVER () FROM (VALUES (1.5)) v(i)",
            "0.5123456789012346",
        ),
        (
            "SELECT approx_percentile_cont(i, 0.50000000000000000001) FROM (VALUES (1.5)) v(i)",
            "1.5",
        ),
    ] {
        assert_eq!(answer(&context, sql).await.unwrap(), expected, "{sql}");
    }
    answer(&context, "CREATE TABLE t (d DECIMAL(38, 4))").await.unwrap();
    let insert = "INSERT INTO t VALUES (900719925474.0993), (-123456789012345678.1234), (1.5)";
    answer(&context, insert).await.unwrap();
    let stored = answer(&context, "SELECT d FROM t ORDER BY d").await.unwrap();
    assert_eq!(stored, "-123456789012345678.1234; 1.5000; 900719925474.0993");
}
