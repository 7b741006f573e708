//! Runs of integers, versions 1 and 2, with their values.

use grampus_orc_layout::encoded_column::RunLength;

use super::CodedStream;
use crate::common::random::Random;

pub(super) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn unzigzag(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

pub(super) fn meaning(raw: u64, signed: bool) -> i64 {
    if signed { unzigzag(raw) } else { raw as i64 }
}

pub(super) fn varint(mut raw: u64, out: &mut Vec<u8>) {
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

fn low(random: &mut Random, bits: u32) -> u64 {
    random.next() >> (64 - bits)
}

/// A value of random magnitude.
pub(super) fn any(random: &mut Random, bits: u32) -> u64 {
    let bits = 1 + random.below(u64::from(bits)) as u32;
    low(random, bits)
}

const WIDTHS: [u32; 32] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 28, 30, 32, 40, 48, 56,
    64,
];

/// Packs values bit by bit.
pub(super) fn pack(values: &[u64], width: u32, out: &mut Vec<u8>) {
    let bits = values
        .iter()
        .flat_map(|value| (0..width).rev().map(move |b| value >> b & 1));
    let bits: Vec<u64> = bits.collect();
    out.extend(bits.chunks(8).map(|byte| {
        let bit = |(at, bit): (usize, &u64)| (*bit as u8) << (7 - at);
        byte.iter().enumerate().map(bit).sum::<u8>()
    }));
}

pub(super) type Run = (Vec<u8>, Vec<i64>);

fn short_repeat(random: &mut Random, bits: u32, signed: bool) -> Run {
    let raw = any(random, bits);
    let least = (64 - raw.leading_zeros()).div_ceil(8).max(1);
    let width = least + random.below(u64::from(9 - least)) as u32;
    let count = 3 + random.below(8);
    let mut bytes = vec![((width - 1) << 3) as u8 | (count - 3) as u8];
    bytes.extend(&raw.to_be_bytes()[8 - width as usize..]);
    (bytes, vec![meaning(raw, signed); count as usize])
}

pub(super) fn header(kind: u8, code: usize, count: usize) -> Vec<u8> {
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

/// A delta run. With code 0 all distances are the first.
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

/// `count` integers of at most `bits` bits.
pub(crate) fn integers(random: &mut Random, runs: RunLength, count: u64, bits: u32, signed: bool) -> CodedStream {
    let range = match signed {
        true => -(1i128 << (bits - 1))..1i128 << (bits - 1),
        false => 0..1i128 << bits,
    };
    let mut coded = CodedStream::default();
    while (coded.values.len() as u64) < count {
        let (bytes, values) = match runs {
            RunLength::V1 => run_1(random, bits, signed),
            RunLength::V2 => run_2(random, bits, signed),
        };
        // Values beyond a type's range have a test of their own.
        let (bytes, values) = match values.iter().all(|v| range.contains(&i128::from(*v))) {
            true => (bytes, values),
            false if runs == RunLength::V2 => short_repeat(random, bits, signed),
            false => continue,
        };
        coded.run(&bytes, values);
    }
    coded.values.truncate(count as usize);
    coded
}

/// Streams of runs of the kinds that have a width, with this code of the width.
pub(crate) fn runs_of_width(random: &mut Random, code: usize) -> Vec<CodedStream> {
    let mut all = Vec::new();
    for kind in 0..3 {
        let mut coded = CodedStream::default();
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

/// A literal run of varints.
pub(crate) fn literals(values: &[i64], signed: bool) -> CodedStream {
    let mut bytes = vec![(256 - values.len()) as u8];
    for value in values {
        varint(if signed { zigzag(*value) } else { *value as u64 }, &mut bytes);
    }
    CodedStream::of_bytes(&bytes, values.to_vec())
}
