//! [`Format`]: how results are printed.

use clap::ValueEnum;

/// How results are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns for people
    #[default]
    Table,
    /// Aligned columns between lines, in files too
    Box,
    /// A table of Markdown
    Markdown,
    /// One line `name = value` for each value
    Line,
    /// Each value on a line of its own, below the row's number, as \x prints them
    Vertical,
    /// Comma-separated values with a header line; NULL is a field of nothing, the empty text is ""
    Csv,
    /// Tab-separated values with a header line; otherwise like csv
    Tsv,
    /// One JSON array of objects per query
    Json,
    /// One JSON object per line
    Ndjson,
    /// One INSERT statement per row, into the table "table"; \format insert NAME names another
    Insert,
}

impl Format {
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
