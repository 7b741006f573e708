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
        let value = integer(value, ty);
        all &= stored.holds(value);
        out.copy_from_slice(&value.to_le_bytes()[..bytes]);
    }
    all
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
        let codes: Vec<u8> = [u32::MAX, 1].iter().flat_map(|code| code.to_le_bytes()).collect();
        let narrow = Stored::narrowest(Type::Code, 0, 9);
        assert!(!store(&codes, Type::Code, narrow, &mut [0; 2]));
        assert!(store(&codes, Type::Code, Stored::of(Type::Code), &mut [0; 8]));
    }
}
