//! `grampus layout`: the place of every part of an ORC file, as text and as JSON.

use std::io::{self, Write};
use std::path::Path;

use grampus_orc_layout::LayoutError;
use grampus_orc_layout::file_source::FileSource;
use grampus_orc_layout::report::{FileReport, ReportOptions};
use grampus_orc_layout::source::ChunkReader;

use crate::args::LayoutArgs;
use crate::error_messages;
use crate::exit_error::{ErrorReport, ExitError};
use crate::units;

/// Prints the report. Damage in a file is an error, after the report of its readable parts.
pub(crate) fn run(arguments: &LayoutArgs) -> Result<(), ExitError> {
    let file = open(&arguments.file)?;
    let explain = |error: LayoutError| ExitError::from(error_messages::layout(&error));
    let tail = file.tail().map_err(explain)?;
    let options = ReportOptions {
        chunks: arguments.json || arguments.full,
        ..ReportOptions::default()
    };
    let report = FileReport::build(&tail, &file, &options).map_err(explain)?;
    print(arguments, &report).map_err(|error| ExitError::output(&error))?;
    match report.problems.len() as u64 {
        0 => Ok(()),
        problems => {
            let problems = units::counted(problems, "problem");
            let report = ErrorReport::new(format!("{}: {problems} in the metadata", file.name()));
            Err(report.hint("the end of the report lists them").into())
        }
    }
}

/// Opens a file.
pub(crate) fn open(path: &Path) -> Result<FileSource, ErrorReport> {
    let name = path.display().to_string();
    FileSource::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => ErrorReport::new(format!("{name} is a folder")).hint("name a file in it"),
        _ => ErrorReport::file("open", &name, &error),
    })
}

fn print(arguments: &LayoutArgs, report: &FileReport) -> io::Result<()> {
    let mut stdout = io::BufWriter::new(io::stdout().lock());
    if arguments.json {
        serde_json::to_writer_pretty(&mut stdout, report)?;
        writeln!(stdout)?;
    } else if arguments.full {
        write!(stdout, "{report:#}")?;
    } else {
        write!(stdout, "{report}")?;
    }
    stdout.flush()
}
