//! [`format_of`] and [`data_type`]: a `DataType` as the C data interface's format string, and back.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit, UnionFields, UnionMode};
use arrow::error::ArrowError;

/// The format string of a type. A dictionary has the format of its keys.
pub(crate) fn format_of(data_type: &DataType) -> Result<String, ArrowError> {
    Ok(match data_type {
        DataType::Null => "n".to_owned(),
        DataType::Boolean => "b".to_owned(),
        DataType::Int8 => "c".to_owned(),
        DataType::UInt8 => "C".to_owned(),
        DataType::Int16 => "s".to_owned(),
        DataType::UInt16 => "S".to_owned(),
        DataType::Int32 => "i".to_owned(),
        DataType::UInt32 => "I".to_owned(),
        DataType::Int64 => "l".to_owned(),
        DataType::UInt64 => "L".to_owned(),
        DataType::Float16 => "e".to_owned(),
        DataType::Float32 => "f".to_owned(),
        DataType::Float64 => "g".to_owned(),
        DataType::Binary => "z".to_owned(),
        DataType::LargeBinary => "Z".to_owned(),
        DataType::BinaryView => "vz".to_owned(),
        DataType::Utf8 => "u".to_owned(),
        DataType::LargeUtf8 => "U".to_owned(),
        DataType::Utf8View => "vu".to_owned(),
        DataType::FixedSizeBinary(width) => format!("w:{width}"),
        DataType::Decimal32(precision, scale) => format!("d:{precision},{scale},32"),
        DataType::Decimal64(precision, scale) => format!("d:{precision},{scale},64"),
        DataType::Decimal128(precision, scale) => format!("d:{precision},{scale}"),
        DataType::Decimal256(precision, scale) => format!("d:{precision},{scale},256"),
        DataType::Date32 => "tdD".to_owned(),
        DataType::Date64 => "tdm".to_owned(),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("tt{}", letter(*unit)),
        DataType::Timestamp(unit, zone) => format!("ts{}:{}", letter(*unit), zone.as_deref().unwrap_or("")),
        DataType::Duration(unit) => format!("tD{}", letter(*unit)),
        DataType::Interval(IntervalUnit::YearMonth) => "tiM".to_owned(),
        DataType::Interval(IntervalUnit::DayTime) => "tiD".to_owned(),
        DataType::Interval(IntervalUnit::MonthDayNano) => "tin".to_owned(),
        DataType::List(_) => "+l".to_owned(),
        DataType::LargeList(_) => "+L".to_owned(),
        DataType::ListView(_) => "+vl".to_owned(),
        DataType::LargeListView(_) => "+vL".to_owned(),
        DataType::FixedSizeList(_, length) => format!("+w:{length}"),
        DataType::Struct(_) => "+s".to_owned(),
        DataType::Map(..) => "+m".to_owned(),
        DataType::RunEndEncoded(..) => "+r".to_owned(),
        DataType::Union(fields, mode) => {
            let ids: Vec<String> = fields.iter().map(|(id, _)| id.to_string()).collect();
            let mode = match mode {
                UnionMode::Dense => 'd',
                UnionMode::Sparse => 's',
            };
            format!("+u{mode}:{}", ids.join(","))
        }
        DataType::Dictionary(keys, _) => format_of(keys)?,
    })
}

