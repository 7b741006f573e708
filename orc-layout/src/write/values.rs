//! [`Values`], a column's values by type: their streams, and the order in which the row index names those. Integers,
//! floats and booleans are encoded here.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int8Type, Int64Type};

use super::arrow_input::{gather, gather_integers};
use super::byte_rle::{Bits, ByteEncoder};
use super::column::Column;
use super::decimal::DecimalValues;
use super::double_statistics::DoubleStatistics;
use super::nested;
use super::rle_v2::IntEncoder;
use super::statistics::{Statistics, Typed};
use super::stream::{OutStream, Storage, capacity_bytes};
use super::strings::{BinaryValues, StringValues};
use super::text_limit::TextLimit;
use super::timestamp::TimestampValues;
use super::types::Node;
use super::writer_properties::WriterProperties;
use crate::bloom::BloomFilter;
use crate::error::Result;
use crate::proto::column_encoding::Kind as Encoding;
use crate::proto::stream::Kind;
use crate::proto::r#type::Kind as TypeKind;

/// A column's encoders.
#[derive(Debug)]
pub(super) enum Values {
    /// DATA: bits, kept until the stripe ends.
    Boolean {
        bits: Bits,
        starts: Vec<usize>,
        encoder: ByteEncoder,
    },
    /// DATA: bytes.
    Byte(ByteEncoder),
    /// DATA: SHORT, INT, LONG and DATE; `scratch` holds them as 64 bits.
    Integer {
        encoder: IntEncoder,
        scratch: Vec<i64>,
        date: bool,
    },
    /// DATA: unencoded values.
    Float {
        stream: OutStream,
        scratch: Vec<u8>,
        double: bool,
    },
    /// DATA and LENGTH, or DATA, DICTIONARY_DATA and LENGTH.
    String(Box<StringValues>),
    /// DATA and LENGTH.
    Binary(BinaryValues),
    /// DATA (seconds) and SECONDARY (nanoseconds).
    Timestamp(TimestampValues),
    /// DATA (unscaled values) and SECONDARY (scales).
    Decimal(DecimalValues),
    /// No stream of its own.
    Struct,
    /// LENGTH; for maps too.
    List(IntEncoder),
    /// DATA: the variant of each value.
    Union(ByteEncoder),
}

impl Values {
    /// Encoders of a column. `data` is the storage of a float column's DATA stream, `storage` that of all other
    /// streams.
    pub(super) fn new(node: &Node, options: &WriterProperties, storage: Storage, data: Storage) -> Self {
        let stream = || OutStream::new(storage);
        match node.kind {
            TypeKind::Boolean => Self::Boolean {
                bits: Bits::default(),
                starts: Vec::new(),
                encoder: ByteEncoder::new(stream()),
            },
            TypeKind::Byte => Self::Byte(ByteEncoder::new(stream())),
            TypeKind::Float | TypeKind::Double => Self::Float {
                stream: OutStream::new(data),
                scratch: Vec::new(),
                double: node.kind == TypeKind::Double,
            },
            TypeKind::String | TypeKind::Char | TypeKind::Varchar => {
                let threshold = options.dictionary_threshold_of(&node.name);
                let limit = TextLimit::of(&node.name, node.text_type);
                Self::String(Box::new(StringValues::new(storage, threshold, limit)))
            }
            TypeKind::Binary => Self::Binary(BinaryValues::new(storage)),
            TypeKind::Timestamp | TypeKind::TimestampInstant => Self::Timestamp(TimestampValues::new(storage)),
            TypeKind::Decimal => Self::Decimal(DecimalValues::new(node, storage)),
            TypeKind::Struct => Self::Struct,
            TypeKind::List | TypeKind::Map => Self::List(IntEncoder::new(stream(), false)),
            TypeKind::Union => Self::Union(ByteEncoder::new(stream())),
            _ => Self::Integer {
                encoder: IntEncoder::new(stream(), true),
                scratch: Vec::new(),
                date: node.kind == TypeKind::Date,
            },
        }
    }

    /// Empty statistics of this type.
    pub(super) fn statistics(&self) -> Typed {
        match self {
            Self::Boolean { .. } => Typed::Boolean { true_count: 0 },
            Self::Integer { date: true, .. } => Typed::Date { bounds: None },
            Self::Byte(_) | Self::Integer { .. } => Typed::Integer { bounds: None, sum: 0 },
            Self::Float { .. } => Typed::Double(DoubleStatistics::default()),
            Self::String(_) => Typed::String { bounds: None, total: 0 },
            Self::Binary(_) => Typed::Binary { total: 0 },
            Self::Timestamp(_) => Typed::Timestamp { bounds: None },
            Self::Decimal(decimal) => Typed::Decimal {
                bounds: None,
                sum: Some(0),
                scale: decimal.scale(),
            },
            Self::Struct | Self::Union(_) => Typed::None,
            Self::List(_) => Typed::Collection { bounds: None, total: 0 },
        }
    }

