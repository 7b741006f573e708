//! [`Quantiles`]: a distribution as a table of its quantiles.

/// A distribution. For uniform `u`, `value(u)` has the distribution that the anchors describe, linear between them.
pub(super) struct Quantiles(Vec<f64>);

impl Quantiles {
    const CELLS: usize = 2048;

    /// From (probability, value) anchors. Both numbers ascend; the probabilities begin at 0 and end at 1.
    pub(super) fn new(anchors: &[(f64, f64)]) -> Self {
        let mut table = Vec::with_capacity(Self::CELLS + 1);
        let mut next = 1;
        for cell in 0..=Self::CELLS {
            let p = cell as f64 / Self::CELLS as f64;
            while next + 1 < anchors.len() && anchors[next].0 < p {
                next += 1;
            }
            let ((p0, v0), (p1, v1)) = (anchors[next - 1], anchors[next]);
            table.push(v0 + (v1 - v0) * ((p - p0) / (p1 - p0)));
        }
        Self(table)
    }

    /// The value at probability `u` in [0, 1).
    pub(super) fn value(&self, u: f64) -> f64 {
        let x = u * Self::CELLS as f64;
        let cell = x as usize;
        let (low, high) = (self.0[cell], self.0[cell + 1]);
        low + (high - low) * (x - cell as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_pass_through_their_anchors() {
        let q = Quantiles::new(&[(0.0, 0.0), (0.25, 1.0), (0.5, 4.0), (1.0, 5.0)]);
        assert!((q.value(0.25) - 1.0).abs() < 1e-9);
        assert!((q.value(0.375) - 2.5).abs() < 1e-9);
        assert!((q.value(0.75) - 4.5).abs() < 1e-9);
    }
}
