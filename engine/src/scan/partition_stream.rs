//! `PartitionStream`: one partition of a scan as a stream of batches.
//!
//! The polling thread scans stripe after stripe and tile after tile. It reads small batches several at a time, and
//! checks the file once for all of them before the first one leaves the scan.
//!
//! Of a remote file, the next stripe is opened by a task of its own, up to its first window, once all windows of the
//! present stripe have arrived. Nothing is fetched ahead while fewer rows may be wanted:
//!
//! - before the consumer has asked for more than the first batch,
//! - under a limit,
//! - while a dynamic filter may still change, as that of a sort with a limit does.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use futures::Stream;
use tokio::runtime::Handle;

use super::Scan;
use super::execution_listener::StreamGuard;
use super::metrics::ScanMetrics;
use super::predicate_cascade::PredicateCascade;
use super::scan_memory::{ScanMemory, fewer_rows_may_fit};
use super::scan_ranges::ScanRange;
use super::stripe_scan::StripeScan;
use super::work_stealing::WorkStream;

/// Bytes of batches that are read before they leave the scan, so that they stay in the processor's cache.
const MAX_READY_BYTES: usize = 256 << 10;
/// Maximum batches that are read before they leave the scan.
const MAX_READY_BATCHES: usize = 16;

/// The state of one partition.
pub(super) struct PartitionStream {
    pub(super) scan: Arc<Scan>,
    pub(super) work: WorkStream,
    pub(super) batch_rows: usize,
    /// Rows that may still be emitted.
    pub(super) remaining: Option<usize>,
    pub(super) metrics: Arc<ScanMetrics>,
    /// The memory of a stripe; each has its own.
    pub(super) memory: ScanMemory,
    pub(super) cascade: PredicateCascade,
    pub(super) stripe: Option<StripeScan>,
    /// The stripe after it, if that is being opened.
    pub(super) next: Option<NextStripe>,
    pub(super) demand: Demand,
    /// The next batches.
    pub(super) ready: ReadyBatches,
    /// The execution ends for a listener when its last stream is dropped.
    pub(super) _watched: Option<StreamGuard>,
}

/// A stripe that is being opened while the stripe before it is scanned.
pub(super) struct NextStripe {
    work: ScanRange,
    opened: SpawnedTask<Result<Option<StripeScan>>>,
}

impl NextStripe {
    /// Begins to open the stripe of the partition's next range, and to fetch its first window. `None`: the partition
    /// has no range left, or the query cannot spare the memory.
    fn begin(
        (scan, cascade, batch_rows): (&Arc<Scan>, &PredicateCascade, usize),
        work: &mut WorkStream,
        metrics: &Arc<ScanMetrics>,
        memory: ScanMemory,
    ) -> Option<Self> {
        let window = scan.options.fetch_window_bytes.min(memory.array_bytes());
        if Handle::try_current().is_err() || !memory.can_spare(window) {
            return None;
        }
        let work = work.next_of_own()?;
        let (scan, cascade, metrics) = (Arc::clone(scan), cascade.clone(), Arc::clone(metrics));
        let tiles = (tile_rows(&scan, &cascade, batch_rows, None), false);
        let range = work.clone();
        let opened = SpawnedTask::spawn(async move {
            let opened = StripeScan::open(&scan, &range, &cascade, tiles, &metrics, memory).await?;
            let Some(mut stripe) = opened else { return Ok(None) };
            stripe.prepare(&cascade, None, false, &metrics).await?;
            Ok(Some(stripe))
        });
        Some(Self { work, opened })
    }
}

/// Maximum rows of a tile. `remaining`: rows that may still be emitted.
fn tile_rows(scan: &Scan, cascade: &PredicateCascade, batch_rows: usize, remaining: Option<usize>) -> usize {
    match cascade.order.is_empty() {
        true => batch_rows.min(remaining.unwrap_or(usize::MAX)),
        false => scan.options.tile_rows,
    }
}

/// How far the rows of the scan are wanted, as far as it is known.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Demand {
    /// A first batch.
    #[default]
    First,
    /// More than what was read so far.
    More,
}

/// Batches that have been read and may leave the scan.
#[derive(Debug, Default)]
pub(super) struct ReadyBatches {
    batches: VecDeque<RecordBatch>,
    /// The error of the read after them.
    failure: Option<DataFusionError>,
    /// Batches of the next group. The first group has one, for queries with a limit; each has twice as many as the
    /// group before.
    group: usize,
}

impl ReadyBatches {
    /// Whether one more batch belongs to the group that is being read.
    fn has_space(&self) -> bool {
        let (count, last) = (self.batches.len(), self.batches.back());
        count < self.group && last.map_or(0, RecordBatch::get_array_memory_size) * (count + 1) <= MAX_READY_BYTES
    }
}

