//! Where bytes come from: memory maps, positioned reads, object stores.
