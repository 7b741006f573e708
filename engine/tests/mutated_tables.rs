//! Queries over corrupt files: each ends in rows or in an error that names the file. No query panics or hangs.
//!
//! `GRAMPUS_TEST_SEED=<seed>` replays a failure. `GRAMPUS_TEST_CASES` sets the number of files.
#![allow(unreachable_pub)] // the included module is public in its own crate

mod support;

#[path = "../../orc-layout/fuzz/src/seeds.rs"]
mod seeds;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use datafusion::error::Result;
use datafusion::physical_plan::collect;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use support::{SETTINGS, Setting};

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Queries that use each way to the bytes: all columns, pruned and direct filters, bloom filters, statistics alone.
const FLAT_QUERIES: [&str; 5] = [
    "SELECT * FROM t",
    "SELECT double, text, decimal FROM t WHERE int > 50 AND double < 20",
    "SELECT count(*), min(int), max(double), min(word) FROM t",
    "SELECT long, date, time FROM t WHERE word = 'green' AND boolean",
    "SELECT double FROM t WHERE double = 3.25 OR double IN (0.5, 7.75)",
];

const NESTED_QUERIES: [&str; 3] = [
    "SELECT * FROM t",
    "SELECT list FROM t WHERE key > 30",
    "SELECT count(*) FROM t",
];

#[test]
fn queries_over_corrupt_files_end_in_rows_or_errors() {
    std::panic::set_hook(Box::new(|panic| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        eprintln!("{panic}");
    }));
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cases = number("GRAMPUS_TEST_CASES").unwrap_or(200);
    let first = number("GRAMPUS_TEST_SEED");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("mutated.orc");
    let seeds = seeds::seeds();
    for case in first.unwrap_or(0)..first.map_or(cases, |seed| seed + 1) {
        let mut random = ChaCha8Rng::seed_from_u64(case);
        let (name, bytes) = &seeds[random.random_range(0..seeds.len())];
        std::fs::write(&path, mutate(bytes, &mut random)).expect("room on the disk");
        let queries = if name.starts_with("nested") {
            &NESTED_QUERIES[..]
        } else {
            &FLAT_QUERIES[..]
        };
        for setting in &SETTINGS[..2] {
            let end = runtime
                .block_on(async { tokio::time::timeout(Duration::from_secs(60), ask(&path, setting, queries)).await });
            assert!(end.is_ok(), "{name} hangs with GRAMPUS_TEST_SEED={case}, {setting:?}");
            let panics = PANICS.load(Ordering::Relaxed);
            assert!(panics == 0, "{name} panics with GRAMPUS_TEST_SEED={case}, {setting:?}");
            if let Ok(Err(error)) = end {
                let words = grampus::error::message(&error);
                assert!(
                    words.contains("mutated.orc"),
                    "GRAMPUS_TEST_SEED={case}: no file in: {words}"
                );
            }
        }
    }
}

/// The first error of a file, if its queries have one.
async fn ask(path: &Path, setting: &Setting, queries: &[&str]) -> Result<()> {
    let context = setting.context();
    grampus::session::register_orc(&context, "t", &path.display().to_string()).await?;
    let mut first = Ok(());
    for query in queries {
        // A mutation may have renamed a column or changed its type. If so, the query has no plan.
        let Ok(frame) = context.sql(query).await else { continue };
        let Ok(plan) = frame.create_physical_plan().await else {
            continue;
        };
        let answer = collect(plan, context.task_ctx()).await.map(drop);
        if first.is_ok() {
            first = answer;
        }
    }
    first
}

/// One to three changed bytes, more often near the end, where the footers are.
fn mutate(bytes: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.random_range(1..4) {
        let from = if random.random_bool(0.6) {
            bytes.len().saturating_sub(900)
        } else {
            0
        };
        let at = random.random_range(from..bytes.len());
        bytes[at] = match random.random_range(0..4) {
            0 => bytes[at] ^ (1 << random.random_range(0..8)),
            1 => [0, 1, 0x7F, 0x80, 0xFF][random.random_range(0..5)],
            2 => bytes[at].wrapping_add(1),
            _ => random.random(),
        };
    }
    bytes
}
