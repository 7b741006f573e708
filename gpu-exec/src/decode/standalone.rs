//! Decoding of rows on a device without a query, for tests and measurements.

use std::ops::Range;
use std::sync::Arc;

use grampus_cuda::{Args, CudaError, Device, DeviceBuffer, Module, Nvcomp, Stream};
use grampus_io_stack::abi::bytes_of;
use grampus_orc_layout::encoded_column::EncodedColumn;

use super::ENTRY;
use super::decode_batch::{Addresses, batches};
use super::group_gather::{GatherLimits, GatheredColumn, GroupGather};
use crate::abi::decode::{DecodeJob, DecodeLaunch};
use crate::abi::decompress::{ChunkJob, DecompressLaunch};
use crate::decompress::ChunkKernel;
use crate::decompress::chunk_table::ChunkTable;
use crate::decompress::library::LibraryCalls;
use crate::decompress::library_memory::LibraryMemory;
use crate::input::Decoded;
use crate::input::encoded_check::fits;
use crate::options::{Decompression, Decompressor};
use crate::program::{Stored, Type};
use crate::validity;

/// Bytes before and after the output.
const GUARD_BYTES: usize = 256;
/// The value of bytes that the kernel must leave unchanged.
pub const GUARD: u8 = 0xA5;
/// Threads of a block, as in the launches of queries.
const THREADS: u32 = 256;
/// Memory for nvCOMP.
const LIBRARY_BYTES: usize = 64 << 20;

/// Rows to decode.
#[derive(Debug, Clone)]
pub struct Rows<'a> {
    /// The encoded column.
    pub encoded: &'a EncodedColumn,
    /// Type of the values.
    pub ty: Type,
    /// Layout of the decoded values.
    pub stored: Stored,
    /// Rows of the stripe.
    pub rows: Range<u64>,
    /// Codes of a dictionary's entries.
    pub codes: &'a [u32],
    /// Some rows may be NULL.
    pub nullable: bool,
    /// Maximum bytes of a batch.
    pub batch_bytes: usize,
}

/// The kernels.
#[derive(Debug, Clone, Copy)]
pub struct Modules<'a> {
    /// The decoding kernel's.
    pub decoding: &'a Module,
    /// Those of decompression kernels, for compressed columns.
    pub decompressing: &'a [(ChunkKernel, Arc<Module>)],
    /// nvCOMP, and the kernels around it. Without it, the decompression kernels take all chunks.
    pub library: Option<(&'a Nvcomp, &'a Module)>,
}

/// Decodes rows of a column of `file`. `None`: a stream cannot be decoded, or a row group is larger than a batch.
///
/// # Errors
/// The device's error, or a kernel that wrote outside its output.
pub fn decode(
    device: &Device,
    modules: Modules<'_>,
    what: &Rows<'_>,
    file: &[u8],
) -> Result<Option<Decoded>, CudaError> {
    let (count, width) = ((what.rows.end - what.rows.start) as usize, what.stored.bytes() as usize);
    if !fits(what.encoded, what.ty, rows_of(what.encoded), file.len() as u64) || what.rows.end > rows_of(what.encoded) {
        return Err(wrong("rows and streams that do not fit together"));
    }
    if what.nullable && !validity::groups_have_bytes(&what.rows, what.encoded.group_rows) {
        return decode_by_group(device, modules, what, file);
    }
    let straight = what.stored.straight_bytes().filter(|_| !what.nullable);
    let Some(batches) = batches(what.encoded, what.rows.clone(), what.batch_bytes, straight) else {
        return Ok(None);
    };
    let values = DeviceBuffer::filled(device, count * width + 2 * GUARD_BYTES, GUARD)?;
    let valid_bytes = validity::bytes_of(count as u64) as usize;
    let valid = DeviceBuffer::filled(device, valid_bytes + 2 * GUARD_BYTES, GUARD)?;
    let failed = DeviceBuffer::filled(device, 16, 0)?;
    let stream = Stream::new(device)?;
    for batch in &batches {
        let row = (batch.rows.start - what.rows.start) as usize;
        let buffer = DeviceBuffer::filled(device, batch.space, GUARD)?;
        let at = Addresses {
            batch: buffer.address(),
            values: values.address() + (GUARD_BYTES + row * width) as u64,
            valid: what
                .nullable
                .then(|| valid.address() + GUARD_BYTES as u64 + validity::byte_of(row as u64)),
        };
        let mut bytes = vec![GUARD; batch.bytes];
        batch.describe(what.encoded, what.stored, what.codes, at, 0, &mut bytes);
        for (to, from) in &batch.parts {
            let from = &file[from.start as usize..from.end as usize];
            bytes[*to..to + from.len()].copy_from_slice(from);
        }
        buffer.write(0, &bytes)?;
        if let Some(table) = batch.chunk_table(what.encoded, buffer.address()) {
            decompress(device, &stream, modules, &table, failed.address())?;
        }
        if batch.tasks() > 0 {
            let tasks = (buffer.address(), batch.tasks() as u32);
            launch_tasks(&stream, modules, tasks, failed.address())?;
        }
        stream.synchronize()?;
    }
    let guarded = |buffer: &DeviceBuffer, len: usize, written: bool| -> Result<Vec<u8>, CudaError> {
        let bytes = buffer.read::<u8>(0, len + 2 * GUARD_BYTES)?;
        let (before, rest) = bytes.split_at(GUARD_BYTES);
        let (inside, after) = rest.split_at(len);
        let guards = before.iter().chain(after).chain(if written { &[] } else { inside });
        match guards.into_iter().all(|b| *b == GUARD) {
            true => Ok(inside.to_vec()),
            false => Err(wrong("it wrote outside of its target")),
        }
    };
    let (values, valid) = (
        guarded(&values, count * width, true)?,
        guarded(&valid, valid_bytes, what.nullable)?,
    );
    if failed.read::<u32>(0, 1)?[0] != 0 {
        return Ok(None);
    }
    Ok(Some(Decoded {
        values,
        valid: what.nullable.then(|| validity::unpack(&valid, count)),
    }))
}

