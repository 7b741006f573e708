//! What files say of themselves, as rows: `orc_metadata('x.orc')`, `parquet_metadata('x.parquet')`.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::common::plan_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::parquet::basic::ConvertedType;
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use datafusion::parquet::file::statistics::Statistics;
use grampus_orc_layout::file_source::FileSource;
use grampus_orc_layout::report::{FileReport, ReportOptions, StatisticsReport};

use crate::file::Place;
use crate::table::listing::FoundFile;

/// The formats whose files say something.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Described {
    /// A row for each stream of each stripe.
    Orc,
    /// A row for each column of each row group.
    Parquet,
}

/// The rows of files.
///
/// # Errors
/// If a file is not local, or its metadata cannot be read.
pub(super) async fn rows(described: Described, files: &[FoundFile]) -> Result<RecordBatch> {
    let mut paths: Vec<(Arc<str>, PathBuf)> = Vec::new();
    for file in files {
        match &file.place {
            Place::Local(path) => paths.push((Arc::clone(&file.name), path.clone())),
            _ => {
                return plan_err!(
                    "{}: metadata functions read local files only; copy the file first",
                    file.name
                );
            }
        }
    }
    let read = move || match described {
        Described::Orc => orc(&paths),
        Described::Parquet => parquet(&paths),
    };
    let read = tokio::task::spawn_blocking(read).await;
    read.map_err(|error| DataFusionError::External(Box::new(error)))?
}

/// A stream of a stripe.
struct Stream {
    file: Arc<str>,
    codec: String,
    stripe: u64,
    first_row: u64,
    rows: u64,
    column_id: u64,
    column: String,
    data_type: Option<String>,
    encoding: String,
    statistics: StatisticsReport,
    kind: String,
    offset: u64,
    bytes: u64,
}

fn orc(files: &[(Arc<str>, PathBuf)]) -> Result<RecordBatch> {
    let mut streams = Vec::new();
    for (name, path) in files {
        let failed = |error: &dyn std::fmt::Display| DataFusionError::Execution(format!("{name}: {error}"));
        let file = FileSource::open(path).map_err(|error| failed(&error))?;
        let tail = file.tail().map_err(|error| failed(&error))?;
        let report = FileReport::build(&tail, &file, &ReportOptions::default()).map_err(|error| failed(&error))?;
        if let Some(problem) = report.problems.first() {
            return Err(failed(problem));
        }
        let codec = report
            .compression
            .map_or_else(|| "none".to_owned(), |found| found.codec);
        for stripe in report.stripes {
            for column in stripe.columns {
                let described = report.columns.iter().find(|described| described.id == column.id);
                for stream in column.streams {
                    streams.push(Stream {
                        file: Arc::clone(name),
                        codec: codec.clone(),
                        stripe: stripe.index as u64,
                        first_row: stripe.first_row,
                        rows: stripe.rows,
                        column_id: u64::from(column.id),
                        column: column.name.clone(),
                        data_type: described.map(|described| described.kind.clone()),
                        encoding: column.encoding.clone(),
                        statistics: column.statistics.clone().unwrap_or_default(),
                        kind: stream.kind,
                        offset: stream.offset,
                        bytes: stream.length,
                    });
                }
            }
        }
    }
    let bound = |bound: &Option<_>| bound.as_ref().map(ToString::to_string);
    Ok(RecordBatch::try_from_iter([
        ("file_name", texts(&streams, |stream| Some(stream.file.to_string()))),
        ("compression", texts(&streams, |stream| Some(stream.codec.clone()))),
        ("stripe", numbers(&streams, |stream| Some(stream.stripe))),
        ("first_row", numbers(&streams, |stream| Some(stream.first_row))),
        ("rows", numbers(&streams, |stream| Some(stream.rows))),
        ("column_id", numbers(&streams, |stream| Some(stream.column_id))),
        ("column_name", texts(&streams, |stream| Some(stream.column.clone()))),
        ("type", texts(&streams, |stream| stream.data_type.clone())),
        ("encoding", texts(&streams, |stream| Some(stream.encoding.clone()))),
        ("num_values", numbers(&streams, |stream| stream.statistics.values)),
        ("min", texts(&streams, |stream| bound(&stream.statistics.min))),
        ("max", texts(&streams, |stream| bound(&stream.statistics.max))),
        ("stream", texts(&streams, |stream| Some(stream.kind.clone()))),
        ("offset", numbers(&streams, |stream| Some(stream.offset))),
        ("bytes", numbers(&streams, |stream| Some(stream.bytes))),
    ])?)
}

/// A column of a row group.
struct Chunk<'a> {
    file: &'a str,
    row_group: usize,
    rows: i64,
    column: usize,
    chunk: &'a ColumnChunkMetaData,
}

