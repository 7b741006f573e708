//! `Uring`: a small io_uring for reads into [`HostMemory`].
//!
//! **Invariant:** the kernel writes to a read's memory after `start` has returned, so the ring keeps the memory until
//! the read is done.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use io_uring::{IoUring, opcode, types};

use super::HostMemory;

/// Reads in flight on one thread.
pub(crate) struct Uring {
    ring: IoUring,
    /// Memory of the reads in flight by slot; `None` = free.
    slots: Vec<Option<(u64, HostMemory)>>,
    free: Vec<u32>,
    /// Pushed to the ring, not yet submitted to the kernel.
    unsubmitted: usize,
}

impl Uring {
    /// A ring for `depth` reads at a time.
    pub(crate) fn new(depth: u32) -> io::Result<Self> {
        let depth = depth.next_power_of_two().clamp(2, 4096);
        // The ring is made on one thread and used on another, so it cannot be a single-issuer ring.
        let ring = IoUring::new(depth)?;
        Ok(Self {
            ring,
            slots: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            unsubmitted: 0,
        })
    }

    /// Number of reads in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Queues a read of `memory.len()` bytes at `offset`; [`poll`](Self::poll) returns the memory with `token`. Returns
    /// the memory at once if the ring is full.
    pub(crate) fn start(&mut self, file: RawFd, offset: u64, memory: HostMemory, token: u64) -> Result<(), HostMemory> {
        let Some(slot) = self.free.pop() else {
            return Err(memory);
        };
        let read = opcode::Read::new(types::Fd(file), memory.as_ptr(), memory.len() as u32)
            .offset(offset)
            .build()
            .user_data(u64::from(slot));
        // SAFETY: the buffer belongs to the `HostMemory` in `slots` until its completion has been seen; `drop` waits
        // for all of them. There are as many slots as ring entries, and submission empties the ring.
        let pushed = unsafe { self.ring.submission().push(&read) };
        if pushed.is_err() {
            self.free.push(slot);
            return Err(memory);
        }
        self.slots[slot as usize] = Some((token, memory));
        self.unsubmitted += 1;
        Ok(())
    }

    /// Submits the queued reads and hands out finished ones as (token, memory, bytes read or error number).
    pub(crate) fn poll(&mut self, mut done: impl FnMut(u64, HostMemory, Result<usize, i32>)) -> io::Result<()> {
        if self.unsubmitted > 0 {
            match self.ring.submit() {
                Ok(n) => self.unsubmitted -= n.min(self.unsubmitted),
                // The completion queue is full or the kernel is short of memory: reaps now, and submits at the next
                // poll.
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        for entry in self.ring.completion() {
            let slot = entry.user_data() as usize;
            if let Some((token, memory)) = self.slots.get_mut(slot).and_then(Option::take) {
                self.free.push(slot as u32);
                let result = entry.result();
                done(
                    token,
                    memory,
                    if result < 0 { Err(-result) } else { Ok(result as usize) },
                );
            }
        }
        Ok(())
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // The kernel may still write into the memory of reads in flight, so the drop waits for them. Reads of files
        // always end.
        while self.in_flight() > 0 {
            if self.ring.submit_and_wait(1).is_err() {
                // The ring reports nothing more; closing it cancels and waits for the rest.
                break;
            }
            let _ = self.poll(|_, _, _| {});
        }
        log::trace!("ring {} closed", self.ring.as_raw_fd());
    }
}
