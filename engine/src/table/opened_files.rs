//! The files of a table, opened, and the columns that they give to it.

use std::sync::Arc;

use arrow::datatypes::{Field, SchemaRef};
use datafusion::catalog::Session;
use datafusion::error::Result;
use grampus_orc_layout::LayoutError;

use super::listing::FoundFile;
use super::schema::{self, ColumnMaps};
use super::{row_versions, value_types};
use crate::config::{GrampusOptions, TimestampUnit};
use crate::error::layout;
use crate::file::file_cache::{FileCache, OrcFile};

/// Opens the files and returns them in the given order.
///
/// # Errors
/// If a file is no ORC file, or has row versions, or if the files claim more rows than a table can have.
pub(crate) async fn open_files(cache: &FileCache, found: &[FoundFile]) -> Result<Vec<Arc<OrcFile>>> {
    let wanted: Vec<_> = found
        .iter()
        .map(|file| (&file.name, &file.place, &file.identity))
        .collect();
    let files = cache
        .files(&wanted)
        .await
        .map_err(|error| layout(with_advice(error, found)))?;
    for (_, file) in found.iter().zip(&files).filter(|(found, _)| !found.is_named) {
        row_versions::refuse_columns(&file.name, &file.tail.schema)?;
    }
    check_rows(&files)?;
    Ok(files)
}

/// Refuses files that together claim 2^63 rows or more. So no sum over the rows of a table overflows.
fn check_rows(files: &[Arc<OrcFile>]) -> Result<()> {
    let mut rows: u64 = 0;
    for OrcFile { name, tail, .. } in files.iter().map(AsRef::as_ref) {
        rows = match rows.checked_add(tail.rows).filter(|&rows| rows <= i64::MAX as u64) {
            Some(rows) => rows,
            None => {
                return Err(layout(LayoutError::Corrupt {
                    file: Arc::clone(name),
                    offset: tail.file_length.saturating_sub(tail.tail_length),
                    place: "footer".to_owned(),
                    reason: format!(
                        "{} rows here and {rows} in other files of the table are more than 2^63",
                        tail.rows
                    ),
                }));
            }
        };
    }
    Ok(())
}

/// The error, with advice if it is about a file of a folder that is not ORC.
fn with_advice(error: LayoutError, found: &[FoundFile]) -> LayoutError {
    match error {
        LayoutError::NotOrc { file, reason } if found.iter().any(|f| f.name == file && !f.is_named) => {
            let advice = "each visible file of a folder is data, as in Hive: move it away, let its name begin with \
                          `_`, or name the ORC files by a pattern such as folder/*.orc";
            LayoutError::NotOrc {
                file,
                reason: format!("{reason}; {advice}"),
            }
        }
        other => other,
    }
}

/// The columns of a table of these files, with its partition columns behind.
///
/// # Errors
/// If the columns of two files contradict each other.
pub(crate) fn columns_of(state: &dyn Session, files: &[Arc<OrcFile>], partitions: &[Field]) -> Result<SchemaRef> {
    let options = state.config_options().extensions.get::<GrampusOptions>();
    let timestamps = options.map_or_else(Default::default, |options| options.timestamp_unit);
    columns_with(timestamps, files, partitions)
}

/// As [`columns_of`], with this setting of the unit of timestamps.
///
/// # Errors
/// As [`columns_of`].
pub(crate) fn columns_with(
    timestamps: TimestampUnit,
    files: &[Arc<OrcFile>],
    partitions: &[Field],
) -> Result<SchemaRef> {
    let schema = schema::table_schema(files, partitions)?;
    let mut maps = ColumnMaps::default();
    let mut columns = Vec::with_capacity(files.len());
    for file in files {
        columns.push(maps.of(file, &schema, schema.fields().len() - partitions.len())?);
    }
    let tails = files.iter().map(|file| file.tail.as_ref());
    Ok(value_types::resolve(&schema, tails.zip(columns), timestamps))
}
