//! `format('{} of {}', a, b)` and `printf('%s of %s', a, b)`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use super::format_text::{Align, FormatText, Kind, Part, Place};

/// The functions.
pub(super) fn functions() -> [ScalarUDF; 2] {
    [("format", true), ("printf", false)].map(|(name, has_braces)| {
        ScalarUDF::new_from_impl(Format {
            name,
            has_braces,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Format {
    name: &'static str,
    has_braces: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Format {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, values @ ..] => {
                Ok([DataType::Utf8].into_iter().chain(values.iter().cloned()).collect())
            }
            _ => plan_err!("{} takes a format and values", self.name),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [format, values @ ..] = args.args.as_slice() else {
            return exec_err!("{} takes a format and values", self.name);
        };
        let format = match format {
            ColumnarValue::Scalar(ScalarValue::Utf8(Some(format))) => format,
            ColumnarValue::Scalar(_) => return Ok(ColumnarValue::Scalar(ScalarValue::Utf8(None))),
            ColumnarValue::Array(_) => return exec_err!("the format of {} is the same for all rows", self.name),
        };
        let FormatText(parts) = match self.has_braces {
            true => FormatText::with_braces(format)?,
            false => FormatText::with_percents(format)?,
        };
        let is_scalar = values.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let values = (values.iter())
            .map(|value| value.to_array(rows))
            .collect::<Result<Vec<_>>>()?;
        let written = (parts.iter())
            .map(|part| match part {
                Part::Text(text) => Ok(Written::Same(text)),
                Part::Place(place) => match values.get(place.argument) {
                    Some(value) => write(value, place).map(Written::Rows),
                    None => exec_err!(
                        "the format {format:?} names more values than the {} given",
                        values.len()
                    ),
                },
            })
            .collect::<Result<Vec<_>>>()?;
        let texts: StringArray = (0..rows)
            .map(|row| {
                // NULL in any value makes the text NULL.
                let is_null = values.iter().any(|value| value.is_null(row));
                (!is_null).then(|| written.iter().map(|part| part.at(row)).collect::<String>())
            })
            .collect();
        let texts: ArrayRef = Arc::new(texts);
        match is_scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?)),
            false => Ok(ColumnarValue::Array(texts)),
        }
    }
}

/// A part of the format in all rows.
enum Written<'a> {
    Same(&'a str),
    Rows(StringArray),
}

impl Written<'_> {
    fn at(&self, row: usize) -> &str {
        match self {
            Self::Same(text) => text,
            Self::Rows(rows) if rows.is_valid(row) => rows.value(row),
            Self::Rows(_) => "",
        }
    }
}

/// The values as a place has them.
fn write(values: &ArrayRef, place: &Place) -> Result<StringArray> {
    let is_number = values.data_type().is_numeric();
    let digits = |text: String| padded(place, &signed(place, &grouped(place, text)), true);
    Ok(match place.kind {
        Kind::Integer => integers(values)?
            .iter()
            .map(|value| value.map(|value| digits(value.to_string())))
            .collect(),
        Kind::Hex => integers(values)?
            .iter()
            .map(|value| value.map(|value| digits(format!("{value:x}"))))
            .collect(),
        Kind::UpperHex => integers(values)?
            .iter()
            .map(|value| value.map(|value| digits(format!("{value:X}"))))
            .collect(),
        Kind::Fixed => {
            let precision = place.precision.unwrap_or(6);
            let write = |value: f64| digits(format!("{value:.precision$}"));
            floats(values)?.iter().map(|value| value.map(write)).collect()
        }
        Kind::Exponent => {
            let precision = place.precision.unwrap_or(6);
            let write = |value: f64| digits(with_two_digits(&format!("{value:.precision$e}")));
            floats(values)?.iter().map(|value| value.map(write)).collect()
        }
        Kind::Any => {
            let texts = cast(values, &DataType::Utf8)?;
            let write = |text: &str| match (is_number, place.precision) {
                (true, _) => digits(text.to_owned()),
                (false, Some(most)) => padded(place, &text.chars().take(most).collect::<String>(), false),
                (false, None) => padded(place, text, false),
            };
            texts.as_string::<i32>().iter().map(|text| text.map(write)).collect()
        }
    })
}

