//! [`FakeMachine`]: a folder with the parts of sysfs, procfs and `/dev` that say which NVMe controllers there are and
//! how they are used. All its files are plain files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The attribute `driver_override` without an override.
const NO_OVERRIDE: &str = "(null)\n";

/// A machine with the drivers nvme and vfio-pci, and a root file system that no controller has.
#[derive(Debug)]
pub struct FakeMachine {
    root: TempDir,
}

impl Default for FakeMachine {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeMachine {
    /// A machine without controllers.
    ///
    /// # Panics
    /// If a file cannot be written, as all functions here.
    pub fn new() -> Self {
        let machine = Self {
            root: TempDir::new().unwrap(),
        };
        machine.folder("sys/bus/pci/devices");
        machine.file("sys/bus/pci/drivers_probe", "");
        for driver in ["nvme", "vfio-pci", "e1000"] {
            machine.file(&format!("sys/bus/pci/drivers/{driver}/unbind"), "");
        }
        machine.file("dev/vfio/vfio", "");
        machine.file(
            "proc/self/mountinfo",
            "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n",
        );
        machine.file("proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n");
        machine
    }

    /// The folder that holds `sys`, `proc` and `dev`.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// A path below the folder.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// Writes a file, and the folders above it.
    pub fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Appends to a file.
    pub fn append(&self, path: &str, text: &str) {
        let before = self.text(path);
        self.file(path, &(before + text));
    }

    /// The text of a file.
    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// Makes a folder, and the folders above it.
    pub fn folder(&self, path: &str) {
        fs::create_dir_all(self.path(path)).unwrap();
    }

    /// Removes a file, a link or a folder.
    pub fn remove(&self, path: &str) {
        let path = self.path(path);
        let is_folder = path.symlink_metadata().unwrap().is_dir();
        let removed = if is_folder {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
        removed.unwrap();
    }

    /// Makes `path` a link to `target`, both below the folder. The link stays inside the folder.
    pub fn link(&self, path: &str, target: &str) {
        let link = self.path(path);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&link);
        let up = "../".repeat(Path::new(path).components().count() - 1);
        symlink(format!("{up}{target}"), link).unwrap();
    }

    /// Adds a PCI function of a class to an IOMMU group.
    pub fn function(&self, address: &str, class: &str, group: &str) {
        let folder = device(address);
        self.file(&format!("{folder}/class"), &format!("{class}\n"));
        self.file(&format!("{folder}/vendor"), "0x144d\n");
        self.file(&format!("{folder}/device"), "0xa808\n");
        self.file(&format!("{folder}/driver_override"), NO_OVERRIDE);
        self.link(&format!("{folder}/iommu_group"), &iommu_group(group));
        self.link(&format!("{}/devices/{address}", iommu_group(group)), &folder);
    }

    /// Binds a function to a driver.
    pub fn bind(&self, address: &str, driver: &str) {
        self.link(
            &format!("{}/driver", device(address)),
            &format!("sys/bus/pci/drivers/{driver}"),
        );
    }

    /// Adds an NVMe controller `nvmeN` that is bound to nvme, without namespaces.
    pub fn controller(&self, address: &str, name: &str, group: &str) {
        self.function(address, "0x010802", group);
        self.bind(address, "nvme");
        let class = format!("{}/nvme/{name}", device(address));
        self.file(&format!("{class}/model"), "Example SSD 1TB                         \n");
        self.file(&format!("{class}/serial"), "S1\n");
        self.file(&format!("{class}/firmware_rev"), "1.0\n");
    }

    /// Adds a controller that is bound to vfio-pci.
    pub fn vfio_controller(&self, address: &str, group: &str) {
        self.function(address, "0x010802", group);
        self.bind(address, "vfio-pci");
        self.file(&format!("{}/driver_override", device(address)), "vfio-pci\n");
        self.file(&format!("dev/vfio/{group}"), "");
    }

    /// Adds a namespace of 1 GiB to a controller.
    pub fn namespace(&self, address: &str, controller: &str, disk: &str, number: &str) {
        let class = format!("{}/nvme/{controller}/{disk}", device(address));
        self.folder(&class);
        self.disk(disk, number);
    }

    /// Adds a disk of 1 GiB.
    pub fn disk(&self, disk: &str, number: &str) {
        self.block(&format!("sys/block/{disk}"), number);
        self.file(&format!("sys/block/{disk}/size"), "2097152\n");
        self.file(&format!("dev/{disk}"), "");
    }

    /// Adds a partition to a disk.
    pub fn partition(&self, disk: &str, partition: &str, number: &str) {
        self.block(&format!("sys/block/{disk}/{partition}"), number);
        self.file(&format!("sys/block/{disk}/{partition}/partition"), "1\n");
        self.file(&format!("dev/{partition}"), "");
    }

    fn block(&self, folder: &str, number: &str) {
        self.file(&format!("{folder}/dev"), &format!("{number}\n"));
        self.folder(&format!("{folder}/holders"));
    }

    /// Makes a disk a holder of another disk or of a partition, as in `nvme0n1/nvme0n1p1`.
    pub fn hold(&self, held: &str, holder: &str) {
        self.link(
            &format!("sys/block/{held}/holders/{holder}"),
            &format!("sys/block/{holder}"),
        );
    }

    /// Mounts a block device.
    pub fn mount(&self, number: &str, source: &str, point: &str) {
        let line = format!("30 22 {number} / {point} rw shared:2 master:3 - ext4 {source} rw\n");
        self.append("proc/self/mountinfo", &line);
    }

    /// Takes a block device or a file for swapping.
    pub fn swap(&self, path: &str) {
        self.append("proc/swaps", &format!("{path}\tpartition\t8388604\t\t0\t\t-2\n"));
    }
}

/// The folder of a PCI function.
pub fn device(address: &str) -> String {
    format!("sys/bus/pci/devices/{address}")
}

/// The folder of an IOMMU group.
pub fn iommu_group(number: &str) -> String {
    format!("sys/kernel/iommu_groups/{number}")
}
