//! Common types: the narrowest type that holds all values of a column which files store with different types.
//!
//! Only conversions that lose nothing count, which Hive and Trino make too.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::CastOptions;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::nested_struct::cast_column;
use datafusion::error::Result;

/// The type that holds the values of both; `None`: there is none.
///
/// - Integers: the wider one. FLOAT and DOUBLE: DOUBLE.
/// - DECIMAL of one scale: the larger precision.
/// - Lists, maps and structs: by their parts. Fields of structs count by name, and a missing field is NULL.
///
/// STRING, CHAR and VARCHAR have one Arrow type, so they never differ here.
pub(crate) fn common(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::{Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, List, Map, Struct};
    const INTEGERS: [DataType; 4] = [Int8, Int16, Int32, Int64];
    if one == other {
        return Some(one.clone());
    }
    let width = |data_type| INTEGERS.iter().position(|integer| integer == data_type);
    Some(match (one, other) {
        (Float32, Float64) | (Float64, Float32) => Float64,
        (Decimal128(p, scale), Decimal128(q, other_scale)) if scale == other_scale => Decimal128(*p.max(q), *scale),
        (List(item), List(other_item)) => List(common_field(item, other_item)?),
        (Struct(fields), Struct(other_fields)) => Struct(common_fields(fields, other_fields)?),
        (Map(entries, sorted), Map(other_entries, other_sorted)) if sorted == other_sorted => {
            Map(common_entries(entries, other_entries)?, *sorted)
        }
        _ => INTEGERS[width(one)?.max(width(other)?)].clone(),
    })
}

fn common_field(one: &FieldRef, other: &Field) -> Option<FieldRef> {
    let data_type = common(one.data_type(), other.data_type())?;
    Some(Arc::new(one.as_ref().clone().with_data_type(data_type)))
}

/// The fields of both structs; `None`: a common field has no common type, no field is common, or two names differ in
/// letter case alone.
fn common_fields(fields: &Fields, others: &Fields) -> Option<Fields> {
    let mut all: Vec<FieldRef> = fields.to_vec();
    let mut is_any_common = false;
    for other in others {
        let lower = other.name().to_lowercase();
        let same = all[..fields.len()]
            .iter()
            .position(|field| field.name().to_lowercase() == lower);
        match same {
            Some(at) if all[at].name() == other.name() => {
                all[at] = common_field(&all[at], other)?;
                is_any_common = true;
            }
            Some(_) => return None,
            None => all.push(Arc::clone(other)),
        }
    }
    is_any_common.then(|| all.into())
}

/// The entries of both maps. Arrow's cast of maps matches structs by position, so a map of structs has no common type
/// with another one.
fn common_entries(one: &FieldRef, other: &Field) -> Option<FieldRef> {
    let (DataType::Struct(parts), DataType::Struct(other_parts)) = (one.data_type(), other.data_type()) else {
        return None;
    };
    let [key, value] = &parts[..] else { return None };
    let [other_key, other_value] = &other_parts[..] else {
        return None;
    };
    let common_part = |part: &FieldRef, other: &FieldRef| match part.data_type() == other.data_type() {
        true => Some(Arc::clone(part)),
        false if part.data_type().is_nested() => None,
        false => common_field(part, other),
    };
    let parts = Fields::from(vec![common_part(key, other_key)?, common_part(value, other_value)?]);
    Some(Arc::new(one.as_ref().clone().with_data_type(DataType::Struct(parts))))
}

/// The values of `array` in `data_type`, which is the [`common`] type of the array's and another.
///
/// # Errors
/// If a value does not fit, which a common type excludes.
pub(crate) fn convert(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_column(array, data_type, &strict)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray, Int32Array, StructArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn field(name: &str, data_type: DataType) -> Field {
        Field::new(name, data_type, true)
    }

    #[test]
    fn common_types_lose_nothing() {
        use DataType::{Boolean, Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, Utf8};
        let cases = [
            (Int8, Int16, Some(Int16)),
            (Int64, Int32, Some(Int64)),
            (Float32, Float64, Some(Float64)),
            (Decimal128(10, 2), Decimal128(12, 2), Some(Decimal128(12, 2))),
            (Decimal128(10, 2), Decimal128(12, 3), None),
            (Int32, Float64, None),
            (Int32, Utf8, None),
            (Boolean, Int8, None),
            (Date32, Int32, None),
        ];
        for (one, other, expected) in cases {
            assert_eq!(common(&one, &other), expected, "{one} {other}");
            assert_eq!(common(&other, &one), expected, "{other} {one}");
        }
    }

    #[test]
    fn structs_have_the_fields_of_both() {
        let of = |fields: Vec<Field>| DataType::Struct(fields.into());
        let narrow = of(vec![field("a", DataType::Int32), field("b", DataType::Utf8)]);
        let wide = of(vec![field("c", DataType::Date32), field("a", DataType::Int64)]);
        let both = common(&narrow, &wide).unwrap();
        let expected = of(vec![
            field("a", DataType::Int64),
            field("b", DataType::Utf8),
            field("c", DataType::Date32),
        ]);
        assert_eq!(both, expected);
        let list = |item| DataType::List(Arc::new(field("item", item)));
        assert_eq!(common(&list(narrow.clone()), &list(wide)), Some(list(expected)));
        assert_eq!(common(&narrow, &of(vec![field("x", DataType::Int32)])), None);
        assert_eq!(common(&narrow, &of(vec![field("A", DataType::Int32)])), None);
    }

    #[test]
    fn convert_widens_fields_and_adds_missing_ones() {
        let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
        let narrow: ArrayRef = Arc::new(StructArray::from(vec![(Arc::new(field("a", DataType::Int32)), values)]));
        let wide = DataType::Struct(vec![field("b", DataType::Utf8), field("a", DataType::Int64)].into());
        let converted = convert(&narrow, &wide).unwrap();
        let converted = converted.as_struct();
        assert_eq!(converted.column(0).null_count(), 2);
        let a = converted.column(1).as_primitive::<Int64Type>();
        assert_eq!(a.iter().collect::<Vec<_>>(), [Some(1), None]);
    }
}
