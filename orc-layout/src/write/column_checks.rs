//! Checks of the properties of single columns against the types of the file.

use super::types::Node;
use super::writer_properties::{MIN_CHUNK_BYTES, WriterProperties, is_share};
use crate::error::{LayoutError, Result};

/// Refuses properties of columns that do not exist or cannot have them.
pub(super) fn check_columns(properties: &WriterProperties, root: &Node) -> Result<()> {
    for (name, column) in &properties.columns {
        let refuse = |reason: String| Err(LayoutError::Write(format!("column {name}: {reason}")));
        let Some(node) = root.find(name) else {
            return refuse("there are properties for it, but it is not in the schema".into());
        };
        if let Some(bytes) = column.chunk_size_bytes
            && !(MIN_CHUNK_BYTES..=properties.chunk_size_bytes).contains(&bytes)
        {
            return refuse(format!(
                "the chunk size must be between {MIN_CHUNK_BYTES} and the file's {} bytes, not {bytes}",
                properties.chunk_size_bytes
            ));
        }
        if let Some(threshold) = column.dictionary_threshold
            && (threshold.is_nan() || !node.kind_is_text())
        {
            return refuse(format!("only text has dictionaries, and {threshold} must be a number"));
        }
        if let Some(fpp) = column.bloom_filter_fpp
            && (!properties.bloom_filter_columns.contains(name) || !is_share(fpp))
        {
            return refuse(format!(
                "a false positive share needs a bloom filter, and {fpp} must be between 0 and 1"
            ));
        }
    }
    Ok(())
}
