//! Fields, truncation and casts of dates and times, over the whole calendar.

use grampus_gpu_exec::program::{DatePart, Expr, TimeUnit, Type};

use crate::common::interpreter::{Cell, Scalar};
use crate::common::random::{PARTS, Random};
use crate::common::{col, column};
use crate::row_results::{by_row, compare, on_each_device};

const UNITS: [TimeUnit; 4] = [
    TimeUnit::Second,
    TimeUnit::Millisecond,
    TimeUnit::Microsecond,
    TimeUnit::Nanosecond,
];

fn day_rows() -> Vec<i64> {
    let mut random = Random(11);
    // Days around leap years, centuries and the epoch, and some days of the whole calendar.
    let mut days: Vec<i64> = [
        -719_528,
        -25_567,
        -141_428,
        0,
        10_957,
        46_751,
        -96_465_292,
        95_026_236 - 800,
    ]
    .iter()
    .flat_map(|first| (0..100).map(move |i| first + i * 8))
    .collect();
    days.extend((0..600).map(|_| random.below(191_000_000) as i64 - 96_000_000));
    // 1900-03-01, 1901-01-01, 2099-12-31 and 2100-02-28: between them kernels take every fourth year for a leap year.
    days.extend(
        [-25_508, -25_202, 47_481, 47_540]
            .into_iter()
            .flat_map(|day| day - 3..day + 4),
    );
    days.extend([-96_465_294, 95_026_237, i64::from(i32::MIN), i64::from(i32::MAX)]);
    days
}

#[test]
fn fields_of_dates() {
    on_each_device(|target| {
        let extract = |part| Expr::Extract {
            part,
            value: Box::new(col(1)),
        };
        let rows: Vec<Vec<Cell>> = day_rows()
            .into_iter()
            .map(|d| vec![Some(Scalar::Int(d))])
            .chain([vec![None]])
            .collect();
        let columns = vec![column("d", Type::Date32, true)];
        compare(target, &by_row(columns, vec![], PARTS.map(extract).to_vec()), &[], rows);
    });
}

fn scale(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn times(unit: TimeUnit) -> Vec<Vec<Cell>> {
    let mut random = Random(12);
    let mut all: Vec<i64> = Vec::new();
    for day in day_rows() {
        let second = day
            .saturating_mul(86_400)
            .saturating_add(*random.pick(&[0, 1, -1, 3_599, 3_600, 43_210, 86_399]));
        all.push(
            second
                .saturating_mul(scale(unit))
                .saturating_add(*random.pick(&[0, -1, 1])),
        );
    }
    all.extend((0..200).map(|_| random.next() as i64));
    all.extend([i64::MIN, i64::MAX, 0, -1]);
    all.into_iter()
        .map(|t| vec![Some(Scalar::Int(t))])
        .chain([vec![None]])
        .collect()
}

#[test]
fn fields_and_truncation_of_times() {
    on_each_device(|target| {
        for unit in UNITS {
            let columns = || vec![column("t", Type::Timestamp(unit), true)];
            let fields = PARTS.map(|part| Expr::Extract {
                part,
                value: Box::new(col(1)),
            });
            compare(target, &by_row(columns(), vec![], fields.to_vec()), &[], times(unit));
            let truncated = |part: &DatePart| Expr::Truncate {
                part: *part,
                value: Box::new(col(1)),
            };
            let fine = PARTS[7..].iter().chain([&DatePart::Day]).map(truncated).collect();
            compare(target, &by_row(columns(), vec![], fine), &[], times(unit));
            let coarse = [DatePart::Year, DatePart::Quarter, DatePart::Month, DatePart::Week];
            for part in coarse {
                compare(
                    target,
                    &by_row(columns(), vec![], vec![truncated(&part)]),
                    &[],
                    times(unit),
                );
            }
        }
    });
}

#[test]
fn casts_of_dates_and_times() {
    on_each_device(|target| {
        let cast = |to| {
            vec![Expr::Cast {
                value: Box::new(col(1)),
                to,
            }]
        };
        for unit in UNITS {
            let time = || vec![column("t", Type::Timestamp(unit), true)];
            for to in UNITS.map(Type::Timestamp).into_iter().chain([Type::Date32]) {
                compare(target, &by_row(time(), vec![], cast(to)), &[], times(unit));
            }
            let date = vec![column("d", Type::Date32, true)];
            let rows = day_rows().into_iter().map(|d| vec![Some(Scalar::Int(d))]).collect();
            compare(target, &by_row(date, vec![], cast(Type::Timestamp(unit))), &[], rows);
        }
    });
}
