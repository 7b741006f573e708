//! `CodedStream`: a stream made run by run, with the values that it decodes to by the ORC specification (v1, "Run
//! Length Encoding").
//!
//! ```text
//! mod           streams of bytes, bits, raw values and times
//! integer_runs  runs of integers, versions 1 and 2
//! decimals      varints, and their scales
//! column        columns of such streams in row groups
//! ```

mod column;
mod decimals;
mod integer_runs;

use std::sync::Arc;

use grampus_orc_layout::decode::{Clock, ClockChange};
use grampus_orc_layout::encoded_column::{EncodedEntry, RunLength};

pub(crate) use self::column::{Column, difference};
pub(crate) use self::decimals::{decimals, of_one, varints};
use self::integer_runs::{Run, header, pack};
pub(crate) use self::integer_runs::{integers, literals, runs_of_width};
use crate::common::random::Random;

/// A stream and its values.
#[derive(Debug, Clone, Default)]
pub(crate) struct CodedStream {
    pub bytes: Vec<u8>,
    pub values: Vec<i64>,
    /// First byte and first value of each run.
    runs: Vec<(u64, u64)>,
}

impl CodedStream {
    /// A stream of one run.
    pub(crate) fn of_bytes(bytes: &[u8], values: Vec<i64>) -> Self {
        let mut coded = Self::default();
        coded.run(bytes, values);
        coded
    }

    pub(super) fn run(&mut self, bytes: &[u8], values: impl IntoIterator<Item = i64>) {
        self.runs.push((self.bytes.len() as u64, self.values.len() as u64));
        self.bytes.extend_from_slice(bytes);
        self.values.extend(values);
    }

    /// Place of the values from `first` to `end`.
    pub(super) fn entry(&self, first: u64, end: u64) -> EncodedEntry {
        let run = |value: u64| self.runs.partition_point(|(_, v)| *v <= value).checked_sub(1);
        let after = |run: usize| self.runs.get(run + 1).map_or(self.bytes.len() as u64, |r| r.0);
        let (at, skip) = match run(first) {
            Some(r) => (self.runs[r].0, (first - self.runs[r].1) as u32),
            None => (0, 0),
        };
        // Skipped values must be inside the stream, too.
        let last = if end > first {
            run(end - 1)
        } else {
            run(first).filter(|_| skip > 0)
        };
        let end = last.map_or(at, after);
        EncodedEntry { at, skip, end }
    }
}

/// Byte runs with their bytes.
fn byte_runs(random: &mut Random, count: u64) -> Vec<Run> {
    let (mut runs, mut have) = (Vec::new(), 0);
    while have < count {
        let (bytes, values) = if random.one_in(2) {
            let (n, byte) = (3 + random.below(128), random.next() as u8);
            (vec![(n - 3) as u8, byte], vec![i64::from(byte); n as usize])
        } else {
            let literals: Vec<u8> = (0..1 + random.below(128)).map(|_| random.next() as u8).collect();
            let mut bytes = vec![(256 - literals.len()) as u8];
            bytes.extend(&literals);
            (bytes, literals.into_iter().map(i64::from).collect())
        };
        have += values.len() as u64;
        runs.push((bytes, values));
    }
    runs
}

pub(crate) fn bytes(random: &mut Random, count: u64) -> CodedStream {
    let mut coded = CodedStream::default();
    for (bytes, values) in byte_runs(random, count) {
        coded.run(&bytes, values);
    }
    coded.values.truncate(count as usize);
    coded
}

/// Booleans, the most significant bit first.
pub(crate) fn bits(random: &mut Random, count: u64) -> CodedStream {
    let mut coded = CodedStream::default();
    for (bytes, values) in byte_runs(random, count.div_ceil(8)) {
        coded.run(
            &bytes,
            values.iter().flat_map(|v| (0..8).rev().map(move |b| v >> b & 1)),
        );
    }
    coded.values.truncate(count as usize);
    coded
}

pub(crate) fn raw(random: &mut Random, count: u64, width: usize) -> CodedStream {
    let mut coded = CodedStream::default();
    for _ in 0..count {
        let value = random.next();
        let value = if width < 8 {
            value & ((1 << (8 * width)) - 1)
        } else {
            value
        };
        coded.run(&value.to_le_bytes()[..width], [value as i64]);
    }
    coded
}

/// Floats of four or eight bytes.
pub(crate) fn floats(values: &[f64], width: usize) -> CodedStream {
    let mut coded = CodedStream::default();
    for value in values {
        let bits = match width {
            4 => (*value as f32).to_bits().into(),
            _ => value.to_bits(),
        };
        coded.run(&bits.to_le_bytes()[..width], [bits as i64]);
    }
    coded
}

/// Seconds and scaled nanoseconds of times within a century of 2015.
pub(crate) fn times(random: &mut Random, runs: RunLength, count: u64) -> (CodedStream, CodedStream) {
    let seconds = integers(random, runs, count, 31, true);
    // Either up to three digits with up to eight zeros, or any nanoseconds.
    let mut nanos = integers(random, runs, count, 5, false);
    if random.one_in(2) {
        nanos = CodedStream::default();
        while (nanos.values.len() as u64) < count {
            let zeros = random.below(8);
            let digits = random.below(10u64.pow(if zeros == 0 { 9 } else { 8 - zeros as u32 }));
            let one = literals(&[(digits << 3 | zeros) as i64], false);
            match runs {
                RunLength::V1 => nanos.run(&one.bytes, one.values),
                // A direct run of one value.
                RunLength::V2 => {
                    let mut bytes = header(1, 27, 1);
                    pack(&[one.values[0] as u64 & 0xffff_ffff], 32, &mut bytes);
                    nanos.run(&bytes, [one.values[0] & 0xffff_ffff]);
                }
            }
        }
    }
    (seconds, nanos)
}

/// UTC, or a zone with changes.
pub(crate) fn clock(random: &mut Random) -> Clock {
    let epoch = 1_420_070_400 + random.below(86_400) as i64 - 43_200;
    let mut from = -4_000_000_000;
    let mut changes = Vec::new();
    for _ in 0..random.below(300) {
        changes.push(ClockChange {
            from,
            offset: random.below(50_000) as i64 - 25_000,
        });
        from += random.below(40_000_000) as i64;
    }
    let end = ClockChange {
        from: 10_000_000_000.max(from),
        offset: 0,
    };
    changes.push(end);
    Clock {
        epoch,
        changes: (changes.len() > 1).then(|| Arc::from(changes)),
    }
}
