//! ORC files in a `FileScanConfig` of DataFusion: parts, stores, columns of the table, filters, orders, statistics.

#[allow(dead_code)]
#[path = "../../examples/file_scan_config.rs"]
mod example;
#[path = "../support/mod.rs"]
mod support;

mod columns;
mod orders;

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, FileSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, col, lit};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::{ExecutionPlan, collect, collect_partitioned, displayable};
use datafusion::prelude::SessionContext;
use grampus::{OrcSource, scan_io};
use grampus_orc_layout::tail::StripeInfo;
use grampus_orc_layout::write::WriterProperties;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;

const ROWS: i64 = 7_000;

/// Columns `id` (0, 1, …), `n` (NULL in every tenth row) and `s`, in stripes of 1,000 rows.
fn rows(first: i64, count: i64) -> RecordBatch {
    let numbers = first..first + count;
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(numbers.clone()))),
        (
            "n",
            Arc::new(Int32Array::from_iter(
                numbers.clone().map(|n| (n % 10 != 0).then_some(n as i32 % 100)),
            )),
        ),
        (
            "s",
            Arc::new(StringArray::from_iter_values(
                numbers.map(|n| format!("text {}", n % 50)),
            )),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

fn write(path: &Path, batch: &RecordBatch) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let properties = WriterProperties {
        row_index_stride: 500,
        stripe_rows: 1000,
        ..WriterProperties::default()
    };
    support::write_orc(path, batch.schema(), std::slice::from_ref(batch), properties);
}

fn stripes(path: &Path) -> Vec<StripeInfo> {
    let file = grampus_orc_layout::file_source::FileSource::open(path).unwrap();
    file.tail().unwrap().stripes.clone()
}

fn local(path: &Path) -> PartitionedFile {
    let size = std::fs::metadata(path).unwrap().len();
    PartitionedFile::new(path.display().to_string(), size)
}

fn builder(source: impl FileSource) -> FileScanConfigBuilder {
    FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
}

fn source_of(batch: &RecordBatch) -> OrcSource {
    OrcSource::new(TableSchema::from(batch.schema()))
}

async fn run(config: FileScanConfig, session: &SessionContext) -> Result<RecordBatch> {
    let schema = config.projected_schema()?;
    let batches = collect(DataSourceExec::from_data_source(config), session.task_ctx()).await?;
    Ok(concat_batches(&schema, &batches)?)
}

fn ids(batch: &RecordBatch) -> Vec<i64> {
    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
}

fn sorted(mut ids: Vec<i64>) -> Vec<i64> {
    ids.sort_unstable();
    ids
}

fn physical(session: &SessionContext, expr: Expr, schema: &SchemaRef) -> Arc<dyn PhysicalExpr> {
    let schema = datafusion::common::DFSchema::try_from(Arc::clone(schema)).unwrap();
    session.create_physical_expr(expr, &schema).unwrap()
}

#[tokio::test]
async fn parts_that_cover_a_file_have_each_row_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.orc");
    let batch = rows(0, ROWS);
    write(&path, &batch);
    let stripes = stripes(&path);
    assert_eq!(stripes.len(), 7);
    let end = std::fs::metadata(&path).unwrap().len() as i64;
    let mut cuts = vec![0, 1, 2, 3, 4, end - 1, end, end / 2, end / 3];
    for stripe in &stripes {
        let (first, length) = (stripe.offset as i64, (stripe.index_length + stripe.data_length) as i64);
        cuts.extend([
            first - 1,
            first,
            first + 1,
            first + length - 1,
            first + length,
            first + length / 2,
        ]);
    }
    let session = SessionContext::new();
    for cut in cuts.iter().copied() {
        let mut found = Vec::new();
        for (start, end) in [(0, cut), (cut, end)] {
            let config = builder(source_of(&batch)).with_file(local(&path).with_range(start, end));
            found.push(ids(&run(config.build(), &session).await.unwrap()));
        }
        assert_eq!(found.concat(), (0..ROWS).collect::<Vec<_>>(), "cut at {cut}");
        // A part has the stripes that begin there.
        let first = stripes.iter().filter(|stripe| (stripe.offset as i64) < cut).count();
        assert_eq!(found[0].len(), 1000 * first, "cut at {cut}");
    }
    // Three parts, of which one may be empty.
    for pair in cuts.windows(2) {
        let (one, two) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
        let parts = [(0, one), (one, two), (two, end)];
        let parts = parts.map(|(start, end)| local(&path).with_range(start, end)).to_vec();
        let config = builder(source_of(&batch)).with_file_group(parts.into()).build();
        let found = ids(&run(config, &session).await.unwrap());
        assert_eq!(found, (0..ROWS).collect::<Vec<_>>(), "cuts at {one} and {two}");
    }
}

#[tokio::test]
async fn example_scans_a_file_in_halves() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.orc");
    write(&path, &rows(0, ROWS));
    let session = SessionContext::new();
    let plan = example::halves(&session, path.to_str().unwrap()).await.unwrap();
    assert_eq!(plan.properties().partitioning.partition_count(), 2);
    let batches = collect(plan, session.task_ctx()).await.unwrap();
    assert_eq!(
        sorted(batches.iter().flat_map(ids).collect()),
        (0..ROWS).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn datafusion_divides_files_by_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("a.orc"), folder.path().join("b.orc"));
    write(&one, &rows(0, 5_000));
    write(&two, &rows(5_000, 2_000));
    let session = SessionContext::new();
    let config = builder(source_of(&rows(0, 1))).with_file_group(vec![local(&one), local(&two)].into());
    let plan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(config.build());
    let mut options = ConfigOptions::default();
    options.optimizer.repartition_file_min_size = 1;
    let divided = plan.repartitioned(5, &options).unwrap().unwrap();
    assert_eq!(divided.properties().partitioning.partition_count(), 5);
    let partitions = collect_partitioned(divided, session.task_ctx()).await.unwrap();
    assert_eq!(
        sorted(partitions.concat().iter().flat_map(ids).collect()),
        (0..ROWS).collect::<Vec<_>>()
    );
}

