//! Grampus: SQL over ORC files that reads only the bytes that a query needs.
//!
//! A program that embeds Grampus uses these items:
//!
//! - [`Grampus`] is the runtime that any number of sessions share: files, metadata, the GPU.
//!   [`Grampus::register`] adds it to the program's DataFusion session, and [`Grampus::context`] makes a session.
//! - [`SessionChange`] lists what changes in the program's session. Each change can be switched off.
//! - [`register`] and [`session::context`] do the same with a runtime for one session.
//! - [`session::register_orc`] registers files as a table. [`OrcTable`] is the table itself, for other catalogs. The
//!   session has the file format `orc` for a `ListingTable`, which is [`OrcFormat`]. [`OrcSource`] scans files of any
//!   `FileScanConfig`.
//! - [`GrampusOptions`] has the initial values of the `grampus.*` settings.
//! - [`session::plan_cache::plan_sql`] plans a statement, and reuses the plan of a text seen before.
//!   [`session::statement_parser`] parses what it plans, `SUMMARIZE` too.
//!   [`session::plan_cache::plan_sql_with_options`] refuses statements that the program does not allow.
//! - [`scan_io`] returns the bytes that an executed plan needed and moved, as [`ScanIo`].
//! - [`device_path`] returns the device that runs a plan's aggregates, and the reason, as [`DevicePath`].
//! - [`ScopedThreads`] are threads for `grampus_orc_layout`'s writer, which encodes columns side by side.
//! - [`caught_panic`] makes an error of a panic in a statement, for programs that go on after it.
//! - [`statement_events`] runs a statement on a worker, and sends rows and its end to the thread that shows them.
//! - [`error::message`] returns the text of an error for people. [`StoreError`] is the cause of a store's errors.
//! - `GrampusCodec`, with the feature `proto`, makes bytes of a plan's operators, so that the plan can be executed by
//!   another process.
//! - [`LazyStores`] makes object stores by URL, for a program's own session too. `NvmeStore` is one over files of an
//!   NVMe namespace.
//!
//! Features, on by default:
//!
//! - `clouds`: stores of S3, Google Cloud Storage, Azure and HTTP servers. Without it, sessions read stores that the
//!   program registers.
//! - `gpu`: aggregates on NVIDIA GPUs, files on NVMe namespaces, maps of local files. Without it, local files are
//!   read by positioned reads, and the tree has no CUDA, no io_uring and no NVMe driver.
//!
//! The modules, each of which uses only those above it:
//!
//! ```text
//! redaction       text without the passwords of URLs
//! printable       whether values have a text
//! plan_methods    methods that operators share
//! setting_words   settings whose values are words
//! device_settings the settings that a device is opened with
//! store_error     StoreError: why a place in a store cannot be used
//! error, config   errors; the settings
//! caught_panic    CaughtPanic: a panic in a statement as its error
//! statement_events
//!                 a statement on a worker, and its messages
//! one_shot_input  a stream as the input of an operator that is made while a query runs
//! store           object stores by URL: S3, GCS, Azure, HTTP, NVMe namespaces
//! file            local files and objects as sources of bytes, and the cache of their metadata
//! table           the files of a table: listing, schema, partition values, statistics
//! scan            the on-demand scan: prune, filter, read the other columns for the rows that passed
//! aggregate       few groups by index on the CPU, and minima of floats
//! output          files that statements write
//! orc_source      OrcSource: the scan of files that a program has listed, divided and assigned
//! listed_scan     the scan of files that a ListingTable has listed
//! orc_format      ORC as a file format of DataFusion, over `output` and `listed_scan`
//! table_definition
//!                 the statement that makes a table, for SHOW CREATE TABLE
//! orc_table       OrcTable: `table` and `scan` as a DataFusion table
//! orc_table_factory
//!                 tables of CREATE EXTERNAL TABLE … STORED AS ORC
//! gpu             filtered aggregates on a GPU: the optimizer rule, the operator, the state cached between queries
//! named_files     DataFusion's formats, whose errors name the file
//! files_table     a table of files of another format in folders, by globs or by a list
//! file_table      a table of files of any format, by the end of the location
//! parquet_scan    the cascade over Parquet files: the source in place of DataFusion's, and its optimizer rule
//! plan_codec      GrampusCodec: operators as bytes, for plans that travel
//! scan_io         the I/O of a plan, over `scan` and `gpu`
//! device_path     the device that runs a plan, with the reason
//! sql_functions   functions of SQL that DataFusion lacks
//! relations       relations of FROM that DataFusion lacks
//! plan_rewrites   rewrites of expressions in plans, which analyzer rules share
//! datafusion_repairs
//!                 rules and functions in place of DataFusion's faults
//! join            joins: their order, filters and spilling
//! statement       statements: parser, names, plan cache
//! session         a DataFusion session with all of them
//! ```
//!
//! The crate `grampus-orc-layout` interprets the bytes of the files.

// The GPU uses more of the scan, and clouds more of their kinds.
#![cfg_attr(not(all(feature = "clouds", feature = "gpu")), allow(dead_code))]

mod aggregate;
pub mod caught_panic;
pub mod config;
mod datafusion_repairs;
mod device_path;
mod device_settings;
pub mod error;
pub mod file;
mod file_table;
mod files_table;
#[cfg(feature = "gpu")]
pub mod gpu;
#[cfg(not(feature = "gpu"))]
#[path = "without_gpu.rs"]
mod gpu;
mod join;
mod listed_scan;
mod named_files;
mod one_shot_input;
mod orc_format;
mod orc_source;
mod orc_table;
mod orc_table_factory;
mod output;
mod parquet_scan;
#[cfg(feature = "proto")]
mod plan_codec;
mod plan_methods;
mod plan_rewrites;
pub mod printable;
mod redaction;
mod relations;
mod scan;
mod scan_io;
pub mod session;
mod setting_words;
mod sql_functions;
mod statement;
pub mod statement_events;
mod store;
mod store_error;
mod table;
mod table_definition;

pub use config::{Device, GpuBacking, GpuDecompress, GpuTarget, GrampusConfig, GrampusOptions, LocalIo, MemoryLimit};
pub use device_path::{DevicePath, device_path};
pub use orc_format::OrcFormat;
pub use orc_source::OrcSource;
pub use orc_table::OrcTable;
pub use output::scoped_threads::ScopedThreads;
#[cfg(feature = "proto")]
pub use plan_codec::GrampusCodec;
pub use scan::metrics::ScanIo;
pub use scan_io::scan_io;
pub use session::{Grampus, GrampusBuilder, SessionChange, register};
pub use sql_functions::sql_type_name;
pub use store::lazy_stores::LazyStores;
#[cfg(feature = "gpu")]
pub use store::nvme_store::NvmeStore;
pub use store_error::StoreError;
