//! `StripeLocations`: the places in the file of a stripe's column values, for operators that fetch the values in
//! another way than [`StripeScan`](super::stripe_scan::StripeScan).
//!
//! 1. The ranges of all partitions are joined to whole stripes.
//! 2. Row groups that statistics exclude are skipped, as in the scan.
//! 3. Each column's place is found from the stripe's footer and, in compressed files, from its chunk headers.
//!
//! **Invariant:** all files are local, so no step waits.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

use arrow::array::{ArrayRef, StringArray};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use grampus_orc_layout::access::{Access, Direct};
use grampus_orc_layout::decode::{ColumnReader, dictionary_entries};
use grampus_orc_layout::encoded_column::{EncodedColumn, RawChunks};
use grampus_orc_layout::index::ColumnIndex;
use grampus_orc_layout::proto::stream::Kind;
use grampus_orc_layout::read_options::TimestampUnit;
use grampus_orc_layout::schema::ColumnId;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::stripe::StripeLayout;

use super::Scan;
use super::metrics::ScanMetrics;
use super::scan_ranges::ScanRange;
use super::stripe_column::{stored_bytes, unmapped};
use super::stripe_pruning::surviving_groups;
use crate::config::LocalIo;
use crate::error::layout;
use crate::file::{IoCounters, ScanSource};
use crate::table::column_types;

/// Maximum entries of a map in the cache. When a map is full, all of its entries are dropped.
const MAX_CACHED: usize = 1 << 14;

/// A stripe with rows that may pass the filter, and the places of its columns.
#[derive(Debug)]
pub(crate) struct StripeLocations {
    /// The file, by position in [`Scan::files`].
    pub(crate) file: usize,
    /// The stripe's footer.
    pub(crate) layout: Arc<StripeLayout>,
    /// The stripe's rows that may pass: ascending, merged, not empty.
    pub(crate) selected: Vec<Range<u64>>,
    /// Places by position among the wanted columns.
    pub(crate) columns: Vec<ColumnLocation>,
}

/// The place of a column's values in one stripe.
#[derive(Debug, Clone)]
pub(crate) enum ColumnLocation {
    /// Raw values in these segments.
    Direct(Arc<Direct>),
    /// All rows have this value.
    Constant(ScalarValue),
    /// Values that [`read`] decodes.
    Decoded {
        /// Bytes of all the column's rows in the file.
        stored_bytes: u64,
        /// False: no value is NULL.
        may_be_null: bool,
        /// As [`raw_chunk_bytes`] finds.
        chunk_bytes: Option<u64>,
    },
}

/// A session's cache of located columns and of surviving row groups.
///
/// To locate a direct column in a compressed file, each chunk's header is read. To find surviving row groups, a filter
/// is compared with the statistics of each one. Both take longer than a short query.
#[derive(Debug, Default)]
pub(crate) struct LocationCache {
    /// Direct columns by file number, stripe and column.
    direct: BoundedMap<(u64, usize, ColumnId), Option<Arc<Direct>>>,
    /// Decompressed bytes of a chunk, by file number and column.
    chunk_bytes: BoundedMap<(u64, ColumnId), u64>,
    /// For each row group of a range, whether it may have rows that pass.
    groups: BoundedMap<Filtered, Arc<[bool]>>,
}

/// The row groups of a file, and a filter over them.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Filtered {
    /// The file's number.
    file: u64,
    stripe: usize,
    groups: Range<usize>,
    filter: Filter,
}

/// Conditions that must all hold.
type Filter = Arc<[Arc<dyn PhysicalExpr>]>;

/// A map that drops all entries when it is full.
#[derive(Debug)]
struct BoundedMap<K, V>(Mutex<HashMap<K, V>>);

impl<K, V> Default for BoundedMap<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq, V: Clone> BoundedMap<K, V> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, V>> {
        // Entries are inserted whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, key: &K) -> Option<V> {
        self.lock().get(key).cloned()
    }

    fn insert(&self, key: K, value: V) {
        let mut known = self.lock();
        if known.len() >= MAX_CACHED {
            known.clear();
        }
        known.insert(key, value);
    }
}

/// Counts of row groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GroupCounts {
    /// Row groups of the stripes to scan.
    pub(crate) total: usize,
    /// Row groups among them that their statistics exclude.
    pub(crate) skipped: usize,
}

/// Stripes that a thread locates, at least: a thread's start takes about as long.
const MIN_STRIPES_PER_THREAD: usize = 2;

