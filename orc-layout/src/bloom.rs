//! Bloom filters of ORC (ORC v1, "Bloom Filter Index"): Murmur3 and Thomas Wang hashes over a bit set.

/// The filter of one column in one row group.
#[derive(Debug, Clone)]
pub struct BloomFilter {
    hash_functions: u32,
    bits: Vec<u64>,
}

impl BloomFilter {
    /// From the stored parts; `None` if they make no filter.
    pub fn from_parts(hash_functions: u32, bits: Vec<u64>) -> Option<Self> {
        (hash_functions > 0 && !bits.is_empty()).then_some(Self { hash_functions, bits })
    }

    /// Whether an integer (also a date, or a timestamp's milliseconds as the writer hashed it) may be there.
    pub fn may_contain_long(&self, value: i64) -> bool {
        let _ = (value, self.hash_functions, &self.bits);
        todo!()
    }

    /// Whether a float or double may be there.
    pub fn may_contain_double(&self, value: f64) -> bool {
        let _ = value;
        todo!()
    }

    /// Whether a string (UTF-8) or a decimal's text may be there.
    pub fn may_contain_bytes(&self, value: &[u8]) -> bool {
        let _ = value;
        todo!()
    }
}
