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
    /// The columns of the file, by file column of the table.
    pub columns: Arc<ColumnMap>,
    /// Values by partition column of the table.
    pub partition_values: Vec<ScalarValue>,
}

/// The columns of a file, by file column of the table; `None`: the file lacks the column.
#[derive(Debug)]
pub struct ColumnMap(pub(super) Vec<Option<MappedColumn>>);

/// A column of a file that stores a column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MappedColumn {
    /// The column of the file.
    pub(crate) id: ColumnId,
    /// True if the file's type is narrower than the table's, so that values are converted when they are read.
    pub(crate) is_converted: bool,
}

impl TableFile {
    /// The column of the file that stores a table column.
    ///
    /// # Errors
    /// If the file does not store the column: the value that all of its rows have. This case is not a failure.
    pub fn place_of(&self, column: usize) -> std::result::Result<ColumnId, ScalarValue> {
        self.mapped(column).map(|mapped| mapped.id)
    }

    /// True if the file stores the table column with a narrower type than the table's.
    pub fn is_converted(&self, column: usize) -> bool {
        self.mapped(column).is_ok_and(|mapped| mapped.is_converted)
    }

    fn mapped(&self, column: usize) -> std::result::Result<MappedColumn, ScalarValue> {
        let columns = &self.columns.0;
        match columns.get(column) {
            Some(Some(mapped)) => Ok(*mapped),
            Some(None) => Err(ScalarValue::Null),
            None => Err(self
                .partition_values
                .get(column - columns.len())
                .cloned()
                .unwrap_or(ScalarValue::Null)),
        }
    }
}
