//! Decimals: unscaled values as varints, and a scale for each.

use grampus_orc_layout::encoded_column::RunLength;

use super::CodedStream;
use super::integer_runs::{any, header, integers, literals, meaning, pack, varint, zigzag};
use crate::common::random::Random;

/// A value at another scale, rounded half up, away from zero. `None`: 64 bits do not hold it.
pub(crate) fn rescaled(value: i64, from: i64, to: i64) -> Option<i64> {
    // Enough digits to leave 64 bits, and to leave nothing of them.
    let power = |digits: i64, most: i64| 10i128.pow(digits.min(most) as u32);
    let value = i128::from(value);
    let scaled = match from <= to {
        true => value * power(to.saturating_sub(from), 19),
        false => {
            let divisor = power(from - to, 20);
            value.signum() * ((2 * value.abs() + divisor) / (2 * divisor))
        }
    };
    i64::try_from(scaled).ok()
}

/// Varints, each of which can be entered.
pub(crate) fn varints(values: &[i64]) -> CodedStream {
    let mut coded = CodedStream::default();
    for value in values {
        let mut bytes = Vec::new();
        varint(zigzag(*value), &mut bytes);
        coded.run(&bytes, [*value]);
    }
    coded
}

/// A run of one integer.
pub(crate) fn of_one(runs: RunLength, value: i64) -> CodedStream {
    if runs == RunLength::V1 {
        return literals(&[value], true);
    }
    let mut bytes = header(1, 31, 1);
    pack(&[zigzag(value)], 64, &mut bytes);
    CodedStream::of_bytes(&bytes, vec![value])
}

/// Unscaled values with scales that a column of the scale `to` can hold.
pub(crate) fn decimals(random: &mut Random, runs: RunLength, count: u64, to: i8) -> (CodedStream, CodedStream) {
    let scales = match random.below(4) {
        0 => integers(random, runs, count, 64, true),
        1 => integers(random, runs, count, 6, true),
        _ => mostly_alike(random, runs, count, i64::from(to)),
    };
    let values: Vec<i64> = scales
        .values
        .iter()
        .map(|scale| {
            let fits = |value: &i64| rescaled(*value, *scale, i64::from(to)).is_some();
            let narrower = (1..=64).rev().map(|bits| meaning(any(random, bits), true));
            narrower.take(64).find(fits).unwrap_or(0)
        })
        .collect();
    (varints(&values), scales)
}

/// Runs of one scale, and between them single ones near it.
fn mostly_alike(random: &mut Random, runs: RunLength, count: u64, scale: i64) -> CodedStream {
    let mut coded = CodedStream::default();
    while (coded.values.len() as u64) < count {
        if random.one_in(3) {
            let one = of_one(runs, scale + random.below(7) as i64 - 3);
            coded.run(&one.bytes, one.values);
            continue;
        }
        let length = 3 + random.below(128) as usize;
        // Version 2: a delta run without distances.
        let (mut bytes, end) = match runs {
            RunLength::V1 => (vec![(length - 3) as u8, 0], None),
            RunLength::V2 => (header(3, 0, length), Some(0)),
        };
        varint(zigzag(scale), &mut bytes);
        bytes.extend(end);
        coded.run(&bytes, vec![scale; length]);
    }
    coded.values.truncate(count as usize);
    coded
}
