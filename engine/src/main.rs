//! The `grampus` command.
fn main() {}
