//! ORC type tree of an Arrow schema: the Arrow types that can be stored, and their ORC types.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};

use super::writer_properties::WriterProperties;
use crate::error::{LayoutError, Result};
use crate::proto::{self, r#type::Kind};
use crate::text_type::{TEXT_TYPE_KEY, TextType};

/// Deepest nesting that is written: readers recurse.
const MAX_DEPTH: usize = 64;

/// Most variants of a union: Arrow's type ids are positive bytes, and readers take no more.
const MAX_VARIANTS: usize = 127;

/// One node of the type tree, in the specification's pre-order numbering.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// ORC column id.
    pub(super) id: u32,
    /// Dotted name, for errors.
    pub(super) name: String,
    /// Kind of the column.
    pub(super) kind: Kind,
    /// The Arrow type of the column.
    pub(super) data_type: DataType,
    /// The type of a text column.
    pub(super) text_type: TextType,
    /// Children, in order.
    pub(super) children: Vec<Node>,
}

impl Node {
    /// Whether the column is STRING, CHAR or VARCHAR.
    pub(super) fn kind_is_text(&self) -> bool {
        matches!(self.kind, Kind::String | Kind::Char | Kind::Varchar)
    }

    /// The column of this dotted name in the tree.
    pub(super) fn find(&self, name: &str) -> Option<&Self> {
        match self.name == name && self.id > 0 {
            true => Some(self),
            false => self.children.iter().find_map(|child| child.find(name)),
        }
    }
}

/// The root struct of a schema, and the footer's type list.
pub(super) fn root(schema: &Schema, properties: &WriterProperties) -> Result<(Node, Vec<proto::Type>)> {
    let mut types = Vec::new();
    let field = Field::new("", DataType::Struct(schema.fields().clone()), false);
    let root = node("", &field, properties, &mut types, 0)?;
    Ok((root, types))
}

fn node(
    name: &str,
    field: &Field,
    properties: &WriterProperties,
    types: &mut Vec<proto::Type>,
    depth: usize,
) -> Result<Node> {
    let data_type = field.data_type();
    if depth > MAX_DEPTH {
        return Err(LayoutError::Write(format!(
            "column {name}: types nested deeper than {MAX_DEPTH} levels"
        )));
    }
    let text_type = text_type_of(name, field, properties)?;
    let (kind, maximum_length) = match (kind_of(name, data_type)?, text_type) {
        (Kind::String, TextType::Char { length }) => (Kind::Char, Some(length)),
        (Kind::String, TextType::Varchar { length }) => (Kind::Varchar, Some(length)),
        (Kind::String, TextType::String) => (Kind::String, None),
        (kind, TextType::String) => (kind, None),
        _ => {
            return Err(LayoutError::Write(format!(
                "column {name}: {data_type} cannot be stored as {text_type}, which is text"
            )));
        }
    };
    let id = types.len() as u32;
    types.push(proto::Type {
        kind: Some(kind.into()),
        maximum_length,
        attributes: attributes_of(name, field, properties),
        ..Default::default()
    });
    let fields: Vec<(String, FieldRef)> = children_of(data_type);
    let mut children = Vec::with_capacity(fields.len());
    for (field, child) in &fields {
        let dotted = if name.is_empty() {
            field.clone()
        } else {
            format!("{name}.{field}")
        };
        children.push(node(&dotted, child, properties, types, depth + 1)?);
    }
    let entry = &mut types[id as usize];
    entry.subtypes = children.iter().map(|child| child.id).collect();
    if kind == Kind::Struct {
        entry.field_names = fields.into_iter().map(|(field, _)| field).collect();
    }
    if let DataType::Decimal128(precision, scale) = data_type {
        entry.precision = Some(u32::from(*precision));
        entry.scale = Some(scale.unsigned_abs().into());
    }
    Ok(Node {
        id,
        name: name.to_owned(),
        kind,
        data_type: data_type.clone(),
        text_type,
        children,
    })
}

/// The type of a text column: what the properties say, else the field's metadata.
fn text_type_of(name: &str, field: &Field, properties: &WriterProperties) -> Result<TextType> {
    let column = properties.columns.get(name).filter(|_| !name.is_empty());
    if let Some(text_type) = column.and_then(|column| column.text_type) {
        return Ok(text_type);
    }
    match field.metadata().get(TEXT_TYPE_KEY) {
        Some(text) => text
            .parse()
            .map_err(|reason| LayoutError::Write(format!("column {name}: {TEXT_TYPE_KEY}: {reason}"))),
        None => Ok(TextType::String),
    }
}

