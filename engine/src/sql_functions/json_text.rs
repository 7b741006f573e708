//! `to_json`, and by the names `row_to_json` and `array_to_json`: any value as JSON.
//!
//! Structs and maps are objects, lists are arrays, and times are texts. Numbers of DOUBLE are those of JavaScript, with
//! a point.

use std::fmt::{Display, Write};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, StringArray, StringBuilder, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{exec_datafusion_err, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ToJson {
    aliases: Vec<String>,
    signature: Signature,
}

impl Default for ToJson {
    fn default() -> Self {
        Self {
            aliases: ["row_to_json", "array_to_json"].map(str::to_owned).into(),
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for ToJson {
    fn name(&self) -> &'static str {
        "to_json"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        for given in types {
            check(given)?;
        }
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(texts, Vec::new())(&args.args)
    }
}

/// Refuses types of which JSON has no usual form.
fn check(data_type: &DataType) -> Result<()> {
    match data_type {
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_)
        | DataType::Interval(_)
        | DataType::Duration(_) => {
            plan_err!("to_json: {data_type} has no form in JSON; cast it to VARCHAR before, or encode it")
        }
        nested => (children(nested).into_iter()).try_for_each(|child| check(child.data_type())),
    }
}

fn children(data_type: &DataType) -> Vec<&Field> {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(AsRef::as_ref).collect(),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::Map(item, _) => vec![item.as_ref()],
        _ => Vec::new(),
    }
}

fn texts(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [values] = arguments else {
        return exec_err!("to_json takes one argument");
    };
    let json = Json::of(values)?;
    let mut texts = StringBuilder::new();
    let mut text = String::new();
    for row in 0..values.len() {
        match json.is_null(row) {
            true => texts.append_null(),
            false => {
                text.clear();
                json.write(row, &mut text)?;
                texts.append_value(&text);
            }
        }
    }
    Ok(Arc::new(texts.finish()))
}

/// Values of a column, as they are written.
enum Json {
    Null,
    Plain(ArrayRef),
    Decimal(ArrayRef),
    Time(ArrayRef),
    Float(Float64Array),
    Text(StringArray),
    Object(StructArray, Vec<(String, Json)>),
    /// Lists, and the values of all.
    List(Lists, Box<Json>),
    /// Maps, the keys and the values of all.
    Map(Lists, StringArray, Box<Json>),
}

/// Where the values of each row are.
struct Lists {
    array: ArrayRef,
    ranges: Vec<(usize, usize)>,
}

impl Json {
    fn of(values: &ArrayRef) -> Result<Self> {
        Ok(match values.data_type() {
            DataType::Null => Self::Null,
            DataType::Dictionary(_, inner) => return Self::of(&cast(values, inner)?),
            DataType::RunEndEncoded(_, inner) => return Self::of(&cast(values, inner.data_type())?),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Self::Text(cast(values, &DataType::Utf8)?.as_string::<i32>().clone())
            }
            DataType::Float16 | DataType::Float32 | DataType::Float64 => {
                Self::Float(cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
            }
            DataType::Struct(_) => {
                let structs = values.as_struct().clone();
                let fields = structs.fields().iter().zip(structs.columns());
                let fields = fields.map(|(field, column)| Ok((field.name().clone(), Self::of(column)?)));
                let fields = fields.collect::<Result<_>>()?;
                Self::Object(structs, fields)
            }
            DataType::List(_) => {
                let lists = values.as_list::<i32>();
                let offsets = lists.value_offsets();
                Self::list(
                    values,
                    lists.values(),
                    offsets.windows(2).map(|two| (two[0] as usize, two[1] as usize)),
                )?
            }
            DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::ListView(item)
            | DataType::LargeListView(item) => {
                return Self::of(&cast(values, &DataType::List(Arc::clone(item)))?);
            }
            DataType::Map(..) => {
                let maps = values.as_map();
                let offsets = maps.value_offsets();
                let lists = Lists {
                    array: Arc::clone(values),
                    ranges: offsets
                        .windows(2)
                        .map(|two| (two[0] as usize, two[1] as usize))
                        .collect(),
                };
                let keys = cast(maps.keys(), &DataType::Utf8)?.as_string::<i32>().clone();
                Self::Map(lists, keys, Box::new(Self::of(maps.values())?))
            }
            DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => {
                Self::Decimal(Arc::clone(values))
            }
            time if time.is_temporal() => Self::Time(Arc::clone(values)),
            _ => Self::Plain(Arc::clone(values)),
        })
    }

    fn list(lists: &ArrayRef, values: &ArrayRef, ranges: impl Iterator<Item = (usize, usize)>) -> Result<Self> {
        let lists = Lists {
            array: Arc::clone(lists),
            ranges: ranges.collect(),
        };
        Ok(Self::List(lists, Box::new(Self::of(values)?)))
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Null => true,
            Self::Plain(values) | Self::Decimal(values) | Self::Time(values) => values.is_null(row),
            Self::Float(values) => values.is_null(row),
            Self::Text(values) => values.is_null(row),
            Self::Object(values, _) => values.is_null(row),
            Self::List(lists, _) | Self::Map(lists, ..) => lists.array.is_null(row),
        }
    }

    fn write(&self, row: usize, out: &mut String) -> Result<()> {
        if self.is_null(row) {
            out.push_str("null");
            return Ok(());
        }
        match self {
            Self::Null => {}
            Self::Plain(values) => write_displayed(values, row, out)?,
            Self::Decimal(values) => {
                let start = out.len();
                write_displayed(values, row, out)?;
                if out[start..].contains('.') {
                    let kept = out.trim_end_matches('0').len();
                    out.truncate(kept.max(start));
                    if out.ends_with('.') {
                        out.push('0');
                    }
                }
            }
            Self::Time(values) => {
                out.push('"');
                let start = out.len();
                write_displayed(values, row, out)?;
                if out[start..].contains('.') && !out[start..].contains('+') {
                    out.truncate(out.trim_end_matches('0').len());
                }
                out.push('"');
            }
            Self::Float(values) => write_number(values.value(row), out),
            Self::Text(values) => write_text(values.value(row), out)?,
            Self::Object(_, fields) => {
                out.push('{');
                for (place, (name, values)) in fields.iter().enumerate() {
                    separate(place, out);
                    write_text(name, out)?;
                    out.push(':');
                    values.write(row, out)?;
                }
                out.push('}');
            }
            Self::List(lists, values) => {
                out.push('[');
                let (from, to) = lists.ranges[row];
                for (place, value) in (from..to).enumerate() {
                    separate(place, out);
                    values.write(value, out)?;
                }
                out.push(']');
            }
            Self::Map(lists, keys, values) => {
                out.push('{');
                let (from, to) = lists.ranges[row];
                for (place, entry) in (from..to).enumerate() {
                    separate(place, out);
                    write_text(keys.value(entry), out)?;
                    out.push(':');
                    values.write(entry, out)?;
                }
                out.push('}');
            }
        }
        Ok(())
    }
}

