//! Chunks of all codecs: compressed data of several kinds, elements that no compressor emits, and damaged ones.

use grampus_gpu_exec::decompress::standalone::Chunk;

use crate::codec::Codec;
use crate::common::random::Random;
use crate::deflate_blocks;

/// A chunk, and the space for what comes out.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) codec: Codec,
    pub(crate) stored: Vec<u8>,
    pub(crate) space: usize,
}

impl Sample {
    pub(crate) fn chunk(&self) -> Chunk<'_> {
        Chunk {
            stored: &self.stored,
            codec: self.codec.number(),
            space: self.space,
        }
    }
}

/// Bytes as columns have them: random, constant, patterns of any length, amounts, times, words.
pub(crate) fn data(random: &mut Random, most: u64) -> Vec<u8> {
    let length = match random.below(4) {
        0 => random.below(40),
        1 => random.below(700),
        _ => random.below(most),
    } as usize;
    let mut out: Vec<u8> = Vec::new();
    let pattern: Vec<u8> = (0..1 + random.below(140)).map(|_| random.below(256) as u8).collect();
    let kind = random.below(7);
    let mut time = 1_400_000_000_000_000u64;
    while out.len() < length {
        match kind {
            0 => out.push(random.below(256) as u8),
            1 => out.push(7),
            2 => out.extend(&pattern),
            3 => out.extend((random.below(5_000) as f64 / 100.0).to_le_bytes()),
            4 => {
                time += random.below(1 << 20);
                out.extend(time.to_le_bytes());
            }
            5 => out.extend(["cash ", "credit card ", "no charge ", "dispute "][random.below(4) as usize].bytes()),
            _ if random.below(3) == 0 => out.extend(&pattern[..1 + random.below(pattern.len() as u64) as usize]),
            _ => out.push(random.below(4) as u8),
        }
    }
    out.truncate(length);
    out
}

/// Compressed data, and elements at random; with the right space, and with more and less.
pub(crate) fn samples(random: &mut Random, most: u64) -> Vec<Sample> {
    let mut out = Vec::new();
    for codec in Codec::ALL {
        for _ in 0..4 {
            let bytes = data(random, most);
            let stored = codec.compress(&bytes);
            for space in [bytes.len(), bytes.len() + 1 + random.below(9) as usize] {
                out.push(Sample {
                    codec,
                    stored: stored.clone(),
                    space,
                });
            }
            out.push(Sample {
                codec,
                stored,
                space: (bytes.len() as u64).saturating_sub(1 + random.below(20)) as usize,
            });
            out.push(elements(random, codec, most as usize));
        }
    }
    out
}

