//! `GroupLoader`: row groups that kernels miss, on their way to the device.
//!
//! - *For the device to decode*: a thread reads the stored bytes of many row groups into one slot (`GroupGather`), and
//!   the `PageDecoder` takes the slot.
//! - *Decoded by the CPU*: columns that the device does not decode, and those that it could not.

use crate::decode::group_gather::{GatheredColumn, GroupGather};
use crate::error::{RefusalReason, RunError};
use crate::options::Request;
use crate::runtime::memory::copy_target::CopyTarget;
use crate::runtime::memory::page_table::{PageTable, PagedColumn};
use crate::runtime::paging::page_decoder::{FailedPages, PageDecoder};
use crate::runtime::paging::page_reader::{OpenFile, PageReader, rows_of};
use crate::runtime::paging::stored_columns::StoredColumns;
use crate::runtime::transfer::copy_job::{MAX_COPY_ROWS, copy_job};
use crate::runtime::transfer::uploader::Uploader;
use crate::validity;

/// The row groups of one query.
pub(crate) struct GroupLoader<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) paging: &'a PageTable,
    pub(crate) uploader: &'a Uploader<'a>,
    pub(crate) stored: StoredColumns<'a>,
    pub(crate) decoder: PageDecoder<'a>,
    /// First row of each stripe.
    pub(crate) first_rows: Vec<u64>,
}

/// What became of row groups.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// Those that the device decodes.
    pub(crate) gathered: Vec<u32>,
    /// Those that the CPU has to decode.
    pub(crate) for_cpu: Vec<u32>,
}

/// Row groups that the device can decode, and their columns.
#[derive(Default)]
struct ForDevice<'a> {
    pages: Vec<u32>,
    /// For each page, the position of its column among `columns`, and the number of its row group.
    groups: Vec<(usize, usize)>,
    columns: Vec<GatheredColumn>,
    /// For each of the columns, the file that it lies in.
    files: Vec<usize>,
    last: Option<&'a PagedColumn>,
}

impl GroupLoader<'_> {
    /// Gathers row groups, in ascending order, for the device. A thread that is stopped leaves some out.
    pub(crate) fn gather(&self, pages: &[u32], file: &mut OpenFile) -> Result<Gathered, RunError> {
        let mut result = Gathered::default();
        let work = self.for_device(pages, &mut result.for_cpu)?;
        let Some(limits) = (if work.pages.is_empty() {
            None
        } else {
            self.decoder.limits()?
        }) else {
            result.for_cpu.extend(work.pages);
            return Ok(result);
        };
        let mut done = 0;
        while done < work.pages.len() {
            let gather = GroupGather::new(work.columns.clone(), &work.groups[done..], limits);
            let next = done + gather.tasks();
            if next == done {
                result.for_cpu.push(work.pages[done]); // too large for the device
                done += 1;
                continue;
            }
            if !self.send(&gather, &work, &work.pages[done..next], file)? {
                return Ok(result);
            }
            result.gathered.extend(&work.pages[done..next]);
            done = next;
        }
        Ok(result)
    }

    /// The pages that the device can decode. The others are added to `for_cpu`.
    fn for_device(&self, pages: &[u32], for_cpu: &mut Vec<u32>) -> Result<ForDevice<'_>, RunError> {
        let mut work = ForDevice::default();
        let mut is_known = false;
        for &page in pages {
            let Some((column, at)) = self.paging.find(page) else {
                continue;
            };
            if !work.last.is_some_and(|last| std::ptr::eq(last, column)) {
                work.last = Some(column);
                let stored = self.stored.for_device(column)?;
                is_known = stored.is_some();
                if let Some(stored) = stored {
                    work.columns.push(stored);
                    work.files.push(self.request.input.stripes[column.stripe].file);
                }
            }
            if !is_known {
                for_cpu.push(page);
                continue;
            }
            work.pages.push(page);
            work.groups.push((work.columns.len() - 1, at as usize));
        }
        Ok(work)
    }

    /// Reads a gather's bytes, and hands it to the decoder. False: stopped.
    fn send(
        &self,
        gather: &GroupGather,
        work: &ForDevice<'_>,
        pages: &[u32],
        file: &mut OpenFile,
    ) -> Result<bool, RunError> {
        let Some(mut slot) = self.uploader.ring.take(|| self.uploader.stopped())? else {
            return Ok(false);
        };
        let reader = PageReader {
            request: self.request,
            sources: self.uploader.sources,
        };
        for (column, at, bytes) in gather.parts() {
            let to = &mut slot.bytes_mut()[at..at + (bytes.end - bytes.start) as usize];
            if let Err(e) = reader.read_bytes(work.files[column], &bytes, to, file) {
                self.uploader.ring.unused(slot);
                return Err(e);
            }
        }
        let added = self.decoder.add(slot, gather, pages.to_vec());
        added.inspect_err(|_| self.uploader.ring.lost())?;
        self.uploader.count_bytes(gather.stored_bytes());
        Ok(true)
    }

    /// Decodes row groups by the CPU, and has them copied to their places. Returns how many: fewer if it is stopped.
    pub(crate) fn decode_by_cpu(&self, pages: &[u32]) -> Result<usize, RunError> {
        for (done, &page) in pages.iter().enumerate() {
            let Some((column, at)) = self.paging.find(page) else {
                continue;
            };
            let rows = rows_of(column, at..at + 1);
            let width = u64::from(self.request.program.columns[column.column].stored.bytes());
            let mut first = rows.start;
            while first < rows.end {
                let end = rows.end.min(first + MAX_COPY_ROWS);
                let values = CopyTarget::within(&column.cached.values, (first * width) as usize);
                let valid = column.cached.valid.as_ref();
                let valid = valid.map(|v| CopyTarget::within(v, validity::byte_of(first) as usize));
                let (place, base) = ((column.stripe, column.column), self.first_rows[column.stripe]);
                let job = copy_job(self.request, base, place, first..end, values, valid)?;
                if !self.uploader.do_job(0, &job)? {
                    return Ok(done);
                }
                first = end;
            }
        }
        Ok(pages.len())
    }

    /// Waits until the device has decoded everything that was gathered. Returns the row groups that it could not
    /// decode, whose columns are the CPU's from now on.
    pub(crate) fn finish(&self) -> Result<Vec<u32>, RunError> {
        let mut failed_pages = Vec::new();
        for FailedPages { label, pages } in self.decoder.finish(|| self.uploader.stopped())? {
            if let Some(column) = self.paging.columns.get(label as usize) {
                if self.request.is_narrow(column.column) {
                    let column = column.column;
                    return Err(RefusalReason::NarrowLayout { column }.into());
                }
                self.stored.leave_to_cpu(column);
            }
            failed_pages.extend(pages);
        }
        Ok(failed_pages)
    }
}
