//! The driver over VFIO in a virtual machine of QEMU: a Linux kernel, an IOMMU, three NVMe controllers, and a device
//! with memory of its own. No KVM is needed. The machine's program is this test program.
//!
//! QEMU, the kernel and busybox are searched where Debian's packages were unpacked (`.ci/run`, `install_qemu`). Without
//! them the test prints "ignored" and passes.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod guest;
mod initramfs;
mod peer;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use grampus_test_support::qemu::QemuFiles;
use grampus_test_support::{Resource, missing};
use initramfs::Initramfs;

/// The variable that tells this program, inside the machine, its task.
const TASK: &str = "GRAMPUS_GUEST_TASK";
/// Longest life of the machine.
const LIMIT: Duration = Duration::from_secs(240);
/// Kernel modules, in the order in which they are loaded.
const MODULES: [&str; 6] = [
    "irqbypass",
    "vfio",
    "vfio_virqfd",
    "vfio_iommu_type1",
    "vfio-pci-core",
    "vfio-pci",
];

/// Inside the machine this is the program; elsewhere it does nothing.
#[test]
fn program_of_the_machine() {
    if let Ok(task) = std::env::var(TASK) {
        guest::main(&task);
    }
}

/// The first file below a folder whose name begins so.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let is_named = |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(name));
    let found = files.into_iter().find(is_named);
    found.or_else(|| folders.iter().find_map(|folder| find(folder, name)))
}

