//! [`split`]: the OPTIONS of a statement, divided into those of stores and those of the format.

use std::collections::HashMap;

use datafusion::common::config::{ConfigFileType, TableOptions};
use datafusion::common::config_err;
use datafusion::error::Result;

use crate::output::write_options;
use crate::store::store_kind::{StoreKind, StoreOptions, near, option_name};
use crate::store::store_location::kind_of;

/// The statement that has the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Statement {
    CreateTable,
    Copy,
}

/// Options of `COPY` for all formats.
const COPY_OPTIONS: [&str; 2] = ["single_file_output", "execution.keep_partition_by_columns"];
const KINDS: [StoreKind; 3] = [StoreKind::S3, StoreKind::Google, StoreKind::Azure];

/// Options of stores that are no secrets, without the prefix of the store.
const HARMLESS: [&str; 21] = [
    "allow_http",
    "allow_invalid_certificates",
    "bucket",
    "bucket_name",
    "checksum_algorithm",
    "connect_timeout",
    "container_name",
    "default_region",
    "endpoint",
    "endpoint_url",
    "http1_only",
    "http2_only",
    "region",
    "request_payer",
    "s3_express",
    "server_side_encryption",
    "skip_signature",
    "timeout",
    "unsigned_payload",
    "use_emulator",
    "virtual_hosted_style_request",
];

/// Whether the value of an option may be shown: the option is one of the format, or known of a store. Without a format,
/// the end of a file's name says which it is.
pub(super) fn is_harmless(name: &str, format: Option<&str>) -> bool {
    let lower = name.to_ascii_lowercase();
    let plain = lower.strip_prefix("format.").unwrap_or(&lower);
    let formats = format.map_or_else(|| vec!["ORC", "CSV", "JSON", "PARQUET"], |format| vec![format]);
    let of_format = formats.into_iter().filter_map(format_options).flatten();
    let store_name = plain.replace('.', "_");
    let prefixes = KINDS.iter().filter_map(|kind| kind.prefix());
    let mut prefixes = prefixes.filter_map(|prefix| store_name.strip_prefix(prefix));
    let store_name = prefixes.next().unwrap_or(&store_name);
    COPY_OPTIONS.contains(&plain)
        || HARMLESS.contains(&store_name)
        || of_format
            .into_iter()
            .any(|known| known == plain.split("::").next().unwrap_or(""))
}

/// The options of the stores at `locations`, and all others, which are checked to be options of the format.
///
/// `aws.region`, `aws_region` and `region` are one option of a store.
///
/// # Errors
/// If an option is neither. The error has the names that are near.
pub(super) fn split(
    statement: Statement,
    format: &str,
    locations: &[String],
    options: &HashMap<String, String>,
) -> Result<(StoreOptions, HashMap<String, String>)> {
    let kinds: Vec<StoreKind> = locations.iter().filter_map(|location| kind_of(location)).collect();
    let names = format_options(format);
    let mut stores = StoreOptions::new();
    let mut others = HashMap::new();
    for (key, value) in options {
        let plain = key.strip_prefix("format.").unwrap_or(key).to_ascii_lowercase();
        let store_name = plain.replace('.', "_");
        let is_format = |names: &Vec<String>| names.iter().any(|name| name == plain.split("::").next().unwrap_or(""));
        let is_copy = statement == Statement::Copy && COPY_OPTIONS.contains(&plain.as_str());
        if is_copy || names.as_ref().is_some_and(is_format) {
            others.insert(key.clone(), value.clone());
        } else if !kinds.is_empty() && kinds.iter().all(|kind| kind.has_option(&store_name)) {
            stores.insert(store_name, value.clone());
        } else if kinds.is_empty() && is_of_a_store(&store_name) {
            return config_err!("the option {plain} is for stores, and the location is a local path");
        } else if let Some(names) = &names {
            return unknown(statement, format, &plain, names, &kinds);
        } else {
            others.insert(key.clone(), value.clone());
        }
    }
    Ok((stores, others))
}

/// Whether a name with a store's prefix is one of its options.
fn is_of_a_store(name: &str) -> bool {
    KINDS
        .iter()
        .any(|kind| kind.prefix().is_some_and(|prefix| name.starts_with(prefix)) && kind.has_option(name))
}

