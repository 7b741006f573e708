//! The on-demand scan against full reads: same answers from every byte source, partitioning and tile size.

mod accounting;
mod common;
mod explain;
mod files;
mod filters;
mod sample;
mod sharing;
