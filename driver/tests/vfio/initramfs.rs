//! [`Initramfs`]: a root folder for a Linux kernel, in the cpio format "newc" (Linux, `early-userspace/buffer-format`).

/// The archive so far.
#[derive(Default)]
pub(crate) struct Initramfs {
    bytes: Vec<u8>,
    entries: u32,
}

/// Mode bits of a folder, and of a file that may be run.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

impl Initramfs {
    /// Adds a folder.
    pub(crate) fn folder(&mut self, path: &str) {
        self.entry(path, FOLDER, &[]);
    }

    /// Adds a file, which may be run.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) {
        self.entry(path, PROGRAM, content);
    }

    /// The whole archive.
    pub(crate) fn bytes(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let length = content.len() as u32;
        // ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            length,
            0,
            0,
            0,
            0,
            path.len() as u32 + 1,
            0,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    /// Names and contents end at multiples of 4.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
