//! Tests of what sessions of a runtime share: columns that are loaded in the background, and the device's settings.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use grampus_gpu_exec::MachineProfile;

use crate::Grampus;
use crate::config::Device;
use crate::gpu::calibration::Calibration;
use crate::gpu::fake_device::{Behaviour, FakeDevice, runtime};

const SQL: &str = "SELECT count(*) AS n, sum(x) AS s FROM t WHERE x >= 10";
/// Another program over the same column.
const OTHER: &str = "SELECT min(x) AS m FROM t WHERE x >= 10";

async fn shown(context: &SessionContext, sql: &str) -> Result<String, String> {
    let outcome = async { context.sql(sql).await?.collect().await };
    let batches = outcome.await.map_err(|error| crate::error::message(&error))?;
    Ok(pretty_format_batches(&batches).unwrap().to_string())
}

/// A session on a machine with a slow CPU, and a slower transfer to the GPU.
async fn slow_session(folder: &Path, behaviour: Behaviour) -> (SessionContext, Arc<FakeDevice>, Grampus) {
    let slow = MachineProfile {
        cpu_scan_bytes_per_s: 1e5,
        cpu_scan_all_bytes_per_s: 1e5,
        push_bytes_per_s: 5e3,
        query_s: 1e-6,
        ..MachineProfile::of_cores(1)
    };
    Calibration::of(slow).save(folder).unwrap();
    runtime(folder, Device::Auto, behaviour).await
}

/// With `auto`, a query that the CPU answers, though the GPU would be faster from its memory, has its columns loaded
/// when it has ended. The next one runs on the GPU. Planning loads nothing.
#[tokio::test(flavor = "multi_thread")]
async fn auto_device_loads_columns_in_the_background() {
    let folder = tempfile::tempdir().unwrap();
    let (context, fake, grampus) = slow_session(folder.path(), Behaviour::Loads).await;
    let explained = async || shown(&context, &format!("EXPLAIN {SQL}")).await.unwrap();
    let expected = "once loaded in the background, the GPU takes";
    // 8 KB take 80 ms on the CPU, 200 ms to load as the fake device estimates, and almost no time once resident.
    for _ in 0..3 {
        assert!(explained().await.contains(expected), "{}", explained().await);
    }
    grampus.wait_for_loads();
    assert_eq!(fake.begun.load(Ordering::Relaxed), 0, "EXPLAIN is no execution");
    assert!(shown(&context, SQL).await.unwrap().contains("| 990 | 499455.0 |"));
    grampus.wait_for_loads();
    assert_eq!(fake.ended.load(Ordering::Relaxed), 1, "loaded once");
    assert!(
        explained().await.contains("its columns are on the device"),
        "{}",
        explained().await
    );
}

/// Columns that a load does not leave on the device are not loaded again.
#[tokio::test(flavor = "multi_thread")]
async fn auto_device_loads_in_vain_once() {
    let folder = tempfile::tempdir().unwrap();
    let (context, fake, grampus) = slow_session(folder.path(), Behaviour::Refuses).await;
    for _ in 0..3 {
        assert!(shown(&context, SQL).await.unwrap().contains("| 990 | 499455.0 |"));
        grampus.wait_for_loads();
        assert_eq!(fake.ended.load(Ordering::Relaxed), 1);
    }
    let plan = shown(&context, &format!("EXPLAIN {SQL}")).await.unwrap();
    assert!(
        !plan.contains("in the background") && plan.contains("not on the GPU: the GPU is"),
        "{plan}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_columns_are_loaded_with_gpu_load_off() {
    let folder = tempfile::tempdir().unwrap();
    let (context, fake, grampus) = slow_session(folder.path(), Behaviour::Loads).await;
    context
        .sql("SET grampus.gpu_load = 'off'")
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert!(shown(&context, SQL).await.unwrap().contains("| 990 | 499455.0 |"));
    grampus.wait_for_loads();
    assert_eq!(fake.begun.load(Ordering::Relaxed), 0);
}

/// A runtime that is dropped cancels its load.
#[tokio::test(flavor = "multi_thread")]
async fn dropped_runtime_cancels_its_load() {
    let folder = tempfile::tempdir().unwrap();
    let (context, fake, grampus) = slow_session(folder.path(), Behaviour::WaitsForCancel).await;
    assert!(shown(&context, SQL).await.unwrap().contains("| 990 | 499455.0 |"));
    while fake.begun.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(context);
    drop(grampus);
    assert_eq!(fake.ended.load(Ordering::Relaxed), 1);
}

/// With `auto`, columns are loaded while queries end all the time. A pause would never come.
#[tokio::test(flavor = "multi_thread")]
async fn auto_device_loads_under_steady_traffic() {
    let folder = tempfile::tempdir().unwrap();
    let (context, fake, _grampus) = slow_session(folder.path(), Behaviour::HoldsOne).await;
    let begun = Instant::now();
    while fake.loads.lock().unwrap().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(10), "nothing was loaded");
        assert!(shown(&context, SQL).await.unwrap().contains("| 990 | 499455.0 |"));
    }
}

/// Numbers of loads of [`SQL`], which has two aggregates, and of [`OTHER`].
fn loads(fake: &FakeDevice) -> (usize, usize) {
    let loads = fake.loads.lock().unwrap();
    let of_two = loads.iter().filter(|program| program.aggregates.len() == 2).count();
    (of_two, loads.len() - of_two)
}

