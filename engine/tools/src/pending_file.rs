//! [`PendingFile`]: an output file in a staged place, which names its final place in errors.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use grampus_orc_layout::LayoutError;

use crate::error::ToolError;

/// Bytes collected before a system call.
const BUFFER_BYTES: usize = 1 << 20;

/// A file being written. Its folder is staged: it decides when the file appears under its final name.
pub(crate) struct PendingFile {
    /// The final path, for messages.
    target: PathBuf,
    /// The path that is written.
    staged: PathBuf,
    file: File,
    failure: Arc<OnceLock<io::Error>>,
}

/// The buffered writer of a [`PendingFile`].
///
/// The ORC writer above turns the operating system's errors into text. This writer therefore keeps the first of them in
/// its original form.
pub(crate) struct PendingWriter {
    file: BufWriter<File>,
    failure: Arc<OnceLock<io::Error>>,
}

impl PendingFile {
    /// Starts the file that will be `target`, at the path `staged`.
    pub(crate) fn create(target: PathBuf, staged: PathBuf) -> Result<Self, ToolError> {
        let file = File::create_new(&staged).map_err(|e| ToolError::write(&target, e))?;
        Ok(Self {
            target,
            staged,
            file,
            failure: Arc::default(),
        })
    }

    /// The final path.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// The path that is written.
    pub(crate) fn staged(&self) -> &Path {
        &self.staged
    }

    /// A buffered writer into the file.
    pub(crate) fn writer(&self) -> Result<PendingWriter, ToolError> {
        let file = self.file.try_clone();
        let file = file.map_err(|e| ToolError::write(&self.target, e))?;
        Ok(PendingWriter {
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            failure: Arc::clone(&self.failure),
        })
    }

    /// Writes the last bytes and syncs the file to disk. Returns its size in bytes.
    pub(crate) fn finish(&self, mut writer: PendingWriter) -> Result<u64, ToolError> {
        let fail = |e: io::Error| ToolError::write(&self.target, e);
        writer.file.flush().map_err(fail)?;
        self.file.sync_all().map_err(fail)?;
        Ok(self.file.metadata().map_err(fail)?.len())
    }

    /// The error behind the ORC writer's `error`: the operating system's, if the file could not be written, otherwise
    /// `error` itself.
    pub(crate) fn explain(&self, error: LayoutError) -> ToolError {
        match self.failure.get() {
            Some(failure) => {
                let failure = match failure.raw_os_error() {
                    Some(code) => io::Error::from_raw_os_error(code),
                    None => io::Error::new(failure.kind(), failure.to_string()),
                };
                ToolError::write(&self.target, failure)
            }
            None => error.into(),
        }
    }
}

impl PendingWriter {
    fn remember<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|e| {
            let copy = io::Error::new(e.kind(), e.to_string());
            // Only the first error is kept: `set` fails for later ones.
            let _ = self.failure.set(e);
            copy
        })
    }
}

impl Write for PendingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.file.write(bytes);
        self.remember(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.file.flush();
        self.remember(result)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn operating_systems_error_survives_the_orc_writers_text() {
        let dir = tempfile::tempdir().unwrap();
        let (target, staged) = (dir.path().join("a.orc"), dir.path().join("staged"));
        let mut pending = PendingFile::create(target.clone(), staged).unwrap();
        let in_words = || LayoutError::Write("something failed".to_owned());
        assert!(matches!(pending.explain(in_words()), ToolError::Layout(_)));
        // A handle that cannot be written to.
        pending.file = File::open(dir.path()).unwrap();
        let mut writer = pending.writer().unwrap();
        assert!(writer.write(&vec![0; 2 * BUFFER_BYTES]).is_err());
        match pending.explain(in_words()) {
            ToolError::Write { path: named, .. } => assert_eq!(named, target),
            _ => panic!("the error names the file"),
        }
    }

    #[test]
    fn finished_file_has_all_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let pending = PendingFile::create(dir.path().join("a.orc"), dir.path().join("staged")).unwrap();
        let mut writer = pending.writer().unwrap();
        writer.write_all(b"whole").unwrap();
        assert_eq!(pending.finish(writer).unwrap(), 5);
        assert_eq!(fs::read(pending.staged()).unwrap(), b"whole");
    }
}
