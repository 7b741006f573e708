//! `VectorAdd`: the sum of two columns stored to a third one, in files larger than the cache. Kernels, launches and the
//! comparison with the CPU's sum; for the benchmark, the example, and tests.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use grampus_cuda::{Args, Device, DeviceBuffer, Grid, Module, Stream, compile_for};
use grampus_driver::storage::{MappedFile, Storage, WritableFile};
use grampus_io_stack::abi::{IoStack, Stats};
use grampus_io_stack::device_headers;
use grampus_io_stack::stack::{Column, Run, Stack, StackOptions};

use crate::error::BenchError;

/// The kernels, without the device headers.
const KERNELS: &str = include_str!("../device/vector_add.cu");

/// The unit of the kernels, as it is compiled.
pub fn unit() -> String {
    device_headers::writable_prelude() + "#line 1 \"vector_add.cu\"\n" + KERNELS
}

/// The value of a row of the first or of the second file.
pub fn value(file: u64, row: u64) -> u64 {
    let z = (row + file * 0x51_7CC1 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// The sum of a row.
pub fn sum(row: u64) -> u64 {
    value(0, row).wrapping_add(value(1, row))
}

/// Three files of `rows` values, in a folder: two filled, one with zeros.
#[derive(Debug)]
pub struct VectorFiles {
    paths: [PathBuf; 3],
    rows: u64,
}

impl VectorFiles {
    /// Writes the files.
    ///
    /// # Errors
    /// The operating system's.
    pub fn create(folder: &Path, rows: u64) -> io::Result<Self> {
        let paths = ["a", "b", "c"].map(|name| folder.join(format!("vector-{name}")));
        for (file, path) in paths.iter().enumerate() {
            let mut out = io::BufWriter::with_capacity(1 << 20, File::create(path)?);
            for row in 0..rows {
                let word = if file < 2 { value(file as u64, row) } else { 0 };
                out.write_all(&word.to_le_bytes())?;
            }
            out.flush()?;
        }
        Ok(Self { paths, rows })
    }

    /// The storages: the third one takes writes.
    ///
    /// # Errors
    /// The operating system's.
    pub fn storages(&self) -> io::Result<Vec<Arc<dyn Storage>>> {
        let [a, b, c] = &self.paths;
        Ok(vec![
            Arc::new(MappedFile::open(a)?),
            Arc::new(MappedFile::open(b)?),
            Arc::new(WritableFile::open(c)?),
        ])
    }

    /// Number of rows of the third file that have not their value.
    ///
    /// # Errors
    /// The operating system's.
    pub fn wrong_rows(&self, value: impl Fn(u64) -> u64) -> io::Result<u64> {
        let mut file = io::BufReader::with_capacity(1 << 20, File::open(&self.paths[2])?);
        let (mut wrong, mut word) = (0, [0; 8]);
        for row in 0..self.rows {
            file.read_exact(&mut word)?;
            wrong += u64::from(u64::from_le_bytes(word) != value(row));
        }
        Ok(wrong)
    }
}

/// A stack over three storages, and the kernels.
#[derive(Debug)]
pub struct VectorAdd {
    /// The stack. Its storages 0 and 1 are added up into storage 2.
    pub stack: Stack,
    kernels: Arc<Module>,
    stream: Stream,
    columns: [Column; 3],
    /// Number of warps that have flushed, and the sum that `read_tiles` has read.
    words: DeviceBuffer,
    rows: u64,
    is_host: bool,
}

impl VectorAdd {
    /// Compiles the kernels for a device.
    ///
    /// # Errors
    /// No compiler, or a failed call.
    pub fn kernels(device: &Device) -> Result<Arc<Module>, BenchError> {
        let compiled = compile_for(device, &unit(), "vector_add")?;
        Ok(Arc::new(Module::load(device, &compiled.cubin)?))
    }

    /// Builds a stack, and describes `rows` values of each storage.
    ///
    /// # Errors
    /// Out of memory; a storage that is too short.
    pub fn new(
        device: &Device,
        kernels: Arc<Module>,
        storages: Vec<Arc<dyn Storage>>,
        options: StackOptions,
        rows: u64,
    ) -> Result<Self, BenchError> {
        Self::over(Stack::writable(device, storages, options, &[])?, device, kernels, rows)
    }

    /// The same over a stack that takes stores, of three storages.
    ///
    /// # Errors
    /// Out of memory; a storage that is too short.
    pub fn over(stack: Stack, device: &Device, kernels: Arc<Module>, rows: u64) -> Result<Self, BenchError> {
        let column = |source| {
            let run = Run {
                source,
                byte: 0,
                rows,
                mapped: 0,
            };
            stack.column(8, &[run])
        };
        Ok(Self {
            columns: [column(0)?, column(1)?, column(2)?],
            kernels,
            stream: Stream::new(device)?,
            words: DeviceBuffer::filled(device, 16, 0)?,
            stack,
            rows,
            is_host: device.is_host(),
        })
    }

    /// Launches a kernel of at most `warps` warps, in blocks of up to 8, and waits. Returns its time and device code's
    /// counters.
    ///
    /// # Errors
    /// The status that the kernel raised; a failed call.
    pub fn launch(&self, kernel: &str, warps: u32) -> Result<(Duration, Stats), BenchError> {
        // On host threads a block is one warp.
        let (blocks, warps_of_block) = match self.is_host {
            true => (warps, 1),
            false => ((warps / 8).max(1), warps.min(8)),
        };
        self.stack.begin_for(u64::from(blocks * warps_of_block))?;
        self.words.fill(0)?;
        let mut bytes = grampus_io_stack::abi::bytes_of::<IoStack>(&self.stack.io());
        for column in &self.columns {
            bytes.extend(grampus_io_stack::abi::bytes_of(&column.desc()));
        }
        bytes.extend(self.rows.to_le_bytes());
        bytes.extend(self.words.address().to_le_bytes());
        bytes.extend((self.words.address() + 8).to_le_bytes());
        bytes.extend(0u64.to_le_bytes());
        let kernel = self.kernels.kernel(kernel)?;
        let began = Instant::now();
        let mut args = Args::new().with_bytes(&bytes);
        let grid = Grid {
            blocks,
            threads: 32 * warps_of_block,
            shared_bytes: 0,
        };
        kernel.launch_waiting(&self.stream, grid, &mut args)?;
        self.stream.synchronize()?;
        let took = began.elapsed();
        Ok((took, self.stack.finish()?))
    }

    /// Rejects the sum of a launch of `read_tiles` if it is not that of both files.
    ///
    /// # Errors
    /// [`BenchError::Wrong`]; a failed call.
    pub fn check_total(&self) -> Result<(), BenchError> {
        let (found, expected) = (
            self.words.read::<u64>(8, 1)?[0],
            (0..self.rows).map(sum).fold(0, u64::wrapping_add),
        );
        match found == expected {
            true => Ok(()),
            false => Err(BenchError::Wrong {
                name: "read_tiles".to_owned(),
                what: format!("the values add up to {found:#x}, not {expected:#x}"),
            }),
        }
    }
}