impl PartitionStream {
    /// The batches until the last one or the first error. Dropping the stream ends the scan.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        futures::stream::try_unfold(self, |mut partition| async move {
            let batch = partition.next().await?;
            Ok(batch.map(|batch| (batch, partition)))
        })
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.batches.pop_front() {
                // The next call asks for more than this batch.
                self.demand = Demand::More;
                self.metrics.baseline.record_output(batch.num_rows());
                self.metrics.baseline.output_batches().add(1);
                return Ok(Some(batch));
            }
            if let Some(error) = self.ready.failure.take() {
                return Err(error);
            }
            if self.remaining == Some(0) || !self.advance().await? {
                (self.stripe, self.next) = (None, None);
                self.metrics.baseline.done();
                return Ok(None);
            }
            // If no row passes the filter, the loop returns no batch. This call yields to waiting tasks.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Opens the next stripe. False: there is none.
    async fn open(&mut self) -> Result<bool> {
        let (work, ahead) = match self.next.take() {
            Some(next) => (next.work, Some(next.opened)),
            None => match self.work.next() {
                Some(work) => (work, None),
                None => return Ok(false),
            },
        };
        self.cascade.begin_range(&self.scan);
        if let Some(ahead) = ahead {
            match ahead.join_unwind().await {
                // The stripe before it has given its memory back.
                Ok(Err(error)) if fewer_rows_may_fit(&error) => {}
                Ok(opened) => {
                    self.stripe = opened?;
                    return Ok(true);
                }
                Err(ended) => log::info!("a stripe is opened again: {ended}"),
            }
        }
        let tiles = (
            tile_rows(&self.scan, &self.cascade, self.batch_rows, self.remaining),
            self.remaining.is_some(),
        );
        let memory = self.memory.of_next();
        let opened = StripeScan::open(&self.scan, &work, &self.cascade, tiles, &self.metrics, memory);
        self.stripe = opened.await?;
        Ok(true)
    }

    /// Does one step: opens a stripe, filters a tile, or reads the surviving rows. False: there is nothing left.
    async fn advance(&mut self) -> Result<bool> {
        let timer = self.metrics.baseline.elapsed_compute().clone();
        let _timer = timer.timer();
        if self.stripe.is_none() {
            return self.open().await;
        }
        let mut read = self.read_on().await;
        if let Some(stripe) = &self.stripe {
            // Batches leave the scan only after this check, and bytes of a changed file may cause any error.
            if read.is_err() || !self.ready.batches.is_empty() || stripe.is_done() {
                stripe.check()?;
            }
            if stripe.is_done() && stripe.has_nothing_pending() {
                self.stripe = None;
            }
        }
        if !self.ready.batches.is_empty() {
            self.ready.failure = read.err();
            read = Ok(());
        }
        read.map(|()| true)
    }

    /// Filters the open stripe's next tile, and reads the surviving rows if they make a batch. Reads the next batches
    /// too, as far as they are small and at hand.
    async fn read_on(&mut self) -> Result<()> {
        let Some(stripe) = &mut self.stripe else {
            return Ok(());
        };
        self.ready.group = (2 * self.ready.group).clamp(1, MAX_READY_BATCHES);
        loop {
            let enough = self.remaining.unwrap_or(usize::MAX).min(self.batch_rows);
            let is_tile_wanted = !stripe.is_done() && !stripe.has_enough(enough);
            let are_all_wanted = self.demand == Demand::More && self.remaining.is_none() && self.cascade.is_final();
            if is_tile_wanted {
                let prepared = stripe.prepare(&self.cascade, self.remaining, are_all_wanted, &self.metrics);
                prepared.await?;
            }
            if are_all_wanted && self.next.is_none() && stripe.is_all_fetched() {
                self.next = NextStripe::begin(
                    (&self.scan, &self.cascade, self.batch_rows),
                    &mut self.work,
                    &self.metrics,
                    self.memory.of_next(),
                );
                if self.next.is_some() {
                    // The task sends its requests before this thread begins to decode.
                    tokio::task::yield_now().await;
                }
            }
            if is_tile_wanted {
                stripe.step(&mut self.cascade, &self.metrics).await?;
            }
            if !stripe.is_done() && !stripe.has_enough(enough) {
                self.demand = Demand::More;
                return Ok(());
            }
            if are_all_wanted {
                stripe.prepare_pending(enough, &self.metrics).await?;
            }
            let Some(batch) = stripe.flush(enough, &self.metrics).await? else {
                self.demand = Demand::More;
                return Ok(());
            };
            self.remaining = self.remaining.map(|left| left.saturating_sub(batch.num_rows()));
            self.ready.batches.push_back(batch);
            if self.remaining == Some(0) || !stripe.is_next_at_hand(self.batch_rows) || !self.ready.has_space() {
                return Ok(());
            }
        }
    }
}
