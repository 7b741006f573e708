//! [`write_orc`] and [`layout`]: ORC files without a session.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Instant;

use grampus::ScopedThreads;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::file_source::FileSource;
use grampus_orc_layout::report::{FileReport, ReportOptions};
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};
use grampus_tools::atomic_output::StagedFile;
use pyo3::exceptions::{PyFileExistsError, PyOSError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::c_data::stream::StreamReader;
use crate::capsules::stream_of;
use crate::error::{caught, error};
use crate::threads::TICK;

/// Writes the batches of an object's Arrow stream as one file. Returns the numbers of rows and bytes.
///
/// The file appears whole, or not at all.
#[pyfunction]
pub(crate) fn write_orc(
    py: Python<'_>,
    object: &Bound<'_, PyAny>,
    path: PathBuf,
    options: &Bound<'_, PyDict>,
    overwrite: bool,
) -> PyResult<(u64, u64)> {
    let options = writer_options(options)?;
    if path.exists() && !overwrite {
        return Err(PyFileExistsError::new_err(format!(
            "{} exists: name another file, or pass overwrite=True",
            path.display()
        )));
    }
    let reader = stream_of(object)?;
    py.detach(|| caught("write_orc", || write(reader, path, options)))
}

fn write(mut reader: StreamReader, path: PathBuf, options: WriterProperties) -> PyResult<(u64, u64)> {
    let failed = |failure: std::io::Error| PyOSError::new_err(format!("cannot write {}: {failure}", path.display()));
    let refused = |failure: grampus_orc_layout::LayoutError| error(format!("{}: {failure}", path.display()));
    let staged = StagedFile::create(&path).map_err(failed)?;
    let file = File::create_new(staged.path()).map_err(failed)?;
    let threads = ScopedThreads::new(available_parallelism().map_or(1, usize::from));
    let writer = ArrowWriter::try_new(file, reader.schema(), Some(options)).map_err(refused)?;
    let mut writer = writer.with_threads(Arc::new(threads));
    let mut looked = Instant::now();
    while let Some(batch) = reader.next_batch().map_err(|failure| error(failure.to_string()))? {
        writer.write(&batch).map_err(refused)?;
        if looked.elapsed() >= TICK {
            looked = Instant::now();
            Python::attach(|py| py.check_signals())?;
        }
    }
    let rows = writer.rows();
    let file = writer.into_inner().map_err(refused)?;
    let bytes = file.metadata().map_err(failed)?.len();
    staged.publish().map_err(failed)?;
    Ok((rows, bytes))
}

fn writer_options(given: &Bound<'_, PyDict>) -> PyResult<WriterProperties> {
    let compression = given.get_item("compression")?;
    let compression = compression.map_or(Ok(None), |value| codec(&value.extract::<String>()?))?;
    let mut options = WriterProperties::on_demand(compression);
    if let Some(bytes) = given.get_item("chunk_size_bytes")? {
        options = options.with_chunks_of(bytes.extract()?);
    }
    for (name, value) in given.iter() {
        let name: String = name.extract()?;
        match name.as_str() {
            "compression" | "chunk_size_bytes" => {}
            "number_chunk_size_bytes" => options.number_chunk_size_bytes = Some(value.extract()?),
            "direct_columns" => options.direct_columns = value.extract()?,
            "row_index_stride" => options.row_index_stride = value.extract()?,
            "stripe_rows" => options.stripe_rows = value.extract()?,
            "stripe_size_bytes" => options.stripe_size_bytes = value.extract()?,
            "alignment_bytes" => options.alignment_bytes = value.extract()?,
            "dictionary_threshold" => options.dictionary_threshold = value.extract()?,
            "bloom_filter_columns" => options.bloom_filter_columns = value.extract()?,
            "bloom_filter_fpp" => options.bloom_filter_fpp = value.extract()?,
            _ => return Err(error(format!("write_orc has no option {name}"))),
        }
    }
    Ok(options)
}

fn codec(name: &str) -> PyResult<Option<Codec>> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "none" | "uncompressed" => None,
        "zlib" => Some(Codec::Zlib),
        "snappy" => Some(Codec::Snappy),
        "lz4" => Some(Codec::Lz4),
        "zstd" => Some(Codec::Zstd),
        _ => {
            return Err(error(format!(
                "compression is none, zlib, snappy, lz4 or zstd, not {name:?}"
            )));
        }
    })
}

/// The layout of a local file as JSON.
#[pyfunction]
pub(crate) fn layout(py: Python<'_>, path: PathBuf, row_groups: bool, chunks: bool) -> PyResult<String> {
    let file = FileSource::open(&path)?;
    let build = || {
        let options = ReportOptions { row_groups, chunks };
        let report = (file.tail())
            .and_then(|tail| FileReport::build(&tail, &file, &options))
            .map_err(|failure| error(failure.to_string()))?;
        serde_json::to_string(&report).map_err(|failure| error(failure.to_string()))
    };
    py.detach(|| caught("layout", build))
}
