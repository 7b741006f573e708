//! The cases, over any kind of controller.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type};
use arrow::util::display::array_value_to_string;
use datafusion::prelude::SessionContext;
use grampus::{GrampusConfig, NvmeStore, scan_io};
use grampus_driver::files::{CommandCounts, Drive, NamespaceFiles};
use grampus_orc_layout::codec::Codec;
use grampus_tools::taxi::{GenerateOptions, generate};

use crate::Start;
use crate::machine::{ADDRESS, Setup};

const IMAGE_BYTES: u64 = 64 << 20;
/// Maximum relative difference of sums, because the order of additions differs.
const TOLERANCE: f64 = 1e-9;

macro_rules! query {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../queries/", $name, ".sql")))
    };
}

/// The queries of the paper: q0 sums the distance, and q1 to q5 add one dependent column each.
pub(crate) const QUERIES: [(&str, &str); 12] = [
    query!("q0_20"),
    query!("q0_30"),
    query!("q1_20"),
    query!("q1_30"),
    query!("q2_20"),
    query!("q2_30"),
    query!("q3_20"),
    query!("q3_30"),
    query!("q4_20"),
    query!("q4_30"),
    query!("q5_20"),
    query!("q5_30"),
];

pub(crate) fn image(folder: &Path) -> PathBuf {
    let path = folder.join("image");
    File::create(&path).unwrap().set_len(IMAGE_BYTES).unwrap();
    path
}

/// Loads files under their names in a folder of the namespace.
fn load(files: &mut NamespaceFiles, folder: &str, paths: &[PathBuf]) {
    for path in paths {
        let name = format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap());
        let length = fs::metadata(path).unwrap().len();
        let mut source = File::open(path).unwrap();
        files
            .load(&name, length, &mut source, &mut |_| ControlFlow::Continue(()))
            .unwrap();
    }
}

/// A session with the store of the namespace.
fn session(files: NamespaceFiles, partitions: usize) -> (SessionContext, Arc<CommandCounts>) {
    let config = GrampusConfig {
        target_partitions: Some(partitions),
        ..GrampusConfig::default()
    };
    session_with(files, config)
}

/// The same with another configuration.
pub(crate) fn session_with(files: NamespaceFiles, config: GrampusConfig) -> (SessionContext, Arc<CommandCounts>) {
    let context = grampus::session::context(config).unwrap();
    let store = NvmeStore::new(files, ADDRESS.parse().unwrap());
    let counts = Arc::clone(store.counts());
    let url = store.store_url().unwrap();
    context.register_object_store(&url, Arc::new(store));
    (context, counts)
}

pub(crate) async fn answer(context: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    context.sql(sql).await.unwrap().collect().await.unwrap()
}

pub(crate) async fn text(context: &SessionContext, sql: &str) -> String {
    let batches = answer(context, sql).await;
    let rows = batches.iter().flat_map(|batch| {
        (0..batch.num_rows()).map(|row| {
            let columns = batch.columns().iter();
            let values: Vec<_> = columns
                .map(|column| array_value_to_string(column, row).unwrap())
                .collect();
            values.join(" ")
        })
    });
    rows.collect::<Vec<_>>().join("\n")
}

pub(crate) async fn error(context: &SessionContext, sql: &str) -> String {
    let error = match context.sql(sql).await {
        Ok(frame) => frame.collect().await.unwrap_err(),
        Err(error) => error,
    };
    grampus::error::message(&error)
}

fn equal(a: &ArrayRef, b: &ArrayRef, row: usize) -> bool {
    if a.is_null(row) || b.is_null(row) || a.data_type() != &DataType::Float64 {
        return array_value_to_string(a, row).unwrap() == array_value_to_string(b, row).unwrap();
    }
    let [a, b] = [a, b].map(|array| array.as_primitive::<Float64Type>().value(row));
    (a - b).abs() <= TOLERANCE * b.abs()
}

/// Compares two answers of one row each.
pub(crate) fn compare(found: &[RecordBatch], wanted: &[RecordBatch], what: &str) {
    let rows = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!((rows(found), rows(wanted)), (1, 1), "{what}");
    let row = |batches: &[RecordBatch]| batches.iter().find(|batch| batch.num_rows() == 1).unwrap().clone();
    let (found, wanted) = (row(found), row(wanted));
    assert_eq!(found.schema(), wanted.schema(), "{what}");
    for (found, wanted) in found.columns().iter().zip(wanted.columns()) {
        assert!(equal(found, wanted, 0), "{what}: {found:?} instead of {wanted:?}");
    }
}

pub(crate) fn read_commands(drive: &Drive) -> u128 {
    drive.device().lock().unwrap().smart_log().unwrap().read_commands
}

