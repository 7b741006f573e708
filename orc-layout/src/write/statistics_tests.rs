use super::*;
use crate::write::string_bound::MAX_BOUND_BYTES;

#[test]
fn double_bounds_exist_with_infinities_but_not_with_nan() {
    let mut double = DoubleStatistics::default();
    double.update(&[1.0, -2.5, f64::INFINITY, f64::NEG_INFINITY]);
    assert_eq!(double.to_proto().minimum, Some(f64::NEG_INFINITY));
    double.update(&[f32::NAN]);
    let stored = double.to_proto();
    assert_eq!((stored.minimum, stored.maximum), (None, None));
    assert!(stored.sum.unwrap().is_nan());
}

#[test]
fn zero_bounds_hold_both_zeros() {
    let mut double = DoubleStatistics::default();
    double.update(&[0.0, -0.0]);
    let stored = double.to_proto();
    assert!(stored.minimum.unwrap().is_sign_negative() && stored.maximum.unwrap().is_sign_positive());
}

#[test]
fn integer_sum_is_left_out_only_while_it_overflows() {
    let mut stripe = Statistics {
        typed: Typed::Integer { bounds: None, sum: 0 },
        ..Default::default()
    };
    let mut group = stripe.empty();
    group.integers(&[i64::MAX, i64::MAX]);
    assert_eq!(group.to_proto().int_statistics.unwrap().sum, None);
    stripe.merge(&group);
    let mut group = stripe.empty();
    group.integers(&[i64::MIN, i64::MIN]);
    stripe.merge(&group);
    let stored = stripe.to_proto().int_statistics.unwrap();
    assert_eq!(
        (stored.minimum, stored.maximum, stored.sum),
        (Some(i64::MIN), Some(i64::MAX), Some(-2))
    );
}

#[test]
fn long_strings_are_cut_to_bounds() {
    let mut statistics = Statistics {
        typed: Typed::String { bounds: None, total: 0 },
        ..Default::default()
    };
    let long = "é".repeat(1000);
    statistics.strings(&long, &long, 2000);
    let stored = statistics.to_proto().string_statistics.unwrap();
    assert_eq!((&stored.minimum, &stored.maximum), (&None, &None));
    let (lower, upper) = (stored.lower_bound.unwrap(), stored.upper_bound.unwrap());
    assert!(lower.len() <= MAX_BOUND_BYTES && upper.len() <= MAX_BOUND_BYTES);
    assert!(lower < long && long < upper);
    assert_eq!(Bound::upper(&"\u{10ffff}".repeat(300)).text.chars().count(), 300);
}

#[test]
fn decimal_text_has_the_columns_scale() {
    assert_eq!(decimal_text(-1250, 2), "-12.50");
    assert_eq!(decimal_text(7, 3), "0.007");
    assert_eq!(decimal_text(i128::MIN, 0), "-170141183460469231731687303715884105728");
}

#[test]
fn timestamps_before_1970_round_down() {
    let stored = timestamp_proto(Some(((-1, 999_999_999), (0, 1))));
    assert_eq!((stored.minimum_utc, stored.minimum_nanos), (Some(-1), Some(1_000_000)));
    assert_eq!((stored.maximum_utc, stored.maximum_nanos), (Some(0), Some(2)));
}
