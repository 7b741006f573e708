//! `Volume`: several namespaces as one, striped or replicated on the submitting side.
//!
//! 1. A read or write is cut into parts: at stripe units, and at the longest transfer of a command.
//! 2. The part's place decides the member. Parts of a member go round its queues.
//! 3. Each queue is rung once for its parts. Then all completions are awaited.
//!
//! **Invariant:** a replica that missed a write serves no reads: its bytes are older than the others'.

use super::dma::BusRange;
use super::queue_pair::QueuePair;
use crate::error::DriverError;
use crate::spec::NamespaceIdentity;

/// A namespace of a volume, and the queues of its controller that the volume may use.
#[derive(Debug)]
pub struct Member {
    /// Name in errors, such as the controller's serial number.
    pub name: String,
    /// The namespace.
    pub namespace: NamespaceIdentity,
    /// Queues of the namespace's controller; at least one.
    pub queues: Vec<QueuePair>,
}

/// How the blocks lie on the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Units of so many blocks go to the members in turn.
    Striped(u32),
    /// Every member has all blocks.
    Replicated,
}

/// A member's failure, as [`Volume::failures`] returns it.
#[derive(Debug)]
pub struct MemberFailure {
    /// The member's name.
    pub member: String,
    /// The error.
    pub error: DriverError,
    /// Whether the member serves no more commands.
    pub out_of_service: bool,
}

/// Several namespaces as one.
#[derive(Debug)]
pub struct Volume {
    members: Vec<Member>,
    layout: Layout,
    in_service: Vec<bool>,
    /// Replica, and queue of each member, of the next part.
    next_replica: usize,
    next_queue: Vec<usize>,
    failures: Vec<MemberFailure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

/// A part of a command, on one member.
#[derive(Debug, Clone)]
struct Part {
    member: usize,
    slba: u64,
    blocks: u32,
    data: BusRange,
    /// Replicas that have failed to read it.
    tried: Vec<usize>,
}

impl Volume {
    /// Stripes of `unit_blocks` blocks over the members.
    ///
    /// # Errors
    /// No members, a member without queues, different block sizes, or units of 0 blocks.
    pub fn striped(members: Vec<Member>, unit_blocks: u32) -> Result<Self, DriverError> {
        if unit_blocks == 0 {
            return Err(DriverError::Unsupported("a stripe unit has no blocks".to_owned()));
        }
        Self::new(members, Layout::Striped(unit_blocks))
    }

    /// Equal copies on all members.
    ///
    /// # Errors
    /// As [`striped`](Self::striped).
    pub fn replicated(members: Vec<Member>) -> Result<Self, DriverError> {
        Self::new(members, Layout::Replicated)
    }

    fn new(members: Vec<Member>, layout: Layout) -> Result<Self, DriverError> {
        let Some(first) = members.first() else {
            return Err(DriverError::Unsupported("a volume needs a member".to_owned()));
        };
        for member in &members {
            let (name, bytes) = (&member.name, member.namespace.block_bytes());
            if member.queues.is_empty() {
                return Err(DriverError::Unsupported(format!("member {name} has no queue")));
            }
            if bytes != first.namespace.block_bytes() {
                let message = format!("blocks of {bytes} bytes on {name} differ from those of {}", first.name);
                return Err(DriverError::Unsupported(message));
            }
        }
        Ok(Self {
            layout,
            in_service: vec![true; members.len()],
            next_replica: 0,
            next_queue: vec![0; members.len()],
            failures: Vec::new(),
            members,
        })
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u64 {
        self.members[0].namespace.block_bytes()
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        let least = self.members.iter().map(|m| m.namespace.blocks).min().unwrap_or(0);
        match self.layout {
            Layout::Striped(unit) => least / u64::from(unit) * u64::from(unit) * self.members.len() as u64,
            Layout::Replicated => least,
        }
    }

    /// The members' failures since the last call. A read that another replica answered is no error of the volume, but
    /// it is listed here.
    pub fn failures(&mut self) -> Vec<MemberFailure> {
        std::mem::take(&mut self.failures)
    }

    /// The members and their queues, as at the start.
    pub fn into_members(self) -> Vec<Member> {
        self.members
    }

    /// Reads blocks. A replica's failure leaves the part to the next replica.
    ///
    /// # Errors
    /// [`DriverError::Member`] with the first failure that no replica made up for; blocks outside the volume, or data
    /// of another length.
    pub fn read(&mut self, slba: u64, blocks: u32, to: &BusRange) -> Result<(), DriverError> {
        let mut parts = self.cut(slba, blocks, to)?;
        loop {
            let mut again = Vec::new();
            for (mut part, error) in self.run(Direction::Read, parts) {
                part.tried.push(part.member);
                let failed = part.member;
                match self.replica(&part.tried) {
                    Some(member) if self.layout == Layout::Replicated => {
                        part.member = member;
                        self.report(failed, error);
                        again.push(part);
                    }
                    _ => return Err(self.member_error(failed, error)),
                }
            }
            if again.is_empty() {
                return Ok(());
            }
            parts = again;
        }
    }

    /// Writes blocks; on all replicas in service. A replica that fails is taken out of service, and the write succeeds
    /// if one replica has all the bytes.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write(&mut self, slba: u64, blocks: u32, from: &BusRange) -> Result<(), DriverError> {
        let parts = self.cut(slba, blocks, from)?;
        if self.layout != Layout::Replicated {
            return match self.run(Direction::Write, parts).into_iter().next() {
                Some((part, error)) => Err(self.member_error(part.member, error)),
                None => Ok(()),
            };
        }
        let members = (0..self.members.len()).filter(|member| self.in_service[*member]);
        let copies = members.flat_map(|member| parts.iter().map(move |part| Part { member, ..part.clone() }));
        let copies = copies.collect();
        let failed = self.run(Direction::Write, copies);
        self.retire(failed)
    }

