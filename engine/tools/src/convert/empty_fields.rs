//! [`EmptyFieldReader`]: a CSV stream in which empty texts differ from NULLs.
//!
//! In CSV, as PostgreSQL reads and writes it, a field of two quotation marks is the empty text and a field of nothing
//! is NULL. Arrow's reader drops the quotation marks, and skips the empty line that is a row of one NULL. This reader
//! therefore writes a mark in place of each quoted empty field of a text column, and two quotation marks in place of
//! each empty line of a file with one column.

use std::io::{self, Read};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Schema};

/// Bytes read in one call.
const BUFFER_BYTES: usize = 64 << 10;

/// The mark: characters of Unicode's private use area, in no order that has a meaning.
const MARK: &str = "\u{F8FF}\u{E0E0}\u{F8FF}";

/// A reader of CSV with marks. `Read` gives the marked bytes.
pub(super) struct EmptyFieldReader<R> {
    inner: R,
    delimiter: u8,
    /// Whether each column is text.
    texts: Vec<bool>,
    state: State,
    /// The column of the current field.
    column: usize,
    /// Whether a record has ended.
    has_record: bool,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of `output` that were read.
    taken: usize,
    is_at_end: bool,
}

/// The place in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    RecordStart,
    /// After a carriage return, which may be half of a line end.
    CarriageReturn,
    FieldStart,
    Unquoted,
    /// After the first quotation mark of a field, which is not written yet.
    Opened,
    /// After two quotation marks at the start of a field, which are not written yet.
    Closed,
    Quoted,
    /// After a quotation mark inside of a quoted field: its end, or half of an escaped one.
    QuoteInQuoted,
}

impl<R: Read> EmptyFieldReader<R> {
    /// A reader of files with the columns of `schema`.
    pub(super) fn new(inner: R, delimiter: u8, schema: &Schema) -> Self {
        let texts = schema.fields().iter().map(|field| field.data_type() == &DataType::Utf8);
        Self {
            inner,
            delimiter,
            texts: texts.collect(),
            state: State::RecordStart,
            column: 0,
            has_record: false,
            input: vec![0; BUFFER_BYTES],
            output: Vec::with_capacity(2 * BUFFER_BYTES),
            taken: 0,
            is_at_end: false,
        }
    }

    /// Reads and marks the next bytes.
    fn fill(&mut self) -> io::Result<()> {
        self.output.clear();
        self.taken = 0;
        let length = self.inner.read(&mut self.input)?;
        if length == 0 {
            self.is_at_end = true;
            self.end_field();
            return Ok(());
        }
        let input = std::mem::take(&mut self.input);
        let bytes = &input[..length];
        let is_outside = matches!(self.state, State::RecordStart | State::FieldStart | State::Unquoted);
        if is_outside && self.texts.len() > 1 && !bytes.contains(&b'"') {
            self.copy(bytes);
        } else {
            bytes.iter().for_each(|&byte| self.push(byte));
        }
        self.input = input;
        Ok(())
    }

    /// Copies bytes without quotation marks.
    fn copy(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        let line = bytes.iter().rposition(|&byte| byte == b'\n' || byte == b'\r');
        let rest = line.map_or(bytes, |end| &bytes[end + 1..]);
        if line.is_some() {
            (self.column, self.has_record) = (0, true);
        }
        self.column += rest.iter().filter(|&&byte| byte == self.delimiter).count();
        self.state = match bytes.last() {
            Some(b'\n') => State::RecordStart,
            Some(b'\r') => State::CarriageReturn,
            Some(&last) if last == self.delimiter => State::FieldStart,
            _ => State::Unquoted,
        };
    }

    /// Writes the quotation marks that were held back.
    fn end_field(&mut self) {
        match self.state {
            State::Opened => self.output.push(b'"'),
            State::Closed if self.texts.get(self.column) == Some(&true) => {
                self.output.extend_from_slice(MARK.as_bytes());
            }
            State::Closed => self.output.extend_from_slice(b"\"\""),
            _ => {}
        }
    }

    fn push(&mut self, byte: u8) {
        let is_inside = matches!(self.state, State::Quoted | State::Opened);
        if !is_inside && (byte == self.delimiter || byte == b'\n' || byte == b'\r') {
            return self.push_end(byte);
        }
        self.state = match (self.state, byte) {
            (State::RecordStart | State::CarriageReturn | State::FieldStart, b'"') => {
                self.state = State::Opened;
                return;
            }
            (State::Opened, b'"') => {
                self.state = State::Closed;
                return;
            }
            (State::Opened, _) => {
                self.output.push(b'"');
                State::Quoted
            }
            (State::Closed, b'"') => {
                self.output.extend_from_slice(b"\"\"");
                State::Quoted
            }
            (State::Closed, _) => {
                self.output.extend_from_slice(b"\"\"");
                State::Unquoted
            }
            (State::Quoted, b'"') => State::QuoteInQuoted,
            (State::Quoted, _) | (State::QuoteInQuoted, b'"') => State::Quoted,
            _ => State::Unquoted,
        };
        self.output.push(byte);
    }