/// The type of a format string, whose children are `children`.
pub(crate) fn data_type(format: &str, children: Vec<Field>, keys_sorted: bool) -> Result<DataType, ArrowError> {
    let unknown = || ArrowError::CDataInterface(format!("the Arrow format {format:?} is not known"));
    let number = |text: &str| text.parse::<i32>().map_err(|_| unknown());
    if let Some(parts) = format.strip_prefix("d:") {
        return decimal(parts).ok_or_else(unknown);
    }
    if let Some(width) = format.strip_prefix("w:") {
        return Ok(DataType::FixedSizeBinary(number(width)?));
    }
    if let Some(length) = format.strip_prefix("+w:") {
        return Ok(DataType::FixedSizeList(only(children, format)?, number(length)?));
    }
    if let Some(rest) = format.strip_prefix("+u") {
        return union(rest, children).ok_or_else(unknown);
    }
    if let Some(rest) = format.strip_prefix("ts") {
        let (unit, zone) = rest.split_once(':').ok_or_else(unknown)?;
        let zone = (!zone.is_empty()).then(|| zone.into());
        return Ok(DataType::Timestamp(unit_of(unit).ok_or_else(unknown)?, zone));
    }
    Ok(match format {
        "n" => DataType::Null,
        "b" => DataType::Boolean,
        "c" => DataType::Int8,
        "C" => DataType::UInt8,
        "s" => DataType::Int16,
        "S" => DataType::UInt16,
        "i" => DataType::Int32,
        "I" => DataType::UInt32,
        "l" => DataType::Int64,
        "L" => DataType::UInt64,
        "e" => DataType::Float16,
        "f" => DataType::Float32,
        "g" => DataType::Float64,
        "z" => DataType::Binary,
        "Z" => DataType::LargeBinary,
        "vz" => DataType::BinaryView,
        "u" => DataType::Utf8,
        "U" => DataType::LargeUtf8,
        "vu" => DataType::Utf8View,
        "tdD" => DataType::Date32,
        "tdm" => DataType::Date64,
        "tts" => DataType::Time32(TimeUnit::Second),
        "ttm" => DataType::Time32(TimeUnit::Millisecond),
        "ttu" => DataType::Time64(TimeUnit::Microsecond),
        "ttn" => DataType::Time64(TimeUnit::Nanosecond),
        "tDs" | "tDm" | "tDu" | "tDn" => DataType::Duration(unit_of(&format[2..]).ok_or_else(unknown)?),
        "tiM" => DataType::Interval(IntervalUnit::YearMonth),
        "tiD" => DataType::Interval(IntervalUnit::DayTime),
        "tin" => DataType::Interval(IntervalUnit::MonthDayNano),
        "+l" => DataType::List(only(children, format)?),
        "+L" => DataType::LargeList(only(children, format)?),
        "+vl" => DataType::ListView(only(children, format)?),
        "+vL" => DataType::LargeListView(only(children, format)?),
        "+s" => DataType::Struct(children.into()),
        "+m" => DataType::Map(only(children, format)?, keys_sorted),
        "+r" => match <[Field; 2]>::try_from(children) {
            Ok([run_ends, values]) => DataType::RunEndEncoded(Arc::new(run_ends), Arc::new(values)),
            Err(_) => return Err(unknown()),
        },
        _ => return Err(unknown()),
    })
}

fn letter(unit: TimeUnit) -> char {
    match unit {
        TimeUnit::Second => 's',
        TimeUnit::Millisecond => 'm',
        TimeUnit::Microsecond => 'u',
        TimeUnit::Nanosecond => 'n',
    }
}

fn unit_of(letter: &str) -> Option<TimeUnit> {
    Some(match letter {
        "s" => TimeUnit::Second,
        "m" => TimeUnit::Millisecond,
        "u" => TimeUnit::Microsecond,
        "n" => TimeUnit::Nanosecond,
        _ => return None,
    })
}

fn only(children: Vec<Field>, format: &str) -> Result<Arc<Field>, ArrowError> {
    match <[Field; 1]>::try_from(children) {
        Ok([child]) => Ok(Arc::new(child)),
        Err(children) => Err(ArrowError::CDataInterface(format!(
            "the Arrow format {format:?} has one child, not {}",
            children.len()
        ))),
    }
}

fn decimal(parts: &str) -> Option<DataType> {
    let mut parts = parts.split(',');
    let precision = parts.next()?.parse().ok()?;
    let scale = parts.next()?.parse().ok()?;
    Some(match parts.next() {
        None | Some("128") => DataType::Decimal128(precision, scale),
        Some("32") => DataType::Decimal32(precision, scale),
        Some("64") => DataType::Decimal64(precision, scale),
        Some("256") => DataType::Decimal256(precision, scale),
        Some(_) => return None,
    })
}

fn union(rest: &str, children: Vec<Field>) -> Option<DataType> {
    let (mode, ids) = rest.split_once(':')?;
    let mode = match mode {
        "d" => UnionMode::Dense,
        "s" => UnionMode::Sparse,
        _ => return None,
    };
    let ids: Option<Vec<i8>> = ids.split(',').map(|id| id.parse().ok()).collect();
    let fields = UnionFields::try_new(ids?, children).ok()?;
    Some(DataType::Union(fields, mode))
}
