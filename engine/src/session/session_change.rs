//! [`SessionChange`]: one thing that Grampus changes in a session.

/// One thing that [`Grampus::register`](super::Grampus::register) changes in an owner's session.
///
/// Every change is on by default. [`GrampusBuilder::without`](super::GrampusBuilder::without) switches one off.
///
/// # Operators in place of DataFusion's
///
/// The operators of [`IndexedAggregates`](Self::IndexedAggregates) and [`SpillingJoins`](Self::SpillingJoins) answer
/// `name()` and `downcast_ref` as the `AggregateExec` or join that they replace, so that rules and displays find one.
/// What they answer with does not run. A rule of the program that changes `children()` by `with_new_children`, as
/// `transform_up` does, keeps them. A rule that makes a new operator of the found one's `input()`, `left()` or
/// `right()` drops them without an error, and with them what other changes have put below. Answers stay right, but a
/// join no longer spills. Such a rule belongs into the builder before [`Grampus::register`](super::Grampus::register)
/// gets it: rules run in the order in which they are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionChange {
    /// The table factory `ORC`: `CREATE EXTERNAL TABLE … STORED AS ORC`. It replaces a factory of that name. With it
    /// comes the analyzer rule `replaced_files`: `INSERT OVERWRITE` of an ORC table replaces no file that it did not
    /// list. A query planner around the session's own lets all scans of a plan share one listing of a table.
    OrcTables,
    /// The file format `orc`: `COPY … TO 'x.orc'` and `COPY … STORED AS ORC`. It replaces a format of that name.
    OrcFormat,
    /// A cache of optimized logical plans by statement text, for
    /// [`plan_sql`](super::plan_cache::plan_sql). `SessionContext::sql` never uses it.
    PlanCache,
    /// Repairs of DataFusion's faults: rules and functions of ours for statements that DataFusion answers wrongly, and
    /// the optimizer rule `balanced_chains` for long chains of AND and OR, which take it long.
    DataFusionRepairs,
    /// The analyzer rule `char_literals`: a literal that is compared with a CHAR column loses its trailing blanks.
    CharLiterals,
    /// The analyzer rule `timestamp_literals`: columns of microseconds are compared in microseconds.
    TimestampLiterals,
    /// The analyzer rule `float_literals` and the optimizer rule `float_keys`: IN lists, CASE, keys of joins, sorts and
    /// windows hold `0.0` and `-0.0` equal, as comparisons do.
    FloatZeros,
    /// The optimizer rules `parquet_bounds` and `parquet_filters`: bounds of floats in Parquet files, which leave NaN
    /// out, neither skip rows nor answer aggregates.
    ParquetNans,
    /// The optimizer rule `parquet_cascade`: Grampus's own scan filters Parquet files column by column. The setting
    /// `grampus.parquet_cascade` switches it off too.
    ParquetCascade,
    /// The analyzer rule `drawn_once`: DataFusion evaluates an operand such as `random()` once for each row.
    DrawnOnce,
    /// The functions `round`, `trunc` and `to_timestamp` for odd numbers, and `lead` and `lag` with IGNORE NULLS. They
    /// replace DataFusion's functions, and no others of these names.
    RepairedFunctions,
    /// Functions that DataFusion lacks, such as `date_diff`, `mode` and `format`, those of JSON, and slices of texts.
    SqlFunctions,
    /// The optimizer rule `filter_samples`: in plans with joins, the filters of scans over local ORC files are
    /// evaluated on a few thousand rows. The rule runs before DataFusion's `join_selection`.
    FilterSamples,
    /// The optimizer rule `gpu_aggregates`: filtered aggregates over ORC files run on a GPU.
    GpuAggregates,
    /// The optimizer rule `indexed_aggregates`: aggregations find few groups by a table of their keys' codes instead of
    /// a hash of each row.
    IndexedAggregates,
    /// The optimizer rule `spill_safe_repartitions`: it wraps each `RepartitionExec`, whose spilling can deadlock.
    SpillSafeRepartitions,
    /// The optimizer rule `spilling_joins`: it wraps hash joins. They become sort-merge joins if their build side does
    /// not fit in memory.
    SpillingJoins,
    /// The optimizer rule `cooperative_joins`: it wraps DataFusion's joins and unnests, so that a cancelled query frees
    /// its threads.
    CooperativeJoins,
}

impl SessionChange {
    /// All changes, in the order in which the rules run.
    pub const ALL: [Self; 18] = [
        Self::OrcTables,
        Self::OrcFormat,
        Self::PlanCache,
        Self::DataFusionRepairs,
        Self::CharLiterals,
        Self::TimestampLiterals,
        Self::FloatZeros,
        Self::ParquetNans,
        Self::ParquetCascade,
        Self::DrawnOnce,
        Self::RepairedFunctions,
        Self::SqlFunctions,
        Self::FilterSamples,
        Self::GpuAggregates,
        Self::IndexedAggregates,
        Self::SpillSafeRepartitions,
        Self::SpillingJoins,
        Self::CooperativeJoins,
    ];
}
