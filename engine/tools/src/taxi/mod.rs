//! Generator of taxi trips that look like New York's: the same columns, order, errors, NULLs and drift, in ORC files
//! laid out for on-demand reading.
//!
//! **Invariant:** equal options give equal bytes, for any number of threads and on any machine.
//!
//! | file | contents |
//! | --- | --- |
//! | `rng`, `quantiles` | random numbers and distributions that are equal on every machine |
//! | `calendar` | the order of the rows: years, months, parts of months, hours |
//! | `distance` | the distances of the trips |
//! | `run_context` | the values that the trips of a run share |
//! | `amounts` | fare, surcharges, taxes, tolls, tip and total of a trip |
//! | `trips`, `trip_maker` | columns of trips, and the generator that fills them |
//! | `arrays` | Arrow arrays that several column sets have |
//! | `zones` | neighbourhoods and their census areas |
//! | `core_columns`, `full_columns` | trips as Arrow arrays: 15 or 6 columns, all 51 columns |
//! | `column_set` | [`ColumnSet`]: which of these columns a table has |
//! | `options` | [`GenerateOptions`], [`GenerateReport`] |
//! | `generator` | [`generate`]: batches to files, threads, order |

mod amounts;
mod arrays;
mod calendar;
mod column_set;
mod core_columns;
mod distance;
mod full_columns;
mod generator;
mod options;
mod quantiles;
mod rng;
mod run_context;
mod trip_maker;
#[cfg(test)]
mod trip_statistics_tests;
mod trips;
mod zones;

pub use column_set::ColumnSet;
pub use generator::generate;
pub use options::{GenerateOptions, GenerateReport};
