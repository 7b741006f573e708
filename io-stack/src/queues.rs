//! `Queues`: queue pairs in pinned and device memory, their start state, and the return to it after a failure. Device
//! code and the controller change the words (docs/PROTOCOL.md). The controller is the software's, or an NVMe controller
//! that reaches the pinned memory by bus addresses.

use std::sync::Arc;

use grampus_cuda::{CudaError, Device, DeviceBuffer, PinnedBuffer};
use grampus_driver::controller::QueueSetup;
use grampus_driver::error::DriverError;
use grampus_driver::host::{self as controller, QueuePlace};

use crate::abi::{
    CommandRecord, CqEntry, DoorbellGroup, FREE_RING_EMPTY, QUEUES_PER_GROUP, QueueDesc, QueueState, SqEntry,
};
use crate::bus::rings;
use crate::error::StackError;

/// Shortest queues of an NVMe controller with little memory: 16 entries.
const LEAST_DEPTH_LOG2: u32 = 4;

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
    /// `None`: the controller uses the host's addresses.
    bus: Option<BusPlaces>,
    /// States, marks, free rings, command records.
    device_words: DeviceBuffer,
    /// The descriptions, for kernels.
    device_descs: DeviceBuffer,
}

/// Where an NVMe controller reaches the pinned memory.
#[derive(Debug, Clone, Copy)]
struct BusPlaces {
    rings: u64,
    bounce: u64,
}

/// Pinned memory of queue pairs.
struct QueueMemory {
    rings: PinnedBuffer,
    bounce: Option<PinnedBuffer>,
    bus: Option<BusPlaces>,
}

/// Sizes in bytes: the doorbells, and one queue's parts in pinned and in device memory.
struct Parts {
    doorbells: u64,
    /// One ring of submissions: an NVMe controller wants both rings to begin with a page.
    sq: u64,
    pinned_each: u64,
    bounce_each: u64,
    device_each: u64,
}

