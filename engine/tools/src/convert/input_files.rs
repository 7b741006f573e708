//! The files that the options name, each opened by its format.

use std::fs;
use std::path::{Path, PathBuf};

use super::file_format::FileFormat;
use super::input::{Fault, Input};
use super::options::ConvertOptions;
use super::{csv_input, orc_input, parquet_input};
use crate::error::ToolError;

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
    match FileFormat::of(path).map_err(|fault| fault.in_input(path))? {
        FileFormat::Parquet => parquet_input::open(path, columns).map_err(|fault| fault.in_input(path)),
        FileFormat::Orc => orc_input::open(path, columns),
        FileFormat::Csv => csv_input::open(path, columns, &options.csv),
    }
}