/// Two objects of one store with a partition column, without a time or a tag of theirs.
async fn partitioned(session: &SessionContext) -> FileScanConfigBuilder {
    let folder = tempfile::tempdir().unwrap();
    let store = InMemory::new();
    let url = ObjectStoreUrl::parse("mem://lake").unwrap();
    let mut files = Vec::new();
    for (day, first) in [("mon", 0), ("tue", 3_000)] {
        let path = folder.path().join(format!("{day}.orc"));
        write(&path, &rows(first, 3_000));
        let bytes = std::fs::read(&path).unwrap();
        let (name, size) = (format!("t/{day}.orc"), bytes.len() as u64);
        store.put(&name.as_str().into(), bytes.into()).await.unwrap();
        files.push(PartitionedFile::new(name, size).with_partition_values(vec![ScalarValue::from(day)]));
    }
    session.register_object_store(url.as_ref(), Arc::new(store));
    let day: FieldRef = Arc::new(Field::new("day", DataType::Utf8, false));
    let table = TableSchema::builder(rows(0, 1).schema())
        .with_table_partition_cols(vec![day])
        .build();
    FileScanConfigBuilder::new(url, Arc::new(OrcSource::new(table))).with_file_group(files.into())
}

#[tokio::test]
async fn objects_have_partition_columns_and_computed_projections() {
    let session = SessionContext::new();
    let config = partitioned(&session).await.build();
    let schema = Arc::clone(config.file_source().table_schema().table_schema());
    let exprs = [
        (physical(&session, col("day"), &schema), "d"),
        (physical(&session, col("id") * lit(2), &schema), "double"),
        (physical(&session, col("id"), &schema), "id"),
        (physical(&session, lit(7_i64), &schema), "seven"),
    ];
    let exprs = exprs.map(|(expr, alias)| ProjectionExpr::new(expr, alias));
    let source = config
        .file_source()
        .try_pushdown_projection(&ProjectionExprs::new(exprs))
        .unwrap()
        .unwrap();
    let config = FileScanConfigBuilder::from(config).with_source(source).build();
    let batch = run(config, &session).await.unwrap();
    let names: Vec<&String> = batch.schema_ref().fields().iter().map(|field| field.name()).collect();
    assert_eq!(names, ["d", "double", "id", "seven"]);
    assert_eq!(batch.num_rows(), 6_000);
    let (days, double) = (
        batch.column(0).as_string::<i32>(),
        batch.column(1).as_primitive::<Int64Type>(),
    );
    for (row, id) in batch.column(2).as_primitive::<Int64Type>().values().iter().enumerate() {
        assert_eq!(days.value(row), if *id < 3_000 { "mon" } else { "tue" });
        assert_eq!(double.value(row), 2 * id);
    }
    // No column at all, as for count(*).
    let none = partitioned(&session)
        .await
        .with_projection_indices(Some(Vec::new()))
        .unwrap()
        .build();
    let batches = collect(DataSourceExec::from_data_source(none), session.task_ctx())
        .await
        .unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 6_000);
}

#[tokio::test]
async fn filters_move_into_the_scan_and_exclude_stripes() {
    let session = SessionContext::new();
    for (filter, expected, skipped) in [
        (col("id").gt_eq(lit(5_990_i64)), 10, 5),
        (col("day").eq(lit("tue")).and(col("id").lt(lit(3_005_i64))), 5, 2),
        (col("day").eq(lit("wed")), 0, 0),
        (col("n").is_null().or(col("day").eq(lit("tue"))), 3_300, 0),
        (col("s").eq(lit("text 7")).and(col("id").lt(lit(100_i64))), 2, 5),
    ] {
        // The filter is over the projected columns, in another order than the table's.
        let config = partitioned(&session)
            .await
            .with_projection_indices(Some(vec![3, 0, 2, 1]))
            .unwrap()
            .build();
        let scan = DataSourceExec::from_data_source(config);
        let predicate = physical(&session, filter.clone(), &scan.schema());
        let plan: Arc<dyn ExecutionPlan> = Arc::new(FilterExec::try_new(predicate, scan).unwrap());
        let plan = FilterPushdown::new().optimize(plan, &ConfigOptions::default()).unwrap();
        assert!(
            plan.is::<DataSourceExec>(),
            "{}",
            displayable(plan.as_ref()).indent(true)
        );
        let batches = collect(Arc::clone(&plan), session.task_ctx()).await.unwrap();
        assert_eq!(
            batches.iter().map(RecordBatch::num_rows).sum::<usize>(),
            expected,
            "{filter}"
        );
        assert_eq!(scan_io(&plan).stripes_skipped, skipped, "{filter}");
        assert_eq!(plan.metrics().unwrap().output_rows(), Some(expected), "{filter}");
    }
    let schema = rows(0, 1).schema();
    let predicate = physical(&session, col("id").between(lit(10_i64), lit(19_i64)), &schema);
    let config = partitioned(&session).await.build();
    let table = config.file_source().table_schema().clone();
    let source = Arc::new(OrcSource::new(table).with_predicate(predicate));
    let config = FileScanConfigBuilder::from(config).with_source(source);
    let found = run(config.clone().build(), &session).await.unwrap();
    assert_eq!(ids(&found), (10..20).collect::<Vec<_>>());
    // A limit counts rows that have passed.
    let found = run(config.with_limit(Some(4)).build(), &session).await.unwrap();
    assert_eq!(ids(&found), [10, 11, 12, 13]);
}
