//! [`StripeLayout`], one stripe's footer: streams with absolute offsets, encodings, and the writer's time zone.

use std::ops::Range;

use bytes::Bytes;

use crate::chunk;
use crate::error::{Result, Section};
use crate::proto;
use crate::schema::{ColumnId, TypeKind};
use crate::streams::{Stream, StripeStreams};
use crate::tail::{FileTail, StripeInfo};
use crate::wire;
use crate::writer_zone::{EarlyOffsets, WriterZone};

/// Encoding of a column in a stripe. An unknown one counts as DIRECT, as any reader of protobuf's version 2 takes it.
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
    pub streams: StripeStreams,
    /// Encoding by column id.
    pub encodings: Vec<Encoding>,
    /// The writer's zone for TIMESTAMP columns.
    pub writer_timezone: WriterZone,
    /// The zone's offsets before its table begins.
    pub early_offsets: EarlyOffsets,
    /// Columns with an encoding that this reader does not know, ascending, and the encoding's number.
    pub unknown_encodings: Vec<(ColumnId, i32)>,
}

impl StripeLayout {
    /// Parses the footer of stripe `stripe`, whose bytes are [`StripeInfo::footer_range`].
    ///
    /// # Errors
    /// `Corrupt` when streams leave the stripe, encodings are missing, …
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
            writer_timezone: WriterZone::parse(stored.writer_timezone()),
            early_offsets: EarlyOffsets::of(tail),
            unknown_encodings: unknown_encodings(tail, &stored),
        })
    }

    /// The unknown encoding of `column` or of a column below it. Its values cannot be read.
    pub fn unknown_encoding(&self, tail: &FileTail, column: ColumnId) -> Option<i32> {
        if self.unknown_encodings.is_empty() {
            return None;
        }
        let number = |id: &ColumnId| {
            let at = self
                .unknown_encodings
                .binary_search_by_key(id, |(column, _)| *column)
                .ok()?;
            Some(self.unknown_encodings[at].1)
        };
        tail.schema.subtree(column).iter().find_map(number)
    }

    /// The stream of this kind of this column, if the stripe has it.
    pub fn stream(&self, column: ColumnId, kind: proto::stream::Kind) -> Option<&Stream> {
        self.streams.find(column, kind)
    }

    /// Number of row groups (1 when the file has no row index), as [`FileTail::row_group_stride`] divides the stripe.
    pub fn row_groups(&self, tail: &FileTail) -> usize {
        match tail.row_group_stride(&self.info) {
            Some(stride) => self.info.rows.div_ceil(u64::from(stride)) as usize,
            None => usize::from(self.info.rows > 0),
        }
    }

    /// Stripe-relative rows of a row group.
    pub fn row_group_rows(&self, tail: &FileTail, group: usize) -> Range<u64> {
        match tail.row_group_stride(&self.info) {
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
fn streams(tail: &FileTail, info: &StripeInfo, stored: &proto::StripeFooter) -> Result<StripeStreams, String> {
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
    Ok(streams.into())
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
        let kind = stored.kind(); // DIRECT, the default, for an unknown one
        let dictionary = matches!(kind, Kind::Dictionary | Kind::DictionaryV2);
        if dictionary && !column.kind.is_string() {
            return Err(format!("column {}: a dictionary of {}", column.id, column.kind));
        }
        Ok(Encoding {
            kind,
            dictionary_size: if dictionary { stored.dictionary_size() } else { 0 },
        })
    };
    types.iter().zip(&stored.columns).map(encoding).collect()
}

/// The columns whose encoding is unknown and matters. The streams of the other types have one form under all
/// encodings: libcudf writes -1 for structs.
fn unknown_encodings(tail: &FileTail, stored: &proto::StripeFooter) -> Vec<(ColumnId, i32)> {
    let matters = |kind| match kind {
        TypeKind::Boolean | TypeKind::Byte | TypeKind::Float | TypeKind::Double => false,
        TypeKind::Struct | TypeKind::Union => false,
        TypeKind::Short | TypeKind::Int | TypeKind::Long | TypeKind::Date | TypeKind::Decimal { .. } => true,
        TypeKind::String | TypeKind::Char { .. } | TypeKind::Varchar { .. } | TypeKind::Binary => true,
        TypeKind::Timestamp | TypeKind::TimestampInstant => true,
        TypeKind::List | TypeKind::Map | TypeKind::Unknown { .. } => true,
    };
    let columns = tail.schema.types.iter().zip(&stored.columns);
    columns
        .filter_map(|(column, stored)| {
            let number = stored
                .kind
                .filter(|&number| proto::column_encoding::Kind::try_from(number).is_err())?;
            matters(column.kind).then_some((column.id, number))
        })
        .collect()
}
