//! Files that change under queries of kernels: the answer is that of one version, or an error that names the file.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch};
use arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::collect;
use grampus::{GpuBacking, LocalIo, session};
use grampus_orc_layout::write::WriterProperties;
use std::sync::Arc;

use crate::common::{failure, set, text};
use crate::support::{GPU_SETTINGS, Setting, gpu_runs, has_compiler, write_orc};

const ROWS: i32 = 80_000;
const SQL: &str = "SELECT count(*), sum(x), sum(y), sum(i) FROM t WHERE x >= 100";
const BACKINGS: [GpuBacking; 4] = [
    GpuBacking::Resident,
    GpuBacking::Mapped,
    GpuBacking::Queued,
    GpuBacking::Paged,
];

fn setting(backing: GpuBacking) -> Setting {
    Setting {
        local_io: LocalIo::Mmap,
        gpu: Some(backing),
        ..GPU_SETTINGS[0]
    }
}

/// `x` and `y` count from `first` on, and `i` is stored in runs.
fn file_bytes(folder: &Path, first: i32) -> Vec<u8> {
    let numbers = first..first + ROWS;
    let doubles: ArrayRef = Arc::new(Float64Array::from_iter_values(numbers.clone().map(f64::from)));
    let ints: ArrayRef = Arc::new(Int32Array::from_iter_values(numbers.map(|n| n % 1000)));
    let rows = RecordBatch::try_from_iter([("x", Arc::clone(&doubles)), ("y", doubles), ("i", ints)]).unwrap();
    let path = folder.join("new");
    let options = WriterProperties {
        stripe_rows: 20_000,
        ..WriterProperties::default()
    };
    write_orc(&path, rows.schema(), &[rows], options);
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(path).unwrap();
    bytes
}

fn open(path: &Path) -> File {
    File::options().write(true).open(path).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn file_that_changed_after_planning_is_an_error_under_every_backing() {
    if !has_compiler("file_that_changed_after_planning_is_an_error_under_every_backing") {
        return;
    }
    for backing in BACKINGS {
        for device in ["prefer", "gpu"] {
            if device == "gpu" && backing != GpuBacking::Mapped {
                continue;
            }
            for is_cut in [false, true] {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("t.orc");
                let bytes = file_bytes(folder.path(), 0);
                fs::write(&path, &bytes).unwrap();
                let context = setting(backing).context();
                session::register_orc(&context, "t", path.to_str().unwrap())
                    .await
                    .unwrap();
                set(&context, "grampus.device", device).await;
                let before = text(&context, SQL).await;
                let plan = context.sql(SQL).await.unwrap().create_physical_plan().await.unwrap();
                std::thread::sleep(Duration::from_millis(20)); // file times have steps
                match is_cut {
                    true => open(&path).set_len(100_000).unwrap(),
                    false => {
                        let value = 150f64.to_le_bytes();
                        let at = bytes.windows(8).position(|window| window == value).unwrap();
                        open(&path).write_all_at(&1e9f64.to_le_bytes(), at as u64).unwrap();
                    }
                }
                let error = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap_err();
                let error = grampus::error::message(&error);
                let difference = if is_cut { "has 100000 now" } else { "written to" };
                for words in [
                    "t.orc",
                    "changed while it was being queried",
                    difference,
                    "run the query again",
                ] {
                    assert!(error.contains(words), "{backing:?}, {device}: {words} in {error}");
                }
                match is_cut {
                    true => assert!(failure(&context, SQL).await.contains("t.orc")),
                    false => assert_ne!(text(&context, SQL).await, before),
                }
                fs::write(&path, &bytes).unwrap();
                assert_eq!(text(&context, SQL).await, before);
            }
        }
    }
}

/// Changes the file at random moments of many queries.
#[tokio::test(flavor = "multi_thread")]
async fn changes_at_random_moments_of_kernels_give_one_version_or_an_error() {
    if !has_compiler("changes_at_random_moments_of_kernels_give_one_version_or_an_error") {
        return;
    }
    let (mut answered, mut failed, mut by_gpu) = (0, 0, 0);
    for backing in BACKINGS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.orc");
        let versions = [0, 1_000_000].map(|first| file_bytes(folder.path(), first));
        let context = setting(backing).context();
        let mut answers = Vec::new();
        for version in &versions {
            fs::write(&path, version).unwrap();
            session::register_orc(&context, "t", path.to_str().unwrap())
                .await
                .unwrap();
            answers.push(text(&context, SQL).await);
            context.deregister_table("t").unwrap();
        }
        assert_ne!(answers[0], answers[1]);
        session::register_orc(&context, "t", path.to_str().unwrap())
            .await
            .unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (flag, target) = (Arc::clone(&stop), path.clone());
        let changes = std::thread::spawn(move || {
            let mut state = 7u64;
            let mut random = || {
                // A linear congruential generator, Knuth's constants.
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state >> 33
            };
            while !flag.load(Ordering::Relaxed) {
                let version = &versions[random() as usize % 2];
                match random() % 3 {
                    0 => open(&target).set_len(random() % version.len() as u64).unwrap(),
                    1 => {
                        open(&target).write_all_at(version, 0).unwrap();
                        open(&target).set_len(version.len() as u64).unwrap();
                    }
                    _ => {
                        fs::write(target.with_extension("new"), version).unwrap();
                        fs::rename(target.with_extension("new"), &target).unwrap();
                    }
                }
                std::thread::sleep(Duration::from_millis(25 + random() % 60)); // file times have steps
            }
        });
        for _ in 0..25 {
            let ran = async {
                let plan = context.sql(SQL).await?.create_physical_plan().await?;
                let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
                by_gpu += gpu_runs(&plan).0;
                Ok::<_, datafusion::error::DataFusionError>(pretty_format_batches(&batches)?.to_string())
            };
            match ran.await {
                Ok(answer) => {
                    assert!(answers.contains(&answer), "{backing:?}: {answer}");
                    answered += 1;
                }
                Err(error) => {
                    let error = grampus::error::message(&error);
                    assert!(error.contains("t.orc"), "{backing:?}: {error}");
                    failed += 1;
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        changes.join().unwrap();
    }
    println!("{answered} answers, {by_gpu} of them by kernels, {failed} errors");
    assert!(answered > 0 && by_gpu > 0 && failed > 0);
}
