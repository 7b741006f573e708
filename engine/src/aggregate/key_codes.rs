//! `KeyCodes`: codes of one key's values, by the key's type.
//!
//! Values with the same bits have the same code. Values with different codes may be equal all the same (-0.0 and 0.0,
//! say): `GroupValues` decides.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    BinaryType, BinaryViewType, DataType, LargeBinaryType, LargeUtf8Type, StringViewType, Utf8Type,
};

use super::entry_codes::EntryCodes;
use super::text_codes::TextCodes;
use super::value_codes::{IntCodes, MAX_CODES, NULL_CODE, NextCode, TooManyValues, ValueCodes, each};

/// The codes of a key.
#[derive(Debug)]
pub(super) struct KeyCodes {
    next: NextCode,
    values: Values,
    /// Of strings that come as places in dictionaries.
    entries: EntryCodes,
}

/// Codes by kind of value.
#[derive(Debug)]
enum Values {
    /// Numbers of at most 64 bits that are no floats, dates, times and booleans.
    Ints(IntCodes),
    /// By their bits.
    Floats(ValueCodes<u64>),
    /// By their 128 bits.
    Wide(ValueCodes<i128>),
    Text(TextCodes),
    Dictionary(Box<DictionaryCodes>),
}

/// Codes of a dictionary's entries.
#[derive(Debug)]
struct DictionaryCodes {
    entries: KeyCodes,
    /// The last batch's dictionary, and the codes of its entries.
    last: Option<ArrayRef>,
    codes: Vec<u32>,
}

impl KeyCodes {
    /// `None`: values of the type have no codes.
    pub(super) fn new(data_type: &DataType) -> Option<Self> {
        let values = match data_type {
            DataType::Boolean => Values::Ints(IntCodes::default()),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Values::Text(TextCodes::default()),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Values::Text(TextCodes::default()),
            DataType::Dictionary(_, entries) => Values::Dictionary(Box::new(DictionaryCodes {
                entries: Self::new(entries)?,
                last: None,
                codes: Vec::new(),
            })),
            other => match (other.primitive_width()?, other.is_floating()) {
                (..=8, true) => Values::Floats(ValueCodes::default()),
                (..=8, false) => Values::Ints(IntCodes::default()),
                (16, _) => Values::Wide(ValueCodes::default()),
                _ => return None,
            },
        };
        Some(Self {
            next: NextCode::default(),
            values,
            entries: EntryCodes::default(),
        })
    }

    /// All codes are below this.
    pub(super) fn end(&self) -> u32 {
        match &self.values {
            Values::Dictionary(codes) => codes.entries.end(),
            _ => self.next.end(),
        }
    }

    /// Sets `out` to the code of each row. NULL has the code 0.
    ///
    /// # Errors
    /// If the key has too many values for codes. Codes that were given out stay what they are.
    pub(super) fn codes_of(&mut self, array: &ArrayRef, out: &mut Vec<u32>) -> Result<(), TooManyValues> {
        out.clear();
        out.reserve(array.len());
        let next = &mut self.next;
        let (data_type, nulls) = (array.data_type(), array.nulls());
        match &mut self.values {
            Values::Text(codes) => match data_type {
                DataType::Dictionary(..) => {
                    let code = |entries: &ArrayRef, at: usize| {
                        codes.of_value(entries.as_string::<i32>().value(at).as_bytes(), next)
                    };
                    self.entries.of_rows(array.as_any_dictionary(), out, code)
                }
                DataType::Utf8View => codes.of_views::<StringViewType>(array.as_byte_view(), next, out),
                DataType::BinaryView => codes.of_views::<BinaryViewType>(array.as_byte_view(), next, out),
                DataType::Utf8 => codes.of_offsets::<Utf8Type>(array.as_bytes(), next, out),
                DataType::LargeUtf8 => codes.of_offsets::<LargeUtf8Type>(array.as_bytes(), next, out),
                DataType::Binary => codes.of_offsets::<BinaryType>(array.as_bytes(), next, out),
                _ => codes.of_offsets::<LargeBinaryType>(array.as_bytes(), next, out),
            },
            Values::Dictionary(codes) => codes.codes_of(array, out),
            Values::Ints(codes) if *data_type == DataType::Boolean => {
                let bits = array.as_boolean().values().iter().map(i64::from);
                each(bits, nulls, out, |value| codes.code(value, next))
            }
            Values::Ints(codes) => {
                let (data, rows) = (array.to_data(), array.len());
                match data_type.primitive_width() {
                    Some(1) => codes.codes_of(&data.buffer::<i8>(0)[..rows], nulls, next, out),
                    Some(2) => codes.codes_of(&data.buffer::<i16>(0)[..rows], nulls, next, out),
                    Some(4) => codes.codes_of(&data.buffer::<i32>(0)[..rows], nulls, next, out),
                    _ => codes.codes_of(&data.buffer::<i64>(0)[..rows], nulls, next, out),
                }
            }
            Values::Floats(codes) => {
                let data = array.to_data();
                let mut code = |bits: u64| codes.code(bits, next);
                match data_type.primitive_width() {
                    Some(2) => each(
                        data.buffer::<u16>(0).iter().map(|v| u64::from(*v)),
                        nulls,
                        out,
                        &mut code,
                    ),
                    Some(4) => each(
                        data.buffer::<u32>(0).iter().map(|v| u64::from(*v)),
                        nulls,
                        out,
                        &mut code,
                    ),
                    _ => each(data.buffer::<u64>(0).iter().copied(), nulls, out, &mut code),
                }
            }
            Values::Wide(codes) => {
                let data = array.to_data();
                each(data.buffer::<i128>(0).iter().copied(), nulls, out, |bits| {
                    codes.code(bits, next)
                })
            }
        }
    }