/// The same, for row groups that would share bytes of validity: one after the other.
fn decode_by_group(
    device: &Device,
    modules: Modules<'_>,
    what: &Rows<'_>,
    file: &[u8],
) -> Result<Option<Decoded>, CudaError> {
    let (group_rows, mut first) = (what.encoded.group_rows, what.rows.start);
    let (mut values, mut valid) = (Vec::new(), Vec::new());
    while first < what.rows.end {
        let end = what.rows.end.min(first - first % group_rows + group_rows);
        let group = Rows {
            rows: first..end,
            ..what.clone()
        };
        let Some(decoded) = decode(device, modules, &group, file)? else {
            return Ok(None);
        };
        values.extend(decoded.values);
        valid.extend(decoded.valid.unwrap_or_default());
        first = end;
    }
    let valid = Some(valid);
    Ok(Some(Decoded { values, valid }))
}

/// Decodes row groups of several columns that are copied together, each column with its file. Groups are a column, by
/// position, and a number, ascending. Returns how many of the groups were copied, and all rows of the columns: values
/// of other groups are [`GUARD`]s, and their validity has its bits. `None`: a stream cannot be decoded.
///
/// # Errors
/// As [`decode`].
pub fn decode_groups(
    device: &Device,
    modules: Modules<'_>,
    columns: &[(Rows<'_>, &[u8])],
    groups: &[(usize, usize)],
    max_bytes: usize,
) -> Result<(usize, Option<Vec<Decoded>>), CudaError> {
    let filled = |bytes: usize| DeviceBuffer::filled(device, bytes.max(1), GUARD);
    let share = |what: &Rows<'_>| !validity::groups_have_bytes(&(0..what.rows.end), what.encoded.group_rows);
    if columns.iter().any(|(what, _)| what.nullable && share(what)) {
        return Err(wrong("row groups that share bytes of validity"));
    }
    let (mut targets, mut gathered) = (Vec::new(), Vec::new());
    for (label, (what, _)) in columns.iter().enumerate() {
        let (rows, width) = (what.rows.end, what.stored.bytes());
        let values = filled(rows as usize * width as usize)?;
        let valid = filled(validity::bytes_of(rows) as usize)?;
        gathered.push(GatheredColumn {
            encoded: Arc::new(what.encoded.clone()),
            codes: what.codes.into(),
            rows,
            values: values.address(),
            valid: what.nullable.then_some(valid.address()),
            stored: what.stored,
            label: label as u32,
        });
        targets.push((values, valid));
    }
    let limits = GatherLimits {
        bytes: max_bytes,
        space: max_bytes * 8,
    };
    let gather = GroupGather::new(gathered, groups, limits);
    let mut bytes = vec![GUARD; gather.bytes()];
    let buffer = filled(gather.space())?;
    gather.describe(buffer.address(), &mut bytes);
    for (column, at, from) in gather.parts() {
        let from = &columns[column].1[from.start as usize..from.end as usize];
        bytes[at..at + from.len()].copy_from_slice(from);
    }
    buffer.write(0, &bytes)?;
    let (stream, failed) = (Stream::new(device)?, DeviceBuffer::filled(device, 16, 0)?);
    if let Some(table) = gather.chunk_table(buffer.address()) {
        decompress(device, &stream, modules, &table, failed.address())?;
    }
    launch_tasks(
        &stream,
        modules,
        (buffer.address(), gather.tasks() as u32),
        failed.address(),
    )?;
    stream.synchronize()?;
    if failed.read::<u32>(0, 1)?[0] != 0 {
        return Ok((gather.tasks(), None));
    }
    let decoded = columns.iter().zip(&targets).map(|((what, _), (values, valid))| {
        let rows = what.rows.end as usize;
        Ok(Decoded {
            values: values.read(0, rows * what.stored.bytes() as usize)?,
            valid: match what.nullable {
                true => {
                    let bits = valid.read::<u8>(0, validity::bytes_of(what.rows.end) as usize)?;
                    Some(validity::unpack(&bits, rows))
                }
                false => None,
            },
        })
    });
    Ok((gather.tasks(), Some(decoded.collect::<Result<_, CudaError>>()?)))
}

/// Launches the decoding kernel for tasks at an address.
fn launch_tasks(
    stream: &Stream,
    modules: Modules<'_>,
    (tasks, count): (u64, u32),
    failed: u64,
) -> Result<(), CudaError> {
    let mut launch = DecodeLaunch {
        failed,
        jobs: 1,
        tasks: count,
        ..DecodeLaunch::default()
    };
    launch.job[0] = DecodeJob { tasks, first: 0, count };
    let blocks = count.div_ceil(THREADS / 32).max(1);
    let mut args = Args::new().with_bytes(&bytes_of(&launch));
    modules
        .decoding
        .kernel(ENTRY)?
        .launch(stream, blocks, THREADS, &mut args)
}

/// Decompresses the chunks of a table.
fn decompress(
    device: &Device,
    stream: &Stream,
    modules: Modules<'_>,
    table: &ChunkTable,
    failed: u64,
) -> Result<(), CudaError> {
    let missing = || CudaError::Arguments {
        kernel: ENTRY.to_owned(),
        reason: "a compressed column, and no kernel that decompresses".to_owned(),
    };
    let decompression = Decompression {
        library: modules.library.map(|(library, _)| library),
    };
    let (chunks, count) = match (decompression.of(table.codec), modules.library) {
        (Some(Decompressor::Library(library)), Some((_, module))) => {
            let memory = LibraryMemory::new(LIBRARY_BYTES);
            let calls = LibraryCalls::new(library, device, &memory, std::slice::from_ref(table))?;
            if let Some(calls) = calls {
                calls.decompress(stream, module, [table.compressed()], failed, 0)?;
                stream.synchronize()?; // before the memory is freed
            }
            table.originals()
        }
        _ => table.all(),
    };
    if count == 0 {
        return Ok(());
    }
    let mut launch = DecompressLaunch {
        failed,
        results: 0,
        jobs: 1,
        chunks: count as u32,
        ..DecompressLaunch::default()
    };
    launch.job[0] = ChunkJob {
        chunks,
        first: 0,
        count: launch.chunks,
    };
    let which = ChunkKernel::of(table.codec).unwrap_or(ChunkKernel::Elements);
    let module = modules.decompressing.iter().find(|(kernel, _)| *kernel == which);
    let kernel = module.ok_or_else(missing)?.1.kernel(which.entry())?;
    let threads = which.block_threads();
    let mut args = Args::new().with_bytes(&bytes_of(&launch));
    kernel.launch(stream, launch.chunks.div_ceil(threads / 32), threads, &mut args)
}

fn wrong(reason: &str) -> CudaError {
    CudaError::Arguments {
        kernel: ENTRY.to_owned(),
        reason: reason.to_owned(),
    }
}

/// Maximum number of rows that the entries of a column's streams cover.
fn rows_of(encoded: &EncodedColumn) -> u64 {
    encoded.data.entries.len() as u64 * encoded.group_rows
}
