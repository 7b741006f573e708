//! `Setup`: what all sections share: the GPU, the compiled kernels, the data file, and how a kernel is timed and
//! checked.

use std::cell::OnceCell;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use grampus_cuda::CudaError;
use grampus_cuda::{Args, Device, DeviceBuffer, DeviceFacts, Event, Grid, KernelUse, Module, Stream, compile};
use grampus_driver::storage::Storage;
use grampus_io_stack::abi::{ColumnDesc, IoStack, Stats};
use grampus_io_stack::stack::{Column, Run, Stack, StackOptions};

use crate::bench_options::BenchOptions;
use crate::error::BenchError;
use crate::kernels;
use crate::step_clocks::{self, Phase};

/// Words behind the sum: the number of ended warps, and the clocks' times.
const MORE_WORDS: usize = 1 + step_clocks::SLOTS;
pub(crate) const BLOCK_THREADS: u32 = 256;

pub(crate) struct Setup {
    pub(crate) options: BenchOptions,
    pub(crate) device: Device,
    pub(crate) stream: Stream,
    module: Module,
    /// The kernels of steps.cu with a clock at each step of the protocol.
    clocked: OnceCell<Module>,
    kernels: Vec<KernelUse>,
    out: DeviceBuffer,
    /// As many blocks as fit on the GPU at once.
    pub(crate) blocks: u32,
    /// The data, in device memory.
    pub(crate) plain: DeviceBuffer,
    file: OnceCell<PathBuf>,
}

/// A kernel's best time, and its sum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timed {
    pub(crate) ms: f64,
    pub(crate) sum: u64,
    /// Device code's counters of the last run.
    pub(crate) stats: Stats,
}

impl Timed {
    pub(crate) fn gb_s(&self, bytes: u64) -> f64 {
        bytes as f64 / self.ms / 1e6
    }
    pub(crate) fn m_s(&self, count: u64) -> f64 {
        count as f64 / self.ms / 1e3
    }
}

impl Setup {
    pub(crate) fn new(options: &BenchOptions) -> Result<Self, BenchError> {
        let device = Device::open(0)?;
        let compiled = compile(&kernels::unit(), "bench.cu", device.compute())?;
        let module = Module::load(&device, &compiled.cubin)?;
        let mut options = options.clone();
        if options.small {
            options.bytes = 4 << 20;
        }
        let blocks = if options.small { 8 } else { device.multiprocessors() * 4 };
        let setup = Self {
            stream: Stream::new(&device)?,
            out: DeviceBuffer::filled(&device, 8 + MORE_WORDS * 8, 0)?,
            plain: DeviceBuffer::new(&device, options.bytes as usize)?,
            kernels: compiled.kernels,
            blocks,
            module,
            clocked: OnceCell::new(),
            file: OnceCell::new(),
            options,
            device,
        };
        let args = Args::new().with(setup.plain.address()).with(setup.rows());
        setup.launch("fill_words", args)?;
        Ok(setup)
    }

    /// Launches a kernel without a sum.
    pub(crate) fn launch(&self, kernel: &str, mut args: Args) -> Result<(), BenchError> {
        let run = self.module.kernel(kernel)?;
        run.launch(&self.stream, self.blocks, BLOCK_THREADS, &mut args)?;
        Ok(self.stream.synchronize()?)
    }

    pub(crate) fn facts(&self) -> Result<DeviceFacts, CudaError> {
        self.device.facts()
    }

    pub(crate) fn kernels(&self) -> &[KernelUse] {
        &self.kernels
    }

    /// Number of 8-byte words of the data.
    pub(crate) fn rows(&self) -> u64 {
        self.options.bytes / 8
    }

    /// `large`, or `small` in a run of tiny sizes.
    pub(crate) fn size(&self, large: u64, small: u64) -> u64 {
        if self.options.small { small } else { large }
    }

