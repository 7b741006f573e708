//! `grampus nvme load`, `files`, `remove` and `verify`: files on a namespace.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use grampus_driver::files::{Drive, FileEntry, FileError, NamespaceFiles};
use indicatif::ProgressBar;
use serde::Serialize;

use super::nvme_drive::{explain, open};
use crate::exit_error::{ErrorReport, ExitError};
use crate::interrupts::{InterruptWatch, with_interrupts};
use crate::nvme_options::{NvmeFilesArgs, NvmeLoadArgs, NvmeRemoveArgs, NvmeVerifyArgs};
use crate::terminal::{self, note};
use crate::text_table::{TableStyle, TextTable};
use crate::{progress, units};

/// A file to be stored.
struct Source {
    file: File,
    name: String,
    length_bytes: u64,
}

/// Stores files. A namespace without a directory gets one, after a question.
pub(crate) fn load(arguments: &NvmeLoadArgs) -> Result<(), ExitError> {
    let sources = sources(arguments)?;
    let mut files = opened_for_load(arguments)?;
    note_damages(&files);
    with_interrupts(|watch| {
        for mut source in sources {
            let (start, bytes) = (Instant::now(), source.length_bytes);
            // Each byte is written and read back.
            let bar = progress::bytes_bar(2 * bytes, !arguments.quiet);
            let loaded = files.load(&source.name, bytes, &mut source.file, &mut |moved| {
                advance(&bar, moved, watch)
            });
            bar.finish_and_clear();
            let entry = loaded.map_err(explain)?;
            let time = start.elapsed();
            let rate = units::bytes((bytes as f64 / time.as_secs_f64().max(1e-9)) as u64);
            note(format_args!(
                "{}: {} in {} ({rate} a second), verified, at LBA {}",
                entry.name,
                units::bytes(bytes),
                units::duration(time),
                lba(&files, &entry)
            ));
        }
        Ok(())
    })
}

/// Counts moved bytes. `Break` after Ctrl-C.
fn advance(bar: &ProgressBar, moved: u64, watch: &InterruptWatch) -> ControlFlow<()> {
    bar.inc(moved);
    let done = units::bytes(bar.position());
    bar.set_message(done);
    match watch.fired() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

fn lba(files: &NamespaceFiles, entry: &FileEntry) -> u64 {
    entry.position / files.drive().namespace().block_bytes()
}

/// Opens the files to be stored, before anything on the namespace changes.
fn sources(arguments: &NvmeLoadArgs) -> Result<Vec<Source>, ExitError> {
    if arguments.name.is_some() && arguments.files.len() > 1 {
        let report = ErrorReport::new(format!("--as names one file, and {} are given", arguments.files.len()));
        return Err(ExitError::Usage(report));
    }
    arguments
        .files
        .iter()
        .map(|path| source(path, arguments.name.as_deref()))
        .collect()
}

fn source(path: &Path, name: Option<&str>) -> Result<Source, ExitError> {
    let shown = path.display().to_string();
    let failed = |error: io::Error| ErrorReport::file("open", &shown, &error);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        let report = ErrorReport::new(format!("{shown} is no regular file"));
        return Err(report.hint("name each file of a folder").into());
    }
    let own = path.file_name().and_then(|name| name.to_str());
    let name = name.or(own).ok_or_else(|| {
        let report = ErrorReport::new(format!("the name of {shown} is not UTF-8"));
        report.hint("--as gives it another name")
    })?;
    Ok(Source {
        file,
        name: name.to_owned(),
        length_bytes: metadata.len(),
    })
}

/// The directory of the namespace, made new if there is none or it is to be erased.
fn opened_for_load(arguments: &NvmeLoadArgs) -> Result<NamespaceFiles, ExitError> {
    let drive = open(&arguments.namespace)?;
    let contents = match NamespaceFiles::open(drive.clone()) {
        Ok(files) if !arguments.erase => return Ok(files),
        Ok(files) => {
            let count = files.entries().len() as u64;
            Some(format!("a directory of {}", units::counted(count, "file")))
        }
        Err(FileError::NoDirectory { .. } | FileError::Damaged { .. }) if arguments.erase => {
            NamespaceFiles::contents(&drive).map_err(explain)?
        }
        Err(error @ FileError::NoDirectory { .. }) => match NamespaceFiles::contents(&drive).map_err(explain)? {
            None => None,
            Some(found) => {
                let drive = drive.name().to_owned();
                drop(error);
                return Err(explain(FileError::NotEmpty { drive, found }));
            }
        },
        Err(error) => return Err(explain(error)),
    };
    confirm_initialization(arguments, &drive, contents.as_deref())?;
    NamespaceFiles::initialize(drive, arguments.erase).map_err(explain)
}

/// Asks before a namespace gets a new directory. What it holds between its ends is not known.
fn confirm_initialization(arguments: &NvmeLoadArgs, drive: &Drive, contents: Option<&str>) -> Result<(), ExitError> {
    if arguments.yes {
        return Ok(());
    }
    let namespace = drive.namespace();
    let size = units::bytes(namespace.blocks * namespace.block_bytes());
    let found = contents.map_or_else(
        || "It holds no signature that is known, and zeros at both ends.".to_owned(),
        |found| format!("It holds data: {found}."),
    );
    let change = format!("{} ({size}) gets a new directory of files.", drive.name());
    ask("load", &format!("{change}\n{found} All its data is lost."))
}

