//! `grampus bench io`: the I/O stack's microbenchmarks, as a table and as JSON.

use std::io::{self, Write};
use std::path::Path;

use grampus_io_bench::{self as bench, BenchOptions, Figure, sections};

use crate::args::BenchIoArgs;
use crate::exit_error::{ErrorReport, ExitError};
use crate::interrupts::{Interrupts, SignalMode};
use crate::output::write_file;
use crate::scratch_folder;

/// The data file has a whole number of MiB.
const MIB: u64 = 1 << 20;

/// Measures and prints. Figures that failed are an error, after all other figures are printed.
pub(crate) fn run(arguments: &BenchIoArgs) -> Result<(), ExitError> {
    let known: Vec<&str> = sections().collect();
    if let Some(unknown) = arguments.sections.iter().find(|name| !known.contains(&name.as_str())) {
        let report = ErrorReport::new(format!("no section named {unknown}"));
        return Err(ExitError::Usage(
            report.hint(format!("there are: {}", known.join(", "))),
        ));
    }
    // The signals' thread removes the data file, at the latest a second after a signal.
    let _interrupts = Interrupts::listen(SignalMode::Command)?;
    let scratch = scratch_folder::create(arguments.folder.as_deref())?;
    let bytes = (arguments.size as u64 / MIB).max(1) * MIB;
    let options = BenchOptions {
        small: arguments.small,
        sections: arguments.sections.clone(),
        folder: scratch.path().to_owned(),
        bytes,
    };
    let only_json = arguments.json.as_deref() == Some(Path::new("-"));
    let mut written = Ok(());
    let report = bench::run(&options, &mut |figure| {
        if !only_json && written.is_ok() {
            written = line(figure);
        }
    });
    written.map_err(|error| ExitError::output(&error))?;
    let report =
        report.map_err(|error| ErrorReport::new(error.to_string()).hint("`grampus device` says what is there"))?;
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&report).map_err(|error| ExitError::output(&error.into()))?;
        match only_json {
            true => writeln!(io::stdout(), "{text}").map_err(|error| ExitError::output(&error))?,
            false => write_file(path, &(text + "\n"))?,
        }
    }
    match report.figures.iter().filter(|figure| figure.error.is_some()).count() {
        0 => Ok(()),
        failed => {
            Err(ErrorReport::new(format!("{failed} of {} figures could not be had", report.figures.len())).into())
        }
    }
}

fn line(figure: &Figure) -> io::Result<()> {
    writeln!(io::stdout(), "{figure}")
}
