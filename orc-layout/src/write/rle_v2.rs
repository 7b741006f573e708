//! [`IntRuns`], integer run-length encoding, version 2 (ORC v1, "Run Length Encoding version 2"). The encoder chooses
//! the cheapest of the four kinds of run for the next values.

use std::ops::Range;

use super::bits::{fixed_width, pack, push_varint, varint_length, width_code, width_of, zigzag};
use super::run_encoder::{RunEncoder, Runs};
use super::stream::OutStream;
use crate::error::Result;

/// Longest run of any kind, as its nine-bit length allows. The encoder looks at this many values at a time.
const MAX_RUN: usize = 512;
/// Longest patch list, as its five-bit length allows.
const MAX_PATCHES: usize = 31;
/// Longest short-repeat run.
const MAX_SHORT_REPEAT: usize = 10;
/// Fewest values that are worth the search for outliers.
const MIN_PATCHED: usize = 32;
/// Smallest width of values that is worth the search for outliers.
const MIN_PATCHED_WIDTH: u32 = 5;
/// Bits of the largest base of a patched run: sign and magnitude then fit seven bytes.
const MAX_BASE_BITS: u32 = 54;

/// Runs of integers.
#[derive(Debug)]
pub(super) struct IntRuns {
    signed: bool,
}

impl Runs for IntRuns {
    type Value = i64;

    fn encode(&self, values: &[i64], out: &mut Vec<u8>) {
        encode_block(self.signed, values, out);
    }
}

/// Encodes integers into a stream.
pub(super) type IntEncoder = RunEncoder<IntRuns>;

impl IntEncoder {
    /// An encoder of a signed stream, or of one whose values are never negative.
    pub(super) fn new(stream: OutStream, signed: bool) -> Self {
        Self::over(stream, IntRuns { signed })
    }

    /// Appends values.
    pub(super) fn write(&mut self, mut values: &[i64]) -> Result<()> {
        if !self.pending.is_empty() {
            let taken = values.len().min(MAX_RUN - self.pending.len());
            self.pending.extend_from_slice(&values[..taken]);
            values = &values[taken..];
            if self.pending.len() < MAX_RUN {
                return Ok(());
            }
            self.flush()?;
        }
        let blocks = values.chunks_exact(MAX_RUN);
        self.pending.extend_from_slice(blocks.remainder());
        for block in blocks {
            self.runs.encode(block, &mut self.scratch);
            // Appends are few and large: a run has only some hundred bytes.
            if self.scratch.len() >= 16 * 1024 {
                self.stream.write(&self.scratch)?;
                self.scratch.clear();
            }
        }
        self.stream.write(&self.scratch)?;
        self.scratch.clear();
        Ok(())
    }
}

/// Costs of each kind of run, from one pass over some values.
#[derive(Debug, Clone, Copy)]
struct Profile {
    min: i64,
    max: i64,
    /// Bits of the largest value in a direct run.
    direct_bits: u32,
    /// Bits of the largest step after the first, if a delta run can hold the values.
    delta_bits: Option<u32>,
}

impl Profile {
    fn of(signed: bool, values: &[i64]) -> Self {
        let (mut min, mut max) = (values[0], values[0]);
        for &value in values {
            min = min.min(value);
            max = max.max(value);
        }
        let direct_bits = if signed {
            width_of(zigzag(min) | zigzag(max))
        } else {
            width_of(max as u64)
        };
        // Steps of more than 63 bits would wrap.
        let delta_bits = max.checked_sub(min).and_then(|_| delta_bits(values));
        Self {
            min,
            max,
            direct_bits,
            delta_bits,
        }
    }

    /// Bits of one more value, at best.
    fn bits_per_value(&self) -> u32 {
        self.delta_bits.unwrap_or(64).min(self.direct_bits).max(1)
    }
}

/// Bits of the largest step after the first one; `None` if the values do not all go one way. Differences must not
/// overflow.
fn delta_bits(values: &[i64]) -> Option<u32> {
    let first = values.get(1)? - values[0];
    let (mut up, mut down) = (first >= 0, first <= 0);
    let mut steps = 0u64;
    for pair in values[1..].windows(2) {
        let step = pair[1] - pair[0];
        up &= step >= 0;
        down &= step <= 0;
        steps |= step.unsigned_abs();
        if !(up || down) {
            return None;
        }
    }
    Some(width_of(steps))
}

