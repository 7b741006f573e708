//! `Worker`: one controller thread: doorbells → commands → storage reads → uploads → completions, round after round
//! without blocking.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::QueueSetup;
use super::block_commands;
use super::namespace::Namespace;
use super::queue::Queue;
use super::shared::{ControllerCounters, Mode, Shared};
use super::slab::Slab;
use super::target::{self, Target};
use super::transfer::{Transfer, Work, decode, pieces};
use crate::bus::{BusMemory, Uploader};
use crate::raw::HostMemory;
use crate::spec::{PrpSegment, Status, StatusCode};
use crate::storage::{ReadDone, ReadRequest};

/// Commands taken from one queue before the thread looks at the next queue.
const BURST: usize = 64;
/// A storage that copies takes longer for so many bytes than everything else in a round. Finished reads are therefore
/// passed on before more are started. The link has work, and a returned staging buffer is filled while the CPU's caches
/// hold it.
const LARGE_BYTES: u64 = 256 << 10;
/// Empty rounds before the thread yields, and before it sleeps between rounds.
const SPIN_ROUNDS: u32 = 2_000;
const YIELD_ROUNDS: u32 = 20_000;
const IDLE_SLEEP: Duration = Duration::from_micros(50);
/// Empty rounds, some seconds of them, before the thread waits to be woken. It looks by itself now and then all the
/// same.
const DOZE_ROUNDS: u32 = 40_000;
const DOZE: Duration = Duration::from_millis(100);

/// A command in flight.
struct Command {
    queue: usize,
    cid: u16,
    /// Number of unfinished pieces.
    pieces: u32,
    status: Status,
}

/// A piece of a command: one contiguous transfer, at most a staging buffer long.
struct Piece {
    command: u32,
    target: usize,
    offset_bytes: u64,
    to: PrpSegment,
}

impl Piece {
    fn is_large(&self) -> bool {
        self.to.length_bytes >= LARGE_BYTES
    }
}

/// The read or upload in flight that a token stands for.
struct Out {
    command: u32,
    /// For a read into a staging buffer: the address to which it is uploaded.
    upload_to: Option<u64>,
    bytes: u64,
}

pub(crate) struct Worker {
    queues: Vec<Queue>,
    /// Never shortened: pieces refer to their target by position.
    targets: Vec<Target>,
    /// The namespaces of the targets.
    namespaces: Arc<Vec<Namespace>>,
    depth: u32,
    bus: Arc<dyn BusMemory>,
    uploader: Option<Box<dyn Uploader>>,
    commands: Slab<Command>,
    outs: Slab<Out>,
    /// Pieces that found no staging buffer or a full channel, oldest first.
    waiting: VecDeque<Piece>,
    /// Number of copies to device memory in flight.
    uploading: usize,
    /// Completions that found their ring full, by queue. A queue with untaken completions must not delay those of
    /// others: the warps that would take them may be waiting for exactly those.
    unposted: Vec<VecDeque<(u16, Status)>>,
    /// Number of all of these.
    unposted_count: usize,
    reads: Vec<ReadDone>,
    uploads: Vec<(u64, Result<(), String>)>,
    counted: ControllerCounters,
    shared: Arc<Shared>,
}

