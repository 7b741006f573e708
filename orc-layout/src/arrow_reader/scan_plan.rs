//! [`ScanPlan`], what a reader reads: stripes and rows, columns, predicates.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};

use super::filter::{ArrowPredicate, RowFilter};
use super::metadata::ArrowReaderMetadata;
use super::projection::ProjectionMask;
use crate::decode::MAX_READ_BYTES;
use crate::error::{LayoutError, Result};
use crate::selection::RowSelection;

/// A predicate and the columns that it sees.
pub(super) struct PlannedPredicate {
    pub(super) predicate: Box<dyn ArrowPredicate>,
    /// Positions of the columns, ascending.
    pub(super) columns: Vec<usize>,
    pub(super) schema: SchemaRef,
}

/// What a reader's builder was asked for.
#[derive(Debug, Default)]
pub(super) struct ScanRequest {
    pub(super) projection: Option<ProjectionMask>,
    pub(super) stripes: Option<Vec<usize>>,
    pub(super) selection: Option<RowSelection>,
    pub(super) filter: Option<RowFilter>,
    pub(super) batch_size: Option<usize>,
    pub(super) batch_bytes: Option<u64>,
    pub(super) offset: Option<usize>,
    pub(super) limit: Option<usize>,
}

/// What a reader reads.
pub(crate) struct ScanPlan {
    pub(super) metadata: ArrowReaderMetadata,
    /// Stripes with their selected rows; none of the selections is empty.
    pub(super) stripes: VecDeque<(usize, RowSelection)>,
    pub(super) predicates: Vec<PlannedPredicate>,
    /// Positions of the columns in the batches, ascending.
    pub(super) output: Vec<usize>,
    pub(super) schema: SchemaRef,
    pub(super) batch_size: usize,
    /// Bytes that are decoded at once, about.
    pub(super) batch_bytes: u64,
    /// Rows that are dropped after the filter.
    pub(super) offset: u64,
    /// Most rows after the filter.
    pub(super) limit: u64,
}

impl std::fmt::Debug for ScanPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScanPlan")
            .field("stripes", &self.stripes)
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

/// Rows that are decoded at once. Smaller batches are cut from them; larger ones are joined, so that one read allocates
/// little for the claims of a corrupt file.
const MIN_PIECE_ROWS: u64 = 1024;
const MAX_PIECE_ROWS: u64 = 64 * 1024;

/// Bytes of a value of a type without a fixed width: offsets and validity.
const UNKNOWN_WIDTH_BYTES: usize = 8;

/// Rows of a batch unless the builder sets another number.
const DEFAULT_BATCH_ROWS: usize = 1024;

impl ScanPlan {
    /// The plan of a request.
    ///
    /// # Errors
    /// `InvalidRequest` for stripes, columns or rows that the file does not have, and for batches without rows.
    pub(super) fn new(metadata: ArrowReaderMetadata, request: ScanRequest) -> Result<Self> {
        let refuse = |reason: String| LayoutError::invalid_request(&metadata.metadata().file, reason);
        let count = metadata.columns().len();
        let positions = |mask: &ProjectionMask| {
            mask.positions(count)
                .map_err(|position| refuse(format!("column {position} is wanted of {count} columns")))
        };
        let schema_of = |positions: &[usize]| -> SchemaRef {
            let fields: Vec<_> = positions
                .iter()
                .map(|&at| metadata.columns()[at].field.clone())
                .collect();
            Arc::new(Schema::new(fields).with_metadata(metadata.schema().metadata().clone()))
        };
        let batch_size = request.batch_size.unwrap_or(DEFAULT_BATCH_ROWS);
        if batch_size == 0 {
            return Err(refuse("a batch needs at least one row".into()));
        }
        let output = positions(&request.projection.unwrap_or_else(ProjectionMask::all))?;
        let filter = request.filter.unwrap_or_else(|| RowFilter::new(Vec::new()));
        let mut predicates = Vec::with_capacity(filter.predicates.len());
        for predicate in filter.predicates {
            let columns = positions(predicate.projection())?;
            let schema = schema_of(&columns);
            predicates.push(PlannedPredicate {
                predicate,
                columns,
                schema,
            });
        }
        let (mut offset, mut limit) = (
            request.offset.unwrap_or(0) as u64,
            request.limit.map_or(u64::MAX, |l| l as u64),
        );
        let stripes = chosen_stripes(&metadata, request.stripes)?;
        let mut sizes = stripes.iter().map(|&stripe| metadata.metadata().stripes[stripe].rows);
        let rows = sizes.try_fold(0u64, u64::checked_add);
        let rows = rows.ok_or_else(|| refuse("the chosen stripes have more than 2^64 rows".into()))?;
        let mut selection = request.selection.unwrap_or_else(|| RowSelection::range(0..rows));
        if let Some(last) = selection.ranges().last()
            && last.end > rows
        {
            return Err(refuse(format!("row {} is selected of {rows} rows", last.end - 1)));
        }
        if predicates.is_empty() {
            selection = selection.offset(std::mem::take(&mut offset)).limit(limit);
            limit = u64::MAX;
        }
        let mut first = 0;
        let mut planned = VecDeque::new();
        for stripe in stripes {
            let end = first + metadata.metadata().stripes[stripe].rows;
            let rows = selection.within(first..end);
            if !rows.is_empty() {
                planned.push_back((stripe, rows));
            }
            first = end;
        }
        Ok(Self {
            schema: schema_of(&output),
            stripes: planned,
            predicates,
            output,
            batch_size,
            batch_bytes: request.batch_bytes.unwrap_or(MAX_READ_BYTES).min(MAX_READ_BYTES),
            offset,
            limit,
            metadata,
        })
    }

    /// Rows that may be decoded at once: as many as a batch has, but fewer of wide tables.
    pub(super) fn piece_rows(&self) -> u64 {
        let width = |(at, _): (usize, bool)| {
            let data_type = self.metadata.columns()[at].field.data_type();
            data_type.primitive_width().unwrap_or(UNKNOWN_WIDTH_BYTES) as u64
        };
        let row_bytes = self.columns().into_iter().map(width).sum::<u64>().max(1);
        let rows = (self.batch_size as u64).clamp(MIN_PIECE_ROWS, MAX_PIECE_ROWS);
        rows.min(self.batch_bytes / row_bytes).max(1)
    }

    /// The positions of all columns that are read, and whether the first predicate, or the output of a scan without
    /// predicates, reads the column for all selected rows.
    pub(super) fn columns(&self) -> Vec<(usize, bool)> {
        let first = self.predicates.first().map_or(&self.output, |first| &first.columns);
        let others = self.predicates.iter().flat_map(|predicate| &predicate.columns);
        let all: BTreeSet<usize> = others.chain(&self.output).copied().collect();
        all.into_iter()
            .map(|at| (at, first.binary_search(&at).is_ok()))
            .collect()
    }
}

fn chosen_stripes(metadata: &ArrowReaderMetadata, wanted: Option<Vec<usize>>) -> Result<Vec<usize>> {
    let tail = metadata.metadata();
    let count = tail.stripes.len();
    let stripes = wanted.unwrap_or_else(|| (0..count).collect());
    match stripes.iter().find(|&&stripe| stripe >= count) {
        Some(stripe) => {
            let reason = format!("stripe {stripe} is wanted of {count} stripes");
            Err(LayoutError::invalid_request(&tail.file, reason))
        }
        None => Ok(stripes),
    }
}
