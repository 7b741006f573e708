//! Aggregations with and without the index, over random tables.

use arrow::array::{
    BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int16Array, Int64Array, StringViewArray,
    TimestampNanosecondArray,
};
use arrow::datatypes::Int32Type;
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::super::indexed_aggregates::IndexedAggregates;
use super::*;

/// Columns of a random table, and `n`, whose values are all different.
const QUERIES: [&str; 9] = [
    "SELECT text, count(*), sum(value), min(value), max(text) FROM t GROUP BY text",
    "SELECT flag, small, count(value), avg(value) FROM t GROUP BY flag, small",
    "SELECT date_part('year', time), date_part('month', day), small, count(*) FROM t GROUP BY 1, 2, 3",
    "SELECT word, count(*) FILTER (WHERE flag), sum(money) FILTER (WHERE small > 0) FROM t GROUP BY word",
    "SELECT round(value), sum(n) FROM t GROUP BY round(value)",
    "SELECT money, day, bool_or(flag), count(DISTINCT small) FROM t GROUP BY money, day",
    "SELECT DISTINCT text, flag FROM t",
    "SELECT n, sum(small) FROM t GROUP BY n",
    "SELECT n % 5000, flag, array_agg(small), median(value) FROM t WHERE n > 10 GROUP BY 1, 2",
];

fn random_batch(random: &mut ChaCha8Rng, first: i64, rows: usize, values: i64) -> RecordBatch {
    fn some<T>(random: &mut ChaCha8Rng, value: T) -> Option<T> {
        (!random.random_bool(0.05)).then_some(value)
    }
    let mut ints = |values: i64| -> Vec<Option<i64>> {
        let value = |_| {
            let value = random.random_range(-values / 2..=values / 2);
            some(random, value)
        };
        (0..rows).map(value).collect()
    };
    let words = [
        "",
        "a",
        "b",
        "a word that is longer than its view",
        "another word that is longer",
    ];
    let text = |value: &Option<i64>| value.map(|v| format!("{}{v}", words[v.rem_euclid(5) as usize]));
    let word = |value: &Option<i64>| value.map(|v| words[v.rem_euclid(5) as usize]);
    let (texts, of_words) = (ints(values), ints(5));
    let money = ints(values)
        .into_iter()
        .map(|v| v.map(i128::from))
        .collect::<Decimal128Array>();
    let times = ints(3000).into_iter().map(|v| v.map(|v| v * 86_400_000_000_000 + 1));
    let floats = |v: Option<i64>| v.map(|v| if v == 0 { -0.0 } else { v as f64 / 4.0 });
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("text", Arc::new(texts.iter().map(text).collect::<StringViewArray>())),
        (
            "word",
            Arc::new(of_words.iter().map(word).collect::<DictionaryArray<Int32Type>>()),
        ),
        (
            "flag",
            Arc::new(ints(1).into_iter().map(|v| v.map(|v| v != 0)).collect::<BooleanArray>()),
        ),
        (
            "small",
            Arc::new(ints(6).into_iter().map(|v| v.map(|v| v as i16)).collect::<Int16Array>()),
        ),
        (
            "value",
            Arc::new(ints(values).into_iter().map(floats).collect::<Float64Array>()),
        ),
        ("money", Arc::new(money.with_precision_and_scale(12, 2).unwrap())),
        (
            "day",
            Arc::new(
                ints(values)
                    .into_iter()
                    .map(|v| v.map(|v| v as i32))
                    .collect::<Date32Array>(),
            ),
        ),
        ("time", Arc::new(times.collect::<TimestampNanosecondArray>())),
        ("n", Arc::new((first..first + rows as i64).collect::<Int64Array>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

/// A session over the table `t`. `memory`: its limit, in bytes.
fn session(batches: &[RecordBatch], partitions: usize, indexed: bool, memory: usize) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(memory, 1.0);
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(512);
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime.build_arc().unwrap())
        .with_default_features();
    if indexed {
        state = state.with_physical_optimizer_rule(Arc::new(IndexedAggregates));
    }
    let context = SessionContext::new_with_state(state.build());
    let parts = batches
        .chunks(batches.len().div_ceil(partitions))
        .map(<[_]>::to_vec)
        .collect();
    let table = MemTable::try_new(batches[0].schema(), parts).unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    context
}

/// The rows of a query, sorted as text; the number of indexed operators; and how many partitions were handed over.
async fn rows(context: &SessionContext, sql: &str) -> Result<(Vec<String>, usize, usize)> {
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
    let text = pretty_format_batches(&batches)?.to_string();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    let (mut operators, mut handed_over) = (0, 0);
    plan.apply(|node| {
        if let Some(indexed) = (node.as_ref() as &dyn std::any::Any).downcast_ref::<IndexedAggregateExec>() {
            operators += 1;
            let counted = indexed
                .metrics()
                .and_then(|metrics| metrics.sum_by_name("hashed_partitions"));
            handed_over += counted.map_or(0, |value| value.as_usize());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok((lines, operators, handed_over))
}

#[tokio::test]
async fn answers_are_those_of_hashed_aggregations() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    for values in [1, 40, 3000, 1_000_000] {
        let batches: Vec<RecordBatch> = (0..24)
            .map(|at| random_batch(&mut random, at * 1000, 1000, values))
            .collect();
        for partitions in [1, 3] {
            let hashed = session(&batches, partitions, false, usize::MAX);
            let indexed = session(&batches, partitions, true, usize::MAX);
            for sql in QUERIES {
                // The order of the elements depends on the order of the partitions.
                if sql.contains("array_agg") && partitions > 1 {
                    continue;
                }
                let expected = rows(&hashed, sql).await.unwrap();
                let (got, operators, handed_over) = rows(&indexed, sql).await.unwrap();
                assert_eq!(got, expected.0, "{sql}, {values} values, {partitions} partitions");
                assert_eq!(expected.1, 0);
                assert!(operators > 0, "{sql}");
                let many = sql.contains("GROUP BY n");
                let few = values <= 40 && !sql.contains("by n") && !sql.contains("n %");
                assert!(!many || partitions > 1 || handed_over == 1, "{sql}: {handed_over}");
                assert!(many || !few || handed_over == 0, "{sql}: {handed_over}");
            }
        }
    }
}

/// Without memory for its groups, the operator hands over to one that spills. That one may have too little memory too,
/// and then the query fails.
#[tokio::test]
async fn groups_without_memory_are_handed_over() {
    let mut random = ChaCha8Rng::seed_from_u64(8);
    let batches: Vec<RecordBatch> = (0..60)
        .map(|at| random_batch(&mut random, at * 1000, 1000, 9000))
        .collect();
    let sql = "SELECT text, count(*), sum(n) FROM t GROUP BY text";
    let expected = rows(&session(&batches, 2, false, usize::MAX), sql).await.unwrap();
    let mut answered = 0;
    for memory in [700_000, 1_000_000, 1_400_000, 2_000_000] {
        let Ok((got, operators, handed_over)) = rows(&session(&batches, 2, true, memory), sql).await else {
            continue;
        };
        assert_eq!((operators, got == expected.0), (1, true), "{memory} bytes");
        answered += usize::from(handed_over > 0);
    }
    assert!(answered > 0, "no query was handed over and answered");
}
