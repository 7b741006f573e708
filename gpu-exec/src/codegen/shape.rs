//! `Shape`: what a kernel depends on beside the program: how it comes to each column's bytes, and how it groups.

/// How kernels come to a column's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// By loads, from device memory or registered host memory: `Extent::mapped` says where.
    Plain,
    /// By loads from device memory in which only some pages are there: the others are asked for, and their rows left to another pass.
    /// Not for columns that are read in tiles.
    Paged,
    /// Through the sector cache, by commands.
    Queued,
}

impl Access {
    /// There are addresses to load from.
    pub(super) fn by_loads(self) -> bool {
        self != Self::Queued
    }
}

/// What a kernel has to know of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnShape {
    /// How its bytes are come to.
    pub access: Access,
    /// Every extent's values start at a multiple of their size.
    pub aligned: bool,
    /// Its bytes are in device memory: rows that wait have a value fetched again, which costs next to nothing, where to take it along
    /// would cost the loop over tiles registers.
    pub on_device: bool,
    /// It has an array of one byte per row that says which values are there (by loads).
    pub nullable: bool,
}

/// Where aggregates are kept while a query runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Grouping {
    /// In each lane's registers: there are no keys.
    Ungrouped,
    /// The first few groups that a warp meets in its shared memory, summed in a fixed order; all others in the group table.
    Private,
    /// In the group table in device memory, by atomics. Sums of floats are not bitwise repeatable.
    Global,
}

/// What beside the program a kernel depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    /// By position in [`Program::columns`](crate::program::Program::columns).
    pub columns: Vec<ColumnShape>,
    /// Where aggregates are kept.
    pub grouping: Grouping,
}
