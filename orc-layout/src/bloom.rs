//! [`BloomFilter`] (ORC v1, "Bloom Filter Index"): Murmur3 and Thomas Wang hashes over a bit set.

use crate::calendar::FIRST_GREGORIAN_DAY;
use crate::decimal_text::shortest_decimal_text;

/// More hash functions than any writer uses (the count follows from the false-positive rate: 0.01 makes 7).
const MAX_HASH_FUNCTIONS: u32 = 64;

/// Seed of every Murmur3 hash in ORC.
const SEED: u64 = 104_729;

/// The filter of one column in one row group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BloomFilter {
    hash_functions: u32,
    bits: Vec<u64>,
}

impl BloomFilter {
    /// A filter of stored parts; `None` if they are invalid.
    pub fn from_parts(hash_functions: u32, bits: Vec<u64>) -> Option<Self> {
        let usable = (1..=MAX_HASH_FUNCTIONS).contains(&hash_functions)
            && !bits.is_empty()
            && i32::try_from(bits.len() * 64).is_ok();
        usable.then_some(Self { hash_functions, bits })
    }

    /// An empty filter for about `expected` values with a false-positive probability of `probability` (0 to 1,
    /// exclusive). Writers fill it with the `insert` functions.
    pub fn with_capacity(expected: usize, probability: f64) -> Self {
        let ln2 = std::f64::consts::LN_2;
        let values = expected.max(1) as f64;
        let bits = (-values * probability.clamp(1e-9, 0.999).ln() / (ln2 * ln2)).ceil();
        let words = (bits as usize).div_ceil(64).clamp(1, (i32::MAX / 64) as usize);
        let hash_functions = ((words * 64) as f64 / values * ln2).round() as u32;
        Self {
            hash_functions: hash_functions.clamp(1, MAX_HASH_FUNCTIONS),
            bits: vec![0; words],
        }
    }

    /// Number of bits that each value sets.
    pub(crate) fn hash_functions(&self) -> u32 {
        self.hash_functions
    }

    /// The bit set, as stored in `utf8bitset` (little-endian) or `bitset`.
    pub fn words(&self) -> &[u64] {
        &self.bits
    }

    /// Whether an integer may be in the set (also a timestamp's milliseconds as the writer hashed it).
    pub fn may_contain_long(&self, value: i64) -> bool {
        self.may_contain(hash_long(value))
    }

    /// Whether a date may be in the set: `day` of the proleptic calendar. Writers of the hybrid calendar hash their own
    /// days, which are others before 1582-10-15. Of those nothing is known.
    pub fn may_contain_date(&self, day: i32, is_hybrid_calendar: bool) -> bool {
        let day = i64::from(day);
        is_hybrid_calendar && day < FIRST_GREGORIAN_DAY || self.may_contain_long(day)
    }

    /// Whether a float or double may be in the set.
    pub fn may_contain_double(&self, value: f64) -> bool {
        // Zero has two bit patterns that compare equal, NaN has many.
        if value == 0.0 {
            self.may_contain(hash_double(0.0)) || self.may_contain(hash_double(-0.0))
        } else {
            value.is_nan() || self.may_contain(hash_double(value))
        }
    }

    /// Whether a string (UTF-8) or a decimal's text may be in the set.
    pub fn may_contain_bytes(&self, value: &[u8]) -> bool {
        self.may_contain(hash_bytes(value))
    }

    /// Whether a decimal may be in the set: `unscaled` at `scale`, whatever the scale of the column.
    pub fn may_contain_decimal(&self, unscaled: i128, scale: u8) -> bool {
        self.may_contain_bytes(shortest_decimal_text(unscaled, scale.into()).as_bytes())
    }

    /// Whether a timestamp may be in the set, in nanoseconds since 1970: of UTC, or of the wall clock.
    pub fn may_contain_timestamp(&self, nanoseconds: i128) -> bool {
        self.may_contain_long(whole_milliseconds(nanoseconds))
    }

    /// Adds an integer or a date.
    pub(crate) fn insert_long(&mut self, value: i64) {
        self.insert(hash_long(value));
    }

    /// Adds a float or double.
    pub(crate) fn insert_double(&mut self, value: f64) {
        self.insert(hash_double(value));
    }

    /// Adds a string or a decimal's text.
    pub(crate) fn insert_bytes(&mut self, value: &[u8]) {
        self.insert(hash_bytes(value));
    }

    /// Adds a decimal, as its shortest text: the Java and C++ writers drop zeros at the end of the fraction.
    pub(crate) fn insert_decimal(&mut self, unscaled: i128, scale: u8) {
        self.insert_bytes(shortest_decimal_text(unscaled, scale.into()).as_bytes());
    }

    /// Adds a timestamp, as its whole milliseconds in UTC (ORC-135).
    pub(crate) fn insert_timestamp(&mut self, nanoseconds: i128) {
        self.insert_long(whole_milliseconds(nanoseconds));
    }

    fn may_contain(&self, hash: u64) -> bool {
        (1..=self.hash_functions).all(|k| {
            let bit = self.bit(hash, k);
            self.bits[bit / 64] >> (bit % 64) & 1 == 1
        })
    }

    fn insert(&mut self, hash: u64) {
        for k in 1..=self.hash_functions {
            let bit = self.bit(hash, k);
            self.bits[bit / 64] |= 1 << (bit % 64);
        }
    }

