//! [`StoreError`]: why a place in an object store cannot be used, and what to do.

use std::error::Error;
use std::fmt;

/// The reason, with the URL as the user named it.
#[derive(Debug)]
pub struct StoreError {
    /// The URL of the store or of the object, without a password.
    pub url: String,
    /// The reason.
    pub reason: String,
    /// The variable, option or place to change.
    pub advice: Option<String>,
    /// True if no answer came, so that a second request would wait as long.
    pub is_unreachable: bool,
    /// The library's error.
    pub cause: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// The error of a URL, with advice.
    pub(crate) fn new(url: impl Into<String>, reason: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            reason: reason.into(),
            advice: Some(advice.into()),
            is_unreachable: false,
            cause: None,
        }
    }

    /// The first error of this type in a chain of causes.
    pub fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref::<Self>() {
                return Some(found);
            }
            next = error.source();
        }
        None
    }

    /// The reason and the advice, for a message that names the object itself.
    pub(crate) fn reason_with_advice(&self) -> String {
        match &self.advice {
            Some(advice) => format!("{}; {advice}", self.reason),
            None => self.reason.clone(),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.url, self.reason_with_advice())
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }
}

/// The reason of a store's failed request, for a message that names the object.
pub(crate) fn reason(error: &object_store::Error) -> String {
    match StoreError::find(error) {
        Some(found) => found.reason_with_advice(),
        None => error.to_string(),
    }
}
