//! Trips, a run of rows at a time: everything that all column sets share. Amounts are drawn in cents, so that a total is the sum of its
//! parts to the last bit of the decimal; which columns become of it is the business of `columns` and `full`.

use std::ops::Range;

use super::calendar::{Hour, Plan, RUN_ROWS, Segment};
use super::distance::{Distance, Distances, LongTrips};
use super::rng::{Quantiles, Rng};

/// The purpose of the random numbers drawn here (see [`Rng::new`]).
const PURPOSE: u64 = 1;

/// Columns of some trips; all vectors have the same length.
#[derive(Default)]
pub(super) struct Trips {
    /// Row number of each trip in the table.
    pub(super) row: Vec<u64>,
    /// Local times, seconds since 1970.
    pub(super) pickup_s: Vec<i64>,
    pub(super) dropoff_s: Vec<i64>,
    /// Year of the month that the trip was reported for: clocks may say otherwise.
    pub(super) year: Vec<i32>,
    pub(super) green: Vec<bool>,
    /// False: passengers, rate code, payment, flag and congestion surcharge were not reported.
    pub(super) complete: Vec<bool>,
    /// 1, 2 or 4.
    pub(super) vendor: Vec<u8>,
    /// 1–6 or 99.
    pub(super) rate_code: Vec<u8>,
    pub(super) passengers: Vec<u8>,
    /// 1 card, 2 cash, 3 no charge, 4 dispute.
    pub(super) payment: Vec<u8>,
    pub(super) stored: Vec<bool>,
    pub(super) trip_distance: Vec<f64>,
    pub(super) fare_amount: Vec<f64>,
    pub(super) extra: Vec<f64>,
    pub(super) mta_tax: Vec<f64>,
    pub(super) tip_amount: Vec<f64>,
    pub(super) tolls_amount: Vec<f64>,
    /// True in a handful of green trips; the fee is 0 there and NULL elsewhere.
    pub(super) has_ehail_fee: Vec<bool>,
    pub(super) improvement_surcharge: Vec<f64>,
    pub(super) total_amount: Vec<f64>,
    pub(super) congestion_surcharge: Vec<f64>,
    pub(super) has_congestion_surcharge: Vec<bool>,
}

/// One trip on its way into [`Trips`]; amounts in cents.
struct Trip {
    pickup_s: i64,
    dropoff_s: i64,
    vendor: u8,
    rate_code: u8,
    passengers: u8,
    payment: u8,
    stored: bool,
    distance: i64,
    has_ehail_fee: bool,
    amounts: Amounts,
}

/// Cents.
#[derive(Default, Clone, Copy)]
struct Amounts {
    fare: i64,
    extra: i64,
    mta_tax: i64,
    tip: i64,
    tolls: i64,
    improvement: i64,
    congestion: Option<i64>,
    total: i64,
}

/// What the trips of (a part of) a run have in common.
struct Context<'a> {
    segment: &'a Segment,
    year: i32,
    /// Months since January 2009.
    month_number: i32,
    hour: Hour,
    long: LongTrips,
}

/// The generator's tables; one serves all threads.
pub(super) struct TripMaker {
    seed: u64,
    plan: Plan,
    distances: Distances,
    seconds_per_mile: Quantiles,
    fare_noise_cents: Quantiles,
}

