//! `ChunkDecompressor`: decompression of chunks that were copied to the device. Nothing else knows what decompresses.
//!
//! - The kernel of this crate takes the codecs that it knows, and all original chunks.
//! - nvCOMP takes the others, or all codecs if the request prefers nvCOMP. Its memory is taken once, for the largest
//!   of the chunks.

use std::sync::Arc;
use std::time::Duration;

use grampus_cuda::{Args, CudaError, DeviceBuffer, Module};
use grampus_io_stack::abi::bytes_of;
use grampus_orc_layout::codec::Codec;

use crate::abi::decompress::DecompressLaunch;
use crate::codegen::BLOCK_THREADS;
use crate::decompress;
use crate::decompress::chunk_table::{ChunkTable, launches};
use crate::decompress::library::LibraryCalls;
use crate::kernel_cache::{Loaded, Origin};
use crate::options::Decompressor;
use crate::runtime::decoding::decode_context::DecodeContext;

/// The decompressors of some tables of chunks.
pub(crate) struct ChunkDecompressor<'a> {
    context: DecodeContext<'a>,
    failed: u64,
    /// The kernel of this crate, if a chunk needs it.
    own: Option<Arc<Module>>,
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
            own: None,
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
        if tables.iter().any(|table| decompressor.by_kernel(table).1 > 0) {
            decompressor.own = Some(decompressor.loaded(context.kernels.decompressing()?));
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

    /// The chunks of a table that the kernel takes. A codec without a decompressor is the kernel's to refuse.
    fn by_kernel(&self, table: &ChunkTable) -> (u64, usize) {
        match self.library.iter().any(|(codec, ..)| *codec == table.codec) {
            true => table.originals(),
            false => table.all(),
        }
    }

    /// Decompresses the chunks of tables, in the order of the stream.
    pub(crate) fn decompress(&self, tables: &[ChunkTable]) -> Result<(), CudaError> {
        let stream = self.context.stream;
        for (codec, calls, module) in &self.library {
            let of_codec = tables.iter().filter(|table| table.codec == *codec);
            let chunks = of_codec.map(ChunkTable::compressed);
            calls.decompress(stream, module, chunks, self.failed, 0)?;
        }
        let Some(own) = &self.own else { return Ok(()) };
        let kernel = own.kernel(decompress::ENTRY)?;
        for batch in launches(tables.iter().map(|table| self.by_kernel(table)), usize::MAX) {
            let launch = DecompressLaunch {
                failed: self.failed,
                results: 0,
                jobs: batch.jobs.len() as u32,
                chunks: batch.chunks,
                job: batch.array(),
            };
            let blocks = self.context.blocks_of_warps(&kernel, batch.chunks)?;
            let mut args = Args::new().with_bytes(&bytes_of(&launch));
            kernel.launch(stream, blocks, BLOCK_THREADS, &mut args)?;
        }
        Ok(())
    }

    /// What must live until the stream has decompressed everything.
    pub(crate) fn in_use(&self) -> InUse {
        let around_library = self.library.iter().map(|(_, _, module)| module);
        InUse {
            _modules: around_library.chain(&self.own).cloned().collect(),
            _memory: self.library.iter().filter_map(|(_, calls, _)| calls.memory()).collect(),
        }
    }
}
