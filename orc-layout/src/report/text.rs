//! [`ReportText`], a report as tables: `{}` is a summary, `{:#}` lists every stream, chunk count and entry point.

use std::fmt::{self, Write as _};

use super::{AccessReport, ColumnReport, FileReport, StatisticsReport, StripeColumnReport, StripeReport, is_index};

/// Stripes of the summary.
const MAX_STRIPES_SHOWN: usize = 12;
/// Row groups by column and stripe, even in full: the rest is in JSON.
const MAX_GROUPS_SHOWN: usize = 40;
/// Characters of a bound.
const MAX_TEXT_CHARS: usize = 30;

/// Tables of a report: `{}` is the summary, `{:#}` the full text.
pub(super) struct ReportText<'a> {
    pub(super) report: &'a FileReport,
}

impl fmt::Display for ReportText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        writeln!(f)?;
        write!(f, "{}", self.column_table())?;
        writeln!(f)?;
        let full = f.alternate();
        let shown = if full {
            self.report.stripes.len()
        } else {
            MAX_STRIPES_SHOWN
        };
        write!(
            f,
            "{}",
            stripe_table(&self.report.stripes[..shown.min(self.report.stripes.len())])
        )?;
        if let Some(hidden) = self
            .report
            .stripes
            .len()
            .checked_sub(shown)
            .filter(|&hidden| hidden > 0)
        {
            writeln!(f, "… and {hidden} more stripes")?;
        }
        if full {
            for stripe in &self.report.stripes {
                list_stripe(f, stripe)?;
            }
        }
        for entry in &self.report.user_metadata {
            let text = entry
                .text
                .as_deref()
                .map_or_else(|| format!("{} bytes", entry.length), shorten);
            writeln!(f, "metadata {}: {text}", entry.name)?;
        }
        for problem in &self.report.problems {
            writeln!(f, "problem: {problem}")?;
        }
        Ok(())
    }
}

impl ReportText<'_> {
    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = grouped(self.report.rows);
        let stripes = match self.report.stripes.len() {
            1 => "1 stripe".into(),
            count => format!("{count} stripes"),
        };
        writeln!(
            f,
            "{}: {}, {rows} rows, {stripes}",
            self.report.file,
            size(self.report.file_length)
        )?;
        write!(
            f,
            "ORC {} by {} (version {})",
            self.report.format_version, self.report.writer, self.report.writer_version
        )?;
        match &self.report.compression {
            Some(c) => write!(f, ", {} in chunks of up to {}", c.codec, size(c.block_size_bytes))?,
            None => write!(f, ", not compressed")?,
        }
        match self.report.row_index_stride {
            Some(stride) => writeln!(f, ", row groups of {} rows", grouped(stride.into())),
            None => writeln!(f, ", no row index"),
        }
    }

    fn column_table(&self) -> Table {
        let mut table = Table::new(&[
            "#>", "column", "type", "bytes>", "encoding", "read", "values>", "min", "max",
        ]);
        for column in self.report.columns.iter().filter(|column| column.id != 0) {
            let statistics = column.statistics.clone().unwrap_or_default();
            table.row([
                column.id.to_string(),
                column.name.clone(),
                column.kind.clone(),
                size(column.data_bytes),
                column.encodings.join(" "),
                self.read_as(column),
                statistics.values.map_or(String::new(), grouped),
                bound(&statistics.min),
                bound(&statistics.max),
            ]);
        }
        table
    }

    /// Access in all stripes: "direct", "decode", or the number of direct stripes.
    fn read_as(&self, column: &ColumnReport) -> String {
        match column.direct_stripes {
            _ if column.encrypted => "encrypted".into(),
            0 => "decode".into(),
            all if all == self.report.stripes.len() => "direct".into(),
            some => format!("direct in {some} of {} stripes", self.report.stripes.len()),
        }
    }
}

fn stripe_table(stripes: &[StripeReport]) -> Table {
    let mut table = Table::new(&[
        "stripe>",
        "offset>",
        "first row>",
        "rows>",
        "row groups>",
        "index>",
        "data>",
        "footer>",
        "time zone",
    ]);
    for stripe in stripes {
        table.row([
            stripe.index.to_string(),
            stripe.offset.to_string(),
            grouped(stripe.first_row),
            grouped(stripe.rows),
            stripe.row_groups.to_string(),
            size(stripe.index_length),
            size(stripe.data_length),
            size(stripe.footer_length),
            stripe.writer_timezone.clone(),
        ]);
    }
    table
}

fn list_stripe(f: &mut fmt::Formatter<'_>, stripe: &StripeReport) -> fmt::Result {
    writeln!(f, "\nstripe {}", stripe.index)?;
    let mut table = Table::new(&[
        "#>", "column", "encoding", "stream", "offset>", "bytes>", "chunks", "read",
    ]);
    for column in &stripe.columns {
        for (k, stream) in column.streams.iter().enumerate() {
            let first = k == 0;
            let show = |text: String| if first { text } else { String::new() };
            let chunks = stream.chunks.as_ref().map_or(String::new(), |chunks| {
                format!("{} ({} original)", chunks.count, chunks.original)
            });
            table.row([
                show(column.id.to_string()),
                show(column.name.clone()),
                show(encoding(column)),
                stream.kind.clone(),
                stream.offset.to_string(),
                stream.length.to_string(),
                chunks,
                if is_index(&stream.kind) {
                    String::new()
                } else {
                    access(column, &stream.kind)
                },
            ]);
        }
    }
    write!(f, "{table}")?;
    for column in stripe.columns.iter().filter(|column| !column.row_groups.is_empty()) {
        list_row_groups(f, column)?;
    }
    Ok(())
}

