//! Plans that travel: encoded in one session, decoded and executed in another one.
#![cfg(feature = "proto")]

mod support;

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::pretty::pretty_format_batches;
use bytes::Bytes;
use datafusion::common::ScalarValue;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{col, lit};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::SessionContext;
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
};
use grampus::gpu::gpu_aggregate_exec::GpuAggregateExec;
use grampus::session::register_orc;
use grampus::{Device, GpuTarget, GrampusCodec, GrampusConfig, MemoryLimit, OrcSource, scan_io};
use grampus_orc_layout::write::WriterProperties;
use object_store::memory::InMemory;
use object_store::{ObjectStoreExt, path};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const ROWS: usize = 30_000;

/// Writes `ROWS` rows with numbers from `first` on.
fn trips(path: &Path, first: i64) {
    let numbers = first..first + ROWS as i64;
    let columns: [(&str, ArrayRef); 5] = [
        ("n", Arc::new(Int64Array::from_iter_values(numbers.clone()))),
        (
            "riders",
            Arc::new(Int32Array::from_iter(
                numbers.clone().map(|n| (n % 11 != 0).then_some((n % 7) as i32)),
            )),
        ),
        (
            "miles",
            Arc::new(Float64Array::from_iter_values(
                numbers.clone().map(|n| (n * 7919 % 1000) as f64 / 8.0),
            )),
        ),
        (
            "kind",
            Arc::new(StringArray::from_iter(
                numbers
                    .clone()
                    .map(|n| (n % 13 != 0).then(|| format!("kind {}", n % 5))),
            )),
        ),
        (
            "at",
            Arc::new(TimestampNanosecondArray::from_iter_values(
                numbers.map(|n| n * 3_600_000_000_000),
            )),
        ),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap();
    let properties = WriterProperties {
        row_index_stride: 1000,
        stripe_rows: 10_000,
        ..WriterProperties::default()
    };
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    support::write_orc(path, batch.schema(), &[batch], properties);
}

/// Two files in folders of a partition column, and a CSV file.
fn tables(folder: &Path) {
    trips(&folder.join("trips/year=2020/a.orc"), 0);
    trips(&folder.join("trips/year=2021/b.orc"), 20_000);
    std::fs::write(folder.join("kinds.csv"), "kind,price\nkind 1,3\nkind 2,5\nkind 4,8\n").unwrap();
}

fn config(partitions: usize, memory_limit: MemoryLimit) -> GrampusConfig {
    let mut config = GrampusConfig {
        target_partitions: Some(partitions),
        memory_limit,
        ..GrampusConfig::default()
    };
    config.options.min_partition_rows = 1000;
    config
}

async fn session(config: GrampusConfig, folder: &Path) -> SessionContext {
    let context = grampus::session::context(config).unwrap();
    let trips = folder.join("trips").display().to_string();
    register_orc(&context, "trips", &trips).await.unwrap();
    context
}

async fn plan(context: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    context.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

fn encode(plan: &Arc<dyn ExecutionPlan>) -> Result<Bytes> {
    physical_plan_to_bytes_with_extension_codec(Arc::clone(plan), &GrampusCodec)
}

fn decode(bytes: &[u8], context: &SessionContext) -> Result<Arc<dyn ExecutionPlan>> {
    physical_plan_from_bytes_with_extension_codec(bytes, &context.task_ctx(), &GrampusCodec)
}

/// The rows, sorted by their text.
async fn rows(plan: &Arc<dyn ExecutionPlan>, context: &SessionContext) -> Result<Vec<String>> {
    let batches = collect(Arc::clone(plan), context.task_ctx()).await?;
    let mut lines: Vec<String> = pretty_format_batches(&batches)?
        .to_string()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    Ok(lines)
}

const QUERIES: [&str; 17] = [
    "SELECT * FROM trips WHERE miles > 120 AND kind LIKE '%3'",
    "SELECT n, upper(kind) FROM trips WHERE at < '1970-01-05' OR riders IS NULL",
    "SELECT year, count(*), sum(miles) FROM trips WHERE year > 2020 GROUP BY year",
    "SELECT kind, riders, count(*), avg(miles) FROM trips GROUP BY kind, riders",
    "SELECT date_part('day', at), max(kind) FROM trips WHERE riders IN (1, 2) GROUP BY 1",
    "SELECT count(*) FROM (SELECT * FROM trips LIMIT 17)",
    "SELECT count(DISTINCT kind), min(n) FROM trips WHERE miles < 3",
    "SELECT n, miles FROM trips ORDER BY miles DESC, n LIMIT 9",
    "SELECT a.n, b.kind FROM trips a JOIN trips b ON a.n = b.n WHERE a.miles > 124 AND b.riders = 3",
    "SELECT n FROM trips WHERE riders = 1 AND n IN (SELECT n FROM trips WHERE kind = 'kind 2' AND miles > 110)",
    "SELECT kind, price, count(*) FROM trips JOIN '{folder}/kinds.csv' USING (kind) GROUP BY kind, price",
    "SELECT n, sum(miles) OVER (PARTITION BY riders ORDER BY n) FROM trips WHERE n < 900 AND year = 2020",
    "SELECT n FROM trips WHERE miles > 124 UNION ALL SELECT riders FROM trips WHERE n < 20",
    "SELECT count(*) FROM trips WHERE miles > (SELECT avg(miles) + 40 FROM trips)",
    // Statistics exclude all stripes, and partition values all files.
    "SELECT count(*), sum(miles) FROM trips WHERE n < -5",
    "SELECT count(*), max(kind) FROM trips WHERE year = 1999 AND miles > 3",
    "SELECT count(*), min(year) FROM (SELECT DISTINCT year, riders FROM trips WHERE n > 1000000)",
];

#[tokio::test]
async fn decoded_plans_have_the_answers_of_the_plans() {
    let folder = tempfile::tempdir().unwrap();
    tables(folder.path());
    let limits = [MemoryLimit::Unlimited, MemoryLimit::Bytes(64 << 20)];
    for (partitions, limit) in [(1, limits[0]), (3, limits[0]), (3, limits[1])] {
        let sender = session(config(partitions, limit), folder.path()).await;
        // The plan brings its tables along. This session divides scans by other rules.
        let receiver = grampus::session::context(GrampusConfig::default()).unwrap();
        for sql in QUERIES {
            let sql = sql.replace("{folder}", &folder.path().display().to_string());
            let sent = plan(&sender, &sql).await;
            let arrived = decode(&encode(&sent).unwrap(), &receiver).unwrap();
            assert_eq!(arrived.schema(), sent.schema(), "{sql}");
            let expected = rows(&sent, &sender).await.unwrap();
            let about = || format!("{sql}\n{}", displayable(arrived.as_ref()).indent(false));
            assert!(expected.len() > 4, "{sql}: {expected:?}");
            assert_eq!(rows(&arrived, &receiver).await.unwrap(), expected, "{}", about());
            // Decoded plans travel on, and plans travel after they have run.
            for ran in [sent, Arc::clone(&arrived)] {
                let onwards = encode(&reset_plan_states(ran).unwrap()).unwrap();
                let onwards = decode(&onwards, &sender).unwrap();
                assert_eq!(rows(&onwards, &sender).await.unwrap(), expected, "{}", about());
            }
        }
    }
}

#[tokio::test]
async fn decoded_scans_read_only_what_the_filter_needs() {
    let folder = tempfile::tempdir().unwrap();
    tables(folder.path());
    let sender = session(config(2, MemoryLimit::Unlimited), folder.path()).await;
    let sent = plan(&sender, "SELECT n, kind FROM trips WHERE n = 31000").await;
    let receiver = grampus::session::context(config(2, MemoryLimit::Unlimited)).unwrap();
    let arrived = decode(&encode(&sent).unwrap(), &receiver).unwrap();
    rows(&sent, &sender).await.unwrap();
    rows(&arrived, &receiver).await.unwrap();
    let (before, after) = (scan_io(&sent), scan_io(&arrived));
    assert!(before.moved_bytes > 0, "{before:?}");
    assert_eq!(
        (after.moved_bytes, after.needed_bytes),
        (before.moved_bytes, before.needed_bytes)
    );
}

#[tokio::test]
async fn changed_and_missing_files_are_errors_that_name_them() {
    let folder = tempfile::tempdir().unwrap();
    tables(folder.path());
    let context = session(config(2, MemoryLimit::Unlimited), folder.path()).await;
    let bytes = encode(&plan(&context, "SELECT sum(n) FROM trips WHERE miles > 1").await).unwrap();
    let file = folder.path().join("trips/year=2021/b.orc");
    trips(&file, 5);
    let error = async || {
        let arrived = decode(&bytes, &context).unwrap();
        grampus::error::message(&rows(&arrived, &context).await.unwrap_err())
    };
    let changed = error().await;
    assert!(changed.contains("b.orc") && changed.contains("changed"), "{changed}");
    std::fs::remove_file(&file).unwrap();
    let missing = error().await;
    assert!(
        missing.contains("b.orc") && missing.contains("No such file"),
        "{missing}"
    );
}

#[tokio::test]
async fn objects_are_read_from_the_receivers_store() {
    let folder = tempfile::tempdir().unwrap();
    trips(&folder.path().join("a.orc"), 0);
    let store = Arc::new(InMemory::new());
    let object = path::Path::from("trips/a.orc");
    let file = std::fs::read(folder.path().join("a.orc")).unwrap();
    store.put(&object, file.into()).await.unwrap();
    let url = url::Url::parse("memory://trips").unwrap();
    let sessions = [1, 2, 3].map(|_| grampus::session::context(GrampusConfig::default()).unwrap());
    let [sender, receiver, stranger] = &sessions;
    sender.register_object_store(&url, Arc::clone(&store) as _);
    receiver.register_object_store(&url, Arc::clone(&store) as _);
    register_orc(sender, "trips", "memory://trips/trips/").await.unwrap();
    let sent = plan(sender, "SELECT kind, sum(n) FROM trips WHERE miles > 100 GROUP BY kind").await;
    let bytes = encode(&sent).unwrap();
    let expected = rows(&sent, sender).await.unwrap();
    let arrived = decode(&bytes, receiver).unwrap();
    assert_eq!(rows(&arrived, receiver).await.unwrap(), expected);
    let lost = decode(&bytes, stranger).unwrap();
    let error = rows(&lost, stranger).await.unwrap_err().to_string();
    assert!(error.contains("memory://trips"), "{error}");
}

/// No bytes make the decoder or the decoded plan panic.
#[tokio::test]
async fn damaged_plans_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    tables(folder.path());
    let context = session(config(2, MemoryLimit::Unlimited), folder.path()).await;
    let sent = plan(&context, "SELECT kind, n FROM trips WHERE miles > 120 AND year = 2021").await;
    let bytes = encode(&sent).unwrap();
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let at = bytes
        .windows(version.len())
        .position(|window| window == version)
        .unwrap();
    let mut other = bytes.to_vec();
    other[at] = b'9';
    let error = decode(&other, &context).unwrap_err().to_string();
    assert!(error.contains("both ends need the same version"), "{error}");

    let mut random = ChaCha8Rng::seed_from_u64(4);
    let mut refused = 0;
    for _ in 0..400 {
        let mut damaged = bytes.to_vec();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..damaged.len());
            damaged[at] = random.random();
        }
        let ran = match decode(&damaged, &context) {
            Ok(plan) => rows(&plan, &context).await.map(drop),
            Err(error) => Err(error),
        };
        refused += usize::from(ran.is_err());
    }
    assert!(refused > 100, "{refused} of 400");
}

