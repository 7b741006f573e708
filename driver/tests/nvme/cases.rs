//! Cases of identification and data transfer.

use grampus_driver::host::{BusRange, DataPointers, Device, DeviceOptions, DmaPool};

use crate::Start;
use crate::machine::{ControllerSetup, MachineSetup, NamespaceSetup, Rig, image_path};
use crate::random::Random;

const MIB: u64 = 1 << 20;

pub(crate) fn identify_reports_limits_and_formats(start: Start) {
    let namespaces = vec![NamespaceSetup::new(2 * MIB, 9), NamespaceSetup::new(4 * MIB, 12)];
    let setup = MachineSetup {
        controllers: vec![ControllerSetup {
            namespaces,
            mdts: 4,
            queues: 5,
        }],
    };
    let Some(machine) = start(setup) else { return };
    let rig = Rig::open(machine);
    let (identity, cap) = (rig.device.identity(), rig.device.capabilities());
    assert_eq!(identity.serial, "S0");
    assert_eq!(identity.max_transfer_bytes, Some(64 << 10));
    assert_eq!(rig.device.max_transfer_bytes(), 64 << 10);
    assert!(identity.has_sgls && identity.has_write_zeroes && identity.has_standard_entries);
    assert_eq!(rig.device.granted_queues(), 5);
    assert_eq!(cap.max_queue_entries(), 2048);
    assert!(cap.contiguous_queues_required() && cap.timeout_ms() > 0);
    let found: Vec<_> = rig
        .namespaces
        .iter()
        .map(|n| (n.nsid, n.blocks, n.block_bytes()))
        .collect();
    assert_eq!(found, [(1, 4096, 512), (2, 1024, 4096)]);
    assert!(rig.namespaces.iter().all(|n| n.format.metadata_bytes == 0));
    assert!(
        rig.namespaces[0].formats.iter().any(|f| f.lba_log2 == 12),
        "formats on offer"
    );
    rig.finish();
}

/// Every length in blocks up to MDTS, from offsets that make the first page short, in pages that do not follow each
/// other on the bus. Calls `each` with offset, first block and blocks.
fn shapes(rig: &Rig, step: u32, mut each: impl FnMut(usize, u64, u32)) {
    let namespace = &rig.namespaces[0];
    let most = (rig.device.max_transfer_bytes() >> namespace.format.lba_log2) as u32;
    let mut random = Random(7);
    for offset in [0, 4, 512, 2052, 4092] {
        for blocks in (1..=most).step_by(step as usize).chain([most]) {
            let slba = random.below(namespace.blocks - u64::from(blocks) + 1);
            each(offset, slba, blocks);
        }
    }
}

/// Bytes around the data, which a transfer must leave alone.
const GUARD: u8 = 0xa5;

pub(crate) fn every_prp_shape_up_to_mdts_reads_its_bytes(start: Start) {
    for lba_log2 in [9, 12] {
        let Some(machine) = start(MachineSetup::one(4 * MIB, lba_log2)) else {
            return;
        };
        let mut rig = Rig::open(machine);
        let mut queue = rig.queue(16);
        let namespace = rig.namespaces[0].clone();
        let buffer = rig.buffer(rig.device.max_transfer_bytes() as usize + 8192);
        shapes(&rig, 1, |offset, slba, blocks| {
            let length = (blocks as usize) << lba_log2;
            let end = (offset + length).next_multiple_of(4096);
            buffer.write(0, &vec![GUARD; end]);
            queue
                .read(&namespace, slba, blocks, &buffer.range(offset, length).unwrap())
                .unwrap();
            let got = buffer.bytes(0, end);
            let place = format!("{blocks} blocks of {} bytes at {slba}, offset {offset}", 1 << lba_log2);
            assert!(got[offset..offset + length] == *rig.expected(slba, blocks), "{place}");
            assert!(
                got[..offset].iter().chain(&got[offset + length..]).all(|b| *b == GUARD),
                "around {place}"
            );
        });
        assert_eq!(queue.stale_completions(), 0);
        rig.finish();
    }
}

