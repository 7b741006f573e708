//! The column tree of an ORC file: types in the specification's pre-order numbering, and how each
//! maps to Arrow.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};

/// Index into [`OrcSchema::types`]: the ORC column id. 0 is the root struct.
pub type ColumnId = u32;

/// One node of the type tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrcType {
    /// The ORC column id: pre-order position in the tree.
    pub id: ColumnId,
    /// Field name in the parent struct; "item", "key", "value" below lists and maps, the index below unions.
    pub name: String,
    /// What it stores.
    pub kind: TypeKind,
    /// Column ids of the children, in order.
    pub children: Vec<ColumnId>,
}

/// ORC type kinds (ORC v1, "Type Information").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the specification's own names
pub enum TypeKind {
    Boolean,
    Byte,
    Short,
    Int,
    Long,
    Float,
    Double,
    String,
    Char {
        length: u32,
    },
    Varchar {
        length: u32,
    },
    Binary,
    Date,
    /// Local date-time without zone, nanoseconds.
    Timestamp,
    /// An instant, nanoseconds.
    TimestampInstant,
    Decimal {
        precision: u8,
        scale: i8,
    },
    Struct,
    List,
    Map,
    Union,
}

/// A file's column tree and its Arrow schema.
#[derive(Debug, Clone)]
pub struct OrcSchema {
    /// All types; `types[i].id == i`; `types[0]` is the root struct.
    pub types: Vec<OrcType>,
    /// The root's fields as Arrow sees them; field k is `types[0].children[k]`. All nullable.
    pub arrow: SchemaRef,
}

impl OrcSchema {
    /// Column ids of the top-level fields, in file order.
    pub fn fields(&self) -> &[ColumnId] {
        &self.types[0].children
    }

    /// The type with this id.
    pub fn column(&self, id: ColumnId) -> &OrcType {
        &self.types[id as usize]
    }
}

/// Shared handle, as passed around by readers.
pub type OrcSchemaRef = Arc<OrcSchema>;

impl TypeKind {
    /// The Arrow type of a primitive kind, `None` for struct, list, map and union. The mapping is
    /// orc-rust's default one: strings are `Utf8`, timestamps nanoseconds, instants in "UTC".
    pub fn primitive_arrow_type(self) -> Option<DataType> {
        use arrow::datatypes::TimeUnit;
        Some(match self {
            Self::Boolean => DataType::Boolean,
            Self::Byte => DataType::Int8,
            Self::Short => DataType::Int16,
            Self::Int => DataType::Int32,
            Self::Long => DataType::Int64,
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::String | Self::Char { .. } | Self::Varchar { .. } => DataType::Utf8,
            Self::Binary => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, None),
            Self::TimestampInstant => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            Self::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            Self::Struct | Self::List | Self::Map | Self::Union => return None,
        })
    }
}
