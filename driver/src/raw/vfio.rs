//! `VfioDevice`: a PCI device that VFIO gives to this process: its BARs, and memory that the device reaches
//! under the IOMMU (Linux, `include/uapi/linux/vfio.h`, type 1).

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::SharedMemory;

/// `_IO(';', 100 + n)`.
const fn request(n: u64) -> u64 {
    (b';' as u64) << 8 | (100 + n)
}

const API_VERSION: i32 = 0;
const TYPE1_IOMMU: u64 = 1;
const GROUP_IS_VIABLE: u32 = 1;
const REGION_HAS_MMAP: u32 = 1 << 2;
const MAP_READ_WRITE: u32 = 3;
/// Interrupts of MSI-X, set by eventfds that the kernel adds to.
const MSIX_IRQS: u32 = 2;
const SET_EVENTFD_TRIGGER: u32 = 1 << 2 | 1 << 5;
/// Region number of the configuration space.
const CONFIG_REGION: u32 = 7;

#[repr(C)]
#[derive(Default)]
struct GroupStatus {
    argsz: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct RegionInfo {
    argsz: u32,
    flags: u32,
    index: u32,
    cap_offset: u32,
    size: u64,
    offset: u64,
}

#[repr(C)]
#[derive(Default)]
struct DmaMap {
    argsz: u32,
    flags: u32,
    vaddr: u64,
    iova: u64,
    size: u64,
}

#[repr(C)]
#[derive(Default)]
struct DmaUnmap {
    argsz: u32,
    flags: u32,
    iova: u64,
    size: u64,
}

#[repr(C)]
#[derive(Default)]
struct IrqSet {
    argsz: u32,
    flags: u32,
    index: u32,
    start: u32,
    count: u32,
    eventfd: i32,
}

/// An ioctl whose argument is a number or the address of a struct of the kernel's layout.
fn ioctl(file: &File, number: u64, argument: u64) -> io::Result<i32> {
    // SAFETY: each caller passes a number, or the address of a live struct with the layout of the request.
    match unsafe { libc::ioctl(file.as_raw_fd(), number as _, argument) } {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

fn address<T>(value: &mut T) -> u64 {
    std::ptr::from_mut(value) as u64
}

/// A PCI device in an IOMMU group of this process.
#[derive(Debug)]
pub struct VfioDevice {
    device: File,
    container: File,
    /// Keeps the group in the container.
    _group: File,
}

impl VfioDevice {
    /// Opens the device at a PCI address such as `0000:00:02.0`, in an IOMMU group that is bound to vfio-pci, and lets
    /// it reach memory.
    ///
    /// # Errors
    /// The kernel's, or `Unsupported` without a type 1 IOMMU or if a device of the group has another driver.
    pub fn open(group: u32, pci_address: &str) -> io::Result<Self> {
        let unsupported = |what: &str| io::Error::new(io::ErrorKind::Unsupported, what.to_owned());
        let open = |path: &str| File::options().read(true).write(true).open(path);
        let container = open("/dev/vfio/vfio")?;
        if ioctl(&container, request(0), 0)? != API_VERSION || ioctl(&container, request(1), TYPE1_IOMMU)? == 0 {
            return Err(unsupported("VFIO has no type 1 IOMMU"));
        }
        let group_file = open(&format!("/dev/vfio/{group}"))?;
        let mut status = GroupStatus {
            argsz: size_of::<GroupStatus>() as u32,
            ..Default::default()
        };
        ioctl(&group_file, request(3), address(&mut status))?;
        if status.flags & GROUP_IS_VIABLE == 0 {
            return Err(unsupported(
                "a device of the IOMMU group has another driver than vfio-pci",
            ));
        }
        let mut descriptor = container.as_raw_fd();
        ioctl(&group_file, request(4), address(&mut descriptor))?;
        ioctl(&container, request(2), TYPE1_IOMMU)?;
        let name = CString::new(pci_address)?;
        let descriptor = ioctl(&group_file, request(6), name.as_ptr() as u64)?;
        // SAFETY: the kernel has made the descriptor for this caller.
        let device = unsafe { File::from_raw_fd(descriptor) };
        let device = Self {
            device,
            container,
            _group: group_file,
        };
        device.enable()?;
        Ok(device)
    }

    fn region(&self, index: u32) -> io::Result<RegionInfo> {
        let mut info = RegionInfo {
            argsz: size_of::<RegionInfo>() as u32,
            index,
            ..Default::default()
        };
        ioctl(&self.device, request(8), address(&mut info))?;
        Ok(info)
    }

    /// Sets memory space and bus master in the command register.
    fn enable(&self) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        let config = self.region(CONFIG_REGION)?;
        let mut command = [0; 2];
        self.device.read_exact_at(&mut command, config.offset + 4)?;
        command[0] |= 6;
        self.device.write_all_at(&command, config.offset + 4)
    }

    /// Resets the function (FLR, or what the device has).
    ///
    /// # Errors
    /// The kernel's.
    pub fn reset(&self) -> io::Result<()> {
        ioctl(&self.device, request(11), 0)?;
        self.enable()
    }

    /// Maps a BAR.
    ///
    /// # Errors
    /// The kernel's, or `Unsupported` for a BAR that cannot be mapped.
    pub fn map_bar(&self, index: u32) -> io::Result<SharedMemory> {
        let info = self.region(index)?;
        if info.flags & REGION_HAS_MMAP == 0 || info.size == 0 {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("BAR {index} cannot be mapped"),
            ));
        }
        SharedMemory::map_file(&self.device, info.offset, info.size as usize)
    }

