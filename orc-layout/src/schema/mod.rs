//! [`OrcSchema`], the column tree of an ORC file: types in the specification's pre-order numbering, and their Arrow
//! types.

mod build;

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};

use crate::error::SchemaError;
use crate::proto;

/// Index into [`OrcSchema::types`]: the ORC column id. 0 is the root struct.
pub type ColumnId = u32;

/// One node of the type tree.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OrcType {
    /// The ORC column id: pre-order position in the tree.
    pub id: ColumnId,
    /// Field name in the parent struct; "item", "key", "value" below lists and maps, the index below unions.
    pub name: String,
    /// Kind of the type.
    pub kind: TypeKind,
    /// Column ids of the children, in order.
    pub children: Vec<ColumnId>,
    /// Attributes of the type: keys and values of its writer.
    pub attributes: Vec<(String, String)>,
}

/// ORC type kinds (ORC v1, "Type Information").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the specification's own names
#[non_exhaustive]
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
    /// A kind that a later version of the specification added.
    Unknown {
        number: i32,
    },
}

/// A file's column tree and its Arrow schema.
#[derive(Debug, Clone)]
pub struct OrcSchema {
    /// All types; `types[i].id == i`; `types[0]` is the root struct.
    pub types: Vec<OrcType>,
    /// The root's fields as Arrow sees them; field k is `types[0].children[k]`. All nullable.
    ///
    /// A column that cannot be read stands there as Binary.
    pub arrow: SchemaRef,
    /// The fields of the root that cannot be read, ascending, each with the reason.
    /// [`Access::of`](crate::access::Access::of) refuses them.
    pub unreadable: Vec<(ColumnId, String)>,
    /// The parent of each type; the root's is the root.
    parents: Vec<ColumnId>,
}

impl OrcSchema {
    /// A tree of checked types.
    pub(crate) fn of_types(types: Vec<OrcType>, arrow: SchemaRef, unreadable: Vec<(ColumnId, String)>) -> Self {
        let mut parents = vec![0; types.len()];
        for column in &types {
            for &child in &column.children {
                parents[child as usize] = column.id;
            }
        }
        Self {
            types,
            arrow,
            unreadable,
            parents,
        }
    }

    /// Column ids of the top-level fields, in file order.
    pub fn fields(&self) -> &[ColumnId] {
        &self.types[0].children
    }

    /// The type with this id.
    pub fn column(&self, id: ColumnId) -> &OrcType {
        &self.types[id as usize]
    }

    /// True for the root and its fields: every row has one value, or null. Below a list, a map, a union or a struct
    /// with nulls a row need not have one.
    pub(crate) fn has_row_per_value(&self, id: ColumnId) -> bool {
        id == 0 || self.fields().binary_search(&id).is_ok() // children ascend
    }

    /// The type with this id and every type below it, in pre-order.
    pub(crate) fn subtree(&self, id: ColumnId) -> Vec<ColumnId> {
        let mut found = Vec::new();
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            found.push(id);
            open.extend(self.column(id).children.iter().rev());
        }
        found
    }

    /// The dotted name of a column: "middle.list.item". Only the lowest 100 levels are named.
    pub fn path(&self, id: ColumnId) -> String {
        let mut parts = Vec::new();
        let mut at = id;
        while at != 0 {
            if parts.len() == build::MAX_DEPTH {
                parts.push("…");
                break;
            }
            parts.push(self.column(at).name.as_str());
            at = self.parents[at as usize]; // always a smaller number, so this ends
        }
        parts.reverse();
        parts.join(".")
    }

    /// The reason why the field `id` of the root cannot be read.
    pub fn unreadable_reason(&self, id: ColumnId) -> Option<&str> {
        let at = self.unreadable.binary_search_by_key(&id, |(column, _)| *column).ok()?;
        Some(&self.unreadable[at].1)
    }

    /// The type of a column as Hive writes it: `struct<a:int,b:array<string>>`. Levels below 100 are "…".
    pub(crate) fn type_text(&self, id: ColumnId) -> String {
        self.type_text_below(id, build::MAX_DEPTH)
    }

    fn type_text_below(&self, id: ColumnId, levels: usize) -> String {
        if levels == 0 {
            return "…".to_owned();
        }
        let column = self.column(id);
        let children = || {
            column
                .children
                .iter()
                .map(|&child| self.type_text_below(child, levels - 1))
        };
        match column.kind {
            TypeKind::Struct => {
                let names = column.children.iter().map(|&child| self.column(child).name.as_str());
                let fields: Vec<_> = names
                    .zip(children())
                    .map(|(name, text)| format!("{name}:{text}"))
                    .collect();
                format!("struct<{}>", fields.join(","))
            }
            TypeKind::List => format!("array<{}>", children().collect::<String>()),
            TypeKind::Map => format!("map<{}>", children().collect::<Vec<_>>().join(",")),
            TypeKind::Union => format!("uniontype<{}>", children().collect::<Vec<_>>().join(",")),
            primitive => primitive.to_string(),
        }
    }

    /// Builds the tree from the footer's types.
    ///
    /// # Errors
    /// The fault of the tree:
    /// - children that are missing, precede their parent, or have two parents;
    /// - lists without exactly one child;
    /// - structs whose names do not match their children;
    /// - more than 1,000 levels.
    pub(crate) fn from_proto(types: &[proto::Type]) -> Result<Self, SchemaError> {
        build::schema(types)
    }
}

