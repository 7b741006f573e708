//! [`Parameters`]: values of placeholders, from Python, as literals of SQL with their types.
//!
//! The Python half gives each value a kind, so that this half needs no look at Python's types.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use datafusion::common::{plan_datafusion_err, plan_err};
use datafusion::error::Result;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Array, DictionaryField, Expr, Ident, Value};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use grampus::session::placeholders;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::error;

/// Values by the names of their placeholders.
#[derive(Debug, Clone)]
pub(crate) struct Parameters {
    values: HashMap<String, Expr>,
    /// Whether the names are numbers: the values are those of a sequence.
    are_numbered: bool,
}

impl Parameters {
    /// The values of `$1`, `$2`, … (a list) or of `$name` (a dict). Each value is a pair of its kind and itself.
    pub(crate) fn new(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(named) = given.cast::<PyDict>() {
            let value = |(name, pair): (Bound<'_, PyAny>, Bound<'_, PyAny>)| Ok((name.extract()?, literal(&pair)?));
            return Ok(Self {
                values: named.iter().map(value).collect::<PyResult<_>>()?,
                are_numbered: false,
            });
        }
        let values = given.cast::<PyList>()?.iter().enumerate();
        let value = |(place, pair): (usize, Bound<'_, PyAny>)| Ok(((place + 1).to_string(), literal(&pair)?));
        Ok(Self {
            values: values.map(value).collect::<PyResult<_>>()?,
            are_numbered: true,
        })
    }

    /// Puts the values into a statement.
    ///
    /// # Errors
    /// If a placeholder has no value, or a value has no placeholder.
    pub(crate) fn fill(&self, statement: &mut Statement) -> Result<()> {
        let used = RefCell::new(BTreeSet::new());
        placeholders::fill(statement, |name| {
            used.borrow_mut().insert(name.to_owned());
            // A missing value is known when all placeholders are.
            let value = self.values.get(name).cloned();
            Ok(value.unwrap_or_else(|| Expr::Value(Value::Null.into())))
        })?;
        let used = used.into_inner();
        let missing = used.iter().find(|name| !self.values.contains_key(*name));
        let mut unused: Vec<&String> = self.values.keys().filter(|name| !used.contains(*name)).collect();
        unused.sort();
        let count = count(&used);
        if self.are_numbered && count != Some(self.values.len()) {
            let takes = match count {
                None => "a mapping of values by name".to_owned(),
                Some(1) => "1 value".to_owned(),
                Some(count) => format!("{count} values"),
            };
            return plan_err!("the statement takes {takes}, and params has {}", self.values.len());
        }
        if let Some(name) = missing {
            return plan_err!("params has no value for ${name}");
        }
        match unused.first() {
            Some(name) => plan_err!("the statement has no placeholder ${name}, of which params has a value"),
            None => Ok(()),
        }
    }
}

/// The number of values that placeholders take. `None`: one of them has no number.
fn count(names: &BTreeSet<String>) -> Option<usize> {
    let numbers: Option<Vec<usize>> = names.iter().map(|name| name.parse().ok()).collect();
    Some(numbers?.into_iter().max().unwrap_or(0))
}

/// The literal of a pair.
fn literal(pair: &Bound<'_, PyAny>) -> PyResult<Expr> {
    let (kind, value): (String, Bound<'_, PyAny>) = pair.extract()?;
    Ok(match kind.as_str() {
        "null" => Expr::Value(Value::Null.into()),
        "bool" => Expr::Value(Value::Boolean(value.extract()?).into()),
        "int" => {
            let number: i64 = value.extract().map_err(|_| {
                error(format!(
                    "the parameter {value} does not fit 64 bits: pass a decimal.Decimal"
                ))
            })?;
            // The least number is no literal: the sign is an operator.
            let quote = if number == i64::MIN { "'" } else { "" };
            parsed(&format!("CAST({quote}{number}{quote} AS BIGINT)"))?
        }
        "float" => parsed(&format!("CAST('{}' AS DOUBLE)", value.extract::<f64>()?))?,
        "str" => text(value.extract()?)?,
        "bytes" => Expr::Value(Value::HexStringLiteral(hex(value.extract()?)).into()),
        "date" => cast(&value, "DATE")?,
        "time" => cast(&value, "TIME")?,
        "datetime" => cast(&value, "TIMESTAMP(6)")?,
        "datetime_ns" => cast(&value, "TIMESTAMP(9)")?,
        "instant" => instant(&value, "Microsecond")?,
        "instant_ns" => instant(&value, "Nanosecond")?,
        "interval" => {
            let (days, microseconds): (i32, i64) = value.extract()?;
            parsed(&format!("INTERVAL '{days} days {microseconds} microseconds'"))?
        }
        "decimal" => {
            let (text, precision, scale): (Bound<'_, PyAny>, u8, i8) = value.extract()?;
            cast(&text, &format!("DECIMAL({precision}, {scale})"))?
        }
        "list" => {
            let elem = value.cast::<PyList>()?.iter().map(|value| literal(&value));
            Expr::Array(Array {
                elem: elem.collect::<PyResult<_>>()?,
                named: false,
            })
        }
        "struct" => {
            let field = |(name, value): (String, Bound<'_, PyAny>)| {
                Ok(DictionaryField {
                    key: Ident::with_quote('\'', name),
                    value: Box::new(literal(&value)?),
                })
            };
            let fields: Vec<(String, Bound<'_, PyAny>)> = value.extract()?;
            Expr::Dictionary(fields.into_iter().map(field).collect::<PyResult<_>>()?)
        }
        other => return Err(PyTypeError::new_err(format!("no parameter can be a {other}"))),
    })
}

/// The expression of a text that this file has made.
fn parsed(text: &str) -> PyResult<Expr> {
    let parsed = Parser::new(&GenericDialect {})
        .try_with_sql(text)
        .and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|failure| error(format!("{text}: {failure}")))
}

/// A text as a literal. The parser prints two quotes in a row, and a quote behind a backslash, as they are; parts of
/// statements are printed and read again. Bytes have no such meaning.
fn text(text: String) -> PyResult<Expr> {
    match text.contains("''") || text.contains('\\') {
        true => parsed(&format!("arrow_cast(X'{}', 'Utf8')", hex(text.into_bytes()))),
        false => Ok(Expr::Value(Value::SingleQuotedString(text).into())),
    }
}

fn hex(bytes: Vec<u8>) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn cast(value: &Bound<'_, PyAny>, data_type: &str) -> PyResult<Expr> {
    parsed(&format!("CAST('{}' AS {data_type})", plain(value)?))
}

/// A moment of UTC. A cast to SQL's type would lose the zone.
fn instant(value: &Bound<'_, PyAny>, unit: &str) -> PyResult<Expr> {
    let moment = plain(value)?;
    parsed(&format!(
        "arrow_cast('{moment}+00:00', 'Timestamp({unit}, Some(\"+00:00\"))')"
    ))
}

/// The text of a number or a moment: such a text has no quotes.
fn plain(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let text: String = value.extract()?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || " .:+-".contains(letter);
    match text.chars().all(is_plain) {
        true => Ok(text),
        false => Err(error(
            plan_datafusion_err!("{text} is no number and no moment")
                .message()
                .into_owned(),
        )),
    }
}
