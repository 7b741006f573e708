//! What a writer says that it holds in memory is what it has allocated, and `flush` frees it.

mod tables;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};
use tables::{Nulls, every_type};

/// Counts the bytes of the program's allocations.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
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

/// Rows that are written at a time.
const ROWS: usize = 2_000;
/// Bytes of a column's encoders that are not counted, or counted too high.
const COLUMN_BYTES: usize = 2 << 10;

/// One test for the program: allocations of others would be counted.
#[test]
fn memory_of_a_writer_is_counted_and_flushed() {
    let table = every_type(40_000, Nulls::Some, 5);
    let columns = table.num_columns() + 10; // with elements and fields
    for codec in [None, Some(Codec::Snappy), Some(Codec::Zstd)] {
        for row_index_stride in [1_000, 10_000] {
            let options = WriterProperties {
                codec,
                row_index_stride,
                bloom_filter_columns: vec!["word".into()],
                ..WriterProperties::default()
            };
            let before = ALLOCATED.load(Ordering::Relaxed);
            let allocated = || ALLOCATED.load(Ordering::Relaxed).saturating_sub(before);
            let mut writer = ArrowWriter::try_new(std::io::sink(), table.schema(), Some(options)).unwrap();
            let mut most = 0;
            for start in (0..table.num_rows()).step_by(ROWS) {
                writer.write(&table.slice(start, ROWS)).unwrap();
                let (real, said) = (allocated(), writer.memory_size());
                most = most.max(said);
                let place = format!("{codec:?}, row {start}: {said} of {real}");
                assert!(said + real / 8 + columns * COLUMN_BYTES >= real, "too low: {place}");
                assert!(real + said / 8 + columns * COLUMN_BYTES >= said, "too high: {place}");
            }
            assert!(most > 1 << 20, "{most}");
            writer.flush().unwrap();
            let (real, said) = (allocated(), writer.memory_size());
            assert!(real < columns * COLUMN_BYTES, "{real} bytes after the stripe");
            assert!(said < columns * COLUMN_BYTES, "{said} bytes after the stripe");
            let stripes = writer.finish().unwrap();
            assert_eq!(stripes.stripes.len(), 1);
        }
    }
}