    /// Makes completed writes durable on all members in service.
    ///
    /// # Errors
    /// [`DriverError::Member`]; of replicas, only if none succeeds.
    pub fn flush(&mut self) -> Result<(), DriverError> {
        let mut failed = Vec::new();
        for member in (0..self.members.len()).filter(|member| self.in_service[*member]) {
            let Member { namespace, queues, .. } = &mut self.members[member];
            if let Err(error) = queues[0].flush(namespace) {
                failed.push((member, error));
            }
        }
        match self.layout {
            Layout::Replicated => self.retire_members(failed),
            Layout::Striped(_) => match failed.into_iter().next() {
                Some((member, error)) => Err(self.member_error(member, error)),
                None => Ok(()),
            },
        }
    }

    fn retire(&mut self, failed: Vec<(Part, DriverError)>) -> Result<(), DriverError> {
        self.retire_members(failed.into_iter().map(|(part, error)| (part.member, error)).collect())
    }

    /// Takes replicas that missed a write out of service. The last one stays, and the error is the volume's.
    fn retire_members(&mut self, failed: Vec<(usize, DriverError)>) -> Result<(), DriverError> {
        let is_failed = |member: usize| failed.iter().any(|(failed, _)| *failed == member);
        let survives = (0..self.members.len()).any(|member| self.in_service[member] && !is_failed(member));
        for (member, error) in failed {
            if !survives {
                return Err(self.member_error(member, error));
            }
            self.in_service[member] = false;
            self.report(member, error);
        }
        match survives {
            true => Ok(()),
            false => Err(DriverError::Unsupported("no replica is in service".to_owned())),
        }
    }

    fn report(&mut self, member: usize, error: DriverError) {
        // Commands that ended with a status leave the controller sound. Any other failure is the controller's.
        self.in_service[member] &= matches!(error, DriverError::Command { .. });
        log::warn!("volume member {}: {error}", self.members[member].name);
        self.failures.push(MemberFailure {
            member: self.members[member].name.clone(),
            error,
            out_of_service: !self.in_service[member],
        });
    }

    fn member_error(&self, member: usize, error: DriverError) -> DriverError {
        DriverError::Member {
            member: self.members[member].name.clone(),
            source: Box::new(error),
        }
    }

    /// The next replica in service that has not been tried.
    fn replica(&mut self, tried: &[usize]) -> Option<usize> {
        let count = self.members.len();
        let order = (0..count).map(|i| (self.next_replica + i) % count);
        let found = order.into_iter().find(|m| self.in_service[*m] && !tried.contains(m))?;
        self.next_replica = (found + 1) % count;
        Some(found)
    }

