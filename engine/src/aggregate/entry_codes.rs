//! `EntryCodes`: the codes of a dictionary's entries, each found at its first use.

use std::sync::Arc;

use arrow::array::{AnyDictionaryArray, Array, ArrayRef, AsArray};
use arrow::datatypes::UInt32Type;

use super::value_codes::{NULL_CODE, TooManyValues, known_codes, other_codes};

/// Codes of the entries of one dictionary. Batches of a stripe share theirs.
#[derive(Debug, Default)]
pub(super) struct EntryCodes {
    entries: Option<ArrayRef>,
    /// By entry: 0 if the code is not known, or if the entry is NULL.
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
        code: impl FnMut(&ArrayRef, usize) -> Result<u32, TooManyValues>,
    ) -> Result<(), TooManyValues> {
        let entries = array.values();
        if !self.entries.as_ref().is_some_and(|known| Arc::ptr_eq(known, entries)) {
            self.codes.clear();
            self.codes.resize(entries.len(), NULL_CODE);
            self.entries = Some(Arc::clone(entries));
        }
        if entries.is_empty() {
            out.resize(array.len(), NULL_CODE);
            return Ok(());
        }
        match array.keys().as_primitive_opt::<UInt32Type>() {
            Some(places) => self.of_places((places.values(), |place| place as usize), array, out, code),
            None => self.of_places((&array.normalized_keys(), |place| place), array, out, code),
        }
    }

    fn of_places<T: Copy>(
        &mut self,
        (places, entry_of): (&[T], impl Fn(T) -> usize),
        array: &dyn AnyDictionaryArray,
        out: &mut Vec<u32>,
        mut code: impl FnMut(&ArrayRef, usize) -> Result<u32, TooManyValues>,
    ) -> Result<(), TooManyValues> {
        let codes = &mut self.codes;
        known_codes(places, out, |place| codes.get(entry_of(place)).copied());
        other_codes(places, array.nulls(), out, |place| {
            let entry = entry_of(place);
            if array.values().is_null(entry) {
                return Ok(NULL_CODE);
            }
            // Another row of this batch may have been the first.
            if codes[entry] == NULL_CODE {
                codes[entry] = code(array.values(), entry)?;
            }
            Ok(codes[entry])
        })
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
