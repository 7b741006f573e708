//! [`OrcReaderBuilder`], the rows of a file as Arrow batches. The names are those of the parquet crate's readers.
//!
//! ```text
//! builder ─► scan_plan (stripes, rows, columns) ─► scan (the next ranges, the next batch)
//!                                                   ├─ stripe_columns: footer, row index, column readers
//!                                                   ├─ window: rows on their way through the predicates
//!                                                   └─ batch_queue: batches of one size
//! record_batch_reader: a scan that reads from its source as it decodes
//! ```
//!
//! Beside them: `projection`, `filter`, `options`, `metadata` with `output_column` (types of the batches).

mod batch_queue;
mod builder;
mod filter;
mod metadata;
mod options;
mod output_column;
mod projection;
mod record_batch_reader;
pub(crate) mod scan;
mod scan_plan;
mod stripe_columns;
mod window;

pub use builder::ArrowReaderBuilder;
pub use filter::{ArrowPredicate, ArrowPredicateFn, RowFilter};
pub use metadata::ArrowReaderMetadata;
pub use options::{ArrowReaderOptions, StringType};
pub use projection::ProjectionMask;
pub use record_batch_reader::{OrcReaderBuilder, OrcRecordBatchReader, SyncReader};
