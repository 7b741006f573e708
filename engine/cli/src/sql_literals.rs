//! Rows as INSERT statements. [`SqlLiterals`]: the values of a column as SQL literals, which Grampus reads as the same
//! values.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float16Type, Float32Type, Float64Type, Int64Type, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::utils::quote_identifier;

/// Dates and times as SQL reads them.
const FORMAT: FormatOptions<'static> = FormatOptions::new()
    .with_display_error(false)
    .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"));

/// The rows of a batch, each as a statement that inserts it into `table`.
pub(crate) fn insert_statements(batch: &RecordBatch, table: &str) -> Result<String, ArrowError> {
    let columns = batch
        .columns()
        .iter()
        .map(|column| cast(column, &plain_type(column.data_type())))
        .collect::<Result<Vec<ArrayRef>, ArrowError>>()?;
    let literals = columns.iter().map(|column| SqlLiterals::of(column.as_ref()));
    let literals = literals.collect::<Result<Vec<_>, ArrowError>>()?;
    let mut text = String::new();
    for row in 0..batch.num_rows() {
        text.push_str("INSERT INTO ");
        text.push_str(table);
        text.push_str(" VALUES (");
        for (place, column) in literals.iter().enumerate() {
            if place > 0 {
                text.push_str(", ");
            }
            column.push(&mut text, row)?;
        }
        text.push_str(");\n");
    }
    Ok(text)
}

/// A name of a table, with its parts in quotation marks as SQL wants them. The word `table` gets them too.
pub(crate) fn table_name(name: &str) -> String {
    let quoted = name.split('.').map(|part| match part.trim_matches('"') {
        "table" => "\"table\"".to_owned(),
        part => quote_identifier(part).into_owned(),
    });
    quoted.collect::<Vec<_>>().join(".")
}

/// The type without dictionaries and runs.
fn plain_type(data_type: &DataType) -> DataType {
    let plain = |field: &Field| field.clone().with_data_type(plain_type(field.data_type()));
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type()),
        DataType::List(item) => DataType::List(plain(item).into()),
        DataType::LargeList(item) => DataType::LargeList(plain(item).into()),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(plain(item).into(), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| plain(field)).collect()),
        DataType::Map(entries, sorted) => DataType::Map(plain(entries).into(), *sorted),
        other => other.clone(),
    }
}

/// The literals of a column.
struct SqlLiterals<'a> {
    array: &'a dyn Array,
    nulls: Option<NullBuffer>,
    kind: Kind<'a>,
}

