//! [`ExecutionListener`]: told of each execution of a scan. [`WatchedExecution`] finds the end of an execution.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A part of the engine that acts after executions. Planning and EXPLAIN execute nothing.
pub(crate) trait ExecutionListener: fmt::Debug + Send + Sync {
    /// No stream of the scan is left.
    fn ended(&self);
}

/// The executions of one scan: the streams of its partitions that are not dropped yet.
#[derive(Debug)]
pub(crate) struct WatchedExecution {
    listener: Arc<dyn ExecutionListener>,
    streams: AtomicUsize,
}

impl WatchedExecution {
    pub(crate) fn new(listener: Arc<dyn ExecutionListener>) -> Arc<Self> {
        Arc::new(Self {
            listener,
            streams: AtomicUsize::new(0),
        })
    }

    /// A further stream, until the guard is dropped.
    pub(crate) fn stream(self: &Arc<Self>) -> StreamGuard {
        self.streams.fetch_add(1, Ordering::Relaxed);
        StreamGuard(Arc::clone(self))
    }
}

/// A stream of a watched scan. The last one that is dropped tells the listener.
#[derive(Debug)]
pub(crate) struct StreamGuard(Arc<WatchedExecution>);

impl Drop for StreamGuard {
    fn drop(&mut self) {
        if self.0.streams.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.listener.ended();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Ends(AtomicUsize);

    impl ExecutionListener for Ends {
        fn ended(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_last_stream_ends_an_execution() {
        let ends = Arc::new(Ends::default());
        let watched = WatchedExecution::new(Arc::clone(&ends) as Arc<dyn ExecutionListener>);
        for executions in 1..3 {
            let (first, second) = (watched.stream(), watched.stream());
            drop(first);
            assert_eq!(ends.0.load(Ordering::Relaxed), executions - 1);
            drop(second);
            assert_eq!(ends.0.load(Ordering::Relaxed), executions);
        }
    }
}
