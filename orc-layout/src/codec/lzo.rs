//! LZO1X decompression with bounds checks on every access; the available libraries trust their input. The Linux
//! kernel's Documentation/staging/lzo.rst describes the format. Its run-length extension is not supported.
//!
//! ```text
//! first byte 18..255      that many (less 17) literals, then instructions
//! 0000LLLL                after no literals: 3 + L literals (L = 0: longer, see `length`)
//! 0000DDSS H              after 1..3 literals: 2 bytes from (H << 2) + D + 1 back
//! 0000DDSS H              after 4 or more: 3 bytes from (H << 2) + D + 2049 back
//! 0001HLLL D:14 SS        2 + L bytes from 16384 + (H << 14) + D back; distance 16384 ends the stream
//! 001LLLLL D:14 SS        2 + L bytes from D + 1 back
//! 01LDDDSS, 1LLDDDSS H    3 + L or 5 + L bytes from (H << 3) + D + 1 back
//! ```
//! SS is the number of literals (0..3) after a match.

/// Appends the uncompressed form of `compressed` to `out`, at most `limit` bytes.
pub(super) fn decompress(limit: usize, compressed: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let mut lzo = Lzo {
        input: compressed,
        base: out.len(),
        limit,
        out,
    };
    let mut literals = 0; // copied by the last instruction: 0..3, or 4 for more
    if let Some(&first @ 18..) = compressed.first() {
        lzo.byte()?;
        let count = usize::from(first) - 17;
        lzo.literals(count)?;
        literals = count.min(4);
    }
    loop {
        let code = usize::from(lzo.byte()?);
        let (length, distance, following) = match code {
            64.. => {
                let high = usize::from(lzo.byte()?);
                ((code >> 5) + 1, (high << 3) + ((code >> 2) & 7) + 1, code & 3)
            }
            32.. => {
                let length = 2 + lzo.length(code & 31, 31)?;
                let pair = lzo.pair()?;
                (length, (pair >> 2) + 1, pair & 3)
            }
            16.. => {
                let length = 2 + lzo.length(code & 7, 7)?;
                let pair = lzo.pair()?;
                let distance = 16384 + ((code & 8) << 11) + (pair >> 2);
                if distance == 16384 {
                    return Ok(());
                }
                (length, distance, pair & 3)
            }
            _ if literals == 0 => {
                let count = 3 + lzo.length(code, 15)?;
                lzo.literals(count)?;
                literals = 4;
                continue;
            }
            _ => {
                let (length, nearest) = if literals == 4 { (3, 2049) } else { (2, 1) };
                let high = usize::from(lzo.byte()?);
                (length, (high << 2) + (code >> 2) + nearest, code & 3)
            }
        };
        lzo.copy(length, distance)?;
        lzo.literals(following)?;
        literals = following;
    }
}

struct Lzo<'a> {
    input: &'a [u8],
    out: &'a mut Vec<u8>,
    base: usize,
    limit: usize,
}

impl Lzo<'_> {
    fn byte(&mut self) -> Result<u8, String> {
        let (&first, rest) = self.input.split_first().ok_or("lzo: the stream has no end mark")?;
        self.input = rest;
        Ok(first)
    }

    fn pair(&mut self) -> Result<usize, String> {
        Ok(usize::from(self.byte()?) | usize::from(self.byte()?) << 8)
    }

    /// The length in the instruction. If that is 0: `base`, 255 for each zero byte, and the byte after those.
    fn length(&mut self, stated: usize, base: usize) -> Result<usize, String> {
        if stated != 0 {
            return Ok(stated);
        }
        let mut length = base;
        loop {
            match self.byte()? {
                0 => length += 255,
                last => return Ok(length + usize::from(last)),
            }
        }
    }

    fn room_for(&self, count: usize) -> Result<(), String> {
        if self.out.len() - self.base + count > self.limit {
            return Err(super::too_large(self.limit));
        }
        Ok(())
    }

    fn literals(&mut self, count: usize) -> Result<(), String> {
        if count > self.input.len() {
            return Err("lzo: the stream ends inside its literals".into());
        }
        self.room_for(count)?;
        let (head, rest) = self.input.split_at(count);
        self.out.extend_from_slice(head);
        self.input = rest;
        Ok(())
    }

    /// Repeats `length` bytes from `distance` back; the two may overlap.
    fn copy(&mut self, length: usize, distance: usize) -> Result<(), String> {
        if distance > self.out.len() - self.base {
            return Err("lzo: a match lies before the chunk".into());
        }
        self.room_for(length)?;
        let start = self.out.len() - distance;
        if distance >= length {
            self.out.extend_from_within(start..start + length);
        } else {
            for i in start..start + length {
                self.out.push(self.out[i]);
            }
        }
        Ok(())
    }
}