impl Worker {
    pub(crate) fn new(
        queues: Vec<QueueSetup>,
        namespaces: &Arc<Vec<Namespace>>,
        bus: Arc<dyn BusMemory>,
        depth: u32,
        shared: Arc<Shared>,
    ) -> Result<Self, String> {
        let targets = namespaces.iter().map(|n| Target::open(n, depth));
        let targets = targets.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            unposted: queues.iter().map(|_| VecDeque::new()).collect(),
            unposted_count: 0,
            queues: queues.into_iter().map(|q| Queue::new(q.rings, q.qid)).collect(),
            targets,
            namespaces: namespaces.clone(),
            depth,
            uploader: bus.uploader()?,
            bus,
            commands: Slab::default(),
            outs: Slab::default(),
            waiting: VecDeque::new(),
            uploading: 0,
            reads: Vec::new(),
            uploads: Vec::new(),
            counted: ControllerCounters::default(),
            shared,
        })
    }

    /// Runs until the controller stops.
    pub(crate) fn run(mut self) {
        let mut epoch = u64::MAX;
        let mut mode = Mode::Rest;
        let mut idle = 0u32;
        loop {
            let now = self.shared.epoch.load(Ordering::Acquire);
            if now != epoch {
                let control = self.shared.control();
                (epoch, mode) = (control.epoch, control.mode);
                let namespaces = control.namespaces.clone();
                drop(control);
                self.answer_for(namespaces);
                idle = 0;
            }
            let mut busy = match mode {
                Mode::Run => self.take_commands(),
                Mode::Rest | Mode::Stop => false,
            };
            busy |= self.advance();
            if mode != Mode::Run && self.is_quiet() {
                if !self.rest(epoch) {
                    return;
                }
                continue;
            }
            idle = if busy { 0 } else { idle.saturating_add(1) };
            self.pause(idle, epoch);
        }
    }

    /// Opens and closes targets for changed namespaces, and reports back.
    fn answer_for(&mut self, namespaces: Arc<Vec<Namespace>>) {
        if Arc::ptr_eq(&self.namespaces, &namespaces) {
            return;
        }
        let refused = target::change(&mut self.targets, &namespaces, self.depth);
        self.namespaces = namespaces;
        let mut control = self.shared.control();
        if Arc::ptr_eq(&control.namespaces, &self.namespaces) {
            control.informed += 1;
            control.refused = control.refused.take().or(refused);
            self.shared.changed.notify_all();
        }
    }

    /// Reports that nothing is in flight and waits for another mode; false: stop.
    fn rest(&mut self, epoch: u64) -> bool {
        self.publish_counters();
        self.queues.iter_mut().for_each(Queue::reset);
        self.commands = Slab::default();
        self.outs = Slab::default();
        self.unposted.iter_mut().for_each(VecDeque::clear);
        self.unposted_count = 0;
        let shared = self.shared.clone();
        let mut control = shared.control();
        if control.epoch == epoch {
            control.resting += 1;
            shared.changed.notify_all();
            if control.mode == Mode::Stop {
                return false;
            }
        }
        while control.epoch == epoch {
            control = shared
                .changed
                .wait(control)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        true
    }

    fn pause(&mut self, idle: u32, epoch: u64) {
        match idle {
            0..SPIN_ROUNDS => std::hint::spin_loop(),
            SPIN_ROUNDS..YIELD_ROUNDS => {
                if idle == SPIN_ROUNDS {
                    self.publish_counters();
                }
                std::thread::yield_now();
            }
            YIELD_ROUNDS..DOZE_ROUNDS => std::thread::sleep(IDLE_SLEEP),
            _ => {
                let control = self.shared.control();
                if control.epoch == epoch {
                    drop(self.shared.changed.wait_timeout(control, DOZE));
                }
            }
        }
    }

    fn publish_counters(&mut self) {
        self.shared.counters.add(&std::mem::take(&mut self.counted));
    }

    /// True if this thread no longer writes to any memory. A command that a storage has dropped does not count: no
    /// agent writes for it, and the host no longer waits for it.
    fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.uploading == 0 && self.targets.iter().all(|t| t.in_flight() == 0)
    }

    fn take_commands(&mut self) -> bool {
        let mut busy = false;
        for queue in 0..self.queues.len() {
            for _ in 0..BURST {
                let entry = match self.queues[queue].take() {
                    Ok(Some(entry)) => entry,
                    Ok(None) => break,
                    Err(tail) => {
                        let qid = self.queues[queue].qid();
                        self.shared
                            .report(format!("queue {qid}: doorbell holds {tail}, which is outside the ring"));
                        break;
                    }
                };
                busy = true;
                self.counted.commands += 1;
                let target = self
                    .targets
                    .iter()
                    .position(|t| t.nsid == entry.nsid && t.channel.is_some());
                let limit = self.shared.max_transfer_bytes.load(Ordering::Relaxed);
                let extent = target.map(|t| self.targets[t].extent(limit));
                let work = decode(&entry, extent, &*self.bus);
                self.count(&work);
                match (work, target) {
                    (Ok(Work::Read(transfer)), Some(target)) => {
                        if self.begin(queue, entry.cid, target, transfer) {
                            self.advance();
                        }
                    }
                    (Ok(work), target) => {
                        let status = self.store(target, &work);
                        self.post(queue, entry.cid, status);
                    }
                    (Err(status), _) => self.post(queue, entry.cid, status),
                }
            }
        }
        busy
    }

    fn count(&mut self, work: &Result<Work, Status>) {
        let counted = &mut self.counted;
        match work {
            Ok(Work::Read(transfer)) => {
                counted.reads += 1;
                counted.bytes_read += transfer.length_bytes;
            }
            Ok(Work::Write(transfer)) => {
                counted.writes += 1;
                counted.bytes_written += transfer.length_bytes;
            }
            _ => {}
        }
        if self.shared.counts_first.load(Ordering::Relaxed) {
            self.publish_counters();
        }
    }

    /// Carries out a command that does not read.
    fn store(&self, target: Option<usize>, work: &Work) -> Status {
        let writer = target.and_then(|t| self.targets[t].writer.as_deref());
        match block_commands::store(writer, &*self.bus, work) {
            Ok(()) => Status::SUCCESS,
            Err((status, reason)) => {
                reason.into_iter().for_each(|reason| self.shared.report(reason));
                status
            }
        }
    }

    /// Begins the reads of a command. True: a [large](LARGE_BYTES) read was started.
    fn begin(&mut self, queue: usize, cid: u16, target: usize, transfer: Transfer) -> bool {
        let limit = self.uploader.as_ref().map_or(u64::MAX, |p| p.staging_bytes() as u64);
        let command = self.commands.insert(Command {
            queue,
            cid,
            pieces: 0,
            status: Status::SUCCESS,
        });
        let mut offset_bytes = transfer.offset_bytes;
        let mut todo = Vec::with_capacity(transfer.segments.len());
        for segment in transfer.segments {
            for to in pieces(segment, limit) {
                todo.push(Piece {
                    command,
                    target,
                    offset_bytes,
                    to,
                });
                offset_bytes += to.length_bytes;
            }
        }
        if let Some(c) = self.commands.get_mut(command) {
            c.pieces = todo.len() as u32;
        }
        let mut large = false;
        for piece in todo {
            // Pieces behind a large one wait for their turn as well.
            let now = self.waiting.is_empty() && !large;
            large |= now && piece.is_large();
            if let Some(piece) = if now { self.start(piece) } else { Some(piece) } {
                self.waiting.push_back(piece);
            }
        }
        large
    }

    /// Starts a piece's read; returns the piece if no buffer or channel has space.
    fn start(&mut self, piece: Piece) -> Option<Piece> {
        let length = piece.to.length_bytes;
        let (memory, upload_to) = match self.bus.host_memory(piece.to.bus_address, length) {
            Some(memory) => (memory, None),
            None => match &mut self.uploader {
                Some(uploader) => match uploader.staging(length as usize) {
                    Some(staged) => (staged, Some(piece.to.bus_address)),
                    None => return Some(piece),
                },
                None => {
                    self.fail(piece.command, StatusCode::DataTransferError);
                    return None;
                }
            },
        };
        let token = self.outs.insert(Out {
            command: piece.command,
            upload_to,
            bytes: length,
        });
        let request = ReadRequest {
            token: u64::from(token),
            offset_bytes: piece.offset_bytes,
            memory,
        };
        let Some(channel) = &mut self.targets[piece.target].channel else {
            self.outs.remove(token);
            self.give_back(request.memory, upload_to);
            self.fail(piece.command, StatusCode::InvalidNamespace);
            return None;
        };
        match channel.start(request) {
            Ok(()) => None,
            Err(request) => {
                self.outs.remove(token);
                self.give_back(request.memory, upload_to);
                Some(piece)
            }
        }
    }

    /// Returns staging buffers to the uploader; other memory belongs to the host side again.
    fn give_back(&mut self, memory: HostMemory, upload_to: Option<u64>) {
        if let (Some(uploader), Some(_)) = (&mut self.uploader, upload_to) {
            uploader.release(memory);
        }
    }

    fn fail(&mut self, command: u32, code: StatusCode) {
        if let Some(c) = self.commands.get_mut(command) {
            c.status = Status::new(code, false);
        }
        self.piece_done(command);
    }

    fn piece_done(&mut self, command: u32) {
        let Some(c) = self.commands.get_mut(command) else {
            return;
        };
        c.pieces -= 1;
        if c.pieces == 0 {
            let (queue, cid, status) = (c.queue, c.cid, c.status);
            self.commands.remove(command);
            self.post(queue, cid, status);
        }
    }

    fn post(&mut self, queue: usize, cid: u16, status: Status) {
        self.counted.errors += u64::from(!status.is_success());
        if !self.unposted[queue].is_empty() || !self.queues[queue].complete(cid, status) {
            self.unposted[queue].push_back((cid, status));
            self.unposted_count += 1;
        }
    }

    /// Posts completions that had found their ring full, if it has space.
    fn post_again(&mut self) -> bool {
        let before = self.unposted_count;
        for (queue, unposted) in self.queues.iter_mut().zip(&mut self.unposted) {
            while let Some(&(cid, status)) = unposted.front()
                && queue.complete(cid, status)
            {
                unposted.pop_front();
                self.unposted_count -= 1;
            }
        }
        self.unposted_count < before
    }

    /// Advances everything that can advance.
    fn advance(&mut self) -> bool {
        let mut busy = false;
        if self.unposted_count > 0 {
            busy |= self.post_again();
        }
        for channel in self.targets.iter_mut().filter_map(|t| t.channel.as_mut()) {
            channel.poll(&mut self.reads);
        }
        let mut reads = std::mem::take(&mut self.reads);
        for read in reads.drain(..) {
            busy = true;
            self.read_done(read);
        }
        self.reads = reads;
        busy |= self.poll_uploads();
        while let Some(piece) = self.waiting.pop_front() {
            let large = piece.is_large();
            if let Some(piece) = self.start(piece) {
                self.waiting.push_front(piece);
                break;
            }
            busy = true;
            if large {
                break;
            }
        }
        busy
    }

    fn poll_uploads(&mut self) -> bool {
        let Some(uploader) = &mut self.uploader else {
            return false;
        };
        uploader.poll(&mut self.uploads);
        let mut uploads = std::mem::take(&mut self.uploads);
        let busy = !uploads.is_empty();
        self.uploading -= uploads.len();
        for (token, result) in uploads.drain(..) {
            let Some(out) = self.outs.remove(token as u32) else {
                continue;
            };
            match result {
                Ok(()) => self.piece_done(out.command),
                Err(e) => {
                    self.shared
                        .report(format!("copying {} bytes to device memory: {e}", out.bytes));
                    self.fail(out.command, StatusCode::DataTransferError);
                }
            }
        }
        self.uploads = uploads;
        busy
    }

    fn read_done(&mut self, read: ReadDone) {
        let token = read.token as u32;
        let Some(out) = self.outs.get_mut(token) else { return };
        let (command, upload_to) = (out.command, out.upload_to);
        match (read.result, upload_to, &mut self.uploader) {
            (Ok(()), Some(to), Some(uploader)) => {
                self.uploading += 1;
                uploader.upload(u64::from(token), read.memory, to);
            }
            (Ok(()), _, _) => {
                self.outs.remove(token);
                self.piece_done(command);
            }
            (Err(e), _, _) => {
                self.outs.remove(token);
                self.give_back(read.memory, upload_to);
                self.shared.report(e.to_string());
                self.fail(command, e.code);
            }
        }
    }
}
