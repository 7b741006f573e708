//! Warm-up: work that takes long, done on threads of its own before the first query needs it.

use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use grampus_driver::raw::HostPages;

use crate::runtime::memory::pinned_ring::PinnedRing;
use crate::runtime::paging::fault_buffer::FaultBuffer;

/// Descriptors for which the table has space; the system's usual bound is 1,024.
const DESCRIPTORS: i32 = 512;

/// Makes pages of these lengths on a thread of its own, while the device is being opened: making them takes ten times
/// as long as pinning them.
pub(crate) fn make_pages(lengths: Vec<usize>) -> Receiver<HostPages> {
    let (sender, made) = mpsc::channel();
    beside("grampus-pages", move || {
        for len in lengths {
            let sent = match HostPages::new(len) {
                Ok(pages) => sender.send(pages),
                Err(e) => return log::warn!("{len} bytes to pin: {e}"),
            };
            if sent.is_err() {
                return; // the device did not open
            }
        }
    });
    made
}

/// Pins memory on a thread of its own: otherwise pinning would be part of the first query. `pages` are those that were
/// made for it.
pub(crate) fn pin(rings: [&Arc<PinnedRing>; 2], faults: &Arc<FaultBuffer>, pages: Receiver<HostPages>) {
    let (rings, faults) = (rings.map(Arc::clone), faults.clone());
    let pin = move || {
        rings.iter().for_each(|ring| ring.fill(|| pages.recv().ok()));
        faults.pin(pages.recv().ok());
    };
    beside("grampus-pinning", pin);
}

/// Makes the system's table of open files large enough. If a process has several threads, the system waits for all
/// processors before it replaces the table by one of twice the size. Every thread that opens a file meanwhile waits
/// too: 2 ms a file were measured.
pub(crate) fn make_room_for_files() {
    #[cfg(target_os = "linux")]
    beside("grampus-files", || {
        // Closed at once; the table stays.
        let _ = File::open("/dev/null").map(|file| rustix::io::fcntl_dupfd_cloexec(&file, DESCRIPTORS - 1));
    });
}

/// Runs work on a thread of its own. Without such a thread, queries do the work themselves.
fn beside(name: &str, work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name(name.to_owned());
    if let Err(e) = thread.spawn(work) {
        log::warn!("no thread {name}: {e}");
    }
}
