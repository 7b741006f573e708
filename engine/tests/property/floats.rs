//! Floats as keys: zeros of both signs, NaN and infinities in joins, groups, IN lists, CASE, minima, sorts and windows.
//!
//! Plain Rust computes the answers. DataFusion cannot: it tells zeros apart in IN lists and sorts.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch};
use arrow::util::display::array_value_to_string;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::WriterProperties;
use proptest::prelude::*;

use super::support::{SETTINGS, register_rows, write_orc};

/// Values, of which a table takes some.
const VALUES: [f64; 14] = [
    0.0,
    -0.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1.0,
    -1.0,
    2.5,
    3.0,
    4.0,
    100.0,
    -7.5,
    1.0e8,
    -f64::NAN,
];

/// A comparison, and the orders for which it is true.
type Comparison = (&'static str, fn(Ordering) -> bool);

const COMPARISONS: [Comparison; 6] = [
    ("=", Ordering::is_eq),
    ("<>", Ordering::is_ne),
    ("<", Ordering::is_lt),
    ("<=", Ordering::is_le),
    (">", Ordering::is_gt),
    (">=", Ordering::is_ge),
];

/// Two tables, by places in [`VALUES`], and the places of literals.
#[derive(Debug, Clone)]
pub(crate) struct FloatSpec {
    tables: [Vec<Option<usize>>; 2],
    literals: Vec<usize>,
    is_single: bool,
    stride: u32,
    bloom: bool,
    row_group: usize,
}

pub(crate) fn floats() -> impl Strategy<Value = FloatSpec> {
    let column = |rows| prop::collection::vec(prop::option::weighted(0.95, 0..VALUES.len()), rows);
    // Few kinds of values, so that row groups and build sides lack some.
    let narrow = (0..VALUES.len(), 1..4_usize, 1..120_usize).prop_flat_map(|(first, kinds, rows)| {
        prop::collection::vec(first..first + kinds, rows).prop_map(|places| {
            places
                .into_iter()
                .map(|place| Some(place % VALUES.len()))
                .collect::<Vec<_>>()
        })
    });
    let table = || prop_oneof![column(1..200_usize), narrow.clone()];
    (
        (table(), table()),
        prop::collection::vec(0..VALUES.len(), 1..12),
        any::<bool>(),
        prop::sample::select(vec![0_u32, 5, 50]),
        any::<bool>(),
        prop::sample::select(vec![3_usize, 20, 1_000]),
    )
        .prop_map(|((a, b), literals, is_single, stride, bloom, row_group)| FloatSpec {
            tables: [a, b],
            literals,
            is_single,
            stride,
            bloom,
            row_group,
        })
}

/// DataFusion's order: IEEE 754's total order, with one zero.
fn order(a: f64, b: f64) -> Ordering {
    match a == b {
        true => Ordering::Equal,
        false => a.total_cmp(&b),
    }
}

/// NULLs last.
fn nulls_last(a: Option<f64>, b: Option<f64>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => order(a, b),
        (a, b) => a.is_none().cmp(&b.is_none()),
    }
}

fn key(value: f64) -> u64 {
    (value + 0.0).to_bits()
}

fn shown(value: Option<f64>) -> String {
    value.map_or("".to_owned(), |value| format!("{:e}", value + 0.0))
}

impl FloatSpec {
    fn values(&self, table: usize) -> Vec<Option<f64>> {
        let value = |place: usize| match self.is_single {
            true => f64::from(VALUES[place] as f32),
            false => VALUES[place],
        };
        self.tables[table].iter().map(|place| place.map(value)).collect()
    }

