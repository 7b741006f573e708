//! What ends a command early, and how it is told: one line that says what is wrong, one that says what to do.
//! What DataFusion's messages mean is left to `explain`.

use std::io;
use std::process::ExitCode;

use console::style;

/// Why a command stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The query or the data is wrong.
    Query(Report),
    /// The command line is wrong.
    Usage(Report),
    /// Ctrl-C, or the system asked to stop.
    Interrupted,
    /// Whoever read the output has left: `grampus … | head`.
    OutputClosed,
}

impl Failure {
    /// The exit status: 1 the query or the data, 2 the command line, 130 interrupted. A closed output is no error.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Query(_) => 1,
            Self::Usage(_) => 2,
            Self::Interrupted => 130,
            Self::OutputClosed => 0,
        })
    }

    /// Tells the person, on standard error.
    pub(crate) fn tell(&self, verbose: bool) {
        match self {
            Self::Query(report) | Self::Usage(report) => report.tell(verbose),
            Self::Interrupted => super::note("cancelled"),
            Self::OutputClosed => {}
        }
    }
}

/// An error in words for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Report {
    /// What is wrong, in one line.
    pub(crate) message: String,
    /// What to do about it, in one line.
    pub(crate) hint: Option<String>,
    /// The chain of errors as the libraries told it; shown with `-v`.
    pub(crate) causes: Vec<String>,
}

impl Report {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::default()
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn tell(&self, verbose: bool) {
        let error = style("error:").for_stderr().red().bold();
        super::note(format_args!("{error} {}", self.message));
        if let Some(hint) = &self.hint {
            let word = style("hint:").for_stderr().cyan().bold();
            super::note(format_args!("{word} {hint}"));
        }
        if verbose {
            for cause in &self.causes {
                super::note(format_args!("  because: {}", cause.replace('\n', "\n           ")));
            }
        }
    }
}

impl From<Report> for Failure {
    fn from(report: Report) -> Self {
        Self::Query(report)
    }
}

/// A failed write of results.
pub(crate) fn output(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Report::new(format!("cannot write the result: {}", os_words(error))).into(),
    }
}

/// An operating system's error without its number.
pub(crate) fn os_words(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    crate::error_messages::lower_first(words)
}

/// A file that could not be used.
pub(crate) fn file(what: &str, path: &str, error: &io::Error) -> Report {
    Report::new(format!("cannot {what} {path}: {}", os_words(error)))
}