fn separate(place: usize, out: &mut String) {
    if place > 0 {
        out.push(',');
    }
}

fn write_displayed(values: &ArrayRef, row: usize, out: &mut String) -> Result<()> {
    let options = FormatOptions::new().with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"));
    let options = options.with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"));
    let formatter = ArrayFormatter::try_new(values, &options)?;
    formatter.value(row).write(out).map_err(|error| failed(&error))
}

fn failed(error: &impl Display) -> datafusion::error::DataFusionError {
    exec_datafusion_err!("to_json: {error}")
}

/// A text in quotation marks, with escapes.
fn write_text(text: &str, out: &mut String) -> Result<()> {
    let quoted = serde_json::to_string(text).map_err(|error| failed(&error))?;
    out.push_str(&quoted);
    Ok(())
}

fn write_number(number: f64, out: &mut String) {
    let size = number.abs();
    let _ = if number.is_nan() {
        out.write_str("NaN")
    } else if number.is_infinite() {
        out.write_str(if number > 0.0 { "Infinity" } else { "-Infinity" })
    } else if size == 0.0 || (1e-6..1e21).contains(&size) {
        match number.fract() == 0.0 {
            true => write!(out, "{number}.0"),
            false => write!(out, "{number}"),
        }
    } else {
        write!(out, "{number:e}")
    }; // a String takes all texts
}
