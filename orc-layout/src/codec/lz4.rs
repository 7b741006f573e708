//! Length of an LZ4 block's output, by its tokens alone.

/// Bytes that come out of a block; `None` if the block is invalid. Offsets are not checked.
pub(crate) fn lz4_length(block: &[u8]) -> Option<u64> {
    let (mut at, mut bytes) = (0usize, 0u64);
    let long = |at: &mut usize, bits: u8| {
        let (mut length, mut more) = (u64::from(bits), if bits == 15 { 255 } else { 0 });
        while more == 255 {
            more = *block.get(*at)?;
            *at += 1;
            length += u64::from(more);
        }
        Some(length)
    };
    loop {
        let token = *block.get(at)?;
        at += 1;
        let literals = long(&mut at, token >> 4)?;
        at = at.checked_add(usize::try_from(literals).ok()?)?;
        bytes += literals;
        if at >= block.len() {
            return (at == block.len()).then_some(bytes);
        }
        at += 2;
        bytes += 4 + long(&mut at, token & 15)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_decompressed_bytes() {
        let words: Vec<u8> = (0..70_000u32).flat_map(|i| (i / 3 % 700).to_le_bytes()).collect();
        for length in [0, 1, 12, 13, 300, 5_000, 280_000] {
            for bytes in [&words[..length], &vec![7; length]] {
                let block = lz4_flex::block::compress(bytes);
                assert_eq!(lz4_length(&block), Some(length as u64));
                assert_eq!(lz4_length(&block[..block.len() - 1]), None);
            }
        }
        assert_eq!(lz4_length(&[]), None);
    }
}
