//! `PartitionStream`: one partition of a scan as a stream of batches.
//!
//! The polling thread scans stripe after stripe and tile after tile.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::Result;
use futures::Stream;

use super::Scan;
use super::metrics::ScanMetrics;
use super::predicate_cascade::PredicateCascade;
use super::scan_memory::ScanMemory;
use super::stripe_scan::StripeScan;
use super::work_stealing::WorkStream;

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
    /// The next batch.
    pub(super) ready: Option<RecordBatch>,
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
            if let Some(batch) = self.ready.take() {
                self.metrics.baseline.record_output(batch.num_rows());
                self.metrics.baseline.output_batches().add(1);
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

    /// Does one step: opens a stripe, filters a tile, or reads the surviving rows. False: there is nothing left.
    async fn advance(&mut self) -> Result<bool> {
        let timer = self.metrics.baseline.elapsed_compute().clone();
        let _timer = timer.timer();
        if self.stripe.is_none() {
            let Some(work) = self.work.next() else {
                return Ok(false);
            };
            let tile_rows = match self.scan.conjuncts.is_empty() {
                true => self.batch_rows,
                false => self.scan.options.tile_rows,
            };
            self.stripe = StripeScan::open(&self.scan, &work, tile_rows, &self.metrics, &self.memory).await?;
            return Ok(true);
        }
        let read = self.read_on().await;
        if let (Err(_), Some(stripe)) = (&read, &self.stripe) {
            stripe.check()?; // bytes of a changed file may cause any error
        }
        read.map(|()| true)
    }

    /// Filters the open stripe's next tile, and reads the surviving rows if they make a batch.
    async fn read_on(&mut self) -> Result<()> {
        let Some(stripe) = &mut self.stripe else {
            return Ok(());
        };
        let enough = self.remaining.unwrap_or(usize::MAX).min(self.batch_rows);
        if !stripe.is_done() && !stripe.has_enough(enough) {
            stripe.step(&mut self.cascade, &self.metrics).await?;
        }
        if stripe.is_done() || stripe.has_enough(enough) {
            self.ready = stripe.flush(enough, &self.metrics).await?;
            let rows = self.ready.as_ref().map_or(0, RecordBatch::num_rows);
            self.remaining = self.remaining.map(|remaining| remaining.saturating_sub(rows));
            if stripe.is_done() && stripe.has_nothing_pending() {
                self.stripe = None;
            }
        }
        Ok(())
    }
}
