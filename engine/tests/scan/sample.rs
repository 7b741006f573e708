//! The sample of real trips in every codec: the scan gives the same rows as DataFusion over a full read.

use std::fs::File;
use std::sync::Arc;

use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use orc_rust::ArrowReaderBuilder;

use super::common::{context_with, register, shared_data, text};

/// Queries for which a full read and an on-demand scan must agree.
const QUERIES: [&str; 14] = [
    "SELECT count(*), sum(trip_distance) FROM t WHERE trip_distance >= 30",
    "SELECT trip_distance, total_amount, extra, ehail_fee, tolls_amount, mta_tax FROM t WHERE trip_distance >= 20 \
     ORDER BY 1, 2, 3, 4, 5, 6",
    "SELECT count(*) FROM t WHERE ehail_fee IS NULL",
    "SELECT count(*) FROM t WHERE ehail_fee IS NOT NULL",
    "SELECT payment_type, count(*), min(tip_amount), max(tip_amount) FROM t WHERE trip_distance > 10 AND \
     fare_amount BETWEEN 20 AND 60 AND store_and_fwd_flag = 'N' GROUP BY 1 ORDER BY 1",
    "SELECT count(*), count(congestion_surcharge) FROM t \
     WHERE congestion_surcharge IS NULL OR congestion_surcharge > 0",
    "SELECT min(pickup_datetime), max(dropoff_datetime), count(*) FROM t WHERE pickup_datetime >= \
     TIMESTAMP '2019-06-01' AND pickup_datetime < TIMESTAMP '2019-12-01'",
    "SELECT vendor_id, store_and_fwd_flag, count(*) FROM t GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT count(*) FROM t WHERE store_and_fwd_flag LIKE 'Y%' AND passenger_count IN (1, 3)",
    "SELECT count(*), sum(total_amount) FROM t WHERE CASE WHEN passenger_count > 2 THEN tip_amount > 5 ELSE \
     tolls_amount > 5 END",
    "SELECT count(*) FROM t WHERE trip_distance > 1e12",
    "SELECT count(*) FROM t WHERE abs(fare_amount - total_amount) > 20 AND coalesce(passenger_count, 0) = 0",
    "SELECT cab_type, passenger_count, count(*) FROM t GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT * FROM t WHERE trip_distance > 45 ORDER BY pickup_datetime, dropoff_datetime, total_amount",
];

#[tokio::test(flavor = "multi_thread")]
async fn scan_answers_like_a_full_read_in_every_codec() {
    let Some(data) = shared_data() else { return };
    for codec in ["uncompressed", "snappy", "zlib", "zstd", "lz4"] {
        let path = data.join(format!("taxi/yellow_90k_{codec}.orc"));
        let full = SessionContext::new();
        let reader = ArrowReaderBuilder::try_new(File::open(&path).unwrap()).unwrap().build();
        let batches: Vec<_> = reader.collect::<Result<_, _>>().unwrap();
        let table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
        full.register_table("t", Arc::new(table)).unwrap();
        for (partitions, settings) in [
            (1, &[][..]),
            (4, &[("grampus.local_io", "read"), ("grampus.tile_rows", "777")][..]),
            (
                3,
                &[("grampus.prune", "false"), ("datafusion.execution.batch_size", "100")][..],
            ),
        ] {
            let context = context_with(partitions, settings).await;
            register(&context, "t", &path).await;
            for sql in QUERIES {
                let expected = text(&full.sql(sql).await.unwrap().collect().await.unwrap());
                let frame = context.sql(sql).await.unwrap();
                let answer = frame
                    .collect()
                    .await
                    .unwrap_or_else(|error| panic!("{codec}: {sql}: {error}"));
                // Sums depend on the order of the rows in the last digits.
                assert_eq!(rounded(&text(&answer)), rounded(&expected), "{codec}: {sql}");
            }
        }
    }
}

/// The text with decimals rounded to 9 significant digits, and without blanks and the lines of the table's frame.
fn rounded(table: &str) -> Vec<String> {
    let cells = table
        .split(['|', '\n'])
        .map(str::trim)
        .filter(|cell| !cell.is_empty() && !cell.starts_with('+'));
    cells
        .map(|cell| match cell.parse::<f64>() {
            Ok(number) if cell.contains('.') => format!("{number:.8e}"),
            _ => cell.to_owned(),
        })
        .collect()
}
