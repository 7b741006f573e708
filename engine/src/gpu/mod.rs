//! Filtered aggregates on a GPU: the optimizer rule, the operator, and the state kept between queries.
//!
//! The files, in the order of a query's way:
//!
//! | file | content |
//! | --- | --- |
//! | `offload_rule` | the optimizer rule: finds aggregations over ORC scans and gives them to the GPU |
//! | `lower/` | a partial aggregation becomes a program |
//! | `string_dictionary` | `StringDictionary`, strings as codes |
//! | `text_function` | `TextFunction`, an expression over one string |
//! | `refusal` | `Refusal`, the reason why an aggregation stays on the CPU |
//! | `decompression` | `ChunkDecompression`, the codecs that the GPU decompresses |
//! | `input_builder` | `InputBuilder`, the scan below becomes the program's input |
//! | `gpu_input` | `GpuInput`, the program's input |
//! | `input_cache` | `InputCache`, the inputs of a session's last queries |
//! | `column_ids` | `ColumnIds`, one id per column over all files of a table |
//! | `encoded_columns` | encoded columns of ORC, as the GPU decodes them |
//! | `stripe_decoder` | `StripeDecoder`, values of columns that are not stored raw |
//! | `gpu_filter_sample` | the share of rows that pass a filter, by a sample |
//! | `device_choice` | estimated times on CPU and GPU |
//! | `calibration` | `Calibration`, the measured speed of the machine |
//! | `filter_key` | `FilterKey`, under which selectivities are remembered |
//! | `load_demand` | `LoadDemand`, how often queries are asked |
//! | `session` | `GpuSession`, the state kept from query to query |
//! | `runner` | `Runner`, the device |
//! | `gpu_work` | `GpuWork`, one aggregation on its device |
//! | `device_run` | one run of a `GpuWork` |
//! | `background_loader` | `BackgroundLoader`, loads columns after queries on the CPU |
//! | `gpu_aggregate_exec` | `GpuAggregateExec`, the operator |
//! | `final_aggregation` | final aggregations are left out, or run in one partition |
//! | `finished_groups` | `FinishedGroups`, the values of aggregates without a final aggregation |
//! | `explain` | `Explain`, the operator's text in EXPLAIN |
//! | `metrics` | the operator's metrics |
//! | `grouping_sets` | `GroupingSets`, the groups of each set from the groups of all keys |
//! | `partial_state` | the program's output becomes the batch of the CPU's partial aggregation |
//!
//! **Invariant:** the crate `grampus-gpu-exec` computes programs. Nothing here mentions CUDA's libraries.

pub(crate) mod background_loader;
pub mod calibration;
mod column_ids;
mod decompression;
mod device_choice;
mod device_run;
#[cfg(test)]
#[path = "tests/device_sharing.rs"]
mod device_sharing;
mod encoded_columns;
mod explain;
#[cfg(test)]
#[path = "tests/fake_device.rs"]
mod fake_device;
mod filter_key;
mod final_aggregation;
mod finished_groups;
pub mod gpu_aggregate_exec;
mod gpu_filter_sample;
mod gpu_input;
mod gpu_work;
mod grouping_sets;
mod input_builder;
mod input_cache;
mod load_demand;
mod lower;
mod metrics;
pub mod offload_rule;
mod partial_state;
mod refusal;
mod runner;
pub mod session;
mod string_dictionary;
mod stripe_decoder;
mod text_function;

use datafusion::physical_plan::ExecutionPlan;

/// The operator, if it is an aggregation on the GPU.
pub(crate) fn aggregation(plan: &dyn ExecutionPlan) -> Option<&gpu_aggregate_exec::GpuAggregateExec> {
    plan.downcast_ref()
}
