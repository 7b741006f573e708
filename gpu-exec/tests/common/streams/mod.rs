//! Streams made run by run, with the values that they must come to by the ORC specification (v1, "Run Length Encoding"), and columns of
//! them in row groups.

use std::ops::Range;
use std::sync::Arc;

use grampus_gpu_exec::input::Decoded;
use grampus_gpu_exec::input::encoded_column::{Change, Clock, EncodedColumn, EncodedStream, Entry, Runs, Values};
use grampus_gpu_exec::program::Type;

use super::random::Random;

/// A stream and its values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Coded {
    bytes: Vec<u8>,
    pub values: Vec<i64>,
    /// First byte and first value of each run.
    runs: Vec<(u64, u64)>,
}

impl Coded {
    /// One run.
    pub(crate) fn of_bytes(bytes: &[u8], values: Vec<i64>) -> Self {
        let mut coded = Self::default();
        coded.run(bytes, values);
        coded
    }

    fn run(&mut self, bytes: &[u8], values: impl IntoIterator<Item = i64>) {
        self.runs.push((self.bytes.len() as u64, self.values.len() as u64));
        self.bytes.extend_from_slice(bytes);
        self.values.extend(values);
    }

    /// Where the values from `first` to `end` are.
    fn entry(&self, first: u64, end: u64) -> Entry {
        let run = |value: u64| self.runs.partition_point(|(_, v)| *v <= value).checked_sub(1);
        let after = |run: usize| self.runs.get(run + 1).map_or(self.bytes.len() as u64, |r| r.0);
        let (at, skip) = match run(first) {
            Some(r) => (self.runs[r].0, (first - self.runs[r].1) as u32),
            None => (0, 0),
        };
        // What is skipped has to be there, too.
        let last = if end > first {
            run(end - 1)
        } else {
            run(first).filter(|_| skip > 0)
        };
        let end = last.map_or(at, after);
        Entry { at, skip, end }
    }
}

/// A column of one stripe and its file.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub encoded: EncodedColumn,
    pub ty: Type,
    pub file: Vec<u8>,
    pub numbers: Vec<u32>,
    pub nullable: bool,
    present: Option<Vec<i64>>,
    data: Vec<i64>,
    fraction: Vec<i64>,
}

impl Column {
    /// Of streams that hold a value for each row, or for each that has one, in groups of so many rows.
    pub(crate) fn new(
        values: Values,
        ty: Type,
        present: Option<Coded>,
        data: Coded,
        fraction: Option<Coded>,
        group_rows: u64,
    ) -> Self {
        let rows = present.as_ref().map_or(data.values.len(), |p| p.values.len()) as u64;
        let before = |row: u64| match &present {
            Some(p) => p.values[..row as usize].iter().sum::<i64>() as u64,
            None => row,
        };
        let starts: Vec<u64> = (0..rows.div_ceil(group_rows)).map(|g| g * group_rows).collect();
        let mut file = vec![0x5A; 3];
        let mut store = |coded: &Coded, of_rows: bool| {
            let value = |row: u64| if of_rows { row } else { before(row) };
            let entry = |&start: &u64| coded.entry(value(start), value(rows.min(start + group_rows)));
            let offset = file.len() as u64;
            file.extend(&coded.bytes);
            file.extend([0x5A; 11]);
            EncodedStream {
                offset,
                bytes: coded.bytes.len() as u64,
                entries: starts.iter().map(entry).collect(),
            }
        };
        let numbers = match values {
            Values::Codes(_, count) => (0..count).map(|k| k.wrapping_mul(2_654_435_761)).collect(),
            _ => Vec::new(),
        };
        let encoded = EncodedColumn {
            values,
            group_rows,
            present: present.as_ref().map(|p| store(p, true)),
            data: store(&data, false),
            fraction: fraction.as_ref().map(|f| store(f, false)),
        };
        Self {
            encoded,
            ty,
            file,
            numbers,
            nullable: present.is_some(),
            present: present.map(|p| p.values),
            data: data.values,
            fraction: fraction.map_or_else(Vec::new, |f| f.values),
        }
    }

    pub(crate) fn use_numbers(&mut self, numbers: Vec<u32>) {
        self.numbers = numbers;
    }