    /// Cuts a command into parts for the members.
    fn cut(&mut self, slba: u64, blocks: u32, data: &BusRange) -> Result<Vec<Part>, DriverError> {
        let inside = slba
            .checked_add(u64::from(blocks))
            .is_some_and(|end| end <= self.blocks());
        if blocks == 0 || !inside {
            return Err(DriverError::BlockRange {
                nsid: self.members[0].namespace.nsid,
                slba,
                blocks,
                size: self.blocks(),
            });
        }
        let block_bytes = self.block_bytes();
        if data.length_bytes as u64 != u64::from(blocks) * block_bytes {
            return Err(DriverError::DataLength {
                length_bytes: data.length_bytes,
                blocks,
                block_bytes,
                max_bytes: u64::from(u32::MAX),
            });
        }
        let mut parts = Vec::new();
        let (mut done, count) = (0u32, self.members.len() as u64);
        while done < blocks {
            let at = slba + u64::from(done);
            let (member, place, left) = match self.layout {
                Layout::Striped(unit) => {
                    let unit = u64::from(unit);
                    let (number, within) = (at / unit, at % unit);
                    ((number % count) as usize, number / count * unit + within, unit - within)
                }
                Layout::Replicated => {
                    let none = || DriverError::Unsupported("no replica is in service".to_owned());
                    (self.replica(&[]).ok_or_else(none)?, at, u64::MAX)
                }
            };
            let queues = self.members[member].queues.iter();
            let most = queues.map(QueuePair::max_transfer_bytes).min().unwrap_or(0) / block_bytes;
            let run = left.min(most.clamp(1, 65_536)).min(u64::from(blocks - done)) as u32;
            let (offset, length) = (u64::from(done) * block_bytes, u64::from(run) * block_bytes);
            parts.push(Part {
                member,
                slba: place,
                blocks: run,
                data: data.slice(offset as usize, length as usize),
                tried: Vec::new(),
            });
            done += run;
        }
        Ok(parts)
    }

    /// Runs the parts, and returns those that failed.
    fn run(&mut self, direction: Direction, parts: Vec<Part>) -> Vec<(Part, DriverError)> {
        let mut flights = Flights::default();
        for part in parts {
            let member = part.member;
            let queue = self.next_queue[member] % self.members[member].queues.len();
            self.next_queue[member] = queue + 1;
            let submitted = loop {
                let Member { namespace, queues, .. } = &mut self.members[member];
                let pair = &mut queues[queue];
                let submitted = match direction {
                    Direction::Read => pair.submit_read(namespace, part.slba, part.blocks, &part.data),
                    Direction::Write => pair.submit_write(namespace, part.slba, part.blocks, &part.data),
                };
                match submitted {
                    // A completion of the queue makes room.
                    Err(full @ DriverError::QueueFull { .. }) => {
                        if !flights.reap(pair, (member, queue)) {
                            break Err(full);
                        }
                    }
                    other => break other,
                }
            };
            match submitted {
                Ok(cid) => flights.open.push((member, queue, cid, part)),
                Err(error) => flights.failed.push((part, error)),
            }
        }
        for member in &mut self.members {
            member.queues.iter_mut().for_each(QueuePair::ring);
        }
        while let Some((member, queue, ..)) = flights.open.first() {
            let (member, queue) = (*member, *queue);
            flights.reap(&mut self.members[member].queues[queue], (member, queue));
        }
        flights.failed
    }
}

/// Parts in flight, and those that failed.
#[derive(Default)]
struct Flights {
    /// Member, queue and command id of each.
    open: Vec<(usize, usize, u16, Part)>,
    failed: Vec<(Part, DriverError)>,
}

impl Flights {
    /// Waits for the next completion of a queue. False: the queue has failed, and all its parts with it.
    fn reap(&mut self, pair: &mut QueuePair, place: (usize, usize)) -> bool {
        match pair.wait() {
            Ok(done) => {
                let cid = done.command.cid;
                let found = self.open.iter().position(|(m, q, c, _)| ((*m, *q), *c) == (place, cid));
                // A completion of the queue's former owner has no part.
                if let Some(at) = found {
                    let (.., part) = self.open.swap_remove(at);
                    self.failed.extend(done.result().err().map(|error| (part, error)));
                }
                true
            }
            Err(error) => {
                let mut error = Some(error);
                let lost = self.open.extract_if(.., |(m, q, ..)| (*m, *q) == place);
                for (.., part) in lost {
                    let qid = pair.id();
                    let error = error.take().unwrap_or(DriverError::QueueGone { qid });
                    self.failed.push((part, error));
                }
                false
            }
        }
    }
}
