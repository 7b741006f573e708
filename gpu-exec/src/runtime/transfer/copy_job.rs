//! `CopyJob`: consecutive rows of one column on their way to the device. One job fills one slot of the pinned ring.

use std::ops::Range;
use std::sync::Arc;

use grampus_orc_layout::encoded_column::EncodedColumn;

use crate::decode::decode_batch::DecodeBatch;
use crate::error::RunError;
use crate::input::file_ranges;
use crate::options::{Place, Request};
use crate::program::{Stored, Type};
use crate::runtime::memory::copy_target::CopyTarget;
use crate::runtime::memory::pinned_ring::MAX_COPY_BYTES;
use crate::runtime::memory::staging_buffer::StagingSlot;

/// Rows of a job at most, so that 8-byte values fill a slot.
pub(crate) const MAX_COPY_ROWS: u64 = MAX_COPY_BYTES / 8;

/// Consecutive rows of one column.
#[derive(Debug)]
pub(crate) struct CopyJob {
    /// The first row, counted over all stripes. Jobs are in ascending order of these.
    pub(crate) first_row: u64,
    /// A job may start when the kernels of the window before the last have ended.
    pub(crate) window: usize,
    pub(crate) to: CopyTarget,
    pub(crate) source: CopySource,
}

/// Where a job's bytes come from.
#[derive(Debug)]
pub(crate) enum CopySource {
    /// Ranges of a file, to lie one after the other.
    FileRanges { file: usize, parts: Vec<Range<u64>> },
    /// A column's rows of a stripe, which the CPU decodes.
    CpuDecode {
        stripe: usize,
        column: usize,
        rows: Range<u64>,
        ty: Type,
        stored: Stored,
        /// A bit for each row, where the column has them.
        valid: Option<CopyTarget>,
    },
    /// Values in their stored form, which the device decodes.
    Encoded(Box<EncodedCopy>),
}

/// A column's rows of a stripe, to be decoded on the device to where the job's target is.
#[derive(Debug)]
pub(crate) struct EncodedCopy {
    pub(crate) file: usize,
    pub(crate) stripe: usize,
    pub(crate) column: usize,
    pub(crate) stored: Stored,
    pub(crate) encoded: Arc<EncodedColumn>,
    pub(crate) batch: DecodeBatch,
    /// A bit for each row, where the column has them.
    pub(crate) valid: Option<CopyTarget>,
    /// Where the encoded bytes go; assigned when all jobs are known.
    pub(crate) staged: Option<StagingSlot>,
}

/// The job in the first window that copies a column's rows of a stripe. `base`: the stripe's first row.
pub(crate) fn copy_job(
    request: &Request<'_>,
    base: u64,
    (stripe, column): (usize, usize),
    rows: Range<u64>,
    to: CopyTarget,
    valid: Option<CopyTarget>,
) -> Result<CopyJob, RunError> {
    let s = &request.input.stripes[stripe];
    let of = &request.program.columns[column];
    let first_row = base + rows.start;
    let source = match request.place(s, column) {
        Place::Raw(segments) => CopySource::FileRanges {
            file: s.file,
            parts: file_ranges(s, segments, &rows, of.stored.bytes().into())?,
        },
        Place::Decoded { .. } | Place::Constant(_) => CopySource::CpuDecode {
            stripe,
            column,
            rows,
            ty: of.ty,
            stored: of.stored,
            valid,
        },
    };
    Ok(CopyJob {
        first_row,
        window: 0,
        to,
        source,
    })
}
