//! Converter from Parquet, CSV and ORC to ORC files laid out for on-demand reading. Batches stream through: memory is
//! bounded by the stripes being written, one input per core.
//!
//! | file | contents |
//! | --- | --- |
//! | `options` | [`ConvertOptions`], [`CsvOptions`], [`ConvertReport`] |
//! | `input` | `Input`, a file as a stream of batches; `Fault`, why a batch is missing |
//! | `parquet_input`, `csv_input`, `orc_input` | a file of each format as an `Input` |
//! | `file_format` | the format of a file, by its first bytes |
//! | `empty_fields` | a CSV stream in which empty texts differ from NULLs |
//! | `input_files` | the files that the options name, each opened by its format |
//! | `fingerprints` | fingerprints of written and of reread rows, for `verify` |
//! | `output_file` | one ORC file being written |
//! | `conversion` | one input into its output files |
//! | `converter` | [`convert`]: all inputs, one thread per core |

mod conversion;
mod converter;
mod csv_input;
mod empty_fields;
mod file_format;
mod fingerprints;
mod input;
mod input_files;
mod options;
mod orc_input;
mod output_file;
mod parquet_input;

pub use converter::convert;
pub use options::{ConvertOptions, ConvertReport, CsvOptions};