/// Two tables of the same trips: uncompressed, where single values are fetched, and compressed in small chunks.
fn taxi_options(folder: &Path) -> [(&'static str, GenerateOptions); 2] {
    let options = |name: &str| GenerateOptions {
        files: Some(2),
        row_index_stride: Some(2_000),
        threads: Some(2),
        ..GenerateOptions::new(100_000, folder.join(name))
    };
    let packed = GenerateOptions {
        codec: Some(Codec::Zstd),
        direct_columns: vec!["total_amount".to_owned()],
        ..options("packed")
    };
    [("plain", options("plain")), ("packed", packed)]
}

/// A table's name, a query's name and text, and the answer.
pub(crate) type Wanted = (&'static str, &'static str, &'static str, Vec<RecordBatch>);

/// Loads both tables of trips, removes the local files, and returns the answers over these.
pub(crate) async fn taxi_tables(folder: &Path, mut files: NamespaceFiles) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for (table, options) in taxi_options(folder) {
        let made = generate(&options, &|_| ControlFlow::Continue(())).unwrap();
        load(&mut files, table, &made.files);
        let local = grampus::session::context(GrampusConfig::default()).unwrap();
        let location = options.out_dir.to_str().unwrap();
        grampus::session::register_orc(&local, "trips", location).await.unwrap();
        for (name, sql) in QUERIES {
            let batches = answer(&local, sql).await;
            // An answer over no trips would prove nothing.
            let trips = text(&local, "SELECT count(*) FROM trips WHERE trip_distance >= 30").await;
            assert!(trips.parse::<u64>().unwrap() > 5, "{trips} trips");
            wanted.push((table, name, sql, batches));
        }
        fs::remove_dir_all(&options.out_dir).unwrap();
    }
    wanted
}

pub(crate) async fn taxi_queries_answer_as_over_the_local_files(start: Start<'_>) {
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path());
    let setup = Setup {
        image: &image,
        bad_lba: None,
        queues: 4,
    };
    let Some(drive) = start(&setup) else { return };
    let files = NamespaceFiles::initialize(drive.clone(), false).unwrap();
    let wanted = taxi_tables(folder.path(), files).await;
    for partitions in [1, 4] {
        let files = NamespaceFiles::open(drive.clone()).unwrap();
        let (context, counts) = session(files, partitions);
        for (table, name, sql, wanted) in &wanted {
            let what = format!("{name} over {table}, {partitions} partitions");
            let _ = context.deregister_table("trips");
            let location = format!("nvme://{ADDRESS}/{table}/");
            grampus::session::register_orc(&context, "trips", &location)
                .await
                .unwrap();
            let (read, submitted) = (read_commands(&drive), counts.reads());
            let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
            let found = datafusion::physical_plan::collect(Arc::clone(&plan), context.task_ctx());
            compare(&found.await.unwrap(), wanted, &what);
            let io = scan_io(&plan);
            let (read, submitted) = (read_commands(&drive) - read, counts.reads() - submitted);
            assert_eq!(read, u128::from(submitted), "{what}: the controller's count of reads");
            // Metadata is cached after the first query of a table; data is not.
            assert!(
                submitted >= io.read_requests && io.read_requests > 0,
                "{what}: {submitted} reads, {io:?}"
            );
            // Where single values can be fetched, sparse rows cost their blocks, and not what lies between them.
            if *table == "plain" && name.ends_with("_30") {
                assert!(io.amplification() < 1.4, "{what}: {io:?}");
            }
        }
    }
}

/// A small ORC file of the generator, and a text file.
fn small_files(folder: &Path, start: Start<'_>, bad_lba: Option<u64>) -> Option<NamespaceFiles> {
    let image = image(folder);
    let good = Setup {
        image: &image,
        bad_lba: None,
        queues: 4,
    };
    let mut files = NamespaceFiles::initialize(start(&good)?, false).unwrap();
    let options = GenerateOptions {
        files: Some(1),
        threads: Some(1),
        ..GenerateOptions::new(20_000, folder.join("trips"))
    };
    let made = generate(&options, &|_| ControlFlow::Continue(())).unwrap();
    load(&mut files, "year=2019", &made.files);
    load(&mut files, "year=2020", &made.files);
    let zones = folder.join("zones.csv");
    fs::write(&zones, "id,zone\n1,Newark\n2,Jamaica Bay\n").unwrap();
    load(&mut files, "lists", &[zones]);
    drop(files);
    let setup = Setup {
        image: &image,
        bad_lba,
        queues: 4,
    };
    Some(NamespaceFiles::open(start(&setup)?).unwrap())
}

