//! The 51 columns of the "1.1 billion taxi rides" table: trips in that table's types and changing spellings, with
//! weather and census areas.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int16Array, Int32Array, StringArray, StringBuilder, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::arrays::{cab_type, doubles, ehail_fee, nulls, stored_flag, timestamps};
use super::calendar::RUN_ROWS;
use super::rng::Rng;
use super::trips::Trips;
use super::zones::{BOROUGHS, ZONES, Zone};

/// Purposes of the random numbers drawn here (see [`Rng::new`]).
const WEATHER: u64 = 2;
const FROM: u64 = 3;
const TO: u64 = 4;

/// Census tracts per zone.
const TRACTS: usize = 20;

/// Coordinates were published until the end of June 2016.
const LAST_COORDINATES_S: i64 = 1_467_331_200;

/// Names and types, in file order.
pub(super) fn schema() -> SchemaRef {
    let timestamp = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let mut fields = vec![
        ("trip_id", DataType::Int32),
        ("vendor_id", DataType::Utf8),
        ("pickup_datetime", timestamp.clone()),
        ("dropoff_datetime", timestamp),
        ("store_and_fwd_flag", DataType::Utf8),
        ("rate_code_id", DataType::Int16),
        ("pickup_longitude", DataType::Float64),
        ("pickup_latitude", DataType::Float64),
        ("dropoff_longitude", DataType::Float64),
        ("dropoff_latitude", DataType::Float64),
        ("passenger_count", DataType::Int16),
        ("trip_distance", DataType::Float64),
        ("fare_amount", DataType::Float64),
        ("extra", DataType::Float64),
        ("mta_tax", DataType::Float64),
        ("tip_amount", DataType::Float64),
        ("tolls_amount", DataType::Float64),
        ("ehail_fee", DataType::Float64),
        ("improvement_surcharge", DataType::Float64),
        ("total_amount", DataType::Float64),
        ("payment_type", DataType::Utf8),
        ("trip_type", DataType::Int16),
        ("pickup", DataType::Utf8),
        ("dropoff", DataType::Utf8),
        ("cab_type", DataType::Utf8),
        ("precipitation", DataType::Int16),
        ("snow_depth", DataType::Int16),
        ("snowfall", DataType::Int16),
        ("max_temperature", DataType::Int16),
        ("min_temperature", DataType::Int16),
        ("average_wind_speed", DataType::Int16),
    ]
    .into_iter()
    .map(|(name, data_type)| Field::new(name, data_type, true))
    .collect::<Vec<_>>();
    for end in ["pickup", "dropoff"] {
        for (name, data_type) in [
            ("nyct2010_gid", DataType::Int16),
            ("ctlabel", DataType::Utf8),
            ("borocode", DataType::Int16),
            ("boroname", DataType::Utf8),
            ("ct2010", DataType::Utf8),
            ("boroct2010", DataType::Utf8),
            ("cdeligibil", DataType::Utf8),
            ("ntacode", DataType::Utf8),
            ("ntaname", DataType::Utf8),
            ("puma", DataType::Utf8),
        ] {
            fields.push(Field::new(format!("{end}_{name}"), data_type, true));
        }
    }
    Arc::new(Schema::new(fields))
}

/// The columns of these trips, whose runs were drawn with `seed`.
pub(super) fn arrays(seed: u64, trips: Trips) -> Vec<ArrayRef> {
    let rows = trips.len();
    let from = places(seed, FROM, &trips);
    let to = places(seed, TO, &trips);
    let reported = nulls(&trips.complete);
    let improvement = nulls(&trips.year.iter().map(|&y| y >= 2015).collect::<Vec<_>>());
    let small = |values: &[u8]| -> ArrayRef {
        let values = values.iter().map(|&v| i16::from(v)).collect::<Vec<_>>();
        Arc::new(Int16Array::new(values.into(), reported.clone()))
    };
    let mut arrays: Vec<ArrayRef> = vec![
        Arc::new(
            trips
                .row
                .iter()
                .map(|&row| Some(row as i32 + 1))
                .collect::<Int32Array>(),
        ),
        strings(rows, |i| {
            trips.complete[i].then(|| vendor_id(trips.year[i], trips.vendor[i]))
        }),
        timestamps(&trips.pickup_s),
        timestamps(&trips.dropoff_s),
        stored_flag(&trips.stored, &trips.complete),
        small(&trips.rate_code),
        coordinates(&trips, &from, |zone, place| zone.longitude + place.longitude),
        coordinates(&trips, &from, |zone, place| zone.latitude + place.latitude),
        coordinates(&trips, &to, |zone, place| zone.longitude + place.longitude),
        coordinates(&trips, &to, |zone, place| zone.latitude + place.latitude),
        small(&trips.passengers),
    ];
    let payment = strings(rows, |i| {
        trips.complete[i].then(|| payment_type(trips.year[i], trips.payment[i]))
    });
    let cabs = strings(rows, |i| Some(cab_type(trips.green[i])));
    let trip_type: Int16Array = (0..rows)
        .map(|i| (trips.green[i] && trips.complete[i]).then_some(1 + i16::from(trips.rate_code[i] == 5)))
        .collect();
    let weather = weather(seed, &trips.pickup_s);
    arrays.extend([
        doubles(trips.trip_distance, None),
        doubles(trips.fare_amount, None),
        doubles(trips.extra, None),
        doubles(trips.mta_tax, None),
        doubles(trips.tip_amount, None),
        doubles(trips.tolls_amount, None),
        ehail_fee(&trips.has_ehail_fee),
        doubles(trips.improvement_surcharge, improvement),
        doubles(trips.total_amount, None),
        payment,
        Arc::new(trip_type),
        // The published exports leave the two geometries empty.
        new_null_array(&DataType::Utf8, rows),
        new_null_array(&DataType::Utf8, rows),
        cabs,
    ]);
    arrays.extend(weather);
    arrays.extend(census(&from));
    arrays.extend(census(&to));
    arrays
}

