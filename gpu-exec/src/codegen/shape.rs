//! `Shape`: inputs of a kernel's generation beside the program. It has the access to each column's bytes, and the kind
//! of grouping.

/// Ways of a kernel to read a column's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Loads from device memory or registered host memory, at the address in `Extent::mapped`.
    Plain,
    /// Loads from partially resident device memory. Missing pages are requested, and their rows are left to a replay.
    /// Not for columns that are read in tiles.
    Paged,
    /// NVMe commands, through the sector cache.
    Queued,
}

impl Access {
    /// Whether the column has addresses to load from.
    pub(super) fn by_loads(self) -> bool {
        self != Self::Queued
    }
}

/// Properties of a column that a kernel's source depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnShape {
    /// Way to read the column's bytes.
    pub access: Access,
    /// Every extent's values begin at a multiple of their size.
    pub aligned: bool,
    /// The bytes are in device memory. Held rows then fetch the value again, which costs next to nothing. To carry the
    /// value in the ring would cost the loop over tiles registers.
    pub on_device: bool,
    /// The column has an array of one bit per row that marks the rows with a value. The array is read by loads.
    pub nullable: bool,
}

/// Places of a query's aggregates while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Grouping {
    /// Registers of each lane, for queries without keys.
    Ungrouped,
    /// A warp's shared memory for the first few groups that the warp meets, summed in a fixed order. The group table
    /// has all others.
    Private,
    /// The group table in device memory, updated by atomics. Sums of floats are not bitwise repeatable.
    Global,
    /// Tables by the code of a group's keys, in shared memory, for dense kernels. The group table has the rows whose
    /// keys have no code.
    Coded(TableScope),
}

/// Owners of a group table by code. Narrower owners contend less, and have space for fewer groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TableScope {
    /// Each lane has a table. Sums of floats are repeatable.
    Lane,
    /// Each warp has a table; its lanes' values are combined first. Sums of floats are repeatable.
    Warp,
    /// Each block has a table, updated by atomics. Sums of floats are not repeatable.
    Block,
}

/// Inputs of a kernel's generation beside the program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    /// By position in [`Program::columns`](crate::program::Program::columns).
    pub columns: Vec<ColumnShape>,
    /// Place of the aggregates.
    pub grouping: Grouping,
    /// All columns are read in tiles, and rows that pass are added to their groups at once. Pays if many rows pass.
    pub dense: bool,
}
