//! Random filters and projections over a random table: the scan gives the same rows as DataFusion over memory.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int16Array, Int32Array,
    Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::WriterProperties;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::common::{context_with, register, text, write_orc};

/// A table whose columns have special values: NaN, both zeros, runs of NULL, clustered values.
pub(crate) fn table(seed: u64, rows: usize) -> RecordBatch {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut column = |make: &mut dyn FnMut(&mut ChaCha8Rng, usize) -> ArrayRef| make(&mut random, rows);
    let id = Int64Array::from_iter_values(0..rows as i64);
    let clustered = column(&mut |random, rows| {
        Arc::new(Int32Array::from_iter_values(
            (0..rows).map(|row| (row / 50) as i32 + random.random_range(0..3)),
        ))
    });
    let direct = column(&mut |random, rows| {
        let special = [0.0, -0.0, f64::NAN, f64::INFINITY, -1e300];
        Arc::new(Float64Array::from_iter_values((0..rows).map(
            |row| match random.random_range(0..40) {
                0 if row > rows / 2 => special[random.random_range(0..special.len())],
                _ => f64::from(random.random_range(-500..500)) / 10.0,
            },
        )))
    });
    let single = column(&mut |random, rows| {
        Arc::new(Float32Array::from_iter_values(
            (0..rows).map(|row| row as f32 / 7.0 + random.random_range(0.0..2.0f32)),
        ))
    });
    let nullable = column(&mut |random, rows| {
        Arc::new(Float64Array::from_iter((0..rows).map(|row| {
            let is_null = (row / 300) % 3 == 1 || random.random_bool(0.1);
            (!is_null).then(|| f64::from(random.random_range(0..1000)))
        })))
    });
    let text = column(&mut |random, rows| {
        let words = ["", "a", "apple", "b", "banana", "ß", "日本", "zz"];
        Arc::new(StringArray::from_iter((0..rows).map(|_| {
            (!random.random_bool(0.05)).then(|| words[random.random_range(0..words.len())])
        })))
    });
    let unique = Arc::new(StringArray::from_iter_values(
        (0..rows).map(|row| format!("key-{:07}", row * 7919 % rows)),
    ));
    let small = column(&mut |random, rows| {
        Arc::new(Int16Array::from_iter(
            (0..rows).map(|_| (!random.random_bool(0.2)).then(|| random.random_range(-5..5))),
        ))
    });
    let flag = column(&mut |random, rows| {
        Arc::new(BooleanArray::from_iter(
            (0..rows).map(|row| (row % 11 != 0).then(|| random.random_bool(0.3))),
        ))
    });
    let day = Arc::new(Date32Array::from_iter_values(
        (0..rows).map(|row| row as i32 / 20 - 100),
    ));
    let time = column(&mut |random, rows| {
        // No value is in the last second before 1970, which ORC cannot store.
        Arc::new(TimestampNanosecondArray::from_iter_values((0..rows as i64).map(
            |row| (row - 500 - i64::from(row < 500)) * 1_000_000_000 + random.random_range(0..1_000_000_000),
        )))
    });
    let money = column(&mut |random, rows| {
        let values = Decimal128Array::from_iter(
            (0..rows).map(|_| (!random.random_bool(0.1)).then(|| i128::from(random.random_range(-100_000..100_000)))),
        );
        Arc::new(values.with_precision_and_scale(12, 2).unwrap())
    });
    let columns: [(&str, ArrayRef); 12] = [
        ("id", Arc::new(id)),
        ("clustered", clustered),
        ("direct", direct),
        ("single", single),
        ("nullable", nullable),
        ("word", text),
        ("key", unique),
        ("small", small),
        ("flag", flag),
        ("day", day),
        ("at", time),
        ("money", money),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

/// Conditions of all kinds. `{}` stands for a random number.
const CONDITIONS: [&str; 34] = [
    "direct >= {}",
    "direct < {}",
    "direct = 0.0",
    "direct > 1e9",
    "direct = 'NaN'",
    "direct <> direct + 0",
    "single between {} and {} + 3",
    "nullable > {}",
    "nullable IS NULL",
    "nullable IS NOT NULL AND nullable < 100",
    "clustered = {}",
    "clustered IN ({}, {}, 3)",
    "clustered > {} AND clustered <= {} + 4",
    "clustered <> {}",
    "NOT (clustered < {})",
    "word = 'apple'",
    "word LIKE 'b%'",
    "word NOT LIKE '%a%'",
    "word IN ('', 'ß', 'nothing')",
    "word > 'b'",
    "key = 'key-0000{}'",
    "key < 'key-00001'",
    "small = {} OR small IS NULL",
    "small + clustered > {}",
    "flag",
    "NOT flag",
    "flag IS NULL",
    "day >= DATE '1970-01-01'",
    "day = DATE '1969-12-01'",
    "at < TIMESTAMP '1970-01-01'",
    "at >= TIMESTAMP '1970-01-01 00:10:00'",
    "money > {}.5",
    "coalesce(nullable, direct) > {}",
    "id % 97 = 3",
];

const PROJECTIONS: [&str; 8] = [
    "id",
    "*",
    "id, direct",
    "id, word, nullable, money",
    "key, id, at",
    "id, small, flag, day, single",
    "id, upper(word) AS w, direct * 2 AS d",
    "id, direct, clustered, key",
];

pub(crate) fn random_sql(random: &mut ChaCha8Rng) -> String {
    let conditions = random.random_range(0..4);
    let mut parts: Vec<String> = Vec::new();
    for _ in 0..conditions {
        let mut condition = CONDITIONS[random.random_range(0..CONDITIONS.len())].to_owned();
        while condition.contains("{}") {
            condition = condition.replacen("{}", &random.random_range(0..60).to_string(), 1);
        }
        parts.push(format!("({condition})"));
    }
    let join = if random.random_bool(0.8) { " AND " } else { " OR " };
    let filter = if parts.is_empty() {
        String::new()
    } else {
        format!("WHERE {}", parts.join(join))
    };
    let projection = PROJECTIONS[random.random_range(0..PROJECTIONS.len())];
    match random.random_range(0..8) {
        0 => format!("SELECT count(*) AS n FROM t {filter}"),
        1 => format!("SELECT count(word), count(nullable), min(clustered), max(day), max(word) FROM t {filter}"),
        _ => format!("SELECT {projection} FROM t {filter} ORDER BY id"),
    }
}

pub(crate) fn layouts() -> Vec<(&'static str, WriterProperties)> {
    let small = |codec| WriterProperties {
        codec,
        chunk_size_bytes: 1024,
        row_index_stride: 100,
        stripe_rows: 700,
        ..WriterProperties::default()
    };
    vec![
        (
            "plain",
            WriterProperties {
                bloom_filter_columns: ["clustered", "direct", "word", "key", "small", "day", "id"]
                    .map(str::to_owned)
                    .to_vec(),
                ..small(None)
            },
        ),
        ("zlib", small(Some(Codec::Zlib))),
        (
            "direct in snappy",
            WriterProperties {
                direct_columns: vec!["direct".to_owned(), "single".to_owned()],
                ..small(Some(Codec::Snappy))
            },
        ),
        (
            "no index",
            WriterProperties {
                row_index_stride: 0,
                ..small(Some(Codec::Zstd))
            },
        ),
        (
            "one stripe",
            WriterProperties {
                row_index_stride: 1000,
                stripe_rows: 1_000_000,
                alignment_bytes: 1,
                ..small(Some(Codec::Lz4))
            },
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_equal_those_in_memory() {
    let rows = 3_210;
    let batch = table(7, rows);
    let memory = SessionContext::new();
    let table = MemTable::try_new(batch.schema(), vec![vec![batch.clone()]]).unwrap();
    memory.register_table("t", Arc::new(table)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (k, (name, options)) in layouts().into_iter().enumerate() {
        let path = folder.path().join(format!("{k}/t.orc"));
        write_orc(&path, std::slice::from_ref(&batch), options);
        let mut contexts = Vec::new();
        for (partitions, settings) in [
            (1, &[][..]),
            (3, &[("grampus.local_io", "read"), ("grampus.tile_rows", "70")][..]),
            (
                2,
                &[("grampus.prune", "false"), ("datafusion.execution.batch_size", "33")][..],
            ),
        ] {
            let context = context_with(partitions, settings).await;
            register(&context, "t", &path).await;
            contexts.push(context);
        }
        let remote = context_with(2, &[("grampus.tile_rows", "150")]).await;
        let store = Arc::new(InMemory::new());
        store
            .put(&"data/t.orc".into(), std::fs::read(&path).unwrap().into())
            .await
            .unwrap();
        remote.register_object_store(&url::Url::parse("memory://bucket").unwrap(), store);
        grampus::session::register_orc(&remote, "t", "memory://bucket/data/")
            .await
            .unwrap();
        contexts.push(remote);

        let mut random = ChaCha8Rng::seed_from_u64(k as u64);
        for round in 0..48 {
            let sql = random_sql(&mut random);
            let expected = text(&memory.sql(&sql).await.unwrap().collect().await.unwrap());
            let context = &contexts[round % contexts.len()];
            let answer = context.sql(&sql).await.unwrap().collect().await;
            let answer = answer.unwrap_or_else(|error| panic!("{name}: {sql}: {error}"));
            assert!(
                text(&answer) == expected,
                "{name}, session {}: {sql}",
                round % contexts.len()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_condition_alone_survives_pruning() {
    let batch = table(11, 2_000);
    let memory = SessionContext::new();
    let table = MemTable::try_new(batch.schema(), vec![vec![batch.clone()]]).unwrap();
    memory.register_table("t", Arc::new(table)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (k, (name, options)) in layouts().into_iter().enumerate() {
        let path = folder.path().join(format!("{k}.orc"));
        write_orc(&path, std::slice::from_ref(&batch), options);
        let context = context_with(2, &[]).await;
        register(&context, "t", &path).await;
        for condition in CONDITIONS {
            for number in ["3", "27"] {
                let sql = format!("SELECT id FROM t WHERE {} ORDER BY id", condition.replace("{}", number));
                let expected = text(&memory.sql(&sql).await.unwrap().collect().await.unwrap());
                let answer = text(&context.sql(&sql).await.unwrap().collect().await.unwrap());
                assert!(answer == expected, "{name}: {sql}");
            }
        }
    }
}
