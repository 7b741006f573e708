//! `Queues`: queue pairs in pinned and device memory, their start state, and the return to it after a failure. Device
//! code and the controller change the words (docs/PROTOCOL.md).

use std::sync::Arc;

use grampus_driver::controller::QueueSetup;

use crate::abi::{
    CommandRecord, CqEntry, DoorbellGroup, FREE_RING_EMPTY, QUEUES_PER_GROUP, QueueDesc, QueueState, SqEntry,
};
use crate::cuda::{self, Device, DeviceBuffer, PinnedBuffer};
use crate::error::CudaError;

/// Number and size of the queue pairs.
#[derive(Debug, Clone, Copy)]
pub struct QueueOptions {
    /// Queue pairs, at least 1.
    pub count: u32,
    /// log2 of the entries of each ring, 1 … 12.
    pub depth_log2: u32,
    /// Transfers up to this length go through a pinned bounce slot, in bytes, whole pages; 0: none do.
    pub bounce_bytes: u32,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            count: 32,
            depth_log2: 10,
            bounce_bytes: 4096,
        }
    }
}

/// The queue pairs of a stack.
#[derive(Debug)]
pub struct Queues {
    options: QueueOptions,
    descs: Vec<QueueDesc>,
    /// Rings and doorbells.
    pinned: Arc<PinnedBuffer>,
    bounce: Option<Arc<PinnedBuffer>>,
    /// States, marks, free rings, command records.
    device_words: DeviceBuffer,
    /// The descriptions, for kernels.
    device_descs: DeviceBuffer,
}

/// Sizes in bytes: the doorbells, and one queue's parts in pinned and in device memory.
struct Parts {
    doorbells: u64,
    pinned_each: u64,
    device_each: u64,
}

impl Parts {
    fn new(o: &QueueOptions) -> Self {
        let (depth, groups) = (1u64 << o.depth_log2, u64::from(o.count).div_ceil(QUEUES_PER_GROUP));
        let entries = depth * (size_of::<SqEntry>() + size_of::<CqEntry>()) as u64;
        let words = size_of::<QueueState>() as u64
            + (depth * 8).next_multiple_of(64)
            + depth * size_of::<CommandRecord>() as u64;
        Self {
            doorbells: (groups * 2 * size_of::<DoorbellGroup>() as u64).next_multiple_of(4096),
            pinned_each: entries.next_multiple_of(4096),
            device_each: words.next_multiple_of(256),
        }
    }
}

impl Queues {
    /// Allocates the queue pairs in their start state.
    ///
    /// # Errors
    /// Options outside their ranges; out of memory.
    pub fn new(device: &Device, options: QueueOptions) -> Result<Self, CudaError> {
        let good = options.count >= 1
            && (1..=12).contains(&options.depth_log2)
            && options.bounce_bytes.is_multiple_of(4096)
            && options.count <= 1024;
        if !good {
            return Err(CudaError::Arguments {
                kernel: "queues".to_owned(),
                reason: format!("{options:?} is out of range"),
            });
        }
        let (parts, count, depth) = (
            Parts::new(&options),
            u64::from(options.count),
            1u64 << options.depth_log2,
        );
        let pinned = PinnedBuffer::new(device, (parts.doorbells + count * parts.pinned_each) as usize)?;
        let bounce = match u64::from(options.bounce_bytes) * depth * count {
            0 => None,
            bytes => Some(Arc::new(PinnedBuffer::new(device, bytes as usize)?)),
        };
        let device_words = DeviceBuffer::filled(device, (count * parts.device_each) as usize, 0)?;
        let groups = count.div_ceil(QUEUES_PER_GROUP);
        let describe = |i: u64| {
            let sq = pinned.address() + parts.doorbells + i * parts.pinned_each;
            let word = i / QUEUES_PER_GROUP * 64 + i % QUEUES_PER_GROUP * 4;
            let state = device_words.address() + i * parts.device_each;
            let marks = state + size_of::<QueueState>() as u64;
            let slots = u64::from(options.bounce_bytes) * depth;
            let bounce = bounce.as_ref().map_or(0, |b| b.address() + i * slots);
            QueueDesc {
                sq,
                cq: sq + depth * size_of::<SqEntry>() as u64,
                sq_doorbell: pinned.address() + word,
                cq_doorbell: pinned.address() + groups * 64 + word,
                state,
                commands: marks + (depth * 8).next_multiple_of(64), // before: marks, free ring
                marks,
                free_ring: marks + depth * 4,
                bounce,
                bounce_bus: bounce,
                data_bus: 0,
                bounce_bytes: options.bounce_bytes,
                depth_log2: options.depth_log2,
                qid: i as u32 + 1,
                flags: 0, // the software controller posts completions after its data
                ordering_read: 0,
            }
        };
        let descs: Vec<QueueDesc> = (0..count).map(describe).collect();
        let queues = Self {
            options,
            device_descs: DeviceBuffer::from_values(device, &descs)?,
            descs,
            pinned: Arc::new(pinned),
            bounce,
            device_words,
        };
        queues.reset()?;
        Ok(queues)
    }

    /// Sets all words to the start state. No kernel may use the queues, and the controller must rest.
    ///
    /// # Errors
    /// A failed copy: the context is dead.
    pub fn reset(&self) -> Result<(), CudaError> {
        self.pinned.zero();
        self.device_words.fill(0)?;
        let depth = 1u32 << self.options.depth_log2;
        let start = QueueState {
            credits: depth as i32 - 1,
            push_ticket: depth - 1,
            ..QueueState::default()
        };
        let ring: Vec<u32> = (0..depth - 1).chain([FREE_RING_EMPTY]).collect();
        for desc in &self.descs {
            let offset = |address: u64| (address - self.device_words.address()) as usize;
            self.device_words.write(offset(desc.state), &[start])?;
            self.device_words.write(offset(desc.free_ring), &ring)?;
        }
        Ok(())
    }

    /// The controller's side of all queues.
    ///
    /// # Errors
    /// None, unless the layout of this file is wrong.
    pub fn controller_side(&self) -> Result<Vec<QueueSetup>, CudaError> {
        let rings = self.descs.iter().map(|desc| {
            let rings = cuda::rings(desc, &self.pinned)?;
            let qid = desc.qid as u16;
            Some(QueueSetup { rings, qid })
        });
        rings.collect::<Option<Vec<_>>>().ok_or_else(|| CudaError::Arguments {
            kernel: "queues".to_owned(),
            reason: "a ring lies outside its memory".to_owned(),
        })
    }

    /// Number of queue pairs.
    pub fn count(&self) -> u32 {
        self.options.count
    }

    /// The descriptions of the queue pairs.
    pub fn descs(&self) -> &[QueueDesc] {
        &self.descs
    }

    /// Device address of the descriptions.
    pub fn address(&self) -> u64 {
        self.device_descs.address()
    }

    /// The bounce slots.
    pub fn bounce(&self) -> Option<&Arc<PinnedBuffer>> {
        self.bounce.as_ref()
    }
}
