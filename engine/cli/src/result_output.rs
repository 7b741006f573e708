//! [`ResultOutput`]: where the rows of statements go: the output of the command line, a file of `\o`, or a pager.
//!
//! A file of `\o` gets the results of the statements up to the next `\o`, and appears then, or at the end of the
//! session. If a statement fails after its rows have begun, the file is dropped: it would be incomplete.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use crate::exit_error::{ErrorReport, ExitError};
use crate::output::Output;
use crate::pager::Pager;

/// The outputs of a session.
#[derive(Debug)]
pub(crate) struct ResultOutput {
    /// Standard output, or the file of `--output`.
    output: Output,
    is_terminal: bool,
    file: Option<NamedOutput>,
}

#[derive(Debug)]
struct NamedOutput {
    name: String,
    output: Output,
}

/// The output of one statement.
pub(crate) enum StatementOutput<'a> {
    Plain(&'a mut Output),
    Paged(Pager<'a>),
}

impl ResultOutput {
    /// Standard output, or the file at `path`.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, ExitError> {
        Ok(Self {
            output: Output::open(path)?,
            is_terminal: path.is_none() && io::stdout().is_terminal(),
            file: None,
        })
    }

    /// Whether results appear on a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal && self.file.is_none()
    }

    /// Whether results go to a file of `\o`.
    pub(crate) fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// Whether the current output has text already.
    pub(crate) fn has_text(&self) -> bool {
        self.file.as_ref().map_or(&self.output, |file| &file.output).has_text()
    }

    /// Publishes the file of an earlier call, and lets results go to `path`; `None`: to the command line's output.
    /// Returns the name of the published file.
    pub(crate) fn redirect(&mut self, path: Option<&str>) -> Result<Option<String>, ExitError> {
        let published = self.publish()?;
        if let Some(path) = path {
            if path.starts_with('|') {
                let report = ErrorReport::new("\\o takes a file, not a command");
                return Err(report
                    .hint("a result that is longer than the screen goes to the pager")
                    .into());
            }
            self.file = Some(NamedOutput {
                name: path.to_owned(),
                output: Output::open(Some(Path::new(path)))?,
            });
        }
        Ok(published)
    }

    fn publish(&mut self) -> Result<Option<String>, ExitError> {
        let Some(file) = self.file.take() else {
            return Ok(None);
        };
        file.output.finish()?;
        Ok(Some(file.name))
    }

    /// Drops the file of `\o`, whose name it returns. An older file of that name stays as it was.
    pub(crate) fn drop_file(&mut self) -> Option<String> {
        self.file.take().map(|file| file.name)
    }

    /// The output of the next statement. `is_paged`: a result that is longer than the terminal's screen goes to a
    /// pager.
    pub(crate) fn begin(&mut self, is_paged: bool) -> StatementOutput<'_> {
        match &mut self.file {
            Some(file) => StatementOutput::Plain(&mut file.output),
            None if is_paged && self.is_terminal => StatementOutput::Paged(Pager::new(&mut self.output)),
            None => StatementOutput::Plain(&mut self.output),
        }
    }

    /// Prints text to the command line's output.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), ExitError> {
        let written = self
            .output
            .write_all(text.as_bytes())
            .and_then(|()| self.output.flush());
        written.map_err(|error| ExitError::output(&error))
    }

    /// Publishes the files.
    pub(crate) fn finish(mut self) -> Result<(), ExitError> {
        self.publish()?;
        self.output.finish()
    }
}

impl StatementOutput<'_> {
    /// Ends the output: rows are visible, and the user has left the pager. False: the user has left it before the last
    /// row.
    pub(crate) fn finish(self) -> Result<bool, ExitError> {
        let (finished, is_complete) = match self {
            Self::Plain(output) => (output.flush(), true),
            Self::Paged(mut pager) => {
                let is_left = pager.is_left();
                (pager.finish(), !is_left)
            }
        };
        finished.map_err(|error| ExitError::output(&error))?;
        Ok(is_complete)
    }
}

impl Write for StatementOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(output) => output.write(bytes),
            Self::Paged(pager) => pager.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(output) => output.flush(),
            Self::Paged(pager) => pager.flush(),
        }
    }
}
