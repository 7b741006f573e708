//! `typeof`: the type of a value as SQL writes it, by [`sql_type_name`].

use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::exec_err;
use datafusion::common::utils::quote_identifier;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TypeOf {
    signature: Signature,
}

impl Default for TypeOf {
    fn default() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &'static str {
        "typeof"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.arg_fields.as_slice() {
            [field] => Ok(ColumnarValue::Scalar(ScalarValue::from(sql_type_name(
                field.data_type(),
            )))),
            _ => exec_err!("typeof takes one argument"),
        }
    }
}

/// The name of a type in SQL. `CAST` takes it, unless it is that of a STRUCT, a MAP or NULL. A type that SQL cannot
/// write has Arrow's name.
pub fn sql_type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "NULL".to_owned(),
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Int8 => "TINYINT".to_owned(),
        DataType::Int16 => "SMALLINT".to_owned(),
        DataType::Int32 => "INTEGER".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::UInt8 => "TINYINT UNSIGNED".to_owned(),
        DataType::UInt16 => "SMALLINT UNSIGNED".to_owned(),
        DataType::UInt32 => "INTEGER UNSIGNED".to_owned(),
        DataType::UInt64 => "BIGINT UNSIGNED".to_owned(),
        DataType::Float32 => "FLOAT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => format!("DECIMAL({digits},{scale})"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "BYTEA".to_owned()
        }
        DataType::Date32 | DataType::Date64 => "DATE".to_owned(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".to_owned(),
        DataType::Timestamp(unit, zone) => {
            let digits = match unit {
                TimeUnit::Second => "(0)",
                TimeUnit::Millisecond => "(3)",
                TimeUnit::Microsecond => "(6)",
                TimeUnit::Nanosecond => "",
            };
            let zone = if zone.is_some() { " WITH TIME ZONE" } else { "" };
            format!("TIMESTAMP{digits}{zone}")
        }
        DataType::Interval(_) => "INTERVAL".to_owned(),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            format!("{}[]", sql_type_name(item.data_type()))
        }
        DataType::Struct(fields) => format!("STRUCT({})", members(fields.iter().map(AsRef::as_ref))),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                let types: Vec<String> = fields.iter().map(|field| sql_type_name(field.data_type())).collect();
                format!("MAP({})", types.join(", "))
            }
            other => other.to_string(),
        },
        DataType::Dictionary(_, values) => sql_type_name(values),
        DataType::RunEndEncoded(_, values) => sql_type_name(values.data_type()),
        other => other.to_string(),
    }
}

fn members<'a>(fields: impl Iterator<Item = &'a Field>) -> String {
    let members: Vec<String> = fields
        .map(|field| {
            let name = quote_identifier(field.name());
            format!("{name} {}", sql_type_name(field.data_type()))
        })
        .collect();
    members.join(", ")
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Fields;

    use super::*;

    #[test]
    fn types_have_their_names_in_sql() {
        let item = |data_type| Field::new("item", data_type, true);
        let fields = Fields::from(vec![
            Field::new("a", DataType::Int32, true),
            Field::new("b c", DataType::Utf8, true),
        ]);
        for (data_type, expected) in [
            (DataType::Decimal256(40, 2), "DECIMAL(40,2)"),
            (
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
                "TIMESTAMP(6) WITH TIME ZONE",
            ),
            (DataType::List(item(DataType::Utf8View).into()), "VARCHAR[]"),
            (DataType::Struct(fields.clone()), "STRUCT(a INTEGER, \"b c\" VARCHAR)"),
            (
                DataType::Map(item(DataType::Struct(fields)).into(), false),
                "MAP(INTEGER, VARCHAR)",
            ),
            (
                DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into()),
                "VARCHAR",
            ),
        ] {
            assert_eq!(sql_type_name(&data_type), expected);
        }
    }
}
