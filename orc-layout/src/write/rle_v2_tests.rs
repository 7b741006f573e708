use super::*;
use crate::write::stream::Storage;
use proptest::prelude::*;

fn encode(signed: bool, values: &[i64]) -> Vec<u8> {
    let mut encoder = IntEncoder::new(OutStream::new(Storage::Raw), signed);
    // Values come in uneven portions, as in batches.
    for portion in values.chunks(700) {
        encoder.write(portion).unwrap();
    }
    encoder.flush().unwrap();
    let mut out = vec![];
    encoder.stream.write_to(&mut out).unwrap();
    out
}

/// Reads as the specification says, bit by bit.
struct Reader<'a> {
    bytes: &'a [u8],
    bit: usize,
}

impl Reader<'_> {
    fn bits(&mut self, width: u32) -> u64 {
        (0..width).fold(0, |value, _| {
            let bit = self.bytes[self.bit / 8] >> (7 - self.bit % 8) & 1;
            self.bit += 1;
            value << 1 | u64::from(bit)
        })
    }

    fn align(&mut self) {
        self.bit = self.bit.next_multiple_of(8);
    }

    fn varint(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.bits(8);
            value |= (byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
}

fn width_of_code(code: u64) -> u32 {
    [26, 28, 30, 32, 40, 48, 56, 64]
        .get((code as usize).wrapping_sub(24))
        .copied()
        .unwrap_or(code as u32 + 1)
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn decode(signed: bool, bytes: &[u8]) -> Vec<i64> {
    let plain = |value: u64| if signed { unzigzag(value) } else { value as i64 };
    let mut reader = Reader { bytes, bit: 0 };
    let mut out = vec![];
    while reader.bit < bytes.len() * 8 {
        let kind = reader.bits(2);
        if kind == 0 {
            let (bytes, count) = (reader.bits(3) + 1, reader.bits(3) + 3);
            let value = plain(reader.bits(bytes as u32 * 8));
            out.extend(std::iter::repeat_n(value, count as usize));
            continue;
        }
        let (code, count) = (reader.bits(5), reader.bits(9) + 1);
        match kind {
            1 => out.extend((0..count).map(|_| plain(reader.bits(width_of_code(code))))),
            2 => decode_patched(&mut reader, width_of_code(code), count, &mut out),
            _ => {
                let first = plain(reader.varint());
                let step = unzigzag(reader.varint());
                assert!(code == 0 || step != 0, "readers differ on the direction");
                out.push(first);
                let mut last = first.wrapping_add(step);
                if count > 1 {
                    out.push(last);
                }
                for _ in 2..count {
                    let width = if code == 0 { None } else { Some(width_of_code(code)) };
                    let delta = width.map_or(step.unsigned_abs(), |width| reader.bits(width)) as i64;
                    last = if step < 0 {
                        last.wrapping_sub(delta)
                    } else {
                        last.wrapping_add(delta)
                    };
                    out.push(last);
                }
            }
        }
        reader.align();
    }
    out
}

fn decode_patched(reader: &mut Reader<'_>, width: u32, count: u64, out: &mut Vec<i64>) {
    let base_bits = (reader.bits(3) as u32 + 1) * 8;
    let patch_width = width_of_code(reader.bits(5));
    let gap_width = reader.bits(3) as u32 + 1;
    let patches = reader.bits(5);
    assert!(patches > 0 && patch_width + gap_width <= 64);
    let sign = reader.bits(1);
    let magnitude = reader.bits(base_bits - 1) as i64;
    let base = if sign == 1 { -magnitude } else { magnitude };
    let mut values: Vec<u64> = (0..count).map(|_| reader.bits(width)).collect();
    reader.align();
    let entry = fixed_width(patch_width + gap_width);
    let mut at = 0;
    for _ in 0..patches {
        let both = reader.bits(entry);
        let (gap, patch) = (both >> patch_width, both & (u64::MAX >> (64 - patch_width)));
        at += gap as usize;
        values[at] |= patch.checked_shl(width).unwrap_or(0);
    }
    out.extend(values.into_iter().map(|value| base + value as i64));
}

#[test]
fn integer_runs_equal_the_specifications_examples() {
    assert_eq!(encode(false, &[10000; 5]), [0x0a, 0x27, 0x10]);
    assert_eq!(
        encode(false, &[23713, 43806, 57005, 48879]),
        [0x5e, 0x03, 0x5c, 0xa1, 0xab, 0x1e, 0xde, 0xad, 0xbe, 0xef]
    );
    // The specification packs these steps into four bits each; three suffice.
    assert_eq!(
        encode(false, &[2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
        [0xc4, 0x09, 0x02, 0x02, 0x4a, 0x28, 0xa6]
    );
}

#[test]
fn patched_runs_store_a_far_base_and_an_outlier() {
    let mut values: Vec<i64> = (0..400u64)
        .map(|i| 1_500_000_000 + (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as i64)
        .collect();
    let near = encode(true, &values);
    assert_eq!(near[0] >> 6, 2);
    assert!(near.len() < 520, "{}", near.len());
    values[300] += 1 << 40;
    let with_outlier = encode(true, &values);
    assert_eq!(with_outlier[0] >> 6, 2);
    assert!(with_outlier.len() < 530);
    assert_eq!(decode(true, &with_outlier), values);
}

#[test]
fn delta_runs_cost_the_steps_of_sorted_values() {
    let values: Vec<i64> = (0..512).map(|i| 1_400_000_000 + i * 3 + (i * 31) % 3).collect();
    assert!(encode(true, &values).len() < 512 * 4 / 8 + 16);
    let down: Vec<i64> = values.iter().rev().map(|value| -value).rev().collect();
    assert_eq!(decode(true, &encode(true, &down)), down);
}

/// Later steps of 0 differ from the first step: a defect once returned 3, 6, 9 for the lengths 3, 6, 6.
#[test]
fn short_sequences_round_trip() {
    for code in 0..4usize.pow(6) {
        let values: Vec<i64> = (0..6).map(|place| (code / 4usize.pow(place) % 4) as i64 * 3).collect();
        for length in 1..=6 {
            assert_eq!(decode(false, &encode(false, &values[..length])), &values[..length]);
            assert_eq!(decode(true, &encode(true, &values[..length])), &values[..length]);
        }
    }
}

#[test]
fn extremes_round_trip() {
    let cases: [&[i64]; 6] = [
        &[i64::MIN, i64::MAX, i64::MIN, 0, -1],
        &[i64::MAX; 20],
        &[i64::MIN, i64::MIN, i64::MIN],
        &[i64::MIN, 0, i64::MAX],
        &[0],
        &[i64::MIN + 1, -1, i64::MAX - 2],
    ];
    for values in cases {
        assert_eq!(decode(true, &encode(true, values)), values);
    }
}

/// Stretches of different character, for runs of all kinds next to each other.
fn stretches() -> impl Strategy<Value = Vec<i64>> {
    let magnitude = (0u32..64).prop_flat_map(|bits| -(1i64 << bits.min(62))..=(1i64 << bits.min(62)));
    let stretch = prop_oneof![
        (any::<i64>(), 1usize..600).prop_map(|(value, n)| vec![value; n]),
        (magnitude.clone(), -1000i64..1000, 1usize..600)
            .prop_map(|(first, step, n)| (0..n as i64).map(|i| first.wrapping_add(i * step)).collect()),
        (
            any::<bool>(),
            magnitude.clone(),
            proptest::collection::vec(0i64..500, 1..700)
        )
            .prop_map(|(up, first, steps)| {
                let mut value = first;
                steps
                    .iter()
                    .map(|step| {
                        value = value.wrapping_add(if up { *step } else { -step });
                        value
                    })
                    .collect()
            }),
        (
            magnitude.clone(),
            proptest::collection::vec(0i64..4000, 1..700),
            any::<prop::sample::Index>(),
            magnitude.clone()
        )
            .prop_map(|(base, mut values, at, outlier)| {
                let at = at.index(values.len());
                values[at] = outlier;
                values.iter().map(|value| base.wrapping_add(*value)).collect()
            }),
        proptest::collection::vec(magnitude, 1..300),
        proptest::collection::vec(any::<i64>(), 1..50),
        proptest::collection::vec(0i64..2, 1..700),
    ];
    proptest::collection::vec(stretch, 1..5).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn signed_values_round_trip(values in stretches()) {
        prop_assert_eq!(decode(true, &encode(true, &values)), values);
    }

    #[test]
    fn unsigned_values_round_trip(values in stretches()) {
        let values: Vec<i64> = values.into_iter().map(|value| value & i64::MAX).collect();
        prop_assert_eq!(decode(false, &encode(false, &values)), values);
    }
}
