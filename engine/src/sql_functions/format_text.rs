//! [`FormatText`]: a format of `format` or `printf`, as texts and places.

use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;

/// How one argument is written.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Place {
    /// The number of the argument, from 0.
    pub(super) argument: usize,
    pub(super) kind: Kind,
    /// Least characters.
    pub(super) width: usize,
    pub(super) align: Align,
    pub(super) has_zeros: bool,
    pub(super) has_plus: bool,
    /// A comma for each thousand.
    pub(super) has_commas: bool,
    /// Digits after the point.
    pub(super) precision: Option<usize>,
}

/// What is written.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum Kind {
    /// Any value, as a cast to text writes it.
    #[default]
    Any,
    Integer,
    Fixed,
    Exponent,
    Hex,
    UpperHex,
}

/// Where the blanks are.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) enum Align {
    /// Numbers on the right; texts of `format` on the left, of `printf` on the right.
    #[default]
    Default,
    Left,
    Right,
    Center,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part {
    Text(String),
    Place(Place),
}

/// The parts of a format in order.
#[derive(Debug, PartialEq)]
pub(super) struct FormatText(pub(super) Vec<Part>);

impl FormatText {
    /// A format with places in braces: `{}`, `{0}`, `{:>8.2f}`. `{{` and `}}` are braces.
    ///
    /// # Errors
    /// If a brace stands alone, or a place has another form.
    pub(super) fn with_braces(format: &str) -> Result<Self> {
        let (mut parts, mut text, mut next) = (Vec::new(), String::new(), 0);
        let mut rest = format;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at(at);
            text.push_str(before);
            if let Some(after) = brace.strip_prefix("{{").or_else(|| brace.strip_prefix("}}")) {
                text.push_str(&brace[..1]);
                rest = after;
                continue;
            }
            let place = brace.strip_prefix('{').and_then(|place| place.split_once('}'));
            let Some((place, after)) = place else {
                return exec_err!("the format {format:?} has a brace alone; {{{{ and }}}} are braces");
            };
            let (number, form) = place.split_once(':').unwrap_or((place, ""));
            let unknown = || exec_datafusion_err!("the format {format:?} has {{{place}}}, which is not known");
            let argument = match number {
                "" => next,
                number => number.parse().map_err(|_| unknown())?,
            };
            next = argument + 1;
            let place = braced(form, argument).ok_or_else(unknown)?;
            push(&mut parts, &mut text, place);
            rest = after;
        }
        text.push_str(rest);
        parts.push(Part::Text(text));
        Ok(Self(parts))
    }

    /// A format with places after `%`, as in C: `%s`, `%05d`, `%-8.2f`. `%%` is a percent sign.
    ///
    /// # Errors
    /// If a place has another form.
    pub(super) fn with_percents(format: &str) -> Result<Self> {
        let (mut parts, mut text, mut next) = (Vec::new(), String::new(), 0);
        let mut rest = format;
        while let Some((before, place)) = rest.split_once('%') {
            text.push_str(before);
            if let Some(after) = place.strip_prefix('%') {
                text.push('%');
                rest = after;
                continue;
            }
            let end = place.find(|letter: char| letter.is_ascii_alphabetic());
            let found = end.and_then(|end| Some((percent(&place[..end], &place[end..=end], next)?, end)));
            let Some((found, end)) = found else {
                return exec_err!("the format {format:?} has a place that is not known: %{place}");
            };
            push(&mut parts, &mut text, found);
            next += 1;
            rest = &place[end + 1..];
        }
        text.push_str(rest);
        parts.push(Part::Text(text));
        Ok(Self(parts))
    }
}

fn push(parts: &mut Vec<Part>, text: &mut String, place: Place) {
    if !text.is_empty() {
        parts.push(Part::Text(std::mem::take(text)));
    }
    parts.push(Part::Place(place));
}

/// `[<>^][+][0][width][,][.precision][type]`.
fn braced(form: &str, argument: usize) -> Option<Place> {
    let mut place = Place {
        argument,
        ..Place::default()
    };
    let mut rest = form;
    for (sign, align) in [("<", Align::Left), (">", Align::Right), ("^", Align::Center)] {
        if let Some(after) = rest.strip_prefix(sign) {
            (place.align, rest) = (align, after);
        }
    }
    (place.has_plus, rest) = flag(rest, "+");
    (place.has_zeros, rest) = flag(rest, "0");
    (place.width, rest) = number(rest)?;
    (place.has_commas, rest) = flag(rest, ",");
    if let Some(after) = rest.strip_prefix('.') {
        let (precision, after) = number(after)?;
        (place.precision, rest) = (Some(precision), after);
    }
    place.kind = kind(rest)?;
    Some(place)
}

/// The flags, width and precision of a place, and its type.
fn percent(form: &str, letter: &str, argument: usize) -> Option<Place> {
    let mut place = Place {
        argument,
        align: Align::Right,
        kind: kind(letter)?,
        ..Place::default()
    };
    let mut rest = form;
    while let Some(flag) = rest.chars().next().filter(|flag| "-+0,".contains(*flag)) {
        match flag {
            '-' => place.align = Align::Left,
            '+' => place.has_plus = true,
            '0' => place.has_zeros = true,
            _ => place.has_commas = true,
        }
        rest = &rest[1..];
    }
    (place.width, rest) = number(rest)?;
    if let Some(after) = rest.strip_prefix('.') {
        let (precision, after) = number(after)?;
        (place.precision, rest) = (Some(precision), after);
    }
    rest.is_empty().then_some(place)
}

fn flag<'a>(text: &'a str, flag: &str) -> (bool, &'a str) {
    match text.strip_prefix(flag) {
        Some(after) => (true, after),
        None => (false, text),
    }
}

/// The number at the start of a text, at most 1,000. No digits are zero.
fn number(text: &str) -> Option<(usize, &str)> {
    const MAX: usize = 1_000;
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number = match &text[..end] {
        "" => 0,
        digits => digits.parse().ok().filter(|number| *number <= MAX)?,
    };
    Some((number, &text[end..]))
}

fn kind(letter: &str) -> Option<Kind> {
    Some(match letter {
        "" | "s" => Kind::Any,
        "d" | "i" => Kind::Integer,
        "f" => Kind::Fixed,
        "e" => Kind::Exponent,
        "x" => Kind::Hex,
        "X" => Kind::UpperHex,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read() {
        let place = |argument| Place {
            argument,
            ..Place::default()
        };
        let text = |text: &str| Part::Text(text.to_owned());
        let parts = FormatText::with_braces("a{{{}{1:>8.2f}}}").unwrap().0;
        let fixed = Place {
            kind: Kind::Fixed,
            width: 8,
            align: Align::Right,
            precision: Some(2),
            ..place(1)
        };
        assert_eq!(
            parts,
            [text("a{"), Part::Place(place(0)), Part::Place(fixed), text("}")]
        );
        let parts = FormatText::with_percents("%-5d%%%s").unwrap().0;
        let left = Place {
            kind: Kind::Integer,
            width: 5,
            align: Align::Left,
            ..place(0)
        };
        let right = Place {
            align: Align::Right,
            ..place(1)
        };
        assert_eq!(parts, [Part::Place(left), text("%"), Part::Place(right), text("")]);
        for wrong in ["{", "}", "a{b}", "{:q}", "{:9999}", "{:>>}"] {
            assert!(FormatText::with_braces(wrong).is_err(), "{wrong}");
        }
        for wrong in ["%", "%q", "%5", "%.f5s%", "%9999d", "%é"] {
            assert!(FormatText::with_percents(wrong).is_err(), "{wrong}");
        }
    }
}
