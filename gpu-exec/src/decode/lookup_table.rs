//! Lookup table of a column: the codes of a dictionary's entries, or the changes of a zone's clock.

use grampus_io_stack::abi::Bytes;
use grampus_orc_layout::encoded_column::EncodedValues;

use crate::abi::decode::ZoneChange;

/// Bytes of a column's table.
pub(crate) fn table_bytes(values: &EncodedValues) -> usize {
    match values {
        EncodedValues::Dictionary(_, codes) => *codes as usize * 4,
        EncodedValues::Timestamps(_, clock) => clock.changes.as_ref().map_or(0, |z| z.len() * size_of::<ZoneChange>()),
        EncodedValues::Floats
        | EncodedValues::Booleans
        | EncodedValues::Bytes
        | EncodedValues::Integers(_)
        | EncodedValues::Decimals(..) => 0,
    }
}

/// Writes the table and returns its number of entries. `codes` has a code for each entry of a dictionary.
pub(crate) fn write_table(values: &EncodedValues, codes: &[u32], out: &mut [u8]) -> u32 {
    match values {
        EncodedValues::Dictionary(_, count) => {
            let codes = &codes[..codes.len().min(*count as usize)];
            for (number, out) in codes.iter().zip(out.chunks_exact_mut(4)) {
                number.write_to(out);
            }
            codes.len() as u32
        }
        EncodedValues::Timestamps(_, clock) => {
            let zone = clock.changes.as_deref().unwrap_or(&[]);
            for (change, out) in zone.iter().zip(out.chunks_exact_mut(size_of::<ZoneChange>())) {
                let change = ZoneChange {
                    from: change.from as u64,
                    offset: change.offset as u64,
                };
                change.write_to(out);
            }
            zone.len() as u32
        }
        EncodedValues::Floats
        | EncodedValues::Booleans
        | EncodedValues::Bytes
        | EncodedValues::Integers(_)
        | EncodedValues::Decimals(..) => 0,
    }
}
