//! [`ContextSharers`]: the devices of this process that share a GPU's primary context. An error that kills the context
//! kills it for all of them, and it ends when the last of them has given it up (CUDA Driver API, "Primary Context
//! Management"). So all give it up at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use grampus_io_stack::cuda::DeviceFacts;

use super::device_state::DeviceState;
use super::kept_plans::KeptPlans;
use super::memory::residency::Residency;
use crate::options::Target;

/// What a [`Gpu`](super::Gpu) has of an open device.
#[derive(Debug, Default)]
pub(super) struct Opened {
    pub(super) state: Option<Arc<DeviceState>>,
    /// A state with a dead context. The device can be opened anew when the last query has left it.
    closing: Weak<DeviceState>,
    /// Outlives a state: plans do not hold states, whose end waits for kernels.
    pub(super) published: Option<(Arc<Residency>, DeviceFacts)>,
}

impl Opened {
    pub(super) fn new(state: &Arc<DeviceState>) -> Self {
        Self {
            state: Some(Arc::clone(state)),
            closing: Weak::new(),
            published: Some((state.residency.clone(), state.facts.clone())),
        }
    }
}

/// The place of a [`Gpu`](super::Gpu)'s state, which others that share the context can empty.
#[derive(Debug, Default)]
pub(super) struct StatePlace {
    /// Locked for look-ups and replacements alone.
    opened: Mutex<Opened>,
    pub(super) kept_plans: KeptPlans,
}

impl StatePlace {
    pub(super) fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives up this device's state alone, if it is `state`: the next query opens the device anew.
    pub(super) fn discard(&self, state: &Arc<DeviceState>) {
        let discarded = match self.holds(state) {
            true => self.empty(),
            false => None,
        };
        drop(discarded);
    }

    fn holds(&self, state: &Arc<DeviceState>) -> bool {
        (self.opened().state.as_ref()).is_some_and(|open| Arc::ptr_eq(open, state))
    }

    /// Takes the state out. The caller drops it outside of locks, since that may take long.
    fn empty(&self) -> Option<Arc<DeviceState>> {
        let mut opened = self.opened();
        let state = opened.state.take()?;
        *opened = Opened {
            closing: Arc::downgrade(&state),
            ..Opened::default()
        };
        self.kept_plans.clear(); // they have memory of the dead context
        Some(state)
    }
}

/// The places of all devices that share a context.
#[derive(Debug, Default)]
pub(super) struct ContextSharers(Mutex<Vec<Weak<StatePlace>>>);

/// By the GPU's number.
static OF_GPUS: Mutex<Vec<(u32, Arc<ContextSharers>)>> = Mutex::new(Vec::new());

impl ContextSharers {
    /// Those of a target. Devices of host threads share nothing.
    pub(super) fn of(target: Target) -> Arc<Self> {
        let Target::Cuda(ordinal) = target else {
            return Arc::default();
        };
        let mut known = OF_GPUS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, sharers)) = known.iter().find(|(number, _)| *number == ordinal) {
            return Arc::clone(sharers);
        }
        let sharers = Arc::<Self>::default();
        known.push((ordinal, Arc::clone(&sharers)));
        sharers
    }

    /// A place for one more device.
    pub(super) fn join(&self) -> Arc<StatePlace> {
        let place = Arc::<StatePlace>::default();
        let mut places = self.lock();
        places.retain(|other| other.strong_count() > 0);
        places.push(Arc::downgrade(&place));
        place
    }

    /// Gives up the states of all devices, since the context of this one is dead: the next query of each opens the
    /// device anew. Does nothing if `place` has another state by now.
    pub(super) fn discard(&self, place: &StatePlace, state: &Arc<DeviceState>) {
        // One at a time: of several queries that see the same error, the first one empties all places.
        let places = self.lock();
        let dead: Vec<_> = match place.holds(state) {
            true => places.iter().filter_map(|other| other.upgrade()?.empty()).collect(),
            false => Vec::new(),
        };
        drop(places);
        drop(dead);
    }

    /// Whether queries still use a dead context.
    pub(super) fn is_closing(&self) -> bool {
        let in_use = |place: &Weak<StatePlace>| {
            let place = place.upgrade();
            place.is_some_and(|place| place.opened().closing.strong_count() > 0)
        };
        self.lock().iter().any(in_use)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<StatePlace>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use grampus_io_stack::cuda::host_compiler;

    use super::*;
    use crate::options::GpuOptions;
    use crate::runtime::runtime_options::RuntimeOptions;

    fn open(place: &StatePlace) -> Arc<DeviceState> {
        let options = GpuOptions {
            target: Target::Host { threads: 1 },
            cache_bytes: Some(1 << 20),
            pin_bytes: None,
            kernel_folder: None,
            threads: 1,
        };
        let state = Arc::new(DeviceState::open(&options, &RuntimeOptions::default()).expect("host threads"));
        *place.opened() = Opened::new(&state);
        state
    }

    #[test]
    fn an_error_of_one_device_closes_all_that_share_its_context() {
        if host_compiler().is_err() {
            return;
        }
        let sharers = ContextSharers::default();
        let [failing, idle, running] = [sharers.join(), sharers.join(), sharers.join()];
        let [failed, used] = [open(&failing), open(&running)];
        drop(open(&idle));
        assert!(!sharers.is_closing());
        sharers.discard(&failing, &failed);
        for place in [&failing, &idle, &running] {
            assert!(place.opened().state.is_none() && place.opened().published.is_none());
        }
        drop(failed);
        assert!(sharers.is_closing(), "a query uses the dead context");
        drop(used);
        assert!(!sharers.is_closing());
    }

    #[test]
    fn late_errors_of_a_dead_context_close_no_later_one() {
        if host_compiler().is_err() {
            return;
        }
        let sharers = ContextSharers::default();
        let [first, second] = [sharers.join(), sharers.join()];
        let [of_first, of_second] = [open(&first), open(&second)];
        sharers.discard(&first, &of_first);
        open(&first);
        sharers.discard(&second, &of_second);
        sharers.discard(&first, &of_first);
        assert!(first.opened().state.is_some());
    }

    #[test]
    fn devices_of_one_gpu_alone_share() {
        assert!(Arc::ptr_eq(
            &ContextSharers::of(Target::Cuda(7)),
            &ContextSharers::of(Target::Cuda(7))
        ));
        assert!(!Arc::ptr_eq(
            &ContextSharers::of(Target::Cuda(7)),
            &ContextSharers::of(Target::Cuda(8))
        ));
        let host = Target::Host { threads: 1 };
        assert!(!Arc::ptr_eq(&ContextSharers::of(host), &ContextSharers::of(host)));
    }
}
