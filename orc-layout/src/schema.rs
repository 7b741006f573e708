//! The column tree of an ORC file: types in the specification's pre-order numbering, and how each
//! maps to Arrow.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, UnionFields, UnionMode};

use crate::proto;

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

    /// True for the root and its fields: columns of which every row has one value, or null. Below a list, a map, a union
    /// or a struct with nulls that need not be so.
    pub fn has_row_per_value(&self, id: ColumnId) -> bool {
        id == 0 || self.fields().binary_search(&id).is_ok() // children ascend
    }

    /// The type with this id and every type below it, in pre-order.
    pub fn subtree(&self, id: ColumnId) -> Vec<ColumnId> {
        let mut found = Vec::new();
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            found.push(id);
            open.extend(self.column(id).children.iter().rev());
        }
        found
    }

    /// The dotted name of a column, as people know it: "middle.list.item".
    pub fn path(&self, id: ColumnId) -> String {
        let mut parts = Vec::new();
        let mut at = id;
        while at != 0 {
            parts.push(self.column(at).name.as_str());
            match self.parent(at) {
                Some(parent) => at = parent, // always a smaller number, so this ends
                None => break,
            }
        }
        parts.reverse();
        parts.join(".")
    }

    /// The type that has `id` among its children.
    fn parent(&self, id: ColumnId) -> Option<ColumnId> {
        // In pre-order a type's descendants follow it, so the way down is to the last child that is not beyond `id`.
        let mut at = 0;
        loop {
            let children = &self.column(at).children;
            match children[..children.partition_point(|&child| child <= id)].last() {
                Some(&child) if child == id => return Some(at),
                Some(&child) => at = child,
                None => break,
            }
        }
        // Files need not number their types in pre-order, only children after parents.
        let parent = self.types[..id as usize]
            .iter()
            .rfind(|parent| parent.children.contains(&id));
        parent.map(|parent| parent.id)
    }

    /// The type of a column as Hive writes it: `struct<a:int,b:array<string>>`.
    pub fn type_text(&self, id: ColumnId) -> String {
        let column = self.column(id);
        let children = || column.children.iter().map(|&child| self.type_text(child)); // depth is bounded
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
    /// What is wrong with the tree: children that are missing, precede their parent, or have two of them; lists without
    /// exactly one child; structs whose names do not match their children; depth over 100.
    pub(crate) fn from_proto(types: &[proto::Type]) -> Result<Self, SchemaError> {
        build::schema(types)
    }
}

/// Why the footer's types make no schema.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SchemaError {
    /// They contradict the specification.
    Corrupt(String),
    /// They are valid, but there is no way to show them: what, and what can be done about it.
    Unsupported(&'static str, &'static str),
}

/// Shared handle, as passed around by readers.
pub type OrcSchemaRef = Arc<OrcSchema>;

impl TypeKind {
    /// STRING, CHAR or VARCHAR.
    pub fn is_string(self) -> bool {
        matches!(self, Self::String | Self::Char { .. } | Self::Varchar { .. })
    }

    /// STRUCT, LIST, MAP or UNION.
    pub fn is_nested(self) -> bool {
        matches!(self, Self::Struct | Self::List | Self::Map | Self::Union)
    }

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
        })
    }
}

/// Protobuf types to [`OrcSchema`], bottom up and without recursion.
mod build {
    use super::*;

    /// Deeper trees are not believed: whoever walks or drops an Arrow type does so recursively.
    const MAX_DEPTH: usize = 100;
    /// Arrow's type ids are 7 bits.
    const MAX_VARIANTS: usize = 127;
    /// Hive 0.11 wrote decimals without precision; readers agreed on these.
    const HIVE_11_DECIMAL: TypeKind = TypeKind::Decimal {
        precision: 38,
        scale: 6,
    };

