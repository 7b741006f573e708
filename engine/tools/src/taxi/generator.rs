//! Trips to files: which rows go where, and who makes and writes them. Rows are made in blocks of runs; a file's blocks are written in
//! order by one thread, and made by it too, unless there are more threads than files.

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use grampus_orc_layout::write::{OrcWriter, WriterOptions};

use super::calendar::RUN_ROWS;
use super::core_columns;
use super::trip_maker::TripMaker;
use super::{ColumnSet, GenerateOptions, GenerateReport, TaxiError};
use crate::atomic_output::{PendingFile, chunk_bytes, prepare_dir};

/// Runs per batch.
const BLOCK_RUNS: u64 = 32;
/// Rows per file where the user names no number of files, and how many files that makes at most.
const FILE_ROWS: u64 = 2_500_000;
const MAX_DEFAULT_FILES: u64 = 64;
/// Rows per stripe: a multiple of the row group's 10,000 that keeps a thread's buffers around 100 MB.
const STRIPE_ROWS: usize = 1_000_000;
const STRIPE_BYTES: usize = 128 << 20;
/// Blocks that wait to be written, per thread that makes them.
const BLOCKS_AHEAD: usize = 2;

type Progress<'a> = &'a (dyn Fn(u64) -> ControlFlow<()> + Sync);

/// What all threads share.
struct Job<'a> {
    options: &'a GenerateOptions,
    maker: TripMaker,
    schema: SchemaRef,
    writer_options: WriterOptions,
    progress: Progress<'a>,
    /// Set when one thread failed or the user said stop: the others stop at their next block.
    stop: AtomicBool,
}

/// See [`super::generate`].
pub(super) fn generate(options: &GenerateOptions, progress: Progress<'_>) -> Result<GenerateReport, TaxiError> {
    let schema = core_columns::schema(options.columns);
    check(options, &schema)?;
    prepare_dir(&options.out_dir, options.overwrite)?;
    let files = plan_files(options);
    let job = Job {
        options,
        maker: TripMaker::new(options.seed, options.rows),
        schema,
        writer_options: writer_options(options),
        progress,
        stop: AtomicBool::new(false),
    };
    let bytes = job.run(&files)?;
    Ok(GenerateReport {
        files: files.into_iter().map(|(path, _)| path).collect(),
        rows: options.rows,
        bytes,
    })
}

fn check(options: &GenerateOptions, schema: &SchemaRef) -> Result<(), TaxiError> {
    let refuse = |reason: String| Err(TaxiError::Options(reason));
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

fn writer_options(options: &GenerateOptions) -> WriterOptions {
    let defaults = WriterOptions::default();
    let origin = format!(
        "rows={} seed={} columns={:?}",
        options.rows, options.seed, options.columns
    );
    WriterOptions {
        codec: options.codec,
        chunk_size_bytes: options.chunk_size_bytes.unwrap_or_else(|| chunk_bytes(options.codec)),
        direct_columns: options.direct_columns.clone(),
        row_index_stride: options.row_index_stride.unwrap_or(defaults.row_index_stride),
        stripe_rows: STRIPE_ROWS,
        stripe_size_bytes: STRIPE_BYTES,
        user_metadata: vec![("grampus.taxi".to_owned(), origin.into_bytes())],
        ..defaults
    }
}

/// The files and the runs in each. There is always one file, and none without rows beside others.
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

impl Job<'_> {
    /// Writes all files and returns their size.
    fn run(&self, files: &[(PathBuf, Range<u64>)]) -> Result<u64, TaxiError> {
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

    fn write_file(&self, path: &Path, runs: Range<u64>, makers: usize) -> Result<u64, TaxiError> {
        self.go_on()?;
        let pending = PendingFile::create(path)?;
        let mut writer = OrcWriter::new(pending.sink()?, self.schema.clone(), self.writer_options.clone())?;
        let blocks: Vec<Range<u64>> = (runs.start..runs.end)
            .step_by(BLOCK_RUNS as usize)
            .map(|first| first..(first + BLOCK_RUNS).min(runs.end))
            .collect();
        let mut write = |batch: Result<RecordBatch, TaxiError>| -> Result<(), TaxiError> {
            let batch = batch?;
            self.go_on()?;
            writer.write(&batch).map_err(|e| pending.explain::<TaxiError>(e))?;
            if (self.progress)(batch.num_rows() as u64).is_break() {
                return Err(TaxiError::Cancelled);
            }
            Ok(())
        };
        if makers == 0 {
            blocks.into_iter().try_for_each(|block| write(self.make(block)))?;
        } else {
            self.make_ahead(&blocks, makers, &mut write)?;
        }
        let sink = writer.finish().map_err(|e| pending.explain::<TaxiError>(e))?;
        Ok(pending.publish(sink)?)
    }

    /// Lets `makers` threads make the blocks, in turn, and hands them to `write` in order.
    fn make_ahead(
        &self,
        blocks: &[Range<u64>],
        makers: usize,
        write: &mut dyn FnMut(Result<RecordBatch, TaxiError>) -> Result<(), TaxiError>,
    ) -> Result<(), TaxiError> {
        thread::scope(|scope| {
            let queues: Vec<Receiver<_>> = (0..makers)
                .map(|maker| {
                    let (sender, receiver) = sync_channel(BLOCKS_AHEAD);
                    scope.spawn(move || {
                        for block in blocks.iter().skip(maker).step_by(makers) {
                            // The receiver is dropped when writing failed.
                            if sender.send(self.make(block.clone())).is_err() {
                                break;
                            }
                        }
                    });
                    receiver
                })
                .collect();
            // The queues belong to this closure: an early return drops them, which ends the makers.
            for queue in queues.iter().cycle().take(blocks.len()) {
                let batch = queue.recv().map_err(|_| TaxiError::Cancelled)?;
                write(batch)?;
            }
            Ok(())
        })
    }

    fn make(&self, runs: Range<u64>) -> Result<RecordBatch, TaxiError> {
        let trips = self.maker.make(runs);
        Ok(core_columns::batch(
            self.options.columns,
            &self.schema,
            self.options.seed,
            trips,
        )?)
    }

    fn go_on(&self) -> Result<(), TaxiError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(TaxiError::Cancelled),
            false => Ok(()),
        }
    }
}

