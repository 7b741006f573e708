//! Tests of single streams: runs of every kind, with chunks cut anywhere.

use proptest::prelude::*;

use super::{cursor, plain};
use crate::codec::Codec;
use crate::decode::bit_unpacking::closest_width;
use crate::decode::bit_unpacking::tests::pack;
use crate::decode::bits::BitBuilder;
use crate::decode::boolean::BitReader;
use crate::decode::byte_rle::ByteRle;
use crate::decode::int::IntReader;
use crate::proto::column_encoding::Kind as Encoding;

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn ints(bytes: &[u8], encoding: Encoding, signed: bool, count: usize) -> Vec<i64> {
    let mut out = vec![0; count];
    let mut reader = IntReader::new(plain(bytes), encoding, signed);
    reader.read(&mut out).unwrap();
    assert!(reader.skip(1).is_err(), "the stream should end here");
    out
}

#[test]
fn version_1_equals_the_specifications_examples() {
    let v1 = |bytes: &[u8], signed, count| ints(bytes, Encoding::Direct, signed, count);
    assert_eq!(v1(&[0x61, 0x00, 0x07], false, 100), [7; 100]);
    assert_eq!(v1(&[0x61, 0xff, 0x64], false, 100), (1..=100).rev().collect::<Vec<_>>());
    assert_eq!(v1(&[0xfb, 2, 3, 6, 7, 0xb], false, 5), [2, 3, 6, 7, 11]);
    assert_eq!(v1(&[0xfe, 1, 0xfe, 0x01], true, 2), [-1, 127]);
}

