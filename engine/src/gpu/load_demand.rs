//! [`LoadDemand`]: how often queries are asked that are faster with their columns on the device.
//!
//! Queries with other literals count as one: a [`LoadKey`] has program, columns and files. A query counts half after
//! [`HALF_LIFE`], so that what is asked now counts more than what was asked before.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grampus_gpu_exec::input::Input;
use grampus_gpu_exec::program::Program;

/// The time after which a query counts half.
const HALF_LIFE: Duration = Duration::from_secs(60);
/// Maximum number of keys. At the maximum, those that count less than one query are forgotten, else all.
const MAX_KEYS: usize = 10_000;

/// The program, columns and files of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LoadKey(u64);

impl LoadKey {
    pub(crate) fn of(program: &Program, input: &Input) -> Self {
        let mut hasher = DefaultHasher::new();
        program.hash(&mut hasher);
        input.column_ids.hash(&mut hasher);
        input.files.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Counts of queries, by key.
#[derive(Debug, Default)]
pub(crate) struct LoadDemand(Mutex<HashMap<LoadKey, Count>>);

/// A count, and the time at which it was right.
#[derive(Debug, Clone, Copy)]
struct Count {
    queries: f64,
    at: Instant,
}

impl Count {
    fn at(self, now: Instant) -> f64 {
        let age = now.saturating_duration_since(self.at);
        self.queries * (-age.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2()
    }
}

impl LoadDemand {
    /// Counts a query.
    pub(crate) fn count(&self, key: LoadKey, now: Instant) {
        let mut counts = self.lock();
        if counts.len() >= MAX_KEYS && !counts.contains_key(&key) {
            counts.retain(|_, count| count.at(now) >= 1.0);
            if counts.len() >= MAX_KEYS {
                counts.clear();
            }
        }
        let queries = counts.get(&key).map_or(0.0, |count| count.at(now)) + 1.0;
        counts.insert(key, Count { queries, at: now });
    }

    /// How often queries of this key were asked, the latest more than those before.
    pub(crate) fn of(&self, key: LoadKey, now: Instant) -> f64 {
        self.lock().get(&key).map_or(0.0, |count| count.at(now))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LoadKey, Count>> {
        // Each change leaves a whole map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_count_half_after_a_half_life() {
        let (demand, begun) = (LoadDemand::default(), Instant::now());
        let (often, late) = (LoadKey(1), LoadKey(2));
        for _ in 0..3 {
            demand.count(often, begun);
        }
        let then = begun + 2 * HALF_LIFE;
        demand.count(late, then);
        assert_eq!(demand.of(often, begun), 3.0);
        assert_eq!((demand.of(often, then), demand.of(late, then)), (0.75, 1.0));
        demand.count(often, then);
        assert_eq!(demand.of(often, then), 1.75);
        assert_eq!(demand.of(LoadKey(3), then), 0.0);
    }

    #[test]
    fn a_full_map_forgets_what_is_asked_no_more() {
        let (demand, begun) = (LoadDemand::default(), Instant::now());
        for key in 0..MAX_KEYS as u64 {
            demand.count(LoadKey(key), begun);
        }
        let then = begun + HALF_LIFE;
        demand.count(LoadKey(7), then);
        demand.count(LoadKey(u64::MAX), then);
        assert_eq!(demand.lock().len(), 2);
        assert_eq!(demand.of(LoadKey(7), then), 1.5);
    }
}
