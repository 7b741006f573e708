//! Parquet, CSV or ORC in, ORC laid out for on-demand reading out. Streams batch by batch: memory is bounded by the
//! stripes being written, of one input per core.
//!
//! ```text
//! input   finds the files and their formats, reads Parquet and CSV; orc reads ORC
//! types   what each incoming type is stored as
//! verify  fingerprints of what went in and of what is read back
//! ```

mod input_files;
mod orc_input;
mod stored_types;
mod fingerprints;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use grampus_orc_layout::tail::Codec;
use grampus_orc_layout::write::{OrcWriter, WriterOptions};

use crate::atomic_output::{OutputError, PendingFile, Sink, chunk_bytes, prepare_dir};
use fingerprints::Fingerprints;

/// Rows per stripe where the user names no number: a multiple of the row group's 10,000.
const STRIPE_ROWS: usize = 1_000_000;

/// How CSV files are read.
#[derive(Debug, Clone)]
pub struct CsvOptions {
    /// The first line names the columns (otherwise they are `column_1` …).
    pub header: bool,
    /// Between fields.
    pub delimiter: u8,
    /// Rows that are looked at to find the columns' types.
    pub infer_rows: usize,
    /// A field with this text is NULL, besides empty ones.
    pub null_text: Option<String>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            header: true,
            delimiter: b',',
            infer_rows: 100_000,
            null_text: None,
        }
    }
}

/// What to convert, where to, and how it is laid out.
#[derive(Debug, Clone, Default)]
pub struct ConvertOptions {
    /// Files; folders stand for the `.parquet`, `.csv` and `.orc` files in them. The content, not the name, says whether it is Parquet or ORC.
    pub inputs: Vec<PathBuf>,
    /// A folder (one output per input, named after it), or a file if it ends in `.orc` and there is one input.
    pub out: PathBuf,
    /// The columns to keep, in this order; `None`: all.
    pub columns: Option<Vec<String>>,
    /// How streams are compressed; `None`: not at all.
    pub codec: Option<Codec>,
    /// Uncompressed bytes per compression chunk; `None`: a size chosen for sparse reads.
    pub chunk_size_bytes: Option<usize>,
    /// FLOAT and DOUBLE columns stored as original chunks in a compressed file, so that single values can be fetched.
    pub direct_columns: Vec<String>,
    /// Rows per row group, each with statistics and an entry point; `None`: 10,000. Smaller ones let sparse reads skip more.
    pub row_index_stride: Option<u32>,
    /// Rows per stripe; `None`: a million.
    pub stripe_rows: Option<usize>,
    /// Start a new output file (`name_0001.orc` …) after this many rows; `None`: one file per input.
    pub rows_per_file: Option<u64>,
    /// Write into a folder that is not empty, or over a file.
    pub overwrite: bool,
    /// Read every output again and compare row count and content with what was put in.
    pub verify: bool,
    /// How CSV files are read.
    pub csv: CsvOptions,
}

/// What was written.
#[derive(Debug, Clone, Default)]
pub struct ConvertReport {
    /// The files, in input order.
    pub files: Vec<PathBuf>,
    /// Rows in them.
    pub rows: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// Why a conversion stopped.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// Options that contradict each other or the inputs.
    #[error("{0}")]
    Options(String),
    /// An input that cannot be read.
    #[error("{}: {reason}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The place to write to.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Reading or writing ORC.
    #[error(transparent)]
    Layout(#[from] grampus_orc_layout::LayoutError),
    /// What was read back differs from what was put in.
    #[error("{}: what was written reads back differently: {reason}", path.display())]
    Verify {
        /// The output file (it is left for inspection).
        path: PathBuf,
        /// The first difference.
        reason: String,
    },
    /// The progress function said stop; the unfinished file is removed.
    #[error("cancelled")]
    Cancelled,
}

/// Converts all inputs, several at a time: one per core, each into files of its own, so the bytes do not depend on how many
/// there are. `progress` is told of every batch's rows; if it answers `Break`, the conversion stops.
///
/// # Errors
/// [`ConvertError`], of the first input that failed; after one, no unfinished file is left.
pub fn convert(
    options: &ConvertOptions,
    progress: &(dyn Fn(u64) -> ControlFlow<()> + Sync),
) -> Result<ConvertReport, ConvertError> {
    let files = input_files::files(options)?;
    let to_file = options.out.extension().is_some_and(|e| e.eq_ignore_ascii_case("orc")) && !options.out.is_dir();
    check(options, &files, to_file)?;
    if !to_file {
        prepare_dir(&options.out, options.overwrite)?;
    } else if options.out.exists() && !options.overwrite {
        return Err(OutputError::Exists(options.out.clone()).into());
    }
    let has_failed = AtomicBool::new(false);
    let progress = |rows| match has_failed.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => progress(rows),
    };
    let one = |path: &PathBuf| {
        let name = if to_file {
            options.out.clone()
        } else {
            options.out.join(output_name(path))
        };
        let mut report = ConvertReport::default();
        let result = Conversion::new(options, path, name).and_then(|input| input.run(&progress, &mut report));
        has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
        result.map(|()| report)
    };
    together(on_all_cores(&files, one))
}

