//! [`generate`]: trips to files, on several threads.
//!
//! 1. The rows are divided into files, at limits of runs.
//! 2. Each writer thread takes the next file and writes its blocks of runs in order.
//! 3. With more threads than files, each writer has maker threads that build its blocks ahead of it. Otherwise a writer
//!    builds its blocks itself.

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};

use super::calendar::RUN_ROWS;
use super::column_set::ColumnSet;
use super::options::{GenerateOptions, GenerateReport};
use super::trip_maker::TripMaker;
use crate::atomic_output::StagedFolder;
use crate::error::ToolError;
use crate::own_files::OWN_FILES;
use crate::pending_file::PendingFile;

/// Runs per batch.
const BLOCK_RUNS: u64 = 32;
/// Rows per file if the options name no number of files.
const FILE_ROWS: u64 = 2_500_000;
/// Largest number of files if the options name none.
const MAX_DEFAULT_FILES: u64 = 64;
/// Buffered bytes at which a stripe ends. Together with the rows of a stripe, this limit keeps a thread's buffers
/// around 100 MB.
const STRIPE_BYTES: usize = 128 << 20;
/// Blocks that wait to be written, per maker thread.
const BLOCKS_AHEAD: usize = 2;

type Progress<'a> = &'a (dyn Fn(u64) -> ControlFlow<()> + Sync);

/// The state that all threads share.
struct Generator<'a> {
    options: &'a GenerateOptions,
    /// The folder that the files are written to, before they appear in the output folder.
    staged: PathBuf,
    maker: TripMaker,
    schema: SchemaRef,
    writer_options: WriterProperties,
    progress: Progress<'a>,
    /// Set if one thread failed or the progress function answered `Break`. The other threads stop at their next block.
    stop: AtomicBool,
}

/// Generates a table.
///
/// The files appear together, after the last of them is written and synced.
///
/// `progress` gets the number of new rows every few ten thousand rows, from any thread. If it answers `Break`,
/// generation stops.
///
/// # Errors
/// - [`Options`](ToolError::Options): contradictory options;
/// - [`NotEmpty`](ToolError::NotEmpty), [`NotAFolder`](ToolError::NotAFolder),
///   [`NotReplaceable`](ToolError::NotReplaceable), [`DiskFull`](ToolError::DiskFull), [`Write`](ToolError::Write): the
///   outputs' place;
/// - [`Layout`](ToolError::Layout): the ORC writer's error;
/// - [`Cancelled`](ToolError::Cancelled): `progress` answered `Break`;
/// - [`Arrow`](ToolError::Arrow): a defect of the generator.
pub fn generate(
    options: &GenerateOptions,
    progress: &(dyn Fn(u64) -> ControlFlow<()> + Sync),
) -> Result<GenerateReport, ToolError> {
    let schema = options.columns.schema();
    check(options, &schema)?;
    let staged = StagedFolder::create(&options.out_dir, options.overwrite.then_some(OWN_FILES))?;
    let files = plan_files(options);
    let generator = Generator {
        options,
        staged: staged.files(),
        maker: TripMaker::new(options.seed, options.rows),
        schema,
        writer_options: writer_options(options),
        progress,
        stop: AtomicBool::new(false),
    };
    let bytes = generator.run(&files)?;
    // A request to stop that came after the last block.
    if progress(0).is_break() {
        return Err(ToolError::Cancelled);
    }
    staged.publish()?;
    Ok(GenerateReport {
        files: files.into_iter().map(|(path, _)| path).collect(),
        rows: options.rows,
        bytes,
    })
}

fn check(options: &GenerateOptions, schema: &SchemaRef) -> Result<(), ToolError> {
    let refuse = |reason: String| Err(ToolError::Options(reason));
    if options.columns == ColumnSet::Full && options.rows > i32::MAX as u64 {
        return refuse(format!(
            "the full table numbers its trips with 32 bits: at most {} rows",
            i32::MAX
        ));
    }
    if options.files == Some(0) || options.threads == Some(0) {
        return refuse("the number of files and of threads is at least 1".to_owned());
    }
    for name in &options.direct_columns {
        if schema.field_with_name(name).is_err() {
            return refuse(format!("there is no column '{name}' to store directly"));
        }
    }
    Ok(())
}

