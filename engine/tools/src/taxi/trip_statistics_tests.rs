//! Tests of [`TripMaker`]: generated trips have the statistics of the real trips. Figures without a period are of
//! 2009–2021; "window" stands for yellow trips from January 2018 to February 2020.

use super::calendar::RUN_ROWS;
use super::trip_maker::TripMaker;
use super::trips::Trips;

const ROWS: u64 = 1_740_000;
/// Doubles in a 4 KiB page.
const PAGE_ROWS: usize = 512;

fn trips() -> Trips {
    TripMaker::new(7, ROWS).make(0..ROWS.div_ceil(RUN_ROWS))
}

/// The share of `true` among `flags`, per cent.
fn percent(flags: impl IntoIterator<Item = bool>) -> f64 {
    let (mut hits, mut all) = (0, 0);
    for flag in flags {
        hits += usize::from(flag);
        all += 1;
    }
    100.0 * hits as f64 / all as f64
}

#[track_caller]
fn assert_within(what: &str, value: f64, low: f64, high: f64) {
    assert!(
        (low..=high).contains(&value),
        "{what}: {value} is not within {low} and {high}"
    );
}

#[test]
fn trips_have_the_statistics_of_the_real_table() {
    let trips = trips();
    assert_eq!(trips.len() as u64, ROWS);
    long_trips(&trips);
    passengers_and_nulls(&trips);
    order(&trips);
    let window: Vec<usize> = (0..trips.len()).filter(|&i| in_window(&trips, i)).collect();
    distances(&trips, &window);
    amounts(&trips, &window);
}

fn in_window(trips: &Trips, i: usize) -> bool {
    // 2018-01-01 and 2020-03-01, local time.
    !trips.green[i] && (1_514_764_800..1_583_020_800).contains(&trips.pickup_s[i])
}

fn long_trips(trips: &Trips) {
    let miles = &trips.trip_distance;
    assert_within(
        "trips >= 30 mi, %",
        percent(miles.iter().map(|&d| d >= 30.0)),
        0.026,
        0.038,
    );
    assert_within(
        "trips >= 20 mi, %",
        percent(miles.iter().map(|&d| d >= 20.0)),
        0.41,
        0.52,
    );
    let pages = miles.chunks(PAGE_ROWS).map(|page| page.iter().any(|&d| d >= 20.0));
    assert_within("pages with a trip >= 20 mi, %", percent(pages), 74.0, 80.0);
    let in_year = |year| {
        let years = trips.year.iter().zip(miles).filter(move |(y, _)| **y == year);
        percent(years.map(|(_, &d)| d >= 30.0))
    };
    assert_within("trips >= 30 mi in 2009, %", in_year(2009), 0.010, 0.028);
    assert_within("trips >= 30 mi in 2021, %", in_year(2021), 0.06, 0.2);
}

fn passengers_and_nulls(trips: &Trips) {
    for (count, low, high) in [(1, 69.0, 71.5), (2, 13.5, 14.5), (5, 4.0, 7.0), (3, 3.7, 4.5)] {
        let share = percent(trips.passengers.iter().map(|&p| p == count));
        assert_within(&format!("trips with {count} passengers, %"), share, low, high);
    }
    assert_within(
        "trips without passenger count, %",
        percent(trips.complete.iter().map(|&c| !c)),
        0.21,
        0.31,
    );
    assert_within("green trips, %", percent(trips.green.iter().copied()), 4.3, 4.8);
    assert_within(
        "trips with an e-hail fee, %",
        percent(trips.has_ehail_fee.iter().copied()),
        0.0,
        0.01,
    );
    let edges = trips.complete.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(edges < 4 * 12 * 3, "NULLs come together, not in {edges} places");
}

fn order(trips: &Trips) {
    let falls = percent(trips.pickup_s.windows(2).map(|pair| pair[1] < pair[0]));
    assert_within("rows earlier than the one before, %", falls, 40.0, 55.0);
    let starts: Vec<i64> = trips.pickup_s.iter().step_by(RUN_ROWS as usize).copied().collect();
    let late = percent(starts.windows(2).map(|pair| pair[1] < pair[0] - 3600));
    assert_within("runs earlier than the one before, %", late, 0.0, 15.0);
    let year = |second: i64| 1970 + second / 31_556_952;
    let strays = trips
        .pickup_s
        .iter()
        .zip(&trips.year)
        .map(|(&s, &y)| year(s) != i64::from(y));
    assert_within("clocks that are years off, %", percent(strays), 0.0, 0.5);
}