fn parquet(files: &[(Arc<str>, PathBuf)]) -> Result<RecordBatch> {
    let mut read: Vec<(&str, ParquetMetaData)> = Vec::new();
    for (name, path) in files {
        let failed = |error: &dyn std::fmt::Display| DataFusionError::Execution(format!("{name}: {error}"));
        let file = File::open(path).map_err(|error| failed(&error))?;
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&file);
        read.push((name, metadata.map_err(|error| failed(&error))?));
    }
    let chunks = read.iter().flat_map(|(file, metadata)| {
        let groups = metadata.row_groups().iter().enumerate();
        groups.flat_map(move |(row_group, group)| {
            let columns = group.columns().iter().enumerate();
            columns.map(move |(column, chunk)| Chunk {
                file,
                row_group,
                rows: group.num_rows(),
                column,
                chunk,
            })
        })
    });
    let chunks: Vec<Chunk<'_>> = chunks.collect();
    let number = |number: i64| u64::try_from(number).ok();
    let place = |place: Option<i64>| place.and_then(number);
    Ok(RecordBatch::try_from_iter([
        ("file_name", texts(&chunks, |chunk| Some(chunk.file.to_owned()))),
        ("row_group_id", numbers(&chunks, |chunk| Some(chunk.row_group as u64))),
        ("row_group_num_rows", numbers(&chunks, |chunk| number(chunk.rows))),
        ("column_id", numbers(&chunks, |chunk| Some(chunk.column as u64))),
        (
            "path_in_schema",
            texts(&chunks, |chunk| Some(chunk.chunk.column_path().parts().join(", "))),
        ),
        (
            "type",
            texts(&chunks, |chunk| Some(chunk.chunk.column_type().to_string())),
        ),
        ("num_values", numbers(&chunks, |chunk| number(chunk.chunk.num_values()))),
        ("stats_min", texts(&chunks, |chunk| chunk.bounds().0)),
        ("stats_max", texts(&chunks, |chunk| chunk.bounds().1)),
        (
            "stats_null_count",
            numbers(&chunks, |chunk| chunk.chunk.statistics()?.null_count_opt()),
        ),
        ("compression", texts(&chunks, |chunk| Some(chunk.codec()))),
        ("encodings", texts(&chunks, |chunk| Some(chunk.encodings()))),
        (
            "dictionary_page_offset",
            numbers(&chunks, |chunk| place(chunk.chunk.dictionary_page_offset())),
        ),
        (
            "data_page_offset",
            numbers(&chunks, |chunk| number(chunk.chunk.data_page_offset())),
        ),
        (
            "total_compressed_size",
            numbers(&chunks, |chunk| number(chunk.chunk.compressed_size())),
        ),
        (
            "total_uncompressed_size",
            numbers(&chunks, |chunk| number(chunk.chunk.uncompressed_size())),
        ),
    ])?)
}

impl Chunk<'_> {
    /// The least and the greatest value: numbers, truth values and texts.
    fn bounds(&self) -> (Option<String>, Option<String>) {
        fn shown<T: ToString>(bound: Option<&T>) -> Option<String> {
            bound.map(ToString::to_string)
        }
        let is_text = self.chunk.column_descr().converted_type() == ConvertedType::UTF8;
        let text = |bytes: Option<&[u8]>| {
            let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
            text.filter(|_| is_text).map(str::to_owned)
        };
        match self.chunk.statistics() {
            Some(Statistics::Boolean(found)) => (shown(found.min_opt()), shown(found.max_opt())),
            Some(Statistics::Int32(found)) => (shown(found.min_opt()), shown(found.max_opt())),
            Some(Statistics::Int64(found)) => (shown(found.min_opt()), shown(found.max_opt())),
            Some(Statistics::Float(found)) => (shown(found.min_opt()), shown(found.max_opt())),
            Some(Statistics::Double(found)) => (shown(found.min_opt()), shown(found.max_opt())),
            Some(Statistics::ByteArray(found)) => (text(found.min_bytes_opt()), text(found.max_bytes_opt())),
            _ => (None, None),
        }
    }

    /// As DuckDB writes it: ZSTD, not ZSTD(ZstdLevel(1)).
    fn codec(&self) -> String {
        let codec = self.chunk.compression().to_string();
        codec.split('(').next().unwrap_or_default().to_owned()
    }

    fn encodings(&self) -> String {
        let encodings: Vec<String> = self.chunk.encodings().map(|encoding| encoding.to_string()).collect();
        encodings.join(", ")
    }
}

fn texts<T>(rows: &[T], value: impl Fn(&T) -> Option<String>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<StringArray>())
}

fn numbers<T>(rows: &[T], value: impl Fn(&T) -> Option<u64>) -> ArrayRef {
    let number = |row| value(row).and_then(|number| i64::try_from(number).ok());
    Arc::new(rows.iter().map(number).collect::<Int64Array>())
}
