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
    /// By group: whether the value is there; `None`: no value is NULL.
    pub valid: Option<Vec<bool>>,
}

impl ResultColumn {
    fn memory_bytes(&self) -> usize {
        let values = match &self.values {
            ResultValues::Int(values) => size_of_val(&values[..]),
            ResultValues::Float(values) => size_of_val(&values[..]),
            ResultValues::Decimal(values) => size_of_val(&values[..]),
            ResultValues::Moments(values) => size_of_val(&values[..]),
        };
        values + self.valid.as_ref().map_or(0, Vec::len)
    }
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
    /// Of [`Function::Moments`](crate::program::Function::Moments).
    Moments(Vec<Moments>),
}

/// Count and distribution of a group's values. Without values all are zero.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    /// Number of values.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Sum of the squares of their distances from the mean.
    pub squares: f64,
}

impl Moments {
    /// The moments of the values of both (Chan, Golub and LeVeque, *Updating Formulae and a Pairwise Algorithm for
    /// Computing Sample Variances*, 1979), as `merge` of device/aggregates.cuh.
    pub fn merge(self, other: Self) -> Self {
        match (self.count, other.count) {
            (_, 0) => self,
            (0, _) => other,
            (ours, theirs) => {
                let count = ours + theirs;
                let (delta, share) = (other.mean - self.mean, theirs as f64 / count as f64);
                Self {
                    count,
                    mean: self.mean + delta * share,
                    squares: self.squares + other.squares + delta * delta * (ours as f64 * share),
                }
            }
        }
    }
}

/// Partial aggregates, each group once. Keys are one if their bits are.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Groups; 1 without keys.
    pub groups: usize,
    /// By position in [`Program::keys`](crate::program::Program::keys).
    pub keys: Vec<ResultColumn>,
    /// By position in [`Program::aggregates`](crate::program::Program::aggregates).
    pub aggregates: Vec<ResultColumn>,
    /// Time and bytes of the run.
    pub cost: Cost,
}

impl Output {
    /// Bytes of memory that keys and aggregates take.
    pub fn memory_bytes(&self) -> usize {
        let columns = self.keys.iter().chain(&self.aggregates);
        columns.map(ResultColumn::memory_bytes).sum()
    }
}

/// Time and bytes of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cost {
    /// Source to machine code; zero if the kernel was loaded.
    pub compile: Duration,
    /// Mapping and registering files.
    pub register: Duration,
    /// Decoding on the CPU, summed over threads.
    pub decode: Duration,
    /// Decoding on the device: from the start of the decode kernels to their end.
    pub device_decode: Duration,
    /// Loading pages that kernels missed, summed over threads.
    pub gather: Duration,
    /// From the first launch or copy to the results.
    pub scan: Duration,
    /// Of that, from the first kernel's start to the last one's end; zero if the device cannot tell.
    pub kernel: Duration,
    /// Bytes that the copy engine uploaded.
    pub pushed_bytes: u64,
    /// Bytes that kernels loaded from registered mappings: modelled, not counted. A value fetched alone counts as the
    /// 32 bytes that one load moves; an unaligned value may move twice as much.
    pub mapped_bytes: u64,
    /// Bytes that commands read.
    pub command_bytes: u64,
    /// Commands.
    pub commands: u64,
    /// Bytes that threads read for raw pages, with the bytes between neighbours that are read along.
    pub page_bytes: u64,
    /// Pages that kernels missed, row groups included.
    pub pages: u64,
    /// Passes of the kernels over the rows.
    pub passes: u64,
    /// Bytes of columns that were resident before.
    pub resident_bytes: u64,
    /// Bytes of predicate columns at all rows, and of dependent columns at the selected rows.
    pub needed_bytes: u64,
    /// Rows that were tested.
    pub rows: u64,
    /// Rows that passed.
    pub passed: u64,
}

impl Cost {
    /// Bytes that crossed from storage or host memory: counted, but for the modelled `mapped_bytes`.
    pub fn moved_bytes(&self) -> u64 {
        self.pushed_bytes + self.mapped_bytes + self.command_bytes + self.page_bytes
    }
}