#[test]
fn version_2_equals_the_specifications_examples() {
    let v2 = |bytes: &[u8], count| ints(bytes, Encoding::DirectV2, false, count);
    assert_eq!(v2(&[0x0a, 0x27, 0x10], 5), [10_000; 5]);
    let direct = [0x5e, 0x03, 0x5c, 0xa1, 0xab, 0x1e, 0xde, 0xad, 0xbe, 0xef];
    assert_eq!(v2(&direct, 4), [23_713, 43_806, 57_005, 48_879]);
    let delta = [0xc6, 0x09, 0x02, 0x02, 0x22, 0x42, 0x42, 0x46];
    assert_eq!(v2(&delta, 10), [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
    let patched = [
        0x8e, 0x13, 0x2b, 0x21, 0x07, 0xd0, 0x1e, 0x00, 0x14, 0x70, 0x28, 0x32, 0x3c, 0x46, 0x50, 0x5a, 0x64, 0x6e,
        0x78, 0x82, 0x8c, 0x96, 0xa0, 0xaa, 0xb4, 0xbe, 0xfc, 0xe8,
    ];
    let expected = [
        2030, 2000, 2020, 1_000_000, 2040, 2050, 2060, 2070, 2080, 2090, 2100, 2110, 2120, 2130, 2140, 2150, 2160,
        2170, 2180, 2190,
    ];
    assert_eq!(v2(&patched, 20), expected);
}

#[test]
fn bytes_and_bits_equal_the_specifications_examples() {
    let mut out = vec![];
    ByteRle::new(plain(&[0x61, 0x00])).read(100, &mut out).unwrap();
    ByteRle::new(plain(&[0xfe, 0x44, 0x45])).read(2, &mut out).unwrap();
    assert_eq!(out, [&[0; 100][..], &[0x44, 0x45]].concat());
    let mut bits = BitBuilder::default();
    assert_eq!(BitReader::new(plain(&[0xff, 0x80])).read(8, &mut bits).unwrap(), 1);
    assert_eq!(
        bits.finish().iter().collect::<Vec<_>>(),
        [true, false, false, false, false, false, false, false]
    );
}

/// One run of RLE v2 and its values.
#[derive(Debug, Clone)]
enum Run {
    Short(i64, usize),
    Direct(Vec<i64>),
    Delta(i64, i64, Vec<u64>),
    Patched(i64, Vec<u64>, Vec<(usize, u64)>),
}

impl Run {
    fn encode(&self, signed: bool, bytes: &mut Vec<u8>, values: &mut Vec<i64>) {
        let raw = |value: i64| if signed { zigzag(value) } else { value as u64 };
        let width_of = |most: u64| closest_width(64 - most.leading_zeros().min(63));
        let encoded = |width: u32| {
            (0..32)
                .find(|&code| super::super::bit_unpacking::decode_width(code) == width)
                .unwrap()
        };
        let header = |kind: u8, width: u32, length: usize| {
            [
                kind << 6 | encoded(width) << 1 | ((length - 1) >> 8) as u8,
                (length - 1) as u8,
            ]
        };
        match self {
            Self::Short(value, count) => {
                let width = (8 - raw(*value).leading_zeros() as usize / 8).max(1);
                bytes.push(((width - 1) << 3 | (count - 3)) as u8);
                bytes.extend_from_slice(&raw(*value).to_be_bytes()[8 - width..]);
                values.extend(vec![*value; *count]);
            }
            Self::Direct(run) => {
                let stored: Vec<u64> = run.iter().map(|&value| raw(value)).collect();
                let width = width_of(stored.iter().copied().max().unwrap());
                bytes.extend(header(1, width, run.len()));
                bytes.extend(pack(&stored, width));
                values.extend(run);
            }
            Self::Delta(base, delta, more) => {
                let width = match more.iter().copied().max() {
                    // Width 1 cannot be told from "no deltas", so writers start at 2.
                    Some(most) => width_of(most).max(2),
                    None => 1,
                };
                let mut head = header(3, width, more.len() + 2);
                if more.is_empty() {
                    head[0] &= 0xc1;
                }
                bytes.extend(head);
                varint(raw(*base), bytes);
                varint(zigzag(*delta), bytes);
                bytes.extend(pack(more, width));
                values.extend([*base, base.wrapping_add(*delta)]);
                for &distance in more {
                    let step = if *delta < 0 {
                        (distance as i64).wrapping_neg()
                    } else {
                        distance as i64
                    };
                    values.push(values.last().unwrap().wrapping_add(step));
                }
            }
            Self::Patched(base, low, patches) => {
                let width = width_of(low.iter().copied().max().unwrap());
                let mut sorted: Vec<_> = patches.iter().map(|&(at, patch)| (at % low.len(), patch)).collect();
                sorted.sort();
                sorted.dedup_by_key(|(at, _)| *at);
                let mut list = vec![];
                let mut last = 0;
                for &(at, patch) in &sorted {
                    let mut gap = at - last;
                    while gap > 255 {
                        list.push((255, 0));
                        gap -= 255;
                    }
                    list.push((gap as u64, patch));
                    last = at;
                }
                list.truncate(31);
                let patch_width = width_of(list.iter().map(|&(_, patch)| patch).max().unwrap_or(1));
                let gap_width = 8;
                let entry_width = closest_width(patch_width + gap_width);
                let base_bytes = 8u8;
                bytes.extend(header(2, width, low.len()));
                bytes.push((base_bytes - 1) << 5 | encoded(patch_width));
                bytes.push(((gap_width - 1) << 5) as u8 | list.len() as u8);
                let sign = if *base < 0 { 1 << 63 } else { 0 };
                bytes.extend((base.unsigned_abs() | sign).to_be_bytes());
                bytes.extend(pack(low, width));
                let entries: Vec<u64> = list.iter().map(|&(gap, patch)| gap << patch_width | patch).collect();
                bytes.extend(pack(&entries, entry_width));
                let mut whole = low.clone();
                let mut at = 0;
                for (gap, patch) in list {
                    at += gap as usize;
                    whole[at] |= patch << width;
                }
                values.extend(whole.iter().map(|&value| (value as i64).wrapping_add(*base)));
            }
        }
    }
}

fn run() -> impl Strategy<Value = Run> {
    let narrow = (any::<i64>(), 0u32..64).prop_map(|(value, shift)| value >> shift);
    let distance = (any::<u64>(), 1u32..64).prop_map(|(value, shift)| value >> shift);
    let small = (any::<u64>(), 40u32..64).prop_map(|(value, shift)| value >> shift);
    prop_oneof![
        (narrow.clone(), 3usize..=10).prop_map(|(value, count)| Run::Short(value, count)),
        (proptest::collection::vec(any::<i64>(), 1..=512), 0u32..64)
            .prop_map(|(values, shift)| Run::Direct(values.iter().map(|value| value >> shift).collect())),
        (narrow.clone(), narrow, proptest::collection::vec(distance, 0..=510))
            .prop_map(|(base, delta, more)| Run::Delta(base, delta, more)),
        (
            (any::<i64>(), 8u32..64).prop_map(|(value, shift)| value >> shift),
            proptest::collection::vec(small, 1..=512),
            proptest::collection::vec((0usize..512, 1u64..1 << 20), 0..12),
        )
            .prop_map(|(base, low, patches)| Run::Patched(base, low, patches)),
    ]
}

fn codecs() -> impl Strategy<Value = Option<Codec>> {
    prop_oneof![
        Just(None),
        Just(Some(Codec::Snappy)),
        Just(Some(Codec::Zlib)),
        Just(Some(Codec::Zstd))
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever is skipped and read, whole runs or single values, across chunks of any size.
    #[test]
    fn version_2_reads_and_skips_every_kind_of_run(
        runs in proptest::collection::vec(run(), 1..6),
        signed: bool,
        codec in codecs(),
        chunks in proptest::collection::vec(1usize..700, 1..4),
        steps in proptest::collection::vec((0usize..700, prop_oneof![Just(1), 0usize..700]), 1..40),
    ) {
        let (mut bytes, mut values) = (vec![], vec![]);
        for run in &runs {
            run.encode(signed, &mut bytes, &mut values);
        }
        let mut reader = IntReader::new(cursor(&bytes, codec, &chunks), Encoding::DirectV2, signed);
        let mut at = 0;
        for (skip, read) in steps {
            let skip = skip.min(values.len() - at);
            reader.skip(skip as u64).unwrap();
            at += skip;
            let mut out = vec![0; read.min(values.len() - at)];
            reader.read(&mut out).unwrap();
            prop_assert_eq!(&out, &values[at..at + out.len()]);
            at += out.len();
        }
        reader.skip((values.len() - at) as u64).unwrap();
        prop_assert!(reader.skip(1).is_err());
    }

    #[test]
    fn version_1_reads_and_skips(
        runs in proptest::collection::vec(
            prop_oneof![
                (any::<i64>(), any::<i8>(), 3usize..=130).prop_map(|(base, delta, count)| (base, delta, count, vec![])),
                proptest::collection::vec((any::<i64>(), 0u32..64), 1..=128)
                    .prop_map(|values| (0, 0, 0, values.iter().map(|(value, shift)| value >> shift).collect())),
            ],
            1..5,
        ),
        signed: bool,
        codec in codecs(),
        chunks in proptest::collection::vec(1usize..300, 1..4),
        steps in proptest::collection::vec((0usize..200, 0usize..200), 1..20),
    ) {
        let raw = |value: i64| if signed { zigzag(value) } else { value as u64 };
        let (mut bytes, mut values): (_, Vec<i64>) = (vec![], vec![]);
        for (base, delta, count, literals) in &runs {
            if literals.is_empty() {
                bytes.extend([(count - 3) as u8, *delta as u8]);
                varint(raw(*base), &mut bytes);
                values.extend((0..*count as i64).map(|k| base.wrapping_add(k.wrapping_mul(i64::from(*delta)))));
            } else {
                bytes.push((256 - literals.len()) as u8);
                literals.iter().for_each(|&value| varint(raw(value), &mut bytes));
                values.extend(literals);
            }
        }
        let mut reader = IntReader::new(cursor(&bytes, codec, &chunks), Encoding::Direct, signed);
        let mut at = 0;
        for (skip, read) in steps {
            let skip = skip.min(values.len() - at);
            reader.skip(skip as u64).unwrap();
            at += skip;
            let mut out = vec![0; read.min(values.len() - at)];
            reader.read(&mut out).unwrap();
            prop_assert_eq!(&out, &values[at..at + out.len()]);
            at += out.len();
        }
    }

    #[test]
    fn bits_read_skip_and_count(
        runs in proptest::collection::vec(
            (any::<bool>(), proptest::collection::vec(any::<u8>(), 1..=128), 3usize..=130),
            1..6,
        ),
        codec in codecs(),
        chunks in proptest::collection::vec(1usize..100, 1..4),
        steps in proptest::collection::vec((0usize..900, prop_oneof![Just(1), 0usize..900]), 1..40),
    ) {
        let (mut bytes, mut plain) = (vec![], vec![]);
        for (repeat, run, count) in &runs {
            if *repeat {
                bytes.extend([(count - 3) as u8, run[0]]);
                plain.extend(vec![run[0]; *count]);
            } else {
                bytes.push((256 - run.len()) as u8);
                bytes.extend(run);
                plain.extend(run);
            }
        }
        let bits: Vec<bool> = plain.iter().flat_map(|byte| (0..8).map(move |k| byte << k & 0x80 != 0)).collect();
        let mut reader = BitReader::new(cursor(&bytes, codec, &chunks));
        let (mut at, mut out, mut expected) = (0, BitBuilder::default(), vec![]);
        let ones = |bits: &[bool]| bits.iter().filter(|bit| **bit).count() as u64;
        for (skip, read) in steps {
            let skip = skip.min(bits.len() - at);
            prop_assert_eq!(reader.skip(skip as u64).unwrap(), ones(&bits[at..at + skip]));
            at += skip;
            let part = &bits[at..at + read.min(bits.len() - at)];
            prop_assert_eq!(reader.read(part.len() as u64, &mut out).unwrap(), ones(part));
            expected.extend_from_slice(part);
            at += part.len();
        }
        prop_assert_eq!(out.finish().iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn decoders_return_an_error_or_values_for_noise(
        noise in proptest::collection::vec(any::<u8>(), 0..300),
        codec in codecs(),
        signed: bool,
        steps in proptest::collection::vec((0u64..2000, 0usize..2000), 1..10),
    ) {
        for encoding in [Encoding::Direct, Encoding::DirectV2] {
            let mut reader = IntReader::new(cursor(&noise, codec, &[50]), encoding, signed);
            for &(skip, read) in &steps {
                if reader.skip(skip).and_then(|()| reader.read(&mut vec![0; read])).is_err() {
                    break;
                }
            }
        }
        let mut bits = BitReader::new(cursor(&noise, codec, &[50]));
        for &(skip, read) in &steps {
            if bits.skip(skip).and_then(|_| bits.read(read as u64, &mut BitBuilder::default())).is_err() {
                break;
            }
        }
    }
}
