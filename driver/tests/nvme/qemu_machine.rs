//! QEMU's NVMe device: registers over the qtest socket, DMA in the file that holds the machine's RAM.

use std::path::Path;
use std::sync::Arc;

use grampus_driver::host::DmaMemory;
use grampus_driver::registers::Registers;
use grampus_test_support::qemu::Qemu;

use crate::machine::{Fault, Machine, MachineSetup, image_path, make_images};
use crate::qtest_registers::{QtestRegisters, memory};

/// RAM of the machine in MiB.
const MEMORY_MIB: u64 = 48;

struct QemuMachine {
    qemu: Arc<Qemu>,
    registers: Vec<Arc<dyn Registers>>,
    memory: Arc<dyn DmaMemory>,
    folder: tempfile::TempDir,
}

/// Rules of QEMU's blkdebug driver, as members of its JSON object.
fn rules(faults: &[Fault]) -> String {
    let (mut errors, mut states) = (Vec::new(), Vec::new());
    for fault in faults {
        let error = |iotype: &str, rest: String| {
            format!(r#"{{"event":"none","iotype":"{iotype}","errno":5,"once":false{rest}}}"#)
        };
        match fault {
            Fault::Read(sector) => errors.push(error("read", format!(r#","sector":{sector}"#))),
            Fault::Write(sector) => errors.push(error("write", format!(r#","sector":{sector}"#))),
            Fault::Flush => errors.push(error("flush", String::new())),
            Fault::NthRead(n) => {
                // Each read moves to the next state. The n-th arms the error, which ends with its first hit.
                states.extend(
                    (1..=*n)
                        .map(|state| format!(r#"{{"event":"read_aio","state":{state},"new_state":{}}}"#, state + 1)),
                );
                errors.push(format!(
                    r#"{{"event":"read_aio","iotype":"read","errno":5,"once":true,"state":{n}}}"#
                ));
            }
            Fault::Hold(_) => {}
        }
    }
    let lists = [("inject-error", errors), ("set-state", states)];
    let lists = lists.iter().filter(|(_, rules)| !rules.is_empty());
    lists
        .map(|(name, rules)| format!(r#","{name}":[{}]"#, rules.join(",")))
        .collect()
}

pub(crate) fn start(setup: MachineSetup) -> Option<Box<dyn Machine>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    make_images(folder.path(), &setup);
    let mut arguments = Vec::new();
    for (c, controller) in setup.controllers.iter().enumerate() {
        arguments.extend([
            "-device".to_owned(),
            format!(
                "nvme,id=c{c},addr={},serial=S{c},mdts={},max_ioqpairs={}",
                c + 1,
                controller.mdts,
                controller.queues
            ),
        ]);
        for (n, namespace) in controller.namespaces.iter().enumerate() {
            arguments.extend([
                "-blockdev".to_owned(),
                format!(
                    concat!(
                        r#"{{"driver":"raw","node-name":"d{c}-{n}","file":{{"driver":"blkdebug","#,
                        r#""image":{{"driver":"file","filename":"{image}"}}{rules}}}}}"#
                    ),
                    c = c,
                    n = n,
                    image = image_path(folder.path(), c, n).display(),
                    rules = rules(&namespace.faults)
                ),
                "-device".to_owned(),
                format!(
                    "nvme-ns,drive=d{c}-{n},bus=c{c},nsid={nsid},logical_block_size={block},\
                     physical_block_size={block}",
                    nsid = n + 1,
                    block = 1 << namespace.lba_log2
                ),
            ]);
        }
    }
    let qemu = Arc::new(Qemu::start(MEMORY_MIB, &arguments)?);
    let registers = (0..setup.controllers.len()).map(|c| {
        let registers = QtestRegisters::new(&qemu, c as u8 + 1);
        Arc::new(registers) as Arc<dyn Registers>
    });
    let registers = registers.collect();
    let memory = memory(&qemu);
    Some(Box::new(QemuMachine {
        qemu,
        registers,
        memory,
        folder,
    }))
}

impl Machine for QemuMachine {
    fn registers(&self, controller: usize) -> Arc<dyn Registers> {
        self.registers[controller].clone()
    }

    fn memory(&self) -> Arc<dyn DmaMemory> {
        self.memory.clone()
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn hold_next_read(&self) {
        self.qemu.monitor(r#"qemu-io d0-0 "break read_aio A""#);
    }

    fn release(&self) {
        self.qemu.monitor(r#"qemu-io d0-0 "resume A""#);
    }

    fn warn(&self, critical_warning: u8) {
        let arguments = format!(
            r#"{{"path":"/machine/peripheral/c0","property":"smart_critical_warning","value":{critical_warning}}}"#
        );
        let answer = self
            .qemu
            .qmp(&format!(r#"{{"execute":"qom-set","arguments":{arguments}}}"#));
        assert!(answer.contains("return"), "{answer}");
    }

    fn stop(self: Box<Self>) -> tempfile::TempDir {
        let Self {
            qemu,
            registers,
            folder,
            ..
        } = *self;
        drop(registers);
        let answer = qemu.qmp(r#"{"execute":"quit"}"#);
        assert!(answer.contains("return"), "{answer}");
        folder
    }
}
