//! `BusErrorGuard`: a file mapping that survives the loss of its pages.
//!
//! The system sends SIGBUS to a thread that loads from a mapped page without bytes, or stores to it: another process
//! has truncated the file, or the disk has failed or is full. The handler of this file then
//!
//! 1. looks for the address among the guarded mappings;
//! 2. marks the mapping as failed;
//! 3. maps zeros over the page and all pages behind it, so that the load or store continues;
//! 4. passes every other SIGBUS on to the handler that was installed before, or to the default action.
//!
//! The first guarded mapping installs the handler. It runs on the thread's alternate stack, if there is one.
//!
//! **Invariant:** the handler takes no lock and allocates nothing. It loads from a table of fixed size and makes one
//! system call, which leaves `errno` as it was.

use std::io;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};

use libc::{c_int, c_void, sigaction, siginfo_t};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// Mappings at a time. Callers read a file by other means if there are more.
const MAX_MAPPINGS: usize = 4096;

/// A guarded mapping, or the space for one.
struct Slot {
    /// Odd while the bounds change.
    version: AtomicU32,
    start: AtomicUsize,
    /// 0: no mapping.
    end: AtomicUsize,
    is_writable: AtomicBool,
    has_failed: AtomicBool,
}

static SLOTS: [Slot; MAX_MAPPINGS] = [const {
    Slot {
        version: AtomicU32::new(0),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        is_writable: AtomicBool::new(false),
        has_failed: AtomicBool::new(false),
    }
}; MAX_MAPPINGS];

/// The slots without a mapping, which the handler does not look at.
static UNUSED: Mutex<Unused> = Mutex::new(Unused {
    given_back: Vec::new(),
    next: 0,
});

struct Unused {
    given_back: Vec<usize>,
    /// The slots from here on were never used.
    next: usize,
}

static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);

/// The action that was installed before the guard's.
static PREVIOUS: OnceLock<sigaction> = OnceLock::new();

/// Whether the handler is installed, or the system's refusal.
static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();