fn integers(values: &ArrayRef) -> Result<Int64Array> {
    match values.data_type().is_integer() {
        true => Ok(cast(values, &DataType::Int64)?.as_primitive::<Int64Type>().clone()),
        false => exec_err!("a place for an integer has a value of type {}", values.data_type()),
    }
}

fn floats(values: &ArrayRef) -> Result<Float64Array> {
    match values.data_type().is_numeric() {
        true => Ok(cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone()),
        false => exec_err!("a place for a number has a value of type {}", values.data_type()),
    }
}

/// An exponent with its sign and at least two digits, as C writes it.
fn with_two_digits(number: &str) -> String {
    match number.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent
                .strip_prefix('-')
                .map_or(('+', exponent), |exponent| ('-', exponent));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => number.to_owned(), // infinite, or NaN
    }
}

/// The number with a comma for each thousand, if the place has them.
fn grouped(place: &Place, number: String) -> String {
    if !place.has_commas {
        return number;
    }
    let start = usize::from(number.starts_with('-'));
    let end = number[start..]
        .find(|letter: char| !letter.is_ascii_digit())
        .map_or(number.len(), |at| start + at);
    let mut out = number[..start].to_owned();
    for (at, digit) in number[start..end].char_indices() {
        if at > 0 && (end - start - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + &number[end..]
}

fn signed(place: &Place, number: &str) -> String {
    match place.has_plus && !number.starts_with('-') {
        true => format!("+{number}"),
        false => number.to_owned(),
    }
}

/// The text with blanks, or a number with zeros, up to the width.
fn padded(place: &Place, text: &str, is_number: bool) -> String {
    let missing = place.width.saturating_sub(text.chars().count());
    let align = match place.align {
        Align::Default if is_number => Align::Right,
        Align::Default => Align::Left,
        align => align,
    };
    if place.has_zeros && is_number && !matches!(align, Align::Left | Align::Center) {
        let sign = text.len() - text.trim_start_matches(['+', '-']).len();
        return format!("{}{}{}", &text[..sign], "0".repeat(missing), &text[sign..]);
    }
    let (before, after) = match align {
        Align::Left => (0, missing),
        Align::Center => (missing / 2, missing - missing / 2),
        _ => (missing, 0),
    };
    format!("{}{text}{}", " ".repeat(before), " ".repeat(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: &str, value: &ArrayRef) -> String {
        let FormatText(parts) = FormatText::with_braces(format).unwrap();
        let Part::Place(place) = &parts[0] else {
            panic!("{format} begins with a text");
        };
        write(value, place).unwrap().value(0).to_owned()
    }

    /// As `std::format` of C++ and DuckDB 2.0.0 write them.
    #[test]
    fn numbers_and_texts_have_their_form() {
        let integer: ArrayRef = Arc::new(Int64Array::from(vec![-1_234_567]));
        let float: ArrayRef = Arc::new(Float64Array::from(vec![1234.5]));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["näh"]));
        for (format, value, expected) in [
            ("{}", &integer, "-1234567"),
            ("{:d}", &integer, "-1234567"),
            ("{:,}", &integer, "-1,234,567"),
            ("{:010d}", &integer, "-001234567"),
            ("{:<10}", &integer, "-1234567  "),
            ("{:.2f}", &float, "1234.50"),
            ("{:+012,.1f}", &float, "+00001,234.5"),
            ("{:e}", &float, "1.234500e+03"),
            ("{:5}", &text, "näh  "),
            ("{:>5}", &text, "  näh"),
            ("{:^6}", &text, " näh  "),
            ("{:.2}", &text, "nä"),
        ] {
            assert_eq!(written(format, value), expected, "{format}");
        }
    }
}