    /// A byte that ends a field.
    fn push_end(&mut self, byte: u8) {
        self.end_field();
        if byte == self.delimiter {
            self.column += 1;
            self.state = State::FieldStart;
            return self.output.push(byte);
        }
        let is_second_half = self.state == State::CarriageReturn && byte == b'\n';
        let is_empty_line = matches!(self.state, State::RecordStart | State::CarriageReturn) && !is_second_half;
        if is_empty_line && self.has_record && self.texts.len() == 1 {
            self.output.extend_from_slice(b"\"\"");
        }
        self.has_record |= !is_empty_line;
        self.column = 0;
        self.state = match byte {
            b'\r' => State::CarriageReturn,
            _ => State::RecordStart,
        };
        self.output.push(byte);
    }
}

impl<R: Read> Read for EmptyFieldReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.output.len() && !self.is_at_end {
            self.fill()?;
        }
        let left = &self.output[self.taken..];
        let length = left.len().min(buffer.len());
        buffer[..length].copy_from_slice(&left[..length]);
        self.taken += length;
        Ok(length)
    }
}

/// The column with empty texts in place of the marks.
pub(super) fn without_marks(column: &ArrayRef) -> ArrayRef {
    let Some(texts) = column.as_string_opt::<i32>() else {
        return Arc::clone(column);
    };
    let is_marked = |row: usize| texts.value_length(row) as usize == MARK.len() && texts.value(row) == MARK;
    if !(0..texts.len()).any(is_marked) {
        return Arc::clone(column);
    }
    let unmarked = texts
        .iter()
        .map(|text| text.map(|text| if text == MARK { "" } else { text }));
    Arc::new(unmarked.collect::<StringArray>())
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

    use super::*;

    /// Gives its bytes one at a time, or all at once.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.0.len().min(self.1).min(buffer.len());
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    fn marked(types: &[DataType], text: &str) -> String {
        let fields: Vec<Field> = types.iter().map(|kind| Field::new("f", kind.clone(), true)).collect();
        let schema = Schema::new(fields);
        let read = |piece: usize| {
            let mut marked = String::new();
            let mut reader = EmptyFieldReader::new(Pieces(text.as_bytes(), piece), b',', &schema);
            reader.read_to_string(&mut marked).unwrap();
            marked.replace(MARK, "§")
        };
        let whole = read(usize::MAX);
        for piece in 1..4 {
            assert_eq!(read(piece), whole, "in pieces of {piece}");
        }
        whole
    }

    #[test]
    fn quoted_empty_fields_of_text_columns_are_marked() {
        let types = [DataType::Utf8, DataType::Int64, DataType::Utf8];
        for (text, expected) in [
            ("a,b,c\n\"\",\"\",\"\"\n", "a,b,c\n§,\"\",§\n"),
            ("\"\",1,\r\n,2,\"\"\r\n", "§,1,\r\n,2,§\r\n"),
            // Escaped quotation marks, delimiters and line ends in quoted fields.
            ("\"\"\"\",1,\"a\"\"\"\"b\"\n", "\"\"\"\",1,\"a\"\"\"\"b\"\n"),
            ("\"x\n\"\",\"\"\",1,\"\"", "\"x\n\"\",\"\"\",1,§"),
            // Quotation marks inside of an unquoted field are text.
            ("a\"\",1,b\"\"\n", "a\"\",1,b\"\"\n"),
            ("\"\"x,1,\"", "\"\"x,1,\""),
            ("x,1,y\n\n\nx,2,z\n", "x,1,y\n\n\nx,2,z\n"),
        ] {
            assert_eq!(marked(&types, text), expected, "{text:?}");
        }
    }

    #[test]
    fn empty_lines_are_rows_of_files_with_one_column() {
        let types = [DataType::Utf8];
        for (text, expected) in [
            ("a\n\nx\n\n", "a\n\"\"\nx\n\"\"\n"),
            ("\n\na\nx", "\n\na\nx"),
            ("a\r\n\r\nx\r\n", "a\r\n\"\"\r\nx\r\n"),
            ("a\n\"\"\n", "a\n§\n"),
            ("a\n\"x\n\ny\"\n", "a\n\"x\n\ny\"\n"),
        ] {
            assert_eq!(marked(&types, text), expected, "{text:?}");
        }
    }

    #[test]
    fn marks_become_empty_texts() {
        let column: ArrayRef = Arc::new(StringArray::from(vec![Some(MARK), None, Some("x"), Some("")]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some(""), None, Some("x"), Some("")]));
        assert_eq!(&without_marks(&column), &texts);
    }
}
