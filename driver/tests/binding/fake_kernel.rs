//! [`FakeKernel`]: writes of sysfs attributes with the effects that Linux gives them, on a [`FakeMachine`].

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use grampus_driver::binding::{Kernel, System};
use grampus_test_support::fake_machine::{FakeMachine, device};

/// The writes so far: path and text, and how many nodes below `/dev` the process held open meanwhile.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    lines: Arc<Mutex<Vec<String>>>,
    claims: Arc<Mutex<Vec<usize>>>,
}

impl Record {
    fn push(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }

    /// The number of open nodes at each write.
    pub(crate) fn claims(&self) -> Vec<usize> {
        self.claims.lock().unwrap().clone()
    }

    /// The lines since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// Writes that fail: the n-th from 0.
    pub(crate) failing_writes: Vec<usize>,
    /// Drivers whose probe fails.
    pub(crate) failing_drivers: Vec<&'static str>,
    /// Nodes below `/dev` that have a holder.
    pub(crate) busy: Vec<&'static str>,
    /// The error of opening any node.
    pub(crate) open_error: Option<io::ErrorKind>,
    /// The error of asking for the permission to write.
    pub(crate) write_permission: Option<io::ErrorKind>,
}

#[derive(Debug)]
pub(crate) struct FakeKernel {
    machine: Rc<FakeMachine>,
    faults: Faults,
    writes: Mutex<usize>,
    record: Record,
}

/// A system with a kernel that imitates Linux, and the record of its writes.
pub(crate) fn system(machine: &Rc<FakeMachine>, faults: Faults) -> (System, Record) {
    let record = Record::default();
    let kernel = FakeKernel {
        machine: Rc::clone(machine),
        faults,
        writes: Mutex::new(0),
        record: record.clone(),
    };
    (System::under(machine.root()).with_kernel(kernel), record)
}

impl FakeKernel {
    fn relative(&self, path: &Path) -> PathBuf {
        path.strip_prefix(self.machine.root()).unwrap().to_owned()
    }

    /// How many nodes below `/dev` this process has open.
    fn open_nodes(&self) -> usize {
        let nodes = self.machine.path("dev");
        let descriptors = fs::read_dir("/proc/self/fd").unwrap();
        let targets = descriptors.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        targets.filter(|target| target.starts_with(&nodes)).count()
    }

    /// Offers a function to its override's driver, or to nvme.
    fn probe(&self, address: &str) {
        let folder = device(address);
        let wanted = self.machine.text(&format!("{folder}/driver_override"));
        let driver = match wanted.trim() {
            "" | "(null)" => "nvme",
            driver => driver,
        };
        let unbound = !self.machine.path(&format!("{folder}/driver")).exists();
        if unbound && !self.faults.failing_drivers.contains(&driver) {
            self.machine.bind(address, driver);
            if driver == "vfio-pci" {
                self.machine.file("dev/vfio/15", "");
            }
        }
    }
}

impl Kernel for FakeKernel {
    fn write_attribute(&self, path: &Path, text: &str) -> io::Result<()> {
        let relative = self.relative(path);
        let relative = relative.to_str().unwrap();
        let mut writes = self.writes.lock().unwrap();
        let number = *writes;
        *writes += 1;
        if self.faults.failing_writes.contains(&number) {
            self.record.push(format!("{relative} fails"));
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        self.record.push(format!("{relative} = {text:?}"));
        self.record.claims.lock().unwrap().push(self.open_nodes());
        let mut file = File::options().write(true).truncate(true).open(path)?;
        file.write_all(text.as_bytes())?;
        if relative == "sys/bus/pci/drivers_probe" {
            self.probe(text);
        } else if relative.ends_with("/unbind") {
            self.machine.remove(&format!("{}/driver", device(text)));
        }
        Ok(())
    }

    fn check_writable(&self, _: &Path) -> io::Result<()> {
        self.faults.write_permission.map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn open_exclusively(&self, path: &Path) -> io::Result<File> {
        let relative = self.relative(path);
        let node = relative.strip_prefix("dev").unwrap().to_str().unwrap();
        if let Some(kind) = self.faults.open_error {
            return Err(kind.into());
        }
        if self.faults.busy.contains(&node) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        File::open(path)
    }
}
