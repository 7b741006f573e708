//! [`PendingFile`]: an output file that appears under its name only when it is complete; and the folder for such files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use grampus_orc_layout::LayoutError;
use tempfile::NamedTempFile;

use crate::error::ToolError;

/// Bytes collected before a system call.
const BUFFER_BYTES: usize = 1 << 20;

/// Makes `dir` and its parents. Unless `overwrite` is set, the folder has to be empty.
pub(crate) fn prepare_dir(dir: &Path, overwrite: bool) -> Result<(), ToolError> {
    if dir.exists() && !dir.is_dir() {
        return Err(ToolError::NotAFolder(dir.to_owned()));
    }
    fs::create_dir_all(dir).map_err(|e| ToolError::write(dir, e))?;
    let mut entries = fs::read_dir(dir).map_err(|e| ToolError::write(dir, e))?;
    if !overwrite && entries.next().is_some() {
        return Err(ToolError::NotEmpty(dir.to_owned()));
    }
    Ok(())
}

/// A file being written under a temporary name, a dot file in the same folder. [`publish`](Self::publish) renames it;
/// dropping this value without publishing removes it.
pub(crate) struct PendingFile {
    path: PathBuf,
    temporary: NamedTempFile,
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
    /// Starts the file that will be `path`.
    pub(crate) fn create(path: &Path) -> Result<Self, ToolError> {
        let dir = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".grampus-").suffix(".tmp");
        #[cfg(unix)]
        let builder = {
            // The mode that the process's umask allows, not the private mode of temporary files.
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(fs::Permissions::from_mode(0o666))
        };
        let temporary = builder.tempfile_in(dir).map_err(|e| ToolError::write(path, e))?;
        Ok(Self {
            path: path.to_owned(),
            temporary,
            failure: Arc::default(),
        })
    }

    /// A buffered writer into the file.
    pub(crate) fn writer(&self) -> Result<PendingWriter, ToolError> {
        let file = self.temporary.as_file().try_clone();
        let file = file.map_err(|e| ToolError::write(&self.path, e))?;
        Ok(PendingWriter {
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            failure: Arc::clone(&self.failure),
        })
    }

    /// Gives the finished file its name, over an older file of that name. Returns the size in bytes.
    pub(crate) fn publish(self, mut writer: PendingWriter) -> Result<u64, ToolError> {
        let fail = |e: io::Error| ToolError::write(&self.path, e);
        writer.file.flush().map_err(fail)?;
        let bytes = writer.file.get_ref().metadata().map_err(fail)?.len();
        self.temporary.persist(&self.path).map_err(|e| fail(e.error))?;
        Ok(bytes)
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
                ToolError::write(&self.path, failure)
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
    use super::*;

    #[test]
    fn pending_file_appears_when_published_and_leaves_nothing_when_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.orc");
        let pending = PendingFile::create(&path).unwrap();
        let mut writer = pending.writer().unwrap();
        writer.write_all(b"whole").unwrap();
        assert!(!path.exists());
        assert_eq!(pending.publish(writer).unwrap(), 5);
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        drop(PendingFile::create(&dir.path().join("b.orc")).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn folder_with_content_is_refused_unless_overwriting() {
        let dir = tempfile::tempdir().unwrap();
        prepare_dir(&dir.path().join("new/deep"), false).unwrap();
        let error = prepare_dir(dir.path(), false).unwrap_err();
        assert!(matches!(error, ToolError::NotEmpty(_)), "{error}");
        prepare_dir(dir.path(), true).unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(matches!(prepare_dir(&file, true), Err(ToolError::NotAFolder(_))));
    }

    #[test]
    fn operating_systems_error_survives_the_orc_writers_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.orc");
        let mut pending = PendingFile::create(&path).unwrap();
        let in_words = || LayoutError::Write("something failed".to_owned());
        assert!(matches!(pending.explain(in_words()), ToolError::Layout(_)));
        // A handle that cannot be written to.
        pending.temporary = NamedTempFile::from_parts(
            File::open(path.parent().unwrap()).unwrap(),
            pending.temporary.into_temp_path(),
        );
        let mut writer = pending.writer().unwrap();
        assert!(writer.write(&vec![0; 2 * BUFFER_BYTES]).is_err());
        match pending.explain(in_words()) {
            ToolError::Write { path: named, .. } => assert_eq!(named, path),
            _ => panic!("the error names the file"),
        }
    }
}
