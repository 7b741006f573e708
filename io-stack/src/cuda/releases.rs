//! `Releases`: when memory and modules are given back to the driver: at once, or later while kernels wait for the host.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Gives something back to the driver.
type Release = Box<dyn FnOnce() + Send>;

/// What is to be given back of one device.
#[derive(Default)]
pub(super) struct Releases {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Calls of [`Releases::hold`] without their [`Releases::let_go`].
    holds: usize,
    kept: Vec<Release>,
}

/// By ordinal: handles of one GPU share its primary context.
static OF_GPUS: Mutex<BTreeMap<i32, Weak<Releases>>> = Mutex::new(BTreeMap::new());

impl Releases {
    /// Those of a GPU.
    pub(super) fn of_gpu(ordinal: i32) -> Arc<Self> {
        let mut known = OF_GPUS.lock().unwrap_or_else(PoisonError::into_inner);
        let of_gpu = known.get(&ordinal).and_then(Weak::upgrade).unwrap_or_default();
        known.insert(ordinal, Arc::downgrade(&of_gpu));
        of_gpu
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives something back, now or when nothing holds it up.
    pub(super) fn give_back(&self, release: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        match state.holds {
            0 => release(), // under the lock: no hold begins meanwhile
            _ => state.kept.push(Box::new(release)),
        }
    }

    /// From now on, everything is kept. Waits for what is being given back.
    pub(super) fn hold(&self) {
        self.state().holds += 1;
    }

    /// Ends a hold. The last one gives back what was kept.
    pub(super) fn let_go(&self) {
        let mut state = self.state();
        state.holds -= 1;
        if state.holds == 0 {
            let kept = std::mem::take(&mut state.kept);
            kept.into_iter().for_each(|release| release());
            self.changed.notify_all();
        }
    }

    /// Whether something is kept.
    pub(super) fn are_kept(&self) -> bool {
        !self.state().kept.is_empty()
    }

    /// Waits until what is kept has been given back, at most for `limit`. False: nothing was.
    pub(super) fn wait(&self, limit: Duration) -> bool {
        let state = self.state();
        if state.kept.is_empty() {
            return false;
        }
        let are_kept = |state: &mut State| !state.kept.is_empty();
        let waited = self.changed.wait_timeout_while(state, limit, are_kept);
        waited.unwrap_or_else(PoisonError::into_inner).0.kept.is_empty()
    }
}

impl std::fmt::Debug for Releases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (holds, kept) = (self.state().holds, self.state().kept.len());
        f.debug_struct("Releases")
            .field("holds", &holds)
            .field("kept", &kept)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_a_gpu_share_its_releases() {
        let one = Releases::of_gpu(-7);
        assert!(Arc::ptr_eq(&one, &Releases::of_gpu(-7)));
        assert!(!Arc::ptr_eq(&one, &Releases::of_gpu(-8)));
    }
}
