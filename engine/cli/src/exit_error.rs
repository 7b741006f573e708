//! [`ExitError`]: why a command ends early, its exit status, and the [`ErrorReport`] that is printed.

use std::error::Error;
use std::fmt;
use std::io;

use console::style;
use serde_json::{Value, json};

use crate::agent_mode;
use crate::caught_signal::CaughtSignal;
use crate::terminal::note;
use crate::wording::os_words;

/// 128 and SIGPIPE's number.
const CLOSED_PIPE_STATUS: u8 = 141;

/// Why a command ends early.
#[derive(Debug)]
pub(crate) enum ExitError {
    /// The query or the data is wrong.
    Query(ErrorReport),
    /// The command line is wrong.
    Usage(ErrorReport),
    /// A signal: Ctrl-C, a request to terminate, or a terminal that went away.
    Interrupted,
    /// The reader of the output closed it, as in `grampus … | head`.
    OutputClosed,
}

impl ExitError {
    /// A failed write of results.
    pub(crate) fn output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => match error.get_ref().and_then(|inner| inner.downcast_ref::<FileError>()) {
                Some(named) => ErrorReport::new(named.to_string()).into(),
                None => ErrorReport::new(format!("cannot write the result: {}", os_words(error))).into(),
            },
        }
    }

    /// The exit status: 1 for the query or the data, 2 for the command line. For a signal, and for a closed output, it
    /// is the status that shells give to a command that the signal ended: 130 for Ctrl-C, 141 for a closed pipe.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::Query(_) => 1,
            Self::Usage(_) => 2,
            Self::Interrupted => CaughtSignal::last().unwrap_or(CaughtSignal::Interrupt).exit_status(),
            Self::OutputClosed => CLOSED_PIPE_STATUS,
        }
    }

    /// The error with its place in the input before its message.
    pub(crate) fn at(self, place: impl fmt::Display) -> Self {
        let located = |report: ErrorReport| ErrorReport {
            message: format!("{place}: {}", report.message),
            ..report
        };
        match self {
            Self::Query(report) => Self::Query(located(report)),
            Self::Usage(report) => Self::Usage(located(report)),
            other => other,
        }
    }

    /// Prints the error on standard error, with the libraries' causes if `verbose`.
    pub(crate) fn print(&self, verbose: bool) {
        match self {
            Self::Query(report) | Self::Usage(report) => report.print(verbose),
            Self::Interrupted if agent_mode::is_on() => ErrorReport::new("cancelled").print(verbose),
            Self::Interrupted => note("cancelled"),
            Self::OutputClosed => {}
        }
    }
}

/// A failed write into a named file, as the cause of an [`io::Error`].
#[derive(Debug)]
pub(crate) struct FileError {
    words: String,
}

impl FileError {
    pub(crate) fn new(name: &str, error: &io::Error) -> Self {
        Self {
            words: format!("cannot write {name}: {}", os_words(error)),
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl Error for FileError {}

/// An error in words for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ErrorReport {
    /// The error, in one line. A list of reasons has a line for each.
    pub(crate) message: String,
    /// The line and the column in the input, from 1 on.
    pub(crate) place: Option<(usize, usize)>,
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

    /// The line and the column in the input.
    pub(crate) fn with_place(mut self, line: usize, column: usize) -> Self {
        self.place = Some((line, column));
        self
    }

    /// The error as one JSON object on one line.
    fn json(&self, verbose: bool) -> Value {
        let mut object = json!({
            "message": self.message,
            "line": self.place.map(|(line, _)| line),
            "column": self.place.map(|(_, column)| column),
            "hint": self.hint,
        });
        if verbose {
            object["causes"] = self.causes.clone().into();
        }
        object
    }

    fn print(&self, verbose: bool) {
        if agent_mode::is_on() {
            return note(self.json(verbose));
        }
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