/// Locates the table columns `columns` in the stripes of `work`, on several threads: footers, row indexes and chunk
/// headers of a file that was not read before come from memory that no processor has touched.
///
/// # Errors
/// If a footer, an index or a chunk header cannot be read.
pub(crate) fn locate_columns(
    scan: &Scan,
    work: &[Vec<ScanRange>],
    columns: &[usize],
    known: &LocationCache,
) -> Result<(Vec<StripeLocations>, GroupCounts)> {
    let work = whole_stripes(work);
    let filter: Filter = scan
        .conjuncts
        .iter()
        .map(|conjunct| Arc::clone(&conjunct.expr))
        .collect();
    let processors = available_parallelism().map_or(1, usize::from);
    let threads = (work.len() / MIN_STRIPES_PER_THREAD).clamp(1, processors);
    let mut shares = work.chunks(work.len().div_ceil(threads).max(1));
    let own = shares.next().unwrap_or_default();
    let locate = |share| locate_stripes(scan, share, columns, &filter, known);
    let (mut stripes, mut groups) = (Vec::with_capacity(work.len()), GroupCounts::default());
    std::thread::scope(|scope| {
        let helpers: Vec<_> = shares.map(|share| scope.spawn(move || locate(share))).collect();
        let own = std::iter::once_with(|| locate(own));
        let others = helpers.into_iter().map(|helper| match helper.join() {
            Ok(located) => located,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        for located in own.chain(others) {
            let (of_share, counts) = located?;
            stripes.extend(of_share);
            groups.total += counts.total;
            groups.skipped += counts.skipped;
        }
        Ok((stripes, groups))
    })
}

/// As [`locate_columns`], for the stripes of one thread.
fn locate_stripes(
    scan: &Scan,
    work: &[ScanRange],
    columns: &[usize],
    filter: &Filter,
    known: &LocationCache,
) -> Result<(Vec<StripeLocations>, GroupCounts)> {
    let mut stripes = Vec::new();
    let mut groups = GroupCounts::default();
    let mut sources = Sources { scan, last: None };
    let metrics = ScanMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
    for work in work {
        let file = &scan.files[work.file].file;
        let layout_of = at_once(scan.cache.stripe(file, work.stripe, &metrics.io))?.map_err(layout)?;
        let keep = surviving(scan, work, &layout_of, filter, known, &metrics)?;
        scan.cache
            .handle(file)
            .and_then(|handle| handle.check())
            .map_err(layout)?;
        groups.total += keep.len();
        groups.skipped += keep.iter().filter(|keep| !**keep).count();
        let mut selected = RowSelection::new();
        for (group, _) in work.groups.clone().zip(&*keep).filter(|(_, keep)| **keep) {
            selected.push(layout_of.row_group_rows(&file.tail, group));
        }
        if selected.is_empty() {
            continue;
        }
        let mut places = Vec::with_capacity(columns.len());
        for &column in columns {
            places.push(find(&mut sources, work.file, &layout_of, column, known)?);
        }
        stripes.push(StripeLocations {
            file: work.file,
            layout: layout_of,
            selected: selected.ranges().to_vec(),
            columns: places,
        });
    }
    Ok((stripes, groups))
}

/// For each row group of a stripe, whether it may have rows that pass the filter.
fn surviving(
    scan: &Scan,
    work: &ScanRange,
    layout_of: &StripeLayout,
    filter: &Filter,
    known: &LocationCache,
    metrics: &ScanMetrics,
) -> Result<Arc<[bool]>> {
    let Some(pruner) = &scan.pruner else {
        return Ok(vec![true; work.groups.len()].into());
    };
    let file = &scan.files[work.file];
    // If the table has partition columns, the answer depends on their values too, which are no part of the key.
    let is_file_alone = file.partition_values.is_empty();
    let key = Filtered {
        file: file.file.id,
        stripe: work.stripe,
        groups: work.groups.clone(),
        filter: Arc::clone(filter),
    };
    if let Some(keep) = known.groups.get(&key).filter(|_| is_file_alone) {
        return Ok(keep);
    }
    let keep: Arc<[bool]> = at_once(surviving_groups(scan, pruner, work, layout_of, metrics))??.into();
    if is_file_alone {
        known.groups.insert(key, Arc::clone(&keep));
    }
    Ok(keep)
}

/// The ranges of all partitions, with adjacent ranges of one stripe joined.
fn whole_stripes(work: &[Vec<ScanRange>]) -> Vec<ScanRange> {
    let mut whole: Vec<ScanRange> = Vec::new();
    for share in work.iter().flatten() {
        match whole.last_mut() {
            Some(last)
                if (last.file, last.stripe, last.groups.end) == (share.file, share.stripe, share.groups.start) =>
            {
                last.groups.end = share.groups.end;
                last.rows += share.rows;
            }
            _ => whole.push(share.clone()),
        }
    }
    whole
}

/// The answer of a future over local files, which never waits.
pub(super) fn at_once<T>(future: impl Future<Output = T>) -> Result<T> {
    future
        .now_or_never()
        .ok_or_else(|| internal_datafusion_err!("a local file was waited for"))
}

/// The last opened file. Stripes come file by file, and each opening of a map asks the system for the file's length.
struct Sources<'a> {
    scan: &'a Scan,
    last: Option<(usize, Arc<ScanSource>)>,
}

impl Sources<'_> {
    fn of(&mut self, file: usize) -> Result<Arc<ScanSource>> {
        if let Some((_, source)) = self.last.as_ref().filter(|(last, _)| *last == file) {
            return Ok(Arc::clone(source));
        }
        let source = open(self.scan, file, IoCounters::default())?;
        self.last = Some((file, Arc::clone(&source)));
        Ok(source)
    }
}

