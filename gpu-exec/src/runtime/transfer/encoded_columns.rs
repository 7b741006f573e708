//! Columns that are brought as they are stored, to be decoded on the device: which these are, how they are stored, and the jobs for them.
//! What the device cannot decode is left to the CPU, column by column.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::decode::decode_batch::{DecodeBatch, batches};
use crate::input::Placement;
use crate::input::encoded_column::EncodedColumn;
use crate::input::file_registry::FileId;
use crate::runtime::memory::copy_target::CopyTarget;
use crate::runtime::transfer::copy_job::{CopyJob, CopySource, EncodedCopy};
use crate::runtime::transfer::transfer_plan::{Builder, MAX_COPY_BYTES};

/// What the device does not decode, though its layout would allow it: it was tried.
#[derive(Debug, Default)]
pub(crate) struct CpuDecodeSet {
    columns: HashSet<(FileId, u32)>,
    /// For the rest of the running query.
    everything: bool,
}

impl CpuDecodeSet {
    /// The running query ended.
    pub(crate) fn finish(&mut self) {
        self.everything = false;
    }

    /// The device had no answer for a column of a file: the running query is decoded by the CPU, and this column always.
    pub(crate) fn leave(&mut self, file: FileId, column: u32) {
        self.columns.insert((file, column));
        self.everything = true;
    }

    /// Whether the CPU decodes a column.
    pub(crate) fn has(&self, file: FileId, column: u32) -> bool {
        self.everything || self.columns.contains(&(file, column))
    }

    /// Forgets a file.
    pub(crate) fn forget(&mut self, file: FileId) {
        self.columns.retain(|(of, _)| *of != file);
    }
}

impl Builder<'_, '_> {
    /// Asks how columns of stripes are stored, by several threads: their row indexes may have to be read.
    pub(crate) fn look_how_stored(&mut self, places: &[(usize, usize)]) {
        let wanted = |&&(stripe, column): &&(usize, usize)| self.may_decode(stripe, column);
        let wanted: Vec<(usize, usize)> = places.iter().filter(wanted).copied().collect();
        let next = AtomicUsize::new(0);
        let this = &*self;
        let look = || {
            let mut found = Vec::new();
            while let Some(&(stripe, column)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                found.push(((stripe, column), this.how_stored(stripe, column)));
            }
            found
        };
        let found: Vec<_> = std::thread::scope(|scope| {
            let threads = this.means.threads.min(wanted.len()).saturating_sub(1);
            let helpers: Vec<_> = (0..threads).map(|_| scope.spawn(look)).collect();
            let mut found = look();
            found.extend(helpers.into_iter().flat_map(|helper| helper.join().unwrap_or_default()));
            found
        });
        self.stored.extend(found);
    }

    fn may_decode(&self, stripe: usize, column: usize) -> bool {
        let at = &self.request.input.stripes[stripe];
        let id = self.request.input.column_ids[column];
        matches!(at.columns[column], Placement::Decoded { on_device: true, .. })
            && !self.means.cpu_decode.has(self.means.file_ids[at.file], id)
    }

    fn how_stored(&self, stripe: usize, column: usize) -> Option<Arc<EncodedColumn>> {
        let input = self.request.input;
        let at = &input.stripes[stripe];
        let encoded = input.decoder.encoded(stripe, column)?;
        let file_bytes = input.files[at.file].bytes;
        encoded.fits(self.ty(column), at.rows, file_bytes).then_some(encoded)
    }

    /// Rows of a stripe's column in batches for the device to decode; `None`: the CPU does.
    pub(crate) fn batches(
        &mut self,
        stripe: usize,
        column: usize,
        rows: &Range<u64>,
    ) -> Option<(Arc<EncodedColumn>, Vec<DecodeBatch>)> {
        if !self.may_decode(stripe, column) {
            return None;
        }
        let encoded = match self.stored.get(&(stripe, column)) {
            Some(known) => known.clone(),
            None => {
                let found = self.how_stored(stripe, column);
                self.stored.insert((stripe, column), found.clone());
                found
            }
        }?;
        let batches = batches(&encoded, rows.clone(), MAX_COPY_BYTES as usize)?;
        Some((encoded, batches))
    }

    /// Jobs for batches of a stripe's column, whose first row's value goes to `to`.
    pub(crate) fn stored_jobs(
        &mut self,
        (stripe, column): (usize, usize),
        (encoded, batches): (Arc<EncodedColumn>, Vec<DecodeBatch>),
        to: &CopyTarget,
        valid: Option<&CopyTarget>,
        window: usize,
    ) {
        let width = self.ty(column).width();
        let first = batches.first().map_or(0, |batch| batch.rows.start);
        for batch in batches {
            let row = (batch.rows.start - first) as usize;
            self.out.jobs.push(CopyJob {
                first_row: self.bases[stripe] + batch.rows.start,
                window,
                to: to.behind(row * width as usize),
                what: CopySource::Encoded(Box::new(EncodedCopy {
                    file: self.request.input.stripes[stripe].file,
                    stripe,
                    column,
                    width,
                    encoded: encoded.clone(),
                    batch,
                    valid: valid.map(|valid| valid.behind(row)),
                    staged: None,
                })),
            });
        }
    }
}
