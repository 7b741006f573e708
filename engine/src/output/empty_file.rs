//! [`empty_file`]: an ORC file without rows, which tells how columns are stored.

use arrow::datatypes::Schema;
use datafusion::error::{DataFusionError, Result};
use grampus_orc_layout::LayoutError;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties, stored_schema};
use tempfile::NamedTempFile;

/// A temporary file of these columns.
///
/// # Errors
/// If ORC has no type for a column, or the file cannot be written.
pub(crate) fn empty_file(columns: &Schema) -> Result<NamedTempFile> {
    let unwritable = |error| match error {
        LayoutError::Write(reason) | LayoutError::Sink { reason, .. } => {
            DataFusionError::Plan(format!("an ORC table: {reason}"))
        }
        other => DataFusionError::Plan(other.to_string()),
    };
    let file = NamedTempFile::with_prefix("grampus-columns-")?;
    let stored = stored_schema(columns).map_err(unwritable)?;
    let writer = ArrowWriter::try_new(file.reopen()?, stored, Some(WriterProperties::default())).map_err(unwritable)?;
    writer.close().map_err(unwritable)?;
    Ok(file)
}