pub(crate) fn every_prp_shape_up_to_mdts_writes_its_bytes(start: Start) {
    for (lba_log2, step) in [(9, 7), (12, 1)] {
        let Some(machine) = start(MachineSetup::one(4 * MIB, lba_log2)) else {
            return;
        };
        let mut rig = Rig::open(machine);
        let mut queue = rig.queue(16);
        let namespace = rig.namespaces[0].clone();
        let buffer = rig.buffer(rig.device.max_transfer_bytes() as usize + 8192);
        let mut model = std::mem::take(&mut rig.model);
        let mut random = Random(99);
        shapes(&rig, step, |offset, slba, blocks| {
            let length = (blocks as usize) << lba_log2;
            let seed = random.below(1 << 40);
            let bytes: Vec<u8> = (0..length as u64)
                .map(|i| (seed + i * 31) as u8 ^ (i >> 8) as u8)
                .collect();
            buffer.write(offset, &bytes);
            queue
                .write(&namespace, slba, blocks, &buffer.range(offset, length).unwrap())
                .unwrap();
            let at = (slba << lba_log2) as usize;
            model[at..at + length].copy_from_slice(&bytes);
        });
        queue.flush(&namespace).unwrap();
        rig.model = model;
        rig.finish();
    }
}

pub(crate) fn sgls_read_and_write_scattered_pages(start: Start) {
    let Some(machine) = start(MachineSetup::one(4 * MIB, 9)) else {
        return;
    };
    let options = DeviceOptions {
        pointers: DataPointers::Sgl,
        ..Default::default()
    };
    let mut rig = Rig::open_with(machine, options);
    let mut queue = rig.queue(16);
    let namespace = rig.namespaces[0].clone();
    let buffer = rig.buffer(rig.device.max_transfer_bytes() as usize + 8192);
    let mut model = std::mem::take(&mut rig.model);
    shapes(&rig, 9, |offset, slba, blocks| {
        let length = blocks as usize * 512;
        let at = slba as usize * 512;
        let range = buffer.range(offset, length).unwrap();
        queue.read(&namespace, slba, blocks, &range).unwrap();
        let mut bytes = buffer.bytes(offset, length);
        assert!(
            bytes == model[at..at + length],
            "{blocks} blocks at {slba}, offset {offset}"
        );
        bytes.iter_mut().for_each(|b| *b = b.wrapping_add(1));
        buffer.write(offset, &bytes);
        queue.write(&namespace, slba, blocks, &range).unwrap();
        model[at..at + length].copy_from_slice(&bytes);
    });
    // One data block: pages that follow each other on the bus.
    let together = rig.pool.allocate_contiguous(64 << 10).unwrap();
    let range = BusRange::contiguous(together.bus_address(0) + 8, 32 << 10);
    queue.read(&namespace, 5, 64, &range).unwrap();
    assert!(together.bytes(8, 32 << 10) == model[5 * 512..69 * 512]);
    rig.model = model;
    rig.finish();
}

pub(crate) fn transfers_beyond_a_list_page_follow_the_chain(start: Start) {
    // QEMU 7.2 refuses an SGL of three full segments: it takes the second one for the last. Two hold 511 pages.
    for (pointers, most) in [(DataPointers::Prp, 1024), (DataPointers::Sgl, 511)] {
        let Some(machine) = start(MachineSetup::one(16 * MIB, 9).mdts(0)) else {
            return;
        };
        let options = DeviceOptions {
            pointers,
            ..Default::default()
        };
        let mut rig = Rig::open_with(machine, options);
        assert_eq!(rig.device.identity().max_transfer_bytes, None);
        let mut queue = rig.queue(8);
        let namespace = rig.namespaces[0].clone();
        let buffer = rig.buffer(6 << 20);
        // Pages of data around full pages of a PRP list (512 entries) and of an SGL (256 descriptors). QEMU fails
        // commands of more than 1,024 separate pieces, the system's limit on a vector of buffers.
        let lengths = [255, 256, 257, 511, 512, 513, 514, 1022, 1023, 1024];
        for pages in lengths.into_iter().filter(|pages| *pages <= most) {
            for offset in [0, 1024] {
                let blocks = pages * 8 - 2;
                let length = blocks as usize * 512;
                buffer.fill(0);
                queue
                    .read(&namespace, 3, blocks, &buffer.range(offset, length).unwrap())
                    .unwrap();
                assert!(
                    buffer.bytes(offset, length) == *rig.expected(3, blocks),
                    "{pages} pages from {offset}"
                );
            }
        }
        rig.finish();
    }
}

