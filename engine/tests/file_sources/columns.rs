//! Columns of a table over files that have others; statistics; files that are not as the plan says.

use std::path::Path;
use std::sync::Arc;

use arrow::array::TimestampMicrosecondArray;
use arrow::array::{ArrayRef, AsArray, Float32Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit};
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{col, lit};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapter, PhysicalExprAdapterFactory, replace_columns_with_literals,
};
use datafusion::prelude::SessionContext;
use grampus::{OrcFormat, OrcSource};
use object_store::ObjectStoreExt;

use super::{ROWS, builder, local, physical, rows, run, source_of, write};

fn file() -> RecordBatch {
    let columns: [(&str, ArrayRef); 5] = [
        ("i", Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]))),
        ("f", Arc::new(Float32Array::from(vec![0.5, -1.25, 2.0]))),
        ("s", Arc::new(StringArray::from(vec![Some("a"), Some("b"), None]))),
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from(vec![
                1_000_000,
                -5_000_000,
                1_700_000_000_123_000,
            ])),
        ),
        ("gone", Arc::new(Int64Array::from(vec![7, 8, 9]))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

fn table() -> SchemaRef {
    let columns = [
        ("new", DataType::Utf8),
        ("s", DataType::Utf8View),
        ("i", DataType::Int64),
        ("f", DataType::Float64),
        ("at", DataType::Timestamp(TimeUnit::Millisecond, None)),
    ];
    Arc::new(Schema::new(
        columns
            .map(|(name, data_type)| Field::new(name, data_type, true))
            .to_vec(),
    ))
}

/// The columns of the table, a computed one, and a filter.
async fn read(source: impl FileSource, path: &Path, session: &SessionContext) -> Result<String> {
    let schema = Arc::clone(source.table_schema().table_schema());
    let mut exprs: Vec<ProjectionExpr> = ["at", "i", "new", "s", "f"]
        .map(|name| ProjectionExpr::new(physical(session, col(name), &schema), name))
        .to_vec();
    exprs.push(ProjectionExpr::new(
        physical(session, col("i") + lit(1_i64), &schema),
        "next",
    ));
    let source = source.try_pushdown_projection(&ProjectionExprs::new(exprs))?.unwrap();
    let url = ObjectStoreUrl::local_filesystem();
    let config = FileScanConfigBuilder::new(url, source).with_file(local(path)).build();
    Ok(pretty_format_batches(&[run(config, session).await?])?.to_string())
}

#[tokio::test]
async fn evolved_columns_are_those_of_parquet_files() {
    let folder = tempfile::tempdir().unwrap();
    let (orc, parquet) = (folder.path().join("a.orc"), folder.path().join("a.parquet"));
    write(&orc, &file());
    let session = SessionContext::new();
    super::support::register_rows(&session, "t", &file());
    let copy = format!("COPY t TO '{}' STORED AS PARQUET", parquet.display());
    session.sql(&copy).await.unwrap().collect().await.unwrap();
    let schema = TableSchema::from(table());
    for filter in [
        None,
        Some(col("i").gt(lit(1_i64))),
        Some(
            col("new")
                .is_null()
                .and(col("s").eq(lit(ScalarValue::Utf8View(Some("b".to_owned()))))),
        ),
        Some(col("new").eq(lit("x"))),
        Some(col("at").lt(lit(ScalarValue::TimestampMillisecond(Some(0), None)))),
    ] {
        let (mut ours, mut theirs) = (OrcSource::new(schema.clone()), ParquetSource::new(schema.clone()));
        if let Some(filter) = &filter {
            let predicate = physical(&session, filter.clone(), &table());
            ours = ours.with_predicate(Arc::clone(&predicate));
            theirs = theirs.with_predicate(predicate).with_pushdown_filters(true);
        }
        let (ours, theirs) = (read(ours, &orc, &session).await, read(theirs, &parquet, &session).await);
        assert_eq!(ours.unwrap(), theirs.unwrap(), "{filter:?}");
    }
}

#[tokio::test]
async fn columns_that_must_not_be_null_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.orc");
    write(&path, &file());
    let session = SessionContext::new();
    for (name, data_type, expected) in [
        ("absent", DataType::Int32, "lacks column absent"),
        ("i", DataType::Int32, "non-nullable"),
        ("s", DataType::Int32, "Cannot cast string 'a'"),
    ] {
        let fields = vec![
            Field::new("f", DataType::Float32, true),
            Field::new(name, data_type, false),
        ];
        let source = OrcSource::new(TableSchema::from(Arc::new(Schema::new(fields))));
        let error = run(builder(source).with_file(local(&path)).build(), &session)
            .await
            .unwrap_err();
        let error = grampus::error::message(&error);
        assert!(error.contains("a.orc") && error.contains(expected), "{error}");
    }
    let other = Schema::new(vec![Field::new("other", DataType::Int32, true)]);
    let source = OrcSource::new(TableSchema::from(Arc::new(other)));
    let error = run(builder(source).with_file(local(&path)).build(), &session)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no column in common"), "{error}");
}

/// Columns that a file lacks have 0, as a table format may define.
#[derive(Debug)]
struct Defaults;

