//! [`open`]: a table of files of any format that the session reads, chosen by the end of the location.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::plan_err;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig};
use datafusion::error::Result;
use datafusion::execution::SessionState;

use crate::files_table::{FileChooser, FilesTable};
use crate::orc_table::OrcTable;
use crate::redaction::without_passwords;
use crate::store::secrets::Secrets;
use crate::store::store_location::listing_url;
use crate::table::listing::FoundFile;
use crate::table::listings::{Freshness, files_at};

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

/// The format that the end of a name says, or the empty text, and the compression of a text file behind it. Values that
/// other signs than commas separate have no format of that name.
pub(crate) fn ends(name: &str) -> (&'static str, Option<&'static str>) {
    let (lower, compression) = uncompressed(name);
    let format = match format_of(&lower) {
        Some(format) if format.delimiter.is_none() => format.name,
        None if lower.ends_with(".orc") => "orc",
        _ => "",
    };
    let is_text = ["csv", "json"].contains(&format);
    (format, compression.filter(|_| is_text).map(|(_, name)| name))
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

/// How files are opened, where their ends do not say it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileChoice {
    /// `csv`, `json`, `arrow`, `parquet` or `orc`.
    pub(crate) format: Option<&'static str>,
    /// Options of the format, by DataFusion's names.
    pub(crate) options: HashMap<String, String>,
    /// Whether each row has its file, in the column `filename`.
    pub(crate) has_names: bool,
}

/// Opens the files at `location` (file, folder, glob or URL). The end of the location decides the format:
///
/// - `.csv`, `.tsv`, `.arrow`, `.feather`, `.ipc`, `.parquet` as they say; the first line of CSV and TSV has the names;
/// - `.json`, `.ndjson` and `.jsonl`: one object per line;
/// - these text files with `.gz`, `.bz2`, `.xz` or `.zst` after that: compressed;
/// - a folder, or a glob without such an end, has the format of the files inside;
/// - anything else is ORC.
///
/// # Errors
/// As [`OrcTable::open`]; if there is no such file, the session does not read the format, or a folder has files of
/// several formats.
pub(crate) async fn open(state: &SessionState, location: &str) -> Result<Arc<dyn TableProvider>> {
    open_as(state, &[location.to_owned()], &FileChoice::default()).await
}

/// Opens the files at `locations` as one table, as a choice says.
///
/// # Errors
/// As [`open`], and if ORC files are to have options or names.
pub(crate) async fn open_as(
    state: &SessionState,
    locations: &[String],
    choice: &FileChoice,
) -> Result<Arc<dyn TableProvider>> {
    let secrets = state.config().get_extension::<Secrets>();
    let hide = |location: &String| {
        let location = with_home(location);
        secrets
            .as_ref()
            .map_or_else(|| location.clone(), |secrets| secrets.hide_password(&location))
    };
    let locations: Vec<String> = locations.iter().map(hide).collect();
    let Some(first) = locations.first() else {
        return plan_err!("no file is named");
    };
    let is_unsaid = choice.format.is_none() && format_of(&uncompressed(first).0).is_none();
    if is_unsaid && uncompressed(first).1.is_none() {
        // Only if they are no ORC files is looked what they are: a listing of a store takes long.
        let orc = open_orc(state, &locations, choice).await;
        let Err(error) = orc else {
            return orc;
        };
        return match file_inside(state, &locations).await? {
            Some(file) => open_others(state, &locations, &file, choice, true).await,
            None => Err(error),
        };
    }
    open_others(state, &locations, first, choice, false).await
}

