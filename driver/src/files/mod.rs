//! Files on a namespace: a small checksummed directory, and the files' bytes, each file in one run of blocks.
//!
//! docs/NVME.md has the format and its invariants. Everything goes through the driver's queues, so the same code runs
//! over VFIO, over QEMU's controller and over the software controller.
//!
//! 1. [`Drive`] is a namespace of an open controller.
//! 2. [`NamespaceFiles`] changes the directory: initialize, load, remove, verify. One process, one thread.
//! 3. [`FileReader`] reads byte ranges of the files, from many threads over several queues.
//!
//! | file | what |
//! | --- | --- |
//! | `file_error` | the errors of this module |
//! | `checksum` | checksums of content and of structures |
//! | `layout` | the regions of a namespace, and its header |
//! | `directory` | the entries, as one copy of the directory stores them |
//! | `free_space` | runs of bytes that no file has |
//! | `block_channel` | a queue with staging memory: many commands in flight |
//! | `drive` | a namespace of an open controller |
//! | `namespace_range` | bytes of a namespace, for queues that another agent drives |
//! | `foreign_data` | what a namespace without a directory holds |
//! | `directory_copies` | the two copies: reading, repair, and the change from one directory to the next |
//! | `verification` | stored bytes against stored checksums |
//! | `namespace_files` | the operations |
//! | `file_reader` | concurrent reads |
//! | `namespace_file` | one file, with the drive that it is on |
//!
//! **Invariant:** no byte that a namespace returns makes this module panic, or return bytes of another file.

mod block_channel;
mod checksum;
mod directory;
mod directory_copies;
mod drive;
mod file_error;
mod file_reader;
mod foreign_data;
mod free_space;
mod layout;
mod namespace_file;
mod namespace_files;
mod namespace_range;
mod verification;

pub use block_channel::CommandCounts;
pub use directory::{FileEntry, MAX_NAME_BYTES};
pub use drive::Drive;
pub use file_error::FileError;
pub use file_reader::FileReader;
pub use namespace_file::NamespaceFile;
pub use namespace_files::{NamespaceFiles, Progress};
pub use namespace_range::NamespaceRange;
pub use verification::{Difference, Verified};
