//! `PartitionStream`: one partition of a scan as a stream of batches.
//!
//! The polling thread scans stripe after stripe and tile after tile.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::Stream;

use super::Scan;
use super::metrics::ScanMetrics;
use super::predicate_cascade::PredicateCascade;
use super::stripe_scan::StripeScan;
use super::work_stealing::WorkQueues;

/// The state of one partition.
pub(super) struct PartitionStream {
    pub(super) scan: Arc<Scan>,
    pub(super) queues: Arc<WorkQueues>,
    pub(super) partition: usize,
    pub(super) batch_rows: usize,
    /// Rows that may still be emitted.
    pub(super) remaining: Option<usize>,
    pub(super) metrics: ScanMetrics,
    pub(super) reservation: Arc<MemoryReservation>,
    pub(super) cascade: PredicateCascade,
    pub(super) stripe: Option<StripeScan>,
    /// Rows read and not yet emitted.
    pub(super) ready: Option<RecordBatch>,
}

/// A dropped stream needs no more rows.
impl Drop for PartitionStream {
    fn drop(&mut self) {
        self.queues.close(self.partition);
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
            if let Some(batch) = self.take_ready() {
                self.metrics.baseline.record_output(batch.num_rows());
                return Ok(Some(batch));
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

    /// The next batch of the rows read.
    fn take_ready(&mut self) -> Option<RecordBatch> {
        let ready = self.ready.take()?;
        let rows = ready.num_rows();
        if rows <= self.batch_rows {
            return Some(ready);
        }
        self.ready = Some(ready.slice(self.batch_rows, rows - self.batch_rows));
        Some(ready.slice(0, self.batch_rows))
    }

    /// Does one step: opens a stripe, filters a tile, or reads the surviving rows. False: there is nothing left.
    async fn advance(&mut self) -> Result<bool> {
        let timer = self.metrics.baseline.elapsed_compute().clone();
        let _timer = timer.timer();
        let Some(stripe) = &mut self.stripe else {
            let Some(work) = self.queues.next(self.partition) else {
                return Ok(false);
            };
            let tile_rows = match self.scan.conjuncts.is_empty() {
                true => self.batch_rows,
                false => self.scan.options.tile_rows,
            };
            self.stripe = StripeScan::open(&self.scan, &work, tile_rows, &self.metrics, &self.reservation).await?;
            return Ok(true);
        };
        if !stripe.is_done() {
            stripe.step(&mut self.cascade, &self.metrics).await?;
        }
        let enough = self.remaining.unwrap_or(usize::MAX).min(self.batch_rows);
        if stripe.is_done() || stripe.pending_rows() >= enough {
            self.ready = stripe.flush(self.remaining, &self.metrics).await?;
            let rows = self.ready.as_ref().map_or(0, RecordBatch::num_rows);
            self.remaining = self.remaining.map(|remaining| remaining.saturating_sub(rows));
            if stripe.is_done() {
                self.stripe = None;
            }
        }
        Ok(true)
    }
}
