//! `QueryHead`: the head of a query kernel's only parameter. Descriptions of the columns follow (mirror of
//! device/query.h).
//!
//! The host fills the parameter for every launch. All pointers are to device memory:
//!
//! - `runs`: the selected rows of each stripe in order. A run of `r` rows takes `r.div_ceil(tile_rows)` tiles
//!   ([`row_runs`]).
//! - `first_tile`, `end_tile`: the launches of a query take all tiles, each once, ascending. All launches have the same
//!   number of warps, and warp w of W takes the tiles that are w modulo W. Therefore no division into launches changes
//!   the work of a warp.
//! - `arguments`: [`argument_bits`] of each literal.
//! - `state`: [`Sizes::state_bytes`] for each warp, needs no initialisation. Null is allowed if the only launch is
//!   first and last.
//! - `partials`: [`Sizes::partial_bytes`] for each warp, written by the last launch, needs no initialisation.
//! - `counters`: [`Sizes::counters`] words for each warp, zero before the first launch.
//! - `refused`: zero before the first launch. If it is not zero after a launch, see [`Refusal`].
//! - `group_slots`, `group_count`: `1 << group_slots_log2` words and a count, zero before the first launch. Null
//!   without keys.
//! - `group_words`: [`Sizes::group_words`] words for each of `group_capacity` groups, needs no initialisation. The
//!   groups are those below the count, each once. There are more slots than groups, so that a search ends.
//!
//! A kernel with group tables by code has a [`GroupCodes`] and the [`KeyCodes`] of its keys behind the columns.
//! `partials` and `merged` need no initialisation. After the last launch, the module's second kernel combines the
//! partials to `merged`.
#![allow(missing_docs)] // fields are documented where they are declared first: in device/query.h

use grampus_io_stack::abi::{Bytes as _, ColumnDesc, IoStack, bytes_of};

use crate::abi::paging::PagingDesc;
use crate::program::Value;

grampus_io_stack::shared_structs! {
    RowRun { first_tile: u64, first_row: u64, rows: u64 }
    #[repr(align(16))]
    QueryHead {
        io: IoStack, runs: u64, first_tile: u64, end_tile: u64, arguments: u64, state: u64, partials: u64,
        counters: u64, refused: u64, group_slots: u64, group_words: u64, group_count: u64, group_capacity: u32,
        group_slots_log2: u32, run_count: u32, flags: u32, patience: u32, pad0: u32,
    }
    KeyCodes { first: u64, codes: u32, step: u32 }
    #[repr(align(16))]
    GroupCodes { partials: u64, merged: u64, groups: u32, partial_count: u32, pad0: u64 }
}

/// [`QueryHead::flags`]: the first launch of a query.
pub const LAUNCH_FIRST: u32 = 1;
/// [`QueryHead::flags`]: rows that passed are processed before the launch ends, not kept for the next launch.
///
/// Needed if device memory of earlier rows is reused between launches. Sums of floats are then only as repeatable as
/// the division into launches.
pub const LAUNCH_FLUSH: u32 = 2;
/// [`QueryHead::flags`]: the last launch of a query.
pub const LAUNCH_LAST: u32 = 4;

/// [`QueryHead::patience`]: rows that passed wait until they fill a warp.
pub const PATIENCE_ENDLESS: u32 = u32::MAX;

/// Memory that a query needs beside its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Rows of a tile.
    pub tile_rows: u32,
    /// Bytes of state for each warp, a multiple of 16.
    pub state_bytes: usize,
    /// Bytes of partials for each warp, a multiple of 16.
    pub partial_bytes: usize,
    /// 8-byte counters for each warp.
    pub counters: usize,
    /// 8-byte words for each group of the group table. 0: the kernel has no group table.
    pub group_words: usize,
}

/// Reasons for which a kernel sets [`QueryHead::refused`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A value out of a cast's range, or a division by zero. The CPU plan gives the exact error.
    Value,
    /// The group table is full, and the results are lost.
    Groups,
}

impl Refusal {
    /// The refusal that the word stands for. `None`: the kernel did not refuse.
    pub fn of(word: u32) -> Option<Self> {
        match word {
            0 => None,
            2 => Some(Self::Groups),
            _ => Some(Self::Value),
        }
    }
}

/// What stands behind the columns in a kernel's parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tail {
    /// A [`PagingDesc`]: some columns may be partially resident.
    pub is_paged: bool,
    /// A [`GroupCodes`], and [`KeyCodes`] for so many keys, unless it is 0.
    pub coded_keys: usize,
}

