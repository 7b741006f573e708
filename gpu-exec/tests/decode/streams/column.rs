//! `Column`: an encoded column of one stripe, in row groups, and the values that it must decode to.

use std::ops::Range;

use grampus_gpu_exec::input::Decoded;
use grampus_gpu_exec::program::{Stored, Type};
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::decode::Clock;
use grampus_orc_layout::encoded_chunk::{EncodedChunk, EncodedChunks};
use grampus_orc_layout::encoded_column::{EncodedColumn, EncodedStream, EncodedValues};

use super::CodedStream;
use super::decimals::rescaled;
use crate::common::random::Random;

/// An encoded column of one stripe, and its file.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub encoded: EncodedColumn,
    pub ty: Type,
    pub stored: Stored,
    pub file: Vec<u8>,
    pub codes: Vec<u32>,
    pub nullable: bool,
    present: Option<Vec<i64>>,
    data: Vec<i64>,
    secondary: Vec<i64>,
}

type Compressor = fn(&[u8]) -> Vec<u8>;

impl Column {
    /// A column of streams with a value for each row, or for each row that has a value, in groups of `group_rows` rows.
    pub(crate) fn new(
        values: EncodedValues,
        ty: Type,
        present: Option<CodedStream>,
        data: CodedStream,
        secondary: Option<CodedStream>,
        group_rows: u64,
    ) -> Self {
        let rows = present.as_ref().map_or(data.values.len(), |p| p.values.len()) as u64;
        let before = |row: u64| match &present {
            Some(p) => p.values[..row as usize].iter().sum::<i64>() as u64,
            None => row,
        };
        let starts: Vec<u64> = (0..rows.div_ceil(group_rows)).map(|g| g * group_rows).collect();
        let mut file = vec![0x5A; 3];
        let mut store = |coded: &CodedStream, of_rows: bool| {
            let value = |row: u64| if of_rows { row } else { before(row) };
            let entry = |&start: &u64| coded.entry(value(start), value(rows.min(start + group_rows)));
            let offset = file.len() as u64;
            file.extend(&coded.bytes);
            file.extend([0x5A; 11]);
            EncodedStream {
                offset,
                length: coded.bytes.len() as u64,
                entries: starts.iter().map(entry).collect(),
                chunks: None,
            }
        };
        let codes = match values {
            EncodedValues::Dictionary(_, count) => (0..count).map(|k| k.wrapping_mul(2_654_435_761)).collect(),
            _ => Vec::new(),
        };
        let encoded = EncodedColumn {
            values,
            group_rows,
            present: present.as_ref().map(|p| store(p, true)),
            data: store(&data, false),
            secondary: secondary.as_ref().map(|s| store(s, false)),
        };
        Self {
            encoded,
            ty,
            stored: Stored::of(ty),
            file,
            codes,
            nullable: present.is_some(),
            present: present.map(|p| p.values),
            data: data.values,
            secondary: secondary.map_or_else(Vec::new, |s| s.values),
        }
    }

    /// The same column with its streams in chunks of random lengths.
    pub(crate) fn compressed(&self, random: &mut Random) -> Self {
        let mut column = self.clone();
        let compressors: [(Codec, Compressor); 2] = [
            (Codec::Snappy, |bytes| {
                snap::raw::Encoder::new().compress_vec(bytes).expect("compresses")
            }),
            (Codec::Lz4, lz4_flex::block::compress),
        ];
        let (codec, compress) = compressors[random.below(2) as usize];
        let most = [9, 200, 3000, 70_000][random.below(4) as usize];
        column.file = vec![0x5A; 5];
        let streams = [
            column.encoded.present.as_mut(),
            Some(&mut column.encoded.data),
            column.encoded.secondary.as_mut(),
        ];
        for stream in streams.into_iter().flatten() {
            let mut bytes = &self.file[stream.offset as usize..][..stream.length as usize];
            let (mut chunks, mut start) = (Vec::new(), 0);
            stream.offset = column.file.len() as u64;
            while !bytes.is_empty() {
                let (chunk, rest) = bytes.split_at(bytes.len().min(1 + random.below(most) as usize));
                let original = random.below(5) == 0;
                let stored = if original { chunk.to_vec() } else { compress(chunk) };
                column.file.extend([0x5A; 3]); // the header, which a device does not read
                chunks.push(EncodedChunk {
                    offset: column.file.len() as u64,
                    length: stored.len() as u32,
                    original,
                    start,
                });
                column.file.extend(&stored);
                start += chunk.len() as u64;
                bytes = rest;
            }
            stream.chunks = Some(EncodedChunks {
                codec,
                bytes: start,
                chunks,
            });
            column.file.extend([0x5A; 7]);
        }
        column
    }