/// Appends the runs for up to [`MAX_RUN`] values. Constant and evenly spaced stretches become runs of their own where
/// that is shorter; the rest becomes literals.
fn encode_block(signed: bool, values: &[i64], out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let profile = Profile::of(signed, values);
    let bits = profile.bits_per_value() as usize;
    // A run of its own costs its bytes and the header of the literals after it.
    let value_bytes = profile.direct_bits.div_ceil(8) as usize;
    let min_repeat = (8 * (3 + value_bytes)).div_ceil(bits).max(3);
    let min_even = (8 * (6 + value_bytes)).div_ceil(bits).max(4);

    let no_overflow = profile.max.checked_sub(profile.min).is_some();
    let same = SameSteps::of(values);
    let mut literals_from = 0;
    let mut at = 0;
    while let Some(stretch) = same.next(at) {
        at = stretch.end;
        // The previous stretch may have taken this one's first value.
        let even = &values[stretch.start.max(literals_from)..stretch.end];
        let step = even[1].wrapping_sub(even[0]);
        let enough = if step == 0 { min_repeat } else { min_even };
        if even.len() >= enough.min(values.len()) && even.len() >= 3 && (no_overflow || evenly_spaced(even)) {
            encode_literals(signed, &values[literals_from..stretch.end - even.len()], None, out);
            encode_even(signed, even, step, out);
            literals_from = stretch.end;
        }
    }
    let whole = (literals_from == 0).then_some(profile);
    encode_literals(signed, &values[literals_from..], whole, out);
}

/// Values that continue an even spacing: bit k is set if the step to value k + 2 equals the step before it. Random
/// values have hardly any, so the search for evenly spaced stretches costs next to nothing.
struct SameSteps([u64; MAX_RUN / 64]);

impl SameSteps {
    fn of(values: &[i64]) -> Self {
        let mut bits = [0; MAX_RUN / 64];
        for (k, three) in values.windows(3).enumerate() {
            let same = three[2].wrapping_sub(three[1]) == three[1].wrapping_sub(three[0]);
            bits[k / 64] |= u64::from(same) << (k % 64);
        }
        Self(bits)
    }

    /// The first evenly spaced stretch of at least three values that ends after `at`.
    fn next(&self, at: usize) -> Option<Range<usize>> {
        let start = self.find(at.saturating_sub(2), 0)?;
        let end = self.find(start, u64::MAX).unwrap_or(MAX_RUN - 2);
        Some(start..end + 2)
    }

