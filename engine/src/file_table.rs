//! [`open`]: a table of files of any format that the session reads, chosen by the end of the location.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::plan_err;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig};
use datafusion::error::Result;
use datafusion::execution::SessionState;

use crate::orc_table::OrcTable;
use crate::redaction::without_passwords;
use crate::store::secrets::Secrets;
use crate::store::store_location::listing_url;

/// A format of files other than ORC.
struct Format {
    /// The end of file names.
    end: &'static str,
    /// The format's name in DataFusion.
    name: &'static str,
    /// Where values are not separated by commas.
    delimiter: Option<&'static str>,
}

const fn format(end: &'static str, name: &'static str) -> Format {
    let delimiter = None;
    Format { end, name, delimiter }
}

const FORMATS: [Format; 9] = [
    format(".csv", "csv"),
    Format {
        end: ".tsv",
        name: "csv",
        delimiter: Some("\t"),
    },
    format(".json", "json"),
    format(".ndjson", "json"),
    format(".jsonl", "json"),
    format(".arrow", "arrow"),
    format(".feather", "arrow"),
    format(".ipc", "arrow"),
    format(".parquet", "parquet"),
];

/// The ends of compressed text files, with the names that DataFusion has for their compressions.
const COMPRESSIONS: [(&str, &str); 4] = [(".gz", "gzip"), (".bz2", "bzip2"), (".xz", "xz"), (".zst", "zstd")];

/// Whether a name ends as files of one of the formats do, ORC included.
pub(crate) fn has_known_end(name: &str) -> bool {
    let (lower, _) = uncompressed(name);
    lower.ends_with(".orc") || format_of(&lower).is_some()
}

/// The name in small letters without the end of a compression, and the compression.
fn uncompressed(name: &str) -> (String, Option<(&'static str, &'static str)>) {
    let lower = name.to_ascii_lowercase();
    let compression = COMPRESSIONS.into_iter().find(|(end, _)| lower.ends_with(end));
    let length = lower.len() - compression.map_or(0, |(end, _)| end.len());
    (lower[..length].to_owned(), compression)
}

/// The format of a location in small letters that does not hold ORC.
fn format_of(lower: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| lower.ends_with(format.end))
}

/// The compression of text files that all have one of its ends.
pub(crate) fn compression_of(format: &str, locations: &[String]) -> Option<&'static str> {
    let is_text = ["csv", "json", "ndjson"]
        .iter()
        .any(|text| format.eq_ignore_ascii_case(text));
    let mut found = locations.iter().map(|location| uncompressed(location).1);
    let (_, first) = found.next().flatten().filter(|_| is_text)?;
    found
        .all(|other| other.is_some_and(|(_, name)| name == first))
        .then_some(first)
}

/// Opens the files at `location` (file, folder, glob or URL). The end of the location decides the format:
///
/// - `.csv`, `.tsv`, `.arrow`, `.feather`, `.ipc`, `.parquet` as they say; the first line of CSV and TSV has the names;
/// - `.json`, `.ndjson` and `.jsonl`: one object per line;
/// - these text files with `.gz`, `.bz2`, `.xz` or `.zst` after that: compressed;
/// - anything else is ORC.
///
/// # Errors
/// As [`OrcTable::open`]; if there is no such file, or the session does not read the format.
pub(crate) async fn open(state: &SessionState, location: &str) -> Result<Arc<dyn TableProvider>> {
    let secrets = state.config().get_extension::<Secrets>();
    let hidden = secrets.map_or_else(|| location.to_owned(), |secrets| secrets.hide_password(location));
    let location = hidden.as_str();
    let shown = without_passwords(location);
    let (lower, compression) = uncompressed(location);
    let Some(Format { end, name, delimiter }) = format_of(&lower) else {
        if let Some((end, _)) = compression.filter(|_| lower.ends_with(".orc")) {
            return plan_err!("{shown}: an ORC file inside a {end} file: unpack it first");
        }
        return Ok(Arc::new(OrcTable::open(state, &[location.to_owned()]).await?));
    };
    if let Some((end, _)) = compression.filter(|_| !["csv", "json"].contains(name)) {
        return plan_err!("{shown}: a {name} file inside a {end} file: unpack it first");
    }
    let Some(factory) = state.get_file_format_factory(name) else {
        return plan_err!("{shown}: this program does not read {name} files");
    };
    let is_pattern = location.contains(['*', '?', '[']);
    if !location.contains("://") && !is_pattern && !std::path::Path::new(location).exists() {
        return plan_err!("{shown}: no such file or folder");
    }
    let mut options = HashMap::new();
    if let Some(delimiter) = delimiter {
        options.insert("format.delimiter".to_owned(), (*delimiter).to_owned());
    }
    if let Some((_, compression)) = compression {
        options.insert("format.compression".to_owned(), compression.to_owned());
    }
    let format = factory.create(state, &options)?;
    let end_bytes = end.len() + compression.map_or(0, |(end, _)| end.len());
    let listing = ListingOptions::new(format).with_file_extension(location[location.len() - end_bytes..].to_owned());
    let url = listing_url(location)?;
    let config = ListingTableConfig::new(url).with_listing_options(listing);
    let config = match config.infer_schema(state).await {
        Err(error) if error.message().starts_with("No files found at") => {
            return plan_err!("{shown}: no {name} file there");
        }
        inferred => inferred?,
    };
    if config
        .file_schema
        .as_ref()
        .is_none_or(|schema| schema.fields().is_empty())
    {
        return plan_err!("{shown}: there is no {name} file with columns");
    }
    Ok(Arc::new(ListingTable::try_new(config)?))
}
