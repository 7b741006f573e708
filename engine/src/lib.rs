//! Grampus: SQL over ORC files that reads only the bytes a query turns out to need.
//!
//! ```text
//! session   a DataFusion session that knows ORC tables and the `grampus.*` settings
//! table     which files a table is, their one schema, their partition values, their statistics
//! scan      the on-demand scan: prune, filter, fetch the other columns for the rows that passed
//! file      where the bytes come from: memory map, positioned reads, object stores
//! gpu       filtered aggregates on a GPU: the optimizer rule, the operator, the state kept between queries
//! config    the `grampus.*` settings
//! ```
//!
//! The crate `grampus-orc-layout` interprets the bytes.

pub mod config;
pub mod error;
pub mod file;
pub mod gpu;
mod orc_table;
pub mod scan;
mod scan_io;
pub mod session;
pub mod table;

pub use config::{Device, GpuBacking, GpuTarget, GrampusConfig, GrampusOptions, LocalIo};
pub use orc_table::OrcTable;
pub use scan::metrics::ScanIo;
pub use scan_io::scan_io;
pub use session::register;