/// Opens a file's bytes.
fn open(scan: &Scan, file: usize, io: IoCounters) -> Result<Arc<ScanSource>> {
    let handle = scan.cache.handle(&scan.files[file].file).map_err(layout)?;
    Ok(handle.source_at_once(scan.options.local_io, io))
}

fn find(
    sources: &mut Sources<'_>,
    number: usize,
    stripe: &Arc<StripeLayout>,
    column: usize,
    known: &LocationCache,
) -> Result<ColumnLocation> {
    let table_file = &sources.scan.files[number];
    let id = match table_file.place_of(column) {
        Ok(id) => id,
        Err(value) => return Ok(ColumnLocation::Constant(value)),
    };
    let file = &table_file.file;
    let statistics = file.tail.stripe_statistics.get(stripe.info.index);
    let statistics = statistics.and_then(|columns| columns.get(id as usize));
    // Like pruning, this believes claims that agree with each other.
    if statistics.is_some_and(|s| s.values == Some(0) && s.has_null != Some(false)) {
        return Ok(ColumnLocation::Constant(ScalarValue::Null));
    }
    let key = (file.id, stripe.info.index, id);
    let direct = match known.direct.get(&key) {
        _ if table_file.is_converted(column) => None, // `read` converts the values
        Some(direct) => direct,
        None => {
            let source = sources.of(number)?;
            let access = Access::of(&file.tail, stripe, id, None, source.as_ref(), true);
            source.check().map_err(layout)?;
            let direct = match access.map_err(layout)? {
                Access::Direct(direct) => Some(Arc::new(direct)),
                Access::Decode { .. } => None,
            };
            known.direct.insert(key, direct.clone());
            direct
        }
    };
    Ok(match direct {
        Some(direct) => ColumnLocation::Direct(direct),
        None => ColumnLocation::Decoded {
            stored_bytes: stored_bytes(&file.tail.schema, stripe, id),
            // A conversion may turn a value into NULL.
            may_be_null: has_present(stripe, id) || table_file.is_converted(column),
            chunk_bytes: raw_chunk_bytes(sources, number, stripe, id, known),
        },
    })
}

/// Reads the values of `rows` of a table column in one stripe of a local file.
///
/// # Errors
/// As in the scan: the error names the file and the place.
pub(crate) fn read(
    scan: &Scan,
    number: usize,
    stripe: &Arc<StripeLayout>,
    column: usize,
    rows: Range<u64>,
) -> Result<ArrayRef> {
    let table_file = &scan.files[number];
    let file = &table_file.file;
    let id = match table_file.place_of(column) {
        Ok(id) => id,
        Err(value) => return value.to_array_of_size((rows.end - rows.start) as usize),
    };
    let io = IoCounters::default();
    let source = open(scan, number, io.clone())?;
    let access_by = |index: Option<&ColumnIndex>, probe_chunks| {
        Access::of(&file.tail, stripe, id, index, source.as_ref(), probe_chunks).map_err(layout)
    };
    let mut access = access_by(None, true)?;
    // Raw values are found without an index.
    let mut index: Option<Arc<ColumnIndex>> = None;
    if let Access::Decode { .. } = access {
        let indexes = at_once(scan.cache.indexes(file, stripe, &[(id, false)], &io))?.map_err(layout)?;
        index = indexes.into_iter().next().flatten();
        access = access_by(index.as_deref(), false)?; // the first call has probed the chunks
    }
    let (tail, stripe) = (Arc::clone(&file.tail), Arc::clone(stripe));
    let (options, bytes) = (scan.read_options(column), Arc::clone(&source) as _);
    let mut reader = ColumnReader::with_options(tail, stripe, id, index, access, bytes, options).map_err(layout)?;
    let values = reader.read(&RowSelection::range(rows)).map_err(layout);
    let values = values.map(|values| unmapped(values, &source));
    source.check().map_err(layout)?;
    match table_file.is_converted(column) {
        true => column_types::convert(&values?, scan.table.field(column).data_type()),
        false => values,
    }
}