    /// The k-th bit of a value: the two halves of its hash, combined in Java's wrapping 32-bit arithmetic.
    fn bit(&self, hash: u64, k: u32) -> usize {
        let (low, high) = (hash as i32, (hash >> 32) as i32);
        let combined = low.wrapping_add(high.wrapping_mul(k as i32));
        let positive = if combined < 0 { !combined } else { combined };
        positive as usize % (self.bits.len() * 64)
    }
}

/// Milliseconds, rounded towards the past. Those beyond 64 bits wrap, here as when a value is looked up.
fn whole_milliseconds(nanoseconds: i128) -> i64 {
    nanoseconds.div_euclid(1_000_000) as i64
}

/// Thomas Wang's 64-bit mix, with Java's signed shifts.
fn hash_long(value: i64) -> u64 {
    let mut key = value;
    key = (!key).wrapping_add(key << 21);
    key ^= key >> 24;
    key = key.wrapping_add(key << 3).wrapping_add(key << 8);
    key ^= key >> 14;
    key = key.wrapping_add(key << 2).wrapping_add(key << 4);
    key ^= key >> 28;
    key = key.wrapping_add(key << 31);
    key as u64
}

/// A double is hashed as the integer of its bits, all NaNs as one.
fn hash_double(value: f64) -> u64 {
    let value = if value.is_nan() {
        f64::from_bits(0x7ff8 << 48)
    } else {
        value
    };
    hash_long(value.to_bits() as i64)
}

/// Murmur3, the 64-bit variant that ORC took from Hive: one lane of the 128-bit function.
fn hash_bytes(bytes: &[u8]) -> u64 {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let scramble = |word: u64| word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let mut hash = SEED;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word = word.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        hash = (hash ^ scramble(word))
            .rotate_left(27)
            .wrapping_mul(5)
            .wrapping_add(0x52dc_e729);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let word = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        hash ^= scramble(word);
    }
    hash ^= bytes.len() as u64;
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_contain_every_inserted_value_and_few_others() {
        let mut filter = BloomFilter::with_capacity(1000, 0.01);
        assert_eq!(filter.hash_functions(), 7);
        for i in 0..300i64 {
            filter.insert_long(i * 7 - 900);
            filter.insert_double(i as f64 / 3.0);
            filter.insert_bytes(format!("value {i}").as_bytes());
        }
        for i in 0..300i64 {
            assert!(filter.may_contain_long(i * 7 - 900));
            assert!(filter.may_contain_double(i as f64 / 3.0));
            assert!(filter.may_contain_bytes(format!("value {i}").as_bytes()));
        }
        let wrong = (0..10_000).filter(|i| filter.may_contain_bytes(format!("other {i}").as_bytes()));
        assert!(wrong.count() < 200);
        let wrong = (0..10_000).filter(|i| filter.may_contain_long(10_000 + i));
        assert!(wrong.count() < 200);
    }

    /// The expected words are those of the C++ writer of ORC 2.x (pyarrow 26) for the same values.
    #[test]
    fn filters_equal_those_of_another_writer() {
        let filter = |words, insert: &dyn Fn(&mut BloomFilter)| {
            let mut ours = BloomFilter::from_parts(9, vec![0]).unwrap();
            insert(&mut ours);
            assert_eq!(ours.words(), [words]);
        };
        filter(0x13d0_92ed_4990_a993, &|filter| {
            [0, -1, 42, 1 << 40, -(1 << 60)]
                .into_iter()
                .for_each(|value| filter.insert_long(value));
        });
        filter(0xab9f_ea4a_6bb1_84b4, &|filter| {
            [0.5, -3.25, 1e300, 30.0, -1e-5]
                .into_iter()
                .for_each(|value| filter.insert_double(value));
        });
        filter(0xf8bd_48b3_d5cb_23c5, &|filter| {
            let texts = ["", "a", "Grüße", "exactly8", "a longer string, of 27 bytes"];
            texts.into_iter().for_each(|text| filter.insert_bytes(text.as_bytes()));
        });
    }

    #[test]
    fn dates_of_the_hybrid_calendar_are_excluded_only_where_the_calendars_agree() {
        // 0001-01-01 is day -719,164 of the hybrid calendar and -719,162 of the proleptic one. 1582-10-15 is -141,427.
        let mut filter = BloomFilter::with_capacity(10, 0.001);
        filter.insert_long(-719_164);
        assert!(filter.may_contain_date(-719_162, true));
        assert!(filter.may_contain_date(-141_428, true));
        assert!(!filter.may_contain_date(-141_427, true));
        assert!(!filter.may_contain_date(-719_162, false));
        assert!(filter.may_contain_date(-719_164, false));
    }

    #[test]
    fn zeros_are_equal_and_nan_is_never_excluded() {
        let mut filter = BloomFilter::with_capacity(10, 0.001);
        filter.insert_double(-0.0);
        assert!(filter.may_contain_double(0.0));
        assert!(filter.may_contain_double(f64::NAN));
        assert!(!filter.may_contain_double(1.0));
    }

    #[test]
    fn filters_refuse_invalid_parts() {
        assert!(BloomFilter::from_parts(0, vec![1]).is_none());
        assert!(BloomFilter::from_parts(3, vec![]).is_none());
        assert!(BloomFilter::from_parts(u32::MAX, vec![1]).is_none());
        assert!(BloomFilter::from_parts(3, vec![1]).is_some());
    }
}
