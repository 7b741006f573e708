//! [`DistanceModel`]: the distances of trips.
//!
//! 1. A body by quantiles, which includes the airport runs.
//! 2. An exponential tail.
//! 3. A drift over the years, and a mild clustering by hour of the week.
//! 4. The errors that meters and people make.

use super::calendar::{FIRST_YEAR, Hour, mean_over_week};
use super::quantiles::Quantiles;
use super::rng::Rng;

/// Trips of at least 20 miles among the trips of a year, 2009–2021.
const SHARE_20: [f64; 13] = [
    0.0030, 0.0033, 0.0036, 0.0038, 0.0040, 0.0042, 0.0046, 0.0052, 0.0060, 0.0070, 0.0071, 0.0080, 0.0100,
];

/// Trips of at least 30 miles among the trips of a year, 2009–2021.
const SHARE_30: [f64; 13] = [
    0.00018, 0.00020, 0.00023, 0.00025, 0.00026, 0.00028, 0.00030, 0.00033, 0.00037, 0.00044, 0.00054, 0.00090, 0.00112,
];

/// Beyond 20 miles the density falls at this rate per mile.
const TAIL_RATE: f64 = 0.29;
/// Share of the trips beyond 20 miles that [`TAIL_RATE`] leaves beyond 30 miles: exp(-10 · 0.29).
const TAIL_30_GIVEN_20: f64 = 0.055;
/// The far trips that the exponential does not explain begin at 30 miles and thin out at this rate per mile.
const FAR_RATE: f64 = 0.14;

/// Trips that recorded no distance.
const ZERO_SHARE: f64 = 0.006;
/// Trips with a small negative distance.
const NEGATIVE_SHARE: f64 = 3e-5;
/// Trips with a distance that no car drives.
const ABSURD_SHARE: f64 = 1e-6;
/// Trips with a negative distance that no car drives.
const ABSURD_NEGATIVE_SHARE: f64 = 1e-7;
/// Smallest and largest distance that no car drives.
const ABSURD_MILES: (f64, f64) = (1_000.0, 134_619_063.0);
/// Largest negative distance, without its sign.
const ABSURD_NEGATIVE_MILES: f64 = 40_840_124.0;

/// Quantiles of the trips of more than 0 and less than 20 miles (yellow, January 2018 – February 2020). Trips to the
/// airports make the step at 15–19 miles.
#[rustfmt::skip]
const BODY: [(f64, f64); 36] = [
    (0.0, 0.01), (0.005, 0.2), (0.01, 0.29), (0.02, 0.36), (0.03, 0.41), (0.043, 0.5), (0.06, 0.53),
    (0.08, 0.6), (0.1, 0.65), (0.15, 0.76), (0.2, 0.87), (0.25, 0.98), (0.3, 1.1), (0.35, 1.2),
    (0.4, 1.32), (0.45, 1.48), (0.5, 1.61), (0.55, 1.8), (0.6, 2.0), (0.65, 2.27), (0.7, 2.58),
    (0.75, 3.0), (0.8, 3.6), (0.85, 4.65), (0.875, 5.45), (0.9, 6.7), (0.925, 8.4), (0.95, 10.6),
    (0.96, 11.7), (0.97, 14.0), (0.98, 16.8), (0.985, 17.5), (0.99, 18.2), (0.995, 18.85), (0.999, 19.7),
    (1.0, 19.999),
];

/// Long trips by hour of the day relative to the mean: Sunday, Monday–Friday, Saturday. The figures are of trips of at
/// least 18 miles in 2018–2020.
const LONG_BY_HOUR: [[f64; 24]; 3] = [
    [
        0.61, 0.36, 0.33, 0.78, 1.20, 2.67, 3.95, 2.55, 1.87, 1.06, 0.68, 0.77, 0.67, 1.18, 1.20, 1.43, 1.76, 1.54,
        1.67, 1.18, 1.85, 1.66, 1.93, 2.46,
    ],
    [
        1.78, 1.79, 1.24, 1.71, 3.97, 2.90, 1.55, 0.84, 0.52, 0.51, 0.63, 0.67, 0.77, 0.97, 1.06, 0.99, 1.07, 0.96,
        0.89, 0.88, 1.00, 1.04, 1.07, 1.06,
    ],
    [
        0.73, 0.58, 0.66, 0.85, 1.47, 3.82, 1.55, 2.48, 1.10, 0.65, 0.68, 0.51, 0.63, 0.89, 0.91, 1.11, 1.08, 1.01,
        0.87, 0.60, 1.38, 0.88, 0.82, 0.77,
    ],
];

/// Shape of a factor per run, gamma-distributed with mean 1 and variance 1/3. The factor stands for differences between
/// days (weather, holidays, strikes). Together with the hours it makes 4 KiB pages cluster as the real table's do.
const DAY_SHAPE: u32 = 3;

/// The distributions of distances.
pub(super) struct DistanceModel {
    body: Quantiles,
    mean_long: f64,
}

/// The probabilities of long trips in a run, by its hour and year.
#[derive(Clone, Copy)]
pub(super) struct LongTrips {
    /// Probability of at least 20 miles.
    share_20: f64,
    /// Probability that a trip of at least 20 miles is of the far kind.
    far: f64,
}

/// A distance, as driven and as recorded.
pub(super) struct Distance {
    /// The recorded distance, hundredths of a mile: the data has two decimals.
    pub(super) hundredths: i64,
    /// The driven distance, miles. The fare follows it.
    pub(super) driven: f64,
}

