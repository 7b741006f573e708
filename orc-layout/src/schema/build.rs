//! Construction of an [`OrcSchema`] from the footer's protobuf types, bottom up and without recursion.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, UnionFields, UnionMode};

use super::{ColumnId, OrcSchema, OrcType, TypeKind};
use crate::error::SchemaError;
use crate::proto;

/// Limit of the tree's depth: walking or dropping an Arrow type is recursive.
pub(super) const MAX_DEPTH: usize = 100;
/// Limit of a file's levels. The time for a deeper tree would grow with the square of its levels.
const MAX_LEVELS: usize = 1_000;
/// Arrow's type ids are 7 bits.
const MAX_VARIANTS: usize = 127;
/// Precision and scale of Hive 0.11's decimals, which state none. Readers agree on these.
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
    let unreadable = name_children(&mut nodes, types)?;
    let arrow = root_fields(&nodes, &unreadable)?;
    let reason = |(id, reason): (usize, String)| (id as ColumnId, reason);
    let unreadable = unreadable.into_iter().map(reason).collect();
    Ok(OrcSchema::of_types(nodes, Arc::new(Schema::new(arrow)), unreadable))
}

/// A file without columns.
fn empty() -> OrcSchema {
    let root = OrcType {
        id: 0,
        name: String::new(),
        kind: TypeKind::Struct,
        children: vec![],
        attributes: vec![],
    };
    OrcSchema::of_types(vec![root], Arc::new(Schema::empty()), Vec::new())
}

fn corrupt<T>(id: usize, reason: impl std::fmt::Display) -> Result<T, SchemaError> {
    Err(SchemaError::Corrupt(format!("type {id}: {reason}")))
}

/// One type with checked child ids. The parent gives names later.
fn node(id: usize, stored: &proto::Type, count: usize) -> Result<OrcType, SchemaError> {
    let kind = kind(id, stored)?;
    let children = &stored.subtypes;
    let expected = match kind {
        TypeKind::List => Some(1),
        TypeKind::Map => Some(2),
        TypeKind::Struct | TypeKind::Union | TypeKind::Unknown { .. } => None,
        _ => Some(0),
    };
    if expected.is_some_and(|expected| expected != children.len()) {
        return corrupt(id, format_args!("{kind} with {} children", children.len()));
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
        attributes: stored
            .attributes
            .iter()
            .map(|pair| (pair.key().to_owned(), pair.value().to_owned()))
            .collect(),
    })
}

fn kind(id: usize, stored: &proto::Type) -> Result<TypeKind, SchemaError> {
    use proto::r#type::Kind;
    if let Some(number) = stored.kind
        && Kind::try_from(number).is_err()
    {
        return Ok(TypeKind::Unknown { number });
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
        (Ok(precision @ 1..=38), Ok(scale)) if scale as u8 <= precision => Ok(TypeKind::Decimal { precision, scale }),
        _ => corrupt(id, format_args!("decimal({precision}, {scale})")),
    }
}

/// Names every child and ensures that each has one parent. Returns the fields of the root that cannot be read, each
/// with the reason.
fn name_children(nodes: &mut [OrcType], types: &[proto::Type]) -> Result<BTreeMap<usize, String>, SchemaError> {
    let mut depth = vec![0usize; nodes.len()]; // 0: no parent seen yet
    let mut field = vec![0usize; nodes.len()]; // the field of the root that a type belongs to
    let mut unreadable = BTreeMap::new();
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
        if own_depth > MAX_LEVELS {
            return Err(SchemaError::Unsupported(
                "a column of more than 1,000 levels of nested types",
                "rewrite the file with fewer levels",
            ));
        }
        let reason = match kind {
            TypeKind::Union if stored.subtypes.len() > MAX_VARIANTS => {
                Some(format!("a union of more than {MAX_VARIANTS} types"))
            }
            TypeKind::Unknown { number } => Some(format!("type kind {number}")),
            _ if own_depth > MAX_DEPTH => Some(format!("more than {MAX_DEPTH} levels of nested types")),
            _ => None,
        };
        if let Some(reason) = reason {
            unreadable.entry(field[id]).or_insert(reason);
        }
        for (k, &child) in stored.subtypes.iter().enumerate() {
            let child = child as usize;
            if depth[child] != 0 {
                return corrupt(child, "has two parents");
            }
            depth[child] = own_depth + 1;
            field[child] = if id == 0 { child } else { field[id] };
            nodes[child].name = match kind {
                TypeKind::Struct => stored.field_names[k].clone(),
                TypeKind::List => "item".into(),
                TypeKind::Map => ["key", "value"][k].into(),
                _ => k.to_string(),
            };
        }
    }
    Ok(unreadable)
}

/// Arrow fields of the root, from the leaves up: a child's number is larger than its parent's. Fields that cannot be
/// read, which may be too deep for an Arrow type, are Binary.
fn root_fields(nodes: &[OrcType], unreadable: &BTreeMap<usize, String>) -> Result<Fields, SchemaError> {
    let mut arrow: Vec<Option<DataType>> = vec![None; nodes.len()];
    let mut is_readable = vec![true; nodes.len()];
    for node in nodes {
        let id = node.id as usize;
        is_readable[id] &= !unreadable.contains_key(&id);
        for &child in &node.children {
            is_readable[child as usize] = is_readable[id];
        }
    }
    for node in nodes.iter().rev() {
        if !is_readable[node.id as usize] {
            arrow[node.id as usize] = Some(DataType::Binary);
            continue;
        }
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
        .zip([("key", false), ("value", true)])
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
