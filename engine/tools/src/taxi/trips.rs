//! [`Trips`]: the columns that all column sets are made of, for a run of rows or several.

use super::amounts::Amounts;
use super::run_context::RunContext;

/// Columns of some trips.
///
/// **Invariant:** all vectors have the same length.
#[derive(Default)]
pub(super) struct Trips {
    /// Row number of each trip in the table.
    pub(super) row: Vec<u64>,
    /// Local times, seconds since 1970.
    pub(super) pickup_s: Vec<i64>,
    pub(super) dropoff_s: Vec<i64>,
    /// Year of the month that the trip was reported for. The clocks of some cabs differ.
    pub(super) year: Vec<i32>,
    pub(super) green: Vec<bool>,
    /// False if passengers, rate code, payment, flag and congestion surcharge were not reported.
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

/// A trip before its amounts and its distance become decimals.
pub(super) struct Trip {
    pub(super) pickup_s: i64,
    pub(super) dropoff_s: i64,
    pub(super) vendor: u8,
    pub(super) rate_code: u8,
    pub(super) passengers: u8,
    pub(super) payment: u8,
    pub(super) stored: bool,
    /// Hundredths of a mile.
    pub(super) distance: i64,
    pub(super) has_ehail_fee: bool,
    pub(super) amounts: Amounts,
}

impl Trips {
    pub(super) fn with_capacity(rows: usize) -> Self {
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

    /// The number of trips.
    pub(super) fn len(&self) -> usize {
        self.row.len()
    }

    /// Appends a trip.
    pub(super) fn push(&mut self, row: u64, context: &RunContext<'_>, trip: &Trip) {
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

fn dollars(cents: i64) -> f64 {
    cents as f64 / 100.0
}
