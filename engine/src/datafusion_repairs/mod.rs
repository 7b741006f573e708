//! Repairs of faults that DataFusion has, as rules and functions of ours.
//!
//! The faults are those of DataFusion 55.2.0. `engine/tests/repairs/stock.rs` and
//! `engine/tests/sessions/datafusion_repairs.rs` run DataFusion alone and fail when DataFusion no longer has a fault:
//! then the repair can go. A test below fails with each other version, so that each repair is looked at again.
//!
//! | repair | of | issues of apache/datafusion |
//! | --- | --- | --- |
//! | `written_numbers` | literals whose digits a DOUBLE does not hold | #4072 |
//! | `decimal_comparisons` | DECIMAL beside literals and other numbers | #4072, #12817 |
//! | `decimal_literals` | literals as DECIMAL values | #4072 |
//! | `exact_sums` | sums and averages that wrap around | |
//! | `date_comparisons` | DATE beside TIMESTAMP | |
//! | `date_differences` | `date - date` | |
//! | `date_intervals` | `date + interval` of less than a day | |
//! | `short_timestamps` | timestamps without seconds | |
//! | `sound_pushdown` | `FilterPushdown` past columns of one name | #25244, #25296 |
//! | `sound_simplification` | `simplify_expressions`, which merges IN lists | #24246 |
//! | `missing_sorts` | sorts above UNION | #16171 |
//! | `computed_keys` | conditions in keys of an order | #18327 |
//! | `subqueries` | subqueries that DataFusion does not plan, or plans wrongly | #8241, #25336, #25347 |
//! | `using_keys` | RIGHT and FULL JOIN … USING | #22881 |
//! | `float_literals` | zeros of both signs in comparisons, IN lists and CASE | #25186 |
//! | `float_keys` | zeros of both signs in keys of joins, sorts, windows, and in IN lists | #25186 |
//! | `parquet_nans` | bounds of Parquet files, which leave NaN out | #15812 |
//! | `guarded_filters` | conditions that may fail, behind those written before them | #8927 |
//! | `map_entries` | the function, for maps whatever their fields are called | |
//! | `scalar_functions` | `round` and `trunc` to many digits, `to_timestamp` of NaN | |
//! | `shifts` | `lead` and `lag` with IGNORE NULLS | #25471 |
//! | `drawn_once` | volatile operands that DataFusion evaluates twice | #25477, #25457 |
//! | `spill_safe_repartition` | a deadlock of repartitioning when it spills | #24883, #24891 |
//!
//! What they share:
//!
//! ```text
//! expressions     each expression of a plan, rewritten
//! exact_number    a number as written, with all its digits
//! place           where a constant lies among the values of a type; comparisons with it
//! constant        constants of numbers, and their values
//! comparison      comparisons, BETWEEN, IN and CASE, pair by pair
//! zeros           zeros of both signs as one value, in expressions
//! spill_segments  temporary files for many short spills
//! ```

mod comparison;
mod computed_keys;
mod constant;
mod date_comparisons;
mod date_differences;
mod date_intervals;
mod decimal_comparisons;
mod decimal_literals;
pub(crate) mod drawn_once;
mod exact_number;
mod exact_sums;
mod expressions;
pub(crate) mod float_keys;
pub(crate) mod float_literals;
mod guarded_filters;
pub(crate) mod map_entries;
mod missing_sorts;
pub(crate) mod parquet_nans;
mod place;
pub(crate) mod scalar_functions;
pub(crate) mod shifts;
mod short_timestamps;
mod sound_pushdown;
mod sound_simplification;
pub(crate) mod spill_safe_repartition;
mod spill_segments;
pub(crate) mod subqueries;
pub(crate) mod using_keys;
pub(crate) mod written_numbers;
mod zeros;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer};

use computed_keys::ComputedKeys;
use date_comparisons::DateComparisons;
use date_differences::DateDifferences;
use decimal_comparisons::DecimalComparisons;
use decimal_literals::DecimalLiterals;
use exact_sums::{ExactSums, WideSums};
use guarded_filters::GuardedFilters;
use missing_sorts::MissingSorts;
use short_timestamps::ShortTimestamps;
use sound_pushdown::SoundPushdown;
use sound_simplification::SoundSimplification;
use subqueries::Memberships;
use written_numbers::WrittenNumbers;

type Rules = Vec<Arc<dyn AnalyzerRule + Send + Sync>>;

/// The rules that see types as written, before DataFusion adds casts.
fn rules_before_casts() -> Rules {
    vec![
        Arc::new(Memberships),
        Arc::new(ShortTimestamps),
        Arc::new(DecimalComparisons),
        Arc::new(DateComparisons),
        Arc::new(WideSums),
    ]
}

/// The rules that see DataFusion's casts.
fn rules_after_casts() -> Rules {
    vec![
        Arc::new(DecimalLiterals),
        Arc::new(ExactSums),
        Arc::new(DateDifferences),
        Arc::new(ShortTimestamps),
        Arc::new(ComputedKeys),
    ]
}

/// Adds all repairs to a session.
pub(crate) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let planner = Arc::new(WrittenNumbers);
    let session = builder.config().take().unwrap_or_default();
    builder = builder.with_config(session.with_extension(Arc::clone(&planner)));
    let planners = builder.expr_planners().get_or_insert_default();
    planners.insert(0, planner);
    planners.insert(0, Arc::new(date_intervals::DateIntervals));
    let rules = &mut builder.analyzer().get_or_insert_with(Analyzer::new).rules;
    let casts = rules.iter().position(|rule| rule.name() == "type_coercion");
    let at = casts.unwrap_or(rules.len());
    drop(rules.splice(at..at, rules_before_casts()));
    for rule in rules_after_casts() {
        builder = builder.with_analyzer_rule(rule);
    }
    MissingSorts::insert_into(builder.physical_optimizers().get_or_insert_default());
    SoundPushdown::replace_in(builder.physical_optimizers().get_or_insert_default());
    SoundSimplification::replace_in(builder.optimizer().get_or_insert_with(Optimizer::new));
    builder.with_physical_optimizer_rule(Arc::new(GuardedFilters))
}

#[cfg(test)]
mod tests {
    /// The version whose faults the table above lists.
    const REVIEWED: &str = "55.2.0";

    #[test]
    fn datafusion_repairs_are_reviewed_with_each_version() {
        assert_eq!(
            datafusion::DATAFUSION_VERSION,
            REVIEWED,
            "look at each repair: is its issue closed, does DataFusion alone still have its fault? Then change the \
             table and REVIEWED"
        );
    }
}
