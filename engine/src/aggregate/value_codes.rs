//! `ValueCodes`: codes of the values of one type.

use std::hash::Hash;

use arrow::buffer::NullBuffer;
use hashbrown::HashMap;

/// The code of NULL.
pub(super) const NULL_CODE: u32 = 0;
/// Codes of a key, at most.
pub(super) const MAX_CODES: u32 = 1 << 14;
/// Values of a window, at most: 256 KiB of codes.
const MAX_WINDOW: i128 = 1 << 16;

/// A key has too many values for codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooManyValues;

/// The codes that a key has given out.
#[derive(Debug)]
pub(super) struct NextCode(u32);

impl Default for NextCode {
    fn default() -> Self {
        Self(NULL_CODE + 1)
    }
}

impl NextCode {
    /// A code that no value has.
    pub(super) fn take(&mut self) -> Result<u32, TooManyValues> {
        if self.0 >= MAX_CODES {
            return Err(TooManyValues);
        }
        self.0 += 1;
        Ok(self.0 - 1)
    }

    /// All codes are below this.
    pub(super) fn end(&self) -> u32 {
        self.0
    }
}

/// Codes of values by a hash table.
#[derive(Debug)]
pub(super) struct ValueCodes<K>(HashMap<K, u32>);

impl<K> Default for ValueCodes<K> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Hash + Eq> ValueCodes<K> {
    /// The code of a value. A new value gets the next one.
    #[inline]
    pub(super) fn code(&mut self, value: K, next: &mut NextCode) -> Result<u32, TooManyValues> {
        match self.0.get(&value) {
            Some(code) => Ok(*code),
            None => self.insert(value, next),
        }
    }

    #[cold]
    fn insert(&mut self, value: K, next: &mut NextCode) -> Result<u32, TooManyValues> {
        let code = next.take()?;
        self.0.insert(value, code);
        Ok(code)
    }

    /// Bytes of memory.
    pub(super) fn size(&self) -> usize {
        self.0.allocation_size()
    }
}

/// Codes of whole numbers: by a table over the window of values that have come up, as long as the window is narrow.
#[derive(Debug, Default)]
pub(super) struct IntCodes {
    /// The value of the window's first entry.
    first: i64,
    /// 0: the value has not come up.
    window: Vec<u32>,
    /// Codes of values, once the window would be too wide. The window is empty then.
    wide: Option<ValueCodes<i64>>,
}

impl IntCodes {
    /// The code of a value. A new value gets the next one.
    #[inline]
    pub(super) fn code(&mut self, value: i64, next: &mut NextCode) -> Result<u32, TooManyValues> {
        match self.place(value).map(|at| self.window[at]) {
            Some(code) if code != 0 => Ok(code),
            _ => self.other_code(value, next),
        }
    }

    fn other_code(&mut self, value: i64, next: &mut NextCode) -> Result<u32, TooManyValues> {
        if self.wide.is_none() && self.place(value).is_none() {
            self.widen(value);
        }
        if let Some(wide) = &mut self.wide {
            return wide.code(value, next);
        }
        let code = next.take()?;
        if let Some(at) = self.place(value) {
            self.window[at] = code;
        }
        Ok(code)
    }

    /// The place of a value in the window. `None`: the value lies outside.
    #[inline]
    fn place(&self, value: i64) -> Option<usize> {
        let at = usize::try_from(value.wrapping_sub(self.first) as u64).ok()?;
        (at < self.window.len()).then_some(at)
    }

    /// Makes the window contain a value outside it, or gives the window up. The window grows by its length at least.
    fn widen(&mut self, value: i64) {
        if self.window.is_empty() {
            (self.first, self.window) = (value, vec![0]);
            return;
        }
        let (old_first, rows) = (i128::from(self.first), self.window.len() as i128);
        let (first, end) = match i128::from(value) {
            value if value < old_first => (value.min(old_first - rows), old_first + rows),
            value => (old_first, (value + 1).max(old_first + 2 * rows)),
        };
        let (first, end) = (first.max(i64::MIN.into()), end.min(i128::from(i64::MAX) + 1));
        if end - first > MAX_WINDOW {
            let known = std::mem::take(&mut self.window).into_iter().enumerate();
            let values = known.filter(|(_, code)| *code != 0);
            let values = values.map(|(at, code)| (self.first.wrapping_add(at as i64), code));
            self.wide = Some(ValueCodes(values.collect()));
            return;
        }
        let before = (old_first - first) as usize;
        let mut window = vec![0; (end - first) as usize];
        window[before..before + self.window.len()].copy_from_slice(&self.window);
        (self.first, self.window) = (first as i64, window);
    }

    /// Bytes of memory.
    pub(super) fn size(&self) -> usize {
        self.window.capacity() * size_of::<u32>() + self.wide.as_ref().map_or(0, ValueCodes::size)
    }
}

/// Appends the code of each value. The values may be more than rows: those behind the last row are left out.
pub(super) fn each<T>(
    values: impl Iterator<Item = T>,
    nulls: Option<&NullBuffer>,
    out: &mut Vec<u32>,
    mut code: impl FnMut(T) -> Result<u32, TooManyValues>,
) -> Result<(), TooManyValues> {
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        None => {
            for value in values {
                out.push(code(value)?);
            }
        }
        Some(nulls) => {
            for (value, is_valid) in values.zip(nulls) {
                out.push(if is_valid { code(value)? } else { NULL_CODE });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn int_codes_are_one_for_each_value() {
        let (mut codes, mut next) = (IntCodes::default(), NextCode::default());
        let values = [
            5,
            7,
            5,
            -3,
            7,
            60_000,
            5,
            i64::MAX,
            60_000,
            i64::MIN,
            i64::MIN + 1,
            -3,
            i64::MAX,
            5,
        ];
        let of: Vec<u32> = values.iter().map(|v| codes.code(*v, &mut next).unwrap()).collect();
        assert_eq!(of, [1, 2, 1, 3, 2, 4, 1, 5, 4, 6, 7, 3, 5, 1]);
        assert!(codes.wide.is_some() && codes.window.is_empty());
        // A window at the ends of the numbers.
        let (mut codes, mut next) = (IntCodes::default(), NextCode::default());
        for value in [i64::MAX, i64::MAX - 1, i64::MAX, i64::MAX - 9] {
            codes.code(value, &mut next).unwrap();
        }
        assert_eq!((next.end(), codes.window.len()), (4, 10));
        assert!(codes.wide.is_none());
    }

    #[test]
    fn codes_end_where_there_are_too_many_values() {
        let (mut codes, mut next) = (IntCodes::default(), NextCode::default());
        let all: Result<Vec<u32>, TooManyValues> =
            (0..i64::from(MAX_CODES)).map(|v| codes.code(v, &mut next)).collect();
        assert_eq!(all, Err(TooManyValues));
        assert_eq!(codes.code(7, &mut next), Ok(8));
    }
}