/// Valid elements, of every form and length, in any order.
fn elements(random: &mut Random, codec: Codec, most: usize) -> Sample {
    let (mut body, mut at) = (Vec::new(), 0usize);
    let count = |random: &mut Random| match random.below(8) {
        0 => 1 + random.below(3000) as usize,
        1..3 => 1 + random.below(300) as usize,
        _ => 1 + random.below(70) as usize,
    };
    let offset = |random: &mut Random, at: usize| match random.below(3) {
        0 => 1 + random.below(at.min(70) as u64) as usize,
        1 => 1 + random.below(at.min(5000) as u64) as usize,
        _ => 1 + random.below(at.min(65_535) as u64) as usize,
    };
    let target = random.below(most as u64) as usize;
    let literal = |random: &mut Random, n: usize, body: &mut Vec<u8>| {
        body.extend((0..n).map(|_| random.below(256) as u8));
    };
    match codec {
        Codec::Snappy => {
            while at < target {
                if at == 0 || random.below(3) == 0 {
                    let n = count(random);
                    let extra = if n > 60 || random.below(4) == 0 {
                        2 + random.below(3)
                    } else {
                        0
                    };
                    match extra {
                        0 => body.push(((n - 1) << 2) as u8),
                        bytes => {
                            body.push(((59 + bytes) << 2) as u8);
                            body.extend(&(n as u32 - 1).to_le_bytes()[..bytes as usize]);
                        }
                    }
                    literal(random, n, &mut body);
                    at += n;
                } else {
                    let o = offset(random, at);
                    let n = 1 + random.below(64) as usize;
                    at += match random.below(3) {
                        0 if o < 2048 => {
                            let n = n.clamp(4, 11);
                            body.extend([(1 | (n - 4) << 2 | (o >> 8) << 5) as u8, o as u8]);
                            n
                        }
                        1 => {
                            body.push((3 | (n - 1) << 2) as u8);
                            body.extend((o as u32).to_le_bytes());
                            n
                        }
                        _ => {
                            body.push((2 | (n - 1) << 2) as u8);
                            body.extend((o as u16).to_le_bytes());
                            n
                        }
                    };
                }
            }
            let mut stored = Vec::new();
            let mut rest = at;
            while rest >= 128 {
                stored.push(rest as u8 | 128);
                rest >>= 7;
            }
            stored.push(rest as u8);
            stored.extend(body);
            Sample {
                codec,
                stored,
                space: at,
            }
        }
        Codec::Deflate => {
            let (stored, space) = deflate_blocks::blocks(random, target);
            Sample { codec, stored, space }
        }
        Codec::Zstd => {
            let (stored, space) = frames(random, target);
            Sample { codec, stored, space }
        }
        Codec::Lz4 => {
            let long = |n: usize, body: &mut Vec<u8>| {
                if n >= 15 {
                    body.extend(std::iter::repeat_n(255, (n - 15) / 255));
                    body.push(((n - 15) % 255) as u8);
                }
            };
            loop {
                let literals = if at == 0 || random.below(2) == 0 {
                    count(random)
                } else {
                    0
                };
                let (last, matched) = (at >= target, 3 + count(random));
                let bits = if last { 0 } else { (matched - 4).min(15) };
                body.push((literals.min(15) << 4 | bits) as u8);
                long(literals, &mut body);
                literal(random, literals, &mut body);
                at += literals;
                if last {
                    break;
                }
                body.extend((offset(random, at) as u16).to_le_bytes());
                long(matched - 4, &mut body);
                at += matched;
            }
            Sample {
                codec,
                stored: body,
                space: at,
            }
        }
    }
}

/// Zstandard frames one behind the other, some to be skipped and some of blocks as they are, and their length.
fn frames(random: &mut Random, most: usize) -> (Vec<u8>, usize) {
    let (mut stored, mut space) = (Vec::new(), 0);
    for _ in 0..random.below(4) {
        let bytes = data(random, 1 + most as u64 / 3);
        match random.below(4) {
            0 => {
                stored.extend((0x184D_2A50 + random.below(16) as u32).to_le_bytes());
                stored.extend((bytes.len() as u32).to_le_bytes());
                stored.extend(&bytes);
                continue;
            }
            1 => {
                // A window of 128 KiB and no length; blocks of bytes as they are, and of a single one.
                stored.extend([0x28, 0xB5, 0x2F, 0xFD, 0, 56]);
                for part in bytes.chunks(5_000) {
                    stored.extend(&((part.len() as u32) << 3).to_le_bytes()[..3]);
                    stored.extend(part);
                    let count = random.below(2_000) as u32;
                    stored.extend(&(count << 3 | 2).to_le_bytes()[..3]);
                    stored.push(random.below(256) as u8);
                    space += count as usize;
                }
                stored.extend([1, 0, 0]);
            }
            _ => stored.extend(Codec::Zstd.compress(&bytes)),
        }
        space += bytes.len();
    }
    (stored, space)
}

/// Samples of which some bytes are changed, cut off, repeated or replaced, and headers that claim another length.
pub(crate) fn damaged(random: &mut Random, most: u64) -> Vec<Sample> {
    let mut all = samples(random, most);
    for sample in &mut all {
        let stored = &mut sample.stored;
        for _ in 0..1 + random.below(3) {
            let length = stored.len() as u64;
            match random.below(6) {
                _ if length == 0 => stored.push(random.below(256) as u8),
                0 => stored.truncate(random.below(length) as usize),
                1 => stored[0] = random.below(256) as u8,
                2 => stored.extend((0..random.below(9)).map(|_| random.below(256) as u8)),
                3 => {
                    let at = random.below(length) as usize;
                    stored[at] ^= 1 << random.below(8);
                }
                4 => stored[random.below(length) as usize] = 255,
                _ => stored[random.below(length) as usize] = random.below(256) as u8,
            }
        }
        if random.below(3) == 0 {
            sample.space = random.below(2 * sample.space as u64 + 1) as usize;
        }
    }
    all
}

