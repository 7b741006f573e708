//! [`Bound`] of a string column: a value, or a cut prefix.

use crate::proto;

/// Longest string bound that is written. A longer one is cut and is then a bound but no value.
pub(super) const MAX_BOUND_BYTES: usize = 1024;

/// A string bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) text: String,
    /// The bound is a value of the column.
    exact: bool,
}

impl Bound {
    /// `text`, or its first characters.
    pub(super) fn lower(text: &str) -> Self {
        if text.len() <= MAX_BOUND_BYTES {
            return Self {
                text: text.to_owned(),
                exact: true,
            };
        }
        Self {
            text: text[..cut(text)].to_owned(),
            exact: false,
        }
    }

    /// `text`, or its first characters with the last raisable one raised; `text` unchanged if none can be raised.
    pub(super) fn upper(text: &str) -> Self {
        if text.len() <= MAX_BOUND_BYTES {
            return Self::lower(text);
        }
        let mut head = text[..cut(text)].to_owned();
        while let Some(last) = head.pop() {
            // The code points between the two planes of surrogates are no characters.
            let next = if last == '\u{d7ff}' {
                Some('\u{e000}')
            } else {
                char::from_u32(last as u32 + 1)
            };
            if let Some(next) = next {
                head.push(next);
                return Self {
                    text: head,
                    exact: false,
                };
            }
        }
        Self {
            text: text.to_owned(),
            exact: true,
        }
    }
}

/// Length of a cut text: up to the character that crosses the limit.
fn cut(text: &str) -> usize {
    let mut at = MAX_BOUND_BYTES;
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

pub(super) fn string_proto(bounds: Option<&(Bound, Bound)>, total: u64) -> proto::StringStatistics {
    let mut out = proto::StringStatistics {
        sum: i64::try_from(total).ok(),
        ..Default::default()
    };
    if let Some((lower, upper)) = bounds {
        let (text, place) = (
            lower.text.clone(),
            if lower.exact {
                &mut out.minimum
            } else {
                &mut out.lower_bound
            },
        );
        *place = Some(text);
        let (text, place) = (
            upper.text.clone(),
            if upper.exact {
                &mut out.maximum
            } else {
                &mut out.upper_bound
            },
        );
        *place = Some(text);
    }
    out
}

/// Of two equal bounds the exact one wins: values may lie beyond the cut one.
pub(super) fn merge_strings(bounds: &mut Option<(Bound, Bound)>, other: &Option<(Bound, Bound)>) {
    let Some((min, max)) = other else { return };
    match bounds {
        None => *bounds = Some((min.clone(), max.clone())),
        Some((lower, upper)) => {
            if (&min.text, !min.exact) < (&lower.text, !lower.exact) {
                *lower = min.clone();
            }
            if (&max.text, max.exact) > (&upper.text, upper.exact) {
                *upper = max.clone();
            }
        }
    }
}
