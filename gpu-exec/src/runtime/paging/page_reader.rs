//! `PageReader`: bytes of pages read from files, by a thread that has a file open for itself.

use std::ops::Range;

use crate::abi::paging::PAGE_BYTES;
use crate::error::RunError;
use crate::input::{Placement, file_ranges};
use crate::options::Request;
use crate::runtime::file_io::file_source::{FileSource, OpenedFile, opened};
use crate::runtime::memory::page_table::PagedColumn;

/// Pages at most so far apart are read at once, with the bytes between them: a read costs as much as copying these.
const NEAR_BYTES: u64 = 2 << 10;
/// Bytes of such a read, at most.
const SPAN_BYTES: u64 = 64 << 10;
/// The file that a thread reads from, with its position in the input. Batches are in order of files, and there may be
/// more files than a process may have open for each of its threads.
pub(crate) type OpenFile = Option<(usize, OpenedFile)>;

/// Where pages are read from.
pub(crate) struct PageReader<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) sources: &'a [Option<FileSource>],
}

impl PageReader<'_> {
    /// Reads pages, in ascending order, to the beginning of `to`; those close to one another at once. Returns the bytes
    /// read, with those between the pages.
    pub(crate) fn read(
        &self,
        pages: &[(&PagedColumn, u32)],
        to: &mut [u8],
        file: &mut OpenFile,
    ) -> Result<u64, RunError> {
        let mut span = Vec::new();
        let (mut next, mut bytes) = (0, 0);
        while next < pages.len() {
            let (column, first) = pages[next];
            let near = |pair: &[(&PagedColumn, u32)]| {
                std::ptr::eq(pair[1].0, column)
                    && u64::from(pair[1].1 - pair[0].1) * PAGE_BYTES <= NEAR_BYTES
                    && u64::from(pair[1].1 - first + 1) * PAGE_BYTES <= SPAN_BYTES
            };
            let count = 1 + pages[next..].windows(2).take_while(|pair| near(pair)).count();
            let last = pages[next + count - 1].1;
            let out = &mut to[next * PAGE_BYTES as usize..];
            if count == 1 {
                bytes += self.read_rows(column, rows_of(column, first..first + 1), out, file)?;
            } else {
                let rows = rows_of(column, first..last + 1);
                span.resize((u64::from(last - first + 1) * PAGE_BYTES) as usize, 0);
                bytes += self.read_rows(column, rows, &mut span, file)?;
                for ((_, at), out) in pages[next..][..count]
                    .iter()
                    .zip(out.chunks_exact_mut(PAGE_BYTES as usize))
                {
                    let from = u64::from(at - first) * PAGE_BYTES;
                    out.copy_from_slice(&span[from as usize..][..PAGE_BYTES as usize]);
                }
            }
            next += count;
        }
        Ok(bytes)
    }

    /// The source of a file of the input, and the file as the thread has it open.
    fn open<'f>(&self, of: usize, file: &'f mut OpenFile) -> Result<(&FileSource, &'f OpenedFile), RunError> {
        let source = opened(self.sources, of)?;
        if file.as_ref().is_none_or(|(at, _)| *at != of) {
            *file = None; // closed first
        }
        let again = match file.take() {
            Some(open) => open,
            None => (of, source.opened_again()?),
        };
        Ok((source, &file.insert(again).1))
    }

    /// Reads bytes of a file of the input.
    pub(crate) fn read_bytes(
        &self,
        of: usize,
        bytes: &Range<u64>,
        to: &mut [u8],
        file: &mut OpenFile,
    ) -> Result<(), RunError> {
        let (source, file) = self.open(of, file)?;
        source.read_from(file, to, bytes)
    }

    /// Reads a raw column's rows of a stripe. Returns their bytes.
    fn read_rows(
        &self,
        column: &PagedColumn,
        rows: Range<u64>,
        to: &mut [u8],
        file: &mut OpenFile,
    ) -> Result<u64, RunError> {
        let stripe = &self.request.input.stripes[column.stripe];
        let Placement::Direct(segments) = &stripe.columns[column.column] else {
            return Err(RunError::Invalid("a page of a column that does not lie raw".to_owned()));
        };
        let width = u64::from(self.request.program.columns[column.column].stored.bytes());
        let (source, file) = self.open(stripe.file, file)?;
        // Nearly always one range of the file.
        let segment = segments.partition_point(|s| s.first_row + s.rows <= rows.start);
        if let Some(s) = segments.get(segment)
            && (s.first_row..=s.first_row + s.rows).contains(&rows.end)
            && s.first_row <= rows.start
        {
            let at = s.offset + (rows.start - s.first_row) * width;
            let len = (rows.end - rows.start) * width;
            source.read_from(file, &mut to[..len as usize], &(at..at + len))?;
            return Ok(len);
        }
        let mut done = 0;
        for part in file_ranges(stripe, segments, &rows, width)? {
            let len = (part.end - part.start) as usize;
            source.read_from(file, &mut to[done..done + len], &part)?;
            done += len;
        }
        Ok(done as u64)
    }
}

/// Rows of a stripe that lie in pages of it.
pub(crate) fn rows_of(column: &PagedColumn, pages: Range<u32>) -> Range<u64> {
    let each = u64::from(column.layout.rows);
    u64::from(pages.start) * each..(u64::from(pages.end) * each).min(column.rows)
}
