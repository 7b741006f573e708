//! The GPU path from SQL to answer, with kernels compiled for host threads. Each answer must be the CPU's.
//!
//! Without a C++ compiler, the tests are ignored.

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod changed_files;
mod choices;
mod chunk_pages;
mod common;
mod compare;
mod decimals;
mod device_setting;
#[path = "../../../orc-layout/tests/common/edited_file.rs"]
mod edited_file;
mod finer_groups;
mod gpu_operator;
mod group_codes;
mod narrow_columns;
mod nvcomp;
mod random;
mod recorded_rates;
mod soak;
mod text_functions;
mod values;
mod whole_aggregations;