/// The encoded form of a table column in one stripe of a local file.
///
/// `None`: the file's type is narrower than the table's, [`EncodedColumn`] does not support the encoding, the row index
/// or a chunk header is unreadable, or the device would decode other values. [`read`] gives the values, or the error.
pub(crate) fn encoded(scan: &Scan, number: usize, stripe: &StripeLayout, column: usize) -> Option<EncodedColumn> {
    if !decodes_on_device(scan, column) {
        return None;
    }
    let table_file = &scan.files[number];
    if table_file.is_converted(column) {
        return None;
    }
    let file = &table_file.file;
    let id = table_file.place_of(column).ok()?;
    let indexes = at_once(scan.cache.indexes(file, stripe, &[(id, false)], &IoCounters::default()));
    let index = indexes.ok()?.ok()?.into_iter().next().flatten();
    // Chunk headers lie in pages of their own: to map a page takes longer than to read a few bytes of it.
    let handle = scan.cache.handle(file).ok()?;
    let source = handle.source_at_once(LocalIo::Read, IoCounters::default());
    let column = EncodedColumn::of(&file.tail, stripe, id, index.as_deref(), source.as_ref());
    source.check().ok()?;
    column
}

/// Whether a stripe says of each row whether a column has a value. Otherwise all rows have one.
fn has_present(stripe: &StripeLayout, id: ColumnId) -> bool {
    let present = stripe.stream(id, Kind::Present);
    present.is_some_and(|stream| stream.length > 0)
}

/// Decompressed bytes of a chunk of a file's column in one stripe, if the values lie raw in compression chunks and none
/// is missing. The first chunk is asked, once for a file.
fn raw_chunk_bytes(
    sources: &mut Sources<'_>,
    number: usize,
    stripe: &StripeLayout,
    id: ColumnId,
    known: &LocationCache,
) -> Option<u64> {
    let file = &sources.scan.files[number].file;
    if file.tail.compression.is_none() || has_present(stripe, id) {
        return None;
    }
    let key = (file.id, id);
    if let Some(bytes) = known.chunk_bytes.get(&key) {
        return Some(bytes);
    }
    let source = sources.of(number).ok()?;
    let chunks = RawChunks::of(&file.tail, stripe, id, source.as_ref());
    source.check().ok()?;
    let RawChunks { bytes, is_alone } = chunks?;
    // A chunk that holds a whole stripe's values says nothing of other stripes.
    if !is_alone {
        known.chunk_bytes.insert(key, bytes);
    }
    Some(bytes)
}

/// Whether a device's decoder gives the values of [`read`]. It knows timestamps in nanoseconds only.
pub(crate) fn decodes_on_device(scan: &Scan, column: usize) -> bool {
    scan.read_options(column).timestamp_unit == TimestampUnit::Nanosecond
}

/// Reads the entries of a table column's dictionary in one stripe of a local file.
///
/// # Errors
/// As [`read`]'s.
pub(crate) fn dictionary(scan: &Scan, number: usize, stripe: &Arc<StripeLayout>, column: usize) -> Result<StringArray> {
    let table_file = &scan.files[number];
    let file = &table_file.file;
    let Ok(id) = table_file.place_of(column) else {
        return Err(internal_datafusion_err!(
            "a column without a place in the file has no dictionary"
        ));
    };
    let source = open(scan, number, IoCounters::default())?;
    let (options, bytes) = (scan.read_options(column), Arc::clone(&source) as _);
    let entries = dictionary_entries(Arc::clone(&file.tail), Arc::clone(stripe), id, bytes, options);
    source.check().map_err(layout)?;
    entries.map_err(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_stripes_joins_the_ranges_of_a_stripe() {
        let work = |stripe, groups: Range<usize>| ScanRange {
            file: 0,
            stripe,
            rows: groups.len() as u64 * 10_000,
            groups,
            stride: Some(10_000),
        };
        let dealt = [
            vec![work(0, 0..5)],
            vec![work(0, 5..9), work(1, 0..2)],
            vec![work(1, 2..3), work(3, 0..1)],
        ];
        assert_eq!(whole_stripes(&dealt), [work(0, 0..9), work(1, 0..3), work(3, 0..1)]);
    }
}