/// Card payments among the paid trips of a year, 2009–2021.
const CARD_SHARE: [f64; 13] = [
    0.26, 0.36, 0.45, 0.52, 0.55, 0.59, 0.63, 0.66, 0.68, 0.70, 0.72, 0.74, 0.76,
];
/// The usual toll (a tunnel or the Triborough Bridge), cents, 2009–2021.
const TOLL_CENTS: [i64; 13] = [415, 457, 480, 480, 533, 533, 554, 554, 576, 576, 612, 612, 655];
const OTHER_TOLLS_CENTS: [i64; 8] = [1050, 280, 1224, 1250, 264, 1175, 229, 1375];
/// Trips with a toll by distance, steps of 2.5 miles.
#[rustfmt::skip]
const TOLL_BY_DISTANCE: [f64; 15] = [0.002, 0.009, 0.049, 0.449, 0.559, 0.424, 0.645, 0.737, 0.734, 0.659, 0.514, 0.650, 0.636, 0.667, 0.672];
/// Trips at the airport's flat fare by distance, steps of 2.5 miles.
#[rustfmt::skip]
const FLAT_BY_DISTANCE: [f64; 15] = [0.0026, 0.0016, 0.0036, 0.0063, 0.014, 0.073, 0.576, 0.801, 0.707, 0.342, 0.205, 0.25, 0.129, 0.130, 0.0];
/// Out-of-town and negotiated fares by distance, steps of 2.5 miles.
#[rustfmt::skip]
const OTHER_RATE_BY_DISTANCE: [f64; 15] = [0.004, 0.002, 0.007, 0.011, 0.013, 0.07, 0.08, 0.072, 0.088, 0.187, 0.22, 0.46, 0.55, 0.70, 0.81];

/// Seconds a mile takes.
const PACE: [(f64, f64); 7] = [
    (0.0, 80.0),
    (0.05, 147.0),
    (0.25, 265.0),
    (0.5, 364.0),
    (0.75, 494.0),
    (0.95, 816.0),
    (1.0, 1600.0),
];
/// How far metered fares lie from 4.49 + 2.88 a mile, cents, on short trips; on longer ones about 1.5 times as far.
#[rustfmt::skip]
const FARE_NOISE: [(f64, f64); 13] = [
    (0.0, -300.0), (0.05, -231.0), (0.1, -208.0), (0.2, -176.0), (0.3, -148.0), (0.4, -120.0), (0.5, -88.0),
    (0.6, -51.0), (0.7, 0.0), (0.8, 75.0), (0.9, 210.0), (0.95, 360.0), (1.0, 1100.0),
];

/// January 2019 is month 120; its last third already names the congestion surcharge, the months after charge it.
const JANUARY_2019: i32 = 120;
/// The state's tax on trips began in November 2009.
const NOVEMBER_2009: i32 = 10;
/// The improvement surcharge began in January 2015.
const JANUARY_2015: i32 = 72;
/// The city raised fares in September 2012.
const SEPTEMBER_2012: i32 = 44;

impl TripMaker {
    pub(super) fn new(seed: u64, rows: u64) -> Self {
        Self {
            seed,
            plan: Plan::new(rows),
            distances: Distances::new(),
            seconds_per_mile: Quantiles::new(&PACE),
            fare_noise_cents: Quantiles::new(&FARE_NOISE),
        }
    }

    /// Appends the trips of a range of runs, in row order.
    pub(super) fn make(&self, runs: Range<u64>) -> Trips {
        let rows = runs.start * RUN_ROWS..(runs.end * RUN_ROWS).min(self.plan.rows);
        let mut trips = Trips::with_capacity((rows.end - rows.start) as usize);
        for run in runs {
            self.make_run(run, &mut trips);
        }
        trips
    }

    fn make_run(&self, run: u64, trips: &mut Trips) {
        let mut rng = Rng::new(self.seed, PURPOSE, run);
        let end = ((run + 1) * RUN_ROWS).min(self.plan.rows);
        let mut row = run * RUN_ROWS;
        while row < end {
            let segment = &self.plan.segments[self.plan.segment_of(row)];
            let part = row..end.min(segment.rows.end);
            let context = self.context(segment, &part, &mut rng);
            for row in part.clone() {
                let trip = self.trip(&context, row, &mut rng);
                trips.push(row, &context, &trip);
            }
            row = part.end;
        }
    }