/// Chunks written out by hand, with their bytes, or `None`: they are invalid.
pub(crate) fn hand_made() -> Vec<(Sample, Option<Vec<u8>>)> {
    let snappy = |stored: &[u8], space: usize, bytes: Option<&[u8]>| {
        (Codec::Snappy, stored.to_vec(), space, bytes.map(<[u8]>::to_vec))
    };
    let lz4 = |stored: &[u8], space: usize, bytes: Option<&[u8]>| {
        (Codec::Lz4, stored.to_vec(), space, bytes.map(<[u8]>::to_vec))
    };
    let deflate = |stored: &[u8], space: usize, bytes: Option<&[u8]>| {
        (Codec::Deflate, stored.to_vec(), space, bytes.map(<[u8]>::to_vec))
    };
    let zstd = |stored: &[u8], space: usize, bytes: Option<&[u8]>| {
        let stored = [&[0x28, 0xB5, 0x2F, 0xFD], stored].concat();
        (Codec::Zstd, stored, space, bytes.map(<[u8]>::to_vec))
    };
    let mut long = vec![0xf0, 255, 30];
    long.extend([9; 300]);
    [
        snappy(&[0], 0, Some(b"")),
        snappy(&[], 10, None),
        snappy(&[3, 2 << 2, b'a', b'b', b'c'], 3, Some(b"abc")),
        // "ab", then five bytes from two behind: each of the three forms of a copy.
        snappy(&[7, 1 << 2, b'a', b'b', 1 | 1 << 2, 2], 7, Some(b"abababa")),
        snappy(&[7, 1 << 2, b'a', b'b', 2 | 4 << 2, 2, 0], 7, Some(b"abababa")),
        snappy(&[7, 1 << 2, b'a', b'b', 3 | 4 << 2, 2, 0, 0, 0], 7, Some(b"abababa")),
        // A length of one to four bytes.
        snappy(&[2, 60 << 2, 1, b'x', b'y'], 2, Some(b"xy")),
        snappy(&[2, 61 << 2, 1, 0, b'x', b'y'], 2, Some(b"xy")),
        snappy(&[2, 62 << 2, 1, 0, 0, b'x', b'y'], 2, Some(b"xy")),
        snappy(&[2, 63 << 2, 1, 0, 0, 0, b'x', b'y'], 2, Some(b"xy")),
        snappy(&[2, 63 << 2, 255, 255, 255, 255, b'x', b'y'], 2, None),
        snappy(&[3, 1 << 2, b'x', b'y'], 3, None), // fewer bytes than stated
        snappy(&[1, 1 << 2, b'x', b'y'], 2, None), // more bytes than stated
        snappy(&[3, 0, b'x', 2 | 1 << 2, 0, 0], 3, None), // an offset of 0
        snappy(&[3, 0, b'x', 2 | 1 << 2, 2, 0], 3, None), // an offset before the first byte
        snappy(&[3, 0, b'x', 3 | 1 << 2, 1, 0, 0, 128], 3, None), // likewise
        snappy(&[255, 255, 255, 255, 15, 0, b'x'], 100, None), // a length of 4 GiB
        snappy(&[128; 12], 100, None),             // a length without an end
        snappy(&[129, 128, 128, 128, 0, 0, b'x'], 1, Some(b"x")), // a length of five bytes
        snappy(&[129, 128, 128, 128, 128, 0, 0, b'x'], 1, None), // and of six
        lz4(&[], 10, None),
        lz4(&[0], 0, Some(b"")),
        lz4(&[0x30, b'a', b'b', b'c'], 3, Some(b"abc")),
        lz4(&[0x21, b'a', b'b', 2, 0, 0], 7, Some(b"abababa")),
        lz4(&[0x21, b'a', b'b', 2, 0, 0x10, b'z'], 8, Some(b"abababaz")),
        lz4(&long, 300, Some(&[9; 300])),
        lz4(&[0x1f, b'a', 1, 0, 255, 6, 0], 281, Some(&[b'a'; 281])),
        lz4(&[0x1f, b'a', 1, 0, 255, 6, 0], 280, None),
        lz4(&[0x21, b'a', b'b', 2, 0], 7, None),    // no last sequence
        lz4(&[0x21, b'a', b'b', 0, 0, 0], 7, None), // an offset of 0
        lz4(&[0x21, b'a', b'b', 3, 0, 0], 7, None), // an offset before the first byte
        lz4(&[0xf0, 255, 255, 255], 100, None),     // a length without an end
        lz4(&[0x30, b'a', b'b'], 3, None),          // too few literals
        deflate(&[], 3, None),
        deflate(&[1, 0, 0, 255, 255], 0, Some(b"")), // a block of bytes as they are
        deflate(&[1, 1, 0, 254, 255, b'b'], 3, Some(b"b")),
        deflate(&[1, 2, 0, 253, 255, b'b'], 3, None), // fewer bytes than stated
        deflate(&[1, 1, 0, 253, 255, b'b'], 3, None), // a length and another one
        deflate(&[3, 0], 0, Some(b"")),
        deflate(&[75, 4, 0], 1, Some(b"a")),
        deflate(&[75, 76, 132, 1, 0], 10, Some(&[b'a'; 10])),
        deflate(&[75, 76, 132, 1, 0], 9, None),
        deflate(&[74, 4, 4, 1, 0, 254, 255, b'b'], 2, Some(b"ab")), // two blocks
        deflate(&[75, 28, 5, 0], 259, Some(&[b'a'; 259])),          // length symbols 285 to 287
        deflate(&[75, 28, 3, 0], 259, Some(&[b'a'; 259])),
        deflate(&[75, 28, 7, 0], 259, Some(&[b'a'; 259])),
        deflate(&[75, 4, 62, 0, 0, 0], 9, None), // distance symbol 30
        deflate(&[3, 2, 0], 9, None),            // a distance before the first byte
        deflate(&[75, 4], 1, None),              // no end
        deflate(&[7, 0, 0], 1, None),            // a fourth kind of block
        deflate(&[5, 0, 0, 0, 0, 0], 1, None),   // a code without symbols
        zstd(&[0x20, 0, 1, 0, 0], 0, Some(b"")), // a block of bytes as they are
        zstd(&[0x20, 3, 0x19, 0, 0, b'a', b'b', b'c'], 3, Some(b"abc")),
        zstd(&[0x20, 4, 0x19, 0, 0, b'a', b'b', b'c'], 4, None), // another length
        zstd(&[0x20, 3, 0x19, 0, 0, b'a', b'b'], 3, None),       // too few bytes
        zstd(&[0x20, 3, 0x1b, 0, 0, b'x'], 3, Some(b"xxx")),     // a block of one byte
        zstd(&[0x20, 3, 0x1b, 0, 0, b'x'], 2, None),
        zstd(&[0x20, 3, 0x1f, 0, 0, b'x'], 3, None), // a fourth kind of block
        zstd(&[0x28, 3, 0x19, 0, 0, b'a', b'b', b'c'], 3, None), // a reserved bit
        zstd(&[0x21, 7, 3, 0x19, 0, 0, b'a', b'b', b'c'], 3, None), // a dictionary
        zstd(&[0x21, 0, 3, 0x19, 0, 0, b'a', b'b', b'c'], 3, Some(b"abc")), // and none
        // Literal bytes alone, then with a sequence of tables of one symbol: "ab", and five bytes from two behind.
        zstd(&[0x20, 3, 0x2d, 0, 0, 0x18, b'a', b'b', b'c', 0], 3, None), // a block longer than the window
        zstd(&[0, 56, 0x2d, 0, 0, 0x18, b'a', b'b', b'c', 0], 3, Some(b"abc")),
        zstd(&[0, 56, 0x25, 0, 0, 0x18, b'a', b'b', b'c'], 3, None), // no number of sequences
        zstd(
            &[0, 56, 0x4d, 0, 0, 0x10, b'a', b'b', 1, 0x54, 2, 2, 2, 0b101],
            7,
            Some(b"abababa"),
        ),
        zstd(&[0, 56, 0x4d, 0, 0, 0x10, b'a', b'b', 1, 0x54, 2, 2, 2, 0b110], 7, None), // from three behind
        zstd(
            &[0, 56, 0x4d, 0, 0, 0x10, b'a', b'b', 1, 0x54, 2, 2, 2, 0b1001],
            7,
            None,
        ), // a bit is left
        zstd(&[0, 56, 0x4d, 0, 0, 0x10, b'a', b'b', 1, 0x55, 2, 2, 2, 0b101], 7, None), // a reserved bit
    ]
    .into_iter()
    .map(|(codec, stored, space, bytes)| (Sample { codec, stored, space }, bytes))
    .collect()
}
