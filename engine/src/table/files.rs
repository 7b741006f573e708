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
    /// By file column of the table: which column of the file; `None`: the file lacks it.
    pub columns: Vec<Option<ColumnId>>,
    /// By partition column of the table.
    pub partition_values: Vec<ScalarValue>,
}

impl TableFile {
    /// Which column of the file a table column is, or the value that it has in all rows.
    ///
    /// # Errors
    /// The value is no error, just the other case.
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
