//! [`TextLimit`] of CHAR and VARCHAR: texts that are too long are refused, and those of CHAR are filled with blanks.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;

use crate::error::{LayoutError, Result};
use crate::text_type::TextType;

/// The length of a column's texts, in characters (Unicode code points, as the Java and C++ writers count).
#[derive(Debug)]
pub(super) struct TextLimit {
    column: String,
    text_type: TextType,
}

impl TextLimit {
    /// The limit of a column; `None` for STRING.
    pub(super) fn of(column: &str, text_type: TextType) -> Option<Self> {
        (text_type != TextType::String).then(|| Self {
            column: column.to_owned(),
            text_type,
        })
    }

    /// Whether texts are filled with blanks.
    pub(super) fn is_filled(&self) -> bool {
        matches!(self.text_type, TextType::Char { .. })
    }

    /// The texts as they are stored.
    ///
    /// # Errors
    /// `Write` for a text with more characters than the type has. Blanks at the end of a CHAR do not count.
    pub(super) fn stored(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let array = match array.data_type() {
            DataType::Utf8 => array.clone(),
            _ => cast(array, &DataType::Utf8).map_err(|error| self.refuse(error.to_string()))?,
        };
        let texts = array.as_string::<i32>();
        let (length, is_filled) = match self.text_type {
            TextType::Char { length } => (length as usize, true),
            TextType::Varchar { length } => (length as usize, false),
            TextType::String => return Ok(array),
        };
        let mut stored = StringBuilder::with_capacity(texts.len(), texts.values().len());
        for text in texts {
            let Some(text) = text else {
                stored.append_null();
                continue;
            };
            let text = if is_filled { text.trim_end_matches(' ') } else { text };
            let characters = text.chars().count();
            let Some(missing) = length.checked_sub(characters) else {
                return Err(self.refuse(format!("a text has {characters} characters")));
            };
            let blanks = if is_filled { missing } else { 0 };
            if stored.values_slice().len() + text.len() + blanks > i32::MAX as usize {
                return Err(self.refuse("a batch of it takes more than 2 GiB; write fewer rows at a time"));
            }
            stored.append_value(format_args!("{text}{:blanks$}", "").to_string());
        }
        Ok(Arc::new(stored.finish()))
    }

    fn refuse(&self, reason: impl AsRef<str>) -> LayoutError {
        LayoutError::Write(format!(
            "column {} ({}): {}",
            self.column,
            self.text_type,
            reason.as_ref()
        ))
    }
}
