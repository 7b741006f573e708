//! [`ExitError`]: why a command ends early, its exit status, and the [`ErrorReport`] that is printed.

use std::io;
use std::process::ExitCode;

use console::style;

use crate::terminal::note;
use crate::wording::os_words;

/// Why a command ends early.
#[derive(Debug)]
pub(crate) enum ExitError {
    /// The query or the data is wrong.
    Query(ErrorReport),
    /// The command line is wrong.
    Usage(ErrorReport),
    /// Ctrl-C, or the system asked to stop.
    Interrupted,
    /// The reader of the output closed it, as in `grampus … | head`.
    OutputClosed,
}

impl ExitError {
    /// A failed write of results.
    pub(crate) fn output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => ErrorReport::new(format!("cannot write the result: {}", os_words(error))).into(),
        }
    }

    /// The exit status: 1 for the query or the data, 2 for the command line, 130 for an interrupt. A closed output is
    /// no error.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Query(_) => 1,
            Self::Usage(_) => 2,
            Self::Interrupted => 130,
            Self::OutputClosed => 0,
        })
    }

    /// Prints the error on standard error, with the libraries' causes if `verbose`.
    pub(crate) fn print(&self, verbose: bool) {
        match self {
            Self::Query(report) | Self::Usage(report) => report.print(verbose),
            Self::Interrupted => note("cancelled"),
            Self::OutputClosed => {}
        }
    }
}

/// An error in words for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ErrorReport {
    /// The error, in one line.
    pub(crate) message: String,
    /// The advice, in one line.
    pub(crate) hint: Option<String>,
    /// The chain of errors in the libraries' words; printed with `-v`.
    pub(crate) causes: Vec<String>,
}

impl ErrorReport {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::default()
        }
    }

    /// A file that could not be used: `cannot open trips.orc: permission denied`.
    pub(crate) fn file(verb: &str, path: &str, error: &io::Error) -> Self {
        Self::new(format!("cannot {verb} {path}: {}", os_words(error)))
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn print(&self, verbose: bool) {
        let error = style("error:").for_stderr().red().bold();
        note(format_args!("{error} {}", self.message));
        if let Some(hint) = &self.hint {
            let word = style("hint:").for_stderr().cyan().bold();
            note(format_args!("{word} {hint}"));
        }
        if verbose {
            for cause in &self.causes {
                note(format_args!("  because: {}", cause.replace('\n', "\n           ")));
            }
        }
    }
}

impl From<ErrorReport> for ExitError {
    fn from(report: ErrorReport) -> Self {
        Self::Query(report)
    }
}
