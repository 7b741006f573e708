//! `FaultyStorage`: injected faults by read pattern: delay, error status, drop, reorder, short data. For tests.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{BlockWriter, Channel, ReadDone, ReadRequest, Storage};
use crate::error::StorageError;
use crate::spec::StatusCode;

/// The fate of a read that a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultAction {
    /// Finishes later by this time.
    Delay(Duration),
    /// Fails with this status.
    Fail(StatusCode),
    /// Never finishes.
    Drop,
    /// Finishes after this many later reads have.
    Reorder(u32),
    /// Finishes when the storage's [gate](FaultyStorage::gate) is open.
    Hold,
    /// The storage delivers half the bytes, which a controller must report as an error.
    Short,
}

/// A fault, and the reads that it hits.
#[derive(Debug, Clone)]
pub struct FaultRule {
    /// Reads that start inside these bytes of the namespace.
    pub bytes: Range<u64>,
    /// Of those, every n-th (1: all of them).
    pub every: u64,
    /// At most this many in all.
    pub at_most: u64,
    /// The fate of these reads.
    pub action: FaultAction,
}

/// A storage with rules; the first rule that matches counts.
#[derive(Debug)]
pub struct FaultyStorage {
    inner: Box<dyn Storage>,
    rules: Arc<Vec<RuleState>>,
    /// Writes that touch these bytes fail.
    failing_writes: Vec<Range<u64>>,
    flushes_fail: bool,
    gate: Arc<AtomicBool>,
}

#[derive(Debug)]
struct RuleState {
    rule: FaultRule,
    matched: AtomicU64,
    hit: AtomicU64,
}

impl FaultyStorage {
    /// Wraps `inner`.
    pub fn new(inner: Box<dyn Storage>, rules: Vec<FaultRule>) -> Self {
        let state = |rule| RuleState {
            rule,
            matched: AtomicU64::new(0),
            hit: AtomicU64::new(0),
        };
        Self {
            inner,
            rules: Arc::new(rules.into_iter().map(state).collect()),
            failing_writes: Vec::new(),
            flushes_fail: false,
            gate: Arc::default(),
        }
    }

    /// The gate at which held reads wait; closed at first.
    pub fn gate(&self) -> Arc<AtomicBool> {
        self.gate.clone()
    }

    /// Also fails writes that touch these bytes.
    #[must_use]
    pub fn failing_write(mut self, bytes: Range<u64>) -> Self {
        self.failing_writes.push(bytes);
        self
    }

    /// Also fails flushes.
    #[must_use]
    pub fn failing_flushes(mut self) -> Self {
        self.flushes_fail = true;
        self
    }
}

impl Storage for FaultyStorage {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn block_bytes(&self) -> u64 {
        self.inner.block_bytes()
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        Ok(Box::new(FaultyChannel {
            inner: self.inner.channel(depth)?,
            rules: self.rules.clone(),
            name: self.describe(),
            actions: Default::default(),
            held: Vec::new(),
            dropped: Vec::new(),
            gate: self.gate.clone(),
        }))
    }

    fn writer(&self) -> Option<Arc<dyn BlockWriter>> {
        Some(Arc::new(FaultyWriter {
            inner: self.inner.writer()?,
            name: self.describe(),
            failing_writes: self.failing_writes.clone(),
            flushes_fail: self.flushes_fail,
        }))
    }
}

#[derive(Debug)]
struct FaultyWriter {
    inner: Arc<dyn BlockWriter>,
    name: String,
    failing_writes: Vec<Range<u64>>,
    flushes_fail: bool,
}

impl FaultyWriter {
    fn failed(&self, offset: u64, length: u64, reason: &str) -> StorageError {
        StorageError {
            storage: self.name.clone(),
            offset,
            length,
            reason: reason.into(),
            code: StatusCode::WriteFault,
        }
    }
}