#[derive(Debug)]
struct WithDefaults {
    missing: Vec<String>,
    inner: Arc<dyn PhysicalExprAdapter>,
}

impl PhysicalExprAdapterFactory for Defaults {
    fn create(&self, logical: SchemaRef, file: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let names = logical.fields().iter().map(|field| field.name().clone());
        Ok(Arc::new(WithDefaults {
            missing: names.filter(|name| file.index_of(name).is_err()).collect(),
            inner: DefaultPhysicalExprAdapterFactory.create(logical, file)?,
        }))
    }
}

impl PhysicalExprAdapter for WithDefaults {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let values = self
            .missing
            .iter()
            .map(|name| (name.as_str(), ScalarValue::Int64(Some(0))));
        self.inner
            .rewrite(replace_columns_with_literals(expr, &values.collect())?)
    }
}

#[tokio::test]
async fn adapters_of_table_formats_decide() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.orc");
    write(&path, &file());
    let session = SessionContext::new();
    let fields = ["added", "gone", "i"].map(|name| Field::new(name, DataType::Int64, true));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let predicate = physical(
        &session,
        col("added").eq(lit(0_i64)).and(col("gone").gt(lit(7_i64))),
        &schema,
    );
    let source = OrcSource::new(TableSchema::from(schema)).with_predicate(predicate);
    let config = builder(source)
        .with_file(local(&path))
        .with_expr_adapter(Some(Arc::new(Defaults)));
    let batch = run(config.build(), &session).await.unwrap();
    let values = |column: usize| {
        batch
            .column(column)
            .as_primitive::<Int64Type>()
            .iter()
            .collect::<Vec<_>>()
    };
    assert_eq!(
        [values(0), values(1), values(2)],
        [vec![Some(0), Some(0)], vec![Some(8), Some(9)], vec![None, Some(3)]]
    );
}

#[tokio::test]
async fn files_that_are_not_as_planned_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.orc");
    write(&path, &rows(0, ROWS));
    let session = SessionContext::new();
    let good = std::fs::read(&path).unwrap();
    let listed = local(&path);
    let config = || builder(source_of(&rows(0, 1))).with_file(listed.clone()).build();
    let fails = async |config, expected: &str| {
        let Err(error) = run(config, &session).await else {
            panic!("no error of: {expected}")
        };
        let error = grampus::error::message(&error);
        assert!(error.contains("a.orc") && error.contains(expected), "{error}");
    };
    // Another length; no ORC file; bytes in the middle; no file.
    std::fs::write(&path, &good[..good.len() - 1]).unwrap();
    fails(config(), "by the plan").await;
    std::fs::write(&path, vec![b'x'; good.len()]).unwrap();
    fails(config(), "ORC").await;
    let mut damaged = good.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 4_000].fill(0xff);
    std::fs::write(&path, damaged).unwrap();
    fails(config(), "").await;
    std::fs::remove_file(&path).unwrap();
    fails(config(), "No such file").await;
    // A plan reads one version of a file, also by its second execution.
    std::fs::write(&path, &good).unwrap();
    let planned = config();
    assert_eq!(run(planned.clone(), &session).await.unwrap().num_rows(), ROWS as usize);
    std::fs::write(&path, &good).unwrap();
    fails(planned, "changed").await;
    let values = builder(source_of(&rows(0, 1))).with_file(listed.clone().with_partition_values(vec![1.into()]));
    fails(values.build(), "1 partition values").await;
}

#[tokio::test]
async fn statistics_are_those_of_the_footer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.orc");
    write(&path, &file());
    let session = SessionContext::new();
    let store = session
        .runtime_env()
        .object_store(ObjectStoreUrl::local_filesystem())
        .unwrap();
    let location = object_store::path::Path::from_filesystem_path(&path).unwrap();
    let object = store.head(&location).await.unwrap();
    let format = OrcFormat::default();
    let known = format
        .infer_stats(&session.state(), &store, table(), &object)
        .await
        .unwrap();
    assert_eq!(known.num_rows, Precision::Exact(3));
    let [new, s, i, f, at] = &known.column_statistics[..] else {
        panic!("{known:?}")
    };
    assert_eq!(new.null_count, Precision::Exact(3));
    // The scan casts these two, so nothing is known of their values.
    assert_eq!([s, at], [&ColumnStatistics::new_unknown(); 2]);
    assert_eq!(
        (&i.null_count, &f.null_count),
        (&Precision::Exact(1), &Precision::Exact(0))
    );
    assert_eq!(i.min_value, Precision::Exact(ScalarValue::Int64(Some(1))));
    assert_eq!(i.max_value, Precision::Exact(ScalarValue::Int64(Some(3))));
    assert_eq!(f.max_value.get_value(), Some(&ScalarValue::Float64(Some(2.0))));
    let own = format
        .infer_schema(&session.state(), &store, std::slice::from_ref(&object))
        .await
        .unwrap();
    let known = format
        .infer_stats(&session.state(), &store, own, &object)
        .await
        .unwrap();
    let s = &known.column_statistics[2];
    assert_eq!(
        (s.min_value.get_value(), &s.null_count),
        (Some(&"a".into()), &Precision::Exact(1))
    );
    assert!(known.column_statistics[3].min_value.get_value().is_some());
}
