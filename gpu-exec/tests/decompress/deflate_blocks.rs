//! Deflate chunks that no compressor emits: blocks of every kind, codes of any lengths, symbols at random.

use crate::common::random::Random;

/// Bits, the lowest one of a byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    /// The lowest bits of a number, the lowest first.
    fn put(&mut self, value: u32, count: u32) {
        for bit in 0..count {
            if self.count.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let last = self.bytes.len() - 1;
            self.bytes[last] |= ((value >> bit & 1) as u8) << (self.count % 8);
            self.count += 1;
        }
    }

    fn align(&mut self) {
        self.count = self.bytes.len() * 8;
    }
}

/// A prefix code: for each symbol its bits, the first one highest, and how many. None: without a code.
struct Code(Vec<(u32, u32)>);

impl Code {
    /// The code of these lengths (RFC 1951, section 3.2.2).
    fn of(lengths: &[u32]) -> Self {
        let mut codes = vec![(0, 0); lengths.len()];
        let mut next = 0;
        for length in 1..=15 {
            for (symbol, _) in lengths.iter().enumerate().filter(|(_, of)| **of == length) {
                codes[symbol] = (next, length);
                next += 1;
            }
            next <<= 1;
        }
        Self(codes)
    }

    fn put(&self, symbol: usize, out: &mut Bits) {
        let (code, length) = self.0[symbol];
        assert!(length > 0, "symbol {symbol} has a code");
        (0..length).rev().for_each(|bit| out.put(code >> bit & 1, 1));
    }
}

/// Lengths of a complete code for `used` of the symbols, of at most `most` bits: leaves of a tree, of which one after
/// the other is divided. Few are divided often.
fn lengths(random: &mut Random, symbols: usize, used: &[usize], most: u32) -> Vec<u32> {
    let mut out = vec![0; symbols];
    let mut leaves = vec![1, 1];
    while leaves.len() < used.len() {
        let near = if random.below(2) == 0 { 1 } else { leaves.len() as u64 };
        let at = random.below(near) as usize;
        if leaves[at] < most {
            leaves[at] += 1;
            leaves.push(leaves[at]);
        } else {
            let other = leaves.iter().position(|of| *of < most).expect("there is space");
            leaves[other] += 1;
            leaves.push(leaves[other]);
        }
    }
    // With fewer symbols than two the code has a single one, or none.
    for (symbol, length) in used.iter().zip(leaves) {
        out[*symbol] = length;
    }
    out
}

/// A symbol's first value and further bits, and its number: of a copy's length and of its distance.
fn length_symbol(length: usize) -> (usize, u32, u32) {
    let (symbol, base, further) = (257..286)
        .rev()
        .map(|symbol: usize| match symbol {
            285 => (285, 258, 0),
            257..265 => (symbol, symbol - 254, 0),
            _ => {
                let further = (symbol - 261) / 4;
                (symbol, ((4 + (symbol - 261) % 4) << further) + 3, further)
            }
        })
        .find(|(_, base, _)| *base <= length)
        .expect("a length of at least 3");
    (symbol, (length - base) as u32, further as u32)
}

fn distance_symbol(distance: usize) -> (usize, u32, u32) {
    let (symbol, base, further) = (0..30)
        .rev()
        .map(|symbol: usize| match symbol {
            0..4 => (symbol, symbol + 1, 0),
            _ => (symbol, ((2 + symbol % 2) << (symbol / 2 - 1)) + 1, symbol / 2 - 1),
        })
        .find(|(_, base, _)| *base <= distance)
        .expect("a distance of at least 1");
    (symbol, (distance - base) as u32, further as u32)
}

/// A literal byte, or a copy's length and distance.
#[derive(Clone, Copy)]
enum Token {
    Literal(u8),
    Copy(usize, usize),
}

fn tokens(random: &mut Random, mut at: usize, target: usize) -> (Vec<Token>, usize) {
    let (few, copies) = (1 + random.below(255), random.below(4));
    let mut out = Vec::new();
    while at < target {
        if at == 0 || random.below(4) >= copies {
            out.push(Token::Literal(random.below(few) as u8));
            at += 1;
        } else {
            let near = [4, 40, 32_768][random.below(3) as usize].min(at as u64);
            let most = [4, 30, 256][random.below(3) as usize];
            let length = 3 + random.below(most) as usize;
            out.push(Token::Copy(length, 1 + random.below(near) as usize));
            at += length;
        }
    }
    (out, at)
}

