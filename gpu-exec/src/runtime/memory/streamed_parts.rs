//! `StreamedParts`: the columns of stripes of which queries have loaded only some rows.

use std::collections::HashSet;

use crate::input::file_registry::FileId;
use crate::runtime::memory::column_key::ColumnKey;

/// Columns, at most; more are forgotten together.
const MAX_COLUMNS: usize = 1 << 16;

/// Columns of which some rows were loaded and not kept.
#[derive(Debug, Default)]
pub(crate) struct StreamedParts(HashSet<ColumnKey>);

impl StreamedParts {
    /// Notes that a query needs some rows of a column. True: an earlier query needed some too.
    pub(crate) fn note(&mut self, key: ColumnKey) -> bool {
        if self.0.len() >= MAX_COLUMNS {
            self.0.clear();
        }
        !self.0.insert(key)
    }

    pub(crate) fn forget(&mut self, file: FileId) {
        self.0.retain(|key| key.file != file);
    }

    pub(crate) fn forget_all(&mut self) {
        self.0.clear();
    }
}
