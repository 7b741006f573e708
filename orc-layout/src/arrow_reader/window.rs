//! [`Window`], selected rows of a stripe on their way through the predicates.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::filter;
use arrow::error::ArrowError;

use crate::selection::RowSelection;

/// Rows that are decoded at once.
#[derive(Debug)]
pub(super) struct Piece {
    /// The rows that passed so far, never none.
    pub(super) rows: RowSelection,
    /// Values of these rows by the column's position.
    pub(super) values: BTreeMap<usize, ArrayRef>,
}

impl Piece {
    /// Keeps the rows where `mask` is true, and of the values those of `kept` columns.
    pub(super) fn refine(&mut self, mask: &BooleanArray, kept: impl Fn(usize) -> bool) -> Result<(), ArrowError> {
        self.values.retain(|&position, _| kept(position));
        let rows = self.rows.refine(mask);
        if rows.rows() < self.rows.rows() {
            for values in self.values.values_mut() {
                *values = filter(values, mask)?;
            }
        }
        self.rows = rows;
        Ok(())
    }

    /// The first and the second half of at least two rows.
    pub(super) fn split(self) -> (Self, Self) {
        let (rows, half) = (self.rows.rows(), self.rows.rows() / 2);
        let part = |positions: Range<u64>| {
            let (start, length) = (positions.start as usize, (positions.end - positions.start) as usize);
            let slice = |(&position, values): (&usize, &ArrayRef)| (position, values.slice(start, length));
            Self {
                rows: self.rows.positions(positions),
                values: self.values.iter().map(slice).collect(),
            }
        };
        (part(0..half), part(half..rows))
    }
}

/// Selected rows of a stripe, in pieces, before the predicate `stage`.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) pieces: VecDeque<Piece>,
    /// Number of the next predicate; behind the last one, the output is read.
    pub(super) stage: usize,
    /// The caller knows which bytes the stage reads.
    pub(super) is_announced: bool,
}

impl Window {
    /// All rows of the pieces.
    pub(super) fn rows(&self) -> RowSelection {
        let mut rows = RowSelection::new();
        for range in self.pieces.iter().flat_map(|piece| piece.rows.ranges()) {
            rows.push(range.clone());
        }
        rows
    }

    /// Goes on to the next stage.
    pub(super) fn end_stage(&mut self) {
        self.pieces.retain(|piece| !piece.rows.is_empty());
        self.stage += 1;
        self.is_announced = false;
    }
}

/// The selected rows of a stripe that no window has taken.
#[derive(Debug)]
pub(super) struct RemainingRows {
    ranges: VecDeque<Range<u64>>,
}

impl RemainingRows {
    pub(super) fn new(rows: &RowSelection) -> Self {
        Self {
            ranges: rows.ranges().iter().cloned().collect(),
        }
    }

    /// Takes the next piece, of at most `rows` rows.
    pub(super) fn piece(&mut self, mut rows: u64) -> Option<Piece> {
        let mut taken = RowSelection::new();
        while rows > 0
            && let Some(range) = self.ranges.pop_front()
        {
            let end = range.end.min(range.start + rows);
            rows -= end - range.start;
            if end < range.end {
                self.ranges.push_front(end..range.end);
            }
            taken.push(range.start..end);
        }
        (!taken.is_empty()).then(|| Piece {
            rows: taken,
            values: BTreeMap::new(),
        })
    }
}
