//! Fields of protobuf messages, undecoded, for large repeated messages that are split into their entries.
//!
//! A whole `Footer` or `Metadata` decoded at once costs hundreds of bytes for each two-byte statistics entry. One bad
//! string in any entry fails the whole message. Split, each entry is decoded, converted and dropped.

use prost::Message;

/// One field of a message, undecoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field<'a> {
    /// Its number.
    pub(crate) number: u64,
    /// Its value.
    pub(crate) value: Value<'a>,
    /// Key and value as they stand in the message.
    pub(crate) raw: &'a [u8],
}

/// A value by wire type. Fixed-width values are only skipped.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 2.
    Bytes(&'a [u8]),
    /// Wire types 1 and 5.
    Fixed,
}

impl<'a> Field<'a> {
    /// The bytes of a length-delimited field.
    pub(crate) fn bytes(&self) -> Option<&'a [u8]> {
        match self.value {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// The fields of a message in order. Ends after the first error.
pub(crate) struct Fields<'a>(&'a [u8]);

/// Takes a message apart.
pub(crate) fn fields(message: &[u8]) -> Fields<'_> {
    Fields(message)
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or_else(|| "a protobuf field is malformed".into()))
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<Field<'a>> {
        let start = self.0;
        let key = varint(&mut self.0)?;
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut self.0)?),
            1 => self.skip(8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(varint(&mut self.0)?).ok()?;
                Value::Bytes(self.skip(length)?)
            }
            5 => self.skip(4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        let raw = &start[..start.len() - self.0.len()];
        let number = key >> 3; // from 1: zeros are no message
        (number > 0).then_some(())?;
        Some(Field { number, value, raw })
    }

    fn skip(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }
}

/// Reads a varint from the front of `bytes`; `None` if the varint is cut off or longer than 64 bits.
pub(crate) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Decodes a message, with the error as text.
pub(crate) fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, String> {
    M::decode(bytes).map_err(|error| error.to_string())
}

/// Splits a message in two. Fields that `keep` refuses go to `each`, with their number; the rest is decoded as `M`.
/// Only length-delimited fields are offered to `keep`.
pub(crate) fn decode_without<'a, M: Message + Default>(
    message: &'a [u8],
    apart: &[u64],
    mut each: impl FnMut(u64, &'a [u8]) -> Result<(), String>,
) -> Result<M, String> {
    let mut rest = Vec::new();
    for field in fields(message) {
        let field = field?;
        match field.bytes() {
            Some(bytes) if apart.contains(&field.number) => each(field.number, bytes)?,
            _ => rest.extend_from_slice(field.raw),
        }
    }
    decode(&rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto;

    #[test]
    fn messages_are_split_and_the_rest_decodes() {
        let statistics = proto::ColumnStatistics {
            number_of_values: Some(7),
            ..Default::default()
        };
        let footer = proto::Footer {
            number_of_rows: Some(300),
            statistics: vec![statistics.clone(); 3],
            row_index_stride: Some(10),
            ..Default::default()
        };
        let bytes = footer.encode_to_vec();
        let mut apart = vec![];
        let rest: proto::Footer = decode_without(&bytes, &[7], |_, bytes| {
            apart.push(decode::<proto::ColumnStatistics>(bytes)?);
            Ok(())
        })
        .unwrap();
        assert_eq!(apart, footer.statistics);
        assert_eq!((rest.number_of_rows(), rest.row_index_stride()), (300, 10));
        assert!(rest.statistics.is_empty());
    }

    #[test]
    fn malformed_messages_end_with_an_error() {
        for bytes in [&[0x0a, 5, 1][..], &[0x0b], &[0xff; 11], &[0x09, 1, 2], &[0; 9]] {
            assert!(fields(bytes).last().unwrap().is_err(), "{bytes:?}");
        }
    }
}