fn strings<'a>(rows: usize, value: impl Fn(usize) -> Option<&'a str>) -> ArrayRef {
    Arc::new((0..rows).map(value).collect::<StringArray>())
}

/// The spelling of the vendor in the year's files.
fn vendor_id(year: i32, vendor: u8) -> &'static str {
    match (year, vendor) {
        (..2015, 1) => "CMT",
        (..2015, _) => "VTS",
        (_, 1) => "1",
        (_, 4) => "4",
        _ => "2",
    }
}

/// The spelling of the payment type in the year's files.
fn payment_type(year: i32, payment: u8) -> &'static str {
    let spellings = match year {
        ..2010 => ["Credit", "Cash", "No Charge", "Dispute"],
        2010..2015 => ["CRD", "CSH", "NOC", "DIS"],
        _ => ["1", "2", "3", "4"],
    };
    spellings[usize::from(payment.clamp(1, 4)) - 1]
}

/// The pickup or the dropoff of a trip.
struct Place {
    /// `zone · TRACTS + tract`; `None` if the position was lost.
    tract: Option<u16>,
    /// Millionths of a degree from the zone's centre.
    longitude: i32,
    latitude: i32,
}

impl Place {
    fn zone(&self) -> Option<&'static Zone> {
        self.tract.map(zone_of)
    }
}

/// The pickups or the dropoffs of trips. Each run has its own random numbers.
fn places(seed: u64, purpose: u64, trips: &Trips) -> Vec<Place> {
    let by_weight = zones_by_weight();
    let mut rng = Rng::new(seed, purpose, 0);
    let mut places = Vec::with_capacity(trips.len());
    for &row in &trips.row {
        if row % RUN_ROWS == 0 {
            rng = Rng::new(seed, purpose, row / RUN_ROWS);
        }
        let bits = rng.bits();
        let zone = by_weight[((bits >> 32) % 1000) as usize];
        // The smaller of two draws: a zone's first tracts are its busy ones.
        let tract = ((bits >> 8) & 0xFF).min((bits >> 16) & 0xFF) as usize * TRACTS / 256;
        let offset = rng.bits();
        places.push(Place {
            tract: (bits & 0x3F != 0).then_some(zone * TRACTS as u16 + tract as u16),
            longitude: (offset % 20_000) as i32 - 10_000,
            latitude: ((offset >> 32) % 20_000) as i32 - 10_000,
        });
    }
    places
}

/// The zone of each per mille of the trips.
fn zones_by_weight() -> [u16; 1000] {
    let mut zones = [0; 1000];
    let mut next = 0;
    for (index, zone) in ZONES.iter().enumerate() {
        let end = (next + zone.weight as usize).min(zones.len());
        zones[next..end].fill(index as u16);
        next = end;
    }
    zones
}

fn zone_of(tract: u16) -> &'static Zone {
    &ZONES[usize::from(tract) / TRACTS]
}

/// Degrees with six decimals; 0 if the receiver had no position; NULL after June 2016.
fn coordinates(trips: &Trips, places: &[Place], millionths: impl Fn(&Zone, &Place) -> i32) -> ArrayRef {
    let values = trips.pickup_s.iter().zip(places).map(|(&pickup_s, place)| {
        let known = pickup_s < LAST_COORDINATES_S;
        known.then(|| {
            place
                .zone()
                .map_or(0.0, |zone| f64::from(millionths(zone, place)) / 1e6)
        })
    });
    Arc::new(values.collect::<Float64Array>())
}

/// The spellings of a census tract.
struct Tract {
    label: String,
    ct2010: String,
    boroct2010: String,
    eligible: &'static str,
}

