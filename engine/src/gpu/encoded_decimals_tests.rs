//! Decimals whose stored scale is not their column's: the decode kernel gives the values of orc-layout's decoder.

use arrow::array::Decimal128Array;

use super::*;

/// Unscaled values as decimals.
pub(super) fn array(unscaled: Vec<Option<i64>>, precision: u8, scale: i8) -> ArrayRef {
    let decimals = unscaled.into_iter().map(|value| value.map(i128::from));
    let decimals = Decimal128Array::from_iter(decimals).with_precision_and_scale(precision, scale);
    Arc::new(decimals.unwrap())
}

/// `file`, which has columns of `decimal(18, 5)`, with another scale of theirs in its footer.
fn with_scale(file: &Bytes, scale: u8) -> Bytes {
    // Kind 14, precision and scale of a type.
    let stored = [0x08, 14, 0x28, 18, 0x30, 5];
    let mut bytes = file.to_vec();
    for at in 0..bytes.len() - stored.len() {
        if bytes[at..].starts_with(&stored) {
            bytes[at + stored.len() - 1] = scale;
        }
    }
    bytes.into()
}

#[test]
fn decimals_of_other_scales_decode_to_the_decoders_values() {
    let Some(machines) = machines() else { return };
    let mut random = ChaCha8Rng::seed_from_u64(21);
    let rows = rows(&mut random, 3000).project(&[10, 22]).unwrap();
    let file = write(&rows, 300, 3000, None);
    for scale in [0, 3, 4, 5, 6, 9, 18] {
        let columns = columns(with_scale(&file, scale));
        assert_eq!(columns.len(), 2);
        let mut tally = Tally::default();
        for column in &columns {
            assert_eq!(
                column.encoded.values,
                EncodedValues::Decimals(RunLength::V2, scale as i8)
            );
            for _ in 0..40 {
                let first = random.random_range(0..2990);
                let last = random.random_range(first..first + 10);
                column.compare(&machines, first..last + 1, &format!("scale {scale}"), &mut tally);
            }
            column.compare(&machines, 0..3000, &format!("scale {scale}"), &mut tally);
        }
        println!("scale {scale}: {tally:?}");
        // With four digits more, many values take more than 64 bits.
        assert!(tally.left_to_cpu == 0 && tally.equal > 20, "scale {scale}: {tally:?}");
        assert_eq!(tally.errors > 0, scale > 6, "scale {scale}: {tally:?}");
    }
}
