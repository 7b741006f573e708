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

/// The source of the partition columns' types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartitionTypes {
    /// The values of the folders that the table had when it was opened.
    Inferred,
    /// The statement that made the table.
    Declared,
}

/// Whether a text is the only one of an integer. `007`, `+5` and `-0` are none, because they would lose characters.
fn is_integer(text: &str) -> bool {
    text.parse::<i64>().is_ok_and(|integer| integer.to_string() == text)
}

/// Whether a text has two digits, as months, days and hours have in names of folders: `month=01`.
fn has_two_digits(text: &str) -> bool {
    text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The partition columns of a table of these files: `Int64` if every value is the text of an integer, or if every value
/// has two digits; `Utf8` otherwise. A type in `declared` holds whatever the values are.
///
/// # Errors
/// If the files' folders have different keys.
pub(crate) fn columns_of(files: &[FoundFile], declared: &[Field]) -> Result<Vec<Field>> {
    let Some(first) = files.first() else {
        return Ok(Vec::new());
    };
    let keys: Vec<&str> = parse(first).into_iter().map(|(key, _)| key).collect();
    let mut integers = vec![(true, true); keys.len()];
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
        for ((_, value), (are_integers, have_two_digits)) in values.iter().zip(&mut integers) {
            *are_integers &= value.as_deref().is_none_or(is_integer);
            *have_two_digits &= value.as_deref().is_none_or(has_two_digits);
        }
    }
    let data_type = |(are_integers, have_two_digits)| match are_integers || have_two_digits {
        true => DataType::Int64,
        false => DataType::Utf8,
    };
    Ok(keys
        .into_iter()
        .zip(integers)
        .map(
            |(key, integer)| match declared.iter().find(|field| field.name() == key) {
                Some(field) => field.clone(),
                None => Field::new(key, data_type(integer), true),
            },
        )
        .collect())
}

/// The values of the partition columns for `file`.
///
/// # Errors
/// If the keys of the file's folders are not those of `columns`, or a value is no integer of an `Int64` column. In an
/// inferred column, an integer is written as `Int64` prints it, or with two digits.
pub(crate) fn values(file: &FoundFile, columns: &[Field], types: PartitionTypes) -> Result<Vec<ScalarValue>> {
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
            (DataType::Int64, Some(text)) => match (text.parse(), types) {
                (Ok(integer), PartitionTypes::Declared) => ScalarValue::Int64(Some(integer)),
                (Ok(integer), PartitionTypes::Inferred) if is_integer(&text) || has_two_digits(&text) => {
                    ScalarValue::Int64(Some(integer))
                }
                (_, PartitionTypes::Declared) => {
                    return plan_err!(
                        "{}: partition value {key}={text} is no BIGINT, as {key} is declared: declare {key} VARCHAR",
                        file.name
                    );
                }
                (_, PartitionTypes::Inferred) => {
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
        let columns = columns_of(&files, &[]).unwrap();
        assert_eq!(columns[0], Field::new("year", DataType::Int64, true));
        assert_eq!(columns[1], Field::new("zone", DataType::Utf8, true));
        assert_eq!(
            values(&files[0], &columns, PartitionTypes::Inferred).unwrap(),
            [
                ScalarValue::Int64(Some(2019)),
                ScalarValue::Utf8(Some("JFK/Queens".into()))
            ]
        );
        let values = |file: &FoundFile| values(file, &columns, PartitionTypes::Inferred);
        assert_eq!(values(&files[1]).unwrap()[0], ScalarValue::Int64(None));
        for year in ["x", "007", "+5", "-0", "1e3", " 7", "7 ", "", "9223372036854775808"] {
            assert!(values(&file(&[&format!("year={year}"), "zone=1"])).is_err(), "{year:?}");
        }
    }

    #[test]
    fn texts_that_an_integer_would_change_stay_text() {
        let type_of = |texts: &[&str]| {
            let files: Vec<FoundFile> = texts.iter().map(|text| file(&[&format!("k={text}")])).collect();
            columns_of(&files, &[]).unwrap()[0].data_type().clone()
        };
        for texts in [&["0", "-7", "501"][..], &["9223372036854775807", NULL_VALUE]] {
            assert_eq!(type_of(texts), DataType::Int64, "{texts:?}");
        }
        // Months and hours; but 1 and 01, and 01 and 501, are no such texts.
        for texts in [&["01", "02", "12"][..], &["00", NULL_VALUE, "23"]] {
            assert_eq!(type_of(texts), DataType::Int64, "{texts:?}");
        }
        for texts in [&["01", "1"][..], &["01", "501"], &["01", "002"]] {
            assert_eq!(type_of(texts), DataType::Utf8, "{texts:?}");
        }
        for text in [
            "007",
            "000",
            "+5",
            "-0",
            "-07",
            "1e3",
            "1.0",
            " 7",
            "7 ",
            "",
            "true",
            "2020-01-01",
            "0x1",
            "9223372036854775808",
        ] {
            assert_eq!(type_of(&[text]), DataType::Utf8, "{text:?}");
            assert_eq!(type_of(&["501", text, NULL_VALUE]), DataType::Utf8, "{text:?}");
        }
    }

    #[test]
    fn declared_types_win() {
        let files = [file(&["zip=501", "month=07"])];
        let declared = [
            Field::new("month", DataType::Int64, true),
            Field::new("zip", DataType::Utf8, true),
        ];
        let columns = columns_of(&files, &declared).unwrap();
        assert_eq!(
            values(&files[0], &columns, PartitionTypes::Declared).unwrap(),
            [ScalarValue::Utf8(Some("501".into())), ScalarValue::Int64(Some(7))]
        );
        let error = values(&file(&["zip=1", "month=x"]), &columns, PartitionTypes::Declared).unwrap_err();
        assert!(error.to_string().contains("month=x is no BIGINT"), "{error}");
    }

    #[test]
    fn columns_of_names_the_file_with_different_keys() {
        let error = columns_of(&[file(&["a=1"]), file(&["b=1"])], &[])
            .unwrap_err()
            .to_string();
        assert!(error.contains("b=1: its folders are partitioned by [b]"), "{error}");
    }
}