fn distances(trips: &Trips, window: &[usize]) {
    let mut miles: Vec<f64> = window.iter().map(|&i| trips.trip_distance[i]).collect();
    assert_within(
        "distances that round to zero, %",
        percent(miles.iter().map(|d| d.round() == 0.0)),
        4.3,
        5.4,
    );
    let hundredths = percent(miles.iter().map(|d| (d * 100.0 - (d * 100.0).round()).abs() < 1e-6));
    assert_within("distances with two decimals, %", hundredths, 100.0, 100.0);
    miles.sort_by(f64::total_cmp);
    for (p, wanted, tolerance) in [
        (0.25, 0.97, 0.06),
        (0.5, 1.61, 0.08),
        (0.75, 3.01, 0.12),
        (0.9, 6.96, 0.45),
        (0.95, 11.1, 0.6),
        (0.99, 19.1, 0.6),
        (0.999, 27.2, 3.0),
    ] {
        let got = miles[(p * miles.len() as f64) as usize];
        assert_within(
            &format!("distance at p = {p}"),
            got,
            wanted - tolerance,
            wanted + tolerance,
        );
    }
}

fn amounts(trips: &Trips, window: &[usize]) {
    let share = |flag: &dyn Fn(usize) -> bool| percent(window.iter().map(|&i| flag(i)));
    let parts = |i: usize| {
        trips.fare_amount[i]
            + trips.extra[i]
            + trips.mta_tax[i]
            + trips.tip_amount[i]
            + trips.tolls_amount[i]
            + trips.improvement_surcharge[i]
            + trips.congestion_surcharge[i]
    };
    let sums = share(&|i| (trips.total_amount[i] - parts(i)).abs() < 0.005);
    assert_within("totals that are the sum of their parts, %", sums, 82.0, 86.0);
    assert_within(
        "trips with the state's tax, %",
        share(&|i| trips.mta_tax[i] == 0.5),
        98.3,
        99.7,
    );
    assert_within(
        "trips without tip, %",
        share(&|i| trips.tip_amount[i] == 0.0),
        30.0,
        35.0,
    );
    assert_within(
        "trips without tolls, %",
        share(&|i| trips.tolls_amount[i] == 0.0),
        93.0,
        96.0,
    );
    let no_surcharge = share(&|i| !trips.has_congestion_surcharge[i]);
    assert_within("trips without congestion surcharge, %", no_surcharge, 46.0, 58.0);
    assert_within("refunds, %", share(&|i| trips.fare_amount[i] < 0.0), 0.1, 0.35);
    assert_within(
        "extra of 0, 0.5, 1, 2.5, %",
        share(&|i| [0.0, 0.5, 1.0, 2.5].contains(&trips.extra[i])),
        85.0,
        97.0,
    );
    let (mut xy, mut xx, mut x, mut y, mut n) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &i in window
        .iter()
        .filter(|&&i| (0.1..20.0).contains(&trips.trip_distance[i]) && trips.fare_amount[i] > 0.0)
    {
        let (d, f) = (trips.trip_distance[i], trips.fare_amount[i].min(250.0));
        (xy, xx, x, y, n) = (xy + d * f, xx + d * d, x + d, y + f, n + 1.0);
    }
    let slope = (n * xy - x * y) / (n * xx - x * x);
    assert_within("fare per mile", slope, 2.6, 3.0);
    assert_within("fare at zero miles", (y - slope * x) / n, 4.0, 5.2);
}

#[test]
fn run_does_not_depend_on_runs_made_with_it() {
    let maker = TripMaker::new(3, 20_000);
    let together = maker.make(0..10);
    let (first, second) = (maker.make(0..4), maker.make(4..10));
    assert_eq!([first.row, second.row].concat(), together.row);
    assert_eq!(
        [first.total_amount, second.total_amount].concat(),
        together.total_amount
    );
    assert_eq!([first.pickup_s, second.pickup_s].concat(), together.pickup_s);
    let other = TripMaker::new(4, 20_000).make(0..10);
    assert_ne!(other.total_amount, together.total_amount);
}