/// What was asked most is loaded first, not what was asked last.
#[tokio::test(flavor = "multi_thread")]
async fn auto_device_loads_what_is_asked_most() {
    let folder = tempfile::tempdir().unwrap();
    let (context, fake, grampus) = slow_session(folder.path(), Behaviour::HoldsOne).await;
    for sql in [SQL, SQL, SQL, OTHER] {
        shown(&context, sql).await.unwrap();
    }
    while fake.loads.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(loads(&fake), (1, 0));
    grampus.wait_for_loads();
}

/// Where there is room for one, what is asked less does not take the place of what is asked more, time after time.
#[tokio::test(flavor = "multi_thread")]
async fn auto_device_keeps_what_is_asked_most() {
    let folder = tempfile::tempdir().unwrap();
    let (context, fake, grampus) = slow_session(folder.path(), Behaviour::HoldsOne).await;
    for _ in 0..12 {
        for sql in [SQL, SQL, SQL, OTHER] {
            shown(&context, sql).await.unwrap();
        }
        grampus.wait_for_loads();
    }
    let (often, seldom) = loads(&fake);
    assert!(often > 0 && seldom < 8, "{often} and {seldom} loads");
}

/// Columns for which memory was short are loaded later.
#[tokio::test(flavor = "multi_thread")]
async fn auto_device_loads_again_after_a_shortage() {
    let folder = tempfile::tempdir().unwrap();
    let (context, fake, grampus) = slow_session(folder.path(), Behaviour::ShortOnce).await;
    let begun = Instant::now();
    while loads(&fake) == (0, 0) {
        assert!(begun.elapsed() < Duration::from_secs(20), "not tried again");
        shown(&context, SQL).await.unwrap();
        grampus.wait_for_loads();
    }
    // The first load failed, and the one after the delay did not.
    assert_eq!(fake.begun.load(Ordering::Relaxed), 2);
}

/// A program that the device refuses is no reason against another one over the same columns.
#[tokio::test(flavor = "multi_thread")]
async fn auto_device_loads_for_another_program() {
    let folder = tempfile::tempdir().unwrap();
    let (context, fake, grampus) = slow_session(folder.path(), Behaviour::RefusesTwo).await;
    for sql in [SQL, OTHER] {
        shown(&context, sql).await.unwrap();
        grampus.wait_for_loads();
    }
    assert_eq!((fake.begun.load(Ordering::Relaxed), loads(&fake)), (2, (0, 1)));
}

/// The value of a setting in a session.
fn setting(context: &SessionContext, name: &str) -> String {
    let entries = context.copied_config().options().entries();
    let entry = entries.into_iter().find(|entry| entry.key == name).unwrap();
    entry.value.unwrap()
}

/// A session sets what the device is opened with for all sessions of its runtime, and closes it for none.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_share_the_settings_of_their_device() {
    const SECTOR: &str = "grampus.gpu_sector_bytes";
    let folder = tempfile::tempdir().unwrap();
    let (one, fake, grampus) = runtime(folder.path(), Device::Prefer, Behaviour::Refuses).await;
    let builder = SessionStateBuilder::new().with_default_features();
    let other = SessionContext::new_with_state(grampus.register(builder).build());
    let location = folder.path().join("t.orc").display().to_string();
    crate::session::register_orc(&other, "t", &location).await.unwrap();
    for bytes in ["1024", "512"] {
        shown(&other, &format!("SET {SECTOR} = {bytes}")).await.unwrap();
        assert_eq!(
            (setting(&one, SECTOR), setting(&other, SECTOR)),
            (bytes.into(), bytes.into())
        );
    }
    // Other settings are each session's own.
    shown(&other, "SET grampus.gpu_load = 'off'").await.unwrap();
    assert_eq!(setting(&one, "grampus.gpu_load"), "background");
    for round in 1..3 {
        for context in [&one, &other] {
            assert!(shown(context, SQL).await.unwrap().contains("| 990 | 499455.0 |"));
        }
        assert_eq!(fake.begun.load(Ordering::Relaxed), 2 * round);
        for (name, value) in [
            (SECTOR, "4096"),
            ("grampus.gpu_cache_bytes", "7"),
            ("grampus.gpu", "1"),
            ("grampus.gpu_target", "'host'"),
            ("grampus.cache_folder", "'/elsewhere'"),
        ] {
            let error = shown(&other, &format!("SET {name} = {value}")).await.unwrap_err();
            assert!(
                error.contains("cannot change while the device is open"),
                "{name}: {error}"
            );
        }
        shown(&other, &format!("SET {SECTOR} = 512")).await.unwrap();
    }
}

/// A device that could not be opened does not hold its settings: another GPU can be named.
#[tokio::test(flavor = "multi_thread")]
async fn settings_of_a_device_that_is_not_open_can_change() {
    let folder = tempfile::tempdir().unwrap();
    let (context, fake, _grampus) = runtime(folder.path(), Device::Prefer, Behaviour::CannotOpen).await;
    assert!(shown(&context, SQL).await.unwrap().contains("| 990 | 499455.0 |"));
    assert_eq!(fake.begun.load(Ordering::Relaxed), 1);
    shown(&context, "SET grampus.gpu = 1").await.unwrap();
    assert_eq!(setting(&context, "grampus.gpu"), "1");
}
