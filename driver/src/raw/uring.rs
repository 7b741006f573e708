//! A small io_uring for reads into [`HostMemory`]: the kernel writes there after `start` has returned, so the ring keeps
//! the memory until the read is done.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, types};

use super::HostMemory;

/// Where so many reads are with the system, the device has enough to do, and further ones may wait for company: each submission is a
/// call to the system and, on a virtual disk, a way out of the virtual machine.
const ENOUGH: usize = 64;
/// Reads that need not wait for more.
const COMPANY: usize = 16;
/// The longest wait for company; a device that has [`ENOUGH`] reads takes longer for each.
const LINGER: Duration = Duration::from_micros(50);

/// Reads in flight on one thread.
pub(crate) struct Uring {
    ring: IoUring,
    /// Memory of the reads in flight by slot; `None` = free.
    slots: Vec<Option<(u64, HostMemory)>>,
    free: Vec<u32>,
    /// Pushed to the ring, not yet submitted to the kernel; and since when the oldest has been there.
    unsubmitted: usize,
    since: Instant,
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
            since: Instant::now(),
        })
    }

    /// Number of reads in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Queues a read of `memory.len()` bytes at `offset`; the memory comes back with `token` from [`poll`](Self::poll).
    /// Gives the memory back if the ring is full.
    pub(crate) fn start(&mut self, file: RawFd, offset: u64, memory: HostMemory, token: u64) -> Result<(), HostMemory> {
        let Some(slot) = self.free.pop() else {
            return Err(memory);
        };
        let read = opcode::Read::new(types::Fd(file), memory.as_ptr(), memory.len() as u32)
            .offset(offset)
            .build()
            .user_data(u64::from(slot));
        // SAFETY: the buffer belongs to the `HostMemory` kept in `slots` until its completion has been seen; `drop`
        // waits for all of them. There are as many slots as ring entries, and submission empties the ring.
        let pushed = unsafe { self.ring.submission().push(&read) };
        if pushed.is_err() {
            self.free.push(slot);
            return Err(memory);
        }
        self.slots[slot as usize] = Some((token, memory));
        if self.unsubmitted == 0 {
            self.since = Instant::now();
        }
        self.unsubmitted += 1;
        Ok(())
    }

    /// Submits what was queued, if it is due, and hands out finished reads as (token, memory, bytes read or error number).
    pub(crate) fn poll(&mut self, mut done: impl FnMut(u64, HostMemory, Result<usize, i32>)) -> io::Result<()> {
        if is_due(self.unsubmitted, self.in_flight() - self.unsubmitted, self.since) {
            match self.ring.submit() {
                Ok(n) => self.unsubmitted -= n.min(self.unsubmitted),
                // The completion queue is full or the kernel is short of memory: reap, and submit at the next poll.
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

/// Whether `queued` reads, the oldest of them since `since`, are to be submitted now.
fn is_due(queued: usize, submitted: usize, since: Instant) -> bool {
    queued > 0 && (queued >= COMPANY || submitted < ENOUGH || since.elapsed() >= LINGER)
}

impl Drop for Uring {
    fn drop(&mut self) {
        // The kernel may still write into the memory of reads in flight: wait for them. Reads of files end by themselves.
        while self.in_flight() > 0 {
            if self.ring.submit_and_wait(1).is_err() {
                // Nothing more can be learnt from the ring; closing it cancels and waits for what is left.
                break;
            }
            let _ = self.poll(|_, _, _| {});
        }
        log::trace!("ring {} closed", self.ring.as_raw_fd());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_wait_for_company_only_where_the_device_has_enough_and_not_for_long() {
        let soon = Instant::now() + Duration::from_secs(3600); // has not waited
        assert!(!is_due(0, 0, soon));
        assert!(is_due(1, 0, soon) && is_due(1, ENOUGH - 1, soon));
        assert!(!is_due(1, ENOUGH, soon) && !is_due(COMPANY - 1, 4000, soon));
        assert!(is_due(COMPANY, 4000, soon));
        let long_ago = Instant::now()
            .checked_sub(LINGER)
            .expect("the clock has run for that long");
        assert!(is_due(1, 4000, long_ago));
    }
}
