//! [`ColumnProperties`], how one column is written where it differs from the file.

use crate::text_type::TextType;

/// Properties of one column. `None` stands for the file's property.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ColumnProperties {
    /// False-positive probability of the bloom filters, between 0 and 1.
    pub bloom_filter_fpp: Option<f64>,
    /// Largest share of distinct values with which a stripe's strings have a dictionary; 0: never.
    pub dictionary_threshold: Option<f64>,
    /// Uncompressed bytes per chunk; at most the file's.
    pub chunk_size_bytes: Option<usize>,
    /// Type of a text column. `None`: what the Arrow field's metadata states, else STRING.
    pub text_type: Option<TextType>,
    /// Attributes of the type, besides the Arrow field's metadata. Of two with one key, this one counts.
    pub attributes: Vec<(String, String)>,
}