    pub(super) fn bloom_filter_supported(&self) -> bool {
        match self {
            Self::Byte(_) | Self::Integer { .. } | Self::Float { .. } | Self::Binary(_) => true,
            Self::Timestamp(_) | Self::Decimal(_) => true,
            Self::String(strings) => strings.has_bloom_filters(),
            Self::Boolean { .. } | Self::Struct | Self::List(_) | Self::Union(_) => false,
        }
    }

    /// Appends the values that are not null. `nulls` is `None` if there are none.
    pub(super) fn write(
        &mut self,
        name: &str,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        statistics: &mut Statistics,
        bloom: Option<&mut BloomFilter>,
        children: &mut [Column],
    ) -> Result<()> {
        match self {
            Self::Boolean { bits, .. } => {
                let values = array.as_boolean().values();
                let present = match nulls {
                    None => values.clone(),
                    Some(nulls) => nulls.valid_indices().map(|row| values.value(row)).collect(),
                };
                if let Typed::Boolean { true_count } = &mut statistics.typed {
                    *true_count += present.count_set_bits() as u64;
                }
                bits.push(&present);
                Ok(())
            }
            Self::Byte(encoder) => {
                let mut values = Vec::with_capacity(array.len());
                gather(array.as_primitive::<Int8Type>().values(), nulls, &mut values, i64::from);
                take_integers(&values, statistics, bloom);
                encoder.write(values.iter().map(|&value| value as u8))
            }
            Self::Integer { encoder, scratch, .. } => {
                if nulls.is_none() && array.data_type() == &DataType::Int64 {
                    let values = array.as_primitive::<Int64Type>().values();
                    take_integers(values, statistics, bloom);
                    return encoder.write(values);
                }
                scratch.clear();
                gather_integers(name, array, nulls, scratch)?;
                take_integers(scratch, statistics, bloom);
                encoder.write(scratch)
            }
            Self::Float {
                stream,
                scratch,
                double: true,
            } => write_floats::<Float64Type>(array, nulls, stream, scratch, statistics, bloom, |value, out| {
                out.extend_from_slice(&value.to_le_bytes());
            }),
            Self::Float { stream, scratch, .. } => {
                write_floats::<Float32Type>(array, nulls, stream, scratch, statistics, bloom, |value, out| {
                    out.extend_from_slice(&value.to_le_bytes());
                })
            }
            Self::String(strings) => strings.write(array, nulls, statistics, bloom),
            Self::Binary(binary) => binary.write(array, nulls, statistics, bloom),
            Self::Timestamp(timestamps) => timestamps.write(name, array, nulls, statistics, bloom),
            Self::Decimal(decimals) => decimals.write(name, array, nulls, statistics, bloom),
            Self::Struct => nested::write_struct(array, nulls, children),
            Self::List(lengths) => nested::write_list(array, nulls, lengths, statistics, children),
            Self::Union(tags) => nested::write_union(name, array, tags, children),
        }
    }

    /// Ends every run and appends the positions known so far.
    pub(super) fn position(&mut self, positions: &mut Vec<u64>) -> Result<()> {
        match self {
            Self::Boolean { bits, starts, .. } => {
                starts.push(bits.len());
                Ok(())
            }
            Self::Byte(encoder) | Self::Union(encoder) => encoder.position(positions),
            Self::Integer { encoder, .. } => encoder.position(positions),
            Self::Float { stream, .. } => {
                stream.position(positions);
                Ok(())
            }
            Self::String(strings) => strings.position(positions),
            Self::Binary(binary) => binary.position(positions),
            Self::Timestamp(timestamps) => timestamps.position(positions),
            Self::Decimal(decimals) => decimals.position(positions),
            Self::Struct => Ok(()),
            Self::List(lengths) => lengths.position(positions),
        }
    }

    /// Ends the streams. `positions` are those collected so far; the complete ones are returned.
    pub(super) fn finish(&mut self, positions: &mut Vec<Vec<u64>>) -> Result<Vec<Vec<u64>>> {
        match self {
            Self::Boolean { bits, starts, encoder } => {
                let positions = bits.encode(starts, encoder)?;
                encoder.stream.flush()?;
                return Ok(positions);
            }
            Self::String(strings) => return strings.finish(std::mem::take(positions)),
            Self::Byte(encoder) | Self::Union(encoder) => {
                encoder.flush()?;
                encoder.stream.flush()?;
            }
            Self::Integer { encoder, .. } | Self::List(encoder) => {
                encoder.flush()?;
                encoder.stream.flush()?;
            }
            Self::Float { stream, .. } => stream.flush()?,
            Self::Binary(binary) => binary.finish()?,
            Self::Timestamp(timestamps) => timestamps.finish()?,
            Self::Decimal(decimals) => decimals.finish()?,
            Self::Struct => {}
        }
        Ok(std::mem::take(positions))
    }

