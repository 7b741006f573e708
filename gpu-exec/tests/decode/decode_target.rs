//! `DecodeTarget`: a device that decodes columns, and the comparison with what the columns hold.

use std::ops::Range;
use std::sync::Arc;

use grampus_cuda::{self as cuda, Device, Module};
use grampus_gpu_exec::codegen::{GPU_LANES, HOST_LANES};
use grampus_gpu_exec::decode;
use grampus_gpu_exec::decode::standalone::{GUARD, Modules, Rows, decode, decode_groups};
use grampus_gpu_exec::decompress::ChunkKernel;
use grampus_gpu_exec::input::Decoded;
use grampus_gpu_exec::kernel_cache::KernelCache;

use crate::common::lockstep;
use crate::streams::{self, Column};

/// A device that decodes: warps of one lane, warps of 32 lanes in lockstep, or a GPU.
pub(crate) struct DecodeTarget {
    pub device: Device,
    pub decoding: Arc<Module>,
    pub decompressing: Vec<(ChunkKernel, Arc<Module>)>,
    pub lanes: u32,
}

/// All decompression kernels.
fn decompressing(modules: &KernelCache) -> Vec<(ChunkKernel, Arc<Module>)> {
    let loaded = |kernel| modules.decompressing(kernel).unwrap_or_else(|e| panic!("{e}"));
    ChunkKernel::ALL.map(|kernel| (kernel, loaded(kernel).module)).into()
}

pub(crate) fn decode_targets() -> Vec<DecodeTarget> {
    let mut targets = Vec::new();
    match cuda::host_compiler() {
        Ok(_) => {
            let device = Device::host(2, 1 << 30);
            let modules = KernelCache::new(&device, Some(lockstep::kernel_folder())).expect("there is a compiler");
            targets.push(DecodeTarget {
                device: device.clone(),
                decoding: modules.decoding().unwrap_or_else(|e| panic!("{e}")).module,
                decompressing: decompressing(&modules),
                lanes: HOST_LANES,
            });
            targets.push(DecodeTarget {
                decoding: lockstep::module(&device, &decode::translation_unit(), decode::ENTRY),
                decompressing: ChunkKernel::ALL
                    .map(|kernel| {
                        (
                            kernel,
                            lockstep::module(&device, &kernel.translation_unit(), kernel.entry()),
                        )
                    })
                    .into(),
                device,
                lanes: GPU_LANES,
            });
        }
        Err(e) => grampus_test_support::missing(grampus_test_support::Resource::Compiler, e),
    }
    match cuda::compiler_version().and_then(|_| Device::open(0)) {
        Ok(device) => {
            let modules = KernelCache::new(&device, Some(lockstep::kernel_folder())).expect("there is NVRTC");
            let loaded = modules.decoding().unwrap_or_else(|e| panic!("{e}"));
            println!("on a GPU; compiled in {:?}", loaded.took);
            targets.push(DecodeTarget {
                decoding: loaded.module,
                decompressing: decompressing(&modules),
                device,
                lanes: GPU_LANES,
            });
        }
        Err(e) => grampus_test_support::missing(grampus_test_support::Resource::Gpu, e),
    }
    targets
}

impl DecodeTarget {
    pub(crate) fn decode(&self, column: &Column, rows: Range<u64>, batch_bytes: usize) -> Option<Decoded> {
        let what = Rows {
            encoded: &column.encoded,
            ty: column.ty,
            stored: column.stored,
            rows,
            codes: &column.codes,
            nullable: column.nullable,
            batch_bytes,
        };
        let modules = Modules {
            decoding: &self.decoding,
            decompressing: &self.decompressing,
            library: None,
        };
        decode(&self.device, modules, &what, &column.file).unwrap_or_else(|e| panic!("{} lanes: {e}", self.lanes))
    }

    /// Decodes row groups of columns that are copied together, and compares them with the columns' values. No byte of
    /// another row is written. Returns how many of the groups were copied.
    pub(crate) fn check_groups(&self, columns: &[Column], groups: &[(usize, usize)], max_bytes: usize) -> usize {
        let modules = Modules {
            decoding: &self.decoding,
            decompressing: &self.decompressing,
            library: None,
        };
        let of: Vec<_> = columns.iter().map(all_rows).collect();
        let decoded = decode_groups(&self.device, modules, &of, groups, max_bytes);
        let (copied, decoded) = decoded.unwrap_or_else(|e| panic!("{} lanes: {e}", self.lanes));
        let decoded = decoded.unwrap_or_else(|| panic!("{} lanes: a stream is invalid", self.lanes));
        for (at, (column, found)) in columns.iter().zip(decoded).enumerate() {
            let width = column.stored.bytes() as usize;
            for group in 0..column.encoded.data.entries.len() {
                let first = group as u64 * column.encoded.group_rows;
                let rows = first..column.rows().min(first + column.encoded.group_rows);
                let (first, end) = (rows.start as usize, rows.end as usize);
                let wanted = match groups[..copied].contains(&(at, group)) {
                    true => column.expected(&rows),
                    false => Decoded {
                        values: vec![GUARD; (end - first) * width],
                        valid: column
                            .nullable
                            .then(|| (first..end).map(|row| GUARD >> (row % 8) & 1).collect()),
                    },
                };
                let found = Decoded {
                    values: found.values[first * width..end * width].to_vec(),
                    valid: found.valid.as_ref().map(|valid| valid[first..end].to_vec()),
                };
                assert!(
                    found == wanted,
                    "column {at}, group {group}, {} lanes: {}",
                    self.lanes,
                    streams::difference(Some(&found), &wanted, width)
                );
            }
        }
        copied
    }

    /// Decodes rows and compares them with the column's values.
    pub(crate) fn check(&self, column: &Column, rows: Range<u64>, batch_bytes: usize, what: &str) {
        let found = self.decode(column, rows.clone(), batch_bytes);
        let wanted = column.expected(&rows);
        assert!(
            found.as_ref() == Some(&wanted),
            "{what}, rows {rows:?}, {} lanes: {}",
            self.lanes,
            streams::difference(found.as_ref(), &wanted, column.stored.bytes() as usize)
        );
    }
}

fn all_rows(column: &Column) -> (Rows<'_>, &[u8]) {
    let rows = Rows {
        encoded: &column.encoded,
        ty: column.ty,
        stored: column.stored,
        rows: 0..column.rows(),
        codes: &column.codes,
        nullable: column.nullable,
        batch_bytes: 0,
    };
    (rows, &column.file)
}
