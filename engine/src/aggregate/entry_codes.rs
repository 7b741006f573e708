//! `EntryCodes`: the codes of a dictionary's entries, each found at its first use.

use std::sync::Arc;

use arrow::array::{AnyDictionaryArray, Array, ArrayRef};

use super::value_codes::{NULL_CODE, TooManyValues, each};

/// The entry's code is not known.
const UNKNOWN: u32 = u32::MAX;

/// Codes of the entries of one dictionary. Batches of a stripe share theirs.
#[derive(Debug, Default)]
pub(super) struct EntryCodes {
    entries: Option<ArrayRef>,
    /// By entry.
    codes: Vec<u32>,
}

impl EntryCodes {
    /// Appends the code of each row. `code` gives the code of an entry.
    ///
    /// # Errors
    /// Those of `code`.
    pub(super) fn of_rows(
        &mut self,
        array: &dyn AnyDictionaryArray,
        out: &mut Vec<u32>,
        mut code: impl FnMut(&ArrayRef, usize) -> Result<u32, TooManyValues>,
    ) -> Result<(), TooManyValues> {
        let entries = array.values();
        if !self.entries.as_ref().is_some_and(|known| Arc::ptr_eq(known, entries)) {
            self.codes.clear();
            self.codes.resize(entries.len(), UNKNOWN);
            self.entries = Some(Arc::clone(entries));
        }
        if entries.is_empty() {
            out.resize(array.len(), NULL_CODE);
            return Ok(());
        }
        let codes = &mut self.codes;
        let of_entry = |entry: usize| match codes[entry] {
            UNKNOWN if entries.is_null(entry) => Ok(NULL_CODE),
            UNKNOWN => {
                codes[entry] = code(entries, entry)?;
                Ok(codes[entry])
            }
            known => Ok(known),
        };
        each(array.normalized_keys().into_iter(), array.nulls(), out, of_entry)
    }

    /// Bytes of memory.
    pub(super) fn size(&self) -> usize {
        let entries = self
            .entries
            .as_ref()
            .map_or(0, |entries| entries.get_array_memory_size());
        self.codes.capacity() * size_of::<u32>() + entries
    }
}
