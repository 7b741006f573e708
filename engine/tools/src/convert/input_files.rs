//! The files that the options name, and the format of each.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::input::{Fault, Input};
use super::options::ConvertOptions;
use super::{csv_input, orc_input, parquet_input};
use crate::error::ToolError;

/// The formats of inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Parquet,
    Orc,
    Csv,
}

/// All input files: the named files, and the files of known formats in the named folders, sorted within each folder.
pub(super) fn find(options: &ConvertOptions) -> Result<Vec<PathBuf>, ToolError> {
    let mut files = Vec::new();
    for input in &options.inputs {
        if !input.is_dir() {
            files.push(input.clone());
            continue;
        }
        let found = in_folder(input).map_err(|fault| fault.in_input(input))?;
        files.extend(found);
    }
    if files.is_empty() {
        return Err(ToolError::Options("name at least one file to convert".to_owned()));
    }
    Ok(files)
}

fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, Fault> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() && has_known_ending(&path) {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err("no .parquet, .csv, .tsv or .orc file in this folder".into());
    }
    files.sort();
    Ok(files)
}

fn has_known_ending(path: &Path) -> bool {
    let hidden = path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
    let ending = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
    !hidden && matches!(ending.as_deref(), Some("parquet" | "csv" | "tsv" | "orc"))
}

/// Opens one file.
pub(super) fn open(path: &Path, options: &ConvertOptions) -> Result<Input, ToolError> {
    let columns = options.columns.as_deref();
    match format(path).map_err(|fault| fault.in_input(path))? {
        Format::Parquet => parquet_input::open(path, columns).map_err(|fault| fault.in_input(path)),
        Format::Orc => orc_input::open(path, columns),
        Format::Csv => csv_input::open(path, columns, &options.csv),
    }
}

/// The format of a file, by its first bytes. Text that is neither Parquet nor ORC is taken for CSV.
fn format(path: &Path) -> Result<Format, Fault> {
    let mut start = Vec::new();
    File::open(path)?.take(4096).read_to_end(&mut start)?;
    if start.starts_with(b"PAR1") {
        Ok(Format::Parquet)
    } else if start.starts_with(b"ORC") {
        Ok(Format::Orc)
    } else if start.contains(&0) {
        Err("neither Parquet nor ORC nor text".into())
    } else if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("orc")) {
        // The ORC reader's error says what is wrong with the file.
        Ok(Format::Orc)
    } else {
        Ok(Format::Csv)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_comes_from_the_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.dat");
        for (content, wanted) in [
            (&b"PAR1..."[..], Format::Parquet),
            (b"ORC...", Format::Orc),
            (b"a,b\n1,2\n", Format::Csv),
        ] {
            fs::write(&path, content).unwrap();
            assert_eq!(format(&path).unwrap(), wanted);
        }
        fs::write(&path, b"\x7fELF\0\0").unwrap();
        assert!(format(&path).is_err());
    }
}