    /// Enables the MSI-X vectors up to `vector`, and returns the counter of that one's messages: an eventfd. A read
    /// of eight bytes waits for a message, and returns their number. Earlier counters of the device end.
    ///
    /// # Errors
    /// The kernel's, for instance for a vector that the device lacks.
    pub fn interrupt(&self, vector: u32) -> io::Result<File> {
        // SAFETY: a call without memory.
        let descriptor = match unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) } {
            -1 => return Err(io::Error::last_os_error()),
            descriptor => descriptor,
        };
        // SAFETY: the kernel has made the descriptor for this caller.
        let counter = unsafe { File::from_raw_fd(descriptor) };
        let mut set = IrqSet {
            argsz: size_of::<IrqSet>() as u32,
            flags: SET_EVENTFD_TRIGGER,
            index: MSIX_IRQS,
            start: vector,
            count: 1,
            eventfd: descriptor,
        };
        ioctl(&self.device, request(10), address(&mut set))?;
        Ok(counter)
    }

    /// Lets the device reach memory at `iova`, for the life of the mapping.
    ///
    /// # Errors
    /// The kernel's: an address in use, or the limit on locked memory.
    pub fn map_memory(self: &Arc<Self>, memory: &SharedMemory, iova: u64) -> io::Result<DmaMapping> {
        let size = memory.len() as u64;
        let mut map = DmaMap {
            argsz: size_of::<DmaMap>() as u32,
            flags: MAP_READ_WRITE,
            vaddr: memory.address() as u64,
            iova,
            size,
        };
        ioctl(&self.container, request(13), address(&mut map))?;
        Ok(DmaMapping {
            device: self.clone(),
            iova,
            size,
        })
    }
}

/// Memory that a device can reach; unmapped when dropped.
#[derive(Debug)]
pub struct DmaMapping {
    device: Arc<VfioDevice>,
    iova: u64,
    size: u64,
}

impl Drop for DmaMapping {
    fn drop(&mut self) {
        let mut unmap = DmaUnmap {
            argsz: size_of::<DmaUnmap>() as u32,
            flags: 0,
            iova: self.iova,
            size: self.size,
        };
        if let Err(e) = ioctl(&self.device.container, request(14), address(&mut unmap)) {
            log::warn!("VFIO_IOMMU_UNMAP_DMA: {e}");
        }
    }
}

/// Registers in a mapped BAR.
#[derive(Debug)]
pub struct MappedRegisters {
    bar: SharedMemory,
}

impl MappedRegisters {
    /// The registers of a BAR.
    pub fn new(bar: SharedMemory) -> Self {
        Self { bar }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bar.len()
    }

    /// True for no bytes.
    pub fn is_empty(&self) -> bool {
        self.bar.is_empty()
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(
            offset.is_multiple_of(4) && offset + 4 <= self.bar.len(),
            "no register at {offset:#x}"
        );
        // SAFETY: inside the BAR and aligned. Only atomics of 32 bits touch registers.
        unsafe { &*self.bar.address().add(offset).cast::<AtomicU32>() }
    }

    /// Reads a register.
    ///
    /// # Panics
    /// If the offset is not that of a register.
    pub fn load(&self, offset: usize) -> u32 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Writes a register, after everything that this thread has written before.
    ///
    /// # Panics
    /// If the offset is not that of a register.
    pub fn store(&self, offset: usize, value: u32) {
        // D: on x86 stores to write-back memory and to registers stay in order; elsewhere the fence orders them.
        fence(Ordering::SeqCst);
        self.word(offset).store(value, Ordering::Release);
    }
}
