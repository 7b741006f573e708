//! The directory of files of a namespace, over the software controller: power loss between any two writes, damage,
//! full namespaces, wrong names, failures. `tests/nvme` has the cases that run over QEMU's controller too.

mod damage_cases;
mod lossy_storage;
mod operation_cases;
mod power_loss_cases;
#[path = "../support/random.rs"]
mod random;
mod reader_cases;
mod recovery_cases;
mod rig;
