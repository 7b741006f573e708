//! `ValueCodes`: codes of the values of one type.

use std::hash::Hash;

use arrow::buffer::NullBuffer;
use arrow::datatypes::ArrowNativeType;
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

/// Codes of whole numbers: by a table over a window of values around the first one, and by a hash table for values too
/// far from it.
#[derive(Debug, Default)]
pub(super) struct IntCodes {
    /// The value of the window's first entry.
    first: i64,
    /// 0: the value has not come up.
    window: Vec<u32>,
    /// Codes of values outside the window.
    far: ValueCodes<i64>,
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

    /// Appends the code of each value. NULL has the code 0.
    pub(super) fn codes_of<T: ArrowNativeType>(
        &mut self,
        values: &[T],
        nulls: Option<&NullBuffer>,
        next: &mut NextCode,
        out: &mut Vec<u32>,
    ) -> Result<(), TooManyValues> {
        // A conversion to `usize` keeps the sign.
        let int = |value: T| value.as_usize() as i64;
        let (first, window) = (self.first, &self.window[..]);
        known_codes(values, out, |value| {
            let at = usize::try_from(int(value).wrapping_sub(first) as u64).ok()?;
            window.get(at).copied()
        });
        other_codes(values, nulls, out, |value| self.code(int(value), next))
    }

    fn other_code(&mut self, value: i64, next: &mut NextCode) -> Result<u32, TooManyValues> {
        if self.place(value).is_none() && !self.widen(value) {
            return self.far.code(value, next);
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

    /// Makes the window contain a value outside it, which doubles it if there is space. False: it would be too wide.
    fn widen(&mut self, value: i64) -> bool {
        if self.window.is_empty() {
            (self.first, self.window) = (value, vec![0]);
            return true;
        }
        let (value, old_first, rows) = (i128::from(value), i128::from(self.first), self.window.len() as i128);
        let old_end = old_first + rows;
        let (first, end) = match value < old_first {
            true => (value.min(old_first - rows).max(old_end - MAX_WINDOW), old_end),
            false => (old_first, (value + 1).max(old_end + rows).min(old_first + MAX_WINDOW)),
        };
        let (first, end) = (first.max(i64::MIN.into()), end.min(i128::from(i64::MAX) + 1));
        if !(first..end).contains(&value) {
            return false;
        }
        let before = (old_first - first) as usize;
        let mut window = vec![0; (end - first) as usize];
        window[before..before + self.window.len()].copy_from_slice(&self.window);
        (self.first, self.window) = (first as i64, window);
        for (far, code) in self.far.0.extract_if(|far, _| (first..end).contains(&i128::from(*far))) {
            self.window[(i128::from(far) - first) as usize] = code;
        }
        true
    }

    /// Bytes of memory.
    pub(super) fn size(&self) -> usize {
        self.window.capacity() * size_of::<u32>() + self.far.size()
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

/// Appends the codes of values that have come up, and 0 for others: a loop without calls and errors.
pub(super) fn known_codes<T: Copy>(values: &[T], out: &mut Vec<u32>, known: impl Fn(T) -> Option<u32>) {
    out.extend(values.iter().map(|value| known(*value).unwrap_or(NULL_CODE)));
}

/// Completes what [`known_codes`] has made: values without a code get `code`'s, and NULL the code 0.
pub(super) fn other_codes<T: Copy>(
    values: &[T],
    nulls: Option<&NullBuffer>,
    codes: &mut [u32],
    mut code: impl FnMut(T) -> Result<u32, TooManyValues>,
) -> Result<(), TooManyValues> {
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        None if !codes.contains(&NULL_CODE) => {}
        None => {
            for (found, value) in codes.iter_mut().zip(values).filter(|(found, _)| **found == NULL_CODE) {
                *found = code(*value)?;
            }
        }
        Some(nulls) => {
            for null in (!nulls.inner()).set_indices() {
                codes[null] = NULL_CODE;
            }
            let zeros = codes.iter().filter(|code| **code == NULL_CODE).count();
            if zeros == nulls.null_count() {
                return Ok(());
            }
            for ((found, value), is_valid) in codes.iter_mut().zip(values).zip(nulls) {
                if is_valid && *found == NULL_CODE {
                    *found = code(*value)?;
                }
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
        assert_eq!(codes.far.0.len(), 3);
        // A window at the ends of the numbers.
        let (mut codes, mut next) = (IntCodes::default(), NextCode::default());
        for value in [i64::MAX, i64::MAX - 1, i64::MAX, i64::MAX - 9] {
            codes.code(value, &mut next).unwrap();
        }
        assert_eq!((next.end(), codes.window.len()), (4, 10));
        assert!(codes.far.0.is_empty());
        // Values far from a window that grows to them later.
        let (mut codes, mut next) = (IntCodes::default(), NextCode::default());
        let values = [0, 65_536, 40_000, -20_000, 65_535, -1, 65_536, -20_000, 40_000, 65_535];
        let of: Vec<u32> = values.iter().map(|v| codes.code(*v, &mut next).unwrap()).collect();
        assert_eq!(of, [1, 2, 3, 4, 5, 6, 2, 4, 3, 5]);
        assert_eq!(codes.window.len() as i128, MAX_WINDOW);
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
