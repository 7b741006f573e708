//! The on-demand scan: skip what statistics exclude, filter, fetch the rest for the rows that passed.

pub mod accounting;
