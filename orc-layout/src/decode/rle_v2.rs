//! [`RleV2`], a reader of integer run-length encoding, version 2 (ORC v1, "Run Length Encoding version 2"). A run is
//! parsed into the location of its packed values; values are unpacked only as far as they are wanted.
//!
//! ```text
//! 00 WWW CCC                       short repeat: W+1 bytes big-endian, C+3 times
//! 01 wwwww L  LLLLLLLL             direct: L+1 values of w bits
//! 10 wwwww L  LLLLLLLL  BBB ppppp  ggg PPPPP   patched base: B+1 base bytes, L+1 values of w bits,
//!                                  P patches: gap of g+1 bits, and p bits to put above the value
//! 11 wwwww L  LLLLLLLL             delta: varint base, signed varint delta, L-1 more deltas of w bits
//! ```

use super::bit_unpacking::{closest_width, decode_width, get, packed_bytes, unpack, unzigzag};
use super::cursor::StreamCursor;
use crate::error::Result;

/// Most values in a run.
const MAX_RUN: usize = 512;

/// Packed values of a run: in the cursor's block, or in the scratch buffer if the run straddles blocks.
type Body = Option<(usize, usize)>;

#[derive(Debug, Clone, Copy)]
enum Run {
    /// Value k is `base + k * delta`.
    Sequence { base: i64, delta: i64 },
    /// Packed values without a base.
    Direct { width: u32, body: Body },
    /// All but the first two values as packed distances from the predecessor.
    Delta {
        base: i64,
        delta: i64,
        width: u32,
        body: Body,
    },
    /// Packed distances from `base`, some with patches.
    Patched {
        base: i64,
        width: u32,
        patches: Patches,
        body: Body,
    },
    /// All in `values`.
    Unpacked,
}

#[derive(Debug, Clone, Copy)]
struct Patches {
    count: usize,
    patch_width: u32,
    gap_width: u32,
}

/// Reader of an RLE v2 stream.
pub(super) struct RleV2 {
    pub(super) cursor: StreamCursor,
    signed: bool,
    run: Run,
    length: usize,
    used: usize,
    scratch: Vec<u8>,
    values: Vec<i64>,
}