enum Kind<'a> {
    /// Only NULLs.
    Null,
    /// As Arrow writes them, between two texts.
    Between(String, ArrayFormatter<'a>, String),
    Text(ArrayFormatter<'a>),
    Float,
    /// Like [`Kind::Between`]. Years of other than four digits are read as numbers.
    Time(Box<Kind<'a>>, Box<Kind<'a>>),
    /// Numbers of a type that SQL has no name for.
    Number(ArrayRef, String),
    List(Box<SqlLiterals<'a>>),
    Map(Box<SqlLiterals<'a>>, Box<SqlLiterals<'a>>),
    Struct(Vec<(String, SqlLiterals<'a>)>),
}

impl<'a> SqlLiterals<'a> {
    fn of(array: &'a dyn Array) -> Result<Self, ArrowError> {
        Ok(Self {
            array,
            nulls: array.logical_nulls(),
            kind: kind(array)?,
        })
    }

    /// Appends the literal of a row.
    fn push(&self, text: &mut String, row: usize) -> Result<(), ArrowError> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            text.push_str("NULL");
            return Ok(());
        }
        self.push_value(text, row, &self.kind)
    }

    fn push_value(&self, text: &mut String, row: usize, kind: &Kind<'a>) -> Result<(), ArrowError> {
        match kind {
            Kind::Null => text.push_str("NULL"),
            Kind::Between(before, formatter, after) => {
                text.push_str(before);
                formatter.value(row).write(text)?;
                text.push_str(after);
            }
            Kind::Text(formatter) => {
                let mut value = String::new();
                formatter.value(row).write(&mut value)?;
                text.push_str(&quoted(&value));
            }
            Kind::Float => text.push_str(&float(self.array, row)),
            Kind::Time(written, number) => {
                let at = text.len();
                self.push_value(text, row, written)?;
                let mut year = text[at..].bytes().skip_while(|byte| *byte != b'\'').skip(1);
                if !year.by_ref().take(4).all(|byte| byte.is_ascii_digit()) || year.next() != Some(b'-') {
                    text.truncate(at);
                    self.push_value(text, row, number)?;
                }
            }
            Kind::Number(numbers, name) => {
                let number = numbers.as_primitive::<Int64Type>().value(row);
                text.push_str(&format!("arrow_cast({number}, {name})"));
            }
            Kind::List(items) => {
                let (from, to) = elements(self.array, row);
                text.push('[');
                for item in from..to {
                    separate(text, item > from);
                    items.push(text, item)?;
                }
                text.push(']');
            }
            Kind::Map(keys, values) => {
                let (from, to) = elements(self.array, row);
                text.push_str("MAP {");
                for entry in from..to {
                    separate(text, entry > from);
                    keys.push(text, entry)?;
                    text.push_str(": ");
                    values.push(text, entry)?;
                }
                text.push('}');
            }
            Kind::Struct(fields) => {
                text.push('{');
                for (place, (name, values)) in fields.iter().enumerate() {
                    separate(text, place > 0);
                    text.push_str(name);
                    text.push_str(": ");
                    values.push(text, row)?;
                }
                text.push('}');
            }
        }
        Ok(())
    }
}

fn separate(text: &mut String, is_later: bool) {
    if is_later {
        text.push_str(", ");
    }
}

fn boxed(array: &ArrayRef) -> Result<Box<SqlLiterals<'_>>, ArrowError> {
    SqlLiterals::of(array.as_ref()).map(Box::new)
}

fn kind(array: &dyn Array) -> Result<Kind<'_>, ArrowError> {
    let data_type = array.data_type();
    let between = |before: &str, after: &str| {
        let formatter = ArrayFormatter::try_new(array, &FORMAT)?;
        Ok(Kind::Between(before.to_owned(), formatter, after.to_owned()))
    };
    let number = || {
        Ok(Kind::Number(
            cast(array, &DataType::Int64)?,
            quoted(&data_type.to_string()),
        ))
    };
    let time = |before: &str, after: &str| Ok(Kind::Time(Box::new(between(before, after)?), Box::new(number()?)));
    match data_type {
        DataType::Null => Ok(Kind::Null),
        data_type if data_type.is_integer() || *data_type == DataType::Boolean => between("", ""),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Ok(Kind::Float),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Ok(Kind::Text(ArrayFormatter::try_new(array, &FORMAT)?))
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            between("X'", "'")
        }
        // A number with a point would be a DOUBLE.
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => match *scale {
            0.. => between("CAST('", &format!("' AS DECIMAL({digits}, {scale}))")),
            _ => between("arrow_cast('", &format!("', {})", quoted(&data_type.to_string()))),
        },
        DataType::Date32 => between("DATE '", "'"),
        DataType::Time32(_) | DataType::Time64(_) => between("TIME '", "'"),
        DataType::Timestamp(unit, None) => match unit {
            TimeUnit::Second => time("CAST('", "' AS TIMESTAMP(0))"),
            TimeUnit::Millisecond => time("CAST('", "' AS TIMESTAMP(3))"),
            TimeUnit::Microsecond => time("CAST('", "' AS TIMESTAMP(6))"),
            TimeUnit::Nanosecond => time("TIMESTAMP '", "'"),
        },
        DataType::Timestamp(_, Some(_)) => time("arrow_cast('", &format!("', {})", quoted(&data_type.to_string()))),
        DataType::Duration(_) | DataType::Date64 => number(),
        DataType::Interval(_) => between("INTERVAL '", "'"),
        DataType::List(_) => Ok(Kind::List(boxed(array.as_list::<i32>().values())?)),
        DataType::LargeList(_) => Ok(Kind::List(boxed(array.as_list::<i64>().values())?)),
        DataType::FixedSizeList(..) => Ok(Kind::List(boxed(array.as_fixed_size_list().values())?)),
        DataType::Map(..) => Ok(Kind::Map(
            boxed(array.as_map().keys())?,
            boxed(array.as_map().values())?,
        )),
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let columns = columns.map(|(field, column)| Ok((quoted(field.name()), SqlLiterals::of(column.as_ref())?)));
            columns.collect::<Result<Vec<_>, ArrowError>>().map(Kind::Struct)
        }
        other => Err(ArrowError::NotYetImplemented(format!(
            "the type {other} has no literal in SQL"
        ))),
    }
}

/// The elements of the list or map of a row.
fn elements(array: &dyn Array, row: usize) -> (usize, usize) {
    let between = |from: i64, to: i64| (from as usize, to as usize);
    match array.data_type() {
        DataType::LargeList(_) => {
            let offsets = array.as_list::<i64>().value_offsets();
            between(offsets[row], offsets[row + 1])
        }
        DataType::FixedSizeList(_, length) => {
            let from = i64::from(array.as_fixed_size_list().value_offset(row));
            between(from, from + i64::from(*length))
        }
        DataType::Map(..) => {
            let offsets = array.as_map().value_offsets();
            between(offsets[row].into(), offsets[row + 1].into())
        }
        _ => {
            let offsets = array.as_list::<i32>().value_offsets();
            between(offsets[row].into(), offsets[row + 1].into())
        }
    }
}

/// The shortest number that is read as this one: SQL reads a DOUBLE, and FLOAT is made of it.
fn float(array: &dyn Array, row: usize) -> String {
    let (value, short, name) = match array.data_type() {
        DataType::Float64 => (array.as_primitive::<Float64Type>().value(row), None, "DOUBLE"),
        DataType::Float32 => {
            let value = array.as_primitive::<Float32Type>().value(row);
            let short = format!("{value:?}");
            let is_exact = short.parse::<f64>().is_ok_and(|read| read as f32 == value);
            (f64::from(value), is_exact.then_some(short), "FLOAT")
        }
        _ => (array.as_primitive::<Float16Type>().value(row).to_f64(), None, "FLOAT"),
    };
    if !value.is_finite() {
        return format!("CAST('{value}' AS {name})");
    }
    short.unwrap_or_else(|| format!("{value:?}"))
}

/// A text in quotation marks, with those inside doubled.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_are_quoted_where_sql_wants_it() {
        for (name, quoted) in [
            ("table", "\"table\""),
            ("trips", "trips"),
            ("public.My Trips", "public.\"My Trips\""),
            ("\"Trips\"", "\"Trips\""),
        ] {
            assert_eq!(table_name(name), quoted);
        }
    }
}
