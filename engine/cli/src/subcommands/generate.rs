//! `grampus taxi generate` and `grampus convert`: options in, progress, what was written out. The work is the
//! library's.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use grampus_tools::convert::{ConvertError, ConvertOptions, ConvertReport, CsvOptions, convert};
use grampus_tools::taxi::{GenerateOptions, GenerateReport, TaxiError, generate};
use indicatif::ProgressBar;

use crate::args::{ConvertArgs, GenerateArgs};
use crate::exit_error::{self, Failure, Report};
use crate::interrupts::{Catch, Interrupts, Watch};
use crate::{note, progress, units};

/// `grampus taxi generate`.
pub(crate) fn taxi_generate(arguments: &GenerateArgs) -> Result<(), Failure> {
    let layout = &arguments.layout;
    let options = GenerateOptions {
        files: arguments.files,
        seed: arguments.seed,
        columns: arguments.columns,
        codec: layout.compression.codec(),
        chunk_size_bytes: layout.chunk_size,
        direct_columns: layout.direct.clone(),
        row_index_stride: layout.row_group,
        overwrite: layout.overwrite,
        threads: arguments.partitions,
        ..GenerateOptions::new(arguments.rows, &arguments.out)
    };
    reported(layout.quiet, &arguments.out, |watch| {
        let GenerateReport { files, rows, bytes, .. } = generate_watched(&options, !layout.quiet, watch)?;
        Ok((files.len(), rows, bytes))
    })
}

/// Generates with a progress bar until done or interrupted. Draws only if `draw`.
pub(crate) fn generate_watched(
    options: &GenerateOptions,
    draw: bool,
    watch: &Watch,
) -> Result<GenerateReport, Failure> {
    let work = Work::new(Some(options.rows), draw, watch);
    let result = generate(options, &|rows| work.on(rows));
    work.bar.finish_and_clear();
    result.map_err(|error| match error {
        TaxiError::Cancelled => Failure::Interrupted,
        TaxiError::Options(words) => Failure::Usage(Report::new(words)),
        TaxiError::Output(error) => output_report(&error).into(),
        other => Report::new(other.to_string()).into(),
    })
}

/// `grampus convert`.
pub(crate) fn convert_files(arguments: &ConvertArgs) -> Result<(), Failure> {
    let layout = &arguments.layout;
    let options = ConvertOptions {
        inputs: arguments.inputs.clone(),
        out: arguments.out.clone(),
        columns: arguments.columns.clone(),
        codec: layout.compression.codec(),
        chunk_size_bytes: layout.chunk_size,
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
    };
    reported(layout.quiet, &arguments.out, |watch| {
        let ConvertReport { files, rows, bytes, .. } = convert_watched(&options, !layout.quiet, watch)?;
        Ok((files.len(), rows, bytes))
    })
}

fn convert_watched(options: &ConvertOptions, draw: bool, watch: &Watch) -> Result<ConvertReport, Failure> {
    let work = Work::new(None, draw, watch);
    let result = convert(options, &|rows| work.on(rows));
    work.bar.finish_and_clear();
    result.map_err(|error| match error {
        ConvertError::Cancelled => Failure::Interrupted,
        ConvertError::Options(words) => Failure::Usage(Report::new(words)),
        ConvertError::Output(error) => output_report(&error).into(),
        other => Report::new(other.to_string()).into(),
    })
}

/// Work that counts rows, is drawn after a second, and stops when interrupted.
struct Work<'a> {
    bar: ProgressBar,
    start: Instant,
    watch: &'a Watch,
}

impl<'a> Work<'a> {
    fn new(rows: Option<u64>, draw: bool, watch: &'a Watch) -> Self {
        Self {
            bar: progress::rows_bar(rows, draw),
            start: Instant::now(),
            watch,
        }
    }

    fn on(&self, rows: u64) -> ControlFlow<()> {
        self.bar.inc(rows);
        let elapsed = self.start.elapsed();
        if elapsed > Duration::from_secs(1) {
            let done = self.bar.position();
            let rate = (done as f64 / elapsed.as_secs_f64()) as u64;
            self.bar.set_message(format!(
                "{}, {} a second",
                units::counted(done, "row"),
                units::count(rate)
            ));
        }
        if self.watch.fired() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Runs work that looks at a watch from its own threads.
pub(crate) fn with_interrupts<T>(work: impl FnOnce(&Watch) -> Result<T, Failure>) -> Result<T, Failure> {
    let interrupts = Interrupts::listen(Catch::InterruptAndTerminate);
    let interrupts = interrupts.map_err(|error| exit_error::file("listen for", "Ctrl-C", &error))?;
    work(&interrupts.watch())
}

fn output_report(error: &grampus_tools::atomic_output::OutputError) -> Report {
    use grampus_tools::atomic_output::OutputError;
    match error {
        OutputError::NotEmpty(path) => Report::new(format!("{} is not empty", path.display()))
            .hint("name another folder, or write over its files with --overwrite"),
        OutputError::Exists(path) => {
            Report::new(format!("{} exists", path.display())).hint("name another file, or add --overwrite")
        }
        OutputError::Io { path, source } => exit_error::file("write", &path.display().to_string(), source),
        other => Report::new(other.to_string()),
    }
}

/// Runs work that looks at a watch, and says how many files, rows and bytes it wrote to `out`, and how fast.
fn reported(
    quiet: bool,
    out: &Path,
    work: impl FnOnce(&Watch) -> Result<(usize, u64, u64), Failure>,
) -> Result<(), Failure> {
    let start = Instant::now();
    let (files, rows, bytes) = with_interrupts(work)?;
    if quiet {
        return Ok(());
    }
    let time = start.elapsed();
    let rate = bytes as f64 / time.as_secs_f64().max(1e-9);
    note(format_args!(
        "{} in {}, {} in {} ({} a second): {}",
        units::counted(rows, "row"),
        units::counted(files as u64, "file"),
        units::bytes(bytes),
        units::duration(time),
        units::bytes(rate as u64),
        out.display(),
    ));
    Ok(())
}