/// The script that the kernel starts. It runs this program twice: without faults of the IOMMU, and with one on purpose.
fn init() -> String {
    let modules: String = MODULES.map(|module| format!("insmod /modules/{module}.ko\n")).concat();
    format!(
        r#"#!/bin/busybox sh
export PATH=/bin LD_LIBRARY_PATH=/lib RUST_BACKTRACE=1
busybox mount -t proc none /proc
busybox --install -s /bin
mount -t sysfs none /sys
mount -t devtmpfs none /dev
{modules}
for device in /sys/bus/pci/devices/*; do
    if [ "$(cat $device/vendor) $(cat $device/device)" = "0x1af4 0x1110" ]; then
        echo vfio-pci >$device/driver_override
        basename $device >/sys/bus/pci/drivers_probe
    fi
done
for tenths in $(seq 300); do
    [ -b /dev/nvme0n1 ] && [ -b /dev/nvme1n1 ] && [ -b /dev/nvme2n1 ] && break
    usleep 100000
done
for number in 0 1 2; do
    if grep -q S2 /sys/class/nvme/nvme$number/serial; then
        mkswap /dev/nvme${{number}}n1
        swapon /dev/nvme${{number}}n1
    fi
done
{TASK}=run /program --exact program_of_the_machine --nocapture
echo "machine: $(dmesg | grep -c 'DMAR.*fault') faults"
dmesg | grep 'DMAR.*fault'
{TASK}=fault /program --exact program_of_the_machine --nocapture
echo "machine: $(dmesg | grep -c 'DMAR.*fault') faults in the end"
poweroff -f
"#
    )
}

/// The machine's root folder: this program with its libraries, busybox, and the kernel's modules.
fn root(files: &QemuFiles) -> Option<Initramfs> {
    let modules = find(&files.path("lib/modules"), "vfio-pci.ko");
    let busybox = files.path("bin/busybox");
    if modules.is_none() || !busybox.exists() || find(&files.path("boot"), "vmlinuz").is_none() {
        let folder = files.path("");
        missing(Resource::GuestKernel, format_args!("searched in {}", folder.display()));
        return None;
    }
    let read = |path: &Path| fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut root = Initramfs::default();
    for folder in ["bin", "proc", "sys", "dev", "lib", "lib64", "modules"] {
        root.folder(folder);
    }
    root.file("init", init().as_bytes());
    root.file("bin/busybox", &read(&busybox));
    for module in MODULES {
        let path = find(&files.path("lib/modules"), &format!("{module}.ko")).expect("a module of the kernel's package");
        root.file(&format!("modules/{module}.ko"), &read(&path));
    }
    root.file("program", &read(&std::env::current_exe().expect("a path")));
    // The libraries of this process are those of the program.
    let maps = fs::read_to_string("/proc/self/maps").expect("readable");
    let mut libraries: Vec<&str> = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).collect();
    libraries.retain(|path| path.contains(".so"));
    libraries.dedup();
    for path in libraries {
        let name = path.rsplit('/').next().unwrap_or(path);
        let folder = if name.starts_with("ld-linux") { "lib64" } else { "lib" };
        root.file(&format!("{folder}/{name}"), &read(Path::new(path)));
    }
    Some(root)
}

/// Runs QEMU until the machine powers off; returns what the machine printed.
fn run(files: &QemuFiles, folder: &Path) -> String {
    let shown = |name: &str| folder.join(name).display().to_string();
    let kernel = find(&files.path("boot"), "vmlinuz").expect("a kernel");
    let mut command = files.command();
    command
        .args([
            "-machine",
            "q35,kernel-irqchip=split",
            "-accel",
            "tcg",
            "-cpu",
            "max",
            "-smp",
            "2",
            "-m",
            "512",
        ])
        .args(["-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"])
        .args(["-device", "intel-iommu,intremap=on"])
        .arg("-kernel")
        .arg(kernel)
        .args([
            "-initrd",
            &shown("initramfs"),
            "-append",
            "console=ttyS0 quiet panic=-1 intel_iommu=on",
        ])
        .args([
            "-object",
            &format!(
                "memory-backend-file,id=peer,mem-path={},size=4M,share=on",
                shown("peer")
            ),
        ])
        .args(["-device", "ivshmem-plain,memdev=peer"]);
    for (image, serial) in [("image", "S1"), ("swap", "S2"), ("files", "S3")] {
        let drive = format!("file={},if=none,id={serial},format=raw", shown(image));
        command.args([
            "-drive",
            &drive,
            "-device",
            &format!("nvme,serial={serial},drive={serial}"),
        ]);
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("QEMU starts");
    let mut out = child.stdout.take().expect("a pipe");
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = out.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    });
    let began = Instant::now();
    while child.try_wait().expect("a child").is_none() && began.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(100));
    }
    let _ = child.kill();
    let _ = child.wait();
    let said = reader.join().expect("a thread");
    println!("{said}\nthe machine lived {:.0} s", began.elapsed().as_secs_f64());
    said
}

#[test]
fn controllers_over_vfio_in_a_virtual_machine() {
    let Some(files) = QemuFiles::find() else { return };
    let Some(root) = root(&files) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("initramfs"), root.bytes()).expect("writable");
    let image: Vec<u8> = (0..1 << 20).map(guest::byte_at).collect();
    fs::write(at("image"), &image).expect("writable");
    for name in ["swap", "files"] {
        fs::write(at(name), vec![0; 8 << 20]).expect("writable");
    }
    let said = run(&files, folder.path());
    for line in ["guest: run passed", "machine: 0 faults", "guest: fault passed"] {
        assert!(said.contains(line), "the machine did not say \"{line}\"");
    }
    // A fault is noticed: QEMU's controller completes the command with success all the same.
    let faults = said.lines().find_map(|line| {
        line.trim()
            .strip_prefix("machine: ")?
            .strip_suffix(" faults in the end")
    });
    assert!(
        faults.is_some_and(|count| count != "0"),
        "the fault on purpose was not seen"
    );
    // The guest wrote 4 KiB at LBA 1900, and from the BAR at LBA 1950.
    let mut expected = image;
    expected[1900 * 512..][..4096].fill(0x5a);
    expected[1950 * 512..][..4096].fill(0xa5);
    assert!(
        fs::read(at("image")).expect("readable") == expected,
        "the image differs"
    );
    // The last write's data lay in the other device's memory, which is a file here.
    let peer = fs::read(at("peer")).expect("readable");
    assert!(
        peer.chunks(4096).any(|page| page == [0xa5; 4096]),
        "the BAR has no such page"
    );
}
