//! The OPTIONS of `COPY … TO` and `CREATE EXTERNAL TABLE` as [`WriterProperties`].

use std::collections::HashMap;

use datafusion::common::config_err;
use datafusion::error::Result;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::WriterProperties;

/// The names that OPTIONS may have.
pub(crate) const NAMES: [&str; 7] = [
    "compression",
    "chunk_size",
    "number_chunk_size",
    "row_group_rows",
    "stripe_rows",
    "direct_columns",
    "bloom_filter_columns",
];
/// The writer's options that `options` give.
///
/// # Errors
/// If a name is unknown or a value does not fit. The error names both.
pub(crate) fn writer_options(options: &HashMap<String, String>) -> Result<WriterProperties> {
    let plain = |key: &str| key.strip_prefix("format.").unwrap_or(key).to_ascii_lowercase();
    let options: Vec<(String, &str)> = options
        .iter()
        .map(|(key, value)| (plain(key), value.as_str()))
        .collect();
    let find = |wanted: &str| options.iter().find(|(name, _)| name == wanted).map(|(_, value)| *value);
    let mut written = WriterProperties::on_demand(find("compression").map_or(Ok(None), codec)?);
    if let Some(size) = find("chunk_size") {
        written = written.with_chunks_of(count("chunk_size", size)?);
    }
    for (name, value) in &options {
        match name.as_str() {
            "compression" | "chunk_size" => {}
            "number_chunk_size" => written.number_chunk_size_bytes = Some(count(name, value)?),
            "row_group_rows" => {
                written.row_index_stride = u32::try_from(count(name, value)?).unwrap_or(u32::MAX);
            }
            "stripe_rows" => written.stripe_rows = count(name, value)?,
            "direct_columns" => written.direct_columns = columns(value),
            "bloom_filter_columns" => written.bloom_filter_columns = columns(value),
            // DataFusion's own, for all formats.
            _ if name.starts_with("execution.") => {}
            _ => return config_err!("ORC has no option {name}; its options are {}", NAMES.join(", ")),
        }
    }
    Ok(written)
}

fn codec(value: &str) -> Result<Option<Codec>> {
    Ok(match value.to_ascii_lowercase().as_str() {
        "none" | "uncompressed" => None,
        "zlib" => Some(Codec::Zlib),
        "snappy" => Some(Codec::Snappy),
        "lz4" => Some(Codec::Lz4),
        "zstd" => Some(Codec::Zstd),
        _ => return config_err!("compression is none, zlib, snappy, lz4 or zstd, not '{value}'"),
    })
}

fn count(name: &str, value: &str) -> Result<usize> {
    match value.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => config_err!("{name} is a number of at least 1, not '{value}'"),
    }
}

fn columns(value: &str) -> Vec<String> {
    value.split(',').map(|name| name.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, value: &str) -> Result<WriterProperties> {
        writer_options(&HashMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn options_name_the_writers_own() {
        assert_eq!(parse("format.compression", "ZSTD").unwrap().codec, Some(Codec::Zstd));
        let sizes = |name, value| {
            let options = parse(name, value).unwrap();
            (options.chunk_size_bytes, options.number_chunk_size_bytes)
        };
        assert_eq!(sizes("chunk_size", "5000"), (5000, None));
        assert_eq!(sizes("number_chunk_size", "5000").1, Some(5000));
        assert_eq!(parse("stripe_rows", "20000").unwrap().stripe_rows, 20_000);
        assert_eq!(parse("direct_columns", "a, b").unwrap().direct_columns, ["a", "b"]);
        for (name, value, expected) in [
            (
                "format.compression",
                "gzip",
                "none, zlib, snappy, lz4 or zstd, not 'gzip'",
            ),
            ("stripe_rows", "0", "stripe_rows is a number of at least 1, not '0'"),
            ("delimiter", ";", "ORC has no option delimiter"),
        ] {
            let error = parse(name, value).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
