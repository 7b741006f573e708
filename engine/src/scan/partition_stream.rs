//! `PartitionStream`: one partition of a scan as a stream of batches.
//!
//! The polling thread scans stripe after stripe and tile after tile. It reads small batches several at a time, and
//! checks the file once for all of them before the first one leaves the scan.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use futures::Stream;

use super::Scan;
use super::execution_listener::StreamGuard;
use super::metrics::ScanMetrics;
use super::predicate_cascade::PredicateCascade;
use super::scan_memory::ScanMemory;
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
    pub(super) metrics: ScanMetrics,
    pub(super) memory: Arc<ScanMemory>,
    pub(super) cascade: PredicateCascade,
    pub(super) stripe: Option<StripeScan>,
    /// The next batches.
    pub(super) ready: ReadyBatches,
    /// The execution ends for a listener when its last stream is dropped.
    pub(super) _watched: Option<StreamGuard>,
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
                self.metrics.baseline.record_output(batch.num_rows());
                self.metrics.baseline.output_batches().add(1);
                return Ok(Some(batch));
            }
            if let Some(error) = self.ready.failure.take() {
                return Err(error);
            }
            if self.remaining == Some(0) || !self.advance().await? {
                self.stripe = None;
                self.metrics.baseline.done();
                return Ok(None);
            }
            // If no row passes the filter, the loop returns no batch. This call yields to waiting tasks.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Does one step: opens a stripe, filters a tile, or reads the surviving rows. False: there is nothing left.
    async fn advance(&mut self) -> Result<bool> {
        let timer = self.metrics.baseline.elapsed_compute().clone();
        let _timer = timer.timer();
        if self.stripe.is_none() {
            let Some(work) = self.work.next() else {
                return Ok(false);
            };
            self.cascade.begin_range(&self.scan);
            let tile_rows = match self.cascade.order.is_empty() {
                true => self.batch_rows.min(self.remaining.unwrap_or(usize::MAX)),
                false => self.scan.options.tile_rows,
            };
            let is_limited = self.remaining.is_some();
            let tile_rows = (tile_rows, is_limited);
            let opened = StripeScan::open(&self.scan, &work, &self.cascade, tile_rows, &self.metrics, &self.memory);
            self.stripe = opened.await?;
            return Ok(true);
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
            if !stripe.is_done() && !stripe.has_enough(enough) {
                stripe.step(&mut self.cascade, self.remaining, &self.metrics).await?;
            }
            if !stripe.is_done() && !stripe.has_enough(enough) {
                return Ok(());
            }
            let Some(batch) = stripe.flush(enough, &self.metrics).await? else {
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
