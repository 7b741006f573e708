//! [`Scan`], the one implementation of reading: which bytes are needed next, and which batches they become.
//!
//! A scan reads through a [`ByteSource`], stripe after stripe:
//!
//! 1. the footer of a stripe with selected rows;
//! 2. the row index of columns of which not all rows are read;
//! 3. for each window of rows: the columns of the first predicate; those of the next ones and of the output for the
//!    rows that passed.
//!
//! A scan *ahead* stops before each of these reads and tells its ranges ([`Progress::Fetch`]), so that an asynchronous
//! caller fetches them together. Its window is a stripe. Other scans read from their source as they decode; their
//! windows are small, and values that predicates saw are not read again for the output.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use super::batch_queue::BatchQueue;
use super::scan_plan::ScanPlan;
use super::stripe_columns::StripeColumns;
use super::window::{Piece, RemainingRows, Window};
use crate::error::{LayoutError, Result};
use crate::selection::RowSelection;
use crate::source::ByteSource;
use crate::stripe::StripeLayout;

/// The next event of a scan.
#[derive(Debug)]
pub(crate) enum Progress {
    /// The scan reads these ranges next, besides those it told of before in the stripe.
    Fetch(#[cfg_attr(not(feature = "async"), allow(dead_code))] Vec<Range<u64>>),
    /// Rows.
    Batch(RecordBatch),
    /// There are no more rows.
    Done,
}

/// State of the scan.
enum State {
    /// Before the next stripe.
    Between,
    /// The footer of a stripe comes next.
    Footer(usize, RowSelection),
    /// The row indexes of a stripe come next.
    Index(Box<StripeColumns>, RowSelection),
    /// Rows come next, of a stripe or of one without columns.
    Rows(Option<Box<StripeColumns>>, RemainingRows),
    Done,
}

/// Pieces of a window: no stripe of a few million rows has more.
const MAX_PIECES: usize = 8192;

/// A scan of a file.
pub(crate) struct Scan {
    plan: ScanPlan,
    source: Arc<dyn ByteSource>,
    /// The scan tells what it reads before it does.
    is_ahead: bool,
    state: State,
    window: Option<Window>,
    queue: BatchQueue,
    /// Rows of a piece: fewer once values were too large.
    piece_rows: u64,
}

impl Scan {
    /// A scan that reads through `source`; `is_ahead` as explained above.
    pub(crate) fn new(plan: ScanPlan, source: Arc<dyn ByteSource>, is_ahead: bool) -> Self {
        Self {
            queue: empty_queue(&plan),
            piece_rows: plan.piece_rows(),
            plan,
            source,
            is_ahead,
            state: State::Between,
            window: None,
        }
    }

    /// The schema of the batches.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.plan.schema
    }

    /// Whether the next step opens a stripe: ranges that were told of before are not read again.
    #[cfg(feature = "async")]
    pub(crate) fn is_between_stripes(&self) -> bool {
        matches!(self.state, State::Between | State::Footer(..) | State::Done) && self.window.is_none()
    }

    /// The next event. After an error the scan has ended.
    pub(crate) fn advance(&mut self) -> Result<Progress> {
        let progress = self.run();
        if progress.is_err() {
            self.state = State::Done;
            self.window = None;
            self.queue = empty_queue(&self.plan);
        }
        progress
    }

    fn run(&mut self) -> Result<Progress> {
        loop {
            let is_done = matches!(self.state, State::Done) && self.window.is_none();
            if let Some(batch) = self.queue.take(is_done).map_err(|error| self.unfit(&error))? {
                return Ok(Progress::Batch(batch));
            }
            if is_done {
                return Ok(Progress::Done);
            }
            let ranges = match self.window.take() {
                Some(window) => self.advance_window(window)?,
                None => self.advance_stripe()?,
            };
            if self.is_ahead && !ranges.is_empty() {
                return Ok(Progress::Fetch(ranges));
            }
        }
    }

