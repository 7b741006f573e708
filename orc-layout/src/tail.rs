//! [`FileTail`], the end of the file: postscript, footer and metadata, parsed from bytes that the caller has read.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::chunk;
use crate::codec::Compression;
use crate::error::{LayoutError, Result, SchemaError, Section};
use crate::postscript::Postscript;
use crate::proto;
use crate::read_options::TimestampUnit;
use crate::schema::{ColumnId, OrcSchema, OrcSchemaRef, TypeKind};
use crate::statistics::{ColumnStatistics, Level, Trust, TypedStatistics, writer};
use crate::wire;

/// Position and rows of a stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StripeInfo {
    /// Position in the file, from 0.
    pub index: usize,
    /// First byte of the stripe (its index section).
    pub offset: u64,
    /// Bytes of the index section.
    pub index_length: u64,
    /// Bytes of the data section.
    pub data_length: u64,
    /// Bytes of the stripe footer.
    pub footer_length: u64,
    /// Rows in the stripe.
    pub rows: u64,
    /// File-relative number of the stripe's first row.
    pub first_row: u64,
}

impl StripeInfo {
    /// The bytes of the stripe footer.
    pub fn footer_range(&self) -> Range<u64> {
        let start = self.offset + self.index_length + self.data_length;
        start..start + self.footer_length
    }
}

/// Contents of the tail of an ORC file.
#[derive(Debug, Clone)]
pub struct FileTail {
    /// Path or URL as the user named it; every error carries it.
    pub file: Arc<str>,
    /// Length of the whole file in bytes.
    pub file_length: u64,
    /// `None` if streams are not compressed.
    pub compression: Option<Compression>,
    /// Column tree and Arrow schema.
    pub schema: OrcSchemaRef,
    /// Rows in the file.
    pub rows: u64,
    /// Rows per row group; `None` when the file has no row index.
    pub row_index_stride: Option<u32>,
    /// The stripes, in file order; each lies inside the file and no arithmetic on them overflows.
    pub stripes: Vec<StripeInfo>,
    /// Statistics of the whole file by column id; shorter or empty if the writer left them out.
    pub file_statistics: Vec<ColumnStatistics>,
    /// Statistics by stripe, then by column id; empty if the writer left them out.
    pub stripe_statistics: Vec<Vec<ColumnStatistics>>,
    /// User metadata, in file order.
    pub user_metadata: Vec<(String, Vec<u8>)>,
    /// "0.12" and the like.
    pub format_version: String,
    /// Name of the writer implementation ("ORC Java", "ORC C++", "Presto", "unknown (7)", …) and its software version,
    /// if stated.
    pub writer: String,
    /// The writer's own version number: which known bugs its statistics, bloom filters or timestamps have.
    pub writer_version: u32,
    /// Bytes of postscript, footer and metadata together: what reading the tail costs.
    pub tail_length: u64,
    /// Columns stored encrypted, ascending. Their unencrypted streams hold masked values;
    /// [`Access::of`](crate::access::Access::of) refuses them.
    pub encrypted_columns: Vec<ColumnId>,
    /// Whether dates and timestamps before 1582-10-15 are stored by the Julian calendar. Decoded values and statistics
    /// are of the proleptic Gregorian one.
    pub is_hybrid_calendar: bool,
    /// Code of the writer implementation in the footer: 0 is Java, 1 C++, 2 Presto, 3 Go, 4 Trino.
    pub(crate) writer_code: u32,
    /// The writer's software version, if stated.
    pub(crate) software_version: Option<String>,
}

/// Result of parsing the last bytes of a file.
#[derive(Debug)]
pub enum TailParse {
    /// The tail is longer than `last`: call again with at least this many bytes from the end of the file.
    Complete(Box<FileTail>),
    /// The tail is longer: call again with at least this many bytes from the end of the file.
    NeedBytes(u64),
}

impl FileTail {
    /// Bytes of the first read from the end of a file.
    pub const FIRST_READ_BYTES: u64 = 16 * 1024;

