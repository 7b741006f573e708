//! [`convert`]: all inputs side by side, each into files of its own.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use grampus_orc_layout::write::EncodingThreads;

use super::conversion::Conversion;
use super::input_files;
use super::options::{ConvertOptions, ConvertReport};
use crate::atomic_output::StagedFile;
use crate::atomic_output::StagedFolder;
use crate::error::ToolError;
use crate::own_files::OWN_FILES;

/// Converts all inputs, on one thread per core, and on more for their columns if there are
/// [`ConvertOptions::threads`]. The written bytes do not depend on the number of threads.
///
/// The outputs appear together, after the last of them is written, synced and verified. With an error, or if the
/// process is killed, the place of the outputs stays as it was.
///
/// `progress` gets the number of rows of each batch, from any thread. If it answers `Break`, the conversion stops.
///
/// # Errors
/// - [`Options`](ToolError::Options): contradictory options, or two inputs whose outputs have the same name;
/// - [`Input`](ToolError::Input): an input that is missing, has no known format, lacks a wanted column, or holds a
///   value or type that ORC cannot store;
/// - [`Layout`](ToolError::Layout): ORC that cannot be read or written;
/// - [`NotEmpty`](ToolError::NotEmpty), [`Exists`](ToolError::Exists), [`NotAFolder`](ToolError::NotAFolder),
///   [`NotReplaceable`](ToolError::NotReplaceable), [`DiskFull`](ToolError::DiskFull), [`Write`](ToolError::Write):
///   the outputs' place;
/// - [`Verify`](ToolError::Verify): an output that reads back differently;
/// - [`Cancelled`](ToolError::Cancelled): `progress` answered `Break`.
///
/// Of several errors, the first input's is returned.
pub fn convert(
    options: &ConvertOptions,
    progress: &(dyn Fn(u64) -> ControlFlow<()> + Sync),
) -> Result<ConvertReport, ToolError> {
    let files = input_files::find(options)?;
    let to_file = options.out.extension().is_some_and(|e| e.eq_ignore_ascii_case("orc")) && !options.out.is_dir();
    check(options, &files, to_file)?;
    let options = &ConvertOptions {
        threads: options.threads.clone().map(|threads| Share::of(threads, files.len())),
        ..options.clone()
    };
    let output = Output::create(options, to_file)?;
    let has_failed = AtomicBool::new(false);
    let progress = |rows| match has_failed.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => progress(rows),
    };
    let convert_one = |path: &PathBuf| {
        let (target, staged) = output.paths(&options.out, path);
        let mut report = ConvertReport::default();
        let result = Conversion::new(options, path, target, staged).and_then(|input| input.run(&progress, &mut report));
        has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
        result.map(|()| report)
    };
    let report = merge(on_all_cores(&files, convert_one))?;
    // A request to stop that came after the last batch.
    if progress(0).is_break() {
        return Err(ToolError::Cancelled);
    }
    output.publish(&options.out)?;
    Ok(report)
}

/// The staged place of the outputs.
enum Output {
    File(StagedFile),
    Folder(StagedFolder),
}

impl Output {
    fn create(options: &ConvertOptions, to_file: bool) -> Result<Self, ToolError> {
        let out = &options.out;
        if !to_file {
            let staged = StagedFolder::create(out, options.overwrite.then_some(OWN_FILES))?;
            return Ok(Self::Folder(staged));
        }
        if out.exists() && !options.overwrite {
            return Err(ToolError::Exists(out.clone()));
        }
        StagedFile::create(out)
            .map(Self::File)
            .map_err(|error| ToolError::write(out, error))
    }

    /// The final path of an input's output, and the path that is written.
    fn paths(&self, out: &Path, input: &Path) -> (PathBuf, PathBuf) {
        match self {
            Self::File(staged) => (out.to_owned(), staged.path()),
            Self::Folder(staged) => {
                let name = output_name(input);
                (out.join(&name), staged.files().join(&name))
            }
        }
    }

    fn publish(self, out: &Path) -> Result<(), ToolError> {
        match self {
            Self::File(staged) => staged.publish().map_err(|error| ToolError::write(out, error)),
            Self::Folder(staged) => Ok(staged.publish()?),
        }
    }
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

/// The threads of one of several inputs.
#[derive(Debug)]
struct Share {
    threads: Arc<dyn EncodingThreads>,
    inputs: usize,
}

impl Share {
    fn of(threads: Arc<dyn EncodingThreads>, inputs: usize) -> Arc<dyn EncodingThreads> {
        let inputs = inputs.max(1);
        Arc::new(Self { threads, inputs })
    }
}

impl EncodingThreads for Share {
    fn count(&self) -> usize {
        (self.threads.count() / self.inputs).max(1)
    }

    fn run(&self, count: usize, work: &(dyn Fn() + Sync)) {
        self.threads.run(count, work);
    }
}

/// All reports as one, or the first error. `Cancelled` gives way to any other error: one input's failure cancels the
/// other inputs.
fn merge(results: Vec<Result<ConvertReport, ToolError>>) -> Result<ConvertReport, ToolError> {
    let mut all = ConvertReport::default();
    let mut failure = None;
    for result in results {
        match (result, &failure) {
            (Ok(report), _) => {
                all.files.extend(report.files);
                all.rows += report.rows;
                all.bytes += report.bytes;
            }
            (Err(error), None | Some(ToolError::Cancelled)) => failure = Some(error),
            (Err(_), Some(_)) => {}
        }
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(all),
    }
}

fn check(options: &ConvertOptions, files: &[PathBuf], to_file: bool) -> Result<(), ToolError> {
    let refuse = |reason: String| Err(ToolError::Options(reason));
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