impl Distance {
    /// The driven distance in steps of 2.5 miles, at most 14.
    pub(super) fn bin(&self) -> usize {
        ((self.driven / 2.5) as usize).min(14)
    }
}

fn long_by_hour(weekday: usize, hour: usize) -> f64 {
    let day = match weekday {
        0 => 0,
        6 => 2,
        _ => 1,
    };
    LONG_BY_HOUR[day][hour]
}

impl DistanceModel {
    pub(super) fn new() -> Self {
        Self {
            body: Quantiles::new(&BODY),
            mean_long: mean_over_week(long_by_hour),
        }
    }

    /// The probabilities of long trips in a run. The vendor with incomplete reports drives far more often. From 2020
    /// on, this vendor has enough trips to count in the year's mean.
    pub(super) fn long_trips(&self, year: i32, hour: Hour, complete: bool, rng: &mut Rng) -> LongTrips {
        let day: f64 = (0..DAY_SHAPE).map(|_| rng.exponential()).sum::<f64>() / f64::from(DAY_SHAPE);
        let vendor = match (complete, year >= 2020) {
            (true, false) => 1.0,
            (true, true) => 0.87,
            (false, _) => 2.8,
        };
        let year = (year - FIRST_YEAR) as usize;
        let hour = long_by_hour(hour.weekday, hour.hour) / self.mean_long;
        let far = (SHARE_30[year] / SHARE_20[year] - TAIL_30_GIVEN_20) / (1.0 - TAIL_30_GIVEN_20);
        LongTrips {
            share_20: (SHARE_20[year] * vendor * hour * day).min(0.5),
            far: far.max(0.0),
        }
    }

    /// One distance. Meters of the `coarse` kind show one decimal.
    pub(super) fn draw(&self, long: LongTrips, coarse: bool, rng: &mut Rng) -> Distance {
        let u = rng.unit();
        if u < long.share_20 {
            return long_distance(long, coarse, rng);
        }
        // A shorter trip: the rest of the unit interval, stretched to all of it.
        let u = (u - long.share_20) / (1.0 - long.share_20);
        if u < ZERO_SHARE {
            return Distance {
                hundredths: 0,
                driven: 1.0 + 4.0 * rng.unit(),
            };
        }
        let miles = self.body.value((u - ZERO_SHARE) / (1.0 - ZERO_SHARE));
        let step = if coarse { 10.0 } else { 1.0 };
        let hundredths = (miles * 100.0 / step + 0.5).floor() * step;
        let hundredths = if hundredths < 2000.0 { hundredths } else { 2000.0 - step };
        let distance = Distance {
            hundredths: hundredths as i64,
            driven: miles,
        };
        dirty(distance, rng)
    }
}

fn long_distance(long: LongTrips, coarse: bool, rng: &mut Rng) -> Distance {
    let miles = if rng.chance(long.far) {
        30.0 + rng.exponential() / FAR_RATE
    } else {
        20.0 + rng.exponential() / TAIL_RATE
    };
    let step = if coarse { 10.0 } else { 1.0 };
    Distance {
        hundredths: ((miles * 100.0 / step).floor() * step) as i64,
        driven: miles,
    }
}

/// Replaces a few distances by errors.
fn dirty(distance: Distance, rng: &mut Rng) -> Distance {
    let u = rng.unit();
    if u >= NEGATIVE_SHARE + ABSURD_SHARE + ABSURD_NEGATIVE_SHARE {
        return distance;
    }
    let hundredths = if u < ABSURD_NEGATIVE_SHARE {
        -absurd(ABSURD_MILES.0, ABSURD_NEGATIVE_MILES, rng)
    } else if u < ABSURD_NEGATIVE_SHARE + ABSURD_SHARE {
        absurd(ABSURD_MILES.0, ABSURD_MILES.1, rng)
    } else {
        -distance.hundredths.max(1)
    };
    Distance { hundredths, ..distance }
}

/// A distance between `low` and `high` miles, in hundredths. Each order of magnitude is about equally likely: small
/// distances repeat, the largest are rare.
fn absurd(low: f64, high: f64, rng: &mut Rng) -> i64 {
    let mut limit = high;
    while limit > low * 10.0 && rng.chance(0.75) {
        limit /= 10.0;
    }
    ((low + (limit - low) * rng.unit()) * 100.0) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_distances_stay_within_the_recorded_extremes() {
        let mut rng = Rng::new(5, 0, 0);
        for _ in 0..10_000 {
            let hundredths = absurd(ABSURD_MILES.0, ABSURD_MILES.1, &mut rng);
            assert!((100_000..=13_461_906_300).contains(&hundredths));
        }
    }

    #[test]
    fn far_share_makes_up_the_years_share_of_thirty_miles() {
        let distances = DistanceModel::new();
        let noon = Hour {
            start_s: 0,
            weekday: 3,
            hour: 13,
        };
        let mut rng = Rng::new(5, 0, 0);
        let mut long = distances.long_trips(2021, noon, true, &mut rng);
        long.share_20 = 1.0;
        let far = (0..100_000).filter(|_| distances.draw(long, false, &mut rng).hundredths >= 3000);
        let share = far.count() as f64 / 1e5;
        assert!((share - 0.112).abs() < 0.005, "{share}");
    }
}
