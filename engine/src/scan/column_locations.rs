//! Where the values of every stripe are that a scan would read, without reading them: for plans that fetch in another way than
//! [`StripeScan`](super::stripe). Skips what statistics exclude, as the scan does. Local files only: there nothing has to be waited for.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{ArrayRef, StringArray};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use grampus_orc_layout::access::{Access, Direct};
use grampus_orc_layout::decode::{ColumnReader, dictionary_entries};
use grampus_orc_layout::encoded::EncodedColumn;
use grampus_orc_layout::index::ColumnIndex;
use grampus_orc_layout::schema::ColumnId;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::stripe::StripeLayout;

use super::Scan;
use super::metrics::ScanMetrics;
use super::scan_ranges::ScanRange;
use super::stripe_column::stored_bytes;
use super::stripe_scan::surviving_groups;
use crate::error::layout;
use crate::file::{IoCounters, Place, ScanSource};

/// Entries of a kind remembered at most; then all of that kind are forgotten.
const REMEMBERED: usize = 1 << 14;

/// A stripe of which rows may pass.
#[derive(Debug)]
pub(crate) struct StripeLocations {
    /// By position in [`Scan::files`].
    pub(crate) file: usize,
    /// Its footer.
    pub(crate) layout: Arc<StripeLayout>,
    /// Its rows that may pass: ascending, merged, not empty.
    pub(crate) selected: Vec<Range<u64>>,
    /// By position among the wanted columns.
    pub(crate) columns: Vec<ColumnLocation>,
}

/// Where a column's values of one stripe are.
#[derive(Debug, Clone)]
pub(crate) enum ColumnLocation {
    /// Raw, in these segments.
    Direct(Arc<Direct>),
    /// All rows have this value.
    Constant(ScalarValue),
    /// To be decoded with [`read`].
    Decoded {
        /// Bytes of all its rows in the file.
        stored_bytes: u64,
    },
}

/// What a session remembers of surveys. The direct columns of compressed files are found by reading a header per chunk, and a filter
/// is held against the statistics of each row group: both take longer than a short query.
#[derive(Debug, Default)]
pub(crate) struct LocationCache {
    /// By file number, stripe and column.
    direct: Bounded<(u64, usize, ColumnId), Option<Arc<Direct>>>,
    /// Which of the row groups may hold rows that pass.
    groups: Bounded<Filtered, Arc<[bool]>>,
}

/// Row groups of a file, and a filter.
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

/// A map that forgets everything when it is full.
#[derive(Debug)]
struct Bounded<K, V>(Mutex<HashMap<K, V>>);

impl<K, V> Default for Bounded<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq, V: Clone> Bounded<K, V> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, V>> {
        // Entries are put in whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, key: &K) -> Option<V> {
        self.lock().get(key).cloned()
    }

    fn insert(&self, key: K, value: V) {
        let mut known = self.lock();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(key, value);
    }
}

/// Row groups that statistics left, and all there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Groups {
    /// Of the stripes to be scanned.
    pub(crate) total: usize,
    /// Of those, excluded by the statistics of row groups.
    pub(crate) skipped: usize,
}

/// Whether all files of the scan are local.
pub(crate) fn is_local(scan: &Scan) -> bool {
    let mut files = scan.files.iter();
    files.all(|file| matches!(file.file.place, Place::Local(_)))
}