    /// Goes one step towards the next window. Returns the ranges that the step after it reads.
    fn advance_stripe(&mut self) -> Result<Vec<Range<u64>>> {
        let tail = self.plan.metadata.metadata().clone();
        match std::mem::replace(&mut self.state, State::Done) {
            State::Between => {
                let Some((index, rows)) = self.plan.stripes.pop_front().filter(|_| self.plan.limit > 0) else {
                    return Ok(vec![]);
                };
                if self.plan.columns().is_empty() {
                    self.state = State::Rows(None, RemainingRows::new(&rows));
                    return Ok(vec![]);
                }
                self.state = State::Footer(index, rows);
                Ok(vec![tail.stripes[index].footer_range()])
            }
            State::Footer(index, rows) => {
                let footer = self.source.read(tail.stripes[index].footer_range())?;
                let stripe = Arc::new(StripeLayout::parse(&tail, index, &footer)?);
                let is_partial = rows.rows() < stripe.info.rows;
                let columns = self
                    .plan
                    .columns()
                    .into_iter()
                    .map(|(at, is_first)| (at, is_partial || !is_first));
                let (metadata, source) = (&self.plan.metadata, self.source.clone());
                let columns = StripeColumns::open(metadata, stripe, source, columns, !self.is_ahead)?;
                let ranges = columns.index_ranges();
                self.state = State::Index(Box::new(columns), rows);
                Ok(ranges)
            }
            State::Index(mut columns, rows) => {
                columns.load_indexes()?;
                self.state = State::Rows(Some(columns), RemainingRows::new(&rows));
                Ok(vec![])
            }
            State::Rows(columns, mut remaining) => {
                match self.next_pieces(&mut remaining) {
                    Some(pieces) => {
                        self.state = State::Rows(columns, remaining);
                        self.window = Some(Window {
                            pieces,
                            stage: 0,
                            is_announced: false,
                        });
                    }
                    None => self.state = State::Between,
                }
                Ok(vec![])
            }
            State::Done => Ok(vec![]),
        }
    }

    /// The pieces of the next window; `None` at the end of the stripe.
    fn next_pieces(&self, remaining: &mut RemainingRows) -> Option<VecDeque<Piece>> {
        if self.plan.limit == 0 {
            return None;
        }
        let mut pieces = VecDeque::from([remaining.piece(self.piece_rows)?]);
        while self.is_ahead
            && pieces.len() < MAX_PIECES
            && let Some(piece) = remaining.piece(self.piece_rows)
        {
            pieces.push_back(piece);
        }
        Some(pieces)
    }

    /// Evaluates a predicate for a window, or reads one piece of the output. Returns the ranges that have to be there
    /// before.
    fn advance_window(&mut self, mut window: Window) -> Result<Vec<Range<u64>>> {
        let columns = match self.plan.predicates.get(window.stage) {
            Some(predicate) => predicate.columns.clone(),
            None => self.plan.output.clone(),
        };
        if self.is_ahead && !window.is_announced {
            window.is_announced = true;
            let ranges = match &self.state {
                State::Rows(Some(stripe), _) => stripe.byte_ranges(&columns, &window.rows())?,
                _ => vec![],
            };
            self.window = Some(window);
            return Ok(ranges);
        }
        if window.stage < self.plan.predicates.len() {
            self.evaluate(&mut window, &columns)?;
            window.end_stage();
        } else if let Some(piece) = self.read_next(&mut window.pieces, &columns)? {
            let batch = self.batch(&self.plan.schema, &columns, &piece)?;
            self.push(batch);
        }
        if !window.pieces.is_empty() && self.plan.limit > 0 {
            self.window = Some(window);
        }
        Ok(vec![])
    }

