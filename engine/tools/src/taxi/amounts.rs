//! [`Amounts`]: fare, surcharges, taxes, tolls, tip and total of a trip.
//!
//! All amounts are whole cents. A total is therefore the sum of its parts to the last bit of the decimal.

use super::calendar::{FIRST_YEAR, Hour};
use super::distance::Distance;
use super::quantiles::Quantiles;
use super::rng::Rng;
use super::run_context::RunContext;

/// The amounts of a trip, in cents.
#[derive(Default, Clone, Copy)]
pub(super) struct Amounts {
    pub(super) fare: i64,
    pub(super) extra: i64,
    pub(super) mta_tax: i64,
    pub(super) tip: i64,
    pub(super) tolls: i64,
    pub(super) improvement: i64,
    /// The congestion surcharge; `None` is NULL.
    pub(super) congestion: Option<i64>,
    pub(super) total: i64,
}

/// The parts of a trip that its amounts depend on.
pub(super) struct Ride<'a> {
    /// Row number in the table.
    pub(super) row: u64,
    pub(super) vendor: u8,
    pub(super) rate_code: u8,
    pub(super) payment: u8,
    pub(super) distance: &'a Distance,
}

/// The distributions of amounts.
pub(super) struct AmountModel {
    fare_noise_cents: Quantiles,
}

/// The toll of a tunnel or of the Triborough Bridge, cents, 2009–2021.
const TOLL_CENTS: [i64; 13] = [415, 457, 480, 480, 533, 533, 554, 554, 576, 576, 612, 612, 655];
/// Tolls of other crossings.
const OTHER_TOLLS_CENTS: [i64; 8] = [1050, 280, 1224, 1250, 264, 1175, 229, 1375];
/// Share of trips with a toll by distance, steps of 2.5 miles.
const TOLL_BY_DISTANCE: [f64; 15] = [
    0.002, 0.009, 0.049, 0.449, 0.559, 0.424, 0.645, 0.737, 0.734, 0.659, 0.514, 0.650, 0.636, 0.667, 0.672,
];
/// Deviation of metered fares from 4.49 + 2.88 a mile on short trips, cents. The fares of longer trips deviate about
/// 1.5 times as much.
#[rustfmt::skip]
const FARE_NOISE: [(f64, f64); 13] = [
    (0.0, -300.0), (0.05, -231.0), (0.1, -208.0), (0.2, -176.0), (0.3, -148.0), (0.4, -120.0), (0.5, -88.0),
    (0.6, -51.0), (0.7, 0.0), (0.8, 75.0), (0.9, 210.0), (0.95, 360.0), (1.0, 1100.0),
];

/// January 2019 is month 120. Its last third names the congestion surcharge, later months charge it.
const JANUARY_2019: i32 = 120;
/// The state's tax on trips began in November 2009.
const NOVEMBER_2009: i32 = 10;
/// The improvement surcharge began in January 2015.
const JANUARY_2015: i32 = 72;
/// The city raised fares in September 2012.
const SEPTEMBER_2012: i32 = 44;

impl AmountModel {
    pub(super) fn new() -> Self {
        Self {
            fare_noise_cents: Quantiles::new(&FARE_NOISE),
        }
    }

    /// The amounts of one trip.
    pub(super) fn draw(&self, context: &RunContext<'_>, ride: &Ride<'_>, rng: &mut Rng) -> Amounts {
        let mut amounts = Amounts {
            fare: self.fare(context, ride, rng),
            extra: extra(context, ride.rate_code, rng),
            mta_tax: mta_tax(context, ride.rate_code, rng),
            tolls: tolls(context.year, ride.distance.bin(), rng),
            improvement: if rng.chance(0.0006) { 0 } else { 30 },
            congestion: congestion(context, ride.row, rng),
            ..Amounts::default()
        };
        if context.month_number < JANUARY_2015 {
            amounts.improvement = 0;
        }
        amounts.settle(context, ride, rng);
        amounts
    }

    /// The metered or agreed fare, cents.
    fn fare(&self, context: &RunContext<'_>, ride: &Ride<'_>, rng: &mut Rng) -> i64 {
        let u = rng.unit();
        let old = context.month_number < SEPTEMBER_2012;
        match ride.rate_code {
            2 if old => 4500,
            2 => 5200,
            5 => 500 + (u * u * 150.0) as i64 * 100,
            _ => {
                let noise = self.fare_noise_cents.value(u);
                let noise = if ride.distance.driven < 3.0 { noise } else { noise * 1.5 };
                let newark = if ride.rate_code == 3 { 1750.0 } else { 0.0 };
                let cents = (449.0 + 288.0 * ride.distance.driven + noise + newark) * if old { 0.83 } else { 1.0 };
                ((cents / 50.0) as i64 * 50).max(250)
            }
        }
    }
}

impl Amounts {
    /// Adds tip, refund and total: the sum that the passenger pays.
    fn settle(&mut self, context: &RunContext<'_>, ride: &Ride<'_>, rng: &mut Rng) {
        let before_tip = self.fare + self.extra + self.mta_tax + self.tolls + self.improvement;
        let before_tip = before_tip + self.congestion.unwrap_or(0);
        if ride.payment > 1 && rng.chance(0.0075) {
            self.refund();
        } else if ride.payment == 1 {
            self.tip = tip(before_tip, rng);
        }
        if rng.below(2_000_000) == 0 {
            self.fare = 300_400 + i64::from(rng.below(42_648_621));
        }
        let congestion = self.congestion.unwrap_or(0);
        self.total = self.fare + self.extra + self.mta_tax + self.tip + self.tolls + self.improvement + congestion;
        if !context.segment.green && ride.vendor == 1 && congestion != 0 {
            // Vendor 1 adds the congestion surcharge to `extra` as well, but charges it once.
            self.extra += congestion;
        } else if rng.chance(0.0035) {
            self.total += 195;
        }
    }

    /// Turns the trip into a refund: its charges become negative.
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

/// The surcharge of the hour: night, or weekday evening. The airport's flat fare has a surcharge of its own.
fn extra(context: &RunContext<'_>, rate_code: u8, rng: &mut Rng) -> i64 {
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

fn mta_tax(context: &RunContext<'_>, rate_code: u8, rng: &mut Rng) -> i64 {
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
        _ => TOLL_CENTS[(year - FIRST_YEAR) as usize],
    }
}

/// The congestion surcharge: NULL until January 2019, zero in the last third of that month, then 2.50 in Manhattan.
fn congestion(context: &RunContext<'_>, row: u64, rng: &mut Rng) -> Option<i64> {
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

/// The tip of a card payment: mostly one of the shares that the screen proposes.
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