    fn context<'a>(&'a self, segment: &'a Segment, rows: &Range<u64>, rng: &mut Rng) -> Context<'a> {
        let month = &self.plan.months[segment.month];
        let hour = self.plan.hour(segment, rows, rng);
        Context {
            segment,
            year: month.year,
            month_number: segment.month as i32,
            hour,
            long: self.distances.long_trips(month.year, hour, segment.complete, rng),
        }
    }

    fn trip(&self, context: &Context<'_>, row: u64, rng: &mut Rng) -> Trip {
        let vendor = vendor(context, rng);
        let distance = self.distances.draw(context.long, vendor == 1, rng);
        let bin = ((distance.driven / 2.5) as usize).min(14);
        let rate_code = rate_code(bin, rng);
        let payment = payment(context.year, rng);
        let pickup_s = pickup(context.hour, rng);
        let mut amounts = Amounts {
            fare: self.fare(context, rate_code, &distance, rng),
            extra: extra(context, rate_code, rng),
            mta_tax: mta_tax(context, rate_code, rng),
            tolls: tolls(context.year, bin, rng),
            improvement: if rng.chance(0.0006) { 0 } else { 30 },
            congestion: congestion(context, row, rng),
            ..Amounts::default()
        };
        if context.month_number < JANUARY_2015 {
            amounts.improvement = 0;
        }
        amounts.settle(context, vendor, payment, rng);
        Trip {
            pickup_s,
            dropoff_s: pickup_s + self.duration(&distance, rng),
            vendor,
            rate_code,
            passengers: passengers(vendor, rng),
            payment: if amounts.total < 0 {
                3 + rng.below(2) as u8
            } else {
                payment
            },
            stored: rng.chance(0.0077),
            distance: distance.hundredths,
            has_ehail_fee: context.segment.green && rng.chance(1e-4),
            amounts,
        }
    }

    /// The metered or agreed fare, cents.
    fn fare(&self, context: &Context<'_>, rate_code: u8, distance: &Distance, rng: &mut Rng) -> i64 {
        let u = rng.unit();
        let old = context.month_number < SEPTEMBER_2012;
        match rate_code {
            2 if old => 4500,
            2 => 5200,
            5 => 500 + (u * u * 150.0) as i64 * 100,
            _ => {
                let noise = self.fare_noise_cents.value(u);
                let noise = if distance.driven < 3.0 { noise } else { noise * 1.5 };
                let newark = if rate_code == 3 { 1750.0 } else { 0.0 };
                let cents = (449.0 + 288.0 * distance.driven + noise + newark) * if old { 0.83 } else { 1.0 };
                ((cents / 50.0) as i64 * 50).max(250)
            }
        }
    }

    /// Seconds from pickup to dropoff.
    fn duration(&self, distance: &Distance, rng: &mut Rng) -> i64 {
        let pace = self.seconds_per_mile.value(rng.unit());
        // Long trips use highways.
        let pace = if distance.driven > 8.0 {
            70.0 + pace * 0.25
        } else {
            pace
        };
        let seconds = (distance.driven * pace) as i64 + 20;
        match rng.below(100_000) {
            0 => -seconds,
            1..80 => 0,
            // A meter that was switched off the next day.
            80..290 => 86_400 - seconds.min(3600),
            _ => seconds,
        }
    }
}

impl Amounts {
    /// Tip, refund and total: what the passenger pays in the end.
    fn settle(&mut self, context: &Context<'_>, vendor: u8, payment: u8, rng: &mut Rng) {
        let before_tip = self.fare + self.extra + self.mta_tax + self.tolls + self.improvement;
        let before_tip = before_tip + self.congestion.unwrap_or(0);
        if payment > 1 && rng.chance(0.0075) {
            self.refund();
        } else if payment == 1 {
            self.tip = tip(before_tip, rng);
        }
        if rng.below(2_000_000) == 0 {
            self.fare = 300_400 + i64::from(rng.below(42_648_621));
        }
        let congestion = self.congestion.unwrap_or(0);
        self.total = self.fare + self.extra + self.mta_tax + self.tip + self.tolls + self.improvement + congestion;
        if !context.segment.green && vendor == 1 && congestion != 0 {
            // This vendor adds the congestion surcharge to `extra` as well, but charges it once.
            self.extra += congestion;
        } else if rng.chance(0.0035) {
            self.total += 195;
        }
    }

