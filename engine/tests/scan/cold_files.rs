//! What a scan brings into the page cache of a file that is not in it.
//!
//! The bounds are arithmetic: bytes of whole columns, and a page for each single value. They hold whatever the disk's
//! `read_ahead_kb` is. The file's pages are counted, not what the disk reads: it also reads pages of this program that
//! other processes have driven out of memory.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::prelude::SessionContext;
use grampus_driver::raw::Mapping;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::WriterProperties;
use grampus_test_support::cold_files::{drop_pages, folder};
use tempfile::TempDir;

use super::common::{context_with, measured, register, write_orc};

const ROWS: usize = 1_000_000;
/// Bytes of a column of doubles.
const COLUMN: u64 = ROWS as u64 * 8;
const PAGE: u64 = 4096;
/// Footers, indexes, and pages at the ends of ranges.
const SLACK: u64 = 256 << 10;

/// Doubles: `x` is the row number, `y` and `z` follow from it. `n` is decoded, and so is `text`.
static TABLE: LazyLock<RecordBatch> = LazyLock::new(|| {
    let doubles = |scale: f64| -> ArrayRef {
        let rows = (0..ROWS).map(|row| row as f64 * scale);
        Arc::new(Float64Array::from_iter_values(rows))
    };
    let mixed = |row: usize| (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| mixed(row) as i64)));
    let texts = (0..ROWS).map(|row| format!("{:x}", mixed(row)));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let columns = [
        ("y", doubles(0.5)),
        ("x", doubles(1.0)),
        ("z", doubles(-1.0)),
        ("n", n),
        ("text", text),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
});

/// A file on a disk whose pages can be dropped.
struct ColdFile {
    _folder: TempDir,
    path: PathBuf,
}

impl ColdFile {
    /// `None`: there is no folder for it.
    fn new(codec: Option<Codec>) -> Option<Self> {
        let folder = folder()?;
        let file = Self {
            path: folder.path().join("t.orc"),
            _folder: folder,
        };
        let options = WriterProperties {
            codec,
            stripe_rows: ROWS / 4,
            ..WriterProperties::default()
        };
        write_orc(&file.path, std::slice::from_ref(&TABLE), options);
        drop_pages(&file.path);
        Some(file)
    }

    /// A session whose table `t` is the file. Nothing but the tail is read.
    async fn open(&self, local_io: &str) -> SessionContext {
        let settings = [("grampus.local_io", local_io), ("grampus.prune", "false")];
        let context = context_with(1, &settings).await;
        register(&context, "t", &self.path).await;
        context
    }

    /// Bytes of the pages that are in memory.
    fn loaded_bytes(&self) -> u64 {
        let file = File::open(&self.path).unwrap();
        let length = file.metadata().unwrap().len() as usize;
        let mapping = Mapping::new(&file, length).unwrap();
        let pages = (0..length).step_by(PAGE as usize);
        pages.filter(|&page| mapping.is_resident(page).unwrap()).count() as u64 * PAGE
    }

    /// Runs a query: the answer, what its scans moved by their own count, and what came into memory.
    async fn read_by(&self, context: &SessionContext, sql: &str) -> (String, u64, u64) {
        let before = self.loaded_bytes();
        let (answer, _, io) = measured(context, sql).await;
        (answer, io.moved_bytes, self.loaded_bytes().saturating_sub(before))
    }
}

/// Checks that the scan read at least nine tenths of `expected`, and not more than 1.2 times as much.
fn assert_near(read: u64, expected: u64, what: &str) {
    let shown = format!("{what}: {read} bytes read, {expected} expected");
    assert!(read <= expected * 12 / 10 + SLACK, "{shown}");
    assert!(read + SLACK >= expected * 9 / 10, "{shown}");
}

/// The answer of a column's sum over rows whose number modulo 4000 is `rest`, by arithmetic.
fn sum_of_rows(rest: u64) -> f64 {
    (0..ROWS as u64 / 4000).map(|k| (k * 4000 + rest) as f64).sum()
}

#[tokio::test]
async fn cold_file_reads_the_filter_column_and_a_page_for_each_value() {
    for local_io in ["mmap", "read"] {
        let Some(file) = ColdFile::new(None) else { return };
        let context = file.open(local_io).await;
        let rows = ROWS as u64 / 4000;
        let every = |rows: u64, rest: u64| format!("SELECT sum(y), sum(z) FROM t WHERE x % {rows} = {rest}");
        let (answer, _, read) = file.read_by(&context, &every(4000, 17)).await;
        let sum = sum_of_rows(17);
        let expected = [format!("{:?}", sum * 0.5), format!("{:?}", -sum)];
        assert!(expected.iter().all(|sum| answer.contains(sum)), "{answer} {expected:?}");
        assert_near(read, COLUMN + 2 * rows * PAGE, local_io);
        // The filter's column is in memory, the other rows' pages are not.
        let (_, _, read) = file.read_by(&context, &every(4000, 2017)).await;
        assert_near(read, 2 * rows * PAGE, &format!("{local_io}, other rows"));
        // Pages at some of the places are there: no value brings more than its page.
        let (_, _, read) = file.read_by(&context, &every(2000, 17)).await;
        assert!(read <= SLACK, "{local_io}: {read} bytes of pages that are there");
        let (_, _, read) = file.read_by(&context, &every(1000, 17)).await;
        assert_near(read, 2 * 2 * rows * PAGE, &format!("{local_io}, every second page"));
        let (_, _, read) = file.read_by(&context, &every(4000, 17)).await;
        assert!(read <= SLACK, "{local_io}: {read} bytes, all of them read before");
    }
}

#[tokio::test]
async fn cold_columns_are_read_whole_and_alone() {
    for local_io in ["mmap", "read"] {
        for codec in [None, Some(Codec::Snappy), Some(Codec::Zstd)] {
            let Some(file) = ColdFile::new(codec) else { return };
            let context = file.open(local_io).await;
            let what = format!("{local_io}, {codec:?}");
            for value in ["max(z + 1)", "sum(n)", "max(length(text))"] {
                let (_, moved, read) = file.read_by(&context, &format!("SELECT {value} FROM t")).await;
                assert!(moved > COLUMN / 32, "{what}, {value}: {moved} bytes");
                assert_near(read, moved, &format!("{what}, {value}"));
            }
        }
    }
}

#[tokio::test]
async fn cold_row_groups_are_read_where_rows_pass() {
    for local_io in ["mmap", "read"] {
        let Some(file) = ColdFile::new(None) else { return };
        let context = file.open(local_io).await;
        // A run of rows of each stripe.
        let sql = "SELECT sum(n), max(text) FROM t WHERE x % 250000 BETWEEN 100000 AND 104000";
        let (_, moved, read) = file.read_by(&context, sql).await;
        assert!(moved < 2 * COLUMN, "{moved} bytes");
        assert_near(read, moved, local_io);
    }
}

#[tokio::test]
async fn limit_of_a_cold_file_reads_a_batch() {
    for local_io in ["mmap", "read"] {
        let Some(file) = ColdFile::new(None) else { return };
        let context = file.open(local_io).await;
        let (_, _, read) = file.read_by(&context, "SELECT * FROM t LIMIT 5").await;
        // A batch of 8,192 rows, and 256 KiB of each decoded stream.
        assert!(
            read <= 3 * 8192 * 8 + 3 * (256 << 10) + SLACK,
            "{local_io}: {read} bytes"
        );
    }
}
