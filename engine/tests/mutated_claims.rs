//! Queries over files whose *claims* are false: rows, strides, lengths, counts, column ids, streams that are missing.
//!
//! Each query ends in the right rows or in an error that names the file, within the memory that the file's true bytes
//! need. `mutated_tables` changes bytes, which hardly ever makes a claim that agrees with the others.
//!
//! `GRAMPUS_TEST_SEED=<seed>` replays a failure. `GRAMPUS_TEST_CASES` sets the number of files.
#![allow(unreachable_pub)] // the included module is public in its own crate

mod support;

#[path = "../../orc-layout/fuzz/src/seeds.rs"]
mod seeds;

#[path = "claims/counting.rs"]
mod counting;
#[path = "claims/file_parts.rs"]
mod file_parts;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int16Type;
use datafusion::error::Result;
use datafusion::physical_plan::collect;
use grampus_orc_layout::arrow_reader::OrcReaderBuilder;
use grampus_orc_layout::proto::{Footer, RowIndex, Stream, StripeFooter, StripeInformation};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::runtime::Runtime;

use file_parts::{FileParts, StripeParts};
use support::{SETTINGS, Setting};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// What a query over a file of a few kilobytes may allocate, whatever the file claims: tiles, batches, a parsed index.
const MAX_QUERY_BYTES: usize = 256 << 20;

/// Rows of a stripe of the seeds.
const STRIPE_ROWS: u64 = 60;

const FLAT_QUERIES: [&str; 7] = [
    "SELECT short FROM t LIMIT 1000",
    "SELECT * FROM t LIMIT 1000",
    "SELECT double, text, decimal FROM t WHERE int > 50 AND double < 20 LIMIT 1000",
    "SELECT count(*), min(int), max(double), min(word) FROM t",
    "SELECT sum(long), count(word) FROM t WHERE short < 90 AND word = 'green'",
    "SELECT word, count(double) FROM t GROUP BY word ORDER BY word LIMIT 5",
    "SELECT a.short FROM t a JOIN t b ON a.int = b.int WHERE b.double = 3.25 OR b.double IN (0.5, 7.75) LIMIT 1000",
];

const NESTED_QUERIES: [&str; 4] = [
    "SELECT * FROM t LIMIT 1000",
    "SELECT list, struct FROM t WHERE key > 30 LIMIT 1000",
    "SELECT count(*), max(key) FROM t",
    "SELECT key FROM t WHERE struct['name'] = 'n1' LIMIT 1000",
];

fn runtime() -> Runtime {
    std::panic::set_hook(Box::new(|panic| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        eprintln!("{panic}");
    }));
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// What the queries of a file give, and the reader of batches. Checks panics, memory, time, and the words of errors.
fn checked(runtime: &Runtime, case: &str, path: &Path, queries: &[&str]) -> Vec<Result<Vec<RecordBatch>>> {
    let mut answers = Vec::new();
    let bytes = bytes::Bytes::from(std::fs::read(path).expect("the file"));
    let before = counting::begin();
    if let Ok(builder) = OrcReaderBuilder::try_new(bytes)
        && let Ok(reader) = builder.with_limit(1000).build()
    {
        reader.take_while(std::result::Result::is_ok).for_each(drop);
    }
    let peak = counting::peak().saturating_sub(before);
    assert!(peak < MAX_QUERY_BYTES, "{case}: the reader allocates {peak} bytes");
    for setting in &SETTINGS {
        let work = async { tokio::time::timeout(Duration::from_secs(60), ask(path, setting, queries)).await };
        let before = counting::begin();
        let end = runtime.block_on(work);
        let peak = counting::peak().saturating_sub(before);
        assert!(end.is_ok(), "{case} hangs, {setting:?}");
        let panics = PANICS.load(Ordering::Relaxed);
        assert!(panics == 0, "{case} panics, {setting:?}");
        assert!(peak < MAX_QUERY_BYTES, "{case} allocates {peak} bytes, {setting:?}");
        for answer in end.into_iter().flatten() {
            if let Err(error) = &answer {
                let words = grampus::error::message(error);
                assert!(words.contains("claims.orc"), "{case}: no file in: {words}");
            }
            answers.push(answer);
        }
    }
    answers
}

