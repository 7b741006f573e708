//! The I/O stack for columns that kernels ask for by command: one stack over all files in use, kept from query to query with its
//! cache, and built anew when a file is added or has changed.

use std::sync::Arc;

use grampus_driver::controller::ControllerOptions;
use grampus_driver::storage::{CachedFile, Storage};
use grampus_io_stack::cache::CacheOptions;
use grampus_io_stack::cuda::{Device, StagingOptions};
use grampus_io_stack::queues::QueueOptions;
use grampus_io_stack::stack::{Column, Run, Stack, StackOptions};

use super::bring::bases;
use super::files::FileId;
use crate::gpu::Request;
use crate::input::{FileVersion, Placement};
use crate::output::RunError;

/// Opens what answers commands for a file; the flag says that its pages are not in the page cache.
pub type OpenStorage = dyn Fn(&FileVersion, bool) -> std::io::Result<Arc<dyn Storage>> + Send + Sync;

/// The page cache; or, for files that are not in it, the disk itself, where the file system can.
pub(crate) fn open_storage(file: &FileVersion, cold: bool) -> std::io::Result<Arc<dyn Storage>> {
    #[cfg(target_os = "linux")]
    if cold && let Ok(direct) = grampus_driver::storage::DirectFile::open(&file.path) {
        return Ok(Arc::new(direct));
    }
    let _ = cold;
    Ok(Arc::new(CachedFile::open(&file.path)?))
}

/// How the stack is built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueuedOptions {
    pub(crate) cache_bytes: u64,
    pub(crate) sector_log2: u32,
    pub(crate) threads: usize,
    /// Few and short queues, small buffers: for host threads.
    pub(crate) small: bool,
    pub(crate) timeout: std::time::Duration,
}

impl QueuedOptions {
    fn stack(&self) -> StackOptions {
        let group_log2 = if self.small || self.cache_bytes < 64 << 20 {
            4
        } else {
            10
        };
        StackOptions {
            queues: QueueOptions {
                count: if self.small { 4 } else { 32 },
                depth_log2: if self.small { 5 } else { 10 },
                bounce_bytes: 4096,
            },
            cache: CacheOptions {
                bytes: self.cache_bytes,
                sector_log2: self.sector_log2,
                group_log2,
            },
            controller: ControllerOptions {
                threads: self.threads.max(1),
                depth: if self.small { 32 } else { 256 },
            },
            staging: StagingOptions {
                bytes: if self.small { 256 << 10 } else { 4 << 20 },
                count: 4,
            },
            timeout: self.timeout,
            max_lines: 1 << group_log2,
        }
    }
}

/// A stack, and the files that its storages are.
#[derive(Debug)]
struct Built {
    stack: Stack,
    files: Vec<(FileId, bool)>,
}

/// The stack, once one was needed.
#[derive(Debug)]
pub(crate) struct Queued {
    device: Device,
    pub(crate) options: QueuedOptions,
    built: Option<Built>,
}

impl Queued {
    pub(crate) fn new(device: &Device, options: QueuedOptions) -> Self {
        Self {
            device: device.clone(),
            options,
            built: None,
        }
    }

    /// Gives up a stack whose files changed, or that is out of service.
    pub(crate) fn forget(&mut self) {
        self.built = None;
    }

    /// Whether the file is one of its storages.
    pub(crate) fn knows(&self, file: FileId) -> bool {
        self.built
            .as_ref()
            .is_some_and(|b| b.files.iter().any(|(id, _)| *id == file))
    }

    /// The stack over the input's files, and for each of them which storage it is.
    pub(crate) fn over(
        &mut self,
        files: &[(FileId, &FileVersion, bool)],
        open: &OpenStorage,
    ) -> Result<(&Stack, Vec<u32>), RunError> {
        let known = |built: &Built| files.iter().all(|(id, _, cold)| built.files.contains(&(*id, *cold)));
        if !self.built.as_ref().is_some_and(known) {
            self.built = None; // its device memory first
            let mut storages = Vec::with_capacity(files.len());
            for (_, version, cold) in files {
                storages.push(open(version, *cold).map_err(|e| RunError::File {
                    path: version.path.display().to_string(),
                    reason: e.to_string(),
                })?);
            }
            self.built = Some(Built {
                stack: Stack::new(&self.device, storages, self.options.stack(), &[])?,
                files: files.iter().map(|(id, _, cold)| (*id, *cold)).collect(),
            });
        }
        let Some(built) = &self.built else {
            return Err(RunError::Invalid("no I/O stack".to_owned()));
        };
        let place = |id: &FileId| built.files.iter().position(|(known, _)| known == id).unwrap_or(0) as u32;
        Ok((&built.stack, files.iter().map(|(id, _, _)| place(id)).collect()))
    }
}

/// Describes a column that lies raw in its files to the stack.
pub(crate) fn column(stack: &Stack, request: &Request<'_>, column: usize, sources: &[u32]) -> Result<Column, RunError> {
    let width = request.program.columns[column].ty.width();
    let mut runs = Vec::new();
    for (stripe, base) in request.input.stripes.iter().zip(bases(&request.input.stripes)) {
        let Placement::Direct(segments) = &stripe.columns[column] else {
            return Err(RunError::Invalid(
                "a column that is not raw was to be queued".to_owned(),
            ));
        };
        let mut next = 0;
        for segment in segments {
            if segment.first_row != next {
                return Err(RunError::Invalid(format!(
                    "stripe {} has no place for row {}",
                    stripe.index,
                    base + next
                )));
            }
            next += segment.rows;
            runs.push(Run {
                source: sources[stripe.file],
                byte: segment.offset,
                rows: segment.rows,
                mapped: 0,
            });
        }
        if next != stripe.rows {
            return Err(RunError::Invalid(format!(
                "stripe {} has no place for its last rows",
                stripe.index
            )));
        }
    }
    Ok(stack.column(width, &runs)?)
}
