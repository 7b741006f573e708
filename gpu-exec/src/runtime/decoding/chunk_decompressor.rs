//! `ChunkDecompressor`: decompression of chunks that were copied to the device. Nothing else knows what decompresses.
//!
//! - Kernels of this crate take their codecs, and all original chunks.
//! - nvCOMP takes the other codecs, or all codecs if the request prefers nvCOMP. Its memory is taken once, for the
//!   largest of the chunks.

use std::sync::Arc;
use std::time::Duration;

use grampus_cuda::{Args, CudaError, DeviceBuffer, Module};
use grampus_io_stack::abi::bytes_of;
use grampus_orc_layout::codec::Codec;

use crate::abi::decompress::DecompressLaunch;
use crate::decompress::ChunkKernel;
use crate::decompress::chunk_table::{ChunkTable, launches};
use crate::decompress::library::LibraryCalls;
use crate::kernel_cache::{Loaded, Origin};
use crate::options::Decompressor;
use crate::runtime::decoding::decode_context::DecodeContext;

/// The decompressors of some tables of chunks.
pub(crate) struct ChunkDecompressor<'a> {
    context: DecodeContext<'a>,
    failed: u64,
    /// The kernels of this crate that chunks need.
    own: Vec<(ChunkKernel, Arc<Module>)>,
    /// nvCOMP with the kernels around it, by codec.
    library: Vec<(Codec, LibraryCalls<'a>, Arc<Module>)>,
    /// Time to load or compile kernels that were not in memory.
    pub(crate) compile: Duration,
}

/// Kernels and memory that work in flight uses.
#[derive(Debug)]
pub(crate) struct InUse {
    _modules: Vec<Arc<Module>>,
    _memory: Vec<Arc<DeviceBuffer>>,
}

impl<'a> ChunkDecompressor<'a> {
    /// Decompressors for chunks like those of `tables`. `failed`: device address of the word in which the label of a
    /// chunk is noted that cannot be decompressed.
    pub(crate) fn new(context: DecodeContext<'a>, tables: &[ChunkTable], failed: u64) -> Result<Self, CudaError> {
        let mut decompressor = Self {
            context,
            failed,
            own: Vec::new(),
            library: Vec::new(),
            compile: Duration::ZERO,
        };
        for codec in [Codec::Snappy, Codec::Lz4, Codec::Zstd, Codec::Zlib] {
            if let Some(Decompressor::Library(library)) = context.decompression.of(codec) {
                let of_codec = |table: &&ChunkTable| table.codec == codec && table.compressed > 0;
                let tables: Vec<ChunkTable> = tables.iter().filter(of_codec).copied().collect();
                if let Some(calls) = LibraryCalls::new(library, context.device, context.library_memory, &tables)? {
                    let module = decompressor.loaded(context.kernels.around_library()?);
                    decompressor.library.push((codec, calls, module));
                }
            }
        }
        for kernel in ChunkKernel::ALL {
            if tables.iter().any(|table| decompressor.by_kernel(kernel, table).1 > 0) {
                let module = decompressor.loaded(context.kernels.decompressing(kernel)?);
                decompressor.own.push((kernel, module));
            }
        }
        Ok(decompressor)
    }

    /// The module of a kernel, whose time counts.
    fn loaded(&mut self, loaded: Loaded) -> Arc<Module> {
        if loaded.origin != Origin::Memory {
            self.compile += loaded.took;
        }
        loaded.module
    }

    /// The chunks of a table that a kernel takes. One takes the original chunks beside nvCOMP's, and refuses codecs
    /// without a decompressor.
    fn by_kernel(&self, kernel: ChunkKernel, table: &ChunkTable) -> (u64, usize) {
        let is_library = self.library.iter().any(|(codec, ..)| *codec == table.codec);
        let (own, chunks) = match ChunkKernel::of(table.codec).filter(|_| !is_library) {
            Some(own) => (own, table.all()),
            None if is_library => (ChunkKernel::Elements, table.originals()),
            None => (ChunkKernel::Elements, table.all()),
        };
        if own == kernel { chunks } else { (0, 0) }
    }

    /// Decompresses the chunks of tables, in the order of the stream.
    pub(crate) fn decompress(&self, tables: &[ChunkTable]) -> Result<(), CudaError> {
        let stream = self.context.stream;
        for (codec, calls, module) in &self.library {
            let of_codec = tables.iter().filter(|table| table.codec == *codec);
            let chunks = of_codec.map(ChunkTable::compressed);
            calls.decompress(stream, module, chunks, self.failed, 0)?;
        }
        for (which, module) in &self.own {
            let kernel = module.kernel(which.entry())?;
            let chunks = tables.iter().map(|table| self.by_kernel(*which, table));
            for batch in launches(chunks, usize::MAX) {
                let launch = DecompressLaunch {
                    failed: self.failed,
                    results: 0,
                    jobs: batch.jobs.len() as u32,
                    chunks: batch.chunks,
                    job: batch.array(),
                };
                let threads = which.block_threads();
                let blocks = self.context.blocks_of_warps(&kernel, threads, batch.chunks)?;
                let mut args = Args::new().with_bytes(&bytes_of(&launch));
                kernel.launch(stream, blocks, threads, &mut args)?;
            }
        }
        Ok(())
    }

    /// What must live until the stream has decompressed everything.
    pub(crate) fn in_use(&self) -> InUse {
        let around_library = self.library.iter().map(|(_, _, module)| module);
        InUse {
            _modules: around_library
                .chain(self.own.iter().map(|(_, module)| module))
                .cloned()
                .collect(),
            _memory: self.library.iter().filter_map(|(_, calls, _)| calls.memory()).collect(),
        }
    }
}
