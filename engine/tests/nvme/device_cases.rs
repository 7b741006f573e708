//! Queries on the device over files of a namespace: kernels drive queues of the controller, or the driver brings the
//! bytes.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::SessionContext;
use grampus::config::{Device, GpuBacking, GpuTarget, GrampusOptions};
use grampus::{GrampusConfig, scan_io};
use grampus_driver::files::{Drive, NamespaceFiles};

use crate::Start;
use crate::cases::{QUERIES, Wanted, answer, compare, error, image, read_commands, session_with, taxi_tables, text};
use crate::machine::{ADDRESS, Setup};

/// Tests run on the first GPU, and not on host threads, if this variable is set.
const CUDA: &str = "GRAMPUS_TEST_CUDA";

/// A device of host threads, or a GPU. `None`, with a message: there is no compiler for its kernels.
fn target() -> Option<GpuTarget> {
    if std::env::var_os(CUDA).is_some() {
        return Some(GpuTarget::Cuda);
    }
    match grampus_cuda::host_compiler() {
        Ok(_) => Some(GpuTarget::Host),
        Err(e) => {
            grampus_test_support::missing(grampus_test_support::Resource::Compiler, e);
            None
        }
    }
}

fn config(target: GpuTarget, backing: GpuBacking) -> GrampusConfig {
    let mut options = GrampusOptions::default();
    options.device = Device::Gpu;
    options.gpu_target = target;
    options.gpu_backing = backing;
    options.gpu_cache_bytes = 64 << 20;
    options.cache_folder = concat!(env!("CARGO_TARGET_TMPDIR"), "/kernels").into();
    GrampusConfig {
        target_partitions: Some(2),
        options,
        ..GrampusConfig::default()
    }
}

async fn ran(context: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    context.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

async fn register(context: &SessionContext, table: &str) {
    let location = format!("nvme://{ADDRESS}/{table}/");
    grampus::session::register_orc(context, "trips", &location)
        .await
        .unwrap();
}

/// A drive with both tables of trips, and the answers over the local files.
async fn loaded(start: Start<'_>, queues: u16, folder: &Path) -> Option<(Drive, Vec<Wanted>)> {
    let setup = Setup {
        image: &image(folder),
        bad_lba: None,
        queues,
    };
    let drive = start(&setup)?;
    let files = NamespaceFiles::initialize(drive.clone(), false).unwrap();
    Some((drive, taxi_tables(folder, files).await))
}

/// All queries, over the uncompressed and the compressed table, by each way to the device.
pub(crate) async fn device_answers_as_the_cpu_over_the_local_files(start: Start<'_>) {
    let Some(target) = target() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some((drive, wanted)) = loaded(start, 16, folder.path()).await else {
        return;
    };
    for backing in [GpuBacking::Queued, GpuBacking::Resident, GpuBacking::Auto] {
        for table in ["plain", "packed"] {
            let files = NamespaceFiles::open(drive.clone()).unwrap();
            let (context, counts) = session_with(files, config(target, backing));
            register(&context, table).await;
            let all_queued = (table, backing) == ("plain", GpuBacking::Queued);
            let mut all_by_kernels = 0;
            for (_, name, sql, wanted) in wanted.iter().filter(|(of, ..)| *of == table) {
                let what = format!("{name} over {table}, {backing:?}");
                let plan = ran(&context, sql).await;
                // Planning reads metadata, and samples.
                let (read, submitted) = (read_commands(&drive), counts.reads());
                let found = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
                compare(&found, wanted, &what);
                let shown = displayable(plan.as_ref()).indent(false).to_string();
                assert!(shown.contains("GpuAggregateExec"), "{what}: {shown}");
                // Single values lie raw in the compressed table, too.
                let is_queued = shown.contains("(queued");
                assert!(is_queued || !all_queued, "{what}: {shown}");
                let by_kernels = if is_queued { scan_io(&plan).read_requests } else { 0 };
                let (read, submitted) = (read_commands(&drive) - read, counts.reads() - submitted);
                assert_eq!(
                    read,
                    u128::from(submitted + by_kernels),
                    "{what}: the controller's count of reads"
                );
                all_by_kernels += by_kernels;
            }
            assert!(all_by_kernels > 500 || !all_queued, "{all_by_kernels} commands");
            let first = QUERIES[0].1;
            let (read, before) = (read_commands(&drive), answer(&context, first).await);
            assert!(read > 0 && !before.is_empty());
            let again = ran(&context, first).await;
            collect(Arc::clone(&again), context.task_ctx()).await.unwrap();
            assert_eq!(
                read_commands(&drive),
                read,
                "{table}, {backing:?}: everything is on the device"
            );
        }
    }
}

/// A controller whose queues the driver has: it brings what kernels ask for.
pub(crate) async fn commands_go_through_the_driver_without_free_queues(start: Start<'_>) {
    let Some(target) = target() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some((drive, wanted)) = loaded(start, 1, folder.path()).await else {
        return;
    };
    let files = NamespaceFiles::open(drive.clone()).unwrap();
    let (context, counts) = session_with(files, config(target, GpuBacking::Queued));
    register(&context, "plain").await;
    for (_, name, sql, wanted) in wanted.iter().filter(|(of, ..)| *of == "plain") {
        let plan = ran(&context, sql).await;
        let (read, submitted) = (read_commands(&drive), counts.reads());
        let found = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
        compare(&found, wanted, name);
        let (read, submitted) = (read_commands(&drive) - read, counts.reads() - submitted);
        assert_eq!(read, u128::from(submitted), "{name}: the driver alone reads");
    }
}

/// A block that cannot be read, of a column that kernels read by command.
pub(crate) async fn failed_commands_of_kernels_name_the_file_and_the_drive(start: Start<'_>) {
    let Some(target) = target() else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path());
    let setup = |bad_lba| Setup {
        image: &image,
        bad_lba,
        queues: 16,
    };
    let Some(drive) = start(&setup(None)) else { return };
    let files = NamespaceFiles::initialize(drive, false).unwrap();
    taxi_tables(folder.path(), files).await;
    // The middle of the table's first file: values of one of its columns.
    let drive = start(&setup(None)).unwrap();
    let files = NamespaceFiles::open(drive).unwrap();
    let entry = files
        .entries()
        .iter()
        .find(|entry| entry.name.starts_with("plain/"))
        .unwrap();
    let lba = (entry.position + entry.length_bytes / 2) / 4096 * 8 + 7;
    let name = entry.name.clone();
    drop(files);
    let drive = start(&setup(Some(lba))).unwrap();
    let files = NamespaceFiles::open(drive).unwrap();
    let (context, _) = session_with(files, config(target, GpuBacking::Queued));
    register(&context, "plain").await;
    let columns = text(
        &context,
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'trips'",
    )
    .await;
    let mut failures = 0;
    for column in columns.lines() {
        let sql = format!("SELECT sum({column}) FROM trips WHERE {column} >= 0");
        let Ok(frame) = context.sql(&sql).await else { continue };
        let Err(failed) = frame.collect().await else { continue };
        let said = grampus::error::message(&failed);
        assert!(said.contains(&name) && said.contains(ADDRESS), "{said}");
        failures += 1;
    }
    assert!(failures > 0, "no column has the block");
    // The device and the controller work on.
    let sql = "SELECT count(*) FROM trips";
    assert_eq!(text(&context, sql).await, "100000");
    let unknown = error(&context, "SELECT nothing FROM trips").await;
    assert!(unknown.contains("nothing"), "{unknown}");
    assert!(File::open(&image).is_ok() && fs::metadata(&image).is_ok());
}
