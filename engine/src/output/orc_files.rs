//! [`OrcFiles`]: the ORC files that a statement writes at once, within the memory pool.
//!
//! Each file collects a stripe, so memory grows with the number of files: one for each value of a partition column.
//!
//! 1. After each batch, what all files hold counts in one reservation.
//! 2. If the pool refuses, stripes are ended until a quarter of it is free. Smaller stripes are then in these files.
//! 3. Files to which no batch came for a while are first: if the rows are sorted by the partition, these files are
//!    complete, and the current one keeps its stripe. Among them, and then among all, the largest stripe is first.
//!
//! **Invariant:** no lock is held while another one is waited for, and none across an `await`.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use grampus_orc_layout::LayoutError;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties, to_stored};

use super::scoped_threads::ScopedThreads;
use super::stripe_file::StripeFile;
use super::write_error::write_error;

/// The part of the memory that is freed at once, as a divisor. Looking for the largest stripe costs time.
const FREED_DIVISOR: usize = 4;
/// A file is idle if the other files with an unfinished stripe have had so many batches each since its last one.
const IDLE_ROUNDS: u64 = 2;

/// The files of one statement.
#[derive(Debug)]
pub(super) struct OrcFiles {
    schema: SchemaRef,
    options: WriterProperties,
    threads: Arc<ScopedThreads>,
    accounts: Mutex<Accounts>,
}

/// What the files hold.
#[derive(Debug)]
struct Accounts {
    reservation: MemoryReservation,
    files: Vec<Account>,
    held_bytes: usize,
    /// Batches of all files so far.
    batches: u64,
}

#[derive(Debug)]
struct Account {
    file: Arc<Mutex<OrcFile>>,
    held: Held,
    /// The number of the last batch.
    last_batch: u64,
}

/// Bytes that a file holds in memory.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    /// Those that are free when the stripe ends.
    stripe: usize,
    /// Those of finished stripes, for the tail.
    rest: usize,
}

/// A file being written.
#[derive(Debug)]
struct OrcFile {
    name: String,
    /// Absent after the end.
    writer: Option<ArrowWriter<StripeFile>>,
    rest: usize,
}

impl OrcFile {
    fn held(&self) -> Held {
        let all = self.writer.as_ref().map_or(0, ArrowWriter::memory_size);
        Held {
            stripe: all.saturating_sub(self.rest),
            rest: self.rest.min(all),
        }
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<Held> {
        if let Some(writer) = &mut self.writer {
            writer.write(batch).map_err(|error| unwritable(&self.name, error))?;
        }
        Ok(self.held())
    }

    fn end_stripe(&mut self) -> Result<Held> {
        if let Some(writer) = &mut self.writer {
            writer.flush().map_err(|error| unwritable(&self.name, error))?;
            self.rest = writer.memory_size();
        }
        Ok(self.held())
    }

    /// Returns the number of rows.
    fn finish(&mut self) -> Result<u64> {
        let Some(writer) = self.writer.take() else {
            return Ok(0);
        };
        let rows = writer.rows();
        writer.close().map_err(|error| unwritable(&self.name, error))?;
        Ok(rows)
    }
}

impl OrcFiles {
    /// No files yet, with rows of the stored columns `schema`.
    pub(super) fn new(schema: SchemaRef, options: WriterProperties, context: &TaskContext) -> Self {
        let consumer = MemoryConsumer::new("OrcSink").with_can_spill(true);
        Self {
            schema,
            options,
            threads: Arc::new(ScopedThreads::new(context.session_config().target_partitions())),
            accounts: Mutex::new(Accounts {
                reservation: consumer.register(context.memory_pool()),
                files: Vec::new(),
                held_bytes: 0,
                batches: 0,
            }),
        }
    }

