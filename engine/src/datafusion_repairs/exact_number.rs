//! [`ExactNumber`]: a number as written, with all its digits.

use arrow::datatypes::i256;

use super::place::Place;

/// Most digits of a number in arithmetic.
const MAX_DIGITS: usize = 76;
/// Largest exponent of ten that is read.
const MAX_EXPONENT: i64 = 100_000;

/// A finite decimal number: `digits` · 10^-`scale`.
///
/// **Invariant:** the first and the last digit are not zero. Zero has no digits and the scale 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExactNumber {
    is_negative: bool,
    /// ASCII digits.
    digits: String,
    scale: i64,
}

impl ExactNumber {
    /// Reads `-12.50`, `.5`, `1.` and `1.5e-3`. `None`: another text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (is_negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => (&unsigned[..at], unsigned[at + 1..].parse::<i64>().ok()?),
            None => (unsigned, 0),
        };
        if exponent.abs() > MAX_EXPONENT {
            return None;
        }
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let scale = i64::try_from(fraction.len()).ok()? - exponent;
        Some(Self::new(is_negative, &digits, scale))
    }

    /// The shortest number that a DOUBLE stands for; `None`: NaN or an infinity.
    pub(super) fn of_double(value: f64) -> Option<Self> {
        Self::parse(&format!("{value:e}"))
    }

    /// The shortest number that a FLOAT stands for; `None`: NaN or an infinity.
    pub(super) fn of_float(value: f32) -> Option<Self> {
        Self::parse(&format!("{value:e}"))
    }

    /// `mantissa` · 10^-`scale`.
    pub(super) fn of_decimal(mantissa: i256, scale: i64) -> Self {
        let text = mantissa.to_string();
        let digits = text.strip_prefix('-').unwrap_or(&text);
        Self::new(text.starts_with('-'), digits, scale)
    }

    fn new(is_negative: bool, digits: &str, scale: i64) -> Self {
        let significant = digits.trim_start_matches('0');
        let digits = significant.trim_end_matches('0');
        if digits.is_empty() {
            return Self {
                is_negative: false,
                digits: String::new(),
                scale: 0,
            };
        }
        Self {
            is_negative,
            digits: digits.to_owned(),
            // Both lengths are those of a text in memory.
            scale: scale - (significant.len() - digits.len()) as i64,
        }
    }

    #[must_use]
    pub(super) fn negated(mut self) -> Self {
        self.is_negative = !self.is_negative && !self.digits.is_empty();
        self
    }

    /// Where the number lies among the values of DECIMAL(`precision`, `scale`), which are mantissas.
    pub(super) fn place(&self, precision: u8, scale: i8) -> Place<i256> {
        let beyond = match self.is_negative {
            true => Place::Below,
            false => Place::Above,
        };
        let (mantissa, is_exact) = match self.cut(precision, scale) {
            Some(cut) => cut,
            None => return beyond,
        };
        match (is_exact, self.is_negative) {
            (true, _) => Place::Exact(mantissa),
            (false, false) if has_digits(mantissa, precision) => beyond,
            (false, false) => Place::Between(mantissa),
            (false, true) if has_digits(mantissa, precision) => beyond,
            (false, true) => Place::Between(mantissa.wrapping_sub(i256::ONE)),
        }
    }

    /// The mantissa with `scale` digits behind the point, rounded half away from zero; `None`: it has more than
    /// `precision` digits.
    pub(super) fn rounded(&self, precision: u8, scale: i8) -> Option<i256> {
        let (mantissa, is_exact) = self.cut(precision, scale)?;
        if is_exact {
            return Some(mantissa);
        }
        let kept = self.kept_digits(scale);
        // Fewer than no digits: the number is below a tenth of the last digit.
        let next = usize::try_from(kept).ok().and_then(|at| self.digits.as_bytes().get(at));
        if next.is_none_or(|&digit| digit < b'5') {
            return Some(mantissa);
        }
        let away = if self.is_negative { i256::MINUS_ONE } else { i256::ONE };
        let rounded = mantissa.wrapping_add(away);
        (digit_count(rounded) <= usize::from(precision)).then_some(rounded)
    }

    /// Digits of the number up to the place `scale` behind the point.
    fn kept_digits(&self, scale: i8) -> i64 {
        self.digits.len() as i64 - self.scale + i64::from(scale)
    }

    /// The mantissa with `scale` digits behind the point, cut towards zero, and whether nothing is cut. `None`: the
    /// mantissa has more than `precision` digits.
    fn cut(&self, precision: u8, scale: i8) -> Option<(i256, bool)> {
        let kept = self.kept_digits(scale);
        if self.digits.is_empty() {
            return Some((i256::ZERO, true));
        }
        if kept > i64::from(precision) {
            return None;
        }
        let kept = usize::try_from(kept.max(0)).ok()?;
        let is_exact = kept >= self.digits.len();
        let mut text = self.digits[..kept.min(self.digits.len())].to_owned();
        text.extend(std::iter::repeat_n('0', kept - text.len()));
        let mantissa = match text.is_empty() {
            true => i256::ZERO,
            false => i256::from_string(&text)?,
        };
        let signed = if self.is_negative {
            mantissa.wrapping_neg()
        } else {
            mantissa
        };
        Some((signed, is_exact))
    }

    fn mantissa(&self) -> Option<i256> {
        if self.digits.is_empty() {
            return Some(i256::ZERO);
        }
        let mantissa = i256::from_string(&self.digits).filter(|_| self.digits.len() <= MAX_DIGITS)?;
        Some(if self.is_negative {
            mantissa.wrapping_neg()
        } else {
            mantissa
        })
    }

    /// The mantissa at a larger scale.
    fn at_scale(&self, scale: i64) -> Option<i256> {
        let power = u32::try_from(scale - self.scale).ok()?;
        self.mantissa()?.checked_mul(i256::from(10).checked_pow(power)?)
    }

    /// The sum; `None`: it has too many digits.
    pub(super) fn plus(&self, other: &Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let sum = self.at_scale(scale)?.checked_add(other.at_scale(scale)?)?;
        Some(Self::of_decimal(sum, scale))
    }

    /// The product; `None`: it has too many digits.
    pub(super) fn times(&self, other: &Self) -> Option<Self> {
        let product = self.mantissa()?.checked_mul(other.mantissa()?)?;
        Some(Self::of_decimal(product, self.scale + other.scale))
    }

    /// The quotient, if it has an end; `None`: it has none, has too many digits, or `other` is zero.
    pub(super) fn over(&self, other: &Self) -> Option<Self> {
        let divisor = other.mantissa().filter(|&divisor| divisor != i256::ZERO)?;
        let mut dividend = self.mantissa()?;
        let mut scale = self.scale - other.scale;
        while dividend.checked_rem(divisor)? != i256::ZERO {
            dividend = dividend.checked_mul(i256::from(10))?;
            scale += 1;
        }
        Some(Self::of_decimal(dividend.checked_div(divisor)?, scale))
    }

    /// Digits in front of the point and behind it.
    pub(super) fn widths(&self) -> (i64, i64) {
        let before = self.digits.len() as i64 - self.scale;
        (before.max(0), self.scale.max(0))
    }
}

