//! Checksums: XXH3 with 64 bits of a file's content and of structures, and its low 32 bits for each unit of content.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Bytes that one unit checksum covers. A difference is found to this length.
pub(super) const UNIT_BYTES: u64 = 4096;
/// Bytes of a unit checksum.
pub(super) const UNIT_CHECKSUM_BYTES: u64 = 4;

/// The checksum of a structure whose field `at..at + 8` holds it: that field counts as left out.
pub(super) fn structure_checksum(bytes: &[u8], at: usize) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(&bytes[..at]);
    hash.update(&bytes[at + 8..]);
    hash.digest()
}

/// The checksums of the units of some content, which begins at a unit. The last unit may be short.
pub(super) fn unit_checksums(content: &[u8]) -> impl Iterator<Item = u32> {
    content.chunks(UNIT_BYTES as usize).map(|unit| xxh3_64(unit) as u32)
}

/// Checksums of content that comes in pieces. All pieces but the last are whole units.
#[derive(Default)]
pub(super) struct ContentChecksums {
    content: Xxh3,
    /// The unit checksums, little-endian.
    pub(super) units: Vec<u8>,
}

impl ContentChecksums {
    pub(super) fn add(&mut self, piece: &[u8]) {
        self.content.update(piece);
        self.units.extend(unit_checksums(piece).flat_map(u32::to_le_bytes));
    }

    /// The checksum of the content, and that of the unit checksums.
    pub(super) fn digest(&self) -> (u64, u64) {
        (self.content.digest(), xxh3_64(&self.units))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The specification's values of XXH3 with 64 bits, seed 0.
    #[test]
    fn checksums_are_those_of_the_specification() {
        let mut checksums = ContentChecksums::default();
        assert_eq!(checksums.digest(), (0x2d06_8005_38d3_94c2, 0x2d06_8005_38d3_94c2));
        checksums.add(&[]);
        assert_eq!(checksums.units.len(), 0);
        checksums.add(&[7; 5000]);
        assert_eq!(checksums.units.len(), 8);
        let units: Vec<u32> = unit_checksums(&[7; 5000]).collect();
        assert_eq!(units[1], xxh3_64(&[7; 904]) as u32);
    }

    #[test]
    fn checksum_of_a_structure_leaves_its_own_field_out() {
        let mut bytes = *b"head CHECKSUMtail";
        let before = structure_checksum(&bytes, 5);
        bytes[5..13].fill(0);
        assert_eq!(structure_checksum(&bytes, 5), before);
        bytes[13] = b'T';
        assert_ne!(structure_checksum(&bytes, 5), before);
    }
}
