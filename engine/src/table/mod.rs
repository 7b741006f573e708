//! Tables over ORC files: a file, a folder, a glob, Hive-partitioned folders, local or in an object store.
//!
//! ```text
//! provider         OrcTable, the DataFusion table; looks its files up for every query
//! listing          locations -> the files that are there
//! files            TableFile: a file, and what it gives to the table
//! schema           the one schema of all files
//! hive_partitions  columns from folder names
//! statistics       the files' statistics as DataFusion's
//! ```

pub mod files;
pub mod hive_partitions;
pub mod listing;
pub mod schema;
pub mod statistics;
