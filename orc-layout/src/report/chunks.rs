//! [`ChunkReport`], the number of a stream's compression chunks, from their headers.

use serde::Serialize;

use crate::chunk::{ChunkHeader, HEADER_BYTES};
use crate::error::{Result, Section};
use crate::source::ByteSource;
use crate::streams::Stream;
use crate::stripe::StripeLayout;
use crate::tail::FileTail;

/// The chunks of one stream. Sizes are stored bytes without the header.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct ChunkReport {
    pub count: u64,
    /// Number of original chunks.
    pub original: u64,
    pub smallest_bytes: u32,
    pub largest_bytes: u32,
}

/// Counts chunks from header to header.
pub(super) fn walk(
    tail: &FileTail,
    stripe: &StripeLayout,
    stream: &Stream,
    name: &str,
    source: &dyn ByteSource,
) -> Result<ChunkReport> {
    let name = format!(
        "stripe {} column {} ({name}) {} stream",
        stripe.info.index,
        stream.column,
        stream.kind.as_str_name()
    );
    let place = Section {
        file: &tail.file,
        offset: stream.offset,
        name: &name,
    };
    let mut report = ChunkReport::default();
    let mut at = 0;
    while at < stream.length {
        let body = at + HEADER_BYTES as u64;
        if body > stream.length {
            return Err(place.corrupt(at, "a chunk header is cut off"));
        }
        let header = source.read(stream.offset + at..stream.offset + body)?;
        let Some(header) = ChunkHeader::first_of(&header) else {
            return Err(place.corrupt(at, "a chunk header is cut off"));
        };
        let left = stream.length - body;
        if u64::from(header.length) > left {
            let reason = format!("a chunk of {} bytes with {left} left", header.length);
            return Err(place.corrupt(at, reason));
        }
        report.smallest_bytes = match report.count {
            0 => header.length,
            _ => report.smallest_bytes.min(header.length),
        };
        report.largest_bytes = report.largest_bytes.max(header.length);
        report.count += 1;
        report.original += u64::from(header.original);
        at = body + u64::from(header.length);
    }
    Ok(report)
}