    pub(super) fn schema(types: &[proto::Type]) -> Result<OrcSchema, SchemaError> {
        let Some(root) = types.first() else {
            return Ok(empty());
        };
        if root.kind() != proto::r#type::Kind::Struct {
            return Err(SchemaError::Unsupported(
                "a root type other than struct",
                "rewrite the file with its values as a field of a struct",
            ));
        }
        let mut nodes = types
            .iter()
            .enumerate()
            .map(|(id, stored)| node(id, stored, types.len()))
            .collect::<Result<Vec<_>, _>>()?;
        name_children(&mut nodes, types)?;
        let arrow = root_fields(&nodes)?;
        Ok(OrcSchema {
            types: nodes,
            arrow: Arc::new(Schema::new(arrow)),
        })
    }

    /// A file without columns.
    fn empty() -> OrcSchema {
        let root = OrcType {
            id: 0,
            name: String::new(),
            kind: TypeKind::Struct,
            children: vec![],
        };
        OrcSchema {
            types: vec![root],
            arrow: Arc::new(Schema::empty()),
        }
    }

    fn corrupt<T>(id: usize, reason: impl std::fmt::Display) -> Result<T, SchemaError> {
        Err(SchemaError::Corrupt(format!("type {id}: {reason}")))
    }

    /// One type with its children's numbers checked; names come later, from the parent.
    fn node(id: usize, stored: &proto::Type, count: usize) -> Result<OrcType, SchemaError> {
        let kind = kind(id, stored)?;
        let children = &stored.subtypes;
        let expected = match kind {
            TypeKind::List => Some(1),
            TypeKind::Map => Some(2),
            TypeKind::Struct | TypeKind::Union => None,
            _ => Some(0),
        };
        if expected.is_some_and(|expected| expected != children.len()) {
            return corrupt(id, format_args!("{kind:?} with {} children", children.len()));
        }
        if kind == TypeKind::Union && children.len() > MAX_VARIANTS {
            return Err(SchemaError::Unsupported(
                "a union of more than 127 types",
                "select the other columns",
            ));
        }
        let mut previous = id;
        for &child in children {
            if child as usize <= previous || child as usize >= count {
                return corrupt(id, format_args!("child {child} is out of order or missing"));
            }
            previous = child as usize;
        }
        Ok(OrcType {
            id: id as ColumnId,
            name: String::new(),
            kind,
            children: children.clone(),
        })
    }

    fn kind(id: usize, stored: &proto::Type) -> Result<TypeKind, SchemaError> {
        use proto::r#type::Kind;
        if let Some(number) = stored.kind
            && Kind::try_from(number).is_err()
        {
            return corrupt(id, format_args!("unknown type kind {number}"));
        }
        let length = stored.maximum_length();
        Ok(match stored.kind() {
            Kind::Boolean => TypeKind::Boolean,
            Kind::Byte => TypeKind::Byte,
            Kind::Short => TypeKind::Short,
            Kind::Int => TypeKind::Int,
            Kind::Long => TypeKind::Long,
            Kind::Float => TypeKind::Float,
            Kind::Double => TypeKind::Double,
            Kind::String => TypeKind::String,
            Kind::Binary => TypeKind::Binary,
            Kind::Timestamp => TypeKind::Timestamp,
            Kind::List => TypeKind::List,
            Kind::Map => TypeKind::Map,
            Kind::Struct => TypeKind::Struct,
            Kind::Union => TypeKind::Union,
            Kind::Decimal => return decimal(id, stored),
            Kind::Date => TypeKind::Date,
            Kind::Varchar => TypeKind::Varchar { length },
            Kind::Char => TypeKind::Char { length },
            Kind::TimestampInstant => TypeKind::TimestampInstant,
        })
    }

    fn decimal(id: usize, stored: &proto::Type) -> Result<TypeKind, SchemaError> {
        let (precision, scale) = (stored.precision(), stored.scale());
        if precision == 0 {
            return Ok(HIVE_11_DECIMAL);
        }
        match (u8::try_from(precision), i8::try_from(scale)) {
            (Ok(precision @ 1..=38), Ok(scale)) if scale as u8 <= precision => {
                Ok(TypeKind::Decimal { precision, scale })
            }
            _ => corrupt(id, format_args!("decimal({precision}, {scale})")),
        }
    }

    /// Gives every child its name and makes sure that it has one parent.
    fn name_children(nodes: &mut [OrcType], types: &[proto::Type]) -> Result<(), SchemaError> {
        let mut depth = vec![0usize; nodes.len()]; // 0: no parent seen yet
        for (id, stored) in types.iter().enumerate() {
            let kind = nodes[id].kind;
            let own_depth = if id == 0 { 1 } else { depth[id] };
            if kind == TypeKind::Struct && stored.field_names.len() != stored.subtypes.len() {
                let (names, children) = (stored.field_names.len(), stored.subtypes.len());
                return corrupt(id, format_args!("a struct with {children} children and {names} names"));
            }
            if own_depth == 0 {
                return corrupt(id, "has no parent");
            }
            if own_depth > MAX_DEPTH {
                return corrupt(id, format_args!("nested more than {MAX_DEPTH} deep"));
            }
            for (k, &child) in stored.subtypes.iter().enumerate() {
                let child = child as usize;
                if depth[child] != 0 {
                    return corrupt(child, "has two parents");
                }
                depth[child] = own_depth + 1;
                nodes[child].name = match kind {
                    TypeKind::Struct => stored.field_names[k].clone(),
                    TypeKind::List => "item".into(),
                    TypeKind::Map => ["key", "value"][k].into(),
                    _ => k.to_string(),
                };
            }
        }
        Ok(())
    }

    /// Arrow fields of the root, from the leaves up: a child's number is larger than its parent's.
    fn root_fields(nodes: &[OrcType]) -> Result<Fields, SchemaError> {
        let mut arrow: Vec<Option<DataType>> = vec![None; nodes.len()];
        for node in nodes.iter().rev() {
            let mut children = Vec::with_capacity(node.children.len());
            for &child in &node.children {
                match arrow[child as usize].take() {
                    Some(data_type) => children.push((&nodes[child as usize].name, data_type)),
                    None => return corrupt(node.id as usize, "a child is used twice"),
                }
            }
            let field =
                |(name, data_type): (&String, DataType)| -> FieldRef { Arc::new(Field::new(name, data_type, true)) };
            let data_type = match node.kind {
                TypeKind::Struct if node.id == 0 => return Ok(children.into_iter().map(field).collect()),
                TypeKind::Struct => DataType::Struct(children.into_iter().map(field).collect()),
                TypeKind::List => match children.pop() {
                    Some((_, item)) => DataType::new_list(item, true),
                    None => return corrupt(node.id as usize, "a list without a child"),
                },
                TypeKind::Map => map(children),
                TypeKind::Union => union(children),
                primitive => match primitive.primitive_arrow_type() {
                    Some(data_type) => data_type,
                    None => return corrupt(node.id as usize, "not a type"),
                },
            };
            arrow[node.id as usize] = Some(data_type);
        }
        corrupt(0, "is missing")
    }

    fn map(children: Vec<(&String, DataType)>) -> DataType {
        let entries: Fields = children
            .into_iter()
            .zip([("keys", false), ("values", true)])
            .map(|((_, data_type), (name, nullable))| Field::new(name, data_type, nullable))
            .collect();
        DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
    }

    fn union(children: Vec<(&String, DataType)>) -> DataType {
        let variants: UnionFields = (0i8..)
            .zip(children)
            .map(|(k, (_, data_type))| (k, Arc::new(Field::new(format!("_union_{k}"), data_type, true))))
            .collect();
        DataType::Union(variants, UnionMode::Sparse)
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
    fn types_need_not_be_numbered_in_pre_order() {
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

    #[test]
    fn trees_that_are_none_are_refused() {
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
        assert!(OrcSchema::from_proto(&deep).is_err());
        let root = OrcSchema::from_proto(&[long()]);
        assert!(matches!(root, Err(SchemaError::Unsupported(..))));
    }
}
