//! [`attached`] and [`call_python`]: the way into the interpreter from threads that are not Python's.

use pyo3::ffi;
use pyo3::prelude::*;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Calls Python from a thread that may have the interpreter lock or not. `None`: the interpreter ends.
///
/// A function of Python that this library has called may have called another library, which gives the lock away and
/// calls this one. [`Python::attach`] would take such a thread for one that has the lock.
pub(crate) fn attached<T>(call: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    struct Lock(ffi::PyGILState_STATE);
    impl Drop for Lock {
        fn drop(&mut self) {
            // SAFETY: the thread has taken the lock by `PyGILState_Ensure`, and gives it back once.
            unsafe { ffi::PyGILState_Release(self.0) };
        }
    }
    // SAFETY: may be called at any time.
    if unsafe { ffi::Py_IsInitialized() } == 0 {
        return None;
    }
    // SAFETY: the interpreter is there. A thread that has the lock may take it again.
    let _lock = Lock(unsafe { ffi::PyGILState_Ensure() });
    // SAFETY: the thread has the lock until `_lock` is dropped.
    Some(call(unsafe { Python::assume_attached() }))
}

/// Calls Python from a worker. The function may execute queries and wait for them. `None`: the interpreter ends.
pub(crate) fn call_python<T>(call: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let is_worker = Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    match is_worker {
        true => tokio::task::block_in_place(|| attached(call)),
        false => attached(call),
    }
}
