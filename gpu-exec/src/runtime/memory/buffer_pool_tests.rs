//! Tests of the pool: eviction, and columns of queries that run side by side.

use super::*;
use crate::input::FileVersion;
use crate::program::{Stored, Type};
use crate::runtime::memory::arena::{MARGIN_BYTES, RANGE_GRAIN_BYTES};
use crate::runtime::memory::residency::{Limits, Presence};

fn key(stripe: usize) -> ColumnKey {
    let version = FileVersion {
        path: "a".into(),
        device: 0,
        inode: 0,
        bytes: 0,
        modified_ns: 0,
        namespace: None,
    };
    let (file, _) = crate::input::file_registry::FileRegistry::default().number(&version);
    ColumnKey {
        file,
        stripe,
        column: 1,
        ty: Type::Float64,
        stored: Stored::of(Type::Float64),
        dictionary: 0,
    }
}

fn pool_of(memory: u64, capacity: u64) -> BufferPool {
    let limits = Limits {
        capacity: 0,
        pin_bytes: 0,
        block_shared_bytes: 0,
    };
    let residency = Arc::new(Residency::new(limits));
    BufferPool::new(&Device::host(1, memory), &residency, capacity)
}

fn pool(capacity: u64) -> BufferPool {
    pool_of(1 << 30, capacity)
}

fn has(pool: &BufferPool, stripe: usize) -> bool {
    pool.residency.known().has(&key(stripe))
}

#[test]
fn ranges_given_out_one_after_the_other_touch_and_come_back_whole() {
    let mut pool = pool(1 << 20);
    let all: Vec<DeviceRange> = (0..4).map(|_| pool.take(1000).unwrap().unwrap()).collect();
    assert!(all.windows(2).all(|w| w[0].address() + 1000 == w[1].address()));
    for at in [1, 3, 0, 2] {
        pool.give_back(&all[at]);
    }
    let whole = (1 << 20) - 2 * MARGIN_BYTES;
    assert!(pool.take(whole).unwrap().is_some(), "all free pieces were merged");
    assert!(pool.take(8).unwrap().is_none());
}

#[test]
fn the_least_recently_used_columns_make_room_and_those_of_the_query_stay() {
    let mut pool = pool(100_000);
    for stripe in 0..3 {
        let query = pool.begin();
        assert!(pool.reserve(query, key(stripe), 30_000, None).unwrap().is_some());
        pool.finish(query, true);
    }
    let query = pool.begin();
    assert!(pool.find(query, &key(0)).is_some());
    assert!(pool.reserve(query, key(3), 30_000, None).unwrap().is_some());
    assert!(!has(&pool, 1), "the oldest made room");
    assert!(has(&pool, 0) && has(&pool, 2));
    assert!(!has(&pool, 3), "not before it is loaded");
    assert!(pool.reserve(query, key(4), 30_000, Some(3_000)).unwrap().is_some());
    assert!(
        pool.reserve(query, key(5), 30_000, None).unwrap().is_none(),
        "all is in use"
    );
    assert!(has(&pool, 0));
    pool.finish(query, false);
    assert!(has(&pool, 0) && !has(&pool, 3) && !has(&pool, 4));
    assert_eq!(pool.resident_bytes(), 30_000);
}

fn reserve_pages(pool: &mut BufferPool, query: QueryId, stripe: usize) -> DeviceRange {
    let there = pool.take(8).unwrap().unwrap();
    let bits = PresenceBitmap {
        there,
        pages: 50,
        page_rows: 8,
        missing: 50,
    };
    let reserved = pool.reserve_paged(query, key(stripe), 3_200, None, bits);
    reserved.unwrap().unwrap().values
}

#[test]
fn a_column_that_is_there_in_part_is_whole_with_its_last_page() {
    let mut pool = pool(100_000);
    let query = pool.begin();
    reserve_pages(&mut pool, query, 0);
    pool.pages_came(query, &key(0), 20);
    pool.finish(query, true);
    let query = pool.begin();
    assert!(!has(&pool, 0) && pool.find(query, &key(0)).is_none());
    assert_eq!(pool.page_bits(&key(0)).unwrap().missing, 30);
    assert_eq!(pool.residency.known().column(&key(0)), Some(Presence::Pages(20)));
    assert_eq!(pool.resident_bytes(), 3_208);
    assert!(pool.find_paged(query, &key(0)).is_some());
    pool.pages_came(query, &key(0), 30);
    assert!(has(&pool, 0) && pool.page_bits(&key(0)).is_none());
    assert_eq!(pool.resident_bytes(), 3_200);
    reserve_pages(&mut pool, query, 1);
    pool.finish(query, false);
    assert!(has(&pool, 0) && !pool.has_pages(&key(1)), "half done");
    // A partially resident column of an earlier query stays, and is evicted when space is needed.
    let query = pool.begin();
    reserve_pages(&mut pool, query, 2);
    pool.finish(query, true);
    let query = pool.begin();
    pool.finish(query, false);
    assert!(pool.has_pages(&key(2)));
    let query = pool.begin();
    assert!(pool.reserve(query, key(3), 99_000, None).unwrap().is_some());
    assert!(!pool.has_pages(&key(2)));
    pool.finish(query, true);
    pool.forget(key(3).file);
    assert_eq!(pool.resident_bytes(), 0);
    let whole = pool
        .take((100_000 - 2 * MARGIN_BYTES) / RANGE_GRAIN_BYTES * RANGE_GRAIN_BYTES)
        .unwrap();
    assert!(whole.is_some(), "all pieces came back");
}

