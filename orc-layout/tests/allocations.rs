//! What a read allocates is bounded, whatever a file claims: text, dictionaries, lists and maps of every codec that
//! expand a thousandfold and more.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{
    Array, ArrayRef, BinaryArray, Int64Array, ListArray, MapArray, RecordBatch, StringArray, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use bytes::Bytes;
use grampus_orc_layout::access::Access;
use grampus_orc_layout::arrow_reader::OrcReaderBuilder;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::decode::ColumnReader;
use grampus_orc_layout::metadata_reader::read_tail;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::stripe::StripeLayout;
use grampus_orc_layout::tail::FileTail;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};
use grampus_orc_layout::{LayoutError, Result};

mod common;
use common::Memory;

/// Counts the bytes of the program's allocations.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn count(bytes: usize) {
    let now = ALLOCATED.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Rows of a file, and bytes of each value.
const ROWS: usize = 40;
const VALUE_BYTES: usize = 1 << 20;
/// What one read may decode.
const LIMIT_BYTES: u64 = 4 << 20;
/// Times the limit that a read may allocate: buffers grow by doubling, and lists have offsets beside their elements.
const MOST: usize = 5;
/// The dictionary of the test, with copies, and chunks.
const FIXED_BYTES: usize = 12 << 20;

fn columns() -> Vec<(&'static str, ArrayRef)> {
    let text = "a".repeat(VALUE_BYTES);
    // A different first letter for each row keeps the writer from a dictionary.
    let texts: StringArray = (0..ROWS).map(|row| Some(format!("{row:02}{text}"))).collect();
    let binary: BinaryArray = (0..ROWS).map(|_| Some(text.as_bytes())).collect();
    let repeated: StringArray = (0..ROWS).map(|_| Some(text.as_str())).collect();
    let elements = VALUE_BYTES / 8;
    let offsets = || OffsetBuffer::from_lengths(std::iter::repeat_n(elements, ROWS));
    let zeros = || Arc::new(Int64Array::from(vec![0; elements * ROWS])) as ArrayRef;
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let list = ListArray::new(item, offsets(), zeros(), None);
    let entries = StructArray::from(vec![
        (Arc::new(Field::new("key", DataType::Int64, false)), zeros()),
        (Arc::new(Field::new("value", DataType::Int64, true)), zeros()),
    ]);
    let entries_field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
    let map = MapArray::new(entries_field, offsets(), entries, None, false);
    vec![
        ("text", Arc::new(texts)),
        ("binary", Arc::new(binary)),
        ("dictionary", Arc::new(repeated)),
        ("list", Arc::new(list)),
        ("map", Arc::new(map)),
    ]
}

/// A file with one column.
fn file(name: &str, column: &ArrayRef, codec: Codec) -> Bytes {
    let batch = RecordBatch::try_from_iter_with_nullable([(name, Arc::clone(column), true)]).unwrap();
    let options = WriterProperties {
        codec: Some(codec),
        direct_columns: Vec::new(),
        ..WriterProperties::default()
    };
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(options)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap().into()
}

struct Opened {
    tail: Arc<FileTail>,
    source: Arc<Memory>,
}

impl Opened {
    fn new(bytes: Bytes) -> Self {
        let (length, source) = (bytes.len() as u64, Arc::new(Memory(bytes)));
        let tail = Arc::new(read_tail(&"bomb.orc".into(), length, source.as_ref()).unwrap());
        Self { tail, source }
    }

    fn reader(&self) -> Result<ColumnReader> {
        let footer = self.source.read(self.tail.stripes[0].footer_range())?;
        let stripe = Arc::new(StripeLayout::parse(&self.tail, 0, &footer)?);
        let access = Access::of(&self.tail, &stripe, 1, None, self.source.as_ref(), false)?;
        let source: Arc<dyn ByteSource> = Arc::clone(&self.source) as _;
        ColumnReader::new(Arc::clone(&self.tail), stripe, 1, None, access, source)
    }
}

/// Reads all rows by the reader's builder, batch after batch, and compares them with `column`. Returns their number.
fn read_batches(bytes: &Bytes, column: &ArrayRef) -> usize {
    let builder = OrcReaderBuilder::try_new(bytes.clone()).unwrap();
    let reader = builder.with_batch_bytes(LIMIT_BYTES).build().unwrap();
    let mut rows = 0;
    for batch in reader {
        let values = batch.unwrap().column(0).clone();
        assert!(values.to_data() == column.slice(rows, values.len()).to_data());
        rows += values.len();
    }
    rows
}

/// The result of `work`, and the bytes allocated at once meanwhile beside those before.
fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = work();
    (result, PEAK.load(Ordering::Relaxed).saturating_sub(before))
}

/// One test: another thread's allocations would count too.
#[test]
fn reads_allocate_a_small_multiple_of_their_limit() {
    for (name, column) in columns() {
        for codec in [Codec::Zlib, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let bytes = file(name, &column, codec);
            assert!(
                bytes.len() < ROWS * VALUE_BYTES / 8,
                "{name} {codec:?}: {} bytes",
                bytes.len()
            );
            let opened = Opened::new(bytes);
            let all = RowSelection::range(0..ROWS as u64);
            let mut reader = opened.reader().unwrap();
            let (read, peak) = measured(|| reader.read_within(&all, LIMIT_BYTES));
            let error = read.unwrap_err();
            assert!(
                matches!(error, LayoutError::TooLarge { rows: 40, .. }),
                "{name}: {error}"
            );
            assert!(error.to_string().contains(&format!("column {name}")), "{error}");
            let most = MOST * LIMIT_BYTES as usize + FIXED_BYTES;
            assert!(peak < most, "{name} {codec:?}: {peak} of {most} bytes");
            // A reader of batches returns fewer rows at once.
            let (rows, peak) = measured(|| read_batches(&opened.source.0, &column));
            assert_eq!(rows, ROWS, "{name} {codec:?}");
            assert!(peak < most, "{name} {codec:?}: {peak} of {most} bytes");
            // The same reader reads fewer rows at once.
            for start in [0, 7, 38] {
                let two = RowSelection::range(start..start + 2);
                let (read, peak) = measured(|| reader.read_within(&two, LIMIT_BYTES));
                let read = read.unwrap_or_else(|error| panic!("{name} {codec:?}: {error}"));
                assert_eq!(
                    &read.to_data(),
                    &column.slice(start as usize, 2).to_data(),
                    "{name} {codec:?}"
                );
                assert!(peak < most, "{name} {codec:?}: {peak} of {most} bytes");
            }
        }
    }
}
