//! `EncodedColumns`: columns that are copied in their stored form and decoded on the device: how they are stored, and
//! the copy jobs for them. `CpuDecodeSet` has the columns that the device could not decode, which the CPU decodes
//! instead.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use grampus_orc_layout::encoded_column::EncodedColumn;

use crate::decode::decode_batch::{DecodeBatch, batches};
use crate::decode::straight_run::straight_chunk_rows;
use crate::input::encoded_check::fits;
use crate::input::file_registry::FileId;
use crate::options::{Place, Request};
use crate::runtime::memory::copy_target::CopyTarget;
use crate::runtime::memory::pinned_ring::MAX_COPY_BYTES;
use crate::runtime::memory::residency::Residency;
use crate::runtime::transfer::column_locator::MissingColumn;
use crate::runtime::transfer::copy_job::{CopyJob, CopySource, EncodedCopy};
use crate::validity;

/// Columns that the device failed to decode although their layout allows it.
#[derive(Debug)]
pub(crate) struct CpuDecodeSet<'a> {
    pub(crate) residency: &'a Residency,
    /// An earlier attempt at the query failed so: the CPU decodes everything.
    pub(crate) everything: bool,
}

impl CpuDecodeSet<'_> {
    /// Whether the CPU decodes a column.
    fn has(&self, file: FileId, column: u32) -> bool {
        self.everything || self.residency.known().is_decoded_by_cpu(file, column)
    }
}

/// How a query's columns are stored, by stripe and column, as far as this was looked up.
#[derive(Debug)]
pub(crate) struct EncodedColumns<'a> {
    request: &'a Request<'a>,
    /// By file of the input.
    file_ids: &'a [FileId],
    cpu_decode: &'a CpuDecodeSet<'a>,
    /// `None`: the CPU decodes it.
    known: HashMap<(usize, usize), Option<Arc<EncodedColumn>>>,
}

impl<'a> EncodedColumns<'a> {
    pub(crate) fn new(request: &'a Request<'a>, file_ids: &'a [FileId], cpu_decode: &'a CpuDecodeSet<'a>) -> Self {
        Self {
            request,
            file_ids,
            cpu_decode,
            known: HashMap::new(),
        }
    }

    /// Asks the input how columns are stored, on several threads: their row indexes may have to be read.
    pub(crate) fn look_up(&mut self, missing: &[MissingColumn], threads: usize) {
        let places = missing.iter().map(|m| (m.stripe, m.column));
        let wanted: Vec<(usize, usize)> = places.filter(|place| self.may_decode(*place)).collect();
        let next = AtomicUsize::new(0);
        let this = &*self;
        let look = || {
            let mut found = Vec::new();
            while let Some(&place) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                found.push((place, stored_form(this.request, place)));
            }
            found
        };
        let found: Vec<_> = std::thread::scope(|scope| {
            let threads = threads.min(wanted.len()).saturating_sub(1);
            let helpers: Vec<_> = (0..threads).map(|_| scope.spawn(look)).collect();
            let mut found = look();
            let panicked = |panic| std::panic::resume_unwind(panic);
            found.extend(
                helpers
                    .into_iter()
                    .flat_map(|helper| helper.join().unwrap_or_else(panicked)),
            );
            found
        });
        self.known.extend(found);
    }

    /// Whether the device decodes a stripe's column, as far as the metadata tells.
    pub(crate) fn may_decode(&self, (stripe, column): (usize, usize)) -> bool {
        let at = &self.request.input.stripes[stripe];
        let id = self.request.input.column_ids[column];
        matches!(self.request.place(at, column), Place::Decoded { on_device: true, .. })
            && !self.cpu_decode.has(self.file_ids[at.file], id)
    }

    /// Rows of a stripe's column in batches for the device to decode.
    fn batches(
        &mut self,
        place: (usize, usize),
        rows: &Range<u64>,
        has_validity: bool,
    ) -> Option<(Arc<EncodedColumn>, Vec<DecodeBatch>)> {
        let encoded = self.of(place)?;
        if has_validity && !validity::groups_have_bytes(rows, encoded.group_rows) {
            return None;
        }
        let stored = self.request.program.columns[place.1].stored;
        let straight = stored.straight_bytes().filter(|_| !has_validity);
        let batches = batches(&encoded, rows.clone(), MAX_COPY_BYTES as usize, straight)?;
        Some((encoded, batches))
    }

    /// How a stripe's column is stored. `None`: the CPU decodes it.
    fn of(&mut self, place: (usize, usize)) -> Option<Arc<EncodedColumn>> {
        if !self.may_decode(place) {
            return None;
        }
        match self.known.get(&place) {
            Some(known) => known.clone(),
            None => {
                let found = stored_form(self.request, place);
                self.known.insert(place, found.clone());
                found
            }
        }
    }

    /// Rows of each chunk of a stripe's column, if its values are decompressed to their places. `None`: they are
    /// decoded.
    pub(crate) fn straight_chunk_rows(&mut self, place: (usize, usize)) -> Option<u64> {
        let width = self.request.program.columns[place.1].stored.straight_bytes()?;
        straight_chunk_rows(&*self.of(place)?, width)
    }

    /// The jobs that copy rows of a stripe's column for the device to decode. The first row's value goes to `to`;
    /// `base`: the stripe's first row. `None`: the CPU decodes them.
    pub(crate) fn jobs(
        &mut self,
        place @ (stripe, column): (usize, usize),
        base: u64,
        rows: &Range<u64>,
        to: &CopyTarget,
        valid: Option<&CopyTarget>,
    ) -> Option<Vec<CopyJob>> {
        let (encoded, batches) = self.batches(place, rows, valid.is_some())?;
        let file = self.request.input.stripes[stripe].file;
        let stored = self.request.program.columns[column].stored;
        let first = batches.first().map_or(0, |batch| batch.rows.start);
        let job = |batch: DecodeBatch| {
            let row = (batch.rows.start - first) as usize;
            CopyJob {
                first_row: base + batch.rows.start,
                window: 0,
                to: to.behind(row * stored.bytes() as usize),
                source: CopySource::Encoded(Box::new(EncodedCopy {
                    file,
                    stripe,
                    column,
                    stored,
                    encoded: encoded.clone(),
                    batch,
                    valid: valid.map(|valid| valid.behind(validity::byte_of(row as u64) as usize)),
                    staged: None,
                })),
            }
        };
        Some(batches.into_iter().map(job).collect())
    }
}

/// How a stripe's column is stored; `None`: the CPU decodes it.
pub(crate) fn stored_form(request: &Request<'_>, (stripe, column): (usize, usize)) -> Option<Arc<EncodedColumn>> {
    let input = request.input;
    let at = &input.stripes[stripe];
    let encoded = input.decoder.encoded(stripe, column)?;
    let (ty, file_bytes) = (request.program.columns[column].ty, input.files[at.file].bytes);
    let decompresses = |codec| request.decompression.of(codec).is_some();
    (encoded.codec().is_none_or(decompresses) && fits(&encoded, ty, at.rows, file_bytes)).then_some(encoded)
}