    /// Parses the tail of a file of `file_length` bytes whose last bytes are `last`.
    ///
    /// # Errors
    /// `NotOrc` for anything else than ORC (0 bytes, no magic), `Corrupt` with the place, `Unsupported` for encrypted
    /// columns and DWRF.
    pub fn parse(file: &Arc<str>, file_length: u64, last: &Bytes) -> Result<TailParse> {
        if let Some(&postscript) = last.last()
            && last.len() <= usize::from(postscript)
            && (last.len() as u64) < file_length
        {
            return Ok(TailParse::NeedBytes(file_length.min(u64::from(postscript) + 1)));
        }
        let end = Postscript::parse(file, file_length, last)?;
        if (last.len() as u64) < end.tail_length {
            return Ok(TailParse::NeedBytes(end.tail_length));
        }
        let tail = last.slice(last.len() - end.tail_length as usize..);
        let parsed = assemble(file, file_length, &end, &tail);
        match parsed {
            // Without the magic, the format was only a guess.
            Err(LayoutError::Corrupt { reason, .. }) if !end.magic => Err(LayoutError::not_orc(file, reason)),
            // Two bytes at the end of an arbitrary file can be read as the postscript of an empty footer.
            Ok(tail) if !end.magic && tail.schema.fields().is_empty() => {
                Err(LayoutError::not_orc(file, "no magic and no column"))
            }
            parsed => parsed.map(|tail| TailParse::Complete(Box::new(tail))),
        }
    }

    /// Rows per row group of `stripe`; `None`: the whole stripe is one row group.
    ///
    /// A stripe that claims more than `MAX_ROW_GROUPS` row groups counts as one, and its row index is not read. Each
    /// entry takes memory, and rows and stride are claims: a few bytes of a file can name 2^40 row groups.
    pub fn row_group_stride(&self, stripe: &StripeInfo) -> Option<u32> {
        let fits = |stride: &u32| *stride > 0 && stripe.rows.div_ceil(u64::from(*stride)) <= MAX_ROW_GROUPS;
        self.row_index_stride.filter(fits)
    }

    /// Trust in the statistics and bloom filters of this file's writer.
    pub(crate) fn trust(&self) -> Trust {
        Trust::new(self.writer_code, self.writer_version).with_hybrid_calendar(self.is_hybrid_calendar)
    }

    /// The unit that holds all timestamps of a column, at any depth: nanoseconds, unless the statistics of the file
    /// tell that a value does not fit. `None`: the column has no timestamps.
    ///
    /// Without statistics the unit is nanoseconds, like that of nearly all files. A value that does not fit is then an
    /// error when it is read.
    pub fn timestamp_unit(&self, column: ColumnId) -> Option<TimestampUnit> {
        let is_timestamp = |id: &ColumnId| {
            let kind = self.schema.column(*id).kind;
            matches!(kind, TypeKind::Timestamp | TypeKind::TimestampInstant)
        };
        if !self.schema.column(column).kind.is_nested() {
            return is_timestamp(&column).then(|| self.unit_of_timestamps(column));
        }
        let timestamps = self.schema.subtree(column).into_iter().filter(is_timestamp);
        timestamps.map(|id| self.unit_of_timestamps(id)).max()
    }

    fn unit_of_timestamps(&self, column: ColumnId) -> TimestampUnit {
        let of_stripes = || {
            self.stripe_statistics
                .iter()
                .filter_map(|columns| columns.get(column as usize))
        };
        let of_file = self.file_statistics.get(column as usize);
        let bounds = |statistics: &ColumnStatistics| match statistics.typed {
            Some(TypedStatistics::Timestamp { min, max }) => Some((min, max)),
            _ => None,
        };
        // Bounds are widened by a millisecond, which does not matter at either end of the range.
        let fits = |(min, max): (i128, i128)| i64::try_from(min).is_ok() && i64::try_from(max).is_ok();
        let all_fit = match of_file.and_then(bounds) {
            Some(bounds) => fits(bounds),
            None => of_stripes().filter_map(bounds).all(fits),
        };
        if all_fit {
            TimestampUnit::Nanosecond
        } else {
            TimestampUnit::Microsecond
        }
    }
}

/// Limit of a footer's uncompressed bytes. A file of ten thousand columns and stripes has a few megabytes.
const MAX_FOOTER_BYTES: usize = 64 << 20;
/// Stripe statistics are decoded one by one, so they may be larger.
const MAX_METADATA_BYTES: usize = 256 << 20;
/// Limit of a stripe's row groups. With the usual stride of 10,000, they have 2.6 thousand million rows.
const MAX_ROW_GROUPS: u64 = 1 << 18;
/// Limit of a file's types.
const MAX_COLUMNS: usize = 1 << 18;
/// Limit of a file's stripes.
const MAX_STRIPES: usize = 1 << 20;
/// Limit of column statistics over all stripes (about half a gigabyte). A file with more is read without them.
const MAX_STRIPE_STATISTICS: usize = 1 << 22;

/// Field numbers of repeated messages that are decoded one by one.
mod number {
    pub(super) const FOOTER_STRIPES: u64 = 3;
    pub(super) const FOOTER_TYPES: u64 = 4;
    pub(super) const FOOTER_STATISTICS: u64 = 7;
    pub(super) const METADATA_STRIPE: u64 = 1;
    pub(super) const STRIPE_COLUMN: u64 = 1;
}

