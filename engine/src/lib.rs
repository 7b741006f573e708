//! Grampus engine.