/// Asks a question whose answer no ends the command.
fn ask(command: &str, question: &str) -> Result<(), ExitError> {
    note(question);
    if !io::stdin().is_terminal() {
        let report = ErrorReport::new(format!("nvme {command} asks first, and standard input is no terminal"));
        return Err(ExitError::Usage(report.hint("--yes answers yes")));
    }
    let answer = terminal::confirm("Continue?");
    match answer.map_err(|error| ErrorReport::file("read", "the answer", &error))? {
        true => Ok(()),
        false => Err(ErrorReport::new("nothing was changed").into()),
    }
}

fn note_damages(files: &NamespaceFiles) {
    for damage in files.damages() {
        note(format_args!("warning: {}: {damage}", files.drive().name()));
    }
}

/// What `files --json` prints.
#[derive(Serialize)]
struct Listing {
    drive: String,
    uuid: String,
    block_bytes: u64,
    space_bytes: u64,
    free_bytes: u64,
    damages: Vec<String>,
    files: Vec<ListedFile>,
}

#[derive(Serialize)]
struct ListedFile {
    name: String,
    length_bytes: u64,
    first_lba: u64,
    checksum: String,
    loaded_seconds: u64,
    id: String,
}

/// Prints the files of a namespace.
pub(crate) fn list(arguments: &NvmeFilesArgs) -> Result<(), ExitError> {
    let files = NamespaceFiles::open(open(&arguments.namespace)?).map_err(explain)?;
    if arguments.json {
        return print_json(&files).map_err(|error| ExitError::output(&error));
    }
    note_damages(&files);
    print_text(&files).map_err(|error| ExitError::output(&error))
}

fn print_json(files: &NamespaceFiles) -> io::Result<()> {
    let (space_bytes, free_bytes) = files.space();
    let listed = files.entries().iter().map(|entry| ListedFile {
        name: entry.name.clone(),
        length_bytes: entry.length_bytes,
        first_lba: lba(files, entry),
        checksum: format!("{:016x}", entry.checksum),
        loaded_seconds: entry.loaded_seconds,
        id: entry.id.to_string(),
    });
    let listing = Listing {
        drive: files.drive().name().to_owned(),
        uuid: files.uuid().to_string(),
        block_bytes: files.drive().namespace().block_bytes(),
        space_bytes,
        free_bytes,
        damages: files.damages(),
        files: listed.collect(),
    };
    let mut stdout = io::stdout().lock();
    serde_json::to_writer_pretty(&mut stdout, &listing)?;
    writeln!(stdout)
}

fn print_text(files: &NamespaceFiles) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let (space, free) = files.space();
    if !files.entries().is_empty() {
        let style = TableStyle {
            width: stdout.is_terminal().then(terminal::width_columns),
            ..TableStyle::default()
        };
        let rows = files.entries().iter().map(|entry| {
            vec![
                entry.name.clone(),
                units::count(entry.length_bytes),
                units::count(lba(files, entry)),
                format!("{:016x}", entry.checksum),
            ]
        });
        let names = ["name", "bytes", "first LBA", "checksum"];
        let table = TextTable::of_text(&names, &[false, true, true, false], rows.collect());
        write!(stdout, "{}", table.render(style))?;
    }
    writeln!(
        stdout,
        "{}, {} of {} free",
        units::counted(files.entries().len() as u64, "file"),
        units::bytes(free),
        units::bytes(space)
    )
}

/// Takes files out of the directory, after a question.
pub(crate) fn remove(arguments: &NvmeRemoveArgs) -> Result<(), ExitError> {
    let mut files = NamespaceFiles::open(open(&arguments.namespace)?).map_err(explain)?;
    note_damages(&files);
    for name in &arguments.names {
        files.entry(name).map_err(explain)?;
    }
    if !arguments.yes {
        let count = units::counted(arguments.names.len() as u64, "file");
        let names = arguments.names.join(", ");
        ask(
            "remove",
            &format!("{count} of {} will be gone: {names}.", files.drive().name()),
        )?;
    }
    for name in &arguments.names {
        files.remove(name).map_err(explain)?;
        note(format_args!("{name}: removed"));
    }
    Ok(())
}

/// Reads files, and prints a line for each.
pub(crate) fn verify(arguments: &NvmeVerifyArgs) -> Result<(), ExitError> {
    let mut files = NamespaceFiles::open(open(&arguments.namespace)?).map_err(explain)?;
    let damages = files.damages();
    note_damages(&files);
    let mut names = arguments.names.clone();
    if names.is_empty() {
        names = files.entries().iter().map(|entry| entry.name.clone()).collect();
    }
    let mut differing = 0u64;
    with_interrupts(|watch| {
        for name in &names {
            let bytes = files.entry(name).map_err(explain)?.length_bytes;
            let bar = progress::bytes_bar(bytes, !arguments.quiet);
            let verified = files.verify(name, &mut |moved| advance(&bar, moved, watch));
            bar.finish_and_clear();
            let result = match verified.map_err(explain)?.difference {
                None => format!("{} as loaded", units::bytes(bytes)),
                Some(difference) => {
                    differing += 1;
                    difference.to_string()
                }
            };
            writeln!(io::stdout(), "{name}: {result}").map_err(|error| ExitError::output(&error))?;
        }
        Ok(())
    })?;
    match (differing, damages.is_empty()) {
        (0, true) => Ok(()),
        (0, false) => {
            let report = ErrorReport::new("the files are whole, and one of two copies is damaged");
            Err(report.hint("the next load or removal repairs it").into())
        }
        (count, _) => {
            let report = ErrorReport::new(format!(
                "{} of {} damaged",
                count,
                units::counted(names.len() as u64, "file")
            ));
            Err(report.hint("remove and load them again").into())
        }
    }
}