/// Opens files that have the format and compression of `sample`, if the choice says no other. With `is_inside`, the
/// sample lies in a folder or fits a glob that does not say its end.
async fn open_others(
    state: &SessionState,
    locations: &[String],
    sample: &str,
    choice: &FileChoice,
    is_inside: bool,
) -> Result<Arc<dyn TableProvider>> {
    let shown = without_passwords(sample);
    let (lower, compression) = uncompressed(sample);
    let by_end = format_of(&lower);
    let name = choice.format.or(by_end.map(|format| format.name)).unwrap_or("orc");
    if let Some((end, _)) = compression.filter(|_| !["csv", "json"].contains(&name)) {
        let (article, name) = if name == "orc" { ("an", "ORC") } else { ("a", name) };
        return plan_err!("{shown}: {article} {name} file inside a {end} file: unpack it first");
    }
    if name == "orc" {
        return open_orc(state, locations, choice).await;
    }
    let Some(factory) = state.get_file_format_factory(name) else {
        return plan_err!("{shown}: this program does not read {name} files");
    };
    let mut options = HashMap::new();
    if let Some(delimiter) = by_end.and_then(|format| format.delimiter) {
        options.insert("format.delimiter".to_owned(), delimiter.to_owned());
    }
    if let Some((_, compression)) = compression {
        options.insert("format.compression".to_owned(), compression.to_owned());
    }
    options.extend(choice.options.clone());
    let format = factory.create(state, &options)?;
    if let ([location], Some(by_end), None, false) = (locations, by_end, choice.format, is_inside)
        && is_in_one_folder(location)
    {
        let end_bytes = by_end.end.len() + compression.map_or(0, |(end, _)| end.len());
        return listing(state, location, name, format, end_bytes).await;
    }
    let chooser = FileChooser {
        locations: locations.to_vec(),
        format: name,
        has_format: |file, format| format_of(&uncompressed(file).0).is_some_and(|other| other.name == format),
    };
    if chooser.files(state).await?.is_empty() {
        return match locations.iter().find(|location| is_missing(location)) {
            Some(missing) => plan_err!("{}: no such file or folder", without_passwords(missing)),
            None => plan_err!("{shown}: no {name} file there"),
        };
    }
    Ok(Arc::new(
        FilesTable::open(state, format, chooser, choice.has_names).await?,
    ))
}

async fn open_orc(state: &SessionState, locations: &[String], choice: &FileChoice) -> Result<Arc<dyn TableProvider>> {
    if choice.has_names || !choice.options.is_empty() {
        return plan_err!("ORC files are read without options: read_orc('path')");
    }
    Ok(Arc::new(OrcTable::open(state, locations).await?))
}

/// A path with the user's home folder in the place of `~`.
fn with_home(location: &str) -> String {
    match (location.strip_prefix("~/"), std::env::var("HOME")) {
        (Some(rest), Ok(home)) => format!("{home}/{rest}"),
        _ => location.to_owned(),
    }
}

/// Whether a local path without wildcards names nothing.
fn is_missing(location: &str) -> bool {
    let is_pattern = location.contains(['*', '?', '[']);
    !location.contains("://") && !is_pattern && !std::path::Path::new(location).exists()
}

/// Whether wildcards stand in the last part of a location alone, and the location is no folder.
fn is_in_one_folder(location: &str) -> bool {
    let folders = location.rsplit_once('/').map_or("", |(folders, _)| folders);
    !folders.contains(['*', '?', '[']) && !std::path::Path::new(location).is_dir()
}

/// A file of another format than ORC in folders and globs. `None`: their files are ORC, or there are none.
///
/// # Errors
/// If the files are of several formats.
async fn file_inside(state: &SessionState, locations: &[String]) -> Result<Option<String>> {
    let is_folder = |location: &String| {
        location.ends_with('/') || location.contains(['*', '?', '[']) || std::path::Path::new(location).is_dir()
    };
    if !locations.iter().all(is_folder) {
        return Ok(None);
    }
    let found = files_at(state, locations, true, Freshness::OfStatement).await?;
    let format = |file: &FoundFile| format_of(&uncompressed(&file.name).0).map_or("orc", |format| format.name);
    let Some(first) = found.first() else {
        return Ok(None);
    };
    match found.iter().find(|file| format(file) != format(first)) {
        Some(other) if format(first) != "orc" || format(other) != "orc" => plan_err!(
            "{} and {} are files of different formats: name those of one, as in '*.{}'",
            first.name,
            other.name,
            format(first)
        ),
        _ => Ok((format(first) != "orc").then(|| first.name.to_string())),
    }
}

/// The files of one location, as DataFusion lists them.
async fn listing(
    state: &SessionState,
    location: &str,
    name: &str,
    format: Arc<dyn FileFormat>,
    end_bytes: usize,
) -> Result<Arc<dyn TableProvider>> {
    let shown = without_passwords(location);
    if is_missing(location) {
        return plan_err!("{shown}: no such file or folder");
    }
    let end = location[location.len() - end_bytes..].to_owned();
    let listing = ListingOptions::new(format).with_file_extension(end);
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