    /// The data file, written at the first call and synced to disk.
    pub(crate) fn file(&self) -> Result<PathBuf, BenchError> {
        if let Some(path) = self.file.get() {
            return Ok(path.clone());
        }
        let path = self
            .options
            .folder
            .join(format!("grampus-bench-{}.words", std::process::id()));
        let mut file = File::create(&path)?;
        let _ = self.file.set(path.clone());
        let chunk = 64usize << 20;
        for at in (0..self.plain.len()).step_by(chunk) {
            let bytes: Vec<u8> = self.plain.read(at, chunk.min(self.plain.len() - at))?;
            file.write_all(&bytes)?;
        }
        file.sync_all()?;
        Ok(path)
    }

    /// The best of `repeats` runs; compares each run's sum with the first one's.
    pub(crate) fn time(
        &self,
        kernel: &str,
        blocks: u32,
        args: impl Fn() -> Args,
        repeats: u32,
    ) -> Result<Timed, BenchError> {
        self.time_of(&self.module, kernel, blocks, args, repeats)
    }

    fn time_of(
        &self,
        module: &Module,
        kernel: &str,
        blocks: u32,
        args: impl Fn() -> Args,
        repeats: u32,
    ) -> Result<Timed, BenchError> {
        let run = module.kernel(kernel)?;
        let mut best: Option<Timed> = None;
        for _ in 0..repeats {
            self.out.fill(0)?;
            let (begin, end) = (Event::new(&self.device, true)?, Event::new(&self.device, true)?);
            begin.record(&self.stream)?;
            let grid = Grid {
                blocks,
                threads: BLOCK_THREADS,
                shared_bytes: 0,
            };
            run.launch_waiting(&self.stream, grid, &mut args().with(self.out.address()))?;
            end.record(&self.stream)?;
            self.stream.synchronize()?;
            let ms = end.ms_since(&begin)?;
            let sum = self.out.read::<u64>(0, 1)?[0];
            if let Some(other) = best
                && other.sum != sum
            {
                return Err(wrong(
                    kernel,
                    format!("one run added up to {sum:#x}, another to {:#x}", other.sum),
                ));
            }
            best = Some(Timed {
                ms: best.map_or(ms, |b| b.ms.min(ms)),
                sum,
                stats: Stats::default(),
            });
        }
        best.ok_or_else(|| wrong(kernel, "never run".to_owned()))
    }

    /// Times a plain kernel over `data` (a device address).
    pub(crate) fn plain(&self, kernel: &str, data: u64, n: u64, repeats: u32) -> Result<Timed, BenchError> {
        let args = || Args::new().with(data).with(self.rows()).with(n);
        self.time(kernel, self.blocks, args, repeats)
    }

    /// Times a kernel over a column array; a status that the kernel raised is an error.
    pub(crate) fn on_stack(
        &self,
        bed: &Bed,
        kernel: &str,
        blocks: u32,
        n: u64,
        repeats: u32,
    ) -> Result<Timed, BenchError> {
        bed.stack.begin_for(u64::from(blocks) * u64::from(BLOCK_THREADS / 32))?;
        self.on_begun_stack(bed, kernel, blocks, n, repeats)
    }

    /// Like `on_stack`, after a `begin` of the caller's choice.
    pub(crate) fn on_begun_stack(
        &self,
        bed: &Bed,
        kernel: &str,
        blocks: u32,
        n: u64,
        repeats: u32,
    ) -> Result<Timed, BenchError> {
        let io: IoStack = bed.stack.io();
        let column: ColumnDesc = bed.column.desc();
        let args = || Args::new().with(io).with(column).with(self.rows()).with(n);
        let timed = self.time(kernel, blocks, args, repeats);
        let stats = bed.stack.finish()?;
        timed.map(|t| Timed { stats, ..t })
    }

    /// Like `on_stack`, with an empty cache before each of `repeats` runs: the best of them.
    pub(crate) fn cold(&self, bed: &Bed, kernel: &str, blocks: u32, n: u64, repeats: u32) -> Result<Timed, BenchError> {
        let mut best: Option<Timed> = None;
        for _ in 0..repeats.max(1) {
            bed.stack.empty_cache()?;
            let run = self.on_stack(bed, kernel, blocks, n, 1)?;
            if best.is_none_or(|b| run.ms < b.ms) {
                best = Some(run);
            }
        }
        best.ok_or_else(|| wrong(kernel, "never run".to_owned()))
    }