    /// Calls `push` for each stream in the stored order, with whether it holds unencoded fixed-width values.
    pub(super) fn streams<'a>(&'a self, push: &mut impl FnMut(Kind, &'a OutStream, bool)) {
        match self {
            Self::Boolean { encoder, .. } | Self::Byte(encoder) | Self::Union(encoder) => {
                push(Kind::Data, &encoder.stream, false);
            }
            Self::Integer { encoder, .. } => push(Kind::Data, &encoder.stream, false),
            Self::Float { stream, .. } => {
                let in_place = !matches!(stream.storage(), Storage::Chunks { codec: Some(_), .. });
                push(Kind::Data, stream, in_place);
            }
            Self::String(strings) => strings.streams(push),
            Self::Binary(binary) => binary.streams(push),
            Self::Timestamp(timestamps) => timestamps.streams(push),
            Self::Decimal(decimals) => decimals.streams(push),
            Self::Struct => {}
            Self::List(lengths) => push(Kind::Length, &lengths.stream, false),
        }
    }

    /// The stripe footer's encoding and dictionary size.
    pub(super) fn encoding(&self) -> (Encoding, Option<u32>) {
        match self {
            Self::Boolean { .. } | Self::Byte(_) | Self::Float { .. } => (Encoding::Direct, None),
            Self::Struct | Self::Union(_) => (Encoding::Direct, None),
            Self::String(strings) => strings.encoding(),
            _ => (Encoding::DirectV2, None),
        }
    }

    /// Empties everything for the next stripe.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Boolean { bits, starts, encoder } => {
                bits.clear();
                starts.clear();
                encoder.stream.clear();
            }
            Self::Byte(encoder) | Self::Union(encoder) => encoder.stream.clear(),
            Self::Integer { encoder, .. } | Self::List(encoder) => encoder.stream.clear(),
            Self::Float { stream, .. } => stream.clear(),
            Self::String(strings) => strings.clear(),
            Self::Binary(binary) => binary.clear(),
            Self::Timestamp(timestamps) => timestamps.clear(),
            Self::Decimal(decimals) => decimals.clear(),
            Self::Struct => {}
        }
    }

    /// Bytes of the stripe, about.
    pub(super) fn buffered_bytes(&self) -> usize {
        match self {
            Self::Boolean { bits, .. } => bits.buffered_bytes(),
            Self::Byte(encoder) | Self::Union(encoder) => encoder.buffered_bytes(),
            Self::Integer { encoder, .. } | Self::List(encoder) => encoder.buffered_bytes(),
            Self::Float { stream, .. } => stream.buffered_bytes(),
            Self::String(strings) => strings.buffered_bytes(),
            Self::Binary(binary) => binary.buffered_bytes(),
            Self::Timestamp(timestamps) => timestamps.buffered_bytes(),
            Self::Decimal(decimals) => decimals.buffered_bytes(),
            Self::Struct => 0,
        }
    }

    /// Bytes held in memory, with those that wait to be used again.
    pub(super) fn memory_size(&self) -> usize {
        match self {
            Self::Boolean { bits, starts, encoder } => {
                bits.buffered_bytes() + capacity_bytes(starts) + encoder.memory_size()
            }
            Self::Byte(encoder) | Self::Union(encoder) => encoder.memory_size(),
            Self::Integer { encoder, scratch, .. } => encoder.memory_size() + capacity_bytes(scratch),
            Self::List(encoder) => encoder.memory_size(),
            Self::Float { stream, scratch, .. } => stream.memory_size() + scratch.capacity(),
            Self::String(strings) => size_of::<StringValues>() + strings.memory_size(),
            Self::Binary(binary) => binary.memory_size(),
            Self::Timestamp(timestamps) => timestamps.memory_size(),
            Self::Decimal(decimals) => decimals.memory_size(),
            Self::Struct => 0,
        }
    }
}

fn take_integers(values: &[i64], statistics: &mut Statistics, bloom: Option<&mut BloomFilter>) {
    statistics.integers(values);
    if let Some(bloom) = bloom {
        values.iter().for_each(|&value| bloom.insert_long(value));
    }
}

fn write_floats<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    nulls: Option<&NullBuffer>,
    stream: &mut OutStream,
    scratch: &mut Vec<u8>,
    statistics: &mut Statistics,
    mut bloom: Option<&mut BloomFilter>,
    append: impl Fn(T::Native, &mut Vec<u8>),
) -> Result<()>
where
    T::Native: Into<f64>,
{
    let values = array.as_primitive::<T>().values();
    let whole = [(0, values.len())];
    let mut write = |start: usize, end: usize| {
        let slice = &values[start..end];
        if let Typed::Double(double) = &mut statistics.typed {
            double.update(slice);
        }
        if let Some(bloom) = &mut bloom {
            slice.iter().for_each(|&value| bloom.insert_double(value.into()));
        }
        if cfg!(target_endian = "little") {
            return stream
                .write(&values.inner().as_slice()[start * size_of::<T::Native>()..end * size_of::<T::Native>()]);
        }
        scratch.clear();
        slice.iter().for_each(|&value| append(value, scratch));
        stream.write(scratch)
    };
    match nulls {
        None => whole.into_iter().try_for_each(|(start, end)| write(start, end)),
        Some(nulls) => nulls.valid_slices().try_for_each(|(start, end)| write(start, end)),
    }
}