pub(crate) fn write_zeroes_and_flush_reach_the_image(start: Start) {
    let Some(machine) = start(MachineSetup::one(MIB, 12)) else {
        return;
    };
    let mut rig = Rig::open(machine);
    let mut queue = rig.queue(8);
    let namespace = rig.namespaces[0].clone();
    queue.write_zeroes(&namespace, 10, 7).unwrap();
    queue.flush(&namespace).unwrap();
    rig.model[10 * 4096..17 * 4096].fill(0);
    let buffer = rig.buffer(9 * 4096);
    queue
        .read(&namespace, 9, 9, &buffer.range(0, 9 * 4096).unwrap())
        .unwrap();
    assert!(buffer.bytes(0, 9 * 4096) == *rig.expected(9, 9));
    rig.finish();
}

pub(crate) fn two_controllers_with_blocks_of_512_and_4096_bytes(start: Start) {
    let controller = |lba_log2| ControllerSetup {
        namespaces: vec![NamespaceSetup::new(MIB, lba_log2)],
        mdts: 3,
        queues: 2,
    };
    let setup = MachineSetup {
        controllers: vec![controller(9), controller(12)],
    };
    let Some(machine) = start(setup) else { return };
    // Both take pages of one pool.
    let pool = DmaPool::new(machine.memory());
    let open = |c| Device::open(machine.registers(c), pool.clone(), DeviceOptions::default()).unwrap();
    let (mut first, mut second) = (open(0), open(1));
    assert_eq!(
        (first.identity().serial.as_str(), second.identity().serial.as_str()),
        ("S0", "S1")
    );
    let (from, to) = (
        first.namespaces().unwrap().remove(0),
        second.namespaces().unwrap().remove(0),
    );
    assert_eq!((from.block_bytes(), to.block_bytes()), (512, 4096));
    let (mut reader, mut writer) = (first.create_queue(32).unwrap(), second.create_queue(32).unwrap());
    let buffer = pool.allocate(32 << 10).unwrap();
    let range = buffer.range(0, 32 << 10).unwrap();
    // The second becomes the first, in reverse order of 32 KiB pieces.
    for piece in 0..32u64 {
        reader.read(&from, piece * 64, 64, &range).unwrap();
        writer.write(&to, (31 - piece) * 8, 8, &range).unwrap();
    }
    writer.flush(&to).unwrap();
    drop((reader, writer));
    first.shutdown().unwrap();
    second.shutdown().unwrap();
    assert_eq!(
        pool.free_pages(),
        pool.memory().pages() - 8,
        "all but the data's pages came back"
    );
    let folder = machine.stop();
    let image = |c| std::fs::read(image_path(folder.path(), c, 0)).unwrap();
    let mut expected = Vec::new();
    image(0)
        .rchunks(32 << 10)
        .for_each(|piece| expected.extend_from_slice(piece));
    assert!(image(1) == expected);
}

pub(crate) fn smart_counters_count_the_commands(start: Start) {
    let Some(machine) = start(MachineSetup::one(MIB, 9)) else {
        return;
    };
    let mut rig = Rig::open(machine);
    let mut queues = [rig.queue(8), rig.queue(64)];
    let namespace = rig.namespaces[0].clone();
    let buffer = rig.buffer(128 << 10);
    let before = rig.device.smart_log().unwrap();
    let mut random = Random(3);
    for i in 0..300 {
        let (slba, blocks) = (random.below(1024), 1 + random.below(200) as u32);
        let range = buffer.range(0, blocks as usize * 512).unwrap();
        queues[i % 2].read(&namespace, slba, blocks, &range).unwrap();
        if i % 3 == 0 {
            queues[i % 2].write(&namespace, slba, blocks, &range).unwrap();
        }
    }
    let after = rig.device.smart_log().unwrap();
    assert_eq!(after.read_commands - before.read_commands, 300);
    assert_eq!(after.write_commands - before.write_commands, 100);
    assert!(after.data_units_read > before.data_units_read);
    assert_eq!((after.critical_warning, after.media_errors), (0, 0));
    rig.finish();
}
