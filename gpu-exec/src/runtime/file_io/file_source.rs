//! `FileSource`: a file that columns are read from, through the page cache, past it in whole grains, or from an NVMe
//! namespace by the driver.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use grampus_cuda::Slot;
use grampus_driver::files::NamespaceFile;

use crate::error::RunError;
use crate::input::FileVersion;

/// Reads past the page cache begin and end at multiples of this.
pub(crate) const DIRECT_GRAIN_BYTES: usize = 4096;

/// A file that is open for reading.
#[derive(Debug)]
pub(crate) enum OpenedFile {
    Local(File),
    Namespace(NamespaceFile),
}

impl OpenedFile {
    fn read_exact_at(&self, to: &mut [u8], offset: u64) -> std::io::Result<()> {
        match self {
            Self::Local(file) => file.read_exact_at(to, offset),
            Self::Namespace(file) => file.read_at(offset, to).map_err(std::io::Error::other),
        }
    }
}

/// An open file, and how it is read.
#[derive(Debug)]
pub(crate) struct FileSource {
    pub(crate) version: FileVersion,
    /// `None`: everything of the file was resident when the query began.
    pub(crate) file: Option<OpenedFile>,
    /// Opened for reads past the page cache, if the file is not in it.
    pub(crate) direct: Option<File>,
}

impl FileSource {
    /// A file of which everything is resident.
    pub(crate) fn unopened(version: &FileVersion) -> Self {
        Self {
            version: version.clone(),
            file: None,
            direct: None,
        }
    }