/// The codes of a block, in front of its symbols. Both codes have a code for each of their symbols, and others besides.
fn put_codes(random: &mut Random, tokens: &[Token], out: &mut Bits) -> (Code, Code) {
    let (mut used, mut far) = (vec![256], Vec::new());
    for token in tokens {
        match token {
            Token::Literal(byte) => used.push(usize::from(*byte)),
            Token::Copy(length, distance) => {
                used.push(length_symbol(*length).0);
                far.push(distance_symbol(*distance).0);
            }
        }
    }
    used.extend((0..random.below(30)).map(|_| random.below(286) as usize));
    far.extend((0..random.below(4)).map(|_| random.below(30) as usize));
    for of in [&mut used, &mut far] {
        of.sort_unstable();
        of.dedup();
        // Which symbols get short codes.
        for at in 1..of.len() {
            let other = random.below(at as u64 + 1) as usize;
            of.swap(at, other);
        }
    }
    let mut all = lengths(random, 286, &used, 15);
    let far = lengths(random, 30, &far, 15);
    let (code, distances) = (Code::of(&all), Code::of(&far));
    out.put(286 - 257, 5);
    out.put(30 - 1, 5);
    out.put(19 - 4, 4);
    // A code for the lengths of codes: symbols 0 to 12 of four bits, the others of five.
    let of_lengths: Vec<u32> = (0..19).map(|symbol| if symbol < 13 { 4 } else { 5 }).collect();
    for symbol in [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15] {
        out.put(of_lengths[symbol], 3);
    }
    let of_lengths = Code::of(&of_lengths);
    all.extend(far);
    let mut at = 0;
    while at < all.len() {
        let run = all[at..].iter().take_while(|length| **length == all[at]).count();
        let repeats = at > 0 && all[at] == all[at - 1] && run >= 3 && random.below(4) > 0;
        at += match (all[at], repeats) {
            (0, _) if run >= 11 => {
                let run = run.min(138);
                of_lengths.put(18, out);
                out.put(run as u32 - 11, 7);
                run
            }
            (0, _) if run >= 3 => {
                let run = run.min(10);
                of_lengths.put(17, out);
                out.put(run as u32 - 3, 3);
                run
            }
            (_, true) => {
                let run = run.min(6);
                of_lengths.put(16, out);
                out.put(run as u32 - 3, 2);
                run
            }
            (length, _) => {
                of_lengths.put(length as usize, out);
                1
            }
        };
    }
    (code, distances)
}

/// A chunk of blocks of all kinds, and the number of bytes that it has.
pub(crate) fn blocks(random: &mut Random, most: usize) -> (Vec<u8>, usize) {
    let (mut out, mut at) = (Bits::default(), 0);
    let blocks = 1 + random.below(4);
    for block in 1..=blocks {
        out.put(u32::from(block == blocks), 1);
        let kind = random.below(4).min(2) as u32;
        out.put(kind, 2);
        let target = at + random.below(1 + (most / blocks as usize) as u64) as usize;
        if kind == 0 {
            out.align();
            let length = (target - at).min(65_535);
            out.bytes.extend((length as u16).to_le_bytes());
            out.bytes.extend((!(length as u16)).to_le_bytes());
            out.bytes.extend((0..length).map(|_| random.below(256) as u8));
            out.align();
            at += length;
            continue;
        }
        let (tokens, end) = tokens(random, at, target);
        at = end;
        let (code, distances) = if kind == 2 {
            put_codes(random, &tokens, &mut out)
        } else {
            let of = |symbol| [8, 9, 7, 8][[144, 256, 280].iter().filter(|limit| symbol >= **limit).count()];
            (Code::of(&(0..288).map(of).collect::<Vec<u32>>()), Code::of(&[5; 32]))
        };
        for token in tokens {
            match token {
                Token::Literal(byte) => code.put(usize::from(byte), &mut out),
                Token::Copy(length, distance) => {
                    let (symbol, rest, further) = length_symbol(length);
                    code.put(symbol, &mut out);
                    out.put(rest, further);
                    let (symbol, rest, further) = distance_symbol(distance);
                    distances.put(symbol, &mut out);
                    out.put(rest, further);
                }
            }
        }
        code.put(256, &mut out);
    }
    (out.bytes, at)
}