/// The answers to the queries that have a plan. A claim may have renamed a column or changed its type.
async fn ask(path: &Path, setting: &Setting, queries: &[&str]) -> Vec<Result<Vec<RecordBatch>>> {
    let context = setting.context();
    if let Err(error) = grampus::session::register_orc(&context, "t", &path.display().to_string()).await {
        return vec![Err(error)];
    }
    let mut answers = Vec::new();
    for query in queries {
        let Ok(frame) = context.sql(query).await else { continue };
        let Ok(plan) = frame.create_physical_plan().await else {
            continue;
        };
        answers.push(collect(plan, context.task_ctx()).await);
    }
    answers
}

/// A number that is near `old`, or far from all that a file of this size can hold.
fn claim(random: &mut ChaCha8Rng, old: u64) -> u64 {
    match random.random_range(0..6) {
        0 => old.wrapping_add(1),
        1 => old.saturating_sub(1),
        2 => [0, 1, 2, 127, 1 << 16][random.random_range(0..5)],
        3 => old.saturating_mul(random.random_range(2..100)),
        4 => 1 << random.random_range(20..63),
        _ => [u64::MAX, i64::MAX as u64, u64::from(u32::MAX), 1 << 40, 1 << 62][random.random_range(0..5)],
    }
}

/// One of the items, if there is one.
fn one<'a, T>(items: &'a mut [T], random: &mut ChaCha8Rng) -> Option<&'a mut T> {
    match items.len() {
        0 => None,
        length => Some(&mut items[random.random_range(0..length)]),
    }
}

/// Changes the number of an optional field.
fn change<T: Copy + Default + Into<u64>>(field: &mut Option<T>, random: &mut ChaCha8Rng, cast: fn(u64) -> T) {
    *field = Some(cast(claim(random, field.unwrap_or_default().into())));
}

/// Changes before lengths are computed: the file's parts agree on their places.
fn change_parts(parts: &mut FileParts, random: &mut ChaCha8Rng) {
    let kind = random.random_range(0..8);
    let Some(stripe) = one(&mut parts.stripes, random) else {
        return;
    };
    match kind {
        0 => stripe.streams.clear(),
        1 if !stripe.streams.is_empty() => {
            stripe.streams.remove(random.random_range(0..stripe.streams.len()));
        }
        2 => {
            if let Some(part) = one(&mut stripe.streams, random) {
                part.bytes.clear();
                part.index = None;
            }
        }
        3 => {
            if let Some(part) = one(&mut stripe.streams, random) {
                let copy = part.clone();
                stripe.streams.push(copy);
            }
        }
        4 => {
            let indexes = stripe.streams.iter_mut().filter_map(|part| part.index.as_mut());
            if let Some(RowIndex { entry }) = one(&mut indexes.collect::<Vec<_>>(), random) {
                match (random.random_range(0..3), entry.last().cloned()) {
                    (0, _) => entry.clear(),
                    (1, _) => drop(entry.pop()),
                    (_, Some(last)) => entry.extend(vec![last; random.random_range(1..5000)]),
                    _ => {}
                }
            }
        }
        5 => {
            let indexes = stripe.streams.iter_mut().filter_map(|part| part.index.as_mut());
            if let Some(RowIndex { entry }) = one(&mut indexes.collect::<Vec<_>>(), random)
                && let Some(entry) = one(entry, random)
                && let Some(position) = one(&mut entry.positions, random)
            {
                *position = claim(random, *position);
            }
        }
        6 => stripe.footer.columns.truncate(random.random_range(0..3)),
        _ => {
            let rows = parts.stripes.len();
            let at = random.random_range(0..rows);
            let copy = parts.stripes[at].clone();
            parts.stripes.push(copy);
        }
    }
}