/// The stripes of `work` with the places of `columns` (of the table).
///
/// # Errors
/// A footer, an index or a chunk header cannot be read.
pub(crate) fn locate_columns(
    scan: &Scan,
    work: &[Vec<ScanRange>],
    columns: &[usize],
    known: &LocationCache,
) -> Result<(Vec<StripeLocations>, Groups)> {
    let mut stripes = Vec::new();
    let mut groups = Groups::default();
    let mut sources = Sources { scan, last: None };
    let metrics = ScanMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
    let filter: Filter = scan
        .conjuncts
        .iter()
        .map(|conjunct| Arc::clone(&conjunct.expr))
        .collect();
    for work in whole_stripes(work) {
        let file = &scan.files[work.file].file;
        let layout_of = at_once(scan.cache.stripe(file, work.stripe, &metrics.io))?.map_err(layout)?;
        let keep = surviving(scan, &work, &layout_of, &filter, known, &metrics)?;
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

/// Which row groups of a stripe may hold rows that pass the filter.
fn surviving(
    scan: &Scan,
    work: &ScanRange,
    layout_of: &StripeLayout,
    filter: &Filter,
    known: &LocationCache,
    metrics: &ScanMetrics,
) -> Result<Arc<[bool]>> {
    if scan.pruner.is_none() {
        return Ok(vec![true; work.groups.len()].into());
    }
    let file = &scan.files[work.file];
    // What a partition column holds is part of the filter, and no part of the file.
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
    let keep: Arc<[bool]> = at_once(surviving_groups(scan, work, layout_of, metrics))??.into();
    if is_file_alone {
        known.groups.insert(key, Arc::clone(&keep));
    }
    Ok(keep)
}

/// The work of all partitions, the shares of one stripe joined again.
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
fn at_once<T>(future: impl Future<Output = T>) -> Result<T> {
    future
        .now_or_never()
        .ok_or_else(|| internal_datafusion_err!("a local file was waited for"))
}

/// Files' bytes, for one survey: stripes come file by file, and each time a file is mapped it is asked how long it is.
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

/// A file's bytes.
fn open(scan: &Scan, file: usize, io: IoCounters) -> Result<Arc<ScanSource>> {
    let handle = scan.cache.handle(&scan.files[file].file).map_err(layout)?;
    handle.source(scan.options.local_io, io).map_err(layout)
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
    // As pruning takes them: claims that agree with each other are believed.
    if statistics.is_some_and(|s| s.values == Some(0) && s.has_null != Some(false)) {
        return Ok(ColumnLocation::Constant(ScalarValue::Null));
    }
    let key = (file.id, stripe.info.index, id);
    let direct = match known.direct.get(&key) {
        Some(direct) => direct,
        None => {
            let source = sources.of(number)?;
            let access = Access::of(&file.tail, stripe, id, None, source.as_ref(), true).map_err(layout)?;
            let direct = match access {
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
        },
    })
}

/// The values of `rows` of a table column in one stripe of a local file.
///
/// # Errors
/// As the scan's own: names the file and the place.
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
    // Values that lie raw are found without it.
    let mut index: Option<Arc<ColumnIndex>> = None;
    if let Access::Decode { .. } = access {
        let indexes = at_once(scan.cache.indexes(file, stripe, &[(id, false)], &io))?.map_err(layout)?;
        index = indexes.into_iter().next().flatten();
        access = access_by(index.as_deref(), false)?; // its chunks have been looked at
    }
    let (tail, stripe) = (Arc::clone(&file.tail), Arc::clone(stripe));
    let mut reader = ColumnReader::new(tail, stripe, id, index, access, source).map_err(layout)?;
    reader.read(&RowSelection::range(rows)).map_err(layout)
}

/// How a table column is stored in one stripe of a local file; `None` if in another way than [`EncodedColumn`] has it, or if its row
/// index cannot be read: [`read`] says why.
pub(crate) fn encoded(scan: &Scan, file: usize, stripe: &StripeLayout, column: usize) -> Option<EncodedColumn> {
    let table_file = &scan.files[file];
    let file = &table_file.file;
    let id = table_file.place_of(column).ok()?;
    let indexes = at_once(scan.cache.indexes(file, stripe, &[(id, false)], &IoCounters::default()));
    let index = indexes.ok()?.ok()?.into_iter().next().flatten();
    EncodedColumn::of(&file.tail, stripe, id, index.as_deref())
}

/// The entries of a table column's dictionary in one stripe of a local file.
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
    dictionary_entries(Arc::clone(&file.tail), Arc::clone(stripe), id, source).map_err(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_stripe_are_joined() {
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
