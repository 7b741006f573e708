//! The scan in EXPLAIN. Its text is part of the interface.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use datafusion::physical_plan::displayable;
use grampus_orc_layout::write::WriterProperties;

use super::common::{context, context_with, measured, register, run, text, write_orc};

fn table() -> RecordBatch {
    let distance: ArrayRef = Arc::new(Float64Array::from_iter_values((0..3000).map(f64::from)));
    let fare: ArrayRef = Arc::new(Float64Array::from_iter_values((0..3000).map(f64::from)));
    let flag: ArrayRef = Arc::new(StringArray::from_iter(
        (0..3000).map(|row| (row % 5 != 0).then_some("N")),
    ));
    let columns = [("distance", distance), ("fare", fare), ("flag", flag)];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

fn options() -> WriterProperties {
    WriterProperties {
        row_index_stride: 500,
        stripe_rows: 1000,
        ..WriterProperties::default()
    }
}

#[tokio::test]
async fn scan_shows_its_columns_and_the_order_of_its_filter() {
    let folder = tempfile::tempdir().unwrap();
    write_orc(&folder.path().join("a/year=2019/t.orc"), &[table()], options());
    write_orc(&folder.path().join("a/year=2020/t.orc"), &[table()], options());
    let context = context(1);
    register(&context, "t", &folder.path().join("a")).await;
    let sql = "SELECT fare, flag, year FROM t WHERE flag = 'N' AND distance >= 1500 AND year = 2020";
    let (_, plan, _) = measured(&context, sql).await;
    let shown = displayable(plan.as_ref()).indent(false).to_string();
    let scan = shown.lines().find(|line| line.contains("OrcScanExec")).unwrap().trim();
    assert_eq!(
        scan,
        "OrcScanExec: files=1/2, stripes=2/3, columns=[fare (direct), flag (decoded), year (constant)], \
         filter=[distance >= 1500 (direct), flag = N (decoded)]"
    );
    assert!(!shown.contains("FilterExec"), "{shown}");

    let (_, plan, _) = measured(&context, "SELECT distance FROM t LIMIT 3").await;
    let shown = displayable(plan.as_ref()).indent(false).to_string();
    assert!(shown.contains("columns=[distance (direct)], limit=3"), "{shown}");
}

#[tokio::test]
async fn analyze_shows_the_accounting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    write_orc(&path, &[table()], options());
    let context = context_with(1, &[("grampus.prune", "false")]).await;
    register(&context, "t", &path).await;
    let shown = text(
        &run(
            &context,
            "EXPLAIN ANALYZE SELECT sum(fare) FROM t WHERE distance >= 2990",
        )
        .await,
    );
    for metric in [
        "needed_bytes=",
        "moved_bytes=",
        "io_amplification=1.",
        "read_requests=",
        "row_groups_skipped=0",
        "row_groups_total=6",
        "rows_passed=10",
    ] {
        assert!(shown.contains(metric), "{metric}: {shown}");
    }
}

#[tokio::test]
async fn volatile_filters_stay_above_the_scan() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    write_orc(&path, &[table()], options());
    let context = context(1);
    register(&context, "t", &path).await;
    let sql = "SELECT count(*) FROM t WHERE random() < 2 AND distance > (SELECT avg(fare) FROM t)";
    let (answer, _, _) = measured(&context, sql).await;
    assert!(answer.contains("1500"), "{answer}");
}

#[tokio::test]
async fn settings_can_be_shown() {
    let context = context_with(1, &[("grampus.local_io", "read")]).await;
    let shown = text(&run(&context, "SHOW grampus.local_io").await);
    assert!(shown.contains("read"), "{shown}");
}