    /// A trip taken back: the charges are negative.
    fn refund(&mut self) {
        for amount in [
            &mut self.fare,
            &mut self.extra,
            &mut self.mta_tax,
            &mut self.improvement,
        ] {
            *amount = -*amount;
        }
        self.congestion = self.congestion.map(|c| -c);
    }
}

fn vendor(context: &Context<'_>, rng: &mut Rng) -> u8 {
    let u = rng.unit();
    let first = match (context.segment.green, context.year) {
        (true, _) => 0.19,
        (false, ..2015) => 0.49,
        (false, ..2018) => 0.45,
        (false, _) => 0.385,
    };
    match u {
        u if u < first => 1,
        u if u > 0.997 && context.year >= 2018 && !context.segment.green => 4,
        _ => 2,
    }
}

fn rate_code(bin: usize, rng: &mut Rng) -> u8 {
    let u = rng.unit();
    let flat = FLAT_BY_DISTANCE[bin];
    if u < flat {
        return 2;
    }
    if u - flat >= OTHER_RATE_BY_DISTANCE[bin] {
        return 1;
    }
    match rng.below(1000) {
        0..2 => 6,
        2..12 => 99,
        12..110 => 4,
        110..360 if bin >= 4 => 3,
        _ => 5,
    }
}

fn payment(year: i32, rng: &mut Rng) -> u8 {
    let u = rng.unit();
    match u {
        u if u < 0.006 => 3,
        u if u < 0.0084 => 4,
        u if (u - 0.0084) / 0.9916 < CARD_SHARE[(year - super::calendar::FIRST_YEAR) as usize] => 1,
        _ => 2,
    }
}

/// Within the hour, in no order. Some clocks are years off.
fn pickup(hour: Hour, rng: &mut Rng) -> i64 {
    let second = hour.start_s + i64::from(rng.below(3600));
    match rng.below(1_000_000) {
        0 => 1_230_767_376, // the last minutes of 2008: a clock that was never set
        1 => second + 20 * 365 * 86_400,
        2 => second - 8 * 365 * 86_400,
        _ => second,
    }
}

/// The surcharge of the hour: night, or weekday evening. The airport's flat fare has its own.
fn extra(context: &Context<'_>, rate_code: u8, rng: &mut Rng) -> i64 {
    let Hour { weekday, hour, .. } = context.hour;
    let rush = (1..=5).contains(&weekday) && (16..20).contains(&hour);
    if !context.segment.complete {
        return if rng.chance(0.93) { 275 } else { 0 };
    }
    match rate_code {
        2 if rush && context.year >= 2018 => 450,
        2 | 3 | 5 => 0,
        _ if rng.chance(0.015) => 0,
        _ if rush => 100,
        _ if !(6..20).contains(&hour) => 50,
        _ => 0,
    }
}

fn mta_tax(context: &Context<'_>, rate_code: u8, rng: &mut Rng) -> i64 {
    let exempt = match rate_code {
        3 | 5 => 0.9,
        _ => 0.002,
    };
    if context.month_number < NOVEMBER_2009 || rng.chance(exempt) {
        0
    } else {
        50
    }
}

fn tolls(year: i32, bin: usize, rng: &mut Rng) -> i64 {
    if !rng.chance(TOLL_BY_DISTANCE[bin]) {
        return 0;
    }
    match rng.below(12) {
        0 => OTHER_TOLLS_CENTS[rng.below(8) as usize],
        _ => TOLL_CENTS[(year - super::calendar::FIRST_YEAR) as usize],
    }
}

