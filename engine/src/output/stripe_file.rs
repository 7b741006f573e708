//! [`StripeFile`]: a file that is open only while a stripe is written to it. A statement may therefore write more files
//! than a process may have open.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

/// An existing file, to which bytes are appended. `flush` closes it until more are written.
#[derive(Debug)]
pub(super) struct StripeFile {
    path: PathBuf,
    open: Option<File>,
}

impl StripeFile {
    /// The file at `path`.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, open: None }
    }
}

impl Write for StripeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = match self.open.take() {
            Some(file) => file,
            None => File::options().append(true).open(&self.path)?,
        };
        self.open.insert(file).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.open.take().map_or(Ok(()), |mut file| file.flush())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn file_is_open_between_a_write_and_a_flush() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert!(
            StripeFile::new(path.clone()).write_all(b"x").is_err(),
            "it makes no file"
        );
        fs::write(&path, "").unwrap();
        let mut file = StripeFile::new(path.clone());
        for part in ["one ", "two ", "three"] {
            file.write_all(part.as_bytes()).unwrap();
            assert!(file.open.is_some());
            file.flush().unwrap();
            assert!(file.open.is_none());
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "one two three");
    }
}