    /// The columns `i` (the row), `k` (the row modulo 3) and `f`.
    fn rows(&self, table: usize) -> RecordBatch {
        let values = self.values(table);
        let rows = values.len() as i64;
        let f: ArrayRef = match self.is_single {
            true => Arc::new(Float32Array::from_iter(
                values.iter().map(|value| value.map(|v| v as f32)),
            )),
            false => Arc::new(Float64Array::from(values)),
        };
        let columns: [(&str, ArrayRef); 3] = [
            ("i", Arc::new(Int64Array::from_iter_values(0..rows))),
            (
                "k",
                Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row % 3))),
            ),
            ("f", f),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, values)| (name, values, true))).expect("rows")
    }

    fn literal(&self, at: usize) -> f64 {
        VALUES[self.literals[at % self.literals.len()]]
    }

    /// Statements and their answers, rows and columns in order.
    fn queries(&self) -> Vec<(String, Vec<String>)> {
        let (a, b) = (self.values(0), self.values(1));
        let mut queries = Vec::new();
        let mut number = |sql: String, count: usize| queries.push((sql, vec![count.to_string()]));
        let known: Vec<f64> = a.iter().flatten().copied().collect();
        let pairs = |k: bool| {
            let mut groups: HashMap<(u64, usize), usize> = HashMap::new();
            for (row, value) in b.iter().enumerate() {
                if let Some(value) = value {
                    *groups.entry((key(*value), if k { row % 3 } else { 0 })).or_default() += 1;
                }
            }
            let matches = a.iter().enumerate().map(move |(row, value)| {
                value.map_or(0, |value| {
                    groups
                        .get(&(key(value), if k { row % 3 } else { 0 }))
                        .copied()
                        .unwrap_or(0)
                })
            });
            matches.collect::<Vec<usize>>()
        };
        let (by_f, by_both) = (pairs(false), pairs(true));
        let present = |found: &[usize]| found.iter().filter(|found| **found > 0).count();
        number("SELECT count(*) FROM a JOIN b ON a.f = b.f".into(), by_f.iter().sum());
        number(
            "SELECT count(*) FROM a JOIN b ON a.f = b.f AND a.k = b.k".into(),
            by_both.iter().sum(),
        );
        number("SELECT count(*) FROM b JOIN a USING (f)".into(), by_f.iter().sum());
        number(
            "SELECT count(*) FROM a LEFT JOIN b ON a.f = b.f".into(),
            by_f.iter().map(|found| (*found).max(1)).sum(),
        );
        number(
            "SELECT count(*) FROM a WHERE f IN (SELECT f FROM b)".into(),
            present(&by_f),
        );
        number(
            "SELECT count(*) FROM a WHERE EXISTS (SELECT * FROM b WHERE b.f = a.f AND b.k = a.k)".into(),
            present(&by_both),
        );
        number(
            "SELECT count(*) FROM a WHERE NOT EXISTS (SELECT * FROM b WHERE b.f = a.f)".into(),
            a.len() - present(&by_f),
        );
        let not_in = a
            .iter()
            .zip(&by_f)
            .filter(|(value, found)| value.is_some() && **found == 0)
            .count();
        number(
            "SELECT count(*) FROM a WHERE f NOT IN (SELECT f FROM b WHERE f IS NOT NULL)".into(),
            match b.iter().flatten().count() {
                0 => a.len(),
                _ => not_in,
            },
        );
        let list: HashSet<u64> = self.literals.iter().map(|place| key(VALUES[*place])).collect();
        let listed = known.iter().filter(|value| list.contains(&key(**value))).count();
        let literals: Vec<String> = (0..self.literals.len()).map(|at| sql_of(self.literal(at))).collect();
        let literals = literals.join(", ");
        number(format!("SELECT count(*) FROM a WHERE f IN ({literals})"), listed);
        number(
            format!("SELECT count(*) FROM a WHERE f NOT IN ({literals})"),
            known.len() - listed,
        );
        number(
            format!("SELECT count(*) FROM a WHERE f + 0.5 - 0.5 IN ({literals}) OR k > 5"),
            {
                let near = known.iter().filter(|value| list.contains(&key(**value + 0.5 - 0.5)));
                near.count()
            },
        );
        let (low, high) = (self.literal(0), self.literal(1));
        for (sql, passes) in COMPARISONS {
            let count = known.iter().filter(|value| passes(order(**value, low))).count();
            number(format!("SELECT count(*) FROM a WHERE f {sql} {}", sql_of(low)), count);
        }
        let between = known
            .iter()
            .filter(|value| order(**value, low).is_ge() && order(**value, high).is_le());
        number(
            format!(
                "SELECT count(*) FROM a WHERE f BETWEEN {} AND {}",
                sql_of(low),
                sql_of(high)
            ),
            between.count(),
        );
        let case = known.iter().map(|value| match () {
            () if order(*value, low).is_eq() => 1,
            () if order(*value, high).is_eq() => 2,
            () => 0,
        });
        number(
            format!(
                "SELECT coalesce(sum(CASE f WHEN {} THEN 1 WHEN {} THEN 2 ELSE 0 END), 0) FROM a",
                sql_of(low),
                sql_of(high)
            ),
            case.sum(),
        );
        let distinct: HashSet<u64> = known.iter().map(|value| key(*value)).collect();
        let groups = distinct.len() + usize::from(known.len() < a.len());
        number("SELECT count(*) FROM (SELECT f FROM a GROUP BY f)".into(), groups);
        number(
            "SELECT count(*) FROM (SELECT DISTINCT f, f IS NULL FROM a)".into(),
            groups,
        );
        number("SELECT count(DISTINCT f) FROM a".into(), distinct.len());
        queries.push((
            "SELECT count(DISTINCT f), count(DISTINCT i) FROM a".into(),
            vec![format!("{},{}", distinct.len(), a.len())],
        ));
        let extremes = |values: &mut dyn Iterator<Item = f64>| {
            let values: Vec<f64> = values.collect();
            let least = values.iter().copied().min_by(|a, b| order(*a, *b));
            let greatest = values.iter().copied().max_by(|a, b| order(*a, *b));
            format!("{},{}", shown(least), shown(greatest))
        };
        queries.push((
            "SELECT min(f), max(f) FROM a".into(),
            vec![extremes(&mut known.iter().copied())],
        ));
        let of_k = |k: usize| {
            let mut values = a
                .iter()
                .enumerate()
                .filter(|(row, _)| row % 3 == k)
                .filter_map(|(_, value)| *value);
            extremes(&mut values)
        };
        let groups = (0..a.len().min(3)).map(|k| format!("{k},{}", of_k(k))).collect();
        queries.push(("SELECT k, min(f), max(f) FROM a GROUP BY k ORDER BY k".into(), groups));
        let mut sorted: Vec<usize> = (0..a.len()).collect();
        sorted.sort_by(|x, y| nulls_last(a[*x], a[*y]).then(x.cmp(y)));
        let ids = |rows: &[usize]| rows.iter().map(usize::to_string).collect::<Vec<_>>();
        queries.push(("SELECT i FROM a ORDER BY f, i".into(), ids(&sorted)));
        queries.push((
            "SELECT i FROM a ORDER BY f, i LIMIT 5".into(),
            ids(&sorted[..a.len().min(5)]),
        ));
        sorted.sort_by(|x, y| nulls_last(a[*y], a[*x]).then(x.cmp(y)));
        queries.push((
            "SELECT i FROM a ORDER BY f DESC, i LIMIT 7".into(),
            ids(&sorted[..a.len().min(7)]),
        ));
        let ranks = a
            .iter()
            .map(|value| 1 + a.iter().filter(|other| nulls_last(**other, *value).is_lt()).count());
        queries.push((
            "SELECT rank() OVER (ORDER BY f) FROM a ORDER BY i".into(),
            ranks.map(|rank| rank.to_string()).collect(),
        ));
        let peers = a
            .iter()
            .map(|value| a.iter().filter(|other| nulls_last(**other, *value).is_eq()).count());
        queries.push((
            "SELECT count(*) OVER (PARTITION BY f) FROM a ORDER BY i".into(),
            peers.map(|peers| peers.to_string()).collect(),
        ));
        queries
    }
}

