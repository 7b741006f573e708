//! [`open`]: a table of files of any format that the session reads, chosen by the end of the location.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::plan_err;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::Result;
use datafusion::execution::SessionState;

use crate::orc_table::OrcTable;

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

/// Whether a name ends as files of one of the formats do, ORC included.
pub(crate) fn has_known_end(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with(".orc") || format_of(name).is_some()
}

/// The format of a location that does not hold ORC.
fn format_of(location: &str) -> Option<&'static Format> {
    let lower = location.to_ascii_lowercase();
    FORMATS.iter().find(|format| lower.ends_with(format.end))
}

/// Opens the files at `location` (file, folder, glob or URL). The end of the location decides the format:
///
/// - `.csv`, `.tsv`, `.arrow`, `.feather`, `.ipc`, `.parquet` as they say; the first line of CSV and TSV has the names;
/// - `.json`, `.ndjson` and `.jsonl`: one object per line;
/// - anything else is ORC.
///
/// # Errors
/// As [`OrcTable::open`]; if there is no such file, or the session does not read the format.
pub(crate) async fn open(state: &SessionState, location: &str) -> Result<Arc<dyn TableProvider>> {
    let Some(Format { end, name, delimiter }) = format_of(location) else {
        return Ok(Arc::new(OrcTable::open(state, &[location.to_owned()]).await?));
    };
    let Some(factory) = state.get_file_format_factory(name) else {
        return plan_err!("{location}: this program does not read {name} files");
    };
    let is_pattern = location.contains(['*', '?', '[']);
    if !location.contains("://") && !is_pattern && !std::path::Path::new(location).exists() {
        return plan_err!("{location}: no such file or folder");
    }
    let delimiter = delimiter.map(|delimiter| ("format.delimiter".to_owned(), delimiter.to_owned()));
    let options: HashMap<String, String> = delimiter.into_iter().collect();
    let format = factory.create(state, &options)?;
    let listing = ListingOptions::new(format).with_file_extension(location[location.len() - end.len()..].to_owned());
    let url = ListingTableUrl::parse(location)?;
    let config = ListingTableConfig::new(url).with_listing_options(listing);
    let config = config.infer_schema(state).await?;
    if config
        .file_schema
        .as_ref()
        .is_none_or(|schema| schema.fields().is_empty())
    {
        return plan_err!("{location}: there is no {name} file with columns");
    }
    Ok(Arc::new(ListingTable::try_new(config)?))
}