/// Bytes of the parameter of a kernel with `columns` columns.
pub fn parameter_bytes(columns: usize, tail: Tail) -> usize {
    let paging = if tail.is_paged { size_of::<PagingDesc>() } else { 0 };
    let codes = match tail.coded_keys {
        0 => 0,
        keys => size_of::<GroupCodes>() + keys * size_of::<KeyCodes>(),
    };
    size_of::<QueryHead>() + 2 * columns.max(1) * size_of::<ColumnDesc>() + paging + codes
}

/// The parameter.
///
/// `valid` has a description for each column that the kernel's shape calls nullable, and `None` for the others.
/// `paging` is given for kernels with paged columns, `codes` for kernels with group tables by code.
pub fn parameter(
    head: &QueryHead,
    columns: &[ColumnDesc],
    valid: &[Option<ColumnDesc>],
    paging: Option<&PagingDesc>,
    codes: Option<(&GroupCodes, &[KeyCodes])>,
) -> Vec<u8> {
    assert_eq!(columns.len(), valid.len(), "one each for every column");
    let mut out = vec![0; parameter_bytes(columns.len(), Tail::default())];
    let (to_head, to_columns) = out.split_at_mut(size_of::<QueryHead>());
    head.write_to(to_head);
    let (to_values, to_valid) = to_columns.split_at_mut(columns.len().max(1) * size_of::<ColumnDesc>());
    for (desc, to) in columns.iter().zip(to_values.chunks_exact_mut(size_of::<ColumnDesc>())) {
        desc.write_to(to);
    }
    for (desc, to) in valid.iter().zip(to_valid.chunks_exact_mut(size_of::<ColumnDesc>())) {
        desc.unwrap_or_default().write_to(to);
    }
    out.extend(paging.iter().flat_map(|desc| bytes_of(*desc)));
    if let Some((groups, keys)) = codes {
        out.extend(bytes_of(groups));
        out.extend(keys.iter().flat_map(bytes_of));
    }
    out
}

/// Runs of `(first row, rows)` with the number of their first tile, and the number of all tiles. Empty runs are left
/// out.
pub fn row_runs(rows: impl IntoIterator<Item = (u64, u64)>, tile_rows: u32) -> (Vec<RowRun>, u64) {
    let mut tiles = 0;
    let mut runs = Vec::new();
    for (first_row, rows) in rows.into_iter().filter(|&(_, rows)| rows > 0) {
        runs.push(RowRun {
            first_tile: tiles,
            first_row,
            rows,
        });
        tiles += rows.div_ceil(u64::from(tile_rows));
    }
    (runs, tiles)
}

/// A literal as kernels read it: integers and booleans sign-extended, floats as doubles.
pub fn argument_bits(value: Value) -> u64 {
    match value {
        Value::Bool(value) => u64::from(value),
        Value::Int(value) => value as u64,
        Value::Float(value) => value.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_its_head_and_its_columns() {
        let head = QueryHead {
            end_tile: 0x0102_0304,
            flags: LAUNCH_FIRST | LAUNCH_LAST,
            ..QueryHead::default()
        };
        let column = ColumnDesc {
            extents: 7,
            extent_count: 1,
            value_bytes: 8,
        };
        let bytes = parameter(
            &head,
            &[ColumnDesc::default(), column],
            &[Some(column), None],
            None,
            None,
        );
        assert_eq!(bytes.len(), size_of::<QueryHead>() + 4 * 16);
        let at = std::mem::offset_of!(QueryHead, end_tile);
        assert_eq!(bytes[at..at + 8], 0x0102_0304u64.to_le_bytes());
        let columns = &bytes[size_of::<QueryHead>()..];
        assert_eq!(columns[..16], [0; 16]);
        assert_eq!(columns[16..24], 7u64.to_le_bytes());
        assert_eq!(columns[32..48], columns[16..32]);
        assert_eq!(columns[48..], [0; 16]);
    }

    #[test]
    fn tiles_never_cross_runs() {
        let (runs, tiles) = row_runs([(0, 5), (10, 0), (16, 8), (40, 1)], 4);
        let read: Vec<_> = runs.iter().map(|r| (r.first_tile, r.first_row, r.rows)).collect();
        assert_eq!(read, [(0, 0, 5), (2, 16, 8), (4, 40, 1)]);
        assert_eq!(tiles, 5);
    }
}