impl Parts {
    fn new(o: &QueueOptions) -> Self {
        let (depth, groups) = (1u64 << o.depth_log2, u64::from(o.count).div_ceil(QUEUES_PER_GROUP));
        let sq = (depth * size_of::<SqEntry>() as u64).next_multiple_of(4096);
        let words = size_of::<QueueState>() as u64
            + (depth * 8).next_multiple_of(64)
            + depth * size_of::<CommandRecord>() as u64;
        Self {
            doorbells: (groups * 2 * size_of::<DoorbellGroup>() as u64).next_multiple_of(4096),
            sq,
            pinned_each: sq + (depth * size_of::<CqEntry>() as u64).next_multiple_of(4096),
            bounce_each: u64::from(o.bounce_bytes) * depth,
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
        check(options)?;
        let (parts, count) = (Parts::new(&options), u64::from(options.count));
        let memory = QueueMemory {
            rings: PinnedBuffer::new(device, (parts.doorbells + count * parts.pinned_each) as usize)?,
            bounce: match parts.bounce_each * count {
                0 => None,
                bytes => Some(PinnedBuffer::new(device, bytes as usize)?),
            },
            bus: None,
        };
        Self::with_memory(device, options, memory)
    }

    /// Allocates queue pairs in memory that an NVMe controller reaches: not more than the controller grants, and fewer
    /// or shorter ones if the memory is short, of which half is left to others. All transfers go through bounce slots.
    ///
    /// # Errors
    /// As [`new`](Self::new); no queue or no memory left of the controller's.
    pub(crate) fn on_controller(
        device: &Device,
        options: QueueOptions,
        controller: &controller::Device,
    ) -> Result<Self, StackError> {
        if controller.free_queues() == 0 {
            let granted = controller.granted_queues();
            return Err(DriverError::NoQueue { granted }.into());
        }
        let most_entries = controller.capabilities().max_queue_entries().max(2);
        let mut options = QueueOptions {
            count: options.count.min(controller.free_queues().into()),
            depth_log2: options.depth_log2.min(most_entries.ilog2()),
            bounce_bytes: options.bounce_bytes.max(4096),
        };
        check(options)?;
        let pool = controller.pool();
        let most_bytes = pool.free_pages() * 4096 / 2;
        loop {
            let (parts, count) = (Parts::new(&options), u64::from(options.count));
            let ring_bytes = (parts.doorbells + count * parts.pinned_each) as usize;
            let bounce_bytes = (parts.bounce_each * count) as usize;
            let allocate = || match ring_bytes + bounce_bytes <= most_bytes {
                true => Ok((
                    pool.allocate_contiguous(ring_bytes)?,
                    pool.allocate_contiguous(bounce_bytes)?,
                )),
                false => Err(DriverError::OutOfDmaMemory {
                    length_bytes: ring_bytes + bounce_bytes,
                }),
            };
            match allocate() {
                Ok((rings, bounce)) => {
                    let memory = QueueMemory {
                        bus: Some(BusPlaces {
                            rings: rings.bus_address(0),
                            bounce: bounce.bus_address(0),
                        }),
                        rings: PinnedBuffer::over(device, rings)?,
                        bounce: Some(PinnedBuffer::over(device, bounce)?),
                    };
                    return Ok(Self::with_memory(device, options, memory)?);
                }
                Err(_) if options.depth_log2 > LEAST_DEPTH_LOG2 => options.depth_log2 -= 1,
                Err(_) if options.count > 1 => options.count /= 2,
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn with_memory(device: &Device, options: QueueOptions, memory: QueueMemory) -> Result<Self, CudaError> {
        let (parts, count, depth) = (
            Parts::new(&options),
            u64::from(options.count),
            1u64 << options.depth_log2,
        );
        let QueueMemory {
            rings: pinned,
            bounce,
            bus,
        } = memory;
        let device_words = DeviceBuffer::filled(device, (count * parts.device_each) as usize, 0)?;
        let groups = count.div_ceil(QUEUES_PER_GROUP);
        let describe = |i: u64| {
            let sq = pinned.address() + parts.doorbells + i * parts.pinned_each;
            let word = i / QUEUES_PER_GROUP * 64 + i % QUEUES_PER_GROUP * 4;
            let state = device_words.address() + i * parts.device_each;
            let marks = state + size_of::<QueueState>() as u64;
            let slots = i * parts.bounce_each;
            let bounce = bounce.as_ref().map_or(0, |b| b.address() + slots);
            QueueDesc {
                sq,
                cq: sq + parts.sq,
                sq_doorbell: pinned.address() + word,
                cq_doorbell: pinned.address() + groups * 64 + word,
                state,
                commands: marks + (depth * 8).next_multiple_of(64), // before: marks, free ring
                marks,
                free_ring: marks + depth * 4,
                bounce,
                bounce_bus: bus.map_or(bounce, |bus| bus.bounce + slots),
                data_bus: 0,
                bounce_bytes: options.bounce_bytes,
                depth_log2: options.depth_log2,
                qid: i as u32 + 1,
                // Data reaches the host's memory before its completion, and doorbells are words there.
                flags: 0,
                ordering_read: 0,
            }
        };
        let descs: Vec<QueueDesc> = (0..count).map(describe).collect();
        let queues = Self {
            options,
            device_descs: DeviceBuffer::from_values(device, &descs)?,
            descs,
            pinned: Arc::new(pinned),
            bounce: bounce.map(Arc::new),
            bus,
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
            let rings = rings(desc, &self.pinned)?;
            let qid = desc.qid as u16;
            Some(QueueSetup { rings, qid })
        });
        rings.collect::<Option<Vec<_>>>().ok_or_else(|| CudaError::Arguments {
            kernel: "queues".to_owned(),
            reason: "a ring lies outside its memory".to_owned(),
        })
    }

    /// Where an NVMe controller reaches the rings; empty for the software controller.
    pub(crate) fn places(&self) -> Vec<QueuePlace> {
        let place = |desc: &QueueDesc| {
            let rings = self.bus?.rings;
            Some(QueuePlace {
                sq_bus: rings + (desc.sq - self.pinned.address()),
                cq_bus: rings + (desc.cq - self.pinned.address()),
                entries: 1 << desc.depth_log2,
                vector: None,
            })
        };
        self.descs.iter().filter_map(place).collect()
    }

    /// For each queue, the numbers of its tail doorbell's and of its head doorbell's word in [`memory`](Self::memory).
    pub(crate) fn doorbell_words(&self) -> Vec<[usize; 2]> {
        let word = |address: u64| ((address - self.pinned.address()) / 4) as usize;
        let words = self.descs.iter();
        words
            .map(|desc| [word(desc.sq_doorbell), word(desc.cq_doorbell)])
            .collect()
    }

    /// The memory of rings and doorbells.
    pub(crate) fn memory(&self) -> &Arc<PinnedBuffer> {
        &self.pinned
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

fn check(options: QueueOptions) -> Result<(), CudaError> {
    let good = options.count >= 1
        && (1..=12).contains(&options.depth_log2)
        && options.bounce_bytes.is_multiple_of(4096)
        && options.count <= 1024;
    match good {
        true => Ok(()),
        false => Err(CudaError::Arguments {
            kernel: "queues".to_owned(),
            reason: format!("{options:?} is out of range"),
        }),
    }
}
