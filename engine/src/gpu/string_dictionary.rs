//! Strings as numbers: a kernel compares and groups strings by code alone. The session keeps one dictionary, so that what lies on
//! the device from one query means the same in the next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, StringArray};

/// Bytes of different strings that a session keeps at most.
const MAX_BYTES: usize = 256 << 20;
/// Different strings that a session keeps at most.
const MAX_STRINGS: usize = 16 << 20;

/// There are too many different strings for codes to be of use: the CPU is to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the columns hold too many different strings for the GPU to number them")]
pub(crate) struct DictionaryFull;

/// The strings that were met, in the order of their codes. Codes never change.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    codes: HashMap<Arc<str>, u32>,
    strings: Vec<Arc<str>>,
    bytes: usize,
}

impl Known {
    fn code(&mut self, text: &str) -> Result<u32, DictionaryFull> {
        if let Some(&code) = self.codes.get(text) {
            return Ok(code);
        }
        if self.strings.len() >= MAX_STRINGS || self.bytes + text.len() > MAX_BYTES {
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

impl Dictionary {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // A string is entered in one step; a panic elsewhere leaves nothing half done that matters.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The code of `text`.
    pub(crate) fn code(&self, text: &str) -> Result<u32, DictionaryFull> {
        self.lock().code(text)
    }

    /// The codes of `texts`, zero where one is missing.
    pub(crate) fn codes(&self, texts: &StringArray) -> Result<Vec<u32>, DictionaryFull> {
        // Strings repeat: the lock is taken for those that this call meets for the first time only.
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

    /// The strings of `codes`, `None` for a code that was never given out.
    pub(crate) fn strings(&self, codes: &[i64]) -> Option<Vec<Arc<str>>> {
        let known = self.lock();
        let string = |&code: &i64| known.strings.get(usize::try_from(code).ok()?).cloned();
        codes.iter().map(string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_stay_and_lead_back() {
        let dictionary = Dictionary::default();
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