#[tokio::test]
async fn aggregations_on_the_gpu_travel_as_those_of_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    tables(folder.path());
    let mut with_gpu = config(1, MemoryLimit::Unlimited);
    with_gpu.options.device = Device::Gpu;
    with_gpu.options.gpu_target = GpuTarget::Host;
    let sender = session(with_gpu, folder.path()).await;
    let receiver = grampus::session::context(GrampusConfig::default()).unwrap();
    let sql = "SELECT kind, count(*), max(miles) FROM trips WHERE riders > 2 GROUP BY kind";
    let sent = plan(&sender, sql).await;
    let mut is_on_gpu = false;
    let mut plans = vec![Arc::clone(&sent)];
    while let Some(plan) = plans.pop() {
        is_on_gpu |= plan.is::<GpuAggregateExec>();
        plans.extend(plan.children().into_iter().cloned());
    }
    if !is_on_gpu {
        let about = "an aggregation on the GPU did not travel";
        return grampus_test_support::missing(grampus_test_support::Resource::Compiler, about);
    }
    let arrived = decode(&encode(&sent).unwrap(), &receiver).unwrap();
    assert_eq!(
        rows(&arrived, &receiver).await.unwrap(),
        rows(&sent, &sender).await.unwrap()
    );
}

#[tokio::test]
async fn exact_sums_travel_as_such() {
    let context = grampus::session::context(GrampusConfig::default()).unwrap();
    let days = "SELECT avg(arrow_cast(v, 'Duration(Second)')) AS days, count(*) AS n
        FROM generate_series(9223372036854775800, 9223372036854775806) t(v)";
    let sent = plan(&context, days).await;
    let arrived = decode(&encode(&sent).unwrap(), &context).unwrap();
    assert_eq!(
        rows(&arrived, &context).await.unwrap(),
        rows(&sent, &context).await.unwrap()
    );
    let sum = plan(&context, &days.replace("avg", "sum")).await;
    let arrived = decode(&encode(&sum).unwrap(), &context).unwrap();
    let error = rows(&arrived, &context).await.unwrap_err().to_string();
    assert!(error.contains("does not fit Duration"), "{error}");
}

