//! `grampus layout`: where everything in an ORC file is, for people and for programs. What is known is the layout
//! crate's business.

use std::io::{self, Write};

use grampus_orc_layout::LayoutError;
use grampus_orc_layout::describe::{DescribeOptions, FileReport};

use crate::args::LayoutArgs;
use crate::error_messages;
use crate::exit_error::{Failure, Report, output};
use crate::local_file::LocalFile;
use crate::units;

/// Prints the report. A file that is damaged in places is an error after the report of the rest.
pub(crate) fn run(arguments: &LayoutArgs) -> Result<(), Failure> {
    let file = LocalFile::open(&arguments.file)?;
    let told = |error: LayoutError| Failure::from(error_messages::layout(&error));
    let tail = file.tail().map_err(told)?;
    let options = DescribeOptions {
        chunks: arguments.json || arguments.full,
        ..DescribeOptions::default()
    };
    let report = FileReport::build(&tail, &file, &options).map_err(told)?;
    print(arguments, &report).map_err(|error| output(&error))?;
    match report.problems.len() as u64 {
        0 => Ok(()),
        problems => {
            let problems = units::counted(problems, "problem");
            let report = Report::new(format!("{}: {problems} in the metadata", file.name));
            Err(report.hint("the end of the report lists them").into())
        }
    }
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