/// The options of a format by name; `None` if the format checks them itself.
fn format_options(format: &str) -> Option<Vec<String>> {
    let file_type = match format.to_ascii_uppercase().as_str() {
        "ORC" => return Some(write_options::NAMES.map(str::to_owned).to_vec()),
        "ARROW" => return Some(Vec::new()),
        "CSV" => ConfigFileType::CSV,
        "JSON" | "NDJSON" => ConfigFileType::JSON,
        "PARQUET" => ConfigFileType::PARQUET,
        _ => return None,
    };
    let mut options = TableOptions::default();
    options.set_config_format(file_type);
    let entries = options.entries().into_iter();
    let names = entries.filter_map(|entry| entry.key.strip_prefix("format.").map(str::to_owned));
    Some(names.collect())
}

fn unknown<T>(
    statement: Statement,
    format: &str,
    name: &str,
    format_names: &[String],
    kinds: &[StoreKind],
) -> Result<T> {
    /// A list of more names is no help.
    const LISTED: usize = 12;
    let mut names: Vec<String> = format_names.to_vec();
    names.extend(
        kinds
            .iter()
            .flat_map(|kind| kind.usual_options())
            .map(|name| option_name(&name)),
    );
    if statement == Statement::Copy {
        names.extend(COPY_OPTIONS.map(str::to_owned));
    }
    let wanted = option_name(name);
    let near = near(&wanted, names.iter().map(String::as_str));
    let meant = match near[..] {
        [] if format_names.is_empty() => String::new(),
        [] if format_names.len() <= LISTED => format!("; the format's options are {}", format_names.join(", ")),
        [] => String::new(),
        _ => format!("; did you mean {}?", near.join(" or ")),
    };
    let format = format.to_ascii_uppercase();
    let place = if kinds.is_empty() {
        ""
    } else {
        " or of the location's store"
    };
    config_err!("{wanted} is no option of {format}{place}{meant}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    fn refused(format: &str, location: &str, name: &str) -> String {
        let options = options(&[(name, "1")]);
        let split = split(Statement::CreateTable, format, &[location.to_owned()], &options);
        split.unwrap_err().strip_backtrace()
    }

    #[test]
    fn options_go_to_the_store_or_to_the_format() {
        let given = options(&[
            ("format.delimiter", ";"),
            ("aws.region", "eu-west-1"),
            ("format.aws_skip_signature", "true"),
            ("format.endpoint", "http://localhost:9000"),
        ]);
        let (stores, others) = split(Statement::CreateTable, "CSV", &["s3://b/a.csv".to_owned()], &given).unwrap();
        let names: Vec<&str> = stores.keys().map(String::as_str).collect();
        assert_eq!(names, ["aws_region", "aws_skip_signature", "endpoint"]);
        assert_eq!(others, options(&[("format.delimiter", ";")]));
        let copy = options(&[("format.single_file_output", "true"), ("format.compression::a", "zstd")]);
        let (_, others) = split(Statement::Copy, "parquet", &["/tmp/x".to_owned()], &copy).unwrap();
        assert_eq!(others, copy);
    }

    #[test]
    fn unknown_options_are_refused_with_near_names() {
        for (format, location, name, expected) in [
            ("ORC", "s3://b/a.orc", "aws.regoin", "did you mean aws.region?"),
            (
                "ORC",
                "s3://b/a.orc",
                "format.aws_acess_key_id",
                "did you mean aws.access_key_id?",
            ),
            ("CSV", "a.csv", "format.delimeter", "did you mean delimiter?"),
            (
                "PARQUET",
                "gs://b/a.parquet",
                "aws.region",
                "aws.region is no option of PARQUET or of the",
            ),
            (
                "ARROW",
                "a.arrow",
                "format.delimiter",
                "delimiter is no option of ARROW",
            ),
            (
                "ORC",
                "a.orc",
                "format.delimiter",
                "the format's options are compression, chunk_size",
            ),
            (
                "ORC",
                "a.orc",
                "aws.region",
                "is for stores, and the location is a local path",
            ),
            ("CSV", "a.csv", "format.single_file_output", "is no option of CSV"),
        ] {
            let error = refused(format, location, name);
            assert!(error.contains(expected), "{error}");
        }
    }
}
