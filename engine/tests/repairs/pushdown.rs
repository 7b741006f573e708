//! Filters above joins whose tables have columns of one name.

use arrow::array::{Float64Array, Int32Array, Int64Array};
use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{cast, col, lit};

use super::{Tables, array, rows, text};

#[tokio::test]
async fn filters_reach_the_columns_that_they_name() {
    let left = vec![
        ("k", array(Int32Array::from(vec![Some(1), Some(2), None]))),
        ("v", array(Int64Array::from(vec![10, 20, 30]))),
    ];
    let right = vec![
        ("k", array(Int64Array::from(vec![Some(2), Some(3), None]))),
        ("v", array(Int64Array::from(vec![21, 31, 41]))),
    ];
    let tables = Tables::new(&[("l", rows(left)), ("r", rows(right))], true).await;
    for (sql, expected) in [
        (
            "SELECT r.k FROM l_{} l RIGHT JOIN r_{} r ON l.k = r.k WHERE l.k IS NULL ORDER BY 1",
            "3; NULL",
        ),
        (
            "SELECT r.v FROM r_{} r LEFT JOIN l_{} l ON l.k = r.k WHERE l.k IS NULL ORDER BY 1",
            "31; 41",
        ),
        (
            "SELECT r.v, l.v FROM l_{} l RIGHT JOIN r_{} r ON l.k = r.k WHERE l.v IS NULL OR l.v > 25 ORDER BY 1",
            "31 NULL; 41 NULL",
        ),
        (
            "SELECT r.v FROM l_{} l RIGHT JOIN r_{} r ON l.k = r.k WHERE coalesce(l.k, 7) = 7 ORDER BY 1",
            "31; 41",
        ),
        (
            "SELECT r.v FROM l_{} l RIGHT JOIN r_{} r ON l.k = r.k WHERE l.k IS NULL OR r.k > 2 ORDER BY 1",
            "31; 41",
        ),
        (
            "SELECT l.v, r.v FROM l_{} l FULL JOIN r_{} r ON l.k = r.k WHERE l.k IS NULL OR r.k IS NULL ORDER BY 1, 2",
            "10 NULL; 30 NULL; NULL 31; NULL 41",
        ),
        (
            "SELECT l.k, l.v, r.k, r.v FROM l_{} l RIGHT JOIN r_{} r ON l.k = r.k
             ORDER BY l.v DESC NULLS LAST, r.v LIMIT 2",
            "2 20 2 21; NULL NULL 3 31",
        ),
        (
            "SELECT a.v, b.v, c.v FROM r_{} a LEFT JOIN l_{} b ON a.k = b.k JOIN l_{} c ON b.v = c.v",
            "21 20 20",
        ),
    ] {
        tables.check(sql, expected).await;
    }
}

/// A group that is made of the column whose name it has.
#[tokio::test]
async fn filters_of_groups_do_not_reach_columns_of_their_name() {
    let many: Vec<f64> = (0..5000).map(|row| f64::from(row % 50) + 0.5).collect();
    let few = vec![("k", array(Int32Array::from(vec![2, 3])))];
    let tables = Tables::new(
        &[
            ("t", rows(vec![("x", array(Float64Array::from(many)))])),
            ("k", rows(few)),
        ],
        true,
    )
    .await;
    for kind in ["orc", "parquet", "memory"] {
        let table = |name: &str| tables.context.table(format!("{name}_{kind}"));
        let unqualified = table("t")
            .await
            .unwrap()
            .select(vec![(col("x") + lit(0.0)).alias("d")])
            .unwrap();
        let whole = cast(col("d"), DataType::Int32);
        let groups = unqualified
            .aggregate(vec![whole], vec![count(lit(1)).alias("n")])
            .unwrap();
        let joined = groups
            .join(table("k").await.unwrap(), JoinType::Inner, &["d"], &["k"], None)
            .unwrap();
        let found = joined
            .select_columns(&["k", "n"])
            .unwrap()
            .sort_by(vec![col("k")])
            .unwrap();
        assert_eq!(text(&found.collect().await.unwrap()), "2 100; 3 100", "{kind}");
    }
}
