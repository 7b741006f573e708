//! The on-demand scan against full reads: the same answers with every byte source, partitioning and tile size.

mod common;
mod explain;
mod files;
mod filters;
mod metrics;
mod sample;
mod work_stealing;
