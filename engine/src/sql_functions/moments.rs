//! `skewness`, `kurtosis` and `kurtosis_pop`, by central moments.
//!
//! Moments of parts are joined by the formulas of Pébay (2008), which subtract no large sums of powers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, TypeSignature, Volatility};
use datafusion::scalar::ScalarValue;

/// Which figure is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Figure {
    /// Of a sample: `sqrt(n (n - 1)) / (n - 2) · m3 / m2^1.5`.
    Skewness,
    /// In excess of a normal distribution's, of a sample.
    Kurtosis,
    /// In excess of a normal distribution's: `m4 / m2² - 3`.
    PopulationKurtosis,
}

/// The functions.
pub(super) fn functions() -> Vec<AggregateUDF> {
    let named = [
        ("skewness", Figure::Skewness),
        ("kurtosis", Figure::Kurtosis),
        ("kurtosis_pop", Figure::PopulationKurtosis),
    ];
    let signature = Signature::new(TypeSignature::Exact(vec![DataType::Float64]), Volatility::Immutable);
    let function = |(name, figure)| {
        AggregateUDF::new_from_impl(MomentFunction {
            name,
            figure,
            signature: signature.clone(),
        })
    };
    named.into_iter().map(function).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MomentFunction {
    name: &'static str,
    figure: Figure,
    signature: Signature,
}

impl AggregateUDFImpl for MomentFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let (figure, moments) = (self.figure, Moments::default());
        Ok(Box::new(MomentState { figure, moments }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |name: &&str| Field::new(format_state_name(args.name, name), DataType::Float64, false);
        Ok(["n", "mean", "m2", "m3", "m4"]
            .iter()
            .map(field)
            .map(Arc::new)
            .collect())
    }
}

/// The number of values, their mean, and the sums of the powers of their distances from it.
#[derive(Debug, Default, Clone, Copy)]
struct Moments {
    n: f64,
    mean: f64,
    m2: f64,
    m3: f64,
    m4: f64,
}

impl Moments {
    fn of(value: f64) -> Self {
        Self {
            n: 1.0,
            mean: value,
            ..Self::default()
        }
    }

    /// Of the values of both.
    fn with(self, other: Self) -> Self {
        if self.n == 0.0 || other.n == 0.0 {
            return if self.n == 0.0 { other } else { self };
        }
        let (a, b, n) = (self.n, other.n, self.n + other.n);
        let distance = other.mean - self.mean;
        let share = distance / n;
        let square = distance * share * a * b;
        Self {
            n,
            mean: self.mean + share * b,
            m2: self.m2 + other.m2 + square,
            m3: self.m3 + other.m3 + square * share * (a - b) + 3.0 * share * (a * other.m2 - b * self.m2),
            m4: self.m4
                + other.m4
                + square * share * share * (a * a - a * b + b * b)
                + 6.0 * share * share * (a * a * other.m2 + b * b * self.m2)
                + 4.0 * share * (a * other.m3 - b * self.m3),
        }
    }
}

#[derive(Debug)]
struct MomentState {
    figure: Figure,
    moments: Moments,
}

impl Accumulator for MomentState {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Float64Type>();
        for value in values.iter().flatten() {
            self.moments = self.moments.with(Moments::of(value));
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Moments { n, m2, m3, m4, .. } = self.moments;
        let least = match self.figure {
            Figure::Skewness => 3.0,
            Figure::Kurtosis => 4.0,
            Figure::PopulationKurtosis => 2.0,
        };
        let figure = (n >= least).then(|| match self.figure {
            Figure::Skewness => (n * (n - 1.0)).sqrt() / (n - 2.0) * (m3 / n) / (m2 / n).powf(1.5),
            Figure::Kurtosis => {
                let ratio = n * m4 / (m2 * m2);
                (n - 1.0) / ((n - 2.0) * (n - 3.0)) * ((n + 1.0) * ratio - 3.0 * (n - 1.0))
            }
            Figure::PopulationKurtosis => n * m4 / (m2 * m2) - 3.0,
        });
        Ok(ScalarValue::Float64(figure))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Moments { n, mean, m2, m3, m4 } = self.moments;
        Ok([n, mean, m2, m3, m4].map(ScalarValue::from).to_vec())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let parts: Vec<_> = states.iter().map(|part| part.as_primitive::<Float64Type>()).collect();
        let [n, mean, m2, m3, m4] = parts.as_slice() else {
            return internal_err!("a state of five moments has {} columns", states.len());
        };
        for row in 0..n.len() {
            self.moments = self.moments.with(Moments {
                n: n.value(row),
                mean: mean.value(row),
                m2: m2.value(row),
                m3: m3.value(row),
                m4: m4.value(row),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of integers are exact, so the moments of parts are those of all values to the last digits.
    #[test]
    fn moments_of_parts_are_those_of_all_values() {
        let values: Vec<f64> = (0..60).map(|n| f64::from(n * n % 17)).collect();
        let mean = values.iter().sum::<f64>() / 60.0;
        let power = |exponent| values.iter().map(|value| (value - mean).powi(exponent)).sum::<f64>();
        for part in [1, 7, 30, 59] {
            let sum = |values: &[f64]| {
                values
                    .iter()
                    .fold(Moments::default(), |sum, &value| sum.with(Moments::of(value)))
            };
            let found = sum(&values[..part]).with(sum(&values[part..]));
            for (found, expected) in [
                (found.mean, mean),
                (found.m2, power(2)),
                (found.m3, power(3)),
                (found.m4, power(4)),
            ] {
                assert!(
                    (found - expected).abs() <= 1e-9 * expected.abs().max(1.0),
                    "{part}: {found} {expected}"
                );
            }
        }
    }
}
