//! [`CharDecoder`] of CHAR: text without its trailing blanks.
//!
//! Writers fill a CHAR value with blanks up to the type's length. The blanks are not part of the value: SQL compares
//! CHAR values without them, and Hive's and Trino's readers remove them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};
use arrow::buffer::NullBuffer;

use super::steps::Step;
use super::{Decoder, EntryPoint};
use crate::error::Result;

/// CHAR; `D` decodes the stored text.
pub(super) struct CharDecoder<D>(D);

impl<D: Decoder> CharDecoder<D> {
    pub(super) fn new(stored: D) -> Self {
        Self(stored)
    }
}

impl<D: Decoder> Decoder for CharDecoder<D> {
    fn streams(&mut self, visit: &mut dyn FnMut(&mut dyn EntryPoint) -> Result<()>) -> Result<()> {
        self.0.streams(visit)
    }

    fn select(&mut self, rows: &[Step]) -> Result<()> {
        self.0.select(rows)
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef> {
        Ok(Arc::new(without_padding(self.0.finish(parent)?.as_string())))
    }
}

/// The values without their trailing blanks.
pub(super) fn without_padding(stored: &StringArray) -> StringArray {
    if !stored.iter().flatten().any(|text| text.ends_with(' ')) {
        return stored.clone();
    }
    let mut stripped = StringBuilder::with_capacity(stored.len(), stored.values().len());
    for text in stored {
        stripped.append_option(text.map(|text| text.trim_end_matches(' ')));
    }
    stripped.finish()
}