pub(crate) async fn locations_name_files_folders_patterns_and_other_formats(start: Start<'_>) {
    let folder = tempfile::tempdir().unwrap();
    let Some(files) = small_files(folder.path(), start, None) else {
        return;
    };
    let (context, _) = session(files, 2);
    let count = |location: &str| format!("SELECT count(*) FROM 'nvme://{location}'");
    for (location, rows) in [
        ("0000:01:00.0/year=2019/trips_0000.orc", "20000"),
        ("0000-01-00.0/year=2019/trips_0000.orc", "20000"),
        ("0000:01:00.0/year=2019/", "20000"),
        ("0000:01:00.0/year=2019", "20000"),
        ("0000:01:00.0/*/*.orc", "40000"),
        ("0000:01:00.0/year=20*", "40000"),
        ("0000:01:00.0/lists/zones.csv", "2"),
    ] {
        assert_eq!(text(&context, &count(location)).await, rows, "{location}");
    }
    for statement in [
        "CREATE EXTERNAL TABLE a STORED AS ORC LOCATION 'nvme://0000:01:00.0/year=2020/'",
        "CREATE EXTERNAL TABLE z STORED AS CSV LOCATION 'nvme://0000:01:00.0/lists/zones.csv'",
    ] {
        answer(&context, statement).await;
    }
    assert_eq!(text(&context, "SELECT count(*) FROM a").await, "20000");
    assert_eq!(text(&context, "SELECT zone FROM z WHERE id = 2").await, "Jamaica Bay");
    for pattern in ["year=*/*.orc", "year=*/", "year=*"] {
        let years = format!("SELECT year, count(*) FROM 'nvme://0000:01:00.0/{pattern}' GROUP BY year ORDER BY year");
        assert_eq!(text(&context, &years).await, "2019 20000\n2020 20000", "{pattern}");
    }
}

pub(crate) async fn failed_commands_name_the_file_the_drive_and_the_lba(start: Start<'_>) {
    let folder = tempfile::tempdir().unwrap();
    // In the first file's content, far from its footer.
    let bad = 40 + 1000;
    let Some(files) = small_files(folder.path(), start, Some(bad)) else {
        return;
    };
    let (context, _) = session(files, 2);
    let every_column = |year: u32| format!("SELECT * FROM 'nvme://0000:01:00.0/year={year}/trips_0000.orc'");
    let said = error(&context, &every_column(2019)).await;
    assert!(
        said.starts_with("nvme://0000:01:00.0/year=2019/trips_0000.orc: "),
        "{said}"
    );
    assert!(
        said.contains("0000:01:00.0, namespace 1: reading year=2019/trips_0000.orc: read of "),
        "{said}"
    );
    let lba = said
        .split(" at LBA ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .unwrap();
    let lba: u64 = lba.parse().unwrap();
    assert!((bad - 255..=bad).contains(&lba), "{said}");
    assert!(said.contains("grampus nvme verify"), "{said}");
    // The other file, and the drive, are as before.
    let count = |location: &str| format!("SELECT count(*) FROM '{location}/trips_0000.orc' WHERE trip_distance >= 1");
    let local = folder.path().join("trips");
    let wanted = text(&context, &count(local.to_str().unwrap())).await;
    assert_eq!(text(&context, &count("nvme://0000:01:00.0/year=2020")).await, wanted);
}

pub(crate) async fn writes_and_wrong_names_are_refused(start: Start<'_>) {
    let folder = tempfile::tempdir().unwrap();
    let Some(files) = small_files(folder.path(), start, None) else {
        return;
    };
    let writes = Arc::clone(files.drive().counts());
    let (context, _) = session(files, 1);
    answer(
        &context,
        "CREATE EXTERNAL TABLE a STORED AS ORC LOCATION 'nvme://0000:01:00.0/year=2020/'",
    )
    .await;
    for statement in [
        "COPY (SELECT 1 AS a) TO 'nvme://0000:01:00.0/new.orc'",
        "COPY (SELECT 1 AS a) TO 'nvme://0000:01:00.0/new.csv'",
        "COPY (SELECT 1 AS a) TO 'nvme://0000:01:00.0/new.parquet'",
        "INSERT INTO a SELECT * FROM a LIMIT 1",
    ] {
        let said = error(&context, statement).await;
        assert!(said.contains("nvme://0000:01:00.0/"), "{statement}: {said}");
        assert!(
            said.contains("read-only") && said.contains("grampus nvme load"),
            "{statement}: {said}"
        );
    }
    assert_eq!(writes.writes(), 0);
    for (location, expected) in [
        (
            "0000:01:00.0/none.orc",
            "nvme://0000:01:00.0/none.orc: no ORC file there",
        ),
        (
            "0000:01:00.0/none/*.orc",
            "nvme://0000:01:00.0/none/*.orc: no ORC file there",
        ),
        ("disk/a.orc", "nvme://disk: 'disk' is no PCI address"),
        ("0000:01:00.0nx/a.orc", "'x' is no number of a namespace"),
    ] {
        let said = error(&context, &format!("SELECT * FROM 'nvme://{location}'")).await;
        assert!(said.contains(expected), "{location}: {said}");
    }
    // A controller of this machine that is none.
    let said = error(&context, "SELECT * FROM 'nvme://ffff:ff:1f.7/a.orc'").await;
    assert!(said.contains("there is no NVMe controller ffff:ff:1f.7"), "{said}");
}