impl RleV2 {
    pub(super) fn new(cursor: StreamCursor, signed: bool) -> Self {
        Self {
            cursor,
            signed,
            run: Run::Unpacked,
            length: 0,
            used: 0,
            scratch: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Forgets the run, after the cursor has moved.
    pub(super) fn restart(&mut self) {
        self.length = 0;
        self.used = 0;
    }

    /// Fills `out` with the next values.
    pub(super) fn read(&mut self, mut out: &mut [i64]) -> Result<()> {
        while !out.is_empty() {
            if self.used == self.length {
                self.start_run()?;
            }
            let count = (self.length - self.used).min(out.len());
            let (part, rest) = out.split_at_mut(count);
            match self.run {
                Run::Sequence { base, delta } => sequence(base, delta, self.used, part),
                Run::Direct { width, body } => {
                    let packed = body_bytes(&self.cursor, &self.scratch, body);
                    if let [value] = part {
                        let raw = get(packed, width, self.used);
                        *value = if self.signed { unzigzag(raw) } else { raw as i64 };
                    } else {
                        unpack(packed, width, self.signed, self.used, part);
                    }
                }
                Run::Delta { .. } | Run::Patched { .. } if count == self.length => self.decode(part)?,
                Run::Delta { .. } | Run::Patched { .. } => {
                    let mut values = std::mem::take(&mut self.values);
                    values.resize(MAX_RUN, 0);
                    let decoded = self.decode(&mut values[..self.length]);
                    self.values = values;
                    decoded?;
                    self.run = Run::Unpacked;
                    part.copy_from_slice(&self.values[self.used..self.used + count]);
                }
                Run::Unpacked => part.copy_from_slice(&self.values[self.used..self.used + count]),
            }
            self.used += count;
            out = rest;
        }
        Ok(())
    }

    /// Skips `count` values; whole runs are skipped by their headers.
    pub(super) fn skip(&mut self, mut count: u64) -> Result<()> {
        while count > 0 {
            if self.used == self.length {
                self.start_run()?;
            }
            let step = count.min((self.length - self.used) as u64);
            self.used += step as usize;
            count -= step;
        }
        Ok(())
    }

    fn start_run(&mut self) -> Result<()> {
        let first = self.cursor.read_u8()?;
        self.used = 0;
        self.length = 0;
        let (run, length) = match first >> 6 {
            0 => self.start_short_repeat(first)?,
            kind => {
                let second = self.cursor.read_u8()?;
                let length = (usize::from(first & 1) << 8 | usize::from(second)) + 1;
                let run = match kind {
                    1 => {
                        let width = decode_width(first >> 1);
                        let body = self.cursor.contiguous(packed_bytes(length, width), &mut self.scratch)?;
                        Run::Direct { width, body }
                    }
                    2 => self.start_patched(decode_width(first >> 1), length)?,
                    _ => self.start_delta(first >> 1 & 31, length)?,
                };
                (run, length)
            }
        };
        self.run = run;
        self.length = length;
        Ok(())
    }

    fn start_short_repeat(&mut self, first: u8) -> Result<(Run, usize)> {
        let mut raw = 0;
        for _ in 0..=(first >> 3 & 7) {
            raw = raw << 8 | u64::from(self.cursor.read_u8()?);
        }
        let base = if self.signed { unzigzag(raw) } else { raw as i64 };
        Ok((Run::Sequence { base, delta: 0 }, usize::from(first & 7) + 3))
    }

    fn start_delta(&mut self, encoded_width: u8, length: usize) -> Result<Run> {
        let raw = self.cursor.read_varint()?;
        let base = if self.signed { unzigzag(raw) } else { raw as i64 };
        let delta = unzigzag(self.cursor.read_varint()?);
        if encoded_width == 0 {
            return Ok(Run::Sequence { base, delta });
        }
        let width = decode_width(encoded_width);
        let packed = packed_bytes(length.saturating_sub(2), width);
        let body = self.cursor.contiguous(packed, &mut self.scratch)?;
        Ok(Run::Delta {
            base,
            delta,
            width,
            body,
        })
    }

    fn start_patched(&mut self, width: u32, length: usize) -> Result<Run> {
        let third = self.cursor.read_u8()?;
        let fourth = self.cursor.read_u8()?;
        let patches = Patches {
            count: usize::from(fourth & 31),
            patch_width: decode_width(third & 31),
            gap_width: u32::from(fourth >> 5) + 1,
        };
        if patches.patch_width + patches.gap_width > 64 {
            return Err(self
                .cursor
                .corrupt("a patch and its gap have more than 64 bits together"));
        }
        let base_bytes = u32::from(third >> 5) + 1;
        let mut magnitude = 0u64;
        for _ in 0..base_bytes {
            magnitude = magnitude << 8 | u64::from(self.cursor.read_u8()?);
        }
        // The base's highest bit is its sign; the rest its magnitude.
        let sign = 1u64 << (base_bytes * 8 - 1);
        let base = match magnitude & sign {
            0 => magnitude as i64,
            _ => ((magnitude & !sign) as i64).wrapping_neg(),
        };
        let bytes = packed_bytes(length, width) + packed_bytes(patches.count, patches.entry_width());
        let body = self.cursor.contiguous(bytes, &mut self.scratch)?;
        Ok(Run::Patched {
            base,
            width,
            patches,
            body,
        })
    }

    /// Decodes a whole delta or patched base run.
    fn decode(&self, out: &mut [i64]) -> Result<()> {
        match self.run {
            Run::Delta {
                base,
                delta,
                width,
                body,
            } => {
                decode_delta(base, delta, width, body_bytes(&self.cursor, &self.scratch, body), out);
                Ok(())
            }
            Run::Patched {
                base,
                width,
                patches,
                body,
            } => {
                let bytes = body_bytes(&self.cursor, &self.scratch, body);
                let (packed, patch_list) = bytes.split_at(packed_bytes(out.len(), width).min(bytes.len()));
                unpack(packed, width, false, 0, out);
                patches
                    .apply(patch_list, width, out)
                    .map_err(|reason| self.cursor.corrupt(reason))?;
                for value in out {
                    *value = value.wrapping_add(base);
                }
                Ok(())
            }
            Run::Sequence { .. } | Run::Direct { .. } | Run::Unpacked => Ok(()),
        }
    }
}

#[inline]
fn body_bytes<'a>(cursor: &'a StreamCursor, scratch: &'a [u8], body: Body) -> &'a [u8] {
    match body {
        Some((start, end)) => cursor.part(start, end),
        None => scratch,
    }
}

fn sequence(base: i64, delta: i64, first: usize, out: &mut [i64]) {
    let start = base.wrapping_add(delta.wrapping_mul(first as i64));
    if delta == 0 {
        out.fill(start);
    } else {
        for (k, value) in out.iter_mut().enumerate() {
            *value = start.wrapping_add(delta.wrapping_mul(k as i64));
        }
    }
}

fn decode_delta(base: i64, delta: i64, width: u32, packed: &[u8], out: &mut [i64]) {
    let Some((first, rest)) = out.split_first_mut() else {
        return;
    };
    *first = base;
    let Some((second, rest)) = rest.split_first_mut() else {
        return;
    };
    let mut value = base.wrapping_add(delta);
    *second = value;
    unpack(packed, width, false, 0, rest);
    // The first delta's sign is the sign of all deltas.
    if delta < 0 {
        for distance in rest {
            value = value.wrapping_sub(*distance);
            *distance = value;
        }
    } else {
        for distance in rest {
            value = value.wrapping_add(*distance);
            *distance = value;
        }
    }
}

impl Patches {
    fn entry_width(&self) -> u32 {
        closest_width(self.patch_width + self.gap_width)
    }

    /// Puts the patches above the `width` low bits of their values.
    fn apply(&self, list: &[u8], width: u32, out: &mut [i64]) -> Result<(), &'static str> {
        let mut at = 0;
        for k in 0..self.count {
            let entry = get(list, self.entry_width(), k);
            at += (entry >> self.patch_width) as usize;
            let patch = entry & (u64::MAX >> (64 - self.patch_width));
            // A gap too wide for its field is made of entries with an empty patch.
            if patch == 0 {
                continue;
            }
            let value = out.get_mut(at).ok_or("a patch lies beyond its run")?;
            *value |= patch
                .checked_shl(width)
                .ok_or("a patched value has more than 64 bits")? as i64;
        }
        Ok(())
    }
}
