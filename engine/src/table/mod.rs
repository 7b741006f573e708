//! The files of a table and their common properties. `orc_table.rs` makes a DataFusion table of them.
//!
//! ```text
//! listing          locations (file, folder, glob, URL) -> the files that are there
//! listings         what one statement has found, listed once
//! listed_object    an object that a program or a catalog has listed
//! folder_files     the files of a local folder at one time
//! files            TableFile: a file with its columns and partition values
//! row_versions     refuses Hive tables whose rows only Hive can merge
//! column_types     the type that holds the values of two types
//! schema           the one schema of all files
//! hive_partitions  columns from folder names
//! partition_filter chooses files by their partition values, before they are opened
//! column_bounds    bounds of a column's values, by stored statistics
//! statistics       the files' statistics as DataFusion's
//! opened_files     the files, opened, and the columns of their table
//! value_types      units of timestamps and CHAR, by the values of all files
//! ```

pub(crate) mod column_bounds;
pub(crate) mod column_types;
pub(crate) mod files;
pub(crate) mod folder_files;
pub(crate) mod hive_partitions;
pub(crate) mod listed_object;
pub(crate) mod listing;
pub(crate) mod listings;
pub(crate) mod opened_files;
pub(crate) mod partition_filter;
pub(crate) mod row_versions;
pub(crate) mod schema;
pub(crate) mod statistics;
pub(crate) mod value_types;
