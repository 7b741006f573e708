//! `Replicated`: equal copies of one namespace, for speed, as BaM does with several SSDs.

use std::collections::HashMap;

use super::{BLOCK_BYTES, Channel, ReadDone, ReadRequest, Storage, largest_block};
use crate::error::StorageError;

/// Equal copies: reads go to the members in turn. A failed read is tried once more on the next member.
#[derive(Debug)]
pub struct Replicated {
    members: Vec<Box<dyn Storage>>,
}

impl Replicated {
    /// Makes a storage of `members`, which hold the same bytes.
    ///
    /// # Errors
    /// No member, or members of different sizes.
    pub fn new(members: Vec<Box<dyn Storage>>) -> Result<Self, String> {
        let Some(first) = members.first() else {
            return Err("replication needs at least one storage".into());
        };
        let size = first.size_bytes();
        match members.iter().find(|m| m.size_bytes() != size) {
            None => Ok(Self { members }),
            Some(m) => Err(format!(
                "replicas differ in size: {} has {} bytes, {} has {size}",
                m.describe(),
                m.size_bytes(),
                members[0].describe()
            )),
        }
    }
}

impl Storage for Replicated {
    fn describe(&self) -> String {
        let names: Vec<_> = self.members.iter().map(|m| m.describe()).collect();
        format!("replicas [{}]", names.join(", "))
    }

    fn size_bytes(&self) -> u64 {
        self.members[0].size_bytes()
    }

    fn block_bytes(&self) -> u64 {
        largest_block(&self.members)
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        let channels = self
            .members
            .iter()
            .map(|m| m.channel(depth))
            .collect::<Result<_, _>>()?;
        Ok(Box::new(ReplicatedChannel {
            channels,
            turn: 0,
            offsets: HashMap::new(),
            waiting: Vec::new(),
        }))
    }
}

struct ReplicatedChannel {
    channels: Vec<Box<dyn Channel>>,
    turn: usize,
    /// By token: the read's offset, and whether it was tried before.
    offsets: HashMap<u64, (u64, bool)>,
    /// Second tries whose member had no space.
    waiting: Vec<(usize, ReadRequest)>,
}

impl Channel for ReplicatedChannel {
    fn start(&mut self, request: ReadRequest) -> Result<(), ReadRequest> {
        debug_assert!(request.offset_bytes.is_multiple_of(BLOCK_BYTES));
        let (token, offset) = (request.token, request.offset_bytes);
        self.turn = (self.turn + 1) % self.channels.len();
        self.channels[self.turn].start(request)?;
        self.offsets.insert(token, (offset, false));
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<ReadDone>) {
        for (member, request) in std::mem::take(&mut self.waiting) {
            if let Err(request) = self.channels[member].start(request) {
                self.waiting.push((member, request));
            }
        }
        let members = self.channels.len();
        let mut finished = Vec::new();
        for member in 0..members {
            self.channels[member].poll(&mut finished);
            for read in finished.drain(..) {
                match (&read.result, self.offsets.get(&read.token).copied()) {
                    (Err(e), Some((offset_bytes, false))) if members > 1 => {
                        log::warn!("{e}; trying the next replica");
                        self.offsets.insert(read.token, (offset_bytes, true));
                        let request = ReadRequest {
                            token: read.token,
                            offset_bytes,
                            memory: read.memory,
                        };
                        self.waiting.push(((member + 1) % members, request));
                    }
                    _ => {
                        self.offsets.remove(&read.token);
                        done.push(read);
                    }
                }
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.offsets.len()
    }
}
