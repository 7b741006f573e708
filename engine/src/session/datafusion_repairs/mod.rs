//! Repairs of faults that DataFusion has, as rules and functions of ours.
//!
//! Each repair names DataFusion's issue, if there is one. `engine/tests/repairs/stock.rs` and
//! `engine/tests/sessions/datafusion_repairs.rs` run DataFusion alone and fail when DataFusion no longer has a fault:
//! then the repair can go.
//!
//! ```text
//! expressions          each expression of a plan, rewritten
//! exact_number         a number as written, with all its digits
//! place                where a constant lies among the values of a type; comparisons with it
//! constant             constants of numbers, and their values
//! comparison           comparisons, BETWEEN, IN and CASE, pair by pair
//! written_numbers      literals whose digits a DOUBLE does not hold (apache/datafusion#4072)
//! decimal_comparisons  DECIMAL beside literals and other numbers (apache/datafusion#4072, #12817)
//! decimal_literals     literals as DECIMAL values (apache/datafusion#4072)
//! exact_sums           sum and avg that do not wrap around
//! date_comparisons     DATE beside TIMESTAMP
//! date_differences     date - date
//! short_timestamps     timestamps without seconds
//! sound_pushdown       FilterPushdown past no columns of one name
//! sound_simplification simplify_expressions without merged IN lists
//! computed_keys        conditions in keys of an order (apache/datafusion#18327)
//! missing_sorts        sorts above UNION (apache/datafusion#16171)
//! subqueries           subqueries where DataFusion plans none, or plans them wrongly
//! using_keys           RIGHT and FULL JOIN … USING (apache/datafusion#22881)
//! zeros                zeros of both signs as one value, in expressions
//! float_literals       zeros in comparisons, IN lists and CASE
//! float_keys           zeros in keys of joins, sorts, windows, and in IN lists
//! parquet_nans         bounds of Parquet files, which leave NaN out
//! guarded_filters      conditions that may fail, behind those written before them
//! map_entries          the function, for maps whatever their fields are called
//! scalar_functions     round and trunc to many digits, to_timestamp of NaN
//! shifts               lead and lag with IGNORE NULLS (apache/datafusion#25471)
//! drawn_once           volatile operands that DataFusion evaluates twice (apache/datafusion#25477, #25457)
//! ```

mod comparison;
mod computed_keys;
mod constant;
mod date_comparisons;
mod date_differences;
mod decimal_comparisons;
mod decimal_literals;
pub(super) mod drawn_once;
mod exact_number;
mod exact_sums;
mod expressions;
pub(super) mod float_keys;
pub(super) mod float_literals;
mod guarded_filters;
pub(super) mod map_entries;
mod missing_sorts;
pub(super) mod parquet_nans;
mod place;
pub(super) mod scalar_functions;
pub(super) mod shifts;
mod short_timestamps;
mod sound_pushdown;
mod sound_simplification;
pub(super) mod subqueries;
pub(super) mod using_keys;
pub(super) mod written_numbers;
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
pub(super) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let planner = Arc::new(WrittenNumbers);
    let session = builder.config().take().unwrap_or_default();
    builder = builder.with_config(session.with_extension(Arc::clone(&planner)));
    builder.expr_planners().get_or_insert_default().insert(0, planner);
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
