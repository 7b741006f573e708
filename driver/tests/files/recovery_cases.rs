//! Controllers that fail or lose an admin command, and the reads after that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use grampus_driver::error::DriverError;
use grampus_driver::files::{FileReader, NamespaceFiles};
use grampus_driver::host::DeviceOptions;
use grampus_driver::registers::Registers;
use grampus_driver::spec::registers as reg;

use crate::lossy_storage::LossyStorage;
use crate::random::Random;
use crate::rig::{drive, drive_over, load};

/// Registers that lose writes to the admin queue's tail: bit n loses the n-th from now.
#[derive(Debug)]
pub(crate) struct LossyRegisters {
    inner: Arc<dyn Registers>,
    lost: AtomicU64,
}

impl LossyRegisters {
    fn lose(&self, lost: u64) {
        self.lost.store(lost, Ordering::Relaxed);
    }
}

impl Registers for LossyRegisters {
    fn length_bytes(&self) -> usize {
        self.inner.length_bytes()
    }

    fn read32(&self, offset: usize) -> u32 {
        self.inner.read32(offset)
    }

    fn write32(&self, offset: usize, value: u32) {
        if offset == reg::sq_doorbell(0, 0) {
            let next = |lost: u64| Some(lost >> 1);
            let lost = self.lost.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
            if lost.is_ok_and(|lost| lost & 1 == 1) {
                return;
            }
        }
        self.inner.write32(offset, value);
    }
}

fn image(bytes: &[u8]) -> LossyStorage {
    let storage = LossyStorage::new(vec![0; 8 << 20], 512);
    let mut loaded = NamespaceFiles::initialize(drive(storage.clone(), 512), false).unwrap();
    load(&mut loaded, "a", bytes).unwrap();
    drop(loaded);
    storage
}

fn impatient() -> DeviceOptions {
    DeviceOptions {
        command_timeout: Some(Duration::from_millis(200)),
        ..DeviceOptions::default()
    }
}

fn lossy(inner: Arc<dyn Registers>) -> Arc<LossyRegisters> {
    let lost = AtomicU64::new(0);
    Arc::new(LossyRegisters { inner, lost })
}

/// Another agent enables the controller with a ring that is not aligned.
fn break_controller(registers: &dyn Registers) {
    registers.write32(reg::CC, 0);
    registers.write64(reg::ASQ, 0x1001);
    registers.write32(reg::CC, reg::CC_SETTINGS | reg::CC_ENABLE);
}

#[test]
fn a_controller_that_fails_is_reset_by_the_next_read() {
    let bytes = Random(4).bytes(300_000);
    let (drive, registers) = drive_over(image(&bytes), impatient(), lossy);
    let reader = FileReader::new(NamespaceFiles::open(drive).unwrap(), 2);
    let entry = reader.entry("a").unwrap();
    for round in 0..4u64 {
        let range = round * 50_000..round * 50_000 + 40_000;
        let read = reader.read(entry, std::slice::from_ref(&range)).unwrap();
        assert!(
            read[0] == bytes[range.start as usize..range.end as usize],
            "round {round}"
        );
        break_controller(&*registers);
    }
    // Both queues are there again.
    let free = reader.drive().device().lock().unwrap().free_queues();
    reader.read(entry, std::slice::from_ref(&(0..10))).unwrap();
    assert!(free <= reader.drive().device().lock().unwrap().granted_queues());
}

/// A deletion of two commands, of which the controller does not hear one.
#[test]
fn a_queue_that_is_half_deleted_is_deleted_by_another_call() {
    for lost in [0b01, 0b10] {
        let (drive, registers) = drive_over(image(b"x"), impatient(), lossy);
        let mut device = drive.device().lock().unwrap();
        let all = device.free_queues();
        let queue = device.create_queue(8).unwrap();
        let qid = queue.id();
        registers.lose(lost);
        let failed = device.delete_queue_at(qid).unwrap_err();
        assert!(matches!(failed, DriverError::Timeout { .. }), "{failed}");
        device.delete_queue_at(qid).unwrap();
        assert_eq!(device.free_queues(), all);
        assert_eq!(device.create_queue(8).unwrap().id(), qid, "the id can be used again");
    }
}

/// A ticket of before a reset names a queue of another owner.
#[test]
fn queues_of_before_a_reset_are_not_deleted_again() {
    let (drive, _) = drive_over(image(b"x"), DeviceOptions::default(), lossy);
    let mut device = drive.device().lock().unwrap();
    let old = device.create_queue(8).unwrap();
    device.reset().unwrap();
    let free = device.free_queues();
    let new = device.create_queue(8).unwrap();
    assert_eq!(old.id(), new.id());
    device.delete_queue(old).unwrap();
    assert_eq!(device.free_queues(), free - 1);
    device.delete_queue(new).unwrap();
    assert_eq!(device.free_queues(), free);
}
