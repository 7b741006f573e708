//! Decimals as text, as statistics and bloom filters hold them.

/// An unscaled decimal as text: "-12.50" for -1250 at scale 2.
pub(crate) fn decimal_text(unscaled: i128, scale: usize) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let point = if scale > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{fraction}")
}

/// The same without zeros at the end of the fraction: "-12.5". The text does not depend on the scale.
pub(crate) fn shortest_decimal_text(mut unscaled: i128, mut scale: usize) -> String {
    while scale > 0 && unscaled % 10 == 0 {
        unscaled /= 10;
        scale -= 1;
    }
    decimal_text(unscaled, scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_digits_of_the_scale_or_the_fewest() {
        for (unscaled, scale, full, shortest) in [
            (-1250, 2, "-12.50", "-12.5"),
            (0, 3, "0.000", "0"),
            (5, 3, "0.005", "0.005"),
            (-100, 2, "-1.00", "-1"),
            (100, 0, "100", "100"),
            (
                i128::MIN,
                0,
                "-170141183460469231731687303715884105728",
                "-170141183460469231731687303715884105728",
            ),
        ] {
            assert_eq!(decimal_text(unscaled, scale), full);
            assert_eq!(shortest_decimal_text(unscaled, scale), shortest);
        }
    }
}
