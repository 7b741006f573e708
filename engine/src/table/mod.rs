//! The files of a table and their common properties. `orc_table.rs` makes a DataFusion table of them.
//!
//! ```text
//! listing          locations (file, folder, glob, URL) -> the files that are there
//! files            TableFile: a file with its columns and partition values
//! schema           the one schema of all files
//! hive_partitions  columns from folder names
//! statistics       the files' statistics as DataFusion's
//! ```

pub(crate) mod files;
pub(crate) mod hive_partitions;
pub(crate) mod listing;
pub(crate) mod schema;
pub(crate) mod statistics;
