//! The cascade over Parquet files: filter column by column, then read the other columns for the rows that passed.
//!
//! ```text
//! fetched_bytes    parts of a file in memory, as the crate `parquet` reads them
//! kept_rows        values of columns that were read already, for the rows that passed so far
//! tile_rows        the rows of a tile that passed so far
//! file_filter      the filter over the columns of one file, and its order
//! group_pruning    row groups and pages that statistics and bloom filters exclude
//! selected_values  values of the rows that are left
//! group_columns    columns of one row group, fetched and decoded for selected rows
//! file_scan        one file: row group after row group, tile after tile
//! cascade_files    the opening of files
//! cascade_source   CascadeSource, the source in place of DataFusion's
//! filter_estimate  how many rows of a file pass its filter, by a sample
//! cascade_rule     the optimizer rule that puts the source in its place
//! ```
//!
//! Files, partitions, row groups and pages are DataFusion's and those of the crate `parquet`. Of DataFusion's scan, the
//! source replaces the reading of one file. Files that it does not take are read by DataFusion's source, with filters
//! by row.

mod cascade_files;
pub(crate) mod cascade_rule;
pub(crate) mod cascade_source;
mod fetched_bytes;
mod file_filter;
mod file_scan;
mod filter_estimate;
mod group_columns;
mod group_pruning;
mod kept_rows;
mod selected_values;
mod tile_rows;