/// NULL before it existed, in the last third of January 2019 zero, then 2.50 in Manhattan.
fn congestion(context: &Context<'_>, row: u64, rng: &mut Rng) -> Option<i64> {
    let u = rng.unit();
    let rows = &context.segment.rows;
    if context.month_number < JANUARY_2019 || !context.segment.complete {
        return None;
    }
    if context.month_number == JANUARY_2019 {
        let late = (row - rows.start) as f64 > 0.63 * (rows.end - rows.start) as f64;
        return late.then_some(0);
    }
    let (share, cents) = if context.segment.green {
        (0.15, 275)
    } else {
        (0.92, 250)
    };
    Some(if u < share { cents } else { 0 })
}

/// Cents of a card payment: mostly what the screen proposes.
fn tip(before_tip: i64, rng: &mut Rng) -> i64 {
    let share = |percent: i64| (before_tip * percent + 50) / 100;
    match rng.below(1000) {
        0..47 => 0,
        47..540 => share(20),
        540..635 => share(25),
        635..690 => share(15),
        690..728 => share(30),
        728..808 => 100,
        808..858 => 200,
        858..875 => 150,
        _ => share(8 + i64::from(rng.below(16))),
    }
}

fn passengers(vendor: u8, rng: &mut Rng) -> u8 {
    let u = rng.below(10_000);
    match (vendor, u) {
        (_, 9999) => 7,
        (_, ..6850) => 1,
        (_, 6850..8250) => 2,
        (_, 8250..8660) => 3,
        (_, 8660..8860) => 4,
        (1, 8860..9500) => 0,
        (1, _) => 1,
        (_, 8860..9800) => 5,
        (_, _) => 6,
    }
}

fn dollars(cents: i64) -> f64 {
    cents as f64 / 100.0
}

impl Trips {
    fn with_capacity(rows: usize) -> Self {
        let mut trips = Self::default();
        trips.row.reserve_exact(rows);
        trips.pickup_s.reserve_exact(rows);
        trips.dropoff_s.reserve_exact(rows);
        for amounts in [
            &mut trips.trip_distance,
            &mut trips.fare_amount,
            &mut trips.extra,
            &mut trips.mta_tax,
            &mut trips.tip_amount,
            &mut trips.tolls_amount,
            &mut trips.improvement_surcharge,
            &mut trips.total_amount,
            &mut trips.congestion_surcharge,
        ] {
            amounts.reserve_exact(rows);
        }
        trips
    }

    /// How many trips there are.
    pub(super) fn len(&self) -> usize {
        self.row.len()
    }

    fn push(&mut self, row: u64, context: &Context<'_>, trip: &Trip) {
        let amounts = &trip.amounts;
        self.row.push(row);
        self.pickup_s.push(trip.pickup_s);
        self.dropoff_s.push(trip.dropoff_s);
        self.year.push(context.year);
        self.green.push(context.segment.green);
        self.complete.push(context.segment.complete);
        self.vendor.push(trip.vendor);
        self.rate_code.push(trip.rate_code);
        self.passengers.push(trip.passengers);
        self.payment.push(trip.payment);
        self.stored.push(trip.stored);
        self.trip_distance.push(dollars(trip.distance));
        self.fare_amount.push(dollars(amounts.fare));
        self.extra.push(dollars(amounts.extra));
        self.mta_tax.push(dollars(amounts.mta_tax));
        self.tip_amount.push(dollars(amounts.tip));
        self.tolls_amount.push(dollars(amounts.tolls));
        self.has_ehail_fee.push(trip.has_ehail_fee);
        self.improvement_surcharge.push(dollars(amounts.improvement));
        self.total_amount.push(dollars(amounts.total));
        self.congestion_surcharge.push(dollars(amounts.congestion.unwrap_or(0)));
        self.has_congestion_surcharge.push(amounts.congestion.is_some());
    }
}
