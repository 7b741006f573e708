//! [`ScopedThreads`]: threads that live as long as one piece of work, on which ORC files are encoded.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use grampus_orc_layout::write::EncodingThreads;

/// A number of threads, divided over the files that are written at once.
#[derive(Debug)]
pub struct ScopedThreads {
    total: usize,
    files: AtomicUsize,
}

impl ScopedThreads {
    /// Threads for one file, the writing thread among them.
    pub fn new(total: usize) -> Self {
        Self {
            total,
            files: AtomicUsize::new(1),
        }
    }

    /// Divides the threads over this number of files.
    pub(crate) fn share_among(&self, files: usize) {
        self.files.store(files.max(1), Ordering::Relaxed);
    }
}

impl EncodingThreads for ScopedThreads {
    fn count(&self) -> usize {
        (self.total / self.files.load(Ordering::Relaxed)).max(1)
    }

    fn run(&self, count: usize, work: &(dyn Fn() + Sync)) {
        thread::scope(|scope| {
            // Without one of the threads, the others do its part.
            let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
            let started: Vec<_> = (1..count).filter_map(start).collect();
            work();
            for thread in started {
                if let Err(panic) = thread.join() {
                    resume_unwind(panic);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn threads_work_at_once_and_are_divided_over_files() {
        let threads = ScopedThreads::new(8);
        let (all_there, calls) = (Barrier::new(3), AtomicUsize::new(0));
        threads.run(3, &|| {
            all_there.wait();
            calls.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(calls.into_inner(), 3);
        let counts = [1, 2, 3, 8, 100].map(|files| {
            threads.share_among(files);
            threads.count()
        });
        assert_eq!(counts, [8, 4, 2, 1, 1]);
    }

    #[test]
    fn panic_of_a_thread_keeps_its_words() {
        let (own, all_there) = (thread::current().id(), Barrier::new(2));
        let work = || {
            all_there.wait();
            assert!(thread::current().id() == own, "not the caller's");
        };
        let panic = catch_unwind(AssertUnwindSafe(|| ScopedThreads::new(2).run(2, &work))).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"not the caller's"));
    }
}
