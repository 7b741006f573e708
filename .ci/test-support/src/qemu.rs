//! [`Qemu`]: QEMU as a machine whose processor halts, driven over its qtest socket. The test process has the machine's
//! memory as a file, and reads and writes device registers by text lines.
//!
//! QEMU is searched in the folder `$GRAMPUS_QEMU`, into which Debian's packages were unpacked, then in `/usr`.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{Resource, missing};

/// The first byte of the RAM that tests give to devices: the firmware's area is below.
pub const FIRST_FREE_BYTE: u64 = 2 << 20;
/// Longest wait for a socket, and for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where QEMU lies.
#[derive(Debug, Clone)]
pub struct QemuFiles {
    root: PathBuf,
}

impl QemuFiles {
    /// QEMU's files, or `None` after a report by [`missing`].
    pub fn find() -> Option<Self> {
        let unpacked = std::env::var_os("GRAMPUS_QEMU").map(PathBuf::from);
        let cached = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/grampus-ci/qemu"));
        let roots: Vec<PathBuf> = unpacked.into_iter().chain(cached).chain([PathBuf::from("/")]).collect();
        let found = roots
            .iter()
            .find(|root| root.join("usr/bin/qemu-system-x86_64").exists());
        if found.is_none() {
            missing(Resource::Qemu, format!("searched in {roots:?}"));
        }
        found.map(|root| Self { root: root.clone() })
    }

    /// A path inside the folder of packages.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.root.join(inside)
    }

    /// QEMU with its libraries and firmware, without a machine.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.path("usr/bin/qemu-system-x86_64"));
        if self.root != Path::new("/") {
            let libraries = [self.path("usr/lib/x86_64-linux-gnu"), self.path("lib/x86_64-linux-gnu")];
            command.env("LD_LIBRARY_PATH", std::env::join_paths(libraries).unwrap_or_default());
        }
        for folder in ["usr/share/qemu", "usr/share/seabios"] {
            command.arg("-L").arg(self.path(folder));
        }
        command
    }
}

struct Lines {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl Lines {
    fn connect(path: &Path, child: &mut Child) -> Lines {
        let began = Instant::now();
        let stream = loop {
            match UnixStream::connect(path) {
                Ok(stream) => break stream,
                Err(e) => assert!(began.elapsed() < PATIENCE, "QEMU's socket {}: {e}", path.display()),
            }
            if let Ok(Some(status)) = child.try_wait() {
                panic!("QEMU does not start ({status})");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        stream.set_read_timeout(Some(PATIENCE)).expect("a duration over zero");
        let writer = stream.try_clone().expect("a descriptor");
        Lines {
            reader: BufReader::new(stream),
            writer,
        }
    }

    /// Sends a line and returns the next one; `None`: the connection has failed.
    fn ask(&mut self, line: &str) -> Option<String> {
        self.writer.write_all(format!("{line}\n").as_bytes()).ok()?;
        self.next()
    }

    fn next(&mut self) -> Option<String> {
        let mut answer = String::new();
        match self.reader.read_line(&mut answer) {
            Ok(bytes) if bytes > 0 => Some(answer),
            _ => None,
        }
    }
}

/// A running QEMU. Dropping it ends the process.
pub struct Qemu {
    child: Child,
    folder: tempfile::TempDir,
    memory_bytes: u64,
    qtest: Mutex<Lines>,
    qmp: Mutex<Lines>,
}

impl std::fmt::Debug for Qemu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QEMU process {}", self.child.id())
    }
}

impl Qemu {
    /// Starts QEMU with `memory_mib` of RAM and more `arguments` (devices and their drives), or returns `None` after a
    /// report by [`missing`].
    ///
    /// # Panics
    /// If QEMU is there and does not start.
    pub fn start(memory_mib: u64, arguments: &[String]) -> Option<Self> {
        let files = QemuFiles::find()?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        // A processor that halts: cli; hlt; jmp. Debian's QEMU has no qtest accelerator.
        let mut firmware = vec![0u8; 65_536];
        firmware[0xfff0..0xfff4].copy_from_slice(&[0xfa, 0xf4, 0xeb, 0xfd]);
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("halt.bin"), firmware).expect("writable");
        let shown = |name: &str| at(name).display().to_string();
        let mut command = files.command();
        command
            .args(["-accel", "tcg", "-nodefaults", "-no-user-config", "-display", "none"])
            .args(["-machine", "q35,memory-backend=ram", "-m", &memory_mib.to_string()])
            .args(["-bios", &shown("halt.bin"), "-qtest-log", "none"])
            .args([
                "-object",
                &format!(
                    "memory-backend-file,id=ram,mem-path={},size={memory_mib}M,share=on",
                    shown("ram")
                ),
            ])
            .args(["-qtest", &format!("unix:{},server=on,wait=off", shown("qtest"))])
            .args(["-qmp", &format!("unix:{},server=on,wait=off", shown("qmp"))])
            .args(arguments)
            .stdin(Stdio::null());
        let mut child = command.spawn().expect("QEMU starts");
        let qtest = Lines::connect(&at("qtest"), &mut child);
        let mut qmp = Lines::connect(&at("qmp"), &mut child);
        qmp.next().expect("QMP's greeting");
        qmp.ask("{\"execute\":\"qmp_capabilities\"}").expect("QMP answers");
        Some(Self {
            child,
            folder,
            memory_bytes: memory_mib << 20,
            qtest: Mutex::new(qtest),
            qmp: Mutex::new(qmp),
        })
    }