    /// The first set bit from `from` on, after all bits are xored with `flip`.
    fn find(&self, from: usize, flip: u64) -> Option<usize> {
        let mut mask = u64::MAX << (from % 64);
        for (word, bits) in self.0.iter().enumerate().skip(from / 64) {
            let bits = (bits ^ flip) & mask;
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }
}

/// Whether all steps are equal, although differences may overflow.
fn evenly_spaced(values: &[i64]) -> bool {
    let step = values[1].checked_sub(values[0]);
    step.is_some() && values[1..].windows(2).all(|pair| pair[1].checked_sub(pair[0]) == step)
}

/// A constant or evenly spaced run of at least three values: SHORT_REPEAT, or DELTA with a fixed step.
fn encode_even(signed: bool, values: &[i64], step: i64, out: &mut Vec<u8>) {
    if step == 0 && values.len() <= MAX_SHORT_REPEAT {
        let value = stored(signed, values[0]);
        let bytes = width_of(value).div_ceil(8).max(1) as usize;
        out.push(((bytes - 1) << 3) as u8 | (values.len() - 3) as u8);
        out.extend_from_slice(&value.to_be_bytes()[8 - bytes..]);
    } else {
        push_header(out, 3, 0, values.len());
        push_varint(out, stored(signed, values[0]));
        push_varint(out, zigzag(step));
    }
}

/// DELTA, PATCHED_BASE or DIRECT, whichever is smallest.
fn encode_literals(signed: bool, values: &[i64], profile: Option<Profile>, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let profile = profile.unwrap_or_else(|| Profile::of(signed, values));
    let direct_width = fixed_width(profile.direct_bits);
    let direct_bytes = 2 + packed_bytes(values.len(), direct_width);
    if let Some(bits) = profile.delta_bits {
        let delta = DeltaPlan::new(signed, values, bits);
        if delta.bytes <= direct_bytes {
            return delta.encode(signed, values, out);
        }
    }
    if values.len() >= MIN_PATCHED
        && direct_width >= MIN_PATCHED_WIDTH
        && let Some(patched) = Patched::plan(values, &profile)
        // Readers unpack direct runs fastest: a patched run must save more than a little.
        && patched.bytes(values.len()) + direct_bytes / 16 < direct_bytes
    {
        return patched.encode(values, out);
    }
    encode_direct(signed, values, direct_width, out);
}

/// A DELTA run. The sign of the first step is every step's. Readers differ on a first step of 0: orc-rust 0.9 takes it
/// as downward, all others as upward. Equal values at the start therefore become a run of their own.
#[derive(Debug)]
struct DeltaPlan {
    /// Equal values before the run.
    head: usize,
    /// Bits of a step after the first; 0 if all are the same.
    width: u32,
    bytes: usize,
}

impl DeltaPlan {
    fn new(signed: bool, values: &[i64], bits: u32) -> Self {
        let equal = values.windows(2).take_while(|pair| pair[0] == pair[1]).count();
        let head = if equal + 1 == values.len() { 0 } else { equal };
        let rest = &values[head..];
        // Width 0 means that every step equals the first one. The code of width 1 is the same, so one bit is stored as
        // two.
        let fixed = rest.len() == 2 || bits == 0 && rest[0] == rest[1];
        let width = if fixed { 0 } else { fixed_width(bits).max(2) };
        let value_bytes = varint_length(stored(signed, values[0]));
        let head_bytes = if head == 0 { 0 } else { 3 + value_bytes };
        let first_step = varint_length(zigzag(rest[1] - rest[0]));
        let bytes = head_bytes + 2 + value_bytes + first_step + packed_bytes(rest.len() - 2, width);
        Self { head, width, bytes }
    }

    fn encode(&self, signed: bool, values: &[i64], out: &mut Vec<u8>) {
        let (head, values) = values.split_at(self.head);
        match head.len() {
            0 => {}
            1 | 2 => encode_direct(signed, head, fixed_width(width_of(stored(signed, head[0]))), out),
            _ => encode_even(signed, head, 0, out),
        }
        let code = if self.width == 0 { 0 } else { width_code(self.width) };
        push_header(out, 3, code, values.len());
        push_varint(out, stored(signed, values[0]));
        push_varint(out, zigzag(values[1] - values[0]));
        if self.width > 0 {
            let steps = values[1..].windows(2).map(|pair| (pair[1] - pair[0]).unsigned_abs());
            pack(out, self.width, steps);
        }
    }
}

fn encode_direct(signed: bool, values: &[i64], width: u32, out: &mut Vec<u8>) {
    push_header(out, 1, width_code(width), values.len());
    pack(out, width, values.iter().map(|&value| stored(signed, value)));
}

/// A PATCHED_BASE run: differences to the smallest value in few bits, and the upper bits of the few that need more.
///
/// Without an outlier, this kind stores values far from zero and close to each other. Its patch list then holds one
/// patch that changes nothing, because readers refuse an empty list.
#[derive(Debug)]
struct Patched {
    base: i64,
    width: u32,
    patch_width: u32,
    gap_width: u32,
    /// (gap to the previous patch, upper bits)
    patches: Vec<(u64, u64)>,
}

impl Patched {
    fn plan(values: &[i64], profile: &Profile) -> Option<Self> {
        let base = profile.min;
        let range = profile.max.checked_sub(base)? as u64;
        if width_of(base.unsigned_abs()) > MAX_BASE_BITS {
            return None;
        }
        let full = fixed_width(width_of(range));
        let width = Self::best_width(values, base, full)?;
        let patch_width = fixed_width(width_of(range.checked_shr(width).unwrap_or(0)));
        let (patches, max_gap) = Self::patches(values, base, width)?;
        let gap_width = width_of(max_gap).max(1);
        (patch_width + gap_width <= 64).then_some(Self {
            base,
            width,
            patch_width,
            gap_width,
            patches,
        })
    }