    pub(crate) fn rows(&self) -> u64 {
        self.present.as_ref().map_or(self.data.len(), Vec::len) as u64
    }

    /// A piece of so many bytes holds any row group.
    pub(crate) fn largest_group_bytes(&self) -> usize {
        let streams = [
            Some(&self.encoded.data),
            self.encoded.present.as_ref(),
            self.encoded.fraction.as_ref(),
        ];
        let groups = streams
            .into_iter()
            .flatten()
            .map(|s| s.entries.iter().map(|e| e.end - e.at).max().unwrap_or(0));
        // A task, a dictionary's numbers or 300 changes of a zone, and padding.
        groups.sum::<u64>() as usize + 200 + 4 * self.numbers.len() + 16 * 301
    }

    /// What the rows come to.
    pub(crate) fn expected(&self, rows: &Range<u64>) -> Decoded {
        let there = |row: u64| self.present.as_ref().is_none_or(|p| p[row as usize] == 1);
        let width = self.ty.width() as usize;
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

    fn value(&self, at: usize) -> i64 {
        let stored = self.data[at];
        match &self.encoded.values {
            Values::Codes(..) => i64::from(self.numbers[stored as usize]),
            Values::Timestamps(_, clock) => time(stored, self.fraction[at], clock),
            _ => stored,
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
    if let Some(zone) = &clock.zone {
        let change = zone.iter().rev().find(|c| c.from <= seconds).expect("inside the table");
        seconds += change.offset;
    }
    seconds * 1_000_000_000 + nanos
}

/// What differs, for people.
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

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn unzigzag(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

fn meaning(raw: u64, signed: bool) -> i64 {
    if signed { unzigzag(raw) } else { raw as i64 }
}

fn varint(mut raw: u64, out: &mut Vec<u8>) {
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

fn low(random: &mut Random, bits: u32) -> u64 {
    random.next() >> (64 - bits)
}

/// Of any magnitude.
fn any(random: &mut Random, bits: u32) -> u64 {
    let bits = 1 + random.below(u64::from(bits)) as u32;
    low(random, bits)
}

const WIDTHS: [u32; 32] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 28, 30, 32, 40, 48, 56,
    64,
];

/// Bit by bit.
fn pack(values: &[u64], width: u32, out: &mut Vec<u8>) {
    let bits = values
        .iter()
        .flat_map(|value| (0..width).rev().map(move |b| value >> b & 1));
    let bits: Vec<u64> = bits.collect();
    out.extend(bits.chunks(8).map(|byte| {
        let bit = |(at, bit): (usize, &u64)| (*bit as u8) << (7 - at);
        byte.iter().enumerate().map(bit).sum::<u8>()
    }));
}

type Run = (Vec<u8>, Vec<i64>);

fn short_repeat(random: &mut Random, bits: u32, signed: bool) -> Run {
    let raw = any(random, bits);
    let least = (64 - raw.leading_zeros()).div_ceil(8).max(1);
    let width = least + random.below(u64::from(9 - least)) as u32;
    let count = 3 + random.below(8);
    let mut bytes = vec![((width - 1) << 3) as u8 | (count - 3) as u8];
    bytes.extend(&raw.to_be_bytes()[8 - width as usize..]);
    (bytes, vec![meaning(raw, signed); count as usize])
}

fn header(kind: u8, code: usize, count: usize) -> Vec<u8> {
    vec![
        kind << 6 | (code as u8) << 1 | ((count - 1) >> 8) as u8,
        (count - 1) as u8,
    ]
}

fn direct(random: &mut Random, code: usize, count: usize, signed: bool) -> Run {
    let width = WIDTHS[code];
    let raws: Vec<u64> = (0..count).map(|_| low(random, width)).collect();
    let mut bytes = header(1, code, count);
    pack(&raws, width, &mut bytes);
    (bytes, raws.into_iter().map(|raw| meaning(raw, signed)).collect())
}

/// Code 0: all distances are the first.
fn delta(random: &mut Random, code: usize, count: usize, bits: u32, signed: bool) -> Run {
    let (base, first) = (any(random, bits), unzigzag(any(random, bits)));
    let mut bytes = header(3, code, count);
    varint(base, &mut bytes);
    varint(zigzag(first), &mut bytes);
    let distances: Vec<u64> = (2..count).map(|_| low(random, WIDTHS[code])).collect();
    if code > 0 {
        pack(&distances, WIDTHS[code], &mut bytes);
    }
    let mut value = meaning(base, signed);
    let mut values = vec![value];
    for k in 1..count {
        value = match (k, code, first < 0) {
            (1, _, _) | (_, 0, _) => value.wrapping_add(first),
            (_, _, true) => value.wrapping_sub(distances[k - 2] as i64),
            (_, _, false) => value.wrapping_add(distances[k - 2] as i64),
        };
        values.push(value);
    }
    (bytes, values)
}

fn patched(random: &mut Random, code: usize, count: usize, bits: u32, signed: bool) -> Run {
    let width = WIDTHS[code];
    let gap_width = 1 + random.below(8) as u32;
    let most = bits.saturating_sub(width).clamp(1, 64 - gap_width);
    let patch_code = loop {
        let code = random.below(32) as usize;
        if WIDTHS[code] <= most.max(1) {
            break code;
        }
    };
    let patch_width = WIDTHS[patch_code];
    let base_bytes = 1 + random.below(u64::from(bits.div_ceil(8))) as usize;
    let magnitude = any(random, (base_bytes as u32 * 8 - 1).min(bits.saturating_sub(2).max(1)));
    let negative = signed && random.one_in(2);
    let mut raws: Vec<u64> = (0..count).map(|_| low(random, width)).collect();
    let mut bytes = header(2, code, count);
    let mut packed = Vec::new();
    pack(&raws, width, &mut packed);
    let (mut entries, mut at) = (Vec::new(), 0);
    for _ in 0..random.below(32) {
        let gap = any(random, gap_width);
        at += gap as usize;
        // An empty patch may lie anywhere.
        let patch = if at < count && width < 64 {
            low(random, patch_width)
        } else {
            0
        };
        if patch != 0 {
            raws[at] |= patch << width;
        }
        entries.push(gap << patch_width | patch);
    }
    bytes.push((base_bytes as u8 - 1) << 5 | patch_code as u8);
    bytes.push((gap_width as u8 - 1) << 5 | entries.len() as u8);
    let stored = magnitude | u64::from(negative) << (base_bytes * 8 - 1);
    bytes.extend(&stored.to_be_bytes()[8 - base_bytes..]);
    bytes.extend(packed);
    let entry_width = WIDTHS
        .iter()
        .find(|w| **w >= patch_width + gap_width)
        .expect("at most 64");
    pack(&entries, *entry_width, &mut bytes);
    let base = if negative {
        (magnitude as i64).wrapping_neg()
    } else {
        magnitude as i64
    };
    (
        bytes,
        raws.into_iter().map(|raw| (raw as i64).wrapping_add(base)).collect(),
    )
}

fn run_2(random: &mut Random, bits: u32, signed: bool) -> Run {
    let codes = WIDTHS.iter().filter(|w| **w <= bits).count() as u64;
    let code = random.below(codes) as usize;
    let most = if random.one_in(3) { 512 } else { 40 };
    let count = 1 + random.below(most) as usize;
    match random.below(5) {
        0 => short_repeat(random, bits, signed),
        1 => direct(random, code, count, signed),
        2 => patched(random, code, count, bits, signed),
        3 => delta(random, code, count, bits, signed),
        _ => delta(random, 0, count, bits, signed),
    }
}

fn run_1(random: &mut Random, bits: u32, signed: bool) -> Run {
    let mut bytes = Vec::new();
    if random.one_in(2) {
        let count = 3 + random.below(128);
        let (step, base) = (random.next() as i8, any(random, bits));
        bytes.extend([(count - 3) as u8, step as u8]);
        varint(base, &mut bytes);
        let value = |k: i64| meaning(base, signed).wrapping_add(k.wrapping_mul(i64::from(step)));
        return (bytes, (0..count as i64).map(value).collect());
    }
    let raws: Vec<u64> = (0..1 + random.below(128)).map(|_| any(random, bits)).collect();
    bytes.push((256 - raws.len()) as u8);
    raws.iter().for_each(|raw| varint(*raw, &mut bytes));
    (bytes, raws.into_iter().map(|raw| meaning(raw, signed)).collect())
}

/// `count` integers that fit so many bits.
pub(crate) fn integers(random: &mut Random, runs: Runs, count: u64, bits: u32, signed: bool) -> Coded {
    let range = match signed {
        true => -(1i128 << (bits - 1))..1i128 << (bits - 1),
        false => 0..1i128 << bits,
    };
    let mut coded = Coded::default();
    while (coded.values.len() as u64) < count {
        let (bytes, values) = match runs {
            Runs::V1 => run_1(random, bits, signed),
            Runs::V2 => run_2(random, bits, signed),
        };
        // What is beyond a type's range is another test's.
        let (bytes, values) = match values.iter().all(|v| range.contains(&i128::from(*v))) {
            true => (bytes, values),
            false if runs == Runs::V2 => short_repeat(random, bits, signed),
            false => continue,
        };
        coded.run(&bytes, values);
    }
    coded.values.truncate(count as usize);
    coded
}

/// Streams of the four kinds of runs with this code of a width.
pub(crate) fn runs_of_width(random: &mut Random, code: usize) -> Vec<Coded> {
    let mut all = Vec::new();
    for kind in 0..3 {
        let mut coded = Coded::default();
        for count in [1, 2, 3, 31, 32, 33, 64, 65, 511, 512] {
            let (bytes, values) = match kind {
                0 => direct(random, code, count, true),
                1 => delta(random, code, count, 64, true),
                _ => patched(random, code, count, 64, true),
            };
            coded.run(&bytes, values);
        }
        all.push(coded);
    }
    all
}

/// Varints as they are.
pub(crate) fn literals(values: &[i64], signed: bool) -> Coded {
    let mut bytes = vec![(256 - values.len()) as u8];
    for value in values {
        varint(if signed { zigzag(*value) } else { *value as u64 }, &mut bytes);
    }
    Coded::of_bytes(&bytes, values.to_vec())
}

/// Byte runs: bytes of the runs.
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

pub(crate) fn bytes(random: &mut Random, count: u64) -> Coded {
    let mut coded = Coded::default();
    for (bytes, values) in byte_runs(random, count) {
        coded.run(&bytes, values);
    }
    coded.values.truncate(count as usize);
    coded
}

/// Booleans, the most significant bit first.
pub(crate) fn bits(random: &mut Random, count: u64) -> Coded {
    let mut coded = Coded::default();
    for (bytes, values) in byte_runs(random, count.div_ceil(8)) {
        coded.run(
            &bytes,
            values.iter().flat_map(|v| (0..8).rev().map(move |b| v >> b & 1)),
        );
    }
    coded.values.truncate(count as usize);
    coded
}

pub(crate) fn raw(random: &mut Random, count: u64, width: usize) -> Coded {
    let mut coded = Coded::default();
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

/// Seconds and scaled nanoseconds of times within a century of 2015.
pub(crate) fn times(random: &mut Random, runs: Runs, count: u64) -> (Coded, Coded) {
    let seconds = integers(random, runs, count, 31, true);
    // At most three, with up to eight zeros; or any.
    let mut nanos = integers(random, runs, count, 5, false);
    if random.one_in(2) {
        nanos = Coded::default();
        while (nanos.values.len() as u64) < count {
            let zeros = random.below(8);
            let digits = random.below(10u64.pow(if zeros == 0 { 9 } else { 8 - zeros as u32 }));
            let one = literals(&[(digits << 3 | zeros) as i64], false);
            match runs {
                Runs::V1 => nanos.run(&one.bytes, one.values),
                // A direct run of one value.
                Runs::V2 => {
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
        changes.push(Change {
            from,
            offset: random.below(50_000) as i64 - 25_000,
        });
        from += random.below(40_000_000) as i64;
    }
    let end = Change {
        from: 10_000_000_000.max(from),
        offset: 0,
    };
    changes.push(end);
    Clock {
        epoch,
        zone: (changes.len() > 1).then(|| Arc::from(changes)),
    }
}
