//! What brings bytes to the device: one job fills one slot. Which there are is bring.rs's business, and push.rs does them.

use std::ops::Range;
use std::sync::Arc;

use grampus_io_stack::cuda::DeviceBuffer;

use crate::decode::decode_batch::DecodeBatch;
use crate::error::RunError;
use crate::input::encoded_column::EncodedColumn;
use crate::input::{Placement, Segment, Stripe};
use crate::options::Request;
use crate::runtime::memory::arena::DeviceRange;

/// Device memory that bytes go to.
#[derive(Debug, Clone)]
pub(crate) struct CopyTarget {
    pub(crate) buffer: Arc<DeviceBuffer>,
    pub(crate) offset: usize,
}

impl CopyTarget {
    pub(crate) fn address(&self) -> u64 {
        self.buffer.address() + self.offset as u64
    }
}

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

/// A place in the staging memory.
#[derive(Debug)]
pub(crate) struct StagingSlot {
    pub(crate) stage: usize,
    pub(crate) to: CopyTarget,
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
            parts: parts_of(s, segments, &rows, width)?,
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

/// Pieces of the file that hold a raw column's rows.
pub(crate) fn parts_of(
    stripe: &Stripe,
    segments: &[Segment],
    rows: &Range<u64>,
    width: u64,
) -> Result<Vec<Range<u64>>, RunError> {
    parts(segments, rows, width).ok_or_else(|| {
        let index = stripe.index;
        RunError::Invalid(format!("stripe {index} has no place for rows {rows:?} of a column"))
    })
}

pub(crate) fn target(piece: &DeviceRange, offset: usize) -> CopyTarget {
    CopyTarget {
        buffer: piece.buffer.clone(),
        offset: piece.offset + offset,
    }
}

/// Pieces of the file that hold `rows`; `None` if the segments do not cover them.
fn parts(segments: &[Segment], rows: &Range<u64>, width: u64) -> Option<Vec<Range<u64>>> {
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut next = rows.start;
    let from = segments.partition_point(|s| s.first_row + s.rows <= rows.start);
    for s in &segments[from..] {
        if next >= rows.end {
            break;
        }
        if s.first_row > next {
            return None;
        }
        let end = rows.end.min(s.first_row + s.rows);
        let at = s.offset + (next - s.first_row) * width;
        let bytes = at..at + (end - next) * width;
        match parts.last_mut() {
            Some(last) if last.end == bytes.start => last.end = bytes.end,
            _ => parts.push(bytes),
        }
        next = end;
    }
    (next >= rows.end).then_some(parts)
}
