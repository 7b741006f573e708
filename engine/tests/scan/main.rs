//! The on-demand scan against full reads: the same answers with every byte source, partitioning and tile size.

mod changed_files;
mod coded_keys;
#[cfg(target_os = "linux")]
mod cold_files;
mod common;
mod dynamic_filters;
#[path = "../../../orc-layout/tests/common/edited_file.rs"]
mod edited_file;
mod estimates;
mod explain;
mod files;
mod filters;
#[path = "../support/flaky_store.rs"]
mod flaky_store;
mod foreign_statistics;
mod guards;
mod limits;
mod maps;
mod metrics;
mod names;
mod read_ahead;
mod remote;
mod sample;
mod values;
mod warehouse;
mod work_stealing;