    /// Checks that the file is still the version that was planned for. A file that was not opened was not read either.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        match &self.file {
            Some(OpenedFile::Local(file)) => self.version.check_open(file),
            Some(OpenedFile::Namespace(_)) | None => Ok(()),
        }
    }

    /// Whether its bytes are not in memory: a few of them are better read by many commands at once.
    pub(crate) fn is_cold(&self) -> bool {
        self.direct.is_some() || self.version.namespace.is_some()
    }

    /// The error of a mapping whose pages the system could not load, although the file is the same.
    pub(crate) fn lost_bytes(&self) -> RunError {
        RunError::File {
            path: self.version.path.display().to_string(),
            reason: "the system could not load bytes of the mapped file; check the disk".to_owned(),
        }
    }

    /// Reads bytes of the file to byte `at` of the slot.
    pub(crate) fn read(&self, slot: &mut Slot, at: usize, bytes: &Range<u64>) -> Result<(), RunError> {
        let len = (bytes.end - bytes.start) as usize;
        let result = match &self.direct {
            Some(direct) => self.read_direct(direct, slot.bytes_mut(), at, bytes.start, len),
            None => return self.read_cached(&mut slot.bytes_mut()[at..at + len], bytes),
        };
        result.map_err(|e| self.failed(&e, bytes))
    }

    /// Reads bytes of the file through the page cache. For few bytes this is the shortest way even if they are not in
    /// it.
    fn read_cached(&self, to: &mut [u8], bytes: &Range<u64>) -> Result<(), RunError> {
        let file = self.file.as_ref().ok_or_else(|| self.not_open())?;
        self.read_from(file, to, bytes)
    }

    /// As `read_cached`, from a file of [`opened_again`](Self::opened_again).
    pub(crate) fn read_from(&self, file: &OpenedFile, to: &mut [u8], bytes: &Range<u64>) -> Result<(), RunError> {
        file.read_exact_at(to, bytes.start).map_err(|e| self.failed(&e, bytes))
    }

    /// The same file, opened for one thread. Every read counts the users of an open file, and threads that count
    /// together wait for one another.
    pub(crate) fn opened_again(&self) -> Result<OpenedFile, RunError> {
        if let Some(file) = &self.version.namespace {
            return Ok(OpenedFile::Namespace(file.clone()));
        }
        let again = open_quietly(&self.version.path).and_then(|file| Ok((file.metadata()?, file)));
        if let Ok((metadata, file)) = again
            && FileVersion::of_metadata(&self.version.path, &metadata) == self.version
        {
            return Ok(OpenedFile::Local(file));
        }
        // The file was replaced meanwhile. The open one is still the one that was planned for, and the end of the query
        // notices.
        let Some(OpenedFile::Local(file)) = &self.file else {
            return Err(self.not_open());
        };
        let again = file.try_clone().map_err(|e| self.failed(&e, &(0..0)))?;
        Ok(OpenedFile::Local(again))
    }

    fn not_open(&self) -> RunError {
        RunError::File {
            path: self.version.path.display().to_string(),
            reason: "the file was not opened".to_owned(),
        }
    }

    fn failed(&self, e: &std::io::Error, bytes: &Range<u64>) -> RunError {
        if e.kind() == std::io::ErrorKind::UnexpectedEof {
            let (end, had) = (bytes.end, self.version.bytes);
            return (self.version).changed(format!("it ends before byte {end}, and had {had} bytes"));
        }
        RunError::File {
            path: self.version.path.display().to_string(),
            reason: format!("reading {} bytes at byte {}: {e}", bytes.end - bytes.start, bytes.start),
        }
    }

    /// Reads past the page cache: whole grains, to an aligned place behind the bytes that are there, moved into place
    /// afterwards.
    fn read_direct(&self, direct: &File, slot: &mut [u8], at: usize, offset: u64, len: usize) -> std::io::Result<()> {
        let grain = DIRECT_GRAIN_BYTES as u64;
        let first = offset / grain * grain;
        let skip = (offset - first) as usize;
        let from = at.next_multiple_of(DIRECT_GRAIN_BYTES);
        let wanted = (skip + len).next_multiple_of(DIRECT_GRAIN_BYTES);
        let mut read = 0;
        while read < skip + len {
            // A short read ends at the file's end, or at a multiple of a block: the next read goes on from there.
            let more = direct.read_at(&mut slot[from + read..from + wanted], first + read as u64)?;
            if more == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            read += more;
            if read < skip + len && !read.is_multiple_of(512) {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        slot.copy_within(from + skip..from + skip + len, at);
        Ok(())
    }
}

/// The source of a file, by its position in the input.
pub(crate) fn opened(sources: &[Option<FileSource>], file: usize) -> Result<&FileSource, RunError> {
    let source = sources.get(file).and_then(Option::as_ref);
    source.ok_or_else(|| RunError::Invalid(format!("file {file} was not opened")))
}

/// Opens a file so that reads need not update its access time, which is a tenth of the cost of reading few bytes from
/// the page cache. The system allows this to the file's owner only.
#[cfg(target_os = "linux")]
fn open_quietly(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NOATIME.bits() as i32;
    let quiet = File::options().read(true).custom_flags(flags).open(path);
    quiet.or_else(|_| File::open(path))
}

#[cfg(not(target_os = "linux"))]
fn open_quietly(path: &Path) -> std::io::Result<File> {
    File::open(path)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use grampus_cuda::{Device, PinnedBuffer, slots};

    #[test]
    fn reads_past_the_page_cache_bring_the_same_bytes() {
        let bytes: Vec<u8> = (0..100_003u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        file.as_file().sync_all().unwrap();
        let version = FileVersion::of(file.path()).unwrap();
        let source = |direct| FileSource {
            version: version.clone(),
            file: Some(OpenedFile::Local(File::open(file.path()).unwrap())),
            direct,
        };
        let Some(direct) = crate::runtime::file_io::page_cache_probe::open_direct(file.path()) else {
            grampus_test_support::missing(grampus_test_support::Resource::DirectIo, file.path().display());
            return;
        };
        let buffer = PinnedBuffer::new(&Device::host(1, 1 << 20), 128 << 10).unwrap();
        let mut slot = slots(buffer, 128 << 10).unwrap().remove(0);
        let (cached, direct) = (source(None), source(Some(direct)));
        // Places all over the file, one behind the other, to the last byte.
        for (first, second) in [
            (5..4101, 8192..8200),
            (0..1, 1..50_000),
            (99_000..100_003, 4095..4097),
            (100_002..100_003, 0..0),
        ] {
            for source in [&cached, &direct] {
                let at = (first.end - first.start) as usize;
                source.read(&mut slot, 0, &first).unwrap();
                source.read(&mut slot, at, &second).unwrap();
                let end = at + (second.end - second.start) as usize;
                let expected = [
                    &bytes[first.start as usize..first.end as usize],
                    &bytes[second.start as usize..second.end as usize],
                ];
                assert!(slot.bytes_mut()[..end] == expected.concat(), "{first:?}, {second:?}");
            }
        }
        for source in [&cached, &direct] {
            let refused = source.read(&mut slot, 0, &(100_000..100_004)).unwrap_err();
            assert!(refused.to_string().contains("it ends before byte 100004"), "{refused}");
        }
    }
}
