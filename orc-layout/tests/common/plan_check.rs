//! Planned byte ranges against the decoder's reads.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow::array::UInt64Array;
use arrow::compute::{cast, take};
use bytes::Bytes;
use grampus_orc_layout::access::{Access, byte_ranges};
use grampus_orc_layout::decode::ColumnReader;
use grampus_orc_layout::read_options::{Dictionaries, ReadOptions};
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::{Result, metadata_reader};

use super::{Memory, Random};

/// A source that records every read.
struct Watched {
    memory: Memory,
    read: Mutex<Vec<Range<u64>>>,
}

impl ByteSource for Watched {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.read.lock().unwrap().push(range.clone());
        self.memory.read(range)
    }
}

/// A few rows, alone or in runs.
fn some_rows(rows: u64, random: &mut Random) -> RowSelection {
    let mut selection = RowSelection::new();
    let mut at = random.below(rows as usize) as u64;
    for _ in 0..1 + random.below(4) {
        if at >= rows {
            break;
        }
        let end = (at + 1 + [0, 3, 200][random.below(3)]).min(rows);
        selection.push(at..end);
        at = end + random.below(rows as usize) as u64 / 2;
    }
    selection
}

/// Findings about a file's plans.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    /// Number of plans.
    pub(crate) plans: usize,
    /// Number of plans for less than half of a stripe's data.
    pub(crate) partial: usize,
    pub(crate) direct_columns: usize,
    pub(crate) seekable_columns: usize,
    /// Number of reads that kept a dictionary.
    pub(crate) dictionaries: usize,
}

/// Checks some rows of every column of the first stripes: nothing is read outside the plan, and the values are those of
/// a full read.
pub(crate) fn check_plans(file: &str, bytes: Bytes, random: &mut Random, found: &mut Plans) {
    let length = bytes.len() as u64;
    let source = Arc::new(Watched {
        memory: Memory(bytes),
        read: Mutex::default(),
    });
    let tail = Arc::new(metadata_reader::read_tail(&file.into(), length, &*source).unwrap());
    for info in tail.stripes.iter().filter(|info| info.rows > 0).take(3) {
        let stripe = Arc::new(metadata_reader::read_stripe(&tail, &*source, info.index).unwrap());
        for &column in tail.schema.fields() {
            let index = Arc::new(metadata_reader::read_index(&tail, &stripe, &*source, column).unwrap());
            let access = Access::of(&tail, &stripe, column, Some(&index), &*source, true).unwrap();
            let open_with = |options| {
                let (tail, stripe, index) = (tail.clone(), stripe.clone(), index.clone());
                let (access, source) = (access.clone(), source.clone());
                ColumnReader::with_options(tail, stripe, column, Some(index), access, source, options).unwrap()
            };
            let open = || open_with(ReadOptions::default());
            let mut kept = open_with(ReadOptions::new().with_dictionaries(Dictionaries::Keep));
            let whole = open().read(&RowSelection::range(0..info.rows)).unwrap();
            found.seekable_columns += usize::from(access == Access::Decode { seekable: true });
            found.direct_columns += usize::from(matches!(access, Access::Direct(_)));
            for _ in 0..3 {
                let rows = some_rows(info.rows, random);
                let place = format!("{file} stripe {} column {column} rows {:?}", info.index, rows.ranges());
                let plan = byte_ranges(&tail, &stripe, column, Some(&index), &access, &rows).unwrap();
                source.read.lock().unwrap().clear();
                let values = open().read(&rows).unwrap();
                let wanted = UInt64Array::from_iter_values(rows.iter());
                assert_eq!(&values, &take(&whole, &wanted, None).unwrap(), "{place}");
                let coded = kept.read(&rows).unwrap();
                found.dictionaries += usize::from(coded.data_type() != values.data_type());
                assert_eq!(&cast(&coded, values.data_type()).unwrap(), &values, "{place}");
                for read in source.read.lock().unwrap().iter().filter(|read| !read.is_empty()) {
                    let inside = |plan: &Range<u64>| plan.start <= read.start && read.end <= plan.end;
                    assert!(plan.iter().any(inside), "{place}: read {read:?} of {plan:?}");
                }
                let planned: u64 = plan.iter().map(|range| range.end - range.start).sum();
                found.plans += 1;
                found.partial += usize::from(planned < info.data_length / 2);
            }
        }
    }
}
