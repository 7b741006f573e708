//! [`FilterKey`]: the key under which a session remembers the selectivity of a filter.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use grampus_gpu_exec::input::Input;
use grampus_gpu_exec::program::{Program, Value};

use super::lower::types::Argument;

/// The hash of a filter with its literals, columns and files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FilterKey(u64);

impl FilterKey {
    /// The key of the program's filter over `input`.
    pub(crate) fn of(program: &Program, arguments: &[Argument], input: &Input) -> Self {
        let mut hasher = DefaultHasher::new();
        program.conjuncts.hash(&mut hasher);
        input.column_ids.hash(&mut hasher);
        for argument in arguments {
            match argument {
                Argument::Value(Value::Bool(value)) => value.hash(&mut hasher),
                Argument::Value(Value::Int(value)) => value.hash(&mut hasher),
                Argument::Value(Value::Float(value)) => value.to_bits().hash(&mut hasher),
                Argument::Text(text) => text.hash(&mut hasher),
            }
        }
        for file in &input.files {
            file.hash(&mut hasher);
        }
        Self(hasher.finish())
    }
}
