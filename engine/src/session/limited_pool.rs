//! `LimitedPool`: the memory pool of a session with a limit.
//!
//! Consumers that can spill share two fifths of what the others leave. The rest is for the steps that cannot spill,
//! such as the merge of a sort, which takes up to as much as the sort holds. Only consumers that hold memory count, so
//! an idle operator takes no share.
//!
//! Every consumer is granted a *minimum*, even beyond the limit, and one that cannot spill two. A sort or an
//! aggregation with a batch and a merge buffer makes progress. So a query at a low limit spills, and does not fail or
//! succeed by the order in which its operators ask.
//!
//! Within the limit, each reservation of a consumer that can spill is granted the minimum too, beside the consumer's
//! share. An aggregation that merges its spilled runs has two reservations: the merge takes the whole share, and the
//! groups must still have space.
//!
//! **Invariant:** all grants together are at most the limit and two minimums per consumer. The minimum is a 32nd of
//! what one partition has of the limit.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::common::resources_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

/// The share of a partition that every consumer is granted, as a divisor.
const MINIMUM_DIVISOR: usize = 32;

/// A pool of `limit` bytes.
#[derive(Debug)]
pub(super) struct LimitedPool {
    limit: usize,
    minimum: usize,
    held: Mutex<Held>,
}

/// The bytes that consumers hold.
#[derive(Debug, Default)]
struct Held {
    spillable: usize,
    unspillable: usize,
    /// Bytes by consumer; consumers without memory are absent.
    by_consumer: HashMap<usize, Share>,
    /// Consumers in `by_consumer` that can spill.
    spillers: usize,
}

#[derive(Debug)]
struct Share {
    bytes: usize,
    can_spill: bool,
}

