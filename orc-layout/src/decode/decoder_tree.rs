//! Choice of each column's decoder by ORC type, encoding and Arrow type, once per column reader.

use arrow::datatypes::{
    ArrowPrimitiveType, BinaryType, DataType, Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    Utf8Type,
};

use super::Decoder;
use super::char_text::CharDecoder;
use super::cursor::StreamSource;
use super::decimal::{Decimal64Decoder, DecimalDecoder};
use super::dictionary::DictionaryDecoder;
use super::hybrid_date::HybridDateDecoder;
use super::nested::{ListDecoder, MapDecoder, StructDecoder, UnionDecoder};
use super::numeric::{Booleans, Floats, Ints, Longs, Narrow, SignedBytes, ValueDecoder};
use super::string::DirectBytesDecoder;
use super::timestamp::TimestampDecoder;
use crate::error::{LayoutError, Result};
use crate::proto::column_encoding::Kind as Encoding;
use crate::proto::stream::Kind;
use crate::read_options::CharPadding;
use crate::schema::{ColumnId, TypeKind};

/// A decoder at the stripe's start for `column` and everything below it.
pub(super) fn open(source: &StreamSource, column: ColumnId, arrow_type: &DataType) -> Result<Box<dyn Decoder>> {
    let Some(encoding) = source.stripe.encodings.get(column as usize).copied() else {
        return Err(source.corrupt(column, "the stripe footer has no encoding for the column"));
    };
    let kind = encoding.kind;
    let orc_type = source.tail.schema.column(column);
    let dictionary = matches!(kind, Encoding::Dictionary | Encoding::DictionaryV2);
    let is_text = matches!(
        orc_type.kind,
        TypeKind::String | TypeKind::Char { .. } | TypeKind::Varchar { .. }
    );
    if dictionary && !is_text {
        return Err(source.corrupt(column, "only strings have dictionaries"));
    }
    Ok(match orc_type.kind {
        TypeKind::Boolean => Box::new(ValueDecoder::open(source, column, Booleans::new)),
        TypeKind::Byte => Box::new(ValueDecoder::open(source, column, SignedBytes::new)),
        TypeKind::Short => Box::new(ints::<Int16Type>(source, column, kind)),
        TypeKind::Int => Box::new(ints::<Int32Type>(source, column, kind)),
        TypeKind::Long => Box::new(ValueDecoder::open(source, column, |data| {
            Longs::<Int64Type>::new(data, kind)
        })),
        TypeKind::Float => Box::new(ValueDecoder::open(source, column, Floats::<Float32Type>::new)),
        TypeKind::Double => Box::new(ValueDecoder::open(source, column, Floats::<Float64Type>::new)),
        TypeKind::Date if source.tail.is_hybrid_calendar => {
            Box::new(HybridDateDecoder::new(ints::<Date32Type>(source, column, kind)))
        }
        TypeKind::Date => Box::new(ints::<Date32Type>(source, column, kind)),
        TypeKind::Char { .. } if !dictionary && source.options.char_padding == CharPadding::Removed => Box::new(
            CharDecoder::new(DirectBytesDecoder::<Utf8Type>::open(source, column, kind)),
        ),
        TypeKind::String | TypeKind::Char { .. } | TypeKind::Varchar { .. } if dictionary => {
            let keeps = matches!(arrow_type, DataType::Dictionary(..));
            Box::new(DictionaryDecoder::open(source, column, encoding, keeps))
        }
        TypeKind::String | TypeKind::Char { .. } | TypeKind::Varchar { .. } => {
            Box::new(DirectBytesDecoder::<Utf8Type>::open(source, column, kind))
        }
        TypeKind::Binary => Box::new(DirectBytesDecoder::<BinaryType>::open(source, column, kind)),
        TypeKind::Timestamp => Box::new(TimestampDecoder::open(source, column, kind, false)?),
        TypeKind::TimestampInstant => Box::new(TimestampDecoder::open(source, column, kind, true)?),
        TypeKind::Decimal { precision, scale }
            if source.tail.format_version == "1.9999" && !source.has(column, Kind::Secondary) =>
        {
            Box::new(Decimal64Decoder::open(source, column, precision, scale))
        }
        TypeKind::Decimal { precision, scale } => {
            Box::new(DecimalDecoder::open(source, column, kind, precision, scale))
        }
        TypeKind::Struct | TypeKind::List | TypeKind::Map | TypeKind::Union | TypeKind::Unknown { .. } => {
            return open_nested(source, column, kind, arrow_type);
        }
    })
}

fn ints<T: ArrowPrimitiveType<Native: Narrow>>(
    source: &StreamSource,
    column: ColumnId,
    encoding: Encoding,
) -> ValueDecoder<Ints<T>> {
    ValueDecoder::open(source, column, |data| Ints::new(data, encoding))
}

fn open_nested(
    source: &StreamSource,
    column: ColumnId,
    encoding: Encoding,
    arrow_type: &DataType,
) -> Result<Box<dyn Decoder>> {
    let children = &source.tail.schema.column(column).children;
    let mismatch = || {
        let column = source.describe(column);
        LayoutError::unsupported(
            &source.tail.file,
            format!("{column} as {arrow_type}"),
            "its ORC type maps to another Arrow type",
        )
    };
    match (arrow_type, children.as_slice()) {
        (DataType::Struct(fields), _) if fields.len() == children.len() => {
            let children = children
                .iter()
                .zip(fields)
                .map(|(&child, field)| open(source, child, field.data_type()));
            let children = children.collect::<Result<_>>()?;
            Ok(Box::new(StructDecoder::open(source, column, fields.clone(), children)))
        }
        (DataType::List(field), &[item]) => {
            let item = open(source, item, field.data_type())?;
            Ok(Box::new(ListDecoder::open(
                source,
                column,
                encoding,
                field.clone(),
                item,
            )))
        }
        (DataType::Map(entries, _), &[key, value]) => {
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(mismatch());
            };
            let [key_field, value_field] = &fields[..] else {
                return Err(mismatch());
            };
            let key = open(source, key, key_field.data_type())?;
            let value = open(source, value, value_field.data_type())?;
            let fields = (entries.clone(), fields.clone());
            Ok(Box::new(MapDecoder::open(
                source,
                column,
                encoding,
                fields,
                [key, value],
            )))
        }
        (DataType::Union(fields, _), _) if fields.len() == children.len() => {
            let variants = children.iter().zip(fields.iter());
            let variants = variants.map(|(&child, (_, field))| open(source, child, field.data_type()));
            let variants = variants.collect::<Result<_>>()?;
            Ok(Box::new(UnionDecoder::open(source, column, fields.clone(), variants)))
        }
        _ => Err(mismatch()),
    }
}
