//! `IoThreads`: how the threads of a query are started that copy columns and read pages.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread::Scope;

use crate::error::{RefusalReason, RunError};
use crate::runtime::paging::fault_handler::FaultHandler;
use crate::runtime::transfer::uploader::{Step, Uploader};

/// Slots in use while threads both copy and read pages: as many as threads. Together they hold about what the CPU's
/// second-level caches do. With fewer slots than these the link runs dry.
const MIN_SLOTS: usize = 8;

/// The threads that a launch can start.
pub(crate) struct IoThreads<'a> {
    /// Loads pages, if any can be missed.
    pub(crate) fault_handler: Option<&'a FaultHandler<'a>>,
    /// Starts the threads that do the copy jobs.
    pub(crate) start: &'a dyn Fn() -> Result<(), RunError>,
    /// Starts the threads that load pages, unless those that copy do both. A query that misses nothing needs none.
    pub(crate) start_fault_handling: &'a dyn Fn() -> Result<(), RunError>,
}

/// Does a reader thread's work. A panic in it stops the query first, which would wait for the thread's part for ever.
/// Then it goes on: the scope of the threads passes it to the caller.
pub(crate) fn stopping_on_panic(
    uploader: &Uploader<'_>,
    fault_handler: Option<&FaultHandler<'_>>,
    work: impl FnOnce(),
) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        uploader.stop();
        fault_handler.iter().for_each(|handler| handler.stop());
        resume_unwind(panic);
    }
}

/// The work of a thread that both copies and loads pages. The link to the device is kept busy first; pages are read
/// whenever it has enough to do. Twice as many threads, one half for each, would be scheduled as the system likes.
pub(crate) fn copy_and_load_pages(uploader: &Uploader<'_>, fault_handler: &FaultHandler<'_>, threads: usize) {
    let mut file = None;
    loop {
        match uploader.step(threads.max(MIN_SLOTS)) {
            Step::Did => {}
            Step::NoSlot if fault_handler.step(&mut file) => {}
            Step::NoSlot => uploader.ring.wait(),
            Step::Over => return fault_handler.work(&mut file),
        }
    }
}

/// Starts threads that all do the same work. The first of them starts the others: beside threads that work already this
/// takes a while, and the caller has kernels to launch.
pub(crate) fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    count: usize,
    work: &'scope (dyn Fn() + Sync),
) -> Result<(), RunError> {
    let one = || std::thread::Builder::new().name("grampus-reader".to_owned());
    let all = move || {
        for _ in 1..count {
            if let Err(e) = one().spawn_scoped(scope, work) {
                log::warn!("fewer threads read than should: {e}");
                break;
            }
        }
        work();
    };
    if count > 0 {
        let spawned = one().spawn_scoped(scope, all);
        spawned.map_err(RefusalReason::Thread)?;
    }
    Ok(())
}