    /// Times a kernel of steps.cu over an empty cache. `more` appends the arguments behind stack and column. `servers`
    /// of its warps serve.
    pub(crate) fn steps(
        &self,
        bed: &Bed,
        kernel: &str,
        blocks: u32,
        servers: u32,
        more: impl Fn(Args) -> Args,
    ) -> Result<Timed, BenchError> {
        self.steps_of(&self.module, bed, kernel, blocks, servers, more)
    }

    /// Like `steps`, with clocks: also returns the microseconds before each step of the protocol, summed over all
    /// computing warps.
    pub(crate) fn clocked_steps(
        &self,
        bed: &Bed,
        kernel: &str,
        blocks: u32,
        servers: u32,
        more: impl Fn(Args) -> Args,
    ) -> Result<(Timed, Vec<Phase>), BenchError> {
        if self.clocked.get().is_none() {
            let compiled = compile(&kernels::clocked_unit(), "steps.cu", self.device.compute())?;
            let _ = self.clocked.set(Module::load(&self.device, &compiled.cubin)?);
        }
        let module = self.clocked.get().unwrap_or(&self.module);
        let run = self.steps_of(module, bed, kernel, blocks, servers, more)?;
        let words = self.out.read::<u64>(16, step_clocks::SLOTS)?;
        Ok((run, step_clocks::found(kernels::STEPS, &words)))
    }

    fn steps_of(
        &self,
        module: &Module,
        bed: &Bed,
        kernel: &str,
        blocks: u32,
        servers: u32,
        more: impl Fn(Args) -> Args,
    ) -> Result<Timed, BenchError> {
        bed.stack.empty_cache()?;
        bed.stack.begin_for(u64::from(blocks) * u64::from(BLOCK_THREADS / 32))?;
        let io = IoStack {
            servers,
            ..bed.stack.io()
        };
        let column: ColumnDesc = bed.column.desc();
        let args = || more(Args::new().with(io).with(column).with(self.rows()));
        let timed = self.time_of(module, kernel, blocks, args, 1);
        let stats = bed.stack.finish()?;
        timed.map(|t| Timed { stats, ..t })
    }

    /// A stack over one storage, and its words as one column.
    pub(crate) fn bed(&self, storage: Arc<dyn Storage>, options: StackOptions, mapped: u64) -> Result<Bed, BenchError> {
        let stack = Stack::new(&self.device, vec![storage], options, &[])?;
        let run = Run {
            source: 0,
            byte: 0,
            rows: self.rows(),
            mapped,
        };
        let column = stack.column(8, &[run])?;
        Ok(Bed { stack, column })
    }

    /// Compares every word of the column with its position, by the named kernel.
    pub(crate) fn compare(&self, bed: &Bed, kernel: &str) -> Result<(), BenchError> {
        match self.on_stack(bed, kernel, self.blocks, 0, 1)?.sum {
            0 => Ok(()),
            words => Err(wrong(kernel, format!("{words} words are not what their addresses say"))),
        }
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        if let Some(path) = self.file.get() {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A stack and its column.
pub(crate) struct Bed {
    pub(crate) column: Column,
    pub(crate) stack: Stack,
}

pub(crate) fn wrong(name: &str, what: String) -> BenchError {
    BenchError::Wrong {
        name: name.to_owned(),
        what,
    }
}

/// Rejects a sum that differs from the plain kernel's.
pub(crate) fn same(name: &str, found: Timed, expected: Timed) -> Result<(), BenchError> {
    if found.sum == expected.sum {
        return Ok(());
    }
    Err(wrong(
        name,
        format!("the words read add up to {:#x}, not {:#x}", found.sum, expected.sum),
    ))
}