/// Shared handle, as passed around by readers.
pub type OrcSchemaRef = Arc<OrcSchema>;

impl TypeKind {
    /// STRING, CHAR or VARCHAR.
    pub(crate) fn is_string(self) -> bool {
        matches!(self, Self::String | Self::Char { .. } | Self::Varchar { .. })
    }

    /// STRUCT, LIST, MAP or UNION.
    pub fn is_nested(self) -> bool {
        matches!(self, Self::Struct | Self::List | Self::Map | Self::Union)
    }

    /// The Arrow type of a primitive kind; `None` for struct, list, map and union. The mapping is orc-rust's default:
    /// strings are `Utf8`, timestamps nanoseconds, instants in "UTC".
    pub(crate) fn primitive_arrow_type(self) -> Option<DataType> {
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
            Self::Struct | Self::List | Self::Map | Self::Union | Self::Unknown { .. } => return None,
        })
    }
}

/// The kind's name as Hive writes it, without children.
impl fmt::Display for TypeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "boolean",
            Self::Byte => "byte",
            Self::Short => "short",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::String => "string",
            Self::Char { length } => return write!(f, "char({length})"),
            Self::Varchar { length } => return write!(f, "varchar({length})"),
            Self::Binary => "binary",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
            Self::TimestampInstant => "timestamp_instant",
            Self::Decimal { precision, scale } => return write!(f, "decimal({precision},{scale})"),
            Self::Struct => "struct",
            Self::List => "array",
            Self::Map => "map",
            Self::Union => "uniontype",
            Self::Unknown { number } => return write!(f, "unknown({number})"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::r#type::Kind;

    fn stored(kind: Kind, subtypes: &[u32], names: &[&str]) -> proto::Type {
        proto::Type {
            kind: Some(kind as i32),
            subtypes: subtypes.to_vec(),
            field_names: names.iter().map(|name| name.to_string()).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn nested_types_get_names_paths_and_arrow_types() {
        let schema = OrcSchema::from_proto(&[
            stored(Kind::Struct, &[1, 2, 5], &["a", "list", "m"]),
            stored(Kind::Long, &[], &[]),
            stored(Kind::List, &[3], &[]),
            stored(Kind::Struct, &[4], &["x"]),
            stored(Kind::Double, &[], &[]),
            stored(Kind::Map, &[6, 7], &[]),
            stored(Kind::String, &[], &[]),
            stored(Kind::Date, &[], &[]),
        ])
        .unwrap();
        assert_eq!(schema.fields(), [1, 2, 5]);
        assert_eq!(schema.path(4), "list.item.x");
        assert_eq!(schema.path(7), "m.value");
        assert_eq!(schema.path(1), "a");
        assert_eq!(schema.subtree(2), [2, 3, 4]);
        let names: Vec<_> = schema.arrow.fields().iter().map(|f| f.name().as_str()).collect();
        assert_eq!(names, ["a", "list", "m"]);
        assert!(matches!(schema.arrow.field(2).data_type(), DataType::Map(_, false)));
    }

    #[test]
    fn schemas_accept_types_out_of_pre_order() {
        let schema = OrcSchema::from_proto(&[
            stored(Kind::Struct, &[1, 2], &["a", "b"]),
            stored(Kind::List, &[3], &[]),
            stored(Kind::List, &[4], &[]),
            stored(Kind::Long, &[], &[]),
            stored(Kind::Date, &[], &[]),
        ])
        .unwrap();
        assert_eq!(["a.item", "b.item"], [schema.path(3), schema.path(4)]);
        assert_eq!(schema.type_text(0), "struct<a:array<long>,b:array<date>>");
    }

    /// A schema of `a`, a column of these types, and the LONG column `b`.
    fn beside_a_long(a: Vec<proto::Type>) -> OrcSchema {
        let last = a.len() as u32 + 1;
        let mut types = vec![stored(Kind::Struct, &[1, last], &["a", "b"])];
        types.extend(a);
        types.push(stored(Kind::Long, &[], &[]));
        OrcSchema::from_proto(&types).unwrap()
    }

    #[test]
    fn columns_that_cannot_be_read_leave_the_others_readable() {
        let long = || stored(Kind::Long, &[], &[]);
        let mut deep: Vec<_> = (1..900).map(|id| stored(Kind::List, &[id + 1], &[])).collect();
        deep.push(long());
        let children: Vec<u32> = (2..130).collect();
        let mut wide = vec![stored(Kind::Union, &children, &[])];
        wide.extend(children.iter().map(|_| long()));
        let later = proto::Type {
            kind: Some(1_000),
            ..Default::default()
        };
        let nested = vec![stored(Kind::List, &[2], &[]), later.clone()];
        for (types, reason) in [
            (deep, "more than 100 levels of nested types"),
            (wide, "a union of more than 127 types"),
            (vec![later], "type kind 1000"),
            (nested, "type kind 1000"),
        ] {
            let schema = beside_a_long(types);
            assert_eq!(schema.unreadable_reason(1), Some(reason));
            assert_eq!(schema.unreadable.len(), 1);
            let types: Vec<_> = schema.arrow.fields().iter().map(|f| f.data_type().clone()).collect();
            assert_eq!(types, [DataType::Binary, DataType::Int64]);
            assert!(schema.type_text(0).ends_with(",b:long>"));
        }
        let levels: Vec<_> = (1..99)
            .map(|id| stored(Kind::List, &[id + 1], &[]))
            .chain([long()])
            .collect();
        assert!(beside_a_long(levels).unreadable.is_empty());
    }

    #[test]
    fn schemas_refuse_invalid_trees() {
        let long = || stored(Kind::Long, &[], &[]);
        let cases = [
            vec![stored(Kind::Struct, &[0], &["loop"])],
            vec![stored(Kind::Struct, &[5], &["missing"]), long()],
            vec![stored(Kind::Struct, &[1, 1], &["a", "b"]), long()],
            vec![stored(Kind::Struct, &[2, 1], &["a", "b"]), long(), long()],
            vec![stored(Kind::Struct, &[1], &["a", "b"]), long()],
            vec![stored(Kind::Struct, &[1], &["a"]), long(), long()],
            vec![stored(Kind::Struct, &[1], &["a"]), stored(Kind::List, &[], &[])],
            vec![
                stored(Kind::Struct, &[1, 2], &["a", "b"]),
                stored(Kind::List, &[2], &[]),
                long(),
            ],
        ];
        for types in cases {
            assert!(
                matches!(OrcSchema::from_proto(&types), Err(SchemaError::Corrupt(_))),
                "{types:?}"
            );
        }
        let mut deep = vec![stored(Kind::Struct, &[1], &["a"])];
        deep.extend((1..200_000).map(|id| stored(Kind::List, &[id + 1], &[])));
        deep.push(long());
        assert!(matches!(
            OrcSchema::from_proto(&deep),
            Err(SchemaError::Unsupported(..))
        ));
        let root = OrcSchema::from_proto(&[long()]);
        assert!(matches!(root, Err(SchemaError::Unsupported(..))));
    }
}
