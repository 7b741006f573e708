//! Fuzzing of the device's decompressors against `snap`, `lz4_flex`, `libdeflater` and `zstd`.
//!
//! The first byte of an input chooses the codec, whether the rest is a chunk or bytes to compress, and how well to
//! compress them. The next two bytes choose the space for what comes out.

mod seed_files;

pub use seed_files::write_seeds;

/// Codecs, by the numbers of `device/decompress.h`.
const SNAPPY: u32 = 1;
const LZ4: u32 = 2;
const ZSTD: u32 = 3;
const DEFLATE: u32 = 4;
const CODECS: [u32; 4] = [SNAPPY, LZ4, ZSTD, DEFLATE];
/// The bit of the first byte that says that the rest is to be compressed. The bits above it say how well.
const COMPRESSES: u8 = 4;

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
fn input(codec: u32, compresses: bool, space: u16, rest: &[u8]) -> Vec<u8> {
    let [low, high] = space.to_le_bytes();
    let mut out = vec![(codec as u8 - 1) | if compresses { COMPRESSES } else { 0 }, low, high];
    out.extend_from_slice(rest);
    out
}

/// Decompresses one input by both implementations.
///
/// # Panics
/// If they differ.
pub fn decompress(data: &[u8]) {
    let [first, low, high, rest @ ..] = data else { return };
    let codec = CODECS[usize::from(first % 4)];
    let space = usize::from(u16::from_le_bytes([*low, *high]));
    if first & COMPRESSES != 0 {
        let stored = compressed(codec, rest, first >> 3);
        assert_eq!(by_device(codec, &stored, rest.len()).as_deref(), Some(rest));
        return;
    }
    let (ours, theirs) = (by_device(codec, rest, space), by_peer(codec, rest, space));
    // The library zstd does not look whether bits are left in every stream, so it takes more chunks.
    if codec != ZSTD || ours.is_some() {
        assert_eq!(ours, theirs);
    }
}

/// The chunk of some bytes, by the other implementation. `level`: 0 to 31.
fn compressed(codec: u32, bytes: &[u8], level: u8) -> Vec<u8> {
    match codec {
        SNAPPY => snap::raw::Encoder::new()
            .compress_vec(bytes)
            .expect("any bytes compress"),
        LZ4 => lz4_flex::block::compress(bytes),
        ZSTD => {
            // gcc's AddressSanitizer takes a constant table of the higher levels' code for memory of the stack.
            let mut compressor = zstd::bulk::Compressor::new(i32::from(level % 8) - 3).expect("a level");
            let checksum = zstd::zstd_safe::CParameter::ChecksumFlag(level >= 16);
            compressor.set_parameter(checksum).expect("a parameter");
            compressor.compress(bytes).expect("any bytes compress")
        }
        _ => {
            let level = libdeflater::CompressionLvl::new(i32::from(level % 13)).expect("a level");
            let mut compressor = libdeflater::Compressor::new(level);
            let mut out = vec![0; compressor.deflate_compress_bound(bytes.len())];
            let length = compressor.deflate_compress(bytes, &mut out).expect("there is space");
            out.truncate(length);
            out
        }
    }
}

fn by_peer(codec: u32, stored: &[u8], space: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; space];
    let bytes = match codec {
        SNAPPY => snap::raw::Decoder::new().decompress(stored, &mut out).ok()?,
        LZ4 => lz4_flex::block::decompress_into(stored, &mut out).ok()?,
        ZSTD => {
            let mut decompressor = zstd::bulk::Decompressor::new().expect("memory");
            decompressor.decompress_to_buffer(stored, &mut out).ok()?
        }
        _ => libdeflater::Decompressor::new()
            .deflate_decompress(stored, &mut out)
            .ok()?,
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
