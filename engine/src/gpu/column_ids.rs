//! [`ColumnIds`]: one id per column of a table, also if the column has different ORC ids in the table's files.
//!
//! **Invariant:** one id never means two columns of a file. A device keys its cached columns by file version and id, so
//! each combination of files and ORC ids has an id of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::DataType;

use super::text_function::TextFunction;
use crate::config::InvalidUtf8;
use crate::scan::Scan;
use crate::table::files::TableFile;

/// Ids from here on are assigned by [`ColumnIds`]. Ids below are ORC column ids.
const FIRST_ASSIGNED_ID: u32 = 1 << 31;

/// Marks the ids of strings in which U+FFFD stands for invalid bytes. Without the marker, a query that asks for an
/// error would find these strings cached.
const REPLACED_TEXT: (u64, u32) = (u64::MAX, u32::MAX);

/// Assigned ids that are known, at most. Each condition on strings has one.
const MAX_KNOWN: usize = 1 << 16;

/// The assigned ids of a session.
#[derive(Debug, Default)]
pub(crate) struct ColumnIds(Mutex<Assigned>);

#[derive(Debug, Default)]
struct Assigned {
    known: HashMap<Columns, u32>,
    /// Ids that were assigned. None is assigned twice, so columns of forgotten ids are not found again.
    count: u32,
}

/// File id and ORC column id in each file of the table, and the function of the column.
type Columns = (Vec<(u64, u32)>, Option<Arc<TextFunction>>);

impl Assigned {
    fn id(&mut self, columns: Columns) -> u32 {
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let next = FIRST_ASSIGNED_ID + self.count;
        let id = *self.known.entry(columns).or_insert(next);
        self.count += u32::from(id == next);
        id
    }
}

impl ColumnIds {
    /// The id of the table's column, or of a function of it: the ORC column id if all files have the same one, else an
    /// assigned id.
    pub(super) fn of(&self, scan: &Scan, column: usize, function: Option<&Arc<TextFunction>>) -> u32 {
        let ids = |file: &TableFile| Some((file.file.id, file.place_of(column).ok()?));
        let mut ids: Vec<(u64, u32)> = scan.files.iter().filter_map(ids).collect();
        if scan.options.invalid_utf8 == InvalidUtf8::Replace && *scan.table.field(column).data_type() == DataType::Utf8
        {
            ids.push(REPLACED_TEXT);
        }
        match ids.first() {
            Some(&(_, first))
                if function.is_none() && first < FIRST_ASSIGNED_ID && ids.iter().all(|(_, id)| *id == first) =>
            {
                first
            }
            _ => {
                let mut assigned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                assigned.id((ids, function.cloned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_is_assigned_twice() {
        let mut assigned = Assigned::default();
        let of_file = |file: u64| (vec![(file, 1)], None);
        let first = assigned.id(of_file(0));
        assert_eq!((first, assigned.id(of_file(0))), (FIRST_ASSIGNED_ID, first));
        let last = (1..=MAX_KNOWN as u64).map(|file| assigned.id(of_file(file))).last();
        assert_eq!(last, Some(FIRST_ASSIGNED_ID + MAX_KNOWN as u32));
        assert!(assigned.known.len() < MAX_KNOWN);
        assert_eq!(assigned.id(of_file(0)), FIRST_ASSIGNED_ID + MAX_KNOWN as u32 + 1);
    }
}