#[test]
fn columns_that_another_query_loads_or_pages_get_a_range_of_their_own() {
    let mut pool = pool(100_000);
    let (first, second) = (pool.begin(), pool.begin());
    let one = pool.reserve(first, key(0), 3_200, None).unwrap().unwrap();
    assert!(pool.find(second, &key(0)).is_none(), "it is being loaded");
    let other = pool.reserve(second, key(0), 3_200, None).unwrap().unwrap();
    assert_ne!(one.values.offset, other.values.offset);
    let pages = reserve_pages(&mut pool, first, 1);
    assert!(pool.find_paged(second, &key(1)).is_none(), "its pages are being loaded");
    assert_ne!(reserve_pages(&mut pool, second, 1).offset, pages.offset);
    pool.pages_came(second, &key(1), 50);
    assert_eq!(pool.page_bits(&key(1)).unwrap().missing, 50, "the other query's came");
    pool.finish(second, true);
    assert_eq!(pool.resident_bytes(), 3_200 + 3_208, "the keys are taken");
    pool.finish(first, true);
    assert!(has(&pool, 0) && pool.has_pages(&key(1)));
    // If the first one fails, the second one's column is kept.
    let (first, second) = (pool.begin(), pool.begin());
    pool.reserve(first, key(2), 3_200, None).unwrap().unwrap();
    pool.reserve(second, key(2), 3_200, None).unwrap().unwrap();
    pool.finish(first, false);
    assert!(!has(&pool, 2));
    pool.finish(second, true);
    assert!(has(&pool, 2));
}

#[test]
fn memory_that_a_query_reads_is_not_given_out_when_its_file_is_forgotten() {
    let mut pool = pool(10_000);
    let loader = pool.begin();
    pool.reserve(loader, key(0), 9_000, None).unwrap().unwrap();
    pool.finish(loader, true);
    let (reader, other) = (pool.begin(), pool.begin());
    assert!(pool.find(reader, &key(0)).is_some());
    pool.forget(key(0).file);
    assert!(!has(&pool, 0));
    assert!(pool.reserve(other, key(0), 9_000, None).unwrap().is_none());
    assert_eq!(pool.available(other), 1_000);
    pool.finish(reader, true);
    assert!(!has(&pool, 0) && pool.resident_bytes() == 0, "it is not listed again");
    assert!(pool.reserve(other, key(0), 9_000, None).unwrap().is_some());
}

#[test]
fn windows_of_other_queries_are_not_available() {
    let mut pool = pool(10_000);
    let (first, second) = (pool.begin(), pool.begin());
    assert!(pool.lend(first, 4_000).unwrap().is_some());
    assert_eq!((pool.available(first), pool.available(second)), (10_000, 6_000));
    assert_eq!(pool.unused(), 6_000);
    pool.finish(first, false);
    assert_eq!(pool.available(second), 10_000);
}

#[test]
fn memory_is_set_aside_of_what_no_query_uses_and_comes_back() {
    let mut pool = pool(40_000);
    let loader = pool.begin();
    pool.reserve(loader, key(0), 30_000, None).unwrap().unwrap();
    assert!(pool.set_aside(20_000).is_none(), "the query uses the only arena");
    assert_eq!(pool.capacity(), 40_000);
    pool.finish(loader, true);
    let gone = pool.set_aside(20_000).unwrap();
    assert_eq!((gone.len(), pool.capacity()), (1, 20_000));
    assert!(!has(&pool, 0), "evicted with its arena");
    drop(gone);
    let query = pool.begin();
    assert!(pool.reserve(query, key(1), 19_000, None).unwrap().is_some());
    assert!(pool.reserve(query, key(2), 10_000, None).unwrap().is_none());
    pool.give_more(20_000);
    assert!(pool.reserve(query, key(2), 10_000, None).unwrap().is_some());
}

#[test]
fn less_memory_than_allowed_is_the_bound() {
    let mut pool = pool_of(1 << 20, 1 << 40);
    assert!(pool.take(2 << 20).unwrap().is_none());
    assert!(pool.take(100 << 10).unwrap().is_some());
    assert!(pool.capacity() < 3 << 20);
}

/// Columns of 100,000 stripes make room for as many others: without an order of eviction, each looks at all.
#[test]
fn columns_of_many_stripes_are_replaced_in_the_order_of_their_use() {
    const STRIPES: usize = 100_000;
    let began = std::time::Instant::now();
    let mut pool = pool(STRIPES as u64 * 64 + 2 * MARGIN_BYTES as u64);
    let load = |pool: &mut BufferPool, stripes: std::ops::Range<usize>| {
        let query = pool.begin();
        for stripe in stripes {
            assert!(pool.reserve(query, key(stripe), 64, None).unwrap().is_some());
        }
        pool.finish(query, true);
    };
    load(&mut pool, 0..STRIPES / 2);
    load(&mut pool, STRIPES / 2..STRIPES);
    let query = pool.begin();
    assert!(pool.find(query, &key(0)).is_some());
    pool.finish(query, true);
    load(&mut pool, STRIPES..STRIPES + STRIPES / 2 - 1);
    assert!(has(&pool, 0) && !has(&pool, 1) && !has(&pool, STRIPES / 2 - 1) && has(&pool, STRIPES / 2));
    load(&mut pool, 2 * STRIPES..3 * STRIPES);
    assert_eq!(pool.resident_bytes(), STRIPES as u64 * 64);
    assert!(!has(&pool, 0) && has(&pool, 2 * STRIPES) && has(&pool, 3 * STRIPES - 1));
    pool.evict_unused();
    assert_eq!((pool.resident_bytes(), pool.evictable.len()), (0, 0));
    println!("{:?}", began.elapsed());
}
