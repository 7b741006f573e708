//! [`Conversion`]: one input on its way into one or more output files.
//!
//! For each batch of the input:
//! 1. read it and cast its columns to their stored types: on another thread, if the input has several;
//! 2. report its rows to the progress function, which may cancel;
//! 3. write it, cut where an output file reaches its number of rows.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use grampus_orc_layout::LayoutError;
use grampus_orc_layout::write::{stored_schema, to_stored};

use super::input::{Batches, Fault};
use super::input_files;
use super::options::{ConvertOptions, ConvertReport};
use super::output_file::OutputFile;
use crate::error::ToolError;

/// Batches that are read before the writer needs them.
const BATCHES_AHEAD: usize = 8;

/// An opened input and the state of its outputs.
pub(super) struct Conversion<'a> {
    options: &'a ConvertOptions,
    path: &'a Path,
    /// The output's final path. With several outputs, each adds its number to the file name.
    target: PathBuf,
    /// The path that is written, with the same addition.
    staged: PathBuf,
    /// The schema of the outputs.
    schema: SchemaRef,
    /// `None`: another thread reads them.
    batches: Option<Batches>,
    outputs: usize,
}

/// The fault of an input with a column or a value that ORC cannot store.
fn unstorable(error: LayoutError) -> Fault {
    match error {
        LayoutError::Write(reason) | LayoutError::Sink { reason, .. } => reason.into(),
        other => other.into(),
    }
}

impl<'a> Conversion<'a> {
    /// Opens the input `path` for an output that is written at `staged` and will be `target`.
    pub(super) fn new(
        options: &'a ConvertOptions,
        path: &'a Path,
        target: PathBuf,
        staged: PathBuf,
    ) -> Result<Self, ToolError> {
        let input = input_files::open(path, options)?;
        let schema = stored_schema(&input.schema);
        Ok(Self {
            options,
            path,
            target,
            staged,
            schema: schema.map_err(|error| unstorable(error).in_input(path))?,
            batches: Some(input.batches),
            outputs: 0,
        })
    }

    /// Converts all rows.
    pub(super) fn run(
        mut self,
        progress: &(dyn Fn(u64) -> ControlFlow<()> + Sync),
        report: &mut ConvertReport,
    ) -> Result<(), ToolError> {
        let schema = SchemaRef::clone(&self.schema);
        let stored = move |batch: Result<RecordBatch, Fault>| {
            batch.and_then(|batch| to_stored(&batch, &schema).map_err(unstorable))
        };
        let Some(batches) = self.batches.take() else {
            return Ok(());
        };
        let batches = batches.map(stored);
        let has_threads = (self.options.threads.as_ref()).is_some_and(|threads| threads.count() > 1);
        if !has_threads {
            return self.write(batches, progress, report);
        }
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(BATCHES_AHEAD);
            scope.spawn(move || {
                for batch in batches {
                    // After an error, nothing is received any more.
                    if sender.send(batch).is_err() {
                        return;
                    }
                }
            });
            self.write(receiver.into_iter(), progress, report)
        })
    }

    /// Writes all batches.
    fn write(
        &mut self,
        batches: impl Iterator<Item = Result<RecordBatch, Fault>>,
        progress: &(dyn Fn(u64) -> ControlFlow<()> + Sync),
        report: &mut ConvertReport,
    ) -> Result<(), ToolError> {
        let mut output = self.start()?;
        for batch in batches {
            let mut batch = batch.map_err(|fault| self.failed(fault))?;
            if progress(batch.num_rows() as u64).is_break() {
                return Err(ToolError::Cancelled);
            }
            while let Some(left) = self.left(&output).filter(|&left| (batch.num_rows() as u64) > left) {
                let first = batch.slice(0, left as usize);
                output.write(&first).map_err(|error| self.unwritten(error))?;
                batch = batch.slice(left as usize, batch.num_rows() - left as usize);
                output.finish(report)?;
                output = self.start()?;
            }
            output.write(&batch).map_err(|error| self.unwritten(error))?;
        }
        output.finish(report)
    }

    /// The error of a batch that could not be written: a value that ORC cannot store is the input's.
    fn unwritten(&self, error: ToolError) -> ToolError {
        match error {
            ToolError::Layout(error @ LayoutError::Write(_)) => unstorable(error).in_input(self.path),
            other => other,
        }
    }

    /// Rows that still fit into the output; `None`: any number.
    fn left(&self, output: &OutputFile) -> Option<u64> {
        self.options.rows_per_file.map(|rows| rows - output.rows())
    }

    fn start(&mut self) -> Result<OutputFile, ToolError> {
        let number = self.outputs;
        let numbered = |path: &Path| match self.options.rows_per_file {
            None => path.to_owned(),
            Some(_) => {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                path.with_file_name(format!("{stem}_{number:04}.orc"))
            }
        };
        let (target, staged) = (numbered(&self.target), numbered(&self.staged));
        self.outputs += 1;
        OutputFile::create(target, staged, &self.schema, self.options)
    }

    fn failed(&self, mut fault: Fault) -> ToolError {
        if fault.reason.contains("Error while parsing value") {
            let advice = "; the types were found in the first rows: look at more of them, or leave the column out";
            fault.reason.push_str(advice);
        }
        fault.in_input(self.path)
    }
}
