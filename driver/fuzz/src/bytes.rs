//! [`Bytes`]: an input, taken piece by piece.

/// An input. Behind its end come zeros.
#[derive(Debug)]
pub(crate) struct Bytes {
    data: Vec<u8>,
    at: usize,
}

impl Bytes {
    pub(crate) fn new(data: &[u8]) -> Self {
        Self {
            data: data.to_vec(),
            at: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.data.len()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        let byte = self.data.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte
    }

    /// As many bytes as an integer has, the lowest first.
    fn number(&mut self, bytes: u32) -> u64 {
        (0..bytes).fold(0, |number, i| number | u64::from(self.u8()) << (8 * i))
    }

    pub(crate) fn u16(&mut self) -> u16 {
        self.number(2) as u16
    }

    pub(crate) fn u32(&mut self) -> u32 {
        self.number(4) as u32
    }

    pub(crate) fn u64(&mut self) -> u64 {
        self.number(8)
    }

    /// True for one byte value: rare in random inputs, and never behind the end.
    pub(crate) fn is_wild(&mut self) -> bool {
        self.u8() == 0xff
    }
}