/// The tail's sections, from all bytes of the tail.
fn assemble(file: &Arc<str>, file_length: u64, end: &Postscript, tail: &Bytes) -> Result<FileTail> {
    let footer_end = tail.len() - end.postscript_length as usize;
    let footer_start = footer_end - end.footer_length as usize;
    let tail_start = file_length - end.tail_length;
    let metadata_place = Section {
        file,
        offset: tail_start,
        name: "metadata",
    };
    let footer_place = Section {
        file,
        offset: tail_start + end.metadata_length,
        name: "footer",
    };
    let bytes = tail.slice(footer_start..footer_end);
    let footer = Footer::parse(footer_place, end, &bytes)?;
    let stripes = stripes(footer_place, &footer, tail_start - end.encrypted_length)?;
    let encrypted_columns = encrypted_columns(&footer);
    let is_hybrid_calendar = footer.message.calendar() == proto::CalendarKind::JulianGregorian;
    let trust = Trust::new(footer.message.writer.unwrap_or(writer::JAVA), end.writer_version)
        .with_hybrid_calendar(is_hybrid_calendar);
    let statistics = StatisticsContext {
        schema: &footer.schema,
        encrypted: &encrypted_columns,
        trust,
    };
    let file_statistics = statistics.columns(
        footer.message.number_of_rows(),
        footer.statistics.iter().map(|bytes| &bytes[..]),
    );
    let bytes = tail.slice(..end.metadata_length as usize);
    let bytes = chunk::decompress_all(metadata_place, end.compression, &bytes, MAX_METADATA_BYTES)?;
    let stripe_statistics = stripe_statistics(metadata_place, &statistics, &bytes, &stripes)?;
    let message = footer.message;
    let writer_code = message.writer.unwrap_or(writer::JAVA);
    let software = message
        .software_version
        .as_deref()
        .filter(|version| !version.is_empty());
    let writer = match (writer_name(writer_code), software) {
        (Some(name), Some(software)) => format!("{name} {software}"),
        (Some(name), None) => name.to_owned(),
        (None, Some(software)) => software.to_owned(),
        (None, None) => format!("unknown ({writer_code})"),
    };
    Ok(FileTail {
        file: file.clone(),
        file_length,
        compression: end.compression,
        schema: Arc::new(footer.schema),
        rows: message.number_of_rows(),
        row_index_stride: message.row_index_stride.filter(|&stride| stride > 0),
        stripes,
        file_statistics,
        stripe_statistics,
        user_metadata: message
            .metadata
            .into_iter()
            .map(|item| (item.name.unwrap_or_default(), item.value.unwrap_or_default()))
            .collect(),
        format_version: end.format_version.clone(),
        writer,
        writer_version: end.writer_version,
        tail_length: end.tail_length,
        encrypted_columns,
        is_hybrid_calendar,
        writer_code,
        software_version: message.software_version,
    })
}

/// The implementations that have a code of their own.
fn writer_name(code: u32) -> Option<&'static str> {
    Some(match code {
        writer::JAVA => "ORC Java",
        writer::CPP => "ORC C++",
        writer::PRESTO => "Presto",
        writer::GO => "Scritchley Go",
        writer::TRINO => "Trino",
        5 => "CUDF",
        _ => return None,
    })
}

/// The footer, with its large repeated parts apart.
struct Footer {
    /// All but stripes, types and statistics.
    message: proto::Footer,
    schema: OrcSchema,
    stripes: Vec<proto::StripeInformation>,
    /// Undecoded column statistics, no more than columns.
    statistics: Vec<Vec<u8>>,
}

impl Footer {
    fn parse(place: Section<'_>, end: &Postscript, bytes: &Bytes) -> Result<Self> {
        let bytes = chunk::decompress_all(place, end.compression, bytes, MAX_FOOTER_BYTES)?;
        let corrupt = |reason| place.corrupt(0, reason);
        let (mut types, mut stripes, mut statistics) = (vec![], vec![], vec![]);
        let apart = [number::FOOTER_STRIPES, number::FOOTER_TYPES, number::FOOTER_STATISTICS];
        let message = wire::decode_without(&bytes, &apart, |number, bytes| {
            match number {
                number::FOOTER_STRIPES => stripes.push(wire::decode::<proto::StripeInformation>(bytes)?),
                number::FOOTER_TYPES => types.push(wire::decode::<proto::Type>(bytes)?),
                _ => statistics.push(bytes.to_vec()),
            }
            let too_many = stripes.len() > MAX_STRIPES || types.len() > MAX_COLUMNS || statistics.len() > MAX_COLUMNS;
            if too_many {
                return Err(format!("more than {MAX_COLUMNS} columns or {MAX_STRIPES} stripes"));
            }
            Ok(())
        })
        .map_err(corrupt)?;
        let schema = OrcSchema::from_proto(&types).map_err(|error| match error {
            SchemaError::Corrupt(reason) => corrupt(reason),
            SchemaError::Unsupported(feature, advice) => LayoutError::unsupported(place.file, feature, advice),
        })?;
        statistics.truncate(schema.types.len());
        Ok(Self {
            message,
            schema,
            stripes,
            statistics,
        })
    }
}