fn tracts() -> Vec<Tract> {
    (0..ZONES.len() * TRACTS)
        .map(|place| {
            let number = 1 + (place * 7) % 1_500;
            // Every fourth tract was never divided.
            let part = place % 4;
            Tract {
                label: match part {
                    0 => number.to_string(),
                    _ => format!("{number}.{part:02}"),
                },
                ct2010: format!("{number:04}{part:02}"),
                boroct2010: format!("{}{number:04}{part:02}", ZONES[place / TRACTS].borough),
                eligible: if place % 3 == 0 { "E" } else { "I" },
            }
        })
        .collect()
}

/// The ten census columns of pickups or dropoffs.
fn census(places: &[Place]) -> Vec<ArrayRef> {
    let tracts = tracts();
    let text = |value: &dyn Fn(u16) -> &'static str| -> ArrayRef {
        Arc::new(places.iter().map(|p| p.tract.map(value)).collect::<StringArray>())
    };
    let label = |value: &dyn Fn(&Tract) -> &str| -> ArrayRef {
        let mut builder = StringBuilder::with_capacity(places.len(), places.len() * 7);
        for place in places {
            builder.append_option(place.tract.map(|t| value(&tracts[usize::from(t)])));
        }
        Arc::new(builder.finish())
    };
    let number = |value: &dyn Fn(u16) -> i16| -> ArrayRef {
        Arc::new(places.iter().map(|p| p.tract.map(value)).collect::<Int16Array>())
    };
    vec![
        number(&|p| p as i16 + 1),
        label(&|t| &t.label),
        number(&|p| i16::from(zone_of(p).borough)),
        text(&|p| BOROUGHS[usize::from(zone_of(p).borough)]),
        label(&|t| &t.ct2010),
        label(&|t| &t.boroct2010),
        label(&|t| t.eligible),
        text(&|p| zone_of(p).code),
        text(&|p| zone_of(p).name),
        text(&|p| zone_of(p).puma),
    ]
}

/// Precipitation, snow depth and snowfall (hundredths of an inch), highest and lowest temperature (°F), wind (tenths of
/// a mile an hour). All trips of a day have the same weather.
fn weather(seed: u64, pickup_s: &[i64]) -> Vec<ArrayRef> {
    let mut columns: [Vec<i16>; 6] = Default::default();
    let mut known = (i64::MIN, [0; 6]);
    for &second in pickup_s {
        let day = second.div_euclid(86_400);
        if known.0 != day {
            known = (day, day_weather(seed, day));
        }
        for (column, value) in columns.iter_mut().zip(known.1) {
            column.push(value);
        }
    }
    let arrays = columns.into_iter().map(|c| Arc::new(Int16Array::from(c)) as ArrayRef);
    arrays.collect()
}

fn day_weather(seed: u64, day: i64) -> [i16; 6] {
    /// Mean highest temperature in twelfths of a year from January.
    const MEAN_HIGH: [i16; 12] = [39, 42, 50, 61, 71, 80, 85, 83, 76, 65, 54, 44];
    let mut rng = Rng::new(seed, WEATHER, day as u64);
    let mut draw = |below: u32| rng.below(below) as i16;
    let twelfth = ((day.rem_euclid(1461) * 48 / 1461) % 12) as usize;
    let high = MEAN_HIGH[twelfth] + draw(21) - 10;
    let wet = draw(10) < 3;
    let fall = if wet { draw(120) * draw(120) / 70 } else { 0 };
    let snow = if high < 38 { fall * 8 } else { 0 };
    let lying = if high < 42 && draw(3) == 0 { snow + draw(400) } else { 0 };
    [fall, lying, snow, high, high - 8 - draw(12), 20 + draw(90)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_is_the_published_tables() {
        let schema = schema();
        assert_eq!(schema.fields().len(), 51);
        let names: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        assert_eq!(names[11], "trip_distance");
        assert_eq!(
            names[19..26],
            [
                "total_amount",
                "payment_type",
                "trip_type",
                "pickup",
                "dropoff",
                "cab_type",
                "precipitation"
            ]
        );
        assert_eq!((names[31], names[50]), ("pickup_nyct2010_gid", "dropoff_puma"));
        let of_type = |t: &DataType| schema.fields().iter().filter(|f| f.data_type() == t).count();
        assert_eq!(of_type(&DataType::Int16), 13);
        assert_eq!(of_type(&DataType::Float64), 13);
    }

    #[test]
    fn summer_is_warmer_than_winter() {
        let mean = |from: i64| (from..from + 28).map(|d| f64::from(day_weather(1, d)[3])).sum::<f64>() / 28.0;
        // January and July 2015.
        assert!(
            mean(16_436) < 48.0 && mean(16_617) > 76.0,
            "{} {}",
            mean(16_436),
            mean(16_617)
        );
    }
}