    /// The file that holds the machine's RAM: a bus address is an offset in it.
    pub fn ram(&self) -> PathBuf {
        self.folder.path().join("ram")
    }

    /// Bytes of the machine's RAM.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    fn qtest(&self, line: &str) -> Option<u64> {
        let mut lines = self.qtest.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = lines.ask(line)?;
        let answer = answer.trim().strip_prefix("OK")?;
        let digits = answer.trim().trim_start_matches("0x");
        Some(if digits.is_empty() {
            0
        } else {
            u64::from_str_radix(digits, 16).ok()?
        })
    }

    /// Reads a 32-bit register; `None`: QEMU does not answer.
    pub fn read32(&self, address: u64) -> Option<u32> {
        self.qtest(&format!("readl {address:#x}")).map(|value| value as u32)
    }

    /// Writes a 32-bit register; `None`: QEMU does not answer. The device has seen the value on return.
    pub fn write32(&self, address: u64, value: u32) -> Option<()> {
        self.qtest(&format!("writel {address:#x} {value:#x}")).map(|_| ())
    }

    fn configuration(&self, slot: u8, register: u8, value: Option<u32>) -> u32 {
        let selected = 0x8000_0000u32 | u32::from(slot) << 11 | u32::from(register);
        self.qtest(&format!("outl 0xcf8 {selected:#x}")).expect("QEMU answers");
        let line = match value {
            Some(value) => format!("outl 0xcfc {value:#x}"),
            None => "inl 0xcfc".to_owned(),
        };
        self.qtest(&line).expect("QEMU answers") as u32
    }

    /// Places BAR 0 of the device in a PCI slot and lets the device reach memory. Returns address and length.
    pub fn enable_bar0(&self, slot: u8) -> (u64, usize) {
        self.configuration(slot, 0x10, Some(u32::MAX));
        let length = !(self.configuration(slot, 0x10, None) & !0xf) as usize + 1;
        let base = 0xe000_0000u64 + u64::from(slot) * 0x10_0000;
        self.configuration(slot, 0x10, Some(base as u32));
        self.configuration(slot, 0x14, Some(0));
        let command = self.configuration(slot, 0x04, None);
        self.configuration(slot, 0x04, Some(command | 6)); // memory space, bus master
        (base, length)
    }

    /// Runs a QMP command, given as JSON, and returns the answer as JSON.
    ///
    /// # Panics
    /// If QEMU does not answer.
    pub fn qmp(&self, command: &str) -> String {
        let mut lines = self.qmp.lock().unwrap_or_else(PoisonError::into_inner);
        let mut answer = lines.ask(command);
        while answer
            .as_ref()
            .is_some_and(|a| a.contains("\"event\"") && !a.contains("\"return\""))
        {
            answer = lines.next();
        }
        answer.expect("QEMU answers")
    }

    /// Runs a command of the human monitor.
    ///
    /// # Panics
    /// If QEMU refuses the command.
    pub fn monitor(&self, line: &str) -> String {
        let mut quoted = String::new();
        for c in line.chars() {
            match c {
                '"' | '\\' => write!(quoted, "\\{c}").expect("a string"),
                c => quoted.push(c),
            }
        }
        let command =
            format!("{{\"execute\":\"human-monitor-command\",\"arguments\":{{\"command-line\":\"{quoted}\"}}}}");
        let answer = self.qmp(&command);
        assert!(!answer.contains("\"error\""), "{line}: {answer}");
        answer
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        // A process that has ended already is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