/// Changes of numbers that the parts state.
fn change_claims(parts: &mut FileParts, random: &mut ChaCha8Rng) {
    let Footer { types, statistics, .. } = &mut parts.footer;
    match random.random_range(0..13) {
        0..4 => {
            if let Some(StripeParts { info, .. }) = one(&mut parts.stripes, random) {
                change(&mut info.number_of_rows, random, |n| n);
            }
        }
        4 => change(&mut parts.footer.row_index_stride, random, |n| n as u32),
        5 => parts.footer.row_index_stride = Some([1, 2, 1000][random.random_range(0..3)]),
        6 => {
            if let Some(stripe) = one(&mut parts.stripes, random) {
                let StripeInformation {
                    offset,
                    index_length,
                    data_length,
                    footer_length,
                    ..
                } = &mut stripe.info;
                let fields = [offset, index_length, data_length, footer_length];
                let at = random.random_range(0..fields.len());
                fields
                    .into_iter()
                    .skip(at)
                    .take(1)
                    .for_each(|field| change(field, random, |n| n));
            }
        }
        7 | 8 => {
            if let Some(stripe) = one(&mut parts.stripes, random)
                && let Some(part) = one(&mut stripe.streams, random)
            {
                let Stream { kind, column, length } = &mut part.stream;
                match random.random_range(0..3) {
                    0 => *kind = Some(random.random_range(0..9)),
                    1 => change(column, random, |n| n as u32 % 64),
                    _ => change(length, random, |n| n),
                }
            }
        }
        9 | 10 => {
            if let Some(StripeParts { footer, .. }) = one(&mut parts.stripes, random) {
                let StripeFooter { columns, .. } = footer;
                if let Some(column) = one(columns, random) {
                    match random.random_bool(0.3) {
                        true => column.kind = Some(random.random_range(0..5)),
                        false => change(&mut column.dictionary_size, random, |n| n as u32),
                    }
                }
            }
        }
        11 => {
            if let Some(kind) = one(types, random) {
                match random.random_range(0..3) {
                    0 => kind.kind = Some(random.random_range(0..19)),
                    1 => {
                        if let Some(child) = one(&mut kind.subtypes, random) {
                            *child = claim(random, u64::from(*child)) as u32;
                        }
                    }
                    _ => kind.subtypes.push(random.random_range(0..20)),
                }
            }
        }
        _ => {
            if let Some(column) = one(statistics, random) {
                change(&mut column.number_of_values, random, |n| n);
            }
        }
    }
    // Mostly the file agrees with its stripes: it would be refused at once otherwise.
    if random.random_bool(0.9) {
        let rows = parts.stripes.iter().map(|stripe| stripe.info.number_of_rows());
        parts.footer.number_of_rows = Some(rows.fold(0, u64::saturating_add));
    }
}

#[test]
fn queries_over_false_claims_end_in_rows_or_errors() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cases = number("GRAMPUS_TEST_CASES").unwrap_or(150);
    let first = number("GRAMPUS_TEST_SEED");
    let runtime = runtime();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("claims.orc");
    let seeds = seeds::seeds();
    for case in first.unwrap_or(0)..first.map_or(cases, |seed| seed + 1) {
        let mut random = ChaCha8Rng::seed_from_u64(case);
        let (name, bytes) = &seeds[random.random_range(0..seeds.len())];
        let mut parts = FileParts::of(bytes);
        if random.random_bool(0.4) {
            change_parts(&mut parts, &mut random);
        }
        let (mut of_parts, mut of_end) = (random.clone(), random.clone());
        let changes = random.random_range(0..3);
        let file = parts.assemble(
            |parts| (0..changes).for_each(|_| change_claims(parts, &mut of_parts)),
            |postscript| {
                if of_end.random_bool(0.05) {
                    change(&mut postscript.footer_length, &mut of_end, |n| n);
                }
                if of_end.random_bool(0.05) {
                    change(&mut postscript.metadata_length, &mut of_end, |n| n);
                }
                if of_end.random_bool(0.1) {
                    change(&mut postscript.compression_block_size, &mut of_end, |n| n);
                }
            },
        );
        std::fs::write(&path, file).expect("room on the disk");
        let queries = match name.starts_with("nested") {
            true => &NESTED_QUERIES[..],
            false => &FLAT_QUERIES[..],
        };
        checked(
            &runtime,
            &format!("{name} with GRAMPUS_TEST_SEED={case}"),
            &path,
            queries,
        );
    }
}

/// The values of `short`, which are three times the row's number, by the rows that each stripe claims.
fn shorts(claimed: &[u64]) -> Vec<i16> {
    let stripes = (0..).step_by(STRIPE_ROWS as usize).zip(claimed);
    stripes
        .flat_map(|(first, rows)| (first..first + *rows as i16).map(|row| row * 3))
        .collect()
}

