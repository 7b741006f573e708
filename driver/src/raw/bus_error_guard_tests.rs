//! The guard under lost pages, and beside the handlers of a program that uses the crate.
//!
//! A signal's action belongs to the whole process. Tests that change it, or that a signal ends, run in a child process:
//! this test binary again, with the name of the case in the environment.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::ptr;

use super::*;
use crate::raw::Mapping;

const CASE: &str = "GRAMPUS_BUS_ERROR_CASE";
const BYTES: usize = 1 << 20;

fn file_of(byte: u8) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![byte; BYTES]).unwrap();
    file
}

/// Runs `case` in a child, and returns the child's end.
fn in_child(test: &str, case: fn()) -> Option<ExitStatus> {
    if std::env::var(CASE).as_deref() == Ok(test) {
        case();
        return None;
    }
    let name = format!("raw::bus_error_guard::tests::{test}");
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &name, "--nocapture", "--test-threads=1"]);
    Some(child.env(CASE, test).output().unwrap().status)
}

fn set_action(handler: usize, flags: c_int) {
    // SAFETY: a zeroed action has an empty mask; the handlers of these tests fit their flags.
    unsafe {
        let mut action: sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        assert_eq!(sigaction(libc::SIGBUS, &raw const action, null_mut()), 0);
    }
}

/// A page of a mapping without a guard, which has no bytes.
fn lost_page() -> *const u8 {
    let file = file_of(1);
    // SAFETY: a new mapping at an address of the kernel's choice, which is never unmapped.
    let start = unsafe { rustix::mm::mmap(null_mut(), BYTES, ProtFlags::READ, MapFlags::SHARED, &file, 0) }.unwrap();
    file.set_len(0).unwrap();
    start.cast::<u8>().cast_const()
}

fn load(address: *const u8) -> u8 {
    // SAFETY: mapped; whether the page has bytes is what is tested.
    unsafe { ptr::read_volatile(address) }
}

fn guarded() -> Mapping {
    Mapping::new(&file_of(2), BYTES).unwrap()
}

#[test]
fn lost_pages_read_as_zeros_and_fail_their_mapping_alone() {
    let (lost, other) = (file_of(1), file_of(2));
    let (mapping, sound) = (
        Mapping::new(&lost, BYTES).unwrap(),
        Mapping::new(&other, BYTES).unwrap(),
    );
    let mut out = vec![9; 100];
    assert!(mapping.copy(BYTES - 100, &mut out) && out == [1; 100]);
    lost.set_len(5000).unwrap();
    // The first page stays; the second is cut off inside.
    assert!(mapping.copy(4990, &mut out) && out[..10] == [1; 10] && out[10..] == [0; 90]);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (mapping, sound) = (&mapping, &sound);
            scope.spawn(move || {
                let mut out = vec![9; 100_000];
                assert!(!mapping.copy(BYTES - (thread + 1) * 100_000, &mut out));
                assert!(out.iter().all(|byte| *byte == 0));
                assert!(sound.copy(BYTES - 100_000, &mut out) && out.iter().all(|byte| *byte == 2));
            });
        }
    });
    assert!(mapping.has_failed() && !sound.has_failed());
    assert!(!mapping.copy(0, &mut out), "a failed mapping stays failed");
    assert_eq!(out[..1], [1]);
    drop(mapping);
    assert!(!guarded().has_failed(), "a slot begins anew");
}

#[test]
fn mappings_that_come_and_go_beside_faults_stay_sound() {
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut out = [0; 8];
                for _ in 0..300 {
                    assert!(guarded().copy(BYTES - 8, &mut out) && out == [2; 8]);
                }
            });
            scope.spawn(|| {
                for _ in 0..300 {
                    let file = file_of(1);
                    let mapping = Mapping::new(&file, BYTES).unwrap();
                    file.set_len(0).unwrap();
                    assert!(!mapping.copy(BYTES / 2, &mut [0; 8]));
                }
            });
        }
    });
}

#[test]
fn fault_elsewhere_reaches_the_earlier_handler_with_its_address() {
    static EXPECTED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn earlier(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
        // SAFETY: valid in a handler; `_exit` may be called there.
        unsafe {
            let is_right = (*info).si_addr() as usize == EXPECTED.load(Ordering::Relaxed);
            libc::_exit(if is_right { 41 } else { 1 });
        }
    }
    let ended = in_child("fault_elsewhere_reaches_the_earlier_handler_with_its_address", || {
        set_action(
            earlier as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize,
            libc::SA_SIGINFO,
        );
        let _guarded = guarded();
        let lost = lost_page();
        EXPECTED.store(lost as usize, Ordering::Relaxed);
        load(lost);
    });
    if let Some(status) = ended {
        assert_eq!(status.code(), Some(41), "{status}");
    }
}

#[test]
fn fault_elsewhere_reaches_an_earlier_handler_without_siginfo() {
    extern "C" fn earlier(signal: c_int) {
        // SAFETY: may be called by handlers.
        unsafe { libc::_exit(if signal == libc::SIGBUS { 42 } else { 1 }) }
    }
    let ended = in_child("fault_elsewhere_reaches_an_earlier_handler_without_siginfo", || {
        set_action(earlier as extern "C" fn(c_int) as usize, 0);
        let _guarded = guarded();
        load(lost_page());
    });
    if let Some(status) = ended {
        assert_eq!(status.code(), Some(42), "{status}");
    }
}

#[test]
fn fault_elsewhere_ends_the_process_by_default() {
    for (test_action, name) in [(libc::SIG_DFL, "default"), (libc::SIG_IGN, "ignored")] {
        let test = "fault_elsewhere_ends_the_process_by_default";
        if std::env::var(CASE).is_ok_and(|case| case != name) {
            continue;
        }
        if std::env::var(CASE).as_deref() == Ok(name) {
            set_action(test_action, 0);
            let _guarded = guarded();
            load(lost_page());
            return;
        }
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([
            "--exact",
            &format!("raw::bus_error_guard::tests::{test}"),
            "--test-threads=1",
        ]);
        let status = child.env(CASE, name).output().unwrap().status;
        assert_eq!(status.signal(), Some(libc::SIGBUS), "{name}: {status}");
    }
}

#[test]
fn sent_signal_has_its_earlier_effect() {
    let ended = in_child("sent_signal_has_its_earlier_effect", || {
        set_action(libc::SIG_IGN, 0);
        let guarded = guarded();
        // SAFETY: sends a signal to this thread.
        unsafe { libc::raise(libc::SIGBUS) };
        assert!(!guarded.has_failed());
        // SAFETY: ends the process.
        unsafe { libc::_exit(43) }
    });
    if let Some(status) = ended {
        assert_eq!(status.code(), Some(43), "ignored before: {status}");
    }
}

#[test]
fn sent_signal_ends_the_process_by_default() {
    let ended = in_child("sent_signal_ends_the_process_by_default", || {
        set_action(libc::SIG_DFL, 0);
        let _guarded = guarded();
        // SAFETY: sends a signal to this thread.
        unsafe { libc::raise(libc::SIGBUS) };
    });
    if let Some(status) = ended {
        assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
    }
}

#[test]
fn later_handler_ends_new_mappings() {
    let ended = in_child("later_handler_ends_new_mappings", || {
        let first = guarded();
        set_action(libc::SIG_DFL, 0);
        let refused = Mapping::new(&file_of(3), BYTES).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
        assert!(first.copy(0, &mut [0; 8]));
        // SAFETY: ends the process.
        unsafe { libc::_exit(44) }
    });
    if let Some(status) = ended {
        assert_eq!(status.code(), Some(44), "{status}");
    }
}