/// The attributes of a type, by key: the field's metadata, as pyarrow stores it, and the properties'.
fn attributes_of(name: &str, field: &Field, properties: &WriterProperties) -> Vec<proto::StringPair> {
    let stated = properties.columns.get(name).filter(|_| !name.is_empty());
    let stated = stated.map_or(&[][..], |column| &column.attributes);
    let stated = stated.iter().map(|(key, value)| (key, value));
    let metadata = field.metadata().iter().filter(|(key, _)| *key != TEXT_TYPE_KEY);
    let all: BTreeMap<&String, &String> = metadata.chain(stated).collect();
    let pair = |(key, value): (&String, &String)| proto::StringPair {
        key: Some(key.clone()),
        value: Some(value.clone()),
    };
    all.into_iter().map(pair).collect()
}

fn children_of(data_type: &DataType) -> Vec<(String, FieldRef)> {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|f| (f.name().clone(), Arc::clone(f))).collect(),
        DataType::List(item) | DataType::LargeList(item) => vec![("item".into(), Arc::clone(item))],
        DataType::Union(fields, _) => {
            let variants = fields.iter().enumerate();
            variants
                .map(|(tag, (_, field))| (tag.to_string(), Arc::clone(field)))
                .collect()
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                vec![
                    ("key".into(), Arc::clone(&fields[0])),
                    ("value".into(), Arc::clone(&fields[1])),
                ]
            }
            _ => vec![],
        },
        _ => vec![],
    }
}

fn kind_of(name: &str, data_type: &DataType) -> Result<Kind> {
    let refuse = |advice: &str| {
        Err(LayoutError::Write(format!(
            "column {name}: ORC cannot store {data_type}{advice}"
        )))
    };
    Ok(match data_type {
        DataType::Boolean => Kind::Boolean,
        DataType::Int8 => Kind::Byte,
        DataType::Int16 | DataType::UInt8 => Kind::Short,
        DataType::Int32 | DataType::UInt16 => Kind::Int,
        DataType::Int64 | DataType::UInt32 => Kind::Long,
        DataType::UInt64 => return refuse(": its integers are signed; cast it to Int64 or Decimal128(20, 0)"),
        DataType::Float32 => Kind::Float,
        DataType::Float64 => Kind::Double,
        DataType::Float16 => return refuse("; cast it to Float32"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::String,
        DataType::Dictionary(_, value) if is_text(value) => Kind::String,
        DataType::Dictionary(..) => return refuse("; cast it to the type of its values"),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => Kind::Binary,
        DataType::Date32 | DataType::Date64 => Kind::Date,
        DataType::Timestamp(_, None) => Kind::Timestamp,
        DataType::Timestamp(_, Some(_)) => Kind::TimestampInstant,
        DataType::Decimal128(precision, scale) if *scale >= 0 && *scale as u8 <= *precision => Kind::Decimal,
        DataType::Decimal128(..) => return refuse(": the scale must be between 0 and the precision"),
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal256(..) => {
            return refuse("; cast it to Decimal128");
        }
        DataType::Struct(_) => Kind::Struct,
        DataType::Union(fields, _) if fields.is_empty() => return refuse(" without variants"),
        DataType::Union(fields, _) if fields.len() > MAX_VARIANTS => return refuse(": it has more than 127 variants"),
        DataType::Union(..) => Kind::Union,
        DataType::List(_) | DataType::LargeList(_) => Kind::List,
        DataType::Map(entries, _) if matches!(entries.data_type(), DataType::Struct(fields) if fields.len() == 2) => {
            Kind::Map
        }
        _ => return refuse(""),
    })
}

/// The string types of Arrow.
pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_number_children_before_siblings() {
        let item = Arc::new(Field::new("element", DataType::Int32, true));
        let inner = DataType::Struct(vec![Field::new("x", DataType::List(item), true)].into());
        let schema = Schema::new(vec![
            Field::new("a", inner, true),
            Field::new("b", DataType::Utf8, true),
        ]);
        let (root, types) = root(&schema, &WriterProperties::default()).unwrap();
        assert_eq!(types[0].subtypes, [1, 4]);
        assert_eq!(types[1].field_names, ["x"]);
        assert_eq!(root.children[0].children[0].children[0].name, "a.x.item");
        assert_eq!(root.children[1].id, 4);
    }

    #[test]
    fn types_that_cannot_be_stored_are_named() {
        let schema = Schema::new(vec![Field::new("big", DataType::UInt64, true)]);
        let error = root(&schema, &WriterProperties::default()).unwrap_err().to_string();
        assert!(
            error.contains("column big") && error.contains("UInt64") && error.contains("cast"),
            "{error}"
        );
    }
}
