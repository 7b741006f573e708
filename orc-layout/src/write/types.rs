//! ORC type tree of an Arrow schema: the Arrow types that can be stored, and their ORC types.

use arrow::datatypes::{DataType, Field, Schema};

use crate::error::{LayoutError, Result};
use crate::proto::{self, r#type::Kind};

/// Deepest nesting that is written: readers recurse.
const MAX_DEPTH: usize = 64;

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
    /// Children, in order.
    pub(super) children: Vec<Node>,
}

/// The root struct of a schema, and the footer's type list.
pub(super) fn root(schema: &Schema) -> Result<(Node, Vec<proto::Type>)> {
    let mut types = Vec::new();
    let root = node("", &DataType::Struct(schema.fields().clone()), &mut types, 0)?;
    Ok((root, types))
}

fn node(name: &str, data_type: &DataType, types: &mut Vec<proto::Type>, depth: usize) -> Result<Node> {
    if depth > MAX_DEPTH {
        return Err(LayoutError::Write(format!(
            "column {name}: types nested deeper than {MAX_DEPTH} levels"
        )));
    }
    let kind = kind_of(name, data_type)?;
    let id = types.len() as u32;
    types.push(proto::Type {
        kind: Some(kind.into()),
        ..Default::default()
    });
    let fields: Vec<(String, &DataType)> = children_of(data_type);
    let mut children = Vec::with_capacity(fields.len());
    for (field, child_type) in &fields {
        let dotted = if name.is_empty() {
            field.clone()
        } else {
            format!("{name}.{field}")
        };
        children.push(node(&dotted, child_type, types, depth + 1)?);
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
        children,
    })
}

fn children_of(data_type: &DataType) -> Vec<(String, &DataType)> {
    let named = |field: &'_ Field| field.name().clone();
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|f| (named(f), f.data_type())).collect(),
        DataType::List(item) | DataType::LargeList(item) => vec![("item".into(), item.data_type())],
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                vec![
                    ("key".into(), fields[0].data_type()),
                    ("value".into(), fields[1].data_type()),
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
    use std::sync::Arc;

    #[test]
    fn types_number_children_before_siblings() {
        let item = Arc::new(Field::new("element", DataType::Int32, true));
        let inner = DataType::Struct(vec![Field::new("x", DataType::List(item), true)].into());
        let schema = Schema::new(vec![
            Field::new("a", inner, true),
            Field::new("b", DataType::Utf8, true),
        ]);
        let (root, types) = root(&schema).unwrap();
        assert_eq!(types[0].subtypes, [1, 4]);
        assert_eq!(types[1].field_names, ["x"]);
        assert_eq!(root.children[0].children[0].children[0].name, "a.x.item");
        assert_eq!(root.children[1].id, 4);
    }

    #[test]
    fn types_that_cannot_be_stored_are_named() {
        let schema = Schema::new(vec![Field::new("big", DataType::UInt64, true)]);
        let error = root(&schema).unwrap_err().to_string();
        assert!(
            error.contains("column big") && error.contains("UInt64") && error.contains("cast"),
            "{error}"
        );
    }
}