/// Rows and strides that the other metadata agree with.
#[test]
fn rows_are_those_of_the_streams_whatever_rows_and_stride_are_claimed() {
    let runtime = runtime();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("claims.orc");
    let far = [STRIPE_ROWS + 1, 1 << 20, 1 << 32, 1 << 40, (1 << 62) - 7];
    for (name, bytes) in seeds::seeds().iter().filter(|(name, _)| name.starts_with("flat")) {
        for has_index in [true, false] {
            for stride in [None, Some(1), Some(25), Some(1000), Some(u32::MAX)] {
                for rows in [1, STRIPE_ROWS - 1, STRIPE_ROWS].into_iter().chain(far) {
                    let mut parts = FileParts::of(bytes);
                    if !has_index {
                        let indexes = |part: &file_parts::StreamParts| part.index.is_none();
                        parts
                            .stripes
                            .iter_mut()
                            .for_each(|stripe| stripe.streams.retain(indexes));
                    }
                    let mut claimed = Vec::new();
                    let file = parts.assemble(
                        |parts| {
                            parts.stripes[0].info.number_of_rows = Some(rows);
                            claimed = parts
                                .stripes
                                .iter()
                                .map(|stripe| stripe.info.number_of_rows())
                                .collect();
                            parts.footer.number_of_rows = Some(claimed.iter().sum());
                            parts.footer.row_index_stride = stride.or(parts.footer.row_index_stride);
                        },
                        |_| {},
                    );
                    std::fs::write(&path, file).expect("room on the disk");
                    let case = format!("{name}: {rows} rows, stride {stride:?}, index {has_index}");
                    let queries = ["SELECT short FROM t", "SELECT short FROM t WHERE short >= 0"];
                    let is_true = rows == STRIPE_ROWS && (!has_index || stride.is_none_or(|stride| stride == 25));
                    for answer in checked(&runtime, &case, &path, &queries) {
                        match answer {
                            Ok(batches) => {
                                assert!(rows <= STRIPE_ROWS, "{case}: rows that are not there");
                                let mut found: Vec<i16> = batches.iter().flat_map(values).collect();
                                found.sort_unstable();
                                assert_eq!(found, shorts(&claimed), "{case}");
                            }
                            Err(error) => assert!(!is_true, "{case}: {error}"),
                        }
                    }
                }
            }
        }
    }
}

fn values(batch: &RecordBatch) -> Vec<i16> {
    let column = Arc::clone(batch.column(0));
    column.as_primitive::<Int16Type>().values().to_vec()
}

/// A stripe of no rows needs no streams, and cuDF and Spark write such stripes (rapidsai/cudf#12155).
#[test]
fn stripes_without_streams_have_no_rows() {
    let runtime = runtime();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("claims.orc");
    for (name, bytes) in seeds::seeds().iter().filter(|(name, _)| name.starts_with("flat")) {
        for rows in [0, 1, STRIPE_ROWS] {
            let mut parts = FileParts::of(bytes);
            let mut empty = parts.stripes[0].clone();
            empty.streams.clear();
            if rows == 0 {
                empty.footer.columns.clear();
            }
            empty.info.number_of_rows = Some(rows);
            parts.stripes.insert(1, empty.clone());
            parts.stripes.insert(0, empty);
            parts.metadata.stripe_stats.clear();
            parts.footer.number_of_rows = Some(90 + 2 * rows);
            let file = parts.assemble(|_| {}, |_| {});
            std::fs::write(&path, file).expect("room on the disk");
            let case = format!("{name}: {rows} rows without streams");
            for answer in checked(&runtime, &case, &path, &FLAT_QUERIES[..1]) {
                match (rows, answer) {
                    (0, answer) => {
                        let batches = answer.unwrap_or_else(|error| panic!("{case}: {error}"));
                        let mut found: Vec<i16> = batches.iter().flat_map(values).collect();
                        found.sort_unstable();
                        assert_eq!(found, shorts(&[60, 30]), "{case}");
                    }
                    (_, answer) => assert!(answer.is_err(), "{case}: rows that are not there"),
                }
            }
        }
    }
}
