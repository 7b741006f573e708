//! `Output`: a program's partial aggregates, with what they cost.

use std::time::Duration;

use crate::program::Type;

/// A column of results.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultColumn {
    /// Type of its values; a decimal may have 38 digits.
    pub ty: Type,
    /// The values, by group.
    pub values: ResultValues,
    /// By group: whether it is there. `None`: all are.
    pub valid: Option<Vec<bool>>,
}

/// Values of a result.
#[derive(Debug, Clone, PartialEq)]
pub enum ResultValues {
    /// Booleans, integers, dates, timestamps, codes.
    Int(Vec<i64>),
    /// Floats.
    Float(Vec<f64>),
    /// Unscaled decimals.
    Decimal(Vec<i128>),
}

/// Partial aggregates: a group may appear more than once, and is then to be merged.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Groups; 1 without keys.
    pub groups: usize,
    /// By position in [`Program::keys`](crate::program::Program::keys).
    pub keys: Vec<ResultColumn>,
    /// By position in [`Program::aggregates`](crate::program::Program::aggregates).
    pub aggregates: Vec<ResultColumn>,
    /// What it cost.
    pub cost: Cost,
}

/// Time and bytes of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cost {
    /// Text to machine code; nothing if it was at hand.
    pub compile: Duration,
    /// Mapping and registering files.
    pub register: Duration,
    /// Decoding on the CPU, summed over threads.
    pub decode: Duration,
    /// Decoding on the device: from the start of the kernels that decode to their end.
    pub device_decode: Duration,
    /// Gathering pages that kernels missed, summed over threads.
    pub gather: Duration,
    /// From the first launch or copy until the results were there.
    pub scan: Duration,
    /// Of that, from the first kernel's start to the last one's end; nothing where the device cannot tell.
    pub kernel: Duration,
    /// Bytes that the copy engine brought.
    pub pushed_bytes: u64,
    /// Bytes that kernels loaded from registered mappings.
    pub mapped_bytes: u64,
    /// Bytes of commands.
    pub command_bytes: u64,
    /// Commands.
    pub commands: u64,
    /// Bytes of pages of raw values that threads gathered.
    pub page_bytes: u64,
    /// Pages that kernels missed and got, row groups included.
    pub pages: u64,
    /// How many times the kernels went over the rows.
    pub passes: u64,
    /// Bytes of columns that were on the device already.
    pub resident_bytes: u64,
    /// Predicate columns whole, dependent columns at the selected rows.
    pub needed_bytes: u64,
    /// Rows looked at.
    pub rows: u64,
    /// Rows that passed.
    pub passed: u64,
}

impl Cost {
    /// Bytes that crossed from storage or host memory.
    pub fn moved_bytes(&self) -> u64 {
        self.pushed_bytes + self.mapped_bytes + self.command_bytes + self.page_bytes
    }
}
