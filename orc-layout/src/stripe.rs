//! [`StripeLayout`], one stripe's footer: streams with absolute offsets, encodings, and the writer's time zone.

use std::ops::Range;

use bytes::Bytes;

use crate::chunk;
use crate::error::{Result, Section};
use crate::proto;
use crate::schema::{ColumnId, TypeKind};
use crate::tail::{FileTail, StripeInfo};
use crate::wire;

/// One stream of a stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Column of the stream.
    pub column: ColumnId,
    /// Kind of the stream.
    pub kind: proto::stream::Kind,
    /// Absolute file offset of its first byte.
    pub offset: u64,
    /// Stored (compressed) bytes.
    pub length: u64,
}

impl Stream {
    /// Absolute byte range of the stream.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.length
    }
}

/// Encoding of a column in a stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoding {
    /// DIRECT, DIRECT_V2, DICTIONARY, DICTIONARY_V2.
    pub kind: proto::column_encoding::Kind,
    /// Entries of the dictionary, 0 for direct encodings.
    pub dictionary_size: u32,
}

/// Layout of one stripe.
#[derive(Debug, Clone)]
pub struct StripeLayout {
    /// The stripe's place in the file.
    pub info: StripeInfo,
    /// All streams, in file order; each lies inside the stripe.
    pub streams: Vec<Stream>,
    /// Encoding by column id.
    pub encodings: Vec<Encoding>,
    /// The writer's zone for TIMESTAMP columns; `None` means UTC.
    pub writer_timezone: Option<chrono_tz::Tz>,
}

impl StripeLayout {
    /// Parses the footer of stripe `stripe`, whose bytes are [`StripeInfo::footer_range`].
    ///
    /// # Errors
    /// `Corrupt` when streams leave the stripe, encodings are missing or unknown, the zone is unknown, …
    pub fn parse(tail: &FileTail, stripe: usize, footer: &Bytes) -> Result<Self> {
        let Some(info) = tail.stripes.get(stripe) else {
            let place = Section {
                file: &tail.file,
                offset: 0,
                name: "footer",
            };
            return Err(place.corrupt(0, format!("there is no stripe {stripe}")));
        };
        let name = format!("stripe {stripe} footer");
        let place = Section {
            file: &tail.file,
            offset: info.footer_range().start,
            name: &name,
        };
        let bytes = chunk::decompress_all(place, tail.compression, footer, MAX_FOOTER_BYTES)?;
        let stored: proto::StripeFooter = wire::decode(&bytes).map_err(|reason| place.corrupt(0, reason))?;
        Ok(Self {
            info: info.clone(),
            streams: streams(tail, info, &stored).map_err(|reason| place.corrupt(0, reason))?,
            encodings: encodings(tail, info, &stored).map_err(|reason| place.corrupt(0, reason))?,
            writer_timezone: timezone(tail, &stored).map_err(|reason| place.corrupt(0, reason))?,
        })
    }

    /// The stream of this kind of this column, if the stripe has it.
    pub fn stream(&self, column: ColumnId, kind: proto::stream::Kind) -> Option<&Stream> {
        self.streams.iter().find(|s| s.column == column && s.kind == kind)
    }

    /// Number of row groups (1 when the file has no row index).
    pub fn row_groups(&self, tail: &FileTail) -> usize {
        match tail.row_index_stride {
            Some(stride) => self.info.rows.div_ceil(u64::from(stride)) as usize,
            None => usize::from(self.info.rows > 0),
        }
    }

    /// Stripe-relative rows of a row group.
    pub fn row_group_rows(&self, tail: &FileTail, group: usize) -> Range<u64> {
        match tail.row_index_stride {
            Some(stride) => {
                let stride = u64::from(stride);
                let start = (group as u64).saturating_mul(stride);
                start.min(self.info.rows)..start.saturating_add(stride).min(self.info.rows)
            }
            None => 0..self.info.rows,
        }
    }
}

/// Limit of a stripe footer's uncompressed bytes.
const MAX_FOOTER_BYTES: usize = 32 << 20;

