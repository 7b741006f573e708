//! [`definition`]: the statement that makes an ORC table, as SHOW CREATE TABLE shows it.

use arrow::datatypes::{DataType, Field};
use datafusion::logical_expr::CreateExternalTable;

use crate::redaction::without_passwords;

/// The statement of a command, without passwords of URLs. It makes the same table again: columns are listed if the
/// command lists them and SQL has words for their types, else they are those of the files.
pub(crate) fn definition(command: &CreateExternalTable) -> String {
    let mut text = format!("CREATE EXTERNAL TABLE {}", command.name.to_quoted_string());
    let columns = command.schema.fields().iter().map(|field| column(field));
    if let Some(columns) = columns
        .collect::<Option<Vec<_>>>()
        .filter(|columns| !columns.is_empty())
    {
        text.push_str(&format!(" ({})", columns.join(", ")));
    }
    text.push_str(&format!(" STORED AS {}", command.file_type.to_uppercase()));
    if !command.table_partition_cols.is_empty() {
        let names = command.table_partition_cols.iter().map(|name| quoted(name));
        text.push_str(&format!(" PARTITIONED BY ({})", names.collect::<Vec<_>>().join(", ")));
    }
    let locations = command
        .locations
        .iter()
        .map(|location| literal(&without_passwords(location)));
    match &locations.collect::<Vec<_>>()[..] {
        [location] => text.push_str(&format!(" LOCATION {location}")),
        locations => text.push_str(&format!(" LOCATION ({})", locations.join(", "))),
    }
    let mut options: Vec<_> = command.options.iter().collect();
    options.sort();
    let options = options
        .iter()
        .map(|(name, value)| format!("{} {}", literal(name), literal(&without_passwords(value))));
    let options: Vec<String> = options.collect();
    if !options.is_empty() {
        text.push_str(&format!(" OPTIONS ({})", options.join(", ")));
    }
    text
}

fn column(field: &Field) -> Option<String> {
    Some(format!("{} {}", quoted(field.name()), sql_type(field.data_type())?))
}

/// The word of SQL for a type. `None`: there is none that a list of columns can have.
fn sql_type(data_type: &DataType) -> Option<String> {
    let word = match data_type {
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INT",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INT UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        DataType::Float32 => "REAL",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BYTEA",
        DataType::Date32 => "DATE",
        DataType::Timestamp(_, None) => "TIMESTAMP",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE",
        DataType::Decimal128(precision, scale) => return Some(format!("DECIMAL({precision}, {scale})")),
        DataType::List(item) | DataType::LargeList(item) => return Some(format!("{}[]", sql_type(item.data_type())?)),
        _ => return None,
    };
    Some(word.to_owned())
}

fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    match is_plain && !is_reserved(name) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// Whether the parser knows the word, so that it may take a name for something else.
fn is_reserved(name: &str) -> bool {
    use datafusion::sql::sqlparser::keywords::ALL_KEYWORDS;
    ALL_KEYWORDS.binary_search(&name.to_ascii_uppercase().as_str()).is_ok()
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