/// Sizes add up; of two errors the one that made the others stop is kept.
fn merge(sum: Result<u64, TaxiError>, file: Result<u64, TaxiError>) -> Result<u64, TaxiError> {
    match (sum, file) {
        (Ok(sum), Ok(bytes)) => Ok(sum + bytes),
        (Err(TaxiError::Cancelled), Err(error)) | (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::atomic_output::OutputError;

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
    fn the_same_options_give_the_same_bytes_on_any_number_of_threads() {
        for columns in [ColumnSet::Core, ColumnSet::Full, ColumnSet::Six] {
            let one = bytes(columns, 2, 1);
            assert!(
                one == bytes(columns, 2, 2) && one == bytes(columns, 2, 6),
                "{columns:?}"
            );
        }
    }

    #[test]
    fn the_number_of_files_does_not_change_the_rows() {
        let maker = TripMaker::new(1, ROWS);
        let runs = ROWS.div_ceil(RUN_ROWS);
        for columns in [ColumnSet::Core, ColumnSet::Full] {
            let schema = core_columns::schema(columns);
            let make = |runs: Range<u64>| core_columns::batch(columns, &schema, 1, maker.make(runs)).unwrap();
            let parts = [make(0..7), make(7..runs)];
            let whole = arrow::compute::concat_batches(&schema, &parts).unwrap();
            assert!(whole == make(0..runs), "{columns:?}");
        }
    }

    #[test]
    fn stopping_leaves_no_unfinished_file() {
        let dir = tempfile::tempdir().unwrap();
        let options = GenerateOptions::new(ROWS, dir.path());
        let error = generate(&options, &|_| ControlFlow::Break(())).unwrap_err();
        assert!(matches!(error, TaxiError::Cancelled), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn mistakes_are_told_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let go_on = |_| ControlFlow::Continue(());
        let mut options = GenerateOptions::new(10, dir.path());
        options.direct_columns = vec!["fare".to_owned()];
        let error = generate(&options, &go_on).unwrap_err();
        assert_eq!(error.to_string(), "there is no column 'fare' to store directly");
        options.direct_columns.clear();
        fs::write(dir.path().join("x"), "x").unwrap();
        let error = generate(&options, &go_on).unwrap_err();
        assert!(matches!(error, TaxiError::Output(OutputError::NotEmpty(_))), "{error}");
        (options.columns, options.rows) = (ColumnSet::Full, 3_000_000_000);
        assert!(generate(&options, &go_on).unwrap_err().to_string().contains("32 bits"));
    }

    #[test]
    fn no_rows_make_one_empty_file() {
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