/// A literal of SQL.
fn sql_of(value: f64) -> String {
    match value {
        value if value.is_nan() && value.is_sign_negative() => "-CAST('NaN' AS DOUBLE)".to_owned(),
        value if value.is_nan() => "CAST('NaN' AS DOUBLE)".to_owned(),
        f64::INFINITY => "CAST('inf' AS DOUBLE)".to_owned(),
        f64::NEG_INFINITY => "CAST('-inf' AS DOUBLE)".to_owned(),
        value => format!("{value:?}"),
    }
}

/// Tables `a` and `b` from ORC, from Parquet, with and without filters row by row, from both, and from memory.
async fn sessions(spec: &FloatSpec, folder: &Path) -> Result<Vec<(String, SessionContext)>> {
    let writer = SessionContext::new();
    for (number, name) in ["a", "b"].into_iter().enumerate() {
        let rows = spec.rows(number);
        let bloom = spec.bloom && spec.stride > 0;
        let options = WriterProperties {
            codec: spec.bloom.then_some(Codec::Snappy),
            row_index_stride: spec.stride,
            stripe_rows: 10 * spec.row_group,
            bloom_filter_columns: if bloom { vec!["f".to_owned()] } else { Vec::new() },
            ..WriterProperties::default()
        };
        write_orc(
            &folder.join(format!("{name}.orc")),
            rows.schema(),
            std::slice::from_ref(&rows),
            options,
        );
        register_rows(&writer, name, &rows);
        let copy = format!(
            "COPY {name} TO '{}/{name}.parquet' OPTIONS ('format.max_row_group_size' '{}', \
             'format.bloom_filter_on_write' '{}')",
            folder.display(),
            spec.row_group,
            spec.bloom
        );
        writer.sql(&copy).await?.collect().await?;
    }
    let mut sessions = Vec::new();
    for (words, a, b, pushes) in [
        ("ORC", "orc", "orc", false),
        ("Parquet", "parquet", "parquet", false),
        ("Parquet, filters pushed down", "parquet", "parquet", true),
        ("ORC with Parquet", "orc", "parquet", false),
        ("memory", "", "", false),
    ] {
        let setting = &SETTINGS[usize::from(spec.bloom)];
        let context = setting.context();
        let set = format!("SET datafusion.execution.parquet.pushdown_filters = {pushes}");
        context.sql(&set).await?;
        for (number, (name, end)) in [("a", a), ("b", b)].into_iter().enumerate() {
            match end {
                "" => register_rows(&context, name, &spec.rows(number)),
                end => {
                    let file = folder.join(format!("{name}.{end}")).display().to_string();
                    grampus::session::register_files(&context, name, &file).await?;
                }
            }
        }
        sessions.push((format!("{words}, {} partitions", setting.partitions), context));
    }
    Ok(sessions)
}

/// The first wrong answer.
pub(crate) async fn complaint(spec: &FloatSpec, folder: &Path) -> Result<Option<String>> {
    for (words, context) in sessions(spec, folder).await? {
        for (sql, expected) in spec.queries() {
            let found = match answer(&context, &sql).await {
                Ok(found) => found,
                Err(error) => return Ok(Some(format!("{words}: {sql}: {error}"))),
            };
            if found != expected {
                return Ok(Some(format!("{words}: {sql}: {found:?} instead of {expected:?}")));
            }
        }
    }
    Ok(None)
}

async fn answer(context: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let mut rows = Vec::new();
    for batch in context.sql(sql).await?.collect().await? {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| {
                let text = array_value_to_string(column, row)?;
                Ok(match (column.data_type().is_floating(), text.parse::<f64>()) {
                    (true, Ok(value)) => shown(Some(value)),
                    _ => text,
                })
            });
            rows.push(cells.collect::<Result<Vec<_>>>()?.join(","));
        }
    }
    Ok(rows)
}
