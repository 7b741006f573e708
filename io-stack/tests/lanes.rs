//! Warps of 32 lanes on host threads: one warp that takes the completions of several queues, and warps that serve. One
//! lane cannot show either. Without a C++ compiler the test prints "skipped" and passes.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use grampus_cuda::{Args, Device, DeviceBuffer, Module, Stream, compile_for, host_compiler};
use grampus_driver::controller::ControllerOptions;
use grampus_driver::storage::{CachedFile, FaultAction, FaultRule, FaultyStorage};
use grampus_io_stack::StagingOptions;
use grampus_io_stack::abi::{Bytes, IoStack};
use grampus_io_stack::cache::CacheOptions;
use grampus_io_stack::queues::QueueOptions;
use grampus_io_stack::stack::{Run, Stack, StackOptions};

const KERNELS: &str = r"
using namespace grampus;

struct Parameters {
    IoStack io;
    ColumnDesc column;
    u64 rows;
    u64* sums;   // by lane of the launch
    u32* ended;
};

// Each warp reads its own part of the rows: scattered ones prefetched and fetched, then all in tiles. The last
// io.servers warps serve.
GRAMPUS_KERNEL(sum_lanes, Parameters, p) {
    u32 warps = launch_warps() - p.io.servers, warp = launch_warp();
    if (warp >= warps) {
        serve(p.io, warp - warps, p.ended, warps, FillFinish<CACHE_WAYS>(p.io.cache));
        return;
    }
    ColumnArray<u64, Queued<>> array(p.io, p.column);
    u64 sum = 0, value, values[8];
    bool good = true;
    for (u64 i = warp; i < 24 && good; i += warps) {
        u64 row = (i * WARP + lane_id()) * 0x9E3779B97F4A7C15ull % p.rows;
        good = array.prefetch(lane_id() % 3 != 0, (row + 7777) % p.rows) && array.fetch(lane_id() % 5 != 4, row, value);
        sum += value;
    }
    for (u64 row = warp * 256ull; row + 256 <= p.rows && good; row += warps * 256ull) {
        good = array.tile_anywhere<8>(row, 256, values);
        for (u32 k = 0; k < 8; k++) sum += values[k];
    }
    p.sums[warp * WARP + lane_id()] = good ? sum : 0;
    sync_warp();
    if (lane_id() == 0) fetch_add_relaxed_gpu(p.ended, 1u);
}
";

const ROWS: u64 = 256 * 60;
const FIRST_BYTE: u64 = 13;

fn value(row: u64) -> u64 {
    (row + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ row
}

fn expected() -> u64 {
    let scattered = (0..24 * 32u64)
        .filter(|n| n % 32 % 5 != 4)
        .map(|n| value(n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % ROWS));
    scattered.chain((0..ROWS).map(value)).fold(0, u64::wrapping_add)
}

fn sum(device: &Device, module: &Module, queues: u32, servers: u32) -> u64 {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(&[0xA5; FIRST_BYTE as usize]).expect("writable");
    let bytes: Vec<u8> = (0..ROWS).flat_map(|row| value(row).to_le_bytes()).collect();
    file.write_all(&bytes).expect("writable");
    let late = FaultRule {
        bytes: 0..u64::MAX,
        every: 3,
        at_most: u64::MAX,
        action: FaultAction::Reorder(2),
    };
    let storage = CachedFile::open(file.path()).expect("a storage");
    let options = StackOptions {
        queues: QueueOptions {
            count: queues,
            depth_log2: 4,
            bounce_bytes: 4096,
        },
        // Far fewer lines than the file has, in groups of two: neighbours go to different queues.
        cache: CacheOptions {
            bytes: 1 << 19,
            sector_log2: 9,
            group_log2: 1,
        },
        controller: ControllerOptions { threads: 1, depth: 32 },
        staging: StagingOptions { bytes: 8192, count: 2 },
        timeout: Duration::from_secs(60),
        max_lines: 2,
    };
    let storage = Arc::new(FaultyStorage::new(Box::new(storage), vec![late]));
    let stack = Stack::new(device, vec![storage], options, &[]).expect("a stack");
    let run = Run {
        source: 0,
        byte: FIRST_BYTE,
        rows: ROWS,
        mapped: 0,
    };
    let column = stack.column(8, &[run]).expect("a column");
    let warps = 3 + servers;
    let sums = DeviceBuffer::filled(device, 3 * 32 * 8, 0).expect("memory");
    let ended = DeviceBuffer::filled(device, 8, 0).expect("memory");
    let stream = Stream::new(device).expect("a stream");
    stack.begin().expect("begins");
    let io = IoStack { servers, ..stack.io() };
    let column_at = size_of::<IoStack>();
    let after = column_at + 16;
    let mut blob = vec![0; after + 24 + (16 - (after + 24) % 16) % 16];
    io.write_to(&mut blob[..column_at]);
    column.desc().write_to(&mut blob[column_at..after]);
    for (i, word) in [ROWS, sums.address(), ended.address()].into_iter().enumerate() {
        blob[after + 8 * i..][..8].copy_from_slice(&word.to_le_bytes());
    }
    let kernel = module.kernel("sum_lanes").expect("the kernel");
    kernel
        .launch(&stream, warps, 32, &mut Args::new().with_bytes(&blob))
        .expect("launches");
    stream.synchronize().expect("ends");
    stack.finish().expect("without a status");
    let sums = sums.read::<u64>(0, 3 * 32).expect("readable");
    sums.into_iter().fold(0, u64::wrapping_add)
}

#[test]
fn warps_of_32_lanes_read_the_right_values() {
    if let Err(e) = host_compiler() {
        grampus_test_support::missing(grampus_test_support::Resource::Compiler, e);
        return;
    }
    let device = Device::host(5, 1 << 30);
    let (begin, end) = (
        include_str!("../cuda/src/lanes.h"),
        include_str!("../cuda/src/lanes_end.h"),
    );
    let text = format!("{begin}{}{end}{KERNELS}", grampus_io_stack::device_headers::prelude());
    let compiled = compile_for(&device, &text, "lanes").expect("the kernels compile");
    let module = Module::load(&device, &compiled.cubin).expect("and load");
    for (queues, servers) in [(1, 0), (3, 0), (32, 0), (1, 1), (5, 2), (32, 1), (3, 2)] {
        assert_eq!(
            sum(&device, &module, queues, servers),
            expected(),
            "{queues} queues, {servers} servers"
        );
    }
}
