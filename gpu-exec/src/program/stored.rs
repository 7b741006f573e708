//! `Stored`: the layout of a column's values in memory.

use super::Type;

/// Layout of a column's values in memory: their type's, or that of a narrower integer which holds all of them.
///
/// Kernels are compiled for one layout of each column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stored {
    bytes: u32,
    is_signed: bool,
    /// Bytes of the floats that the integers stand for. 0: they stand for none.
    float_bytes: u32,
}

impl Stored {
    /// The layout of a type.
    pub fn of(ty: Type) -> Self {
        Self {
            bytes: ty.width(),
            is_signed: !matches!(ty, Type::Bool | Type::Code),
            float_bytes: 0,
        }
    }

    /// The narrowest layout for values of a type from `least` to `greatest`. Integers, dates, decimals (unscaled) and
    /// codes have narrower layouts than their type's, and so have floats that are whole numbers and not -0. Unsigned
    /// ones come first: to extend a sign takes kernels longer.
    pub fn narrowest(ty: Type, least: i64, greatest: i64) -> Self {
        let whole = Self::of(ty);
        let (most_bytes, float_bytes) = match ty {
            Type::Int16 | Type::Int32 | Type::Int64 | Type::Date32 | Type::Decimal { .. } | Type::Code => (4, 0),
            Type::Float32 | Type::Float64 => (2, whole.bytes),
            Type::Bool | Type::Int8 | Type::Timestamp(_) => (0, 0),
        };
        let layouts = [1, 2, 4].into_iter().flat_map(|bytes| {
            let layout = |is_signed| Self {
                bytes,
                is_signed,
                float_bytes,
            };
            [layout(false), layout(true)]
        });
        let mut narrower = layouts.filter(|layout| layout.bytes <= most_bytes && layout.bytes < whole.bytes);
        let holds = |layout: &Self| layout.holds(least) && layout.holds(greatest);
        narrower.find(holds).unwrap_or(whole)
    }

    /// The narrowest layout for the values of both.
    pub(crate) fn join(self, other: Self, ty: Type) -> Self {
        let ((a, b), (c, d)) = (self.bounds(), other.bounds());
        Self::narrowest(ty, a.min(c), b.max(d))
    }

    /// The next wider layout of a type; `None`: this is the type's.
    pub(crate) fn wider(self, ty: Type) -> Option<Self> {
        let (least, greatest) = self.bounds();
        let wider = if self.is_signed {
            Self::narrowest(ty, least.saturating_sub(1), greatest)
        } else {
            Self::narrowest(ty, least, greatest.saturating_add(1))
        };
        (self != Self::of(ty)).then_some(wider)
    }

    /// Bytes of a value.
    pub fn bytes(self) -> u32 {
        self.bytes
    }

    /// Whether the highest bit is a sign.
    pub fn is_signed(self) -> bool {
        self.is_signed
    }

    /// Bytes of the floats that the integers stand for; `None`: they stand for none.
    pub(crate) fn float_bytes(self) -> Option<u32> {
        (self.float_bytes > 0).then_some(self.float_bytes)
    }

    /// Bytes of a value that lies raw in a file.
    pub(crate) fn raw_bytes(self) -> u32 {
        self.float_bytes().unwrap_or(self.bytes)
    }

    /// Bytes of a value, if values that lie raw in files are the same bytes in memory.
    pub(crate) fn straight_bytes(self) -> Option<u32> {
        self.float_bytes().is_none().then_some(self.bytes)
    }

    /// Whether the layout holds a value.
    pub fn holds(self, value: i64) -> bool {
        let (least, greatest) = self.bounds();
        (least..=greatest).contains(&value)
    }

    /// The least and the greatest value.
    fn bounds(self) -> (i64, i64) {
        let bits = 8 * self.bytes;
        match (self.is_signed, bits) {
            (_, 64..) => (i64::MIN, i64::MAX),
            (true, _) => (-1 << (bits - 1), (1 << (bits - 1)) - 1),
            (false, _) => (0, (1 << bits) - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrowest_layout_holds_both_bounds() {
        let of = |ty, least, greatest| {
            let stored = Stored::narrowest(ty, least, greatest);
            (stored.bytes(), stored.is_signed())
        };
        assert_eq!(of(Type::Int64, 0, 255), (1, false));
        assert_eq!(of(Type::Int64, -1, 127), (1, true));
        assert_eq!(of(Type::Int64, -1, 128), (2, true));
        assert_eq!(of(Type::Date32, 0, 20_000), (2, false));
        assert_eq!(of(Type::Int32, 0, 65_536), (4, true), "the type's own");
        assert_eq!(of(Type::Int64, 0, 1 << 31), (4, false));
        assert_eq!(of(Type::Int64, -1, 1 << 31), (8, true));
        assert_eq!(of(Type::Code, 0, 65_535), (2, false));
        assert_eq!(of(Type::Float64, 0, 6), (1, false));
        assert_eq!(of(Type::Float64, -1, 30_000), (2, true));
        assert_eq!(of(Type::Float64, 0, 65_536), (8, true), "the type's own");
        assert_eq!(of(Type::Float32, 0, 1000), (2, false));
        assert_eq!(
            of(Type::Timestamp(crate::program::TimeUnit::Nanosecond), 0, 1),
            (8, true)
        );
    }

    #[test]
    fn layouts_widen_to_their_type() {
        let mut layout = Stored::narrowest(Type::Int64, -1, 1);
        let mut bytes = vec![layout.bytes()];
        while let Some(wider) = layout.wider(Type::Int64) {
            layout = wider;
            bytes.push(layout.bytes());
        }
        assert_eq!(bytes, [1, 2, 4, 8]);
        let (small, negative) = (
            Stored::narrowest(Type::Int64, 0, 255),
            Stored::narrowest(Type::Int64, -1, 1),
        );
        let both = small.join(negative, Type::Int64);
        assert!(both.bytes() == 2 && both.holds(-128) && both.holds(255));
        assert_eq!(Stored::of(Type::Code).wider(Type::Code), None);
        let whole = Stored::narrowest(Type::Float64, 0, 6);
        assert_eq!((whole.float_bytes(), small.float_bytes()), (Some(8), None));
        let own = Stored::of(Type::Float64);
        assert_eq!(whole.join(own, Type::Float64), own);
    }
}
