//! Sources in plans of DataFusion: filters of joins and sorts, declared orders.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::col;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use grampus::{Grampus, OrcFormat};

use super::{ROWS, ids, rows, write};

/// Registers the files of `folder` as the table `t`, which are sorted by `id`.
async fn register_sorted(session: &SessionContext, folder: &std::path::Path) {
    let options = ListingOptions::new(Arc::new(OrcFormat::default()));
    let options = options.with_file_sort_order(vec![vec![col("id").sort(true, false)]]);
    let url = ListingTableUrl::parse(folder.join("").display().to_string()).unwrap();
    let config = ListingTableConfig::new(url).with_listing_options(options);
    let config = config.infer_schema(&session.state()).await.unwrap();
    session
        .register_table("t", Arc::new(ListingTable::try_new(config).unwrap()))
        .unwrap();
}

#[tokio::test]
async fn filters_of_joins_and_sorts_hold_for_one_execution() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t/a.orc");
    write(&path, &rows(0, ROWS));
    let config = SessionConfig::new().with_target_partitions(3);
    let session = SessionContext::new_with_config(config);
    register_sorted(&session, &folder.path().join("t")).await;
    for (sql, expected) in [
        (
            "SELECT id, n FROM t ORDER BY n DESC NULLS LAST, id LIMIT 3",
            vec![99, 199, 299],
        ),
        (
            "SELECT t.id FROM t JOIN (VALUES (5), (6543)) v (k) ON t.id = v.k ORDER BY t.id",
            vec![5, 6543],
        ),
    ] {
        let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let shown = displayable(plan.as_ref()).indent(true).to_string();
        assert!(
            shown.contains("DataSourceExec") && shown.contains("dynamic_filter"),
            "{shown}"
        );
        for _ in 0..2 {
            let batches = collect(reset_plan_states(Arc::clone(&plan)).unwrap(), session.task_ctx())
                .await
                .unwrap();
            assert_eq!(batches.iter().flat_map(ids).collect::<Vec<_>>(), expected, "{sql}");
        }
    }
}

#[tokio::test]
async fn declared_orders_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    // Files that follow each other; that overlap; and that follow each other but for a NULL at the end of the first.
    let id = |values: Vec<Option<i64>>| {
        let column: ArrayRef = Arc::new(Int64Array::from(values));
        RecordBatch::try_from_iter_with_nullable([("id", column, true)]).unwrap()
    };
    let some = |range: std::ops::Range<i64>| range.map(Some).collect::<Vec<_>>();
    let tables = [
        ("follow", id(some(0..3_000)), id(some(3_000..5_000))),
        ("overlap", id(some(0..3_000)), id(some(2_000..5_000))),
        (
            "nulls",
            id([some(0..3_000), vec![None]].concat()),
            id(some(3_000..5_000)),
        ),
    ];
    for (name, one, two) in &tables {
        write(&folder.path().join(name).join("a.orc"), one);
        write(&folder.path().join(name).join("b.orc"), two);
        let config = SessionConfig::new().with_target_partitions(1);
        let own = SessionStateBuilder::new()
            .with_config(config.clone())
            .with_default_features();
        for session in [
            SessionContext::new_with_config(config),
            SessionContext::new_with_state(Grampus::builder().build().unwrap().register(own).build()),
        ] {
            register_sorted(&session, &folder.path().join(name)).await;
            let sql = "SELECT id FROM t ORDER BY id ASC NULLS LAST";
            let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
            let is_sorted = displayable(plan.as_ref()).indent(true).to_string().contains("SortExec");
            assert_eq!(
                is_sorted,
                *name != "follow",
                "{name}: {}",
                displayable(plan.as_ref()).indent(true)
            );
            let batches = collect(plan, session.task_ctx()).await.unwrap();
            let found = concat_batches(&one.schema(), &batches).unwrap();
            let found: Vec<Option<i64>> = found.column(0).as_primitive::<Int64Type>().iter().collect();
            let both = [one, two].map(|batch| batch.column(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>());
            let mut expected = both.concat();
            expected.sort_by_key(|id| id.unwrap_or(i64::MAX));
            assert_eq!(found, expected, "{name}");
        }
    }
}
