//! What brings bytes to the device: one job fills one slot. Which there are is bring.rs's business, and push.rs does them.

use std::ops::Range;
use std::sync::Arc;

use crate::decode::decode_batch::DecodeBatch;
use crate::error::RunError;
use crate::input::encoded_column::EncodedColumn;
use crate::input::{Placement, file_ranges};
use crate::options::Request;
use crate::runtime::memory::copy_target::CopyTarget;
use crate::runtime::memory::staging_buffer::StagingSlot;

/// One slotful: consecutive rows of one column.
#[derive(Debug)]
pub(crate) struct CopyJob {
    /// The first row, counted over all stripes. Jobs are in ascending order of these.
    pub(crate) first_row: u64,
    /// Jobs of a window may start when the kernels of the last but one have ended.
    pub(crate) window: usize,
    pub(crate) to: CopyTarget,
    pub(crate) what: CopySource,
}

/// Where a job's bytes come from.
#[derive(Debug)]
pub(crate) enum CopySource {
    /// Pieces of a file, to lie one after the other.
    FileRanges { file: usize, parts: Vec<Range<u64>> },
    /// Values that the CPU decodes: a column's rows of a stripe.
    CpuDecode {
        stripe: usize,
        column: usize,
        rows: Range<u64>,
        width: usize,
        /// A byte for each row, where the column has them.
        valid: Option<CopyTarget>,
    },
    /// Values as they are stored, which the device decodes.
    Encoded(Box<EncodedCopy>),
}

/// A column's rows of a stripe, to be decoded on the device to where the job's target is.
#[derive(Debug)]
pub(crate) struct EncodedCopy {
    pub(crate) file: usize,
    pub(crate) stripe: usize,
    pub(crate) column: usize,
    pub(crate) width: u32,
    pub(crate) encoded: Arc<EncodedColumn>,
    pub(crate) batch: DecodeBatch,
    /// A byte for each row, where the column has them.
    pub(crate) valid: Option<CopyTarget>,
    /// Where the piece goes; staging.rs says.
    pub(crate) staged: Option<StagingSlot>,
}

/// The job that brings a column's rows of a stripe, `base` rows from the first one's beginning, in the first window.
pub(crate) fn copy_job(
    request: &Request<'_>,
    base: u64,
    (stripe, column): (usize, usize),
    rows: Range<u64>,
    to: CopyTarget,
    valid: Option<CopyTarget>,
) -> Result<CopyJob, RunError> {
    let s = &request.input.stripes[stripe];
    let width = u64::from(request.program.columns[column].ty.width());
    let first_row = base + rows.start;
    let what = match &s.columns[column] {
        Placement::Direct(segments) => CopySource::FileRanges {
            file: s.file,
            parts: file_ranges(s, segments, &rows, width)?,
        },
        _ => CopySource::CpuDecode {
            stripe,
            column,
            rows,
            width: width as usize,
            valid,
        },
    };
    Ok(CopyJob {
        first_row,
        window: 0,
        to,
        what,
    })
}
