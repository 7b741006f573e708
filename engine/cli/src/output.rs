//! [`Output`]: the destination of results, standard output or a file that is published when all results are written.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use grampus_tools::atomic_output::StagedFile;

use crate::exit_error::{ErrorReport, ExitError, FileError};

/// Bytes collected before a system call.
const BUFFER_BYTES: usize = 1 << 16;

/// A buffered destination. Dropping this value without [`finish`](Self::finish) leaves an older file as it was.
pub(crate) struct Output {
    writer: BufWriter<Box<dyn Write + Send>>,
    /// The path in messages; empty: standard output.
    name: String,
    /// The file before its publication.
    staged: Option<StagedFile>,
    has_text: bool,
}

impl Output {
    /// Standard output, or the file at `path`. Devices and pipes are written to directly.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, ExitError> {
        let Some(path) = path else {
            return Ok(Self::new(Box::new(io::stdout()), String::new(), None));
        };
        let name = path.display().to_string();
        let failed = |error: io::Error| ErrorReport::file("write", &name, &error);
        let is_special = std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        if is_special {
            let file = File::options().write(true).open(path).map_err(failed)?;
            return Ok(Self::new(Box::new(file), name, None));
        }
        let staged = StagedFile::create(path).map_err(failed)?;
        let file = File::create_new(staged.path()).map_err(failed)?;
        Ok(Self::new(Box::new(file), name, Some(staged)))
    }

    fn new(writer: Box<dyn Write + Send>, name: String, staged: Option<StagedFile>) -> Self {
        Self {
            writer: BufWriter::with_capacity(BUFFER_BYTES, writer),
            name,
            staged,
            has_text: false,
        }
    }

    /// Whether something was written.
    pub(crate) fn has_text(&self) -> bool {
        self.has_text
    }

    /// Writes the last bytes, and publishes a file.
    pub(crate) fn finish(mut self) -> Result<(), ExitError> {
        self.flush().map_err(|error| ExitError::output(&error))?;
        let name = std::mem::take(&mut self.name);
        let published = self.staged.take().map_or(Ok(()), StagedFile::publish);
        published.map_err(|error| ErrorReport::file("write", &name, &error).into())
    }

    /// The error of a write, with the file's name.
    fn named(&self, error: io::Error) -> io::Error {
        match self.name.is_empty() {
            true => error,
            false => io::Error::new(error.kind(), FileError::new(&self.name, &error)),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.has_text |= !bytes.is_empty();
        self.writer.write(bytes).map_err(|error| self.named(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush().map_err(|error| self.named(error))
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Writes a whole file, or leaves an older one as it was.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<(), ExitError> {
    let mut output = Output::open(Some(path))?;
    output
        .write_all(text.as_bytes())
        .map_err(|error| ExitError::output(&error))?;
    output.finish()
}
