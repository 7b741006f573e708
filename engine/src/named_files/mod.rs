//! Formats of DataFusion whose errors name the file.
//!
//! ```text
//! file_error      FileError: a file that cannot be read
//! common_schema   the schema of files that store a column with different types
//! headings        CSV files of one table with different columns
//! leading_zeros   columns of CSV files that are text, because their numbers have leading zeros
//! repeated_names  columns of CSV files whose heading repeats a name
//! named_morsels   the steps of reading one file, with the file's name in their errors
//! named_source    NamedSource: a file source that reads by such steps
//! named_format    NamedFormatFactory: formats whose scans have such sources
//! ```

mod common_schema;
pub(crate) mod file_error;
mod headings;
mod leading_zeros;
pub(crate) mod named_format;
mod named_morsels;
pub(crate) mod named_source;
mod repeated_names;
