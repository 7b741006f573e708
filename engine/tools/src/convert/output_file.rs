//! [`OutputFile`]: one ORC file that a conversion writes, and reads again if the options ask for verification. Its
//! folder publishes it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};

use super::fingerprints::Fingerprints;
use super::options::{ConvertOptions, ConvertReport};
use super::orc_input;
use crate::error::ToolError;
use crate::pending_file::{PendingFile, PendingWriter};

/// A file being written.
pub(super) struct OutputFile {
    pending: PendingFile,
    writer: ArrowWriter<PendingWriter>,
    rows: u64,
    fingerprints: Option<Fingerprints>,
}

impl OutputFile {
    /// Starts the file `target`, written at the path `staged`, for batches of `schema`.
    pub(super) fn create(
        target: PathBuf,
        staged: PathBuf,
        schema: &SchemaRef,
        options: &ConvertOptions,
    ) -> Result<Self, ToolError> {
        let pending = PendingFile::create(target, staged)?;
        let writer = ArrowWriter::try_new(pending.writer()?, schema.clone(), Some(writer_options(options)))?;
        let writer = match &options.threads {
            Some(threads) => writer.with_threads(Arc::clone(threads)),
            None => writer,
        };
        let fingerprints = match options.verify {
            true => Some(Fingerprints::new(schema).map_err(ToolError::Options)?),
            false => None,
        };
        Ok(Self {
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
            let path = self.pending.target();
            fingerprints.add(batch).map_err(|reason| differs(path, reason))?;
        }
        self.rows += batch.num_rows() as u64;
        self.writer.write(batch).map_err(|e| self.pending.explain(e))
    }

    /// Syncs the file, verifies it if asked to, and adds it to `report`.
    pub(super) fn finish(self, report: &mut ConvertReport) -> Result<(), ToolError> {
        let writer = self.writer.into_inner().map_err(|e| self.pending.explain(e))?;
        report.bytes += self.pending.finish(writer)?;
        report.rows += self.rows;
        if let Some(expected) = &self.fingerprints {
            verify(&self.pending, expected)?;
        }
        report.files.push(self.pending.target().to_owned());
        Ok(())
    }
}

fn writer_options(options: &ConvertOptions) -> WriterProperties {
    let defaults = WriterProperties::on_demand(options.codec);
    let defaults = match options.chunk_size_bytes {
        Some(bytes) => defaults.with_chunks_of(bytes),
        None => defaults,
    };
    WriterProperties {
        number_chunk_size_bytes: options.number_chunk_size_bytes.or(defaults.number_chunk_size_bytes),
        direct_columns: options.direct_columns.clone(),
        row_index_stride: options.row_index_stride.unwrap_or(defaults.row_index_stride),
        stripe_rows: options.stripe_rows.unwrap_or(defaults.stripe_rows),
        ..defaults
    }
}

/// Reads an output from front to back and compares it with the written rows.
fn verify(file: &PendingFile, expected: &Fingerprints) -> Result<(), ToolError> {
    let differs = |reason| differs(file.target(), reason);
    let input = orc_input::open_written(file.staged(), expected.schema());
    let input = input.map_err(|error| differs(error.to_string()))?;
    let mut found = Fingerprints::new(&input.schema).map_err(differs)?;
    for batch in input.batches {
        let added = batch.map_err(|fault| fault.reason).and_then(|b| found.add(&b));
        added.map_err(differs)?;
    }
    match expected.difference(&found) {
        Some(reason) => Err(differs(reason)),
        None => Ok(()),
    }
}

fn differs(path: &Path, reason: String) -> ToolError {
    ToolError::Verify {
        path: path.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;
    use crate::atomic_output::StagedFolder;

    fn batch(values: Vec<i64>) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from(values));
        RecordBatch::try_from_iter_with_nullable([("id", column, true)]).unwrap()
    }

    #[test]
    fn file_that_reads_back_differently_is_not_published() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let staged = StagedFolder::create(&out, None).unwrap();
        let options = ConvertOptions {
            verify: true,
            ..ConvertOptions::default()
        };
        let written = batch(vec![1, 2, 3]);
        let (target, path) = (out.join("a.orc"), staged.files().join("a.orc"));
        let mut file = OutputFile::create(target.clone(), path, &written.schema(), &options).unwrap();
        file.write(&written).unwrap();
        // As if the writer had written other values.
        let mut expected = Fingerprints::new(&written.schema()).unwrap();
        expected.add(&batch(vec![1, 2, 4])).unwrap();
        file.fingerprints = Some(expected);
        let mut report = ConvertReport::default();
        match file.finish(&mut report).unwrap_err() {
            ToolError::Verify { path, .. } => assert_eq!(path, target),
            other => panic!("{other}"),
        }
        drop(staged);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