fn writer_options(options: &GenerateOptions) -> WriterProperties {
    let defaults = WriterProperties::on_demand(options.codec);
    let defaults = match options.chunk_size_bytes {
        Some(bytes) => defaults.with_chunks_of(bytes),
        None => defaults,
    };
    let origin = format!(
        "rows={} seed={} columns={:?}",
        options.rows, options.seed, options.columns
    );
    WriterProperties {
        number_chunk_size_bytes: options.number_chunk_size_bytes.or(defaults.number_chunk_size_bytes),
        direct_columns: options.direct_columns.clone(),
        row_index_stride: options.row_index_stride.unwrap_or(defaults.row_index_stride),
        stripe_size_bytes: STRIPE_BYTES,
        user_metadata: vec![("grampus.taxi".to_owned(), origin.into_bytes())],
        ..defaults
    }
}

/// The files and the runs in each. There is at least one file, and with several files none is empty.
fn plan_files(options: &GenerateOptions) -> Vec<(PathBuf, Range<u64>)> {
    let runs = options.rows.div_ceil(RUN_ROWS);
    let wanted = match options.files {
        Some(files) => files as u64,
        None => options.rows.div_ceil(FILE_ROWS).min(MAX_DEFAULT_FILES),
    };
    let files = wanted.clamp(1, runs.max(1));
    let cut = |i: u64| (u128::from(runs) * u128::from(i) / u128::from(files)) as u64;
    (0..files)
        .map(|i| (options.out_dir.join(format!("trips_{i:04}.orc")), cut(i)..cut(i + 1)))
        .collect()
}

impl Generator<'_> {
    /// Writes all files and returns their size.
    fn run(&self, files: &[(PathBuf, Range<u64>)]) -> Result<u64, ToolError> {
        let threads = match self.options.threads {
            Some(threads) => threads,
            None => thread::available_parallelism().map_or(1, usize::from),
        };
        let writers = threads.min(files.len());
        let makers = if threads > writers { threads / writers } else { 0 };
        let next = AtomicUsize::new(0);
        let outcome = Mutex::new(Ok(0));
        thread::scope(|scope| {
            for _ in 0..writers {
                scope.spawn(|| {
                    while let Some((path, runs)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let written = self.write_file(path, runs.clone(), makers);
                        if written.is_err() {
                            self.stop.store(true, Ordering::Relaxed);
                        }
                        let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                        *outcome = merge(std::mem::replace(&mut *outcome, Ok(0)), written);
                    }
                });
            }
        });
        outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_file(&self, path: &Path, runs: Range<u64>, makers: usize) -> Result<u64, ToolError> {
        self.go_on()?;
        let staged = self.staged.join(path.file_name().unwrap_or_default());
        let pending = PendingFile::create(path.to_owned(), staged)?;
        let mut writer = ArrowWriter::try_new(
            pending.writer()?,
            self.schema.clone(),
            Some(self.writer_options.clone()),
        )?;
        let blocks: Vec<Range<u64>> = (runs.start..runs.end)
            .step_by(BLOCK_RUNS as usize)
            .map(|first| first..(first + BLOCK_RUNS).min(runs.end))
            .collect();
        let mut write = |batch: Result<RecordBatch, ToolError>| -> Result<(), ToolError> {
            let batch = batch?;
            self.go_on()?;
            writer.write(&batch).map_err(|e| pending.explain(e))?;
            if (self.progress)(batch.num_rows() as u64).is_break() {
                return Err(ToolError::Cancelled);
            }
            Ok(())
        };
        if makers == 0 {
            blocks.into_iter().try_for_each(|block| write(self.make(block)))?;
        } else {
            self.make_ahead(&blocks, makers, &mut write)?;
        }
        let finished = writer.into_inner().map_err(|e| pending.explain(e))?;
        pending.finish(finished)
    }

    /// Lets `makers` threads build the blocks in turn, and passes the blocks to `write` in order.
    fn make_ahead(
        &self,
        blocks: &[Range<u64>],
        makers: usize,
        write: &mut dyn FnMut(Result<RecordBatch, ToolError>) -> Result<(), ToolError>,
    ) -> Result<(), ToolError> {
        thread::scope(|scope| {
            let queues: Vec<Receiver<_>> = (0..makers)
                .map(|maker| {
                    let (sender, receiver) = sync_channel(BLOCKS_AHEAD);
                    scope.spawn(move || {
                        for block in blocks.iter().skip(maker).step_by(makers) {
                            // Sending fails if the receiver was dropped after a failed write.
                            if sender.send(self.make(block.clone())).is_err() {
                                break;
                            }
                        }
                    });
                    receiver
                })
                .collect();
            // The queues belong to this closure. An early return drops them and so ends the makers.
            for queue in queues.iter().cycle().take(blocks.len()) {
                let batch = queue.recv().map_err(|_| ToolError::Cancelled)?;
                write(batch)?;
            }
            Ok(())
        })
    }

    fn make(&self, runs: Range<u64>) -> Result<RecordBatch, ToolError> {
        let trips = self.maker.make(runs);
        let columns = self.options.columns;
        Ok(columns.batch(&self.schema, self.options.seed, trips)?)
    }

    /// An error if a thread asked all others to stop.
    fn go_on(&self) -> Result<(), ToolError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(ToolError::Cancelled),
            false => Ok(()),
        }
    }
}

