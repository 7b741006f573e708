//! Values that the CPU has decoded, in the layout that kernels read.

use crate::program::{Stored, Type};

/// Copies values of a type to `out`, in a layout. False: the layout does not hold one of them.
pub(crate) fn store(values: &[u8], ty: Type, stored: Stored, out: &mut [u8]) -> bool {
    if stored == Stored::of(ty) {
        out.copy_from_slice(values);
        return true;
    }
    let (width, bytes) = (ty.width() as usize, stored.bytes() as usize);
    let mut all = true;
    for (value, out) in values.chunks_exact(width).zip(out.chunks_exact_mut(bytes)) {
        let value = match stored.float_bytes() {
            None => Some(integer(value, ty)),
            Some(_) => whole_number(float(value)),
        };
        all &= value.is_some_and(|value| stored.holds(value));
        out.copy_from_slice(&value.unwrap_or(0).to_le_bytes()[..bytes]);
    }
    all
}

/// The whole number that a float is. `None`: it has a fraction, is -0 or no number, or beyond 32 bits.
pub(crate) fn whole_number(value: f64) -> Option<i64> {
    let whole = value as i32;
    (f64::from(whole).to_bits() == value.to_bits()).then_some(whole.into())
}

/// The float in four or eight bytes.
fn float(bytes: &[u8]) -> f64 {
    match (bytes.first_chunk(), bytes.first_chunk()) {
        (_, Some(bytes)) => f64::from_le_bytes(*bytes),
        (Some(bytes), None) => f32::from_le_bytes(*bytes).into(),
        (None, None) => f64::NAN,
    }
}

/// The integer in a value's bytes.
fn integer(bytes: &[u8], ty: Type) -> i64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let above = 64 - 8 * bytes.len() as u32;
    match Stored::of(ty).is_signed() {
        true => i64::from_le_bytes(word) << above >> above,
        false => i64::from_le_bytes(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_sign_and_must_fit() {
        let stored = |values: &[i32], least, greatest| {
            let stored = Stored::narrowest(Type::Int32, least, greatest);
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let mut out = vec![0; values.len() * stored.bytes() as usize];
            let all = store(&bytes, Type::Int32, stored, &mut out);
            (all, out)
        };
        assert_eq!(stored(&[-2, 0, 7], -2, 7), (true, vec![0xFE, 0, 7]));
        assert_eq!(stored(&[200, 0], 0, 200), (true, vec![200, 0]));
        assert_eq!(stored(&[300, 1], 0, 300), (true, vec![44, 1, 1, 0]));
        assert!(!stored(&[256], 0, 200).0);
        assert!(!stored(&[-1], 0, 200).0);
        let floats = |values: &[f32]| {
            let stored = Stored::narrowest(Type::Float32, -1, 100);
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let mut out = vec![0; values.len()];
            store(&bytes, Type::Float32, stored, &mut out).then_some(out)
        };
        assert_eq!(floats(&[-1.0, 100.0]), Some(vec![0xFF, 100]));
        for other in [0.5, -0.0, f32::NAN, f32::INFINITY, 128.0, 1e30] {
            assert_eq!(floats(&[1.0, other]), None, "{other}");
        }
        let doubles: Vec<u8> = [7.0f64, 0.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut out = [1; 4];
        assert!(store(
            &doubles,
            Type::Float64,
            Stored::narrowest(Type::Float64, 0, 300),
            &mut out
        ));
        assert_eq!(out, [7, 0, 0, 0]);
        let codes: Vec<u8> = [u32::MAX, 1].iter().flat_map(|code| code.to_le_bytes()).collect();
        let narrow = Stored::narrowest(Type::Code, 0, 9);
        assert!(!store(&codes, Type::Code, narrow, &mut [0; 2]));
        assert!(store(&codes, Type::Code, Stored::of(Type::Code), &mut [0; 8]));
    }
}
