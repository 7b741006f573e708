//! [`Portions`], rows of a stripe that wait to be encoded, and [`EncodingThreads`], on which columns are encoded side
//! by side.
//!
//! A column's bytes depend on its own values alone, so the columns of a stripe may be encoded in any order. Starting
//! threads costs more than encoding a batch: with threads, rows wait until they have [`MAX_WAITING_BYTES`].
//!
//! **Invariant:** the rows decide where a stripe ends, not the number of threads. Its size is looked at when so many
//! bytes have come since the last time, and then no row waits.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;

use super::column::Column;
use crate::error::{LayoutError, Result};

/// Bytes of rows after which a stripe's size is looked at, at the latest.
const MAX_WAITING_BYTES: usize = 8 << 20;
/// The same as a share of a stripe's size, as a divisor.
const STRIPE_DIVISOR: usize = 8;

/// Threads on which an [`ArrowWriter`](super::ArrowWriter) encodes columns side by side. They are its caller's. The
/// file has the same bytes as without.
pub trait EncodingThreads: Debug + Send + Sync {
    /// The number of columns that may be encoded at once now. 1: one after the other.
    fn count(&self) -> usize;

    /// Calls `work` on up to `count` threads at once, of which the calling thread may be one, and returns when all
    /// calls have returned. One call does all of the work if it is the only one.
    fn run(&self, count: usize, work: &(dyn Fn() + Sync));
}

/// Rows of one row group, or a part of them.
#[derive(Debug)]
pub(super) struct Portion {
    pub(super) starts_group: bool,
    pub(super) rows: usize,
    pub(super) columns: Vec<ArrayRef>,
}

/// The rows that wait, in their order.
#[derive(Debug)]
pub(super) struct Portions {
    waiting: Vec<Portion>,
    /// Bytes of the rows that wait.
    waiting_bytes: usize,
    /// Bytes of rows since the stripe's size was looked at.
    unseen_bytes: usize,
    max_bytes: usize,
}

impl Portions {
    /// None, of a file whose stripes have this size.
    pub(super) fn new(stripe_size_bytes: usize) -> Self {
        Self {
            waiting: Vec::new(),
            waiting_bytes: 0,
            unseen_bytes: 0,
            max_bytes: (stripe_size_bytes / STRIPE_DIVISOR).clamp(1, MAX_WAITING_BYTES),
        }
    }

    /// Appends rows.
    pub(super) fn push(&mut self, portion: Portion) {
        let bytes = portion.columns.iter().map(value_bytes).sum::<usize>();
        self.waiting_bytes += bytes;
        self.unseen_bytes += bytes;
        self.waiting.push(portion);
    }

    /// Whether it is time to look at the stripe's size. True once for the rows so far.
    pub(super) fn take_due(&mut self) -> bool {
        let is_due = self.unseen_bytes >= self.max_bytes;
        if is_due {
            self.unseen_bytes = 0;
        }
        is_due
    }

    /// Starts a stripe.
    pub(super) fn start_stripe(&mut self) {
        self.unseen_bytes = 0;
    }

    /// Bytes of the rows that wait, about.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Encodes the rows that wait.
    ///
    /// # Errors
    /// That of the first portion with a value that cannot be stored.
    pub(super) fn encode(&mut self, root: &mut Column, threads: Option<&dyn EncodingThreads>) -> Result<()> {
        let portions = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        for portion in &portions {
            root.write_root(portion.rows, portion.starts_group)?;
        }
        let bytes_of = |place: usize, _: &Column| portions.iter().map(|part| value_bytes(&part.columns[place])).sum();
        each_column(&mut root.children, threads, &bytes_of, &|place, column| {
            for (number, portion) in portions.iter().enumerate() {
                let written = match portion.starts_group {
                    true => column.start_group(),
                    false => Ok(()),
                };
                let written = written.and_then(|()| column.write(&portion.columns[place]));
                written.map_err(|error| (number, error))?;
            }
            Ok(())
        })
    }
}

/// Ends the stripe's columns.
pub(super) fn finish(root: &mut Column, threads: Option<&dyn EncodingThreads>) -> Result<()> {
    root.finish_root()?;
    let bytes_of = |_, column: &Column| column.buffered_bytes();
    each_column(&mut root.children, threads, &bytes_of, &|_, column| {
        column.finish().map_err(|error| (0, error))
    })
}

/// The number of a portion, and why it cannot be written.
type Failure = (usize, LayoutError);

/// Runs `work` for each column and its place, the columns with most bytes first. Of several errors, that of the first
/// portion is returned, and in it that of the first column.
fn each_column(
    columns: &mut [Column],
    threads: Option<&dyn EncodingThreads>,
    bytes_of: &dyn Fn(usize, &Column) -> usize,
    work: &(dyn Fn(usize, &mut Column) -> Result<(), Failure> + Sync),
) -> Result<()> {
    let count = threads.map_or(1, EncodingThreads::count).min(columns.len());
    let mut waiting: Vec<(usize, &mut Column)> = columns.iter_mut().enumerate().collect();
    if count > 1 {
        waiting.sort_by_cached_key(|(place, column)| std::cmp::Reverse(bytes_of(*place, column)));
    }
    let waiting = Mutex::new(VecDeque::from(waiting));
    let failed: Mutex<Option<(usize, usize, LayoutError)>> = Mutex::new(None);
    let next = || locked(&waiting).pop_front();
    let all = || {
        while let Some((place, column)) = next() {
            let Err((portion, error)) = work(place, column) else {
                continue;
            };
            let mut failed = locked(&failed);
            if failed
                .as_ref()
                .is_none_or(|first| (portion, place) < (first.0, first.1))
            {
                *failed = Some((portion, place, error));
            }
        }
    };
    match threads.filter(|_| count > 1) {
        Some(threads) => threads.run(count, &all),
        None => all(),
    }
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, _, error)) => Err(error),
        None => Ok(()),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of an array's values. Arrow counts the views of texts and not the texts: such arrays count with all that they
/// hold.
fn value_bytes(array: &ArrayRef) -> usize {
    let all = || array.get_array_memory_size();
    match has_views(array.data_type()) {
        true => all(),
        false => array.to_data().get_slice_memory_size().unwrap_or_else(|_| all()),
    }
}

fn has_views(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View | DataType::BinaryView | DataType::ListView(_) | DataType::LargeListView(_) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_views(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_views(field.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_views(field.data_type())),
        DataType::Dictionary(_, values) => has_views(values),
        _ => false,
    }
}