/// The sum of two sizes, or the first error. `Cancelled` gives way to the error that made other threads stop.
fn merge(sum: Result<u64, ToolError>, file: Result<u64, ToolError>) -> Result<u64, ToolError> {
    match (sum, file) {
        (Ok(sum), Ok(bytes)) => Ok(sum + bytes),
        (Err(ToolError::Cancelled), Err(error)) | (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicU64;

    use super::*;

    const ROWS: u64 = 70_000;

    fn bytes(columns: ColumnSet, files: usize, threads: usize) -> Vec<Vec<u8>> {
        let dir = tempfile::tempdir().unwrap();
        let told = AtomicU64::new(0);
        let mut options = GenerateOptions::new(ROWS, dir.path());
        (options.columns, options.files, options.threads) = (columns, Some(files), Some(threads));
        let report = generate(&options, &|rows| {
            told.fetch_add(rows, Ordering::Relaxed);
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!((report.files.len(), report.rows), (files, ROWS));
        assert_eq!(told.into_inner(), ROWS);
        let files: Vec<_> = report.files.iter().map(|f| fs::read(f).unwrap()).collect();
        assert_eq!(report.bytes, files.iter().map(|f| f.len() as u64).sum::<u64>());
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            files.len(),
            "nothing else is left"
        );
        files
    }

    #[test]
    fn equal_options_give_equal_bytes_on_any_number_of_threads() {
        for columns in [ColumnSet::Core, ColumnSet::Full, ColumnSet::Six] {
            let one = bytes(columns, 2, 1);
            assert!(
                one == bytes(columns, 2, 2) && one == bytes(columns, 2, 6),
                "{columns:?}"
            );
        }
    }

    #[test]
    fn rows_do_not_depend_on_the_number_of_files() {
        let maker = TripMaker::new(1, ROWS);
        let runs = ROWS.div_ceil(RUN_ROWS);
        for columns in [ColumnSet::Core, ColumnSet::Full] {
            let schema = columns.schema();
            let make = |runs: Range<u64>| columns.batch(&schema, 1, maker.make(runs)).unwrap();
            let parts = [make(0..7), make(7..runs)];
            let whole = arrow::compute::concat_batches(&schema, &parts).unwrap();
            assert!(whole == make(0..runs), "{columns:?}");
        }
    }

    #[test]
    fn cancelled_generation_leaves_no_unfinished_file() {
        let dir = tempfile::tempdir().unwrap();
        let options = GenerateOptions::new(ROWS, dir.path());
        let error = generate(&options, &|_| ControlFlow::Break(())).unwrap_err();
        assert!(matches!(error, ToolError::Cancelled), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn wrong_options_are_refused_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let go_on = |_| ControlFlow::Continue(());
        let mut options = GenerateOptions::new(10, dir.path());
        options.direct_columns = vec!["fare".to_owned()];
        let error = generate(&options, &go_on).unwrap_err();
        assert_eq!(error.to_string(), "there is no column 'fare' to store directly");
        options.direct_columns.clear();
        fs::write(dir.path().join("x"), "x").unwrap();
        let error = generate(&options, &go_on).unwrap_err();
        assert!(matches!(error, ToolError::NotEmpty(_)), "{error}");
        (options.columns, options.rows) = (ColumnSet::Full, 3_000_000_000);
        assert!(generate(&options, &go_on).unwrap_err().to_string().contains("32 bits"));
    }

    #[test]
    fn table_without_rows_is_one_empty_file() {
        let plan = plan_files(&GenerateOptions::new(0, "x"));
        assert_eq!(plan.len(), 1);
        let mut options = GenerateOptions::new(5000, "x");
        options.files = Some(10);
        let plan = plan_files(&options);
        assert_eq!(
            plan.iter().map(|(_, runs)| runs.clone()).collect::<Vec<_>>(),
            [0..1, 1..2, 2..3]
        );
    }
}
