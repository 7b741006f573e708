//! Keys that an aggregation takes as places in dictionaries, against expanded ones.

use arrow::datatypes::DataType;
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use grampus::session::plan_cache::plan_sql;
use grampus::{Grampus, SessionChange};

/// The answer, and whether a scan of the plan emits dictionaries.
async fn answer(context: &SessionContext, sql: &str) -> (String, bool) {
    let (plan, task) = plan_sql(context, sql).await.unwrap();
    let mut is_coded = false;
    plan.apply(|node| {
        let schema = node.schema();
        let mut types = schema.fields().iter().map(|field| field.data_type());
        is_coded |= node.name() == "OrcScanExec" && types.any(|ty| matches!(ty, DataType::Dictionary(..)));
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    let batches = collect(plan, task).await.unwrap();
    (pretty_format_batches(&batches).unwrap().to_string(), is_coded)
}

/// Stripes of 10,000 rows: the first two store `s` with a dictionary, the third without, the last holds NULLs only.
const TABLE: &str = "SELECT value AS v, value % 7 AS w, 'group ' || (value % 3) AS t, \
    CASE WHEN value < 20000 THEN CASE WHEN value % 5 = 1 THEN NULL ELSE 'a long text of number ' || (value % 11) END \
         WHEN value < 30000 THEN 'only once ' || value END AS s \
    FROM generate_series(0, 39999)";

#[tokio::test]
async fn keys_in_dictionaries_give_the_groups_of_expanded_keys() {
    let folder = tempfile::tempdir().unwrap();
    let coding = Grampus::builder().build().unwrap().context().unwrap();
    let expanding = Grampus::builder().without(SessionChange::IndexedAggregates);
    let expanding = expanding.build().unwrap().context().unwrap();
    for options in ["", ", compression 'zstd'"] {
        let place = folder.path().join(format!("t{}", options.len())).display().to_string();
        let copy = format!(
            "COPY ({TABLE} ORDER BY v) TO '{place}.orc' OPTIONS (stripe_rows 10000, row_group_rows 1000{options})"
        );
        answer(&coding, &copy).await;
        for (query, expected) in [
            (
                "SELECT s, count(*), sum(v) FROM t GROUP BY s ORDER BY s NULLS FIRST LIMIT 40",
                true,
            ),
            (
                "SELECT s, t, w, min(v) FROM t WHERE v < 20000 GROUP BY s, t, w ORDER BY s, t, w",
                true,
            ),
            (
                "SELECT t, s FROM t WHERE v % 1000 = 7 GROUP BY s, t ORDER BY t, s",
                true,
            ),
            (
                "SELECT DISTINCT s FROM t WHERE v BETWEEN 15000 AND 25000 ORDER BY s",
                true,
            ),
            (
                "SELECT t, sum(v + w), avg(v * 2) FROM t GROUP BY t HAVING sum(v) > 10 ORDER BY t",
                true,
            ),
            (
                "SELECT s AS x, s AS y, count(*) FROM t GROUP BY s ORDER BY s LIMIT 9",
                true,
            ),
            (
                "SELECT t, count(*) FROM (SELECT t, v + 1 AS v FROM t) WHERE v > 9 GROUP BY t ORDER BY t",
                true,
            ),
            (
                "SELECT count(*), count(x) FROM (SELECT s AS x FROM t GROUP BY s, v)",
                true,
            ),
            ("SELECT s, max(s), count(*) FROM t GROUP BY s ORDER BY s LIMIT 9", false),
            (
                "SELECT s, count(s), count(*) FROM t GROUP BY s ORDER BY s LIMIT 9",
                false,
            ),
            (
                "SELECT upper(s), s, count(*) FROM t GROUP BY upper(s), s ORDER BY s LIMIT 9",
                true,
            ),
            (
                "SELECT t, count(*) FILTER (WHERE t > 'group 0') FROM t GROUP BY t ORDER BY t",
                false,
            ),
            (
                "SELECT t, count(*) FROM t WHERE t >= 'group 1' GROUP BY t ORDER BY t",
                false,
            ),
            ("SELECT t, count(*) FROM t GROUP BY ROLLUP (t) ORDER BY t", false),
        ] {
            let sql = query.replace("FROM t", &format!("FROM '{place}.orc' t"));
            let (found, is_coded) = answer(&coding, &sql).await;
            let (wanted, none) = answer(&expanding, &sql).await;
            assert_eq!((found, is_coded, none), (wanted, expected, false), "{query}");
        }
    }
}