impl LimitedPool {
    /// A pool for queries of this number of partitions.
    pub(super) fn new(limit: usize, partitions: usize) -> Self {
        Self {
            limit,
            minimum: minimum_bytes(limit, partitions),
            held: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `reservation` may hold `additional` more bytes.
    fn grants(&self, held: &Held, reservation: &MemoryReservation, additional: usize) -> bool {
        let consumer = reservation.consumer();
        let own = held.by_consumer.get(&consumer.id()).map_or(0, |share| share.bytes);
        let wanted = own.saturating_add(additional);
        let minimum = if consumer.can_spill() {
            self.minimum
        } else {
            2 * self.minimum
        };
        if wanted <= minimum {
            return true;
        }
        if held.total().saturating_add(additional) > self.limit {
            return false;
        }
        if !consumer.can_spill() || reservation.size().saturating_add(additional) <= self.minimum {
            return true;
        }
        let spillers = held.spillers + usize::from(own == 0);
        wanted <= self.limit.saturating_sub(held.unspillable) / 5 * 2 / spillers.max(1)
    }
}

/// What every consumer is granted, in bytes.
pub(super) fn minimum_bytes(limit: usize, partitions: usize) -> usize {
    limit / partitions.max(1) / MINIMUM_DIVISOR
}

impl Held {
    fn total(&self) -> usize {
        self.spillable.saturating_add(self.unspillable)
    }

    fn add(&mut self, consumer: &MemoryConsumer, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let can_spill = consumer.can_spill();
        *self.side(can_spill) += bytes;
        match self.by_consumer.get_mut(&consumer.id()) {
            Some(share) => share.bytes += bytes,
            None => {
                self.spillers += usize::from(can_spill);
                self.by_consumer.insert(consumer.id(), Share { bytes, can_spill });
            }
        }
    }

    fn remove(&mut self, consumer: &MemoryConsumer, bytes: usize) {
        let side = self.side(consumer.can_spill());
        *side = side.saturating_sub(bytes);
        let Some(share) = self.by_consumer.get_mut(&consumer.id()) else {
            return;
        };
        share.bytes = share.bytes.saturating_sub(bytes);
        if share.bytes == 0 {
            self.spillers -= usize::from(share.can_spill);
            self.by_consumer.remove(&consumer.id());
        }
    }

    fn side(&mut self, can_spill: bool) -> &mut usize {
        match can_spill {
            true => &mut self.spillable,
            false => &mut self.unspillable,
        }
    }
}

impl MemoryPool for LimitedPool {
    fn name(&self) -> &str {
        "limited"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.lock().add(reservation.consumer(), additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.lock().remove(reservation.consumer(), shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut held = self.lock();
        if self.grants(&held, reservation, additional) {
            held.add(reservation.consumer(), additional);
            return Ok(());
        }
        log::debug!(
            "{} asks for {additional} bytes; it holds {}",
            reservation.consumer().name(),
            reservation.size()
        );
        resources_err!(
            "the query needs more than the memory limit of {} (-m, GrampusConfig::memory_limit): \
             it holds {}, and its next step needs {} more",
            human_bytes(self.limit),
            human_bytes(held.total()),
            human_bytes(additional)
        )
    }

    fn reserved(&self) -> usize {
        self.lock().total()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

impl fmt::Display for LimitedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limited({})", human_bytes(self.limit))
    }
}

/// Bytes for people: `24.0 MiB`.
fn human_bytes(bytes: usize) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn pool(limit: usize) -> Arc<dyn MemoryPool> {
        Arc::new(LimitedPool::new(limit, 1))
    }

    fn consumer(pool: &Arc<dyn MemoryPool>, can_spill: bool) -> MemoryReservation {
        MemoryConsumer::new("Operator[0]")
            .with_can_spill(can_spill)
            .register(pool)
    }

    #[test]
    fn spillers_share_two_fifths_and_leave_the_rest_to_others() {
        let pool = pool(3200);
        let (first, second, merge) = (consumer(&pool, true), consumer(&pool, true), consumer(&pool, false));
        assert!(first.try_grow(1281).is_err());
        first.try_grow(1280).unwrap();
        merge.try_grow(1920).unwrap();
        assert!(merge.try_grow(1).is_err());
        // The limit is reached. The others still get their minimums, and their shares when the first has spilled.
        second.try_grow(100).unwrap();
        assert!(second.try_grow(1).is_err());
        let last = consumer(&pool, false);
        last.try_grow(200).unwrap();
        assert!(last.try_grow(1).is_err());
        assert!(first.try_grow(1).is_err());
        first.free();
        second.try_grow(332).unwrap();
        assert!(second.try_grow(1).is_err());
        assert_eq!(pool.reserved(), 432 + 1920 + 200);
        drop((second, merge, last));
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn second_reservation_of_a_consumer_has_a_minimum_beside_the_share() {
        let pool = pool(3200);
        let (merge, others) = (consumer(&pool, true), consumer(&pool, false));
        let groups = merge.new_empty();
        merge.try_grow(1280).unwrap(); // the whole share
        groups.try_grow(60).unwrap();
        groups.try_grow(40).unwrap();
        assert!(groups.try_grow(1).is_err());
        groups.free();
        // Beyond the limit, only the consumer's own minimum is granted.
        others.try_grow(1920).unwrap();
        assert!(groups.try_grow(1).is_err());
        merge.free();
        groups.try_grow(100).unwrap();
    }

    #[test]
    fn idle_spillers_take_no_share() {
        let pool = pool(3200);
        let idle: Vec<_> = (0..50).map(|_| consumer(&pool, true)).collect();
        let busy = consumer(&pool, true);
        busy.try_grow(1280).unwrap();
        busy.free();
        idle[0].try_grow(10).unwrap();
        assert!(busy.try_grow(641).is_err());
        busy.try_grow(640).unwrap();
    }

    #[test]
    fn error_names_the_setting_and_the_need_but_no_operator() {
        let pool = pool(24 << 20);
        let held = consumer(&pool, false);
        held.try_grow(20 << 20).unwrap();
        let error = held.try_grow(5 << 20).unwrap_err().strip_backtrace();
        assert_eq!(
            error,
            "Resources exhausted: the query needs more than the memory limit of 24.0 MiB (-m, \
             GrampusConfig::memory_limit): it holds 20.0 MiB, and its next step needs 5.0 MiB more"
        );
    }

    #[test]
    fn bytes_are_for_people() {
        let texts = [0, 1023, 1536, 200_000, 5 << 30].map(human_bytes);
        assert_eq!(texts, ["0 bytes", "1023 bytes", "1.5 KiB", "195.3 KiB", "5.0 GiB"]);
    }
}