impl Slot {
    fn set(&self, start: usize, end: usize, is_writable: bool) {
        self.version.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.start.store(start, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        self.is_writable.store(is_writable, Ordering::Relaxed);
        self.has_failed.store(false, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The end of the mapping if it contains `address`.
    ///
    /// The bounds of a mapping that a thread loads from do not change. A slot whose bounds change is therefore not the
    /// one in search.
    fn end_if_contains(&self, address: usize) -> Option<usize> {
        let version = self.version.load(Ordering::Acquire);
        let (start, end) = (self.start.load(Ordering::Relaxed), self.end.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let is_settled = version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
        (is_settled && (start..end).contains(&address)).then_some(end)
    }
}

/// The guard of one mapping. Dropped before the mapping is.
#[derive(Debug)]
pub(super) struct BusErrorGuard {
    slot: usize,
}

impl BusErrorGuard {
    /// Guards `len` bytes from `start` on, which is the start of a page. `is_writable`: the mapping takes stores.
    ///
    /// # Errors
    /// `Unsupported` if another handler has replaced the guard's, `QuotaExceeded` if there are too many mappings, or
    /// the system's error of installing the handler.
    pub(super) fn new(start: usize, len: usize, is_writable: bool) -> io::Result<Self> {
        install()?;
        let end = start + len.next_multiple_of(PAGE_BYTES.load(Ordering::Relaxed));
        let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = match unused.given_back.pop() {
            Some(slot) => slot,
            None if unused.next < MAX_MAPPINGS => {
                unused.next += 1;
                unused.next - 1
            }
            None => return Err(io::ErrorKind::QuotaExceeded.into()),
        };
        SLOTS[slot].set(start, end, is_writable);
        Ok(Self { slot })
    }

    /// Whether bytes of the mapping were lost: loads have returned zeros, and stores went nowhere.
    pub(super) fn has_failed(&self) -> bool {
        SLOTS[self.slot].has_failed.load(Ordering::Acquire)
    }
}

impl Drop for BusErrorGuard {
    fn drop(&mut self) {
        SLOTS[self.slot].set(0, 0, false);
        let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
        unused.given_back.push(self.slot);
    }
}

/// Installs the handler once. Fails if another handler has taken the signal since then: if that one does not pass the
/// signal on, a lost page would end the process.
fn install() -> io::Result<()> {
    INSTALLED
        .get_or_init(|| replace_action().map_err(|error| error.raw_os_error().unwrap_or_default()))
        .map_err(io::Error::from_raw_os_error)?;
    match action()?.sa_sigaction == handler_address() {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "another handler of SIGBUS was installed after the one that guards mapped files",
        )),
    }
}

fn handler_address() -> usize {
    on_bus_error as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize
}

/// The present action of SIGBUS.
fn action() -> io::Result<sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: without a new action, the call only writes the present one.
    match unsafe { sigaction(libc::SIGBUS, null(), action.as_mut_ptr()) } {
        // SAFETY: the call has written it.
        0 => Ok(unsafe { action.assume_init() }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn replace_action() -> io::Result<()> {
    // SAFETY: asks for a constant of the system.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    PAGE_BYTES.store(usize::try_from(page_bytes).unwrap_or(4096), Ordering::Relaxed);
    // The handler may run as soon as it is installed, so what it needs is stored before.
    let present = action()?;
    let previous = PREVIOUS.get_or_init(|| present);
    let mut guard = *previous;
    guard.sa_sigaction = handler_address();
    // The previous handler runs below this one, under the mask that it was installed with.
    guard.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | (previous.sa_flags & libc::SA_NODEFER);
    // SAFETY: the handler has the signature that SA_SIGINFO asks for, and may run at any instruction.
    match unsafe { sigaction(libc::SIGBUS, &raw const guard, null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The handler.
extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes a valid `siginfo_t`, with an address if the code is one of the system's own.
    let (is_fault, address) = unsafe { ((*info).si_code > 0, (*info).si_addr() as usize) };
    if is_fault && replace_lost_pages(address) {
        return;
    }
    let Some(previous) = PREVIOUS.get() else {
        return; // not reached: stored before the handler was installed
    };
    match previous.sa_sigaction {
        libc::SIG_IGN if !is_fault => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // A fault happens again after the return, and has then its default effect. A sent signal is sent again.
            // SAFETY: installs an action that was installed before; `raise` may be called by handlers.
            unsafe {
                sigaction(signal, previous, null_mut());
                if !is_fault {
                    libc::raise(signal);
                }
            }
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: with SA_SIGINFO, the action is a function of this type.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without SA_SIGINFO, the action is a function of this type.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// Marks the mapping that contains `address` as failed and maps zeros from the page of the address to its end. Pages
/// behind the new end of a truncated file are lost too: one signal replaces all of them. False: no guarded mapping
/// contains the address, or the system refuses.
fn replace_lost_pages(address: usize) -> bool {
    let found = SLOTS
        .iter()
        .find_map(|slot| Some((slot, slot.end_if_contains(address)?)));
    let Some((slot, end)) = found else {
        return false;
    };
    slot.has_failed.store(true, Ordering::SeqCst);
    let page = address & !(PAGE_BYTES.load(Ordering::Relaxed) - 1);
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    let protection = match slot.is_writable.load(Ordering::Relaxed) {
        true => ProtFlags::READ | ProtFlags::WRITE,
        false => ProtFlags::READ,
    };
    // SAFETY: the pages belong to a mapping that the faulting thread uses, so the mapping exists until the return. The
    // new pages have the same protection.
    unsafe { mmap_anonymous(page as *mut c_void, end - page, protection, flags) }.is_ok()
}

#[cfg(test)]
#[path = "bus_error_guard_tests.rs"]
mod tests;
