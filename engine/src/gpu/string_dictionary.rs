//! [`StringDictionary`]: strings as codes. Kernels compare and group strings by code alone.
//!
//! A session has one dictionary at a time. When it is full, the session begins a new one, and columns of codes of the
//! old one are loaded again: cached columns are keyed by the dictionary's number. The strings of a dictionary are freed
//! with the last query that uses it.
//!
//! **Invariant:** a code never changes its meaning within a dictionary, and each run of a query uses one dictionary.
//!
//! **Invariant:** planning enters no string. Literals and constants are entered by the run of a query on the GPU.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, StringArray};

/// Maximum total length of the different strings of a dictionary.
const MAX_BYTES: usize = 256 << 20;
/// Maximum number of different strings of a dictionary.
const MAX_STRINGS: usize = 16 << 20;

/// There are too many different strings: the query begins a new dictionary, or falls back to the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the columns hold too many different strings for the GPU to number them")]
pub(crate) struct DictionaryFull;

/// Bounds of a dictionary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DictionaryLimits {
    /// Total length of the different strings.
    pub(crate) bytes: usize,
    /// Number of different strings.
    pub(crate) strings: usize,
}

impl Default for DictionaryLimits {
    fn default() -> Self {
        Self {
            bytes: MAX_BYTES,
            strings: MAX_STRINGS,
        }
    }
}

/// Strings and their codes.
#[derive(Debug, Default)]
pub(crate) struct StringDictionary {
    /// The dictionary's number in its session.
    number: u64,
    limits: DictionaryLimits,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    codes: HashMap<Arc<str>, u32>,
    /// By code.
    strings: Vec<Arc<str>>,
    /// Total length of `strings`.
    bytes: usize,
}

impl Entries {
    fn code(&mut self, text: &str, limits: DictionaryLimits) -> Result<u32, DictionaryFull> {
        if let Some(&code) = self.codes.get(text) {
            return Ok(code);
        }
        if self.strings.len() >= limits.strings || self.bytes + text.len() > limits.bytes {
            return Err(DictionaryFull);
        }
        let code = self.strings.len() as u32;
        let text: Arc<str> = text.into();
        self.bytes += text.len();
        self.strings.push(Arc::clone(&text));
        self.codes.insert(text, code);
        Ok(code)
    }
}

impl StringDictionary {
    /// An empty dictionary.
    pub(crate) fn new(number: u64, limits: DictionaryLimits) -> Self {
        Self {
            number,
            limits,
            entries: Mutex::default(),
        }
    }

    /// The dictionary's number in its session. Cached columns of codes are keyed by it.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The bounds.
    pub(crate) fn limits(&self) -> DictionaryLimits {
        self.limits
    }

    /// Number of strings.
    pub(crate) fn len(&self) -> usize {
        self.lock().strings.len()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // A string is entered in one step, so a panic under the lock leaves the entries usable.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The code of `text`.
    pub(crate) fn code(&self, text: &str) -> Result<u32, DictionaryFull> {
        self.lock().code(text, self.limits)
    }

    /// The codes of `texts`; zero for NULL.
    pub(crate) fn codes(&self, texts: &StringArray) -> Result<Vec<u32>, DictionaryFull> {
        // Strings repeat. The call takes the lock once for each different string.
        let mut met: HashMap<&str, u32> = HashMap::new();
        let mut codes = Vec::with_capacity(texts.len());
        let mut last: Option<(&str, u32)> = None;
        for text in texts {
            let Some(text) = text else {
                codes.push(0);
                continue;
            };
            let code = match last.filter(|(known, _)| *known == text) {
                Some((_, code)) => code,
                None => match met.get(text) {
                    Some(&code) => code,
                    None => {
                        let code = self.code(text)?;
                        met.insert(text, code);
                        code
                    }
                },
            };
            last = Some((text, code));
            codes.push(code);
        }
        Ok(codes)
    }

    /// The strings of `codes`; `None` if one of the codes was never assigned.
    pub(crate) fn strings(&self, codes: &[i64]) -> Option<Vec<Arc<str>>> {
        let entries = self.lock();
        let string = |&code: &i64| entries.strings.get(usize::try_from(code).ok()?).cloned();
        codes.iter().map(string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionary_codes_are_stable_and_reversible() {
        let dictionary = StringDictionary::default();
        let green = dictionary.code("green").unwrap();
        let texts = StringArray::from(vec![Some("yellow"), None, Some("green"), Some("yellow"), Some("")]);
        let codes = dictionary.codes(&texts).unwrap();
        assert_eq!(codes[2], green);
        assert_eq!(codes[0], codes[3]);
        assert_ne!(codes[0], codes[4]);
        let back = dictionary.strings(&[i64::from(codes[0]), i64::from(codes[4])]).unwrap();
        assert_eq!(back.iter().map(AsRef::as_ref).collect::<Vec<_>>(), ["yellow", ""]);
        assert_eq!(dictionary.strings(&[99]), None);
        assert_eq!(dictionary.strings(&[-1]), None);
    }
}
