//! A query's way through the device: from a plan to partial aggregates.
//!
//! ```text
//! executor          attempts at a request, until one has results
//! remedies          what the next attempt does differently; stopped: how the last one ended
//! memory_relief     what a request gives up when it is short of memory
//! attempt           one attempt: planned, transferred, run
//! query_run         its run: threads copy, kernels are launched behind them, results are read back
//! replay            the passes of an attempt over its rows: more than one if kernels miss pages
//! decode_launcher   launches that decode, between copies and query
//! launch_schedule   tiles divided into launches
//! kernel_arguments  where everything is that a launch is told of, and what kernels left
//! kernel_shape      what a kernel must know of the columns
//! row_runs          the runs of rows that tiles are made of
//! occupancy         blocks of a launch
//! io_threads        the threads that copy and read pages
//! io_binding        the I/O stack as kernels see it
//! cancellation      the caller's flag, and waiting for events
//! ```

mod attempt;
mod cancellation;
mod decode_launcher;
pub(crate) mod executor;
mod io_binding;
mod io_threads;
mod kernel_arguments;
mod kernel_shape;
mod launch_schedule;
mod memory_relief;
mod occupancy;
mod query_run;
mod remedies;
mod replay;
mod row_runs;
mod stopped;

pub(crate) use attempt::planned_kernel;
