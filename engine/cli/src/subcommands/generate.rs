//! `grampus taxi generate`: writes a table of taxi trips.

use grampus_tools::taxi::{GenerateOptions, GenerateReport, generate};

use super::file_job::{self, RowProgress};
use crate::args::GenerateArgs;
use crate::error_messages::explain_tool;
use crate::exit_error::ExitError;
use crate::interrupts::InterruptWatch;

/// Runs the subcommand.
pub(crate) fn run(arguments: &GenerateArgs) -> Result<(), ExitError> {
    let layout = &arguments.layout;
    let options = GenerateOptions {
        files: arguments.files,
        seed: arguments.seed,
        columns: arguments.columns,
        codec: layout.compression.codec(),
        chunk_size_bytes: layout.chunk_size,
        number_chunk_size_bytes: layout.number_chunk_size,
        direct_columns: layout.direct.clone(),
        row_index_stride: layout.row_group,
        overwrite: layout.overwrite,
        threads: arguments.partitions,
        ..GenerateOptions::new(arguments.rows, &arguments.out)
    };
    file_job::run(layout.quiet, &arguments.out, |watch| {
        let GenerateReport { files, rows, bytes, .. } = generate_watched(&options, !layout.quiet, watch)?;
        Ok((files.len(), rows, bytes))
    })
}

/// Generates until done or interrupted, with a progress bar if `draw`.
pub(crate) fn generate_watched(
    options: &GenerateOptions,
    draw: bool,
    watch: &InterruptWatch,
) -> Result<GenerateReport, ExitError> {
    let progress = RowProgress::new(Some(options.rows), draw, watch);
    let result = generate(options, &|rows| progress.advance(rows));
    progress.finish();
    result.map_err(explain_tool)
}