    /// Bytes of memory.
    pub(super) fn size(&self) -> usize {
        match &self.values {
            Values::Ints(codes) => codes.size(),
            Values::Floats(codes) => codes.size(),
            Values::Wide(codes) => codes.size(),
            Values::Text(codes) => codes.size() + self.entries.size(),
            Values::Dictionary(codes) => {
                let last = codes.last.as_ref().map_or(0, |last| last.get_array_memory_size());
                codes.entries.size() + codes.codes.capacity() * size_of::<u32>() + last
            }
        }
    }
}

impl DictionaryCodes {
    fn codes_of(&mut self, array: &ArrayRef, out: &mut Vec<u32>) -> Result<(), TooManyValues> {
        let dictionary = array.as_any_dictionary();
        let entries = dictionary.values();
        if !self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, entries)) {
            self.last = None;
            if entries.len() > MAX_CODES as usize {
                return Err(TooManyValues);
            }
            self.entries.codes_of(entries, &mut self.codes)?;
            self.last = Some(Arc::clone(entries));
        }
        if entries.is_empty() {
            out.resize(array.len(), NULL_CODE);
            return Ok(());
        }
        let codes = &self.codes;
        let entries = dictionary.normalized_keys().into_iter();
        each(entries, dictionary.keys().nulls(), out, |entry| Ok(codes[entry]))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int8Array, StringArray,
        StringViewArray, UInt64Array,
    };
    use arrow::datatypes::Int8Type;

    use super::*;

    fn codes(codes: &mut KeyCodes, array: impl Array + 'static) -> Vec<u32> {
        let mut out = vec![99];
        codes.codes_of(&(Arc::new(array) as ArrayRef), &mut out).unwrap();
        out
    }

    fn of(data_type: DataType) -> KeyCodes {
        KeyCodes::new(&data_type).unwrap()
    }

    #[test]
    fn codes_follow_the_order_in_which_values_come_up() {
        let mut ints = of(DataType::Int8);
        assert_eq!(
            codes(&mut ints, Int8Array::from(vec![Some(-1), None, Some(3), Some(-1)])),
            [1, 0, 2, 1]
        );
        assert_eq!(codes(&mut ints, Int8Array::from(vec![3, 4]).slice(1, 1)), [3]);
        assert_eq!(ints.end(), 4);
        let unsigned = UInt64Array::from(vec![u64::MAX, 0, 1 << 63, u64::MAX]);
        assert_eq!(codes(&mut of(DataType::UInt64), unsigned), [1, 2, 3, 1]);
        let bools = BooleanArray::from(vec![Some(true), None, Some(false), Some(true)]).slice(1, 3);
        assert_eq!(codes(&mut of(DataType::Boolean), bools), [0, 1, 2]);
        assert_eq!(
            codes(&mut of(DataType::Date32), Date32Array::from(vec![9, 8, 9])),
            [1, 2, 1]
        );
        let floats = Float64Array::from(vec![0.0, -0.0, f64::NAN, 0.0]);
        assert_eq!(codes(&mut of(DataType::Float64), floats), [1, 2, 3, 1]);
        let decimals = Decimal128Array::from(vec![1 << 100, 1, 1 << 100]);
        assert_eq!(codes(&mut of(DataType::Decimal128(38, 10)), decimals), [1, 2, 1]);
    }

    #[test]
    fn strings_have_one_code_in_every_batch() {
        let long = "a string that does not lie in its view";
        let mut views = of(DataType::Utf8View);
        let first = StringViewArray::from(vec![Some("a"), Some(long), None, Some(long), Some("")]);
        assert_eq!(codes(&mut views, first), [1, 2, 0, 2, 3]);
        let other = "another string that is too long for that";
        assert_eq!(
            codes(&mut views, StringViewArray::from(vec![other, long, "a"])),
            [4, 2, 1]
        );
        let mut offsets = of(DataType::Utf8);
        let sliced = StringArray::from(vec![Some("z"), None, Some(long), Some("a")]).slice(1, 3);
        assert_eq!(codes(&mut offsets, sliced), [0, 1, 2]);
        // Short values with others behind them, and at the end of their buffer.
        let short = StringArray::from(vec!["a", "twelve bytes", "", "a", "twelve byte", "twelve bytes", "a"]);
        assert_eq!(codes(&mut offsets, short), [2, 3, 4, 2, 5, 3, 2]);
        let zeros = StringArray::from(vec!["\0", "", "\0\0", "\0"]);
        assert_eq!(codes(&mut offsets, zeros), [6, 4, 7, 6]);
    }

    #[test]
    fn entries_of_dictionaries_have_the_codes_of_their_values() {
        let mut dictionaries = of(DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into()));
        let entries: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None, Some("y"), Some("x")]));
        let of_keys = |keys: Vec<Option<i8>>, entries: &ArrayRef| {
            DictionaryArray::<Int8Type>::new(keys.into_iter().collect(), Arc::clone(entries))
        };
        let keys = of_keys(vec![Some(2), Some(0), None, Some(1), Some(3)], &entries);
        assert_eq!(codes(&mut dictionaries, keys), [2, 1, 0, 0, 1]);
        assert_eq!(codes(&mut dictionaries, of_keys(vec![Some(2)], &entries)), [2]);
        let others: ArrayRef = Arc::new(StringArray::from(vec!["y", "z"]));
        assert_eq!(
            codes(&mut dictionaries, of_keys(vec![Some(1), Some(0)], &others)),
            [3, 2]
        );
        let none: ArrayRef = Arc::new(StringArray::new_null(0));
        assert_eq!(codes(&mut dictionaries, of_keys(vec![None, None], &none)), [0, 0]);
        assert_eq!(dictionaries.end(), 4);
    }
}
