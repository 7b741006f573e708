//! [`OutputFile`]: one ORC file that a conversion writes, and reads again if the options ask for verification.

use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use grampus_orc_layout::write::{OrcWriter, WriterOptions};

use super::fingerprints::Fingerprints;
use super::options::{ConvertOptions, ConvertReport};
use super::orc_input;
use crate::atomic_output::{PendingFile, PendingWriter};
use crate::error::ToolError;
use crate::layout_defaults::{STRIPE_ROWS, chunk_size_bytes};

/// A file being written.
pub(super) struct OutputFile {
    path: PathBuf,
    pending: PendingFile,
    writer: OrcWriter<PendingWriter>,
    rows: u64,
    fingerprints: Option<Fingerprints>,
}

impl OutputFile {
    /// Starts the file `path` for batches of `schema`.
    pub(super) fn create(path: PathBuf, schema: &SchemaRef, options: &ConvertOptions) -> Result<Self, ToolError> {
        let pending = PendingFile::create(&path)?;
        let writer = OrcWriter::new(pending.writer()?, schema.clone(), writer_options(options))?;
        let fingerprints = match options.verify {
            true => Some(Fingerprints::new(schema).map_err(ToolError::Options)?),
            false => None,
        };
        Ok(Self {
            path,
            pending,
            writer,
            rows: 0,
            fingerprints,
        })
    }

    /// Rows written so far.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), ToolError> {
        if let Some(fingerprints) = &mut self.fingerprints {
            let path = &self.path;
            fingerprints.add(batch).map_err(|reason| differs(path, reason))?;
        }
        self.rows += batch.num_rows() as u64;
        self.writer.write(batch).map_err(|e| self.pending.explain(e))
    }

    /// Publishes the file, verifies it if asked to, and adds it to `report`.
    pub(super) fn finish(self, report: &mut ConvertReport) -> Result<(), ToolError> {
        let writer = self.writer.finish().map_err(|e| self.pending.explain(e))?;
        report.bytes += self.pending.publish(writer)?;
        report.rows += self.rows;
        if let Some(expected) = &self.fingerprints {
            verify(&self.path, expected)?;
        }
        report.files.push(self.path);
        Ok(())
    }
}

fn writer_options(options: &ConvertOptions) -> WriterOptions {
    let defaults = WriterOptions::default();
    WriterOptions {
        codec: options.codec,
        chunk_size_bytes: options
            .chunk_size_bytes
            .unwrap_or_else(|| chunk_size_bytes(options.codec)),
        direct_columns: options.direct_columns.clone(),
        row_index_stride: options.row_index_stride.unwrap_or(defaults.row_index_stride),
        stripe_rows: options.stripe_rows.unwrap_or(STRIPE_ROWS),
        ..defaults
    }
}

/// Reads an output from front to back and compares it with the written rows.
fn verify(path: &Path, expected: &Fingerprints) -> Result<(), ToolError> {
    let input = orc_input::open(path, None)?;
    let mut found = Fingerprints::new(&input.schema).map_err(|reason| differs(path, reason))?;
    for batch in input.batches {
        let added = batch.map_err(|fault| fault.reason).and_then(|b| found.add(&b));
        added.map_err(|reason| differs(path, reason))?;
    }
    match expected.difference(&found) {
        Some(reason) => Err(differs(path, reason)),
        None => Ok(()),
    }
}

fn differs(path: &Path, reason: String) -> ToolError {
    ToolError::Verify {
        path: path.to_owned(),
        reason,
    }
}