#[tokio::test]
async fn scans_of_listed_files_travel_with_parts_and_filters() {
    let folder = tempfile::tempdir().unwrap();
    tables(folder.path());
    let sender = SessionContext::new();
    let path = folder.path().join("trips/year=2020/a.orc");
    let size = std::fs::metadata(&path).unwrap().len();
    let listed = PartitionedFile::new(path.display().to_string(), size);
    let listed = listed.with_partition_values(vec![ScalarValue::Int64(Some(2020))]);
    let columns = ["n", "miles"].map(|name| match name {
        "n" => Field::new(name, DataType::Int64, true),
        _ => Field::new(name, DataType::Float64, true),
    });
    let year = Arc::new(Field::new("year", DataType::Int64, true));
    let table = TableSchema::builder(Arc::new(Schema::new(columns.to_vec())));
    let table = table.with_table_partition_cols(vec![year]).build();
    let schema = datafusion::common::DFSchema::try_from(Arc::clone(table.table_schema())).unwrap();
    let filter = col("miles").gt(lit(120.0)).and(col("year").eq(lit(2020_i64)));
    let filter = sender.create_physical_expr(filter, &schema).unwrap();
    let source = OrcSource::new(table).with_predicate(filter);
    let half = (size / 2) as i64;
    let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source));
    let config = config
        .with_file(listed.clone().with_range(0, half))
        .with_file(listed.with_range(half, size as i64));
    let config = config.with_projection_indices(Some(vec![2, 0])).unwrap();
    let sent: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(config.build());
    let arrived = decode(&encode(&sent).unwrap(), &sender).unwrap();
    let expected = rows(&sent, &sender).await.unwrap();
    // Of 1,000 values of miles, those above 120 are 39.
    assert_eq!(
        expected.iter().filter(|line| line.contains("2020")).count(),
        ROWS / 1000 * 39
    );
    assert_eq!(arrived.properties().partitioning.partition_count(), 2);
    assert_eq!(rows(&arrived, &sender).await.unwrap(), expected);
    let receiver = grampus::session::context(GrampusConfig::default()).unwrap();
    let onwards = decode(&encode(&arrived).unwrap(), &receiver).unwrap();
    assert_eq!(rows(&onwards, &receiver).await.unwrap(), expected);
}