/// The stripes with rows counted up and every bound checked: each lies before `content_end`.
fn stripes(place: Section<'_>, footer: &Footer, content_end: u64) -> Result<Vec<StripeInfo>> {
    let mut first_row = 0u64;
    let mut stripes = Vec::with_capacity(footer.stripes.len());
    for (index, stored) in footer.stripes.iter().enumerate() {
        let info = StripeInfo {
            index,
            offset: stored.offset(),
            index_length: stored.index_length(),
            data_length: stored.data_length(),
            footer_length: stored.footer_length(),
            rows: stored.number_of_rows(),
            first_row,
        };
        let end = [info.index_length, info.data_length, info.footer_length]
            .into_iter()
            .try_fold(info.offset, u64::checked_add);
        if end.is_none_or(|end| end > content_end) {
            let reason = format!("stripe {index} (at byte {}) leaves the file", info.offset);
            return Err(place.corrupt(0, reason));
        }
        // Row numbers stay far from overflow, whatever is added to them.
        first_row = first_row
            .checked_add(info.rows)
            .filter(|&rows| rows <= i64::MAX as u64)
            .ok_or_else(|| place.corrupt(0, format!("stripe {index} has {} rows", info.rows)))?;
        stripes.push(info);
    }
    let stated = footer.message.number_of_rows();
    if first_row != stated {
        let reason = format!("the file has {stated} rows, its stripes have {first_row}");
        return Err(place.corrupt(0, reason));
    }
    Ok(stripes)
}

/// Every column at or below the root of an encryption variant.
fn encrypted_columns(footer: &Footer) -> Vec<ColumnId> {
    let Some(encryption) = &footer.message.encryption else {
        return vec![];
    };
    let known = footer.schema.types.len() as u32;
    let mut roots: Vec<ColumnId> = encryption.variants.iter().map(|variant| variant.root()).collect();
    roots.sort_unstable();
    roots.dedup();
    let mut columns: Vec<ColumnId> = roots
        .into_iter()
        .filter(|&root| root < known)
        .flat_map(|root| footer.schema.subtree(root))
        .collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Inputs of the conversion from stored statistics to trusted ones.
struct StatisticsContext<'a> {
    schema: &'a OrcSchema,
    encrypted: &'a [ColumnId],
    trust: Trust,
}

impl StatisticsContext<'_> {
    /// Decodes one column's statistics after another, in column order; surplus ones are ignored.
    fn columns<'b>(&self, rows: u64, stored: impl Iterator<Item = &'b [u8]>) -> Vec<ColumnStatistics> {
        self.schema
            .types
            .iter()
            .zip(stored)
            .map(|(column, bytes)| {
                if self.encrypted.binary_search(&column.id).is_ok() {
                    return ColumnStatistics::default(); // of the masked values
                }
                let rows = self.schema.has_row_per_value(column.id).then_some(rows);
                ColumnStatistics::decode(bytes, column.kind, self.trust, Level::Merged, rows)
            })
            .collect()
    }
}

/// Statistics by stripe; empty if there are not as many as stripes, or too many.
fn stripe_statistics(
    place: Section<'_>,
    context: &StatisticsContext<'_>,
    metadata: &[u8],
    stripes: &[StripeInfo],
) -> Result<Vec<Vec<ColumnStatistics>>> {
    let mut all = Vec::new();
    let mut total = 0;
    for field in wire::fields(metadata) {
        let field = field.map_err(|reason| place.corrupt(0, reason))?;
        if field.number != number::METADATA_STRIPE {
            continue;
        }
        let Some(info) = stripes.get(all.len()).filter(|_| total <= MAX_STRIPE_STATISTICS) else {
            return Ok(vec![]);
        };
        let columns = wire::fields(field.bytes().unwrap_or(&[]))
            .map_while(|field| field.ok())
            .filter(|field| field.number == number::STRIPE_COLUMN)
            .filter_map(|field| field.bytes());
        let columns = context.columns(info.rows, columns);
        total += columns.len();
        all.push(columns);
    }
    if all.len() != stripes.len() {
        all.clear();
    }
    Ok(all)
}
