//! Builds bloom filters (ORC v1, "Bloom Filter Index"), one per row group of a column. The other side is
//! [`bloom`](crate::bloom).

use crate::proto;

/// Seed of the string hash.
const MURMUR_SEED: u64 = 104_729;

/// The filter of the current row group.
#[derive(Debug, Clone)]
pub(super) struct BloomBuilder {
    bits: Vec<u64>,
    hash_functions: u32,
}

impl BloomBuilder {
    /// For `values` values of which a share `fpp` of absent ones may pass.
    pub(super) fn new(values: u32, fpp: f64) -> Self {
        let ln2 = std::f64::consts::LN_2;
        let values = f64::from(values.max(1));
        let bits = (-values * fpp.ln() / (ln2 * ln2)).ceil().max(1.0);
        let hash_functions = (bits / values * ln2).round().max(1.0) as u32;
        Self {
            bits: vec![0; (bits as usize).div_ceil(64)],
            hash_functions,
        }
    }

    pub(super) fn insert_long(&mut self, value: i64) {
        self.insert_hash(long_hash(value));
    }

    pub(super) fn insert_double(&mut self, value: f64) {
        // Every NaN is the same one to other writers.
        let bits = if value.is_nan() {
            0x7ff8_0000_0000_0000
        } else {
            value.to_bits()
        };
        self.insert_hash(long_hash(bits as i64));
    }

    pub(super) fn insert_bytes(&mut self, value: &[u8]) {
        self.insert_hash(murmur3(value));
    }

    /// The filter as stored; the next row group starts empty.
    pub(super) fn finish(&mut self) -> proto::BloomFilter {
        let bytes = self.bits.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.bits.fill(0);
        proto::BloomFilter {
            num_hash_functions: Some(self.hash_functions),
            bitset: vec![],
            utf8bitset: Some(bytes),
        }
    }

    fn insert_hash(&mut self, hash: u64) {
        let (first, second) = (hash as i32, (hash >> 32) as i32);
        let bits = self.bits.len() as u64 * 64;
        for i in 1..=self.hash_functions as i32 {
            let combined = first.wrapping_add(second.wrapping_mul(i));
            let at = (if combined < 0 { !combined } else { combined }) as u64 % bits;
            self.bits[(at / 64) as usize] |= 1 << (at % 64);
        }
    }
}

/// Thomas Wang's 64-bit integer hash.
fn long_hash(value: i64) -> u64 {
    let mut key = value;
    key = (!key).wrapping_add(key << 21);
    key ^= key >> 24;
    key = key.wrapping_add(key << 3).wrapping_add(key << 8);
    key ^= key >> 14;
    key = key.wrapping_add(key << 2).wrapping_add(key << 4);
    key ^= key >> 28;
    key.wrapping_add(key << 31) as u64
}

/// The 64-bit hash of the Apache projects: one lane of Murmur3 for x64.
fn murmur3(data: &[u8]) -> u64 {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let mix = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let mut hash = MURMUR_SEED;
    let (words, tail) = data.as_chunks::<8>();
    for word in words {
        hash ^= mix(u64::from_le_bytes(*word));
        hash = hash.rotate_left(27).wrapping_mul(5).wrapping_add(0x52dc_e729);
    }
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        hash ^= mix(u64::from_le_bytes(word));
    }
    hash ^= data.len() as u64;
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}
