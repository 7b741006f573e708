//! Hive partitions: the columns that folders named `key=value` give to the files below them.

use arrow::datatypes::{DataType, Field};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;

use super::listing::FoundFile;

/// The folder value that Hive writes for NULL.
pub(crate) const NULL_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// The keys and decoded values of a file's partition folders, outermost first. `None` is NULL.
fn parse(file: &FoundFile) -> Vec<(&str, Option<String>)> {
    let pairs = file.folders.iter().filter_map(|folder| folder.split_once('='));
    pairs
        .map(|(key, value)| (key, (value != NULL_VALUE).then(|| percent_decode(value))))
        .collect()
}

/// The partition columns of a table of these files: `Int64` if every value is an integer, `Utf8` otherwise.
///
/// # Errors
/// If the files' folders have different keys.
pub(crate) fn infer_columns(files: &[FoundFile]) -> Result<Vec<Field>> {
    let Some(first) = files.first() else {
        return Ok(Vec::new());
    };
    let keys: Vec<&str> = parse(first).into_iter().map(|(key, _)| key).collect();
    let mut integers = vec![true; keys.len()];
    for file in files {
        let values = parse(file);
        if !values.iter().map(|(key, _)| key).eq(keys.iter()) {
            return plan_err!(
                "{}: its folders are partitioned by [{}], but those of {} by [{}]",
                file.name,
                values.iter().map(|(key, _)| *key).collect::<Vec<_>>().join(", "),
                first.name,
                keys.join(", ")
            );
        }
        for ((_, value), integer) in values.iter().zip(&mut integers) {
            *integer &= value.as_ref().is_none_or(|value| value.parse::<i64>().is_ok());
        }
    }
    let data_type = |integer| if integer { DataType::Int64 } else { DataType::Utf8 };
    Ok(keys
        .into_iter()
        .zip(integers)
        .map(|(key, integer)| Field::new(key, data_type(integer), true))
        .collect())
}

/// The values of the partition columns for `file`.
///
/// # Errors
/// If the keys of the file's folders are not those of `columns`.
pub(crate) fn values(file: &FoundFile, columns: &[Field]) -> Result<Vec<ScalarValue>> {
    let found = parse(file);
    if !found
        .iter()
        .map(|(key, _)| *key)
        .eq(columns.iter().map(|column| column.name().as_str()))
    {
        return plan_err!(
            "{}: its folders are partitioned by other keys than the table",
            file.name
        );
    }
    let mut values = Vec::with_capacity(columns.len());
    for (column, (key, text)) in columns.iter().zip(found) {
        values.push(match (column.data_type(), text) {
            (DataType::Int64, None) => ScalarValue::Int64(None),
            (DataType::Int64, Some(text)) => match text.parse() {
                Ok(integer) => ScalarValue::Int64(Some(integer)),
                Err(_) => {
                    return plan_err!(
                        "{}: partition value {key}={text} is not an integer like the others; create the table again",
                        file.name
                    );
                }
            },
            (_, text) => ScalarValue::Utf8(text),
        });
    }
    Ok(values)
}

/// Decodes escapes such as `%3A`. Other text stays as it is.
fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::file::{Identity, Place};

    fn file(folders: &[&str]) -> FoundFile {
        FoundFile {
            name: folders.join("/").into(),
            place: Place::Local(PathBuf::new()),
            identity: Identity {
                length: 1,
                modified_ns: 0,
                inode: None,
                etag: None,
            },
            folders: folders.iter().map(|&folder| folder.to_owned()).collect(),
            is_named: false,
        }
    }

    #[test]
    fn partition_types_follow_from_all_values() {
        let files = [
            file(&["year=2019", "plain", "zone=JFK%2FQueens"]),
            file(&["year=__HIVE_DEFAULT_PARTITION__", "zone=7"]),
        ];
        let columns = infer_columns(&files).unwrap();
        assert_eq!(columns[0], Field::new("year", DataType::Int64, true));
        assert_eq!(columns[1], Field::new("zone", DataType::Utf8, true));
        assert_eq!(
            values(&files[0], &columns).unwrap(),
            [
                ScalarValue::Int64(Some(2019)),
                ScalarValue::Utf8(Some("JFK/Queens".into()))
            ]
        );
        assert_eq!(values(&files[1], &columns).unwrap()[0], ScalarValue::Int64(None));
        assert!(values(&file(&["year=x", "zone=1"]), &columns).is_err());
    }

    #[test]
    fn infer_columns_names_the_file_with_different_keys() {
        let error = infer_columns(&[file(&["a=1"]), file(&["b=1"])])
            .unwrap_err()
            .to_string();
        assert!(error.contains("b=1: its folders are partitioned by [b]"), "{error}");
    }
}