    /// Whether no stream is without bytes: such a stream has no chunks.
    pub(crate) fn can_be_compressed(&self) -> bool {
        let streams = [
            self.encoded.present.as_ref(),
            Some(&self.encoded.data),
            self.encoded.secondary.as_ref(),
        ];
        streams.into_iter().flatten().all(|stream| stream.length > 0)
    }

    pub(crate) fn use_codes(&mut self, codes: Vec<u32>) {
        self.codes = codes;
    }

    pub(crate) fn rows(&self) -> u64 {
        self.present.as_ref().map_or(self.data.len(), Vec::len) as u64
    }

    /// Bytes of a batch that holds any row group.
    pub(crate) fn largest_group_bytes(&self) -> usize {
        let streams = [
            Some(&self.encoded.data),
            self.encoded.present.as_ref(),
            self.encoded.secondary.as_ref(),
        ];
        let groups = streams
            .into_iter()
            .flatten()
            .map(|s| s.entries.iter().map(|e| e.end - e.at).max().unwrap_or(0));
        // A task, a dictionary's codes or 300 changes of a zone, and padding.
        groups.sum::<u64>() as usize + 200 + 4 * self.codes.len() + 16 * 301
    }

    /// Values of the rows.
    pub(crate) fn expected(&self, rows: &Range<u64>) -> Decoded {
        let there = |row: u64| self.present.as_ref().is_none_or(|p| p[row as usize] == 1);
        let width = self.stored.bytes() as usize;
        let mut next = (0..rows.start).filter(|&row| there(row)).count();
        let (mut values, mut valid) = (Vec::new(), Vec::new());
        for row in rows.clone() {
            let mut value = 0;
            if there(row) {
                value = self.value(next);
                next += 1;
            }
            values.extend(&value.to_le_bytes()[..width]);
            valid.push(u8::from(there(row)));
        }
        Decoded {
            values,
            valid: self.nullable.then_some(valid),
        }
    }

    /// The same column in a layout for values from `least` to `greatest`.
    pub(crate) fn within(&self, (least, greatest): (i64, i64)) -> Self {
        Self {
            stored: Stored::narrowest(self.ty, least, greatest),
            ..self.clone()
        }
    }

    /// The least and the greatest value of all rows, as they are and as they are stored; NULL counts as 0. Of floats:
    /// as whole numbers, if all are.
    pub(crate) fn bounds(&self) -> (i64, i64) {
        let whole = |at: usize| match self.float(at) {
            Some(float) if float.to_bits() == f64::from(float as i32).to_bits() => float as i64,
            _ => i64::MAX,
        };
        let values = || {
            let values = (0..self.data.len()).flat_map(|at| match self.encoded.values {
                EncodedValues::Floats => [whole(at); 2],
                _ => [self.value(at), self.data[at]],
            });
            values.chain([0])
        };
        (values().min().unwrap_or(0), values().max().unwrap_or(0))
    }

    fn value(&self, at: usize) -> i64 {
        let stored = self.data[at];
        match &self.encoded.values {
            EncodedValues::Dictionary(..) => i64::from(self.codes[stored as usize]),
            EncodedValues::Timestamps(_, clock) => time(stored, self.secondary[at], clock),
            EncodedValues::Decimals(_, scale) => {
                rescaled(stored, self.secondary[at], i64::from(*scale)).expect("a value that fits")
            }
            EncodedValues::Floats if self.stored != Stored::of(self.ty) => self.float(at).expect("a float") as i64,
            _ => stored,
        }
    }

    fn float(&self, at: usize) -> Option<f64> {
        let bits = self.data[at] as u64;
        match self.ty {
            Type::Float64 => Some(f64::from_bits(bits)),
            Type::Float32 => Some(f32::from_bits(bits as u32).into()),
            _ => None,
        }
    }
}

/// Nanoseconds since 1970.
fn time(stored: i64, fraction: i64, clock: &Clock) -> i64 {
    let zeros = fraction & 7;
    let nanos = (fraction >> 3) * if zeros == 0 { 1 } else { 10i64.pow(zeros as u32 + 1) };
    let mut seconds = stored + clock.epoch;
    if seconds < 0 && nanos > 999_999 {
        seconds -= 1;
    }
    if let Some(zone) = &clock.changes {
        let change = zone.iter().rev().find(|c| c.from <= seconds).expect("inside the table");
        seconds += change.offset;
    }
    seconds * 1_000_000_000 + nanos
}

/// The first difference, as text.
pub(crate) fn difference(found: Option<&Decoded>, wanted: &Decoded, width: usize) -> String {
    let Some(found) = found else {
        return "an error".to_owned();
    };
    let rows = found.values.chunks(width).zip(wanted.values.chunks(width));
    match rows.enumerate().find(|(_, (a, b))| a != b) {
        Some((row, (a, b))) => format!("value {row} is {a:02x?} instead of {b:02x?}"),
        None => format!("validity {:?} instead of {:?}", found.valid, wanted.valid),
    }
}