    /// The width at which values and patches together are smallest.
    fn best_width(values: &[i64], base: i64, full: u32) -> Option<u32> {
        let mut wider = [0u16; 65];
        for value in values {
            wider[width_of((value - base) as u64) as usize] += 1;
        }
        // `outliers`: values of more bits than `width`.
        let mut outliers = 0usize;
        let mut best: Option<(usize, u32)> = None;
        for width in (1..=64).rev() {
            if fixed_width(width) == width && width <= full && outliers <= MAX_PATCHES {
                let patch = if outliers == 0 {
                    2
                } else {
                    fixed_width((8 + full - width).min(64))
                };
                let bits = values.len() * width as usize + outliers * patch as usize;
                if best.is_none_or(|(least, _)| bits < least) {
                    best = Some((bits, width));
                }
            }
            outliers += usize::from(wider[width as usize]);
        }
        best.map(|(_, width)| width)
    }

    /// The patch list and its widest gap; `None` if the list is too long.
    fn patches(values: &[i64], base: i64, width: u32) -> Option<(Vec<(u64, u64)>, u64)> {
        let mut patches = Vec::new();
        let mut previous = 0;
        let mut max_gap = 0;
        for (at, value) in values.iter().enumerate() {
            let upper = ((value - base) as u64).checked_shr(width).unwrap_or(0);
            if upper == 0 {
                continue;
            }
            let mut gap = (at - previous) as u64;
            while gap > 255 {
                patches.push((255, 0));
                max_gap = 255;
                gap -= 255;
            }
            patches.push((gap, upper));
            max_gap = max_gap.max(gap);
            previous = at;
        }
        if patches.is_empty() {
            patches.push((0, 0));
        }
        (patches.len() <= MAX_PATCHES).then_some((patches, max_gap))
    }

    fn base_bytes(&self) -> usize {
        (width_of(self.base.unsigned_abs()) + 1).div_ceil(8) as usize
    }

    fn entry_width(&self) -> u32 {
        fixed_width(self.gap_width + self.patch_width)
    }

    fn bytes(&self, count: usize) -> usize {
        4 + self.base_bytes() + packed_bytes(count, self.width) + packed_bytes(self.patches.len(), self.entry_width())
    }

    fn encode(&self, values: &[i64], out: &mut Vec<u8>) {
        push_header(out, 2, width_code(self.width), values.len());
        let base_bytes = self.base_bytes();
        out.push((base_bytes as u8 - 1) << 5 | width_code(self.patch_width));
        out.push((self.gap_width as u8 - 1) << 5 | self.patches.len() as u8);
        let sign = if self.base < 0 { 1u64 << (base_bytes * 8 - 1) } else { 0 };
        let base = self.base.unsigned_abs() | sign;
        out.extend_from_slice(&base.to_be_bytes()[8 - base_bytes..]);
        let mask = u64::MAX >> (64 - self.width);
        pack(
            out,
            self.width,
            values.iter().map(|value| (value - self.base) as u64 & mask),
        );
        let entries = self.patches.iter().map(|(gap, patch)| gap << self.patch_width | patch);
        pack(out, self.entry_width(), entries);
    }
}

fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

fn stored(signed: bool, value: i64) -> u64 {
    if signed { zigzag(value) } else { value as u64 }
}

/// Two bytes: kind of run, width code, length less one.
fn push_header(out: &mut Vec<u8>, kind: u8, code: u8, length: usize) {
    debug_assert!((1..=MAX_RUN).contains(&length));
    let length = (length - 1) as u16;
    out.push(kind << 6 | code << 1 | (length >> 8) as u8);
    out.push(length as u8);
}

#[cfg(test)]
#[path = "rle_v2_tests.rs"]
mod tests;