/// The streams with absolute offsets. Streams follow each other from the stripe's start, in the footer's order. A
/// stream of an unknown kind takes up its bytes but is not listed.
fn streams(tail: &FileTail, info: &StripeInfo, stored: &proto::StripeFooter) -> Result<Vec<Stream>, String> {
    let end = info.footer_range().start;
    let columns = tail.schema.types.len();
    let mut offset = info.offset;
    let mut streams = Vec::with_capacity(stored.streams.len());
    for (k, stream) in stored.streams.iter().enumerate() {
        let (column, length) = (stream.column(), stream.length());
        let next = offset.checked_add(length).filter(|&next| next <= end);
        let next = next.ok_or_else(|| format!("stream {k} (column {column}, {length} bytes) leaves the stripe"))?;
        if let Ok(kind) = proto::stream::Kind::try_from(stream.kind.unwrap_or(0)) {
            if column as usize >= columns {
                return Err(format!("stream {k} belongs to column {column} of {columns}"));
            }
            streams.push(Stream {
                column,
                kind,
                offset,
                length,
            });
        }
        offset = next;
    }
    Ok(streams)
}

fn encodings(tail: &FileTail, info: &StripeInfo, stored: &proto::StripeFooter) -> Result<Vec<Encoding>, String> {
    use proto::column_encoding::Kind;
    let types = &tail.schema.types;
    if info.rows == 0 && stored.columns.is_empty() {
        let direct = Encoding {
            kind: Kind::Direct,
            dictionary_size: 0,
        };
        return Ok(vec![direct; types.len()]);
    }
    if stored.columns.len() != types.len() {
        return Err(format!(
            "{} encodings for {} columns",
            stored.columns.len(),
            types.len()
        ));
    }
    let encoding = |(column, stored): (&crate::schema::OrcType, &proto::ColumnEncoding)| {
        let number = stored.kind.unwrap_or(0);
        let kind = Kind::try_from(number).map_err(|_| format!("column {}: unknown encoding {number}", column.id))?;
        let dictionary = matches!(kind, Kind::Dictionary | Kind::DictionaryV2);
        if dictionary && !column.kind.is_string() {
            return Err(format!("column {}: a dictionary of {:?}", column.id, column.kind));
        }
        Ok(Encoding {
            kind,
            dictionary_size: if dictionary { stored.dictionary_size() } else { 0 },
        })
    };
    types.iter().zip(&stored.columns).map(encoding).collect()
}

/// The zone matters to TIMESTAMP columns alone; without one, an unknown name is no obstacle.
fn timezone(tail: &FileTail, stored: &proto::StripeFooter) -> Result<Option<chrono_tz::Tz>, String> {
    let name = stored.writer_timezone().trim();
    if matches!(name, "" | "UTC" | "GMT" | "Z" | "Etc/UTC" | "Etc/GMT") {
        return Ok(None);
    }
    match name.parse().ok().or_else(|| whole_hours(name)) {
        Some(zone) => Ok(Some(zone)),
        None if tail
            .schema
            .types
            .iter()
            .any(|column| column.kind == TypeKind::Timestamp) =>
        {
            Err(format!("unknown time zone {name:?}"))
        }
        None => Ok(None),
    }
}

/// The database's zone for one of Java's custom zone ids with whole hours ("GMT+08:00"). The database's sign is
/// inverted.
fn whole_hours(name: &str) -> Option<chrono_tz::Tz> {
    let offset = name
        .strip_prefix("GMT")
        .or_else(|| name.strip_prefix("UTC"))
        .unwrap_or(name);
    let (sign, digits) = match offset.split_at_checked(1)? {
        ("+", digits) => ('-', digits),
        ("-", digits) => ('+', digits),
        _ => return None,
    };
    let hours = digits.strip_suffix(":00").unwrap_or(digits);
    let hours: u8 = hours.parse().ok()?;
    format!("Etc/GMT{sign}{hours}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_zone_ids_of_whole_hours_are_known() {
        assert_eq!(whole_hours("GMT+08:00"), Some(chrono_tz::Etc::GMTMinus8));
        assert_eq!(whole_hours("-5"), Some(chrono_tz::Etc::GMTPlus5));
        assert_eq!(whole_hours("GMT+05:30"), None);
        assert_eq!(whole_hours("Nowhere/Land"), None);
    }
}
