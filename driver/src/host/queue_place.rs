//! `QueuePlace` and `QueueTicket`: an I/O queue pair at given addresses, for an agent that drives the pair itself.

/// Addresses of an I/O queue pair's rings, as the controller reaches them: in host memory, a BAR, or a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePlace {
    /// Bus address of the submission ring: `entries` of 64 bytes, page-aligned.
    pub sq_bus: u64,
    /// Bus address of the completion ring: `entries` of 16 bytes, page-aligned and zeroed.
    pub cq_bus: u64,
    /// Number of entries of each ring.
    pub entries: u32,
    /// MSI-X vector of completions; `None`: no interrupts.
    pub vector: Option<u16>,
}

/// An I/O queue pair that another agent drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueTicket {
    /// Queue id.
    pub qid: u16,
    /// Register offset of the tail doorbell.
    pub sq_doorbell: usize,
    /// Register offset of the head doorbell.
    pub cq_doorbell: usize,
    /// Resets of the controller before the queue was made: a later one ends the queue.
    pub resets: u64,
}
