//! `SpillSegments`: temporary files for many short spills, each of one batch.
//!
//! A segment is written whole when it is finished, behind the segments before it. Many segments share a file, so that
//! the number of open files follows the bytes on disk and not the number of spills. A file is removed with its last
//! segment.
//!
//! A segment that cannot be written keeps the error for its reader. The writer goes on: an operator that waits for a
//! segment must get the segment or the error.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::disk_manager::DiskManager;
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::Stream;

/// Length at which a file takes no more segments.
const FILE_BYTES: u64 = 16 << 20;

/// A factory of segments, in files of another disk manager.
pub(super) struct SpillSegments {
    disk: Arc<DiskManager>,
    /// The file that takes the next segment.
    open: Arc<Mutex<Option<OpenFile>>>,
}

impl SpillSegments {
    /// Segments in temporary files of `disk`, within its limits.
    pub(super) fn new(disk: Arc<DiskManager>) -> Self {
        Self {
            disk,
            open: Arc::default(),
        }
    }
}

impl TempFileFactory for SpillSegments {
    fn create_temp_file(&self, _description: &str) -> Result<Arc<dyn SpillFile>> {
        Ok(Arc::new(Segment {
            disk: Arc::clone(&self.disk),
            open: Arc::clone(&self.open),
            content: Arc::default(),
        }))
    }
}

/// A file that segments are appended to.
struct OpenFile {
    file: Arc<SharedFile>,
    writer: Box<dyn SpillWriter>,
    length: u64,
}

/// A file with the segments of several spills.
struct SharedFile {
    /// Keeps the file. The disk manager removes it when it is dropped.
    spill: Arc<dyn SpillFile>,
    /// For reads at an offset. `None`: the disk manager's files have no path. Each then has one segment.
    reader: Option<File>,
}

/// What a segment has.
#[derive(Default)]
enum Content {
    #[default]
    Nothing,
    Stored(Arc<SharedFile>, Range<u64>),
    Failed(Arc<DataFusionError>),
}

/// One spill.
struct Segment {
    disk: Arc<DiskManager>,
    open: Arc<Mutex<Option<OpenFile>>>,
    content: Arc<Mutex<Content>>,
}

impl SpillFile for Segment {
    fn path(&self) -> Option<&Path> {
        None
    }

    fn size(&self) -> Option<u64> {
        match &*lock(&self.content) {
            Content::Stored(_, range) => Some(range.end - range.start),
            _ => None,
        }
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        match &*lock(&self.content) {
            Content::Nothing => Ok(Box::pin(futures::stream::empty())),
            Content::Failed(error) => Err(DataFusionError::Shared(Arc::clone(error))),
            Content::Stored(file, range) => match &file.reader {
                None => file.spill.read_stream(),
                Some(_) => {
                    let (file, range) = (Arc::clone(file), range.clone());
                    Ok(Box::pin(futures::stream::once(async move { file.read(range) })))
                }
            },
        }
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(SegmentWriter {
            disk: Arc::clone(&self.disk),
            open: Arc::clone(&self.open),
            content: Arc::clone(&self.content),
            buffer: Vec::new(),
        }))
    }
}

impl SharedFile {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        match &self.reader {
            Some(reader) => reader.read_exact_at(&mut bytes, range.start)?,
            None => return Err(DataFusionError::IoError(io::ErrorKind::Unsupported.into())),
        }
        Ok(bytes.into())
    }
}

/// The bytes of a segment that is not finished.
struct SegmentWriter {
    disk: Arc<DiskManager>,
    open: Arc<Mutex<Option<OpenFile>>>,
    content: Arc<Mutex<Content>>,
    buffer: Vec<u8>,
}

impl Write for SegmentWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for SegmentWriter {
    fn finish(&mut self) -> Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        let mut open = lock(&self.open);
        let stored = append(&mut open, &self.disk, &buffer);
        *lock(&self.content) = match stored {
            Ok((file, range)) => Content::Stored(file, range),
            Err(error) => {
                // The file may have a part of the segment.
                *open = None;
                Content::Failed(Arc::new(error))
            }
        };
        Ok(())
    }
}

/// Appends a segment to the open file, or to a new one.
fn append(
    open: &mut Option<OpenFile>,
    disk: &Arc<DiskManager>,
    segment: &[u8],
) -> Result<(Arc<SharedFile>, Range<u64>)> {
    let mut current = match open.take() {
        Some(current) => current,
        None => create(disk)?,
    };
    current.writer.write_all(segment)?;
    current.writer.flush()?;
    let range = current.length..current.length + segment.len() as u64;
    current.length = range.end;
    let file = Arc::clone(&current.file);
    if file.reader.is_some() && current.length < FILE_BYTES {
        *open = Some(current);
    } else {
        current.writer.finish()?;
    }
    Ok((file, range))
}

fn create(disk: &Arc<DiskManager>) -> Result<OpenFile> {
    let spill = disk.create_tmp_file("spilled batches")?;
    let writer = spill.open_writer()?;
    let reader = spill.path().map(File::open).transpose()?;
    Ok(OpenFile {
        file: Arc::new(SharedFile { spill, reader }),
        writer,
        length: 0,
    })
}

/// Locks a mutex. Holders leave whole values.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    fn disk(max_bytes: u64) -> Arc<DiskManager> {
        let builder = DiskManager::builder().with_max_temp_directory_size(max_bytes);
        Arc::new(builder.build().unwrap())
    }

    fn spill(segments: &SpillSegments, bytes: &[u8]) -> Arc<dyn SpillFile> {
        let segment = segments.create_temp_file("test").unwrap();
        let mut writer = segment.open_writer().unwrap();
        writer.write_all(bytes).unwrap();
        writer.flush().unwrap();
        writer.finish().unwrap();
        segment
    }

    async fn read(segment: &Arc<dyn SpillFile>) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        let mut stream = segment.read_stream()?;
        while let Some(bytes) = stream.next().await {
            all.extend_from_slice(&bytes?);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn segments_share_files_that_go_with_their_last_segment() {
        let disk = disk(1 << 30);
        let segments = SpillSegments::new(Arc::clone(&disk));
        let large = vec![7; (FILE_BYTES / 2) as usize];
        let spilled: Vec<_> = [b"one".as_slice(), b"", &large, b"four", &large, b"six"]
            .iter()
            .map(|bytes| spill(&segments, bytes))
            .collect();
        assert_eq!(disk.spilling_progress().active_files_count, 2);
        assert_eq!(read(&spilled[5]).await.unwrap(), b"six");
        assert_eq!(read(&spilled[1]).await.unwrap(), b"");
        assert_eq!(read(&spilled[2]).await.unwrap(), large);
        assert_eq!(read(&spilled[3]).await.unwrap(), b"four");
        assert_eq!(spilled[3].size(), Some(4));
        drop(spilled);
        assert_eq!(disk.spilling_progress().active_files_count, 1);
        drop(segments);
        assert_eq!(disk.spilling_progress().current_bytes, 0);
    }

    #[tokio::test]
    async fn segment_that_does_not_fit_on_the_disk_fails_its_reader() {
        let segments = SpillSegments::new(disk(10));
        let (first, second) = (spill(&segments, b"fits"), spill(&segments, b"does not fit"));
        assert_eq!(read(&first).await.unwrap(), b"fits");
        let error = read(&second).await.unwrap_err().to_string();
        assert!(error.contains("max_temp_directory_size"), "{error}");
        assert_eq!(read(&spill(&segments, b"fits")).await.unwrap(), b"fits");
    }
}