/// Whether a mantissa of at most `precision` digits has only nines: its successor does not fit.
fn has_digits(mantissa: i256, precision: u8) -> bool {
    let text = mantissa.to_string();
    let digits = text.strip_prefix('-').unwrap_or(&text);
    digits.len() == usize::from(precision) && digits.bytes().all(|digit| digit == b'9')
}

fn digit_count(mantissa: i256) -> usize {
    mantissa.to_string().trim_start_matches('-').len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> ExactNumber {
        ExactNumber::parse(text).expect(text)
    }

    #[test]
    fn texts_are_numbers_as_written() {
        assert_eq!(number("12.50"), number("125e-1"));
        assert_eq!(number("1.5E+3"), number("1500"));
        assert_eq!(number("-.5"), number("-0.50"));
        assert_eq!(number("-0.0"), number("0"));
        assert_eq!(ExactNumber::of_double(0.1), Some(number("0.1")));
        assert_eq!(ExactNumber::of_double(1e300), Some(number("1e300")));
        assert_ne!(number("0.1000000000000000000001"), number("0.1"));
        for text in [
            "",
            ".",
            "-",
            "1e",
            "a",
            "1.2.3",
            "0x1",
            "1_0",
            "NaN",
            "inf",
            "1e999999999",
        ] {
            assert_eq!(ExactNumber::parse(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_have_a_place_among_decimals() {
        let place = |text: &str| number(text).place(4, 2);
        let at = i256::from;
        assert_eq!(place("1.5"), Place::Exact(at(150)));
        assert_eq!(place("0"), Place::Exact(at(0)));
        assert_eq!(place("-99.99"), Place::Exact(at(-9999)));
        assert_eq!(place("1.005"), Place::Between(at(100)));
        assert_eq!(place("-1.005"), Place::Between(at(-101)));
        assert_eq!(place("0.0001"), Place::Between(at(0)));
        assert_eq!(place("-1e-300"), Place::Between(at(-1)));
        assert_eq!(place("99.991"), Place::Above);
        assert_eq!(place("100"), Place::Above);
        assert_eq!(place("-99.991"), Place::Below);
        assert_eq!(place("-1e300"), Place::Below);
        assert_eq!(number("1250").place(3, -1), Place::Exact(at(125)));
        assert_eq!(number("1255").place(3, -1), Place::Between(at(125)));
    }

    #[test]
    fn numbers_are_rounded_half_away_from_zero() {
        let rounded = |text: &str| number(text).rounded(4, 2);
        assert_eq!(rounded("1.005"), Some(i256::from(101)));
        assert_eq!(rounded("-1.005"), Some(i256::from(-101)));
        assert_eq!(rounded("1.0049999999999999999"), Some(i256::from(100)));
        assert_eq!(rounded("0.005"), Some(i256::from(1)));
        assert_eq!(rounded("0.0009"), Some(i256::ZERO));
        assert_eq!(rounded("99.995"), None);
        assert_eq!(rounded("1e9"), None);
    }

    #[test]
    fn arithmetic_keeps_all_digits() {
        assert_eq!(number("0.06").plus(&number("-0.01")), Some(number("0.05")));
        assert_eq!(
            number("1e20").plus(&number("1e-20")),
            Some(number("100000000000000000000.00000000000000000001"))
        );
        assert_eq!(number("1.1").times(&number("1.1")), Some(number("1.21")));
        assert_eq!(number("1").over(&number("8")), Some(number("0.125")));
        assert_eq!(number("1").over(&number("3")), None);
        assert_eq!(number("1").over(&number("0")), None);
    }
}
