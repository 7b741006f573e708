//! Grampus: SQL over ORC files that reads only the bytes a query turns out to need.
//!
//! ```text
//! session   a DataFusion session that knows ORC tables and the `grampus.*` settings
//! table     which files a table is, their one schema, their partition values, their statistics
//! scan      the on-demand scan: prune, filter, fetch the rest for the rows that passed; and its accounting
//! file      where the bytes come from: memory map, positioned reads, object stores
//! gpu       filtered aggregates on a GPU: the rule, the operator, what a session keeps for them
//! taxi      generates trips like New York's; convert turns Parquet, CSV or ORC into ORC laid out for on-demand reading
//! cooperation  joins give way, so that a query can be cancelled; rules: DataFusion's, asked less
//! output    where written files go: temporary names, no surprise overwriting
//! ```
//!
//! What the bytes mean is the business of the crate `grampus-orc-layout`.

mod by_path;
pub mod config;
pub mod convert;
mod cooperation;
pub mod error;
pub mod file;
pub mod gpu;
pub mod output;
pub mod plans;
mod rules;
pub mod scan;
pub mod session;
pub mod table;
pub mod taxi;

pub use config::{Device, GpuBacking, GpuTarget, GrampusConfig, GrampusOptions, LocalIo};
pub use scan::accounting::{ScanIo, scan_io};
pub use session::register;
pub use table::OrcTable;
