//! `JobList`: the copy jobs of a query while they are collected.

use std::ops::Range;

use crate::error::RunError;
use crate::options::Request;
use crate::runtime::memory::cached_column::CachedColumn;
use crate::runtime::memory::copy_target::CopyTarget;
use crate::runtime::memory::pinned_ring::MAX_COPY_BYTES;
use crate::runtime::transfer::column_locator::MissingColumn;
use crate::runtime::transfer::copy_job::{CopyJob, MAX_COPY_ROWS, copy_job};
use crate::runtime::transfer::encoded_columns::EncodedColumns;
use crate::validity;

/// Bytes of a copy while other threads read pages: a chunk of this size stays in the CPU's caches from the page cache
/// to the link and takes three quarters of the CPU time. The link takes 4 % longer.
const COPY_BYTES_BESIDE_FAULTS: u64 = MAX_COPY_BYTES / 2;

/// Rows of a job whose chunks are decompressed to their places, in multiples of other jobs': such a job takes no more
/// space than its stored bytes, and the link is faster with long copies.
const STRAIGHT_COPIES: u64 = 4;

/// Jobs, in the order in which they were added.
#[derive(Debug)]
pub(crate) struct JobList<'a> {
    request: &'a Request<'a>,
    /// First row of each stripe, counted over all of them.
    pub(crate) first_rows: Vec<u64>,
    pub(crate) encoded: EncodedColumns<'a>,
    pub(crate) jobs: Vec<CopyJob>,
}

impl<'a> JobList<'a> {
    pub(crate) fn new(request: &'a Request<'a>, encoded: EncodedColumns<'a>) -> Self {
        Self {
            request,
            first_rows: request.input.first_rows(),
            encoded,
            jobs: Vec::new(),
        }
    }

    /// Adds the jobs for a column of a stripe that is kept. `beside_faults`: its bytes are copied from the page cache
    /// while other threads read pages.
    pub(crate) fn add_column(
        &mut self,
        missing: &MissingColumn,
        cached: &CachedColumn,
        beside_faults: bool,
    ) -> Result<(), RunError> {
        let stripe = &self.request.input.stripes[missing.stripe];
        let width = u64::from(self.request.program.columns[missing.column].stored.bytes());
        // Jobs of validity begin with a byte of it.
        let group_rows = match cached.valid.is_some() && !stripe.group_rows.is_multiple_of(validity::ROWS_OF_BYTE) {
            true => stripe.group_rows.saturating_mul(validity::ROWS_OF_BYTE),
            false => stripe.group_rows,
        };
        // A row group in two chunks would be read and decoded twice.
        let whole = |rows: u64, of: u64| (rows / of.max(1)).max(1) * of.max(1);
        let straight = match cached.valid.is_none() {
            true => self.encoded.straight_chunk_rows((missing.stripe, missing.column)),
            false => None,
        };
        let chunk_rows = match straight {
            Some(of_chunk) => whole(STRAIGHT_COPIES * MAX_COPY_ROWS, of_chunk),
            None if beside_faults => COPY_BYTES_BESIDE_FAULTS / width,
            None if group_rows > MAX_COPY_ROWS => MAX_COPY_ROWS,
            None => whole(MAX_COPY_ROWS, group_rows),
        };
        let mut first = 0;
        while first < stripe.rows {
            let end = stripe.rows.min(first + chunk_rows);
            let values = CopyTarget::within(&cached.values, (first * width) as usize);
            let valid = cached.valid.as_ref();
            let valid = valid.map(|v| CopyTarget::within(v, validity::byte_of(first) as usize));
            self.add(missing, first..end, values, valid, 0)?;
            first = end;
        }
        Ok(())
    }

    /// Adds the jobs for rows of a stripe's column.
    pub(crate) fn add(
        &mut self,
        missing: &MissingColumn,
        rows: Range<u64>,
        to: CopyTarget,
        valid: Option<CopyTarget>,
        window: usize,
    ) -> Result<(), RunError> {
        let place @ (stripe, _) = (missing.stripe, missing.column);
        let base = self.first_rows[stripe];
        if let Some(encoded) = self.encoded.jobs(place, base, &rows, &to, valid.as_ref()) {
            self.jobs
                .extend(encoded.into_iter().map(|job| CopyJob { window, ..job }));
            return Ok(());
        }
        let job = copy_job(self.request, base, place, rows, to, valid)?;
        self.jobs.push(CopyJob { window, ..job });
        Ok(())
    }
}
