//! `Striped`: several storages as one namespace, for size and speed (RAID 0), as BaM does with several SSDs.

use std::collections::HashMap;

use super::{Channel, NAMESPACE_GRAIN_BYTES, ReadDone, ReadRequest, Storage, largest_block};
use crate::error::StorageError;
use crate::raw::HostMemory;

/// RAID 0: consecutive units of bytes go to the members in turn.
#[derive(Debug)]
pub struct Striped {
    members: Vec<Box<dyn Storage>>,
    unit_bytes: u64,
}

impl Striped {
    /// Stripes `members` in units of `unit_bytes`. The namespace is as long as the shortest member allows.
    ///
    /// # Errors
    /// No member, or a unit that is no multiple of 4 KiB.
    pub fn new(members: Vec<Box<dyn Storage>>, unit_bytes: u64) -> Result<Self, String> {
        if members.is_empty() {
            return Err("striping needs at least one storage".into());
        }
        if unit_bytes == 0 || !unit_bytes.is_multiple_of(NAMESPACE_GRAIN_BYTES) {
            return Err(format!(
                "a stripe unit is a multiple of {NAMESPACE_GRAIN_BYTES} bytes, not {unit_bytes}"
            ));
        }
        Ok(Self { members, unit_bytes })
    }

    fn channels(&self, depth: u32) -> Result<Vec<Box<dyn Channel>>, StorageError> {
        self.members.iter().map(|m| m.channel(depth)).collect()
    }
}

impl Storage for Striped {
    fn describe(&self) -> String {
        let names: Vec<_> = self.members.iter().map(|m| m.describe()).collect();
        format!("stripes of {} bytes over [{}]", self.unit_bytes, names.join(", "))
    }

    fn size_bytes(&self) -> u64 {
        let units = self
            .members
            .iter()
            .map(|m| m.size_bytes() / self.unit_bytes)
            .min()
            .unwrap_or(0);
        units * self.unit_bytes * self.members.len() as u64
    }

    fn block_bytes(&self) -> u64 {
        largest_block(&self.members)
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        Ok(Box::new(StripedChannel {
            channels: self.channels(depth)?,
            unit_bytes: self.unit_bytes,
            waiting: Vec::new(),
            commands: HashMap::new(),
            next: 0,
        }))
    }
}

/// The parts of one read, each in one unit of one member.
struct Parts {
    token: u64,
    /// By part number; `None` while the part is in flight.
    memory: Vec<Option<HostMemory>>,
    outstanding: usize,
    error: Option<StorageError>,
}

struct StripedChannel {
    channels: Vec<Box<dyn Channel>>,
    unit_bytes: u64,
    /// Parts whose member had no space.
    waiting: Vec<(usize, ReadRequest)>,
    commands: HashMap<u64, Parts>,
    next: u64,
}

/// Parts of one read fit in these bits of a member's token.
const PART_BITS: u32 = 20;

impl StripedChannel {
    fn issue(&mut self, member: usize, request: ReadRequest) {
        if let Err(request) = self.channels[member].start(request) {
            self.waiting.push((member, request));
        }
    }

    fn finish(&mut self, part: ReadDone, done: &mut Vec<ReadDone>) {
        let (command, index) = (part.token >> PART_BITS, part.token as usize & ((1 << PART_BITS) - 1));
        let Some(parts) = self.commands.get_mut(&command) else {
            return;
        };
        parts.memory[index] = Some(part.memory);
        parts.outstanding -= 1;
        if let Err(e) = part.result {
            parts.error.get_or_insert(e);
        }
        if parts.outstanding > 0 {
            return;
        }
        if let Some(parts) = self.commands.remove(&command) {
            // The parts were split off one piece of memory in order, so they join again.
            let memory = parts.memory.into_iter().flatten().reduce(HostMemory::join);
            if let Some(memory) = memory {
                done.push(ReadDone {
                    token: parts.token,
                    memory,
                    result: parts.error.map_or(Ok(()), Err),
                });
            }
        }
    }
}

impl Channel for StripedChannel {
    fn start(&mut self, request: ReadRequest) -> Result<(), ReadRequest> {
        let units = request.memory.len() as u64 / self.unit_bytes + 2;
        if !self.waiting.is_empty() || units >= 1 << PART_BITS {
            return Err(request);
        }
        let command = self.next;
        self.next = (self.next + 1) & (u64::MAX >> PART_BITS);
        let members = self.channels.len() as u64;
        let (mut offset, mut left) = (request.offset_bytes, Some(request.memory));
        let mut parts = Vec::new();
        while let Some(memory) = left.take() {
            let unit = offset / self.unit_bytes;
            let within = offset % self.unit_bytes;
            let take = ((self.unit_bytes - within) as usize).min(memory.len());
            let rest_is_empty = take == memory.len();
            let (head, rest) = memory.split_at(take);
            let place = unit / members * self.unit_bytes + within;
            let token = command << PART_BITS | parts.len() as u64;
            parts.push((
                (unit % members) as usize,
                ReadRequest {
                    token,
                    offset_bytes: place,
                    memory: head,
                },
            ));
            offset += take as u64;
            left = (!rest_is_empty).then_some(rest);
        }
        let memory = parts.iter().map(|_| None).collect();
        self.commands.insert(
            command,
            Parts {
                token: request.token,
                memory,
                outstanding: parts.len(),
                error: None,
            },
        );
        for (member, part) in parts {
            self.issue(member, part);
        }
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<ReadDone>) {
        for (member, request) in std::mem::take(&mut self.waiting) {
            self.issue(member, request);
        }
        let mut parts = Vec::new();
        for channel in &mut self.channels {
            channel.poll(&mut parts);
        }
        for part in parts {
            self.finish(part, done);
        }
    }

    fn in_flight(&self) -> usize {
        self.commands.len()
    }
}