/// `work` on every item, one thread per core; the results in the order of the items.
fn on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, work(item)));
        }
    };
    let mut results = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(items.len())).map(|_| scope.spawn(worker)).collect();
        let mut results = worker();
        for other in others {
            match other.join() {
                Ok(done) => results.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The reports as one, or the first error that is more than the echo of another.
fn together(results: Vec<Result<ConvertReport, ConvertError>>) -> Result<ConvertReport, ConvertError> {
    let mut all = ConvertReport::default();
    let mut failure = None;
    for result in results {
        match (result, &failure) {
            (Ok(report), _) => {
                all.files.extend(report.files);
                all.rows += report.rows;
                all.bytes += report.bytes;
            }
            (Err(error), None | Some(ConvertError::Cancelled)) => failure = Some(error),
            (Err(_), Some(_)) => {}
        }
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(all),
    }
}

fn check(options: &ConvertOptions, files: &[PathBuf], to_file: bool) -> Result<(), ConvertError> {
    let refuse = |reason: String| Err(ConvertError::Options(reason));
    if to_file && files.len() > 1 {
        return refuse(format!(
            "{} inputs do not fit into one file: name a folder",
            files.len()
        ));
    }
    if to_file && options.rows_per_file.is_some() {
        return refuse("several files per input need a folder to go to".to_owned());
    }
    if options.rows_per_file == Some(0) || options.stripe_rows == Some(0) {
        return refuse("rows per file and per stripe are at least 1".to_owned());
    }
    let mut names = HashSet::new();
    match files
        .iter()
        .map(|f| output_name(f))
        .find(|name| !names.insert(name.clone()))
    {
        Some(name) => refuse(format!(
            "two inputs would both become {}: convert them one by one",
            name.display()
        )),
        None => Ok(()),
    }
}

/// `a/b.parquet` becomes `b.orc`.
fn output_name(input: &Path) -> PathBuf {
    Path::new(input.file_name().unwrap_or_default()).with_extension("orc")
}

/// One input on its way into one or more outputs.
struct Conversion<'a> {
    options: &'a ConvertOptions,
    path: &'a Path,
    /// The output's name, if there is only one.
    name: PathBuf,
    /// As written.
    schema: SchemaRef,
    batches: Box<dyn Iterator<Item = Result<RecordBatch, String>>>,
    outputs: usize,
}

/// A file being written.
struct Output {
    path: PathBuf,
    pending: PendingFile,
    writer: OrcWriter<Sink>,
    rows: u64,
    fingerprints: Option<Fingerprints>,
}

impl<'a> Conversion<'a> {
    fn new(options: &'a ConvertOptions, path: &'a Path, name: PathBuf) -> Result<Self, ConvertError> {
        let input = input_files::open(path, options)?;
        let conversion = |reason: String| ConvertError::Input {
            path: path.to_owned(),
            reason,
        };
        Ok(Self {
            options,
            path,
            name,
            schema: stored_types::stored_schema(&input.schema).map_err(conversion)?,
            batches: input.batches,
            outputs: 0,
        })
    }

    fn run(
        mut self,
        progress: &(dyn Fn(u64) -> ControlFlow<()> + Sync),
        report: &mut ConvertReport,
    ) -> Result<(), ConvertError> {
        let mut output = self.start()?;
        while let Some(batch) = self.batches.next() {
            let batch = batch.and_then(|b| stored_types::to_stored(&b, &self.schema));
            let mut batch = batch.map_err(|reason| self.failed(reason))?;
            if progress(batch.num_rows() as u64).is_break() {
                return Err(ConvertError::Cancelled);
            }
            while let Some(left) = self.left(&output).filter(|&left| (batch.num_rows() as u64) > left) {
                output.write(&batch.slice(0, left as usize))?;
                batch = batch.slice(left as usize, batch.num_rows() - left as usize);
                output.finish(report)?;
                output = self.start()?;
            }
            output.write(&batch)?;
        }
        output.finish(report)
    }

    /// How many more rows fit into the output.
    fn left(&self, output: &Output) -> Option<u64> {
        self.options.rows_per_file.map(|rows| rows - output.rows)
    }

    fn start(&mut self) -> Result<Output, ConvertError> {
        let path = match self.options.rows_per_file {
            None => self.name.clone(),
            Some(_) => {
                let stem = self.name.file_stem().unwrap_or_default().to_string_lossy();
                self.name.with_file_name(format!("{stem}_{:04}.orc", self.outputs))
            }
        };
        self.outputs += 1;
        let pending = PendingFile::create(&path)?;
        let writer = OrcWriter::new(pending.sink()?, self.schema.clone(), writer_options(self.options))?;
        let fingerprints = match self.options.verify {
            true => Some(Fingerprints::new(&self.schema).map_err(ConvertError::Options)?),
            false => None,
        };
        Ok(Output {
            path,
            pending,
            writer,
            rows: 0,
            fingerprints,
        })
    }

    fn failed(&self, mut reason: String) -> ConvertError {
        if reason.contains("Error while parsing value") {
            reason.push_str("; the types were found in the first rows: look at more of them, or leave the column out");
        }
        ConvertError::Input {
            path: self.path.to_owned(),
            reason,
        }
    }
}

impl Output {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ConvertError> {
        if let Some(fingerprints) = &mut self.fingerprints {
            let path = &self.path;
            fingerprints.add(batch).map_err(|reason| differs(path, reason))?;
        }
        self.rows += batch.num_rows() as u64;
        self.writer.write(batch).map_err(|e| self.pending.explain(e))
    }

    fn finish(self, report: &mut ConvertReport) -> Result<(), ConvertError> {
        let sink = self.writer.finish();
        let sink = sink.map_err(|e| self.pending.explain::<ConvertError>(e))?;
        report.bytes += self.pending.publish(sink)?;
        report.rows += self.rows;
        if let Some(expected) = &self.fingerprints {
            read_again(&self.path, expected)?;
        }
        report.files.push(self.path);
        Ok(())
    }
}

fn writer_options(options: &ConvertOptions) -> WriterOptions {
    let defaults = WriterOptions::default();
    WriterOptions {
        codec: options.codec,
        chunk_size_bytes: options.chunk_size_bytes.unwrap_or_else(|| chunk_bytes(options.codec)),
        direct_columns: options.direct_columns.clone(),
        row_index_stride: options.row_index_stride.unwrap_or(defaults.row_index_stride),
        stripe_rows: options.stripe_rows.unwrap_or(STRIPE_ROWS),
        ..defaults
    }
}

/// Reads an output from front to back and compares it with what was put in.
fn read_again(path: &Path, expected: &Fingerprints) -> Result<(), ConvertError> {
    let input = orc_input::open(path, None)?;
    let mut found = Fingerprints::new(&input.schema).map_err(|reason| differs(path, reason))?;
    for batch in input.batches {
        let added = batch.and_then(|b| found.add(&b));
        added.map_err(|reason| differs(path, reason))?;
    }
    match expected.difference(&found) {
        Some(reason) => Err(differs(path, reason)),
        None => Ok(()),
    }
}

fn differs(path: &Path, reason: String) -> ConvertError {
    ConvertError::Verify {
        path: path.to_owned(),
        reason,
    }
}
