//! Outputs that appear complete or not at all, and temporary folders that do not outlive their process for long.
//!
//! 1. Files are written into a hidden [`TemporaryFolder`] beside the output's place.
//! 2. Each file is synced to disk.
//! 3. One rename publishes the file or the folder; the folder above is synced.
//!
//! Outputs of several processes into one folder take turns at step 3, by its lock.
//!
//! | file | contents |
//! | --- | --- |
//! | `error` | [`OutputError`]: why an output was not published |
//! | `durability` | syncs of folders; modes and owners of replaced files |
//! | [`temporary_folder`] | [`TemporaryFolder`]: a folder that vanishes with its process, or at the next start |
//! | [`folder_lock`] | [`FolderLock`]: one process at a time changes a folder's files |
//! | [`staged_files`] | [`StagedFiles`]: files that appear together |
//! | [`staged_file`] | [`StagedFile`]: a file that replaces another one by a rename |
//! | [`staged_folder`] | [`StagedFolder`]: a folder of files that replaces another one whole |

mod durability;
mod error;
pub mod folder_lock;
pub mod staged_file;
pub mod staged_files;
pub mod staged_folder;
pub mod temporary_folder;

pub use error::OutputError;
pub use folder_lock::FolderLock;
pub use staged_file::StagedFile;
pub use staged_files::StagedFiles;
pub use staged_folder::StagedFolder;
pub use temporary_folder::TemporaryFolder;