impl BlockWriter for FaultyWriter {
    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), StorageError> {
        let end = offset_bytes + bytes.len() as u64;
        if self
            .failing_writes
            .iter()
            .any(|f| f.start < end && offset_bytes < f.end)
        {
            return Err(self.failed(offset_bytes, bytes.len() as u64, "injected write failure"));
        }
        self.inner.write(offset_bytes, bytes)
    }

    fn flush(&self) -> Result<(), StorageError> {
        match self.flushes_fail {
            true => Err(self.failed(0, 0, "injected flush failure")),
            false => self.inner.flush(),
        }
    }
}

struct FaultyChannel {
    inner: Box<dyn Channel>,
    rules: Arc<Vec<RuleState>>,
    name: String,
    /// By token, for reads in flight that a rule matched.
    actions: std::collections::HashMap<u64, (FaultAction, u64)>,
    held: Vec<Held>,
    dropped: Vec<ReadDone>,
    gate: Arc<AtomicBool>,
}

struct Held {
    read: ReadDone,
    until: Option<Instant>,
    later_reads: u32,
    gated: bool,
}

impl FaultyChannel {
    fn action_for(&self, offset: u64) -> Option<FaultAction> {
        for state in self.rules.iter().filter(|s| s.rule.bytes.contains(&offset)) {
            let matched = state.matched.fetch_add(1, Ordering::Relaxed) + 1;
            if matched.is_multiple_of(state.rule.every.max(1))
                && state.hit.fetch_add(1, Ordering::Relaxed) < state.rule.at_most
            {
                return Some(state.rule.action);
            }
        }
        None
    }

    fn failed(&self, offset: u64, length: usize, code: StatusCode, reason: &str) -> StorageError {
        StorageError {
            storage: self.name.clone(),
            offset,
            length: length as u64,
            reason: reason.into(),
            code,
        }
    }

    fn apply(&mut self, mut read: ReadDone, done: &mut Vec<ReadDone>) {
        let Some((action, offset)) = self.actions.remove(&read.token) else {
            for held in &mut self.held {
                held.later_reads = held.later_reads.saturating_sub(1);
            }
            done.push(read);
            return;
        };
        match action {
            FaultAction::Delay(by) => {
                self.held.push(Held {
                    read,
                    until: Some(Instant::now() + by),
                    later_reads: 0,
                    gated: false,
                });
            }
            FaultAction::Reorder(later_reads) => self.held.push(Held {
                read,
                until: None,
                later_reads,
                gated: false,
            }),
            FaultAction::Hold => self.held.push(Held {
                read,
                until: None,
                later_reads: 0,
                gated: true,
            }),
            FaultAction::Drop => self.dropped.push(read),
            FaultAction::Fail(code) => {
                read.result = Err(self.failed(offset, read.memory.len(), code, "injected failure"));
                done.push(read);
            }
            FaultAction::Short => {
                let half = read.memory.len() / 2;
                read.memory.bytes_mut()[half..].fill(0xdb);
                let error = self.failed(
                    offset,
                    read.memory.len(),
                    StatusCode::DataTransferError,
                    "injected short read",
                );
                read.result = Err(error);
                done.push(read);
            }
        }
    }
}

impl Channel for FaultyChannel {
    fn start(&mut self, request: ReadRequest) -> Result<(), ReadRequest> {
        let (token, offset) = (request.token, request.offset_bytes);
        self.inner.start(request)?;
        if let Some(action) = self.action_for(offset) {
            self.actions.insert(token, (action, offset));
        }
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<ReadDone>) {
        let mut finished = Vec::new();
        self.inner.poll(&mut finished);
        let quiet = finished.is_empty() && self.inner.in_flight() == 0;
        for read in finished {
            self.apply(read, done);
        }
        let now = Instant::now();
        let mut i = 0;
        while i < self.held.len() {
            let held = &self.held[i];
            // A reordered read waits for later ones only as long as any are in flight.
            let ready = match held.gated {
                true => self.gate.load(Ordering::Acquire),
                false => held.until.map_or(held.later_reads == 0 || quiet, |until| now >= until),
            };
            if ready {
                done.push(self.held.swap_remove(i).read);
            } else {
                i += 1;
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.held.len()
    }
}
