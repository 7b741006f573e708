//! `TableFile`: one file of a table, with the columns and partition values that it gives to the table.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use grampus_orc_layout::schema::ColumnId;

use crate::file::file_cache::OrcFile;

/// A file as part of a table.
#[derive(Debug, Clone)]
pub struct TableFile {
    /// The file.
    pub file: Arc<OrcFile>,
    /// The column of the file, by file column of the table; `None`: the file lacks the column.
    pub columns: Vec<Option<ColumnId>>,
    /// Values by partition column of the table.
    pub partition_values: Vec<ScalarValue>,
}

impl TableFile {
    /// The column of the file that stores a table column.
    ///
    /// # Errors
    /// If the file does not store the column: the value that all of its rows have. This case is not a failure.
    pub fn place_of(&self, column: usize) -> std::result::Result<ColumnId, ScalarValue> {
        match self.columns.get(column) {
            Some(Some(id)) => Ok(*id),
            Some(None) => Err(ScalarValue::Null),
            None => Err(self
                .partition_values
                .get(column - self.columns.len())
                .cloned()
                .unwrap_or(ScalarValue::Null)),
        }
    }
}