fn encoding(column: &StripeColumnReport) -> String {
    match column.dictionary_size {
        0 => column.encoding.clone(),
        size => format!("{} of {size}", column.encoding),
    }
}

/// Access to the column, shown once: beside its DATA stream.
fn access(column: &StripeColumnReport, stream: &str) -> String {
    match &column.access {
        _ if stream != "DATA" => String::new(),
        AccessReport::Direct {
            width,
            segments,
            offset,
            alignment,
        } => {
            let runs = if *segments == 1 {
                String::new()
            } else {
                format!(", {segments} segments")
            };
            format!("direct: {width} bytes each from {offset}, aligned to {alignment}{runs}")
        }
        AccessReport::DecodeFromRowGroup => "decode from row groups".into(),
        AccessReport::DecodeFromStripe => "decode from the stripe's start".into(),
        AccessReport::Encrypted => "encrypted".into(),
        AccessReport::Unreadable => "cannot be read".into(),
    }
}

fn list_row_groups(f: &mut fmt::Formatter<'_>, column: &StripeColumnReport) -> fmt::Result {
    let bloom = column
        .bloom_filters
        .as_ref()
        .map_or(String::new(), |bloom| match bloom.usable {
            0 => ", bloom filters that cannot be trusted".into(),
            _ => format!(
                ", bloom filters of {} bits and {} hashes",
                bloom.bits, bloom.hash_functions
            ),
        });
    writeln!(f, "\nrow groups of column {} {}{bloom}", column.id, column.name)?;
    let mut table = Table::new(&["group>", "first row>", "rows>", "values>", "min", "max", "entry points"]);
    for (k, group) in column.row_groups.iter().take(MAX_GROUPS_SHOWN).enumerate() {
        let mut points = String::new();
        for point in &group.entry_points {
            let _ = write!(points, "{}@{}", point.stream, point.offset);
            for (sign, number) in [
                ("+", point.byte_in_chunk),
                (" skip ", point.values_to_skip),
                (" bits ", point.bits_to_skip.into()),
            ] {
                if number > 0 {
                    let _ = write!(points, "{sign}{number}");
                }
            }
            points.push_str("  ");
        }
        let StatisticsReport { values, min, max, .. } = &group.statistics;
        table.row([
            k.to_string(),
            grouped(group.first_row),
            grouped(group.rows),
            values.map_or(String::new(), grouped),
            bound(min),
            bound(max),
            points.trim_end().to_owned(),
        ]);
    }
    write!(f, "{table}")?;
    match column.row_groups.len().checked_sub(MAX_GROUPS_SHOWN) {
        Some(hidden @ 1..) => writeln!(f, "… and {hidden} more"),
        _ => Ok(()),
    }
}

fn bound(value: &Option<super::ValueReport>) -> String {
    value
        .as_ref()
        .map_or(String::new(), |value| shorten(&value.to_string()))
}

/// One line of at most [`MAX_TEXT_CHARS`] characters.
fn shorten(text: &str) -> String {
    let mut line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_TEXT_CHARS)
        .collect();
    if text.chars().nth(MAX_TEXT_CHARS).is_some() {
        line.pop();
        line.push('…');
    }
    line
}

/// 1234567 as "1,234,567".
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (k, digit) in digits.chars().enumerate() {
        if k > 0 && (digits.len() - k).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes with a unit: exact below 10 KiB.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 10 * 1024 {
        return format!("{} B", grouped(bytes));
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A table with columns as wide as their widest cell. A heading that ends in ">" marks a column of numbers, aligned
/// right.
struct Table {
    heads: Vec<(String, bool)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(heads: &[&str]) -> Self {
        let head = |head: &&str| match head.strip_suffix('>') {
            Some(head) => (head.to_owned(), true),
            None => (head.to_string(), false),
        };
        Self {
            heads: heads.iter().map(head).collect(),
            rows: vec![],
        }
    }

    fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads: Vec<String> = self.heads.iter().map(|(head, _)| head.clone()).collect();
        let lines = || std::iter::once(&heads).chain(&self.rows);
        let width = |k: usize| lines().map(|line| line[k].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        for line in lines() {
            let mut text = String::new();
            for ((cell, &width), (_, right)) in line.iter().zip(&widths).zip(&self.heads) {
                let _ = match right {
                    true => write!(text, "  {cell:>width$}"),
                    false => write!(text, "  {cell:<width$}"),
                };
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_cells_are_short() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!([9_999, 10_240, 5 << 20].map(size), ["9,999 B", "10.0 KiB", "5.0 MiB"]);
        assert_eq!(size(u64::MAX), "16.0 EiB");
        assert_eq!(shorten("two\nlines"), "two lines");
        assert_eq!(shorten(&"x".repeat(50)).chars().count(), MAX_TEXT_CHARS);
    }
}