    /// Starts a file, which has `name` in messages, in the empty one at `path`. Returns its number.
    ///
    /// # Errors
    /// If it cannot be written, or ORC has no place for the columns. The error names the file.
    pub(super) fn add(&self, name: String, path: PathBuf) -> Result<usize> {
        let (schema, options) = (Arc::clone(&self.schema), self.options.clone());
        let writer = ArrowWriter::try_new(StripeFile::new(path), schema, Some(options));
        let writer = writer.map_err(|error| unwritable(&name, error))?;
        let writer = writer.with_threads(Arc::clone(&self.threads) as _);
        let file = OrcFile {
            name,
            writer: Some(writer),
            rest: 0,
        };
        let mut accounts = locked(&self.accounts);
        let last_batch = accounts.batches;
        accounts.files.push(Account {
            file: Arc::new(Mutex::new(file)),
            held: Held::default(),
            last_batch,
        });
        self.threads.share_among(accounts.files.len());
        Ok(accounts.files.len() - 1)
    }

    /// Appends rows to a file.
    ///
    /// # Errors
    /// If they cannot be stored or written, or the pool has no memory for what remains after all stripes were ended.
    pub(super) fn write(&self, number: usize, batch: &RecordBatch) -> Result<()> {
        let file = Arc::clone(&locked(&self.accounts).files[number].file);
        let held = {
            let mut file = locked(&file);
            let batch = to_stored(batch, &self.schema).map_err(|error| unwritable(&file.name, error))?;
            file.write(&batch)?
        };
        let mut accounts = locked(&self.accounts);
        accounts.batches += 1;
        accounts.files[number].last_batch = accounts.batches;
        accounts.set(number, held);
        while let Err(refusal) = accounts.reserve() {
            let freed = accounts.take_stripes();
            drop(accounts);
            if freed.is_empty() {
                return Err(refusal);
            }
            for (number, file) in freed {
                let held = locked(&file).end_stripe()?;
                locked(&self.accounts).set(number, held);
            }
            accounts = locked(&self.accounts);
        }
        Ok(())
    }

    /// Ends a file. Returns its number of rows.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn finish(&self, number: usize) -> Result<u64> {
        let file = Arc::clone(&locked(&self.accounts).files[number].file);
        let rows = locked(&file).finish()?;
        let mut accounts = locked(&self.accounts);
        accounts.set(number, Held::default());
        // Less memory is never refused.
        accounts.reserve()?;
        Ok(rows)
    }
}

impl Accounts {
    fn set(&mut self, number: usize, held: Held) {
        let before = std::mem::replace(&mut self.files[number].held, held);
        self.held_bytes += held.stripe + held.rest;
        self.held_bytes -= before.stripe + before.rest;
    }

    fn reserve(&self) -> Result<()> {
        self.reservation.try_resize(self.held_bytes)
    }

    /// The files whose stripes are to be ended, with their numbers. Their stripes are as good as gone: no other thread
    /// ends them too.
    fn take_stripes(&mut self) -> Vec<(usize, Arc<Mutex<OrcFile>>)> {
        let stripes = self.files.iter().enumerate();
        let mut stripes: Vec<usize> = stripes
            .filter(|(_, account)| account.held.stripe > 0)
            .map(|(number, _)| number)
            .collect();
        let round = stripes.len() as u64;
        let idle_before = self.batches.saturating_sub(IDLE_ROUNDS * round);
        stripes.sort_by_key(|&number| {
            let account = &self.files[number];
            (account.last_batch >= idle_before, Reverse(account.held.stripe))
        });
        let wanted = self.held_bytes / FREED_DIVISOR;
        let mut freed = 0;
        let mut taken = Vec::new();
        for number in stripes {
            if freed >= wanted && freed > 0 {
                break;
            }
            let held = self.files[number].held;
            freed += held.stripe;
            self.set(number, Held { stripe: 0, ..held });
            taken.push((number, Arc::clone(&self.files[number].file)));
        }
        taken
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A writer whose panic poisoned the lock refuses further rows.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error of a file that cannot be written.
pub(super) fn unwritable(file: &str, error: LayoutError) -> DataFusionError {
    let reason = match error {
        LayoutError::Write(reason) => reason,
        LayoutError::Sink { source, .. } => return write_error(std::path::Path::new(file), &source),
        other => other.to_string(),
    };
    DataFusionError::Execution(format!("cannot write {file}: {reason}"))
}
