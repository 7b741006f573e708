//! `grampus convert`: turns Parquet, CSV and ORC files into ORC files laid out for on-demand reading.

use std::sync::Arc;
use std::thread::available_parallelism;

use grampus::ScopedThreads;
use grampus_tools::convert::{ConvertOptions, ConvertReport, CsvOptions, convert};

use super::file_job::{self, RowProgress};
use crate::args::ConvertArgs;
use crate::error_messages::explain_tool;
use crate::exit_error::ExitError;
use crate::interrupts::InterruptWatch;

/// Runs the subcommand.
pub(crate) fn run(arguments: &ConvertArgs) -> Result<(), ExitError> {
    let layout = &arguments.layout;
    let options = ConvertOptions {
        inputs: arguments.inputs.clone(),
        out: arguments.out.clone(),
        columns: arguments.columns.clone(),
        codec: layout.compression.codec(),
        chunk_size_bytes: layout.chunk_size,
        number_chunk_size_bytes: layout.number_chunk_size,
        direct_columns: layout.direct.clone(),
        row_index_stride: layout.row_group,
        stripe_rows: arguments
            .stripe_rows
            .map(|rows| usize::try_from(rows).unwrap_or(usize::MAX)),
        rows_per_file: arguments.rows_per_file,
        overwrite: layout.overwrite,
        verify: arguments.verify,
        csv: CsvOptions {
            header: !arguments.csv_no_header,
            delimiter: arguments.csv_delimiter,
            null_text: arguments.csv_null.clone(),
            ..CsvOptions::default()
        },
        threads: Some(Arc::new(ScopedThreads::new(
            available_parallelism().map_or(1, usize::from),
        ))),
    };
    file_job::run(layout.quiet, &arguments.out, |watch| {
        let ConvertReport { files, rows, bytes, .. } = convert_watched(&options, !layout.quiet, watch)?;
        Ok((files.len(), rows, bytes))
    })
}

fn convert_watched(options: &ConvertOptions, draw: bool, watch: &InterruptWatch) -> Result<ConvertReport, ExitError> {
    let progress = RowProgress::new(None, draw, watch);
    let result = convert(options, &|rows| progress.advance(rows));
    progress.finish();
    result.map_err(explain_tool)
}
