//! Scatter-gather lists: the memory of a command's data as descriptors (Base 2.0c §4.1.2).
//!
//! ```text
//! bytes 7:0 address      bytes 11:8 length      byte 15 type (7:4) and subtype (3:0)
//! ```
//!
//! The command holds one descriptor: a data block, or a segment of descriptors in memory. The last descriptor of a
//! segment may name the next segment.

use super::{PrpSegment, StatusCode};

/// Bytes of a descriptor.
const DESCRIPTOR_BYTES: u64 = 16;
/// Descriptors of one segment that are believed.
const MAX_DESCRIPTORS: u64 = 256;

/// The memory that a command's SGL names for `length_bytes` bytes.
///
/// `first` is the descriptor in the command, as two words. `read(address, words)` returns 64-bit words of bus memory.
///
/// # Errors
/// The status for the completion: a descriptor that is not allowed, a segment that cannot be read, or too few bytes.
pub fn sgl_segments(
    first: (u64, u64),
    length_bytes: u64,
    mut read: impl FnMut(u64, usize) -> Option<Vec<u64>>,
) -> Result<Vec<PrpSegment>, StatusCode> {
    let mut segments = Vec::new();
    let mut left = length_bytes;
    let mut add = |(address, rest): (u64, u64), left: &mut u64| {
        let length = (rest & 0xffff_ffff).min(*left);
        *left -= length;
        if length > 0 {
            segments.push(PrpSegment {
                bus_address: address,
                length_bytes: length,
            });
        }
    };
    let mut at = first;
    while left > 0 {
        let length = at.1 & 0xffff_ffff;
        let last = match at.1 >> 56 {
            0x00 => {
                add(at, &mut left);
                break;
            }
            0x20 => false,
            0x30 => true,
            _ => return Err(StatusCode::SglDescriptorTypeInvalid),
        };
        let count = length / DESCRIPTOR_BYTES;
        if !length.is_multiple_of(DESCRIPTOR_BYTES)
            || !(1..=MAX_DESCRIPTORS).contains(&count)
            || !at.0.is_multiple_of(8)
        {
            return Err(StatusCode::InvalidSglSegment);
        }
        let words = read(at.0, count as usize * 2).ok_or(StatusCode::DataTransferError)?;
        let before = left;
        let mut next = None;
        for (i, pair) in words.chunks_exact(2).enumerate() {
            match pair[1] >> 56 {
                0x00 => add((pair[0], pair[1]), &mut left),
                // Only the last descriptor of a segment that is not the last may name another.
                0x20 | 0x30 if !last && i + 1 == count as usize => next = Some((pair[0], pair[1])),
                0x20 | 0x30 => return Err(StatusCode::InvalidSglSegment),
                _ => return Err(StatusCode::SglDescriptorTypeInvalid),
            }
        }
        match next {
            // A segment without data would let a chain of segments go on forever.
            Some(next) if left < before => at = next,
            Some(_) => return Err(StatusCode::InvalidSglSegment),
            None => break,
        }
    }
    match left {
        0 => Ok(segments),
        _ => Err(StatusCode::DataSglLengthInvalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 2 << 60;
    const LAST: u64 = 3 << 60;

    #[test]
    fn segments_chain_and_end() {
        let memory = |at: u64, words: usize| {
            let found = match at {
                0x1000 => vec![0x7000, 100, 0x2000, LAST | 32],
                0x2000 => vec![0x9000, 50, 0xa000, 4096],
                _ => return None,
            };
            (found.len() == words).then_some(found)
        };
        let named = sgl_segments((0x1000, SEGMENT | 32), 200, memory).unwrap();
        let lengths: Vec<_> = named.iter().map(|s| (s.bus_address, s.length_bytes)).collect();
        assert_eq!(lengths, [(0x7000, 100), (0x9000, 50), (0xa000, 50)]);
        let short = sgl_segments((0x1000, SEGMENT | 32), 5000, memory);
        assert_eq!(short, Err(StatusCode::DataSglLengthInvalid));
    }

    #[test]
    fn bad_descriptors_are_refused() {
        let itself = |_: u64, words: usize| Some([0x1000, SEGMENT | 16].repeat(words / 2));
        let endless = sgl_segments((0x1000, SEGMENT | 16), 512, itself);
        assert_eq!(endless, Err(StatusCode::InvalidSglSegment));
        let in_last = sgl_segments((0x1000, LAST | 16), 512, itself);
        assert_eq!(in_last, Err(StatusCode::InvalidSglSegment));
        let none = |_: u64, _: usize| None;
        assert_eq!(
            sgl_segments((0, LAST | 8), 512, none),
            Err(StatusCode::InvalidSglSegment)
        );
        assert_eq!(
            sgl_segments((0, LAST | 16), 512, none),
            Err(StatusCode::DataTransferError)
        );
        assert_eq!(
            sgl_segments((0, 5 << 60), 512, none),
            Err(StatusCode::SglDescriptorTypeInvalid)
        );
    }
}
