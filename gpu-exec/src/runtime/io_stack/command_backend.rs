//! `CommandBackend`: the I/O stack for columns that kernels read by command. One stack serves all files in use and is
//! kept from query to query with its sector cache. Files are added and removed. The stack is built by the first query
//! that needs it, and anew when it is out of service, was given up for its memory, or when a query's files are on
//! another controller.

use std::sync::Arc;

use grampus_cuda::Device;
use grampus_driver::controller::ControllerOptions;
use grampus_driver::files::{NamespaceFile, NamespaceRange};
use grampus_driver::storage::{CachedFile, MappedFile, Storage};
use grampus_io_stack::StagingOptions;
use grampus_io_stack::cache::CacheOptions;
use grampus_io_stack::queues::QueueOptions;
use grampus_io_stack::stack::{Column, Run, Stack, StackError, StackOptions};

use crate::error::RunError;
use crate::input::file_registry::FileId;
use crate::input::{FileVersion, Placement};
use crate::options::Request;

/// What answers commands for a file.
#[derive(Debug, Clone)]
pub enum FileCommands {
    /// The software controller, from a storage.
    Storage(Arc<dyn Storage>),
    /// The file's NVMe controller, whose queues kernels drive; or the software controller, through the driver's queues,
    /// if the NVMe controller has no queue or no memory left.
    Namespace(NamespaceFile),
}

impl<S: Storage + 'static> From<S> for FileCommands {
    fn from(storage: S) -> Self {
        Self::Storage(Arc::new(storage))
    }
}

/// Opens what answers commands for a file; the flag says that the file's pages are not in the page cache.
pub type OpenStorage = dyn Fn(&FileVersion, bool) -> std::io::Result<FileCommands> + Send + Sync;

/// The drive that the file is on; the page cache; or, for files that are not in it, the disk itself if the file system
/// allows it.
pub(crate) fn open_storage(file: &FileVersion, cold: bool) -> std::io::Result<FileCommands> {
    if let Some(file) = &file.namespace {
        return Ok(FileCommands::Namespace(file.clone()));
    }
    #[cfg(target_os = "linux")]
    if cold && let Ok(direct) = grampus_driver::storage::DirectFile::open(&file.path) {
        return Ok(direct.into());
    }
    let _ = cold;
    // A mapping takes half the time of positioned reads for pages in the page cache.
    Ok(match MappedFile::open(&file.path) {
        Ok(mapped) => mapped.into(),
        Err(e) => {
            log::info!("{}: not mapped, read: {e}", file.path.display());
            CachedFile::open(&file.path)?.into()
        }
    })
}

/// How the stack is built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandOptions {
    pub(crate) cache_bytes: u64,
    pub(crate) sector_log2: u32,
    pub(crate) threads: usize,
    /// Few and short queues, small buffers: for host threads.
    pub(crate) small: bool,
    pub(crate) timeout: std::time::Duration,
}

impl CommandOptions {
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

/// A file's storage in the stack. The storage stays as it was first opened when the file's pages enter or leave the
/// page cache: its lines in the sector cache are worth more.
#[derive(Debug, Clone, Copy)]
struct FileStorage {
    file: FileId,
    source: u32,
}

/// Storages of a stack, at most, beyond those of one query: each is open in every thread of the controller.
const MAX_STORAGES: usize = 256;

/// The stack, once a query needed it.
#[derive(Debug)]
pub(crate) struct CommandBackend {
    device: Device,
    pub(crate) options: CommandOptions,
    stack: Option<Stack>,
    /// The software controller reads files of namespaces, for want of queues.
    lacks_queues: bool,
    places: Vec<FileStorage>,
    /// Counts stacks, and files that were removed: columns described before are described again.
    generation: u64,
}

impl CommandBackend {
    pub(crate) fn new(device: &Device, options: CommandOptions) -> Self {
        Self {
            device: device.clone(),
            options,
            stack: None,
            lacks_queues: false,
            places: Vec::new(),
            generation: 0,
        }
    }

    /// Drops the stack. The next query that needs one builds it.
    pub(crate) fn rebuild(&mut self) {
        self.stack = None;
        self.places.clear();
        self.generation += 1;
    }

    pub(crate) fn stack(&self) -> Option<&Stack> {
        self.stack.as_ref()
    }

    /// Columns that were described at another generation are not valid.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Removes a file's storages.
    pub(crate) fn forget(&mut self, file: FileId) {
        let (gone, kept) = self.places.iter().partition(|p| p.file == file);
        self.places = kept;
        let gone: Vec<FileStorage> = gone;
        if let Some(stack) = self.stack.as_mut().filter(|_| !gone.is_empty()) {
            stack.retire(gone.iter().map(|p| p.source));
            self.generation += 1;
        }
    }