    /// Evaluates the predicate of the window's stage for all pieces.
    fn evaluate(&mut self, window: &mut Window, columns: &[usize]) -> Result<()> {
        let stage = window.stage;
        let mut passed = VecDeque::with_capacity(window.pieces.len());
        while let Some(mut piece) = self.read_next(&mut window.pieces, columns)? {
            let batch = self.batch(&self.plan.predicates[stage].schema, columns, &piece)?;
            let rows = batch.num_rows();
            let mask = self.plan.predicates[stage].predicate.evaluate(batch);
            let mask = mask.map_err(|error| self.filter_error(error.to_string(), Some(error)))?;
            if mask.len() != rows {
                let reason = format!("predicate {stage} has {} values for {rows} rows", mask.len());
                return Err(self.filter_error(reason, None));
            }
            // A scan ahead has all bytes, and would hold the values of a whole stripe.
            let later = &self.plan.predicates[stage + 1..];
            let is_read_later =
                |at: usize| self.plan.output.contains(&at) || later.iter().any(|next| next.columns.contains(&at));
            let is_kept = |at: usize| !self.is_ahead && is_read_later(at);
            piece.refine(&mask, is_kept).map_err(|error| self.unfit(&error))?;
            passed.push_back(piece);
        }
        window.pieces = passed;
        Ok(())
    }

    /// Takes the first piece and reads those of the columns that it lacks. A piece whose values are too large is split.
    fn read_next(&mut self, pieces: &mut VecDeque<Piece>, columns: &[usize]) -> Result<Option<Piece>> {
        while let Some(mut piece) = pieces.pop_front() {
            match read_missing(&mut self.state, &mut piece, columns, self.plan.batch_bytes) {
                Ok(()) => return Ok(Some(piece)),
                Err(LayoutError::TooLarge { .. }) if piece.rows.rows() > 1 => {
                    self.piece_rows = (piece.rows.rows() / 2).max(1);
                    let (first, second) = piece.split();
                    pieces.push_front(second);
                    pieces.push_front(first);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn batch(&self, schema: &SchemaRef, columns: &[usize], piece: &Piece) -> Result<RecordBatch> {
        let arrays: Vec<ArrayRef> = columns.iter().filter_map(|at| piece.values.get(at).cloned()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(piece.rows.rows() as usize));
        RecordBatch::try_new_with_options(schema.clone(), arrays, &options).map_err(|error| self.unfit(&error))
    }

    /// Appends rows that passed the filter, between the offset and the limit.
    fn push(&mut self, batch: RecordBatch) {
        let rows = batch.num_rows() as u64;
        let skipped = rows.min(self.plan.offset);
        let taken = (rows - skipped).min(self.plan.limit);
        self.plan.offset -= skipped;
        if self.plan.limit != u64::MAX {
            self.plan.limit -= taken;
        }
        self.queue.push(batch.slice(skipped as usize, taken as usize));
    }

    fn filter_error(&self, reason: String, source: Option<ArrowError>) -> LayoutError {
        LayoutError::Filter {
            file: self.plan.metadata.metadata().file.clone(),
            reason,
            source: source.map(Arc::new),
        }
    }

    /// The error for arrays that make no batch of the schema: a null in a column that the caller's schema calls not
    /// nullable.
    fn unfit(&self, error: &ArrowError) -> LayoutError {
        let reason = format!("the rows do not fit the schema: {error}");
        LayoutError::invalid_request(&self.plan.metadata.metadata().file, reason)
    }
}

fn empty_queue(plan: &ScanPlan) -> BatchQueue {
    let batch_bytes = usize::try_from(plan.batch_bytes).unwrap_or(usize::MAX);
    BatchQueue::new(plan.schema.clone(), plan.batch_size, batch_bytes)
}

/// Reads those of the columns that a piece lacks. All its values together take about `batch_bytes`; those of a single
/// row may take as many for each column.
fn read_missing(state: &mut State, piece: &mut Piece, columns: &[usize], batch_bytes: u64) -> Result<()> {
    let State::Rows(Some(stripe), _) = state else {
        return Ok(());
    };
    let size = |values: &ArrayRef| values.get_array_memory_size() as u64;
    let mut taken: u64 = piece.values.values().map(size).sum();
    for &position in columns {
        if !piece.values.contains_key(&position) {
            let limit = match piece.rows.rows() {
                1 => batch_bytes,
                _ => batch_bytes.saturating_sub(taken),
            };
            let values = stripe.read(position, &piece.rows, limit)?;
            taken = taken.saturating_add(size(&values));
            piece.values.insert(position, values);
        }
    }
    Ok(())
}
