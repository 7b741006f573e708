//! Fuzzing of the device's decompressors against `snap` and `lz4_flex`.
//!
//! The first byte of an input chooses the codec, and whether the rest is a chunk or bytes to compress. The next two
//! bytes choose the space for what comes out.

mod seed_files;

pub use seed_files::write_seeds;

/// Codecs, by the numbers of `device/decompress.h`.
const SNAPPY: u32 = 1;
const LZ4: u32 = 2;

unsafe extern "C" {
    fn grampus_decompress_chunk(
        from: *const u8,
        length: u32,
        codec: u32,
        to: *mut u8,
        space: u32,
        bytes: *mut u32,
    ) -> u32;
}

/// An input of these parts.
fn input(lz4: bool, compresses: bool, space: u16, rest: &[u8]) -> Vec<u8> {
    let [low, high] = space.to_le_bytes();
    let mut out = vec![u8::from(lz4) | u8::from(compresses) << 1, low, high];
    out.extend_from_slice(rest);
    out
}

/// Decompresses one input by both implementations.
///
/// # Panics
/// If they differ.
pub fn decompress(data: &[u8]) {
    let [first, low, high, rest @ ..] = data else { return };
    let codec = if first & 1 == 0 { SNAPPY } else { LZ4 };
    let space = usize::from(u16::from_le_bytes([*low, *high]));
    if first & 2 != 0 {
        let stored = compressed(codec, rest);
        assert_eq!(by_device(codec, &stored, rest.len()).as_deref(), Some(rest));
        return;
    }
    assert_eq!(by_device(codec, rest, space), by_peer(codec, rest, space));
}

/// The chunk of some bytes, by the other implementation.
fn compressed(codec: u32, bytes: &[u8]) -> Vec<u8> {
    match codec {
        SNAPPY => snap::raw::Encoder::new()
            .compress_vec(bytes)
            .expect("any bytes compress"),
        _ => lz4_flex::block::compress(bytes),
    }
}

fn by_peer(codec: u32, stored: &[u8], space: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; space];
    let bytes = match codec {
        SNAPPY => snap::raw::Decoder::new().decompress(stored, &mut out).ok()?,
        _ => lz4_flex::block::decompress_into(stored, &mut out).ok()?,
    };
    out.truncate(bytes);
    Some(out)
}

/// The kernel reads whole words: the chunk stands at the end of some.
fn by_device(codec: u32, stored: &[u8], space: usize) -> Option<Vec<u8>> {
    let mut words = vec![0u64; stored.len().div_ceil(8)];
    let lead = words.len() * 8 - stored.len();
    for (at, byte) in stored.iter().enumerate() {
        words[(lead + at) / 8] |= u64::from(*byte) << ((lead + at) % 8 * 8);
    }
    let mut out = vec![0; space];
    let mut bytes = 0;
    // SAFETY: the words hold `lead + stored.len()` bytes, and `out` has `space` bytes. Both outlive the call.
    let status = unsafe {
        let from = words.as_ptr().cast::<u8>().add(lead);
        let (length, space) = (stored.len() as u32, space as u32);
        grampus_decompress_chunk(from, length, codec, out.as_mut_ptr(), space, &mut bytes)
    };
    out.truncate(bytes as usize);
    (status == 0).then_some(out)
}