    /// The stack over at least these files, and the storage of each of them.
    pub(crate) fn over(
        &mut self,
        files: &[(FileId, &FileVersion, bool)],
        open: &OpenStorage,
    ) -> Result<(&Stack, Vec<u32>), RunError> {
        let is_new = |(file, _, _): &&(FileId, &FileVersion, bool)| self.source(*file).is_none();
        if self.places.len() + files.iter().filter(is_new).count() > MAX_STORAGES.max(files.len()) {
            self.rebuild();
        }
        let (mut new, mut opened) = self.open_new(files, open)?;
        if (self.stack.as_ref()).is_some_and(|stack| !opened.fits(stack, self.lacks_queues)) {
            self.rebuild();
            (new, opened) = self.open_new(files, open)?;
        }
        let first = match &mut self.stack {
            Some(_) if new.is_empty() => 0,
            Some(stack) => opened.add_to(stack)?,
            None => {
                let (stack, lacks_queues) = opened.stack(&self.device, &self.options.stack())?;
                (self.stack, self.lacks_queues) = (Some(stack), lacks_queues);
                0
            }
        };
        let place = |(file, source)| FileStorage { file, source };
        self.places.extend(new.into_iter().zip(first..).map(place));
        let sources = files.iter().map(|&(file, _, _)| self.source(file).unwrap_or(u32::MAX));
        let sources: Vec<u32> = sources.collect();
        match &self.stack {
            Some(stack) => Ok((stack, sources)),
            None => Err(RunError::Invalid("no I/O stack".to_owned())),
        }
    }

    /// Opens the files that the stack does not serve yet.
    fn open_new(
        &self,
        files: &[(FileId, &FileVersion, bool)],
        open: &OpenStorage,
    ) -> Result<(Vec<FileId>, OpenedCommands), RunError> {
        let (mut new, mut opened) = (Vec::new(), OpenedCommands::default());
        for &(file, version, cold) in files.iter().filter(|(file, _, _)| self.source(*file).is_none()) {
            let commands = open(version, cold).map_err(|e| RunError::File {
                path: version.path.display().to_string(),
                reason: e.to_string(),
            })?;
            // A storage of another file at the path must not be kept under this version's id.
            version.check()?;
            opened.push(commands)?;
            new.push(file);
        }
        Ok((new, opened))
    }

    fn source(&self, file: FileId) -> Option<u32> {
        self.places.iter().find(|p| p.file == file).map(|p| p.source)
    }
}

/// What answers commands for several files: storages, or files of one controller's namespaces.
#[derive(Debug, Default)]
struct OpenedCommands {
    storages: Vec<Arc<dyn Storage>>,
    ranges: Vec<NamespaceRange>,
    /// The files of the ranges.
    files: Vec<NamespaceFile>,
}

impl OpenedCommands {
    fn push(&mut self, commands: FileCommands) -> Result<(), RunError> {
        match commands {
            FileCommands::Storage(storage) => self.storages.push(storage),
            FileCommands::Namespace(file) => {
                let range = file.range().map_err(|e| RunError::File {
                    path: file.describe(),
                    reason: e.to_string(),
                })?;
                self.ranges.push(range);
                self.files.push(file);
            }
        }
        // The planner has such columns read otherwise.
        match (self.storages.first(), self.ranges.first()) {
            (Some(storage), Some(_)) => Err(StackError::OtherController(storage.describe()).into()),
            _ => Ok(()),
        }
    }

    /// Whether a stack can serve them, too.
    fn fits(&self, stack: &Stack, lacks_queues: bool) -> bool {
        match stack.takes_storages() {
            true => self.ranges.is_empty() || lacks_queues,
            false => self.storages.is_empty() && self.ranges.iter().all(|range| stack.is_on(range)),
        }
    }

    /// The storages of the software controller, which reads the files of namespaces too.
    fn all_storages(self) -> Vec<Arc<dyn Storage>> {
        let files = self.files.into_iter().map(|file| Arc::new(file) as Arc<dyn Storage>);
        self.storages.into_iter().chain(files).collect()
    }

    fn add_to(self, stack: &mut Stack) -> Result<u32, StackError> {
        match stack.takes_storages() {
            true => stack.add(self.all_storages()),
            false => stack.add_ranges(self.ranges),
        }
    }

    /// A stack for them, and whether their controller lacks queues.
    fn stack(self, device: &Device, options: &StackOptions) -> Result<(Stack, bool), StackError> {
        if !self.ranges.is_empty() {
            match Stack::on_controller(device, self.ranges.clone(), options.clone(), false) {
                Err(StackError::Nvme(e)) => log::info!("commands go through the driver's queues: {e}"),
                other => return other.map(|stack| (stack, false)),
            }
        }
        let lacks_queues = !self.ranges.is_empty();
        let stack = Stack::new(device, self.all_storages(), options.clone(), &[])?;
        Ok((stack, lacks_queues))
    }
}

/// Describes a raw column to the stack.
pub(crate) fn column(stack: &Stack, request: &Request<'_>, column: usize, sources: &[u32]) -> Result<Column, RunError> {
    let width = request.program.columns[column].stored.bytes();
    let mut runs = Vec::new();
    for (stripe, base) in request.input.stripes.iter().zip(request.input.first_rows()) {
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
