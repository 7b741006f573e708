//! [`Budget`]: the bytes that one read may decode beyond the fixed width of its rows.
//!
//! Lengths are read before what they measure, so text and list elements are counted before they are allocated.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::DataType;

/// What is left of a read's limit. The decoders of a column share it.
#[derive(Debug, Default)]
pub(super) struct Budget {
    limit: AtomicU64,
    left: AtomicU64,
}

impl Budget {
    /// Starts a read of at most `limit` bytes.
    pub(super) fn start(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.left.store(limit, Ordering::Relaxed);
    }

    /// Takes `bytes`. False if they are not left.
    pub(super) fn spend(&self, bytes: u64) -> bool {
        let left = self.left.load(Ordering::Relaxed).checked_sub(bytes);
        self.left.store(left.unwrap_or(0), Ordering::Relaxed);
        left.is_some()
    }

    /// The limit of the running read.
    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }
}

/// Bytes per value of an Arrow type, without the text and the elements that its values refer to.
pub(super) fn fixed_bytes(data_type: &DataType) -> u64 {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| fixed_bytes(field.data_type())).sum(),
        DataType::Union(fields, _) => {
            1 + fields
                .iter()
                .map(|(_, field)| fixed_bytes(field.data_type()))
                .sum::<u64>()
        }
        DataType::Boolean => 1,
        DataType::List(_) | DataType::Map(..) | DataType::Utf8 | DataType::Binary => 4,
        other => other.primitive_width().unwrap_or(8) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_spent_once() {
        let budget = Budget::default();
        assert!(!budget.spend(1));
        budget.start(10);
        assert!(budget.spend(4) && budget.spend(6) && !budget.spend(1));
        budget.start(10);
        assert!(!budget.spend(11) && !budget.spend(1));
        assert_eq!(budget.limit(), 10);
    }
}
