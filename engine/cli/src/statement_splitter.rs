//! [`StatementSplitter`]: splits input into statements and commands as its lines arrive.
//!
//! Only quotes, comments and semicolons count.

/// The text of one statement or command, and its place in the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InputText {
    /// The text, without the semicolon that ended it.
    pub(crate) text: String,
    /// Line of its first character, from 1.
    pub(crate) line: usize,
    /// Column (in characters) of its first character, from 1.
    pub(crate) column: usize,
}

/// One item of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// A statement in SQL.
    Statement(InputText),
    /// A line that begins with a backslash or a dot.
    Command(InputText),
}

impl Input {
    /// The text and its place.
    pub(crate) fn text(&self) -> &InputText {
        match self {
            Self::Statement(text) | Self::Command(text) => text,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum State {
    #[default]
    Plain,
    /// Inside `'…'`, `"…"` or `` `…` ``; a doubled quote closes and opens again.
    Quoted(char),
    /// Inside `E'…'`, where a backslash escapes.
    Escaped,
    LineComment,
    /// Inside `/* … */`, which nest.
    BlockComment(usize),
    /// Inside `$tag$ … $tag$`.
    Dollar(String),
}

/// A splitter of lines into statements and commands.
#[derive(Debug, Default)]
pub(crate) struct StatementSplitter {
    state: State,
    text: String,
    start: (usize, usize),
    /// Whether `text` holds anything but space and comments.
    has_content: bool,
    lines: usize,
}

impl StatementSplitter {
    /// The statements and commands of a whole text.
    pub(crate) fn split(text: &str) -> Vec<Input> {
        let mut splitter = Self::default();
        let mut inputs: Vec<Input> = text
            .split_inclusive('\n')
            .flat_map(|line| splitter.push_line(line))
            .collect();
        inputs.extend(splitter.finish());
        inputs
    }

    /// Whether the text ends outside of any statement, so that Enter should run it.
    pub(crate) fn is_complete(text: &str) -> bool {
        let mut splitter = Self::default();
        for line in text.split_inclusive('\n') {
            splitter.push_line(line);
        }
        !splitter.has_content && matches!(splitter.state, State::Plain | State::LineComment)
    }

    /// Takes one line with its line break, and returns the items that it completes.
    pub(crate) fn push_line(&mut self, line: &str) -> Vec<Input> {
        self.lines += 1;
        if !self.has_content && self.state == State::Plain && line.trim_start().starts_with(['\\', '.']) {
            self.text.clear();
            let column = 1 + line.chars().take_while(|c| c.is_whitespace()).count();
            let input_text = InputText {
                text: line.trim().to_owned(),
                line: self.lines,
                column,
            };
            return vec![Input::Command(input_text)];
        }
        let mut complete = Vec::new();
        let mut column = 1;
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            if self.state == State::Plain && first == ';' {
                complete.extend(self.take());
                rest = &rest[1..];
                column += 1;
                continue;
            }
            let length = self.step(first, rest);
            let (token, tail) = rest.split_at(length);
            if self.text.is_empty() {
                if first.is_whitespace() {
                    (rest, column) = (tail, column + 1);
                    continue;
                }
                self.start = (self.lines, column);
            }
            self.text.push_str(token);
            (rest, column) = (tail, column + token.chars().count());
        }
        complete
    }

    /// The last statement of an input that ends without a semicolon.
    pub(crate) fn finish(&mut self) -> Option<Input> {
        self.take()
    }

    fn take(&mut self) -> Option<Input> {
        let text = std::mem::take(&mut self.text).trim_end().to_owned();
        self.state = State::Plain;
        let (line, column) = self.start;
        std::mem::take(&mut self.has_content).then_some(Input::Statement(InputText { text, line, column }))
    }

    /// Moves over the token that `rest` begins with and returns its length in bytes.
    fn step(&mut self, first: char, rest: &str) -> usize {
        let mut length = first.len_utf8();
        match &mut self.state {
            State::Plain => return self.step_plain(first, rest),
            State::Quoted(quote) => {
                if first == *quote {
                    self.state = State::Plain;
                }
            }
            State::Escaped => match first {
                '\\' => length += rest[1..].chars().next().map_or(0, char::len_utf8),
                '\'' => self.state = State::Plain,
                _ => {}
            },
            State::LineComment => {
                if first == '\n' {
                    self.state = State::Plain;
                }
            }
            State::BlockComment(depth) => {
                if rest.starts_with("/*") {
                    *depth += 1;
                    length = 2;
                } else if rest.starts_with("*/") {
                    *depth -= 1;
                    length = 2;
                    if *depth == 0 {
                        self.state = State::Plain;
                    }
                }
            }
            State::Dollar(tag) => {
                if rest.starts_with(tag.as_str()) {
                    length = tag.len();
                    self.state = State::Plain;
                }
            }
        }
        length
    }

    fn step_plain(&mut self, first: char, rest: &str) -> usize {
        if rest.starts_with("--") {
            self.state = State::LineComment;
            return 2;
        }
        if rest.starts_with("/*") {
            self.state = State::BlockComment(1);
            return 2;
        }
        let length = match first {
            '\'' => {
                let mut before = self.text.chars().rev();
                let escape = matches!(before.next(), Some('e' | 'E'))
                    && !before.next().is_some_and(|c| c.is_alphanumeric() || c == '_');
                self.state = if escape { State::Escaped } else { State::Quoted('\'') };
                1
            }
            '"' | '`' => {
                self.state = State::Quoted(first);
                1
            }
            '$' => match dollar_tag(rest) {
                Some(tag) => {
                    self.state = State::Dollar(tag.to_owned());
                    tag.len()
                }
                None => 1,
            },
            _ => first.len_utf8(),
        };
        self.has_content |= !first.is_whitespace();
        length
    }
}

/// The `$tag$` that `rest` begins with. `$1` is a parameter, not a tag.
fn dollar_tag(rest: &str) -> Option<&str> {
    let name = rest[1..].find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
    let is_tag = rest[1 + name..].starts_with('$') && !rest[1..].starts_with(|c: char| c.is_ascii_digit());
    is_tag.then(|| &rest[..name + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(sql: &str) -> Vec<String> {
        StatementSplitter::split(sql)
            .into_iter()
            .map(|input| match input {
                Input::Statement(input_text) => input_text.text,
                Input::Command(input_text) => format!("command {}", input_text.text),
            })
            .collect()
    }

    #[test]
    fn semicolons_end_statements_but_not_in_quotes_and_comments() {
        assert_eq!(
            texts("SELECT 1; SELECT ';''' ;\n select 3"),
            ["SELECT 1", "SELECT ';'''", "select 3"]
        );
        assert_eq!(texts("SELECT \";\" -- ; not here\n;"), ["SELECT \";\" -- ; not here"]);
        assert_eq!(
            texts("SELECT /* ; /* ; */ ; */ 1;2"),
            ["SELECT /* ; /* ; */ ; */ 1", "2"]
        );
        assert_eq!(texts(r"SELECT E'\';', 'e\';2"), [r"SELECT E'\';', 'e\'", "2"]);
        assert_eq!(
            texts("SELECT $a$ ; $$ $a$; SELECT $1"),
            ["SELECT $a$ ; $$ $a$", "SELECT $1"]
        );
        assert_eq!(texts(" ;; -- only a comment\n /* and another */ "), [""; 0]);
    }

    #[test]
    fn lines_with_a_backslash_or_a_dot_are_commands_only_between_statements() {
        assert_eq!(
            texts("\\timing\nSELECT 1;\n  \\d t\n"),
            ["command \\timing", "SELECT 1", "command \\d t"]
        );
        assert_eq!(texts("SELECT\n\\d;"), ["SELECT\n\\d"]);
        assert_eq!(
            texts(".tables\nSELECT 1\n.5;\n .mode csv"),
            ["command .tables", "SELECT 1\n.5", "command .mode csv"]
        );
        assert_eq!(texts("-- first\n\\d it's\nSELECT 1"), ["command \\d it's", "SELECT 1"]);
    }

    #[test]
    fn places_count_lines_and_characters() {
        let inputs = StatementSplitter::split("é; a;\n\n  b");
        let places: Vec<_> = inputs
            .iter()
            .map(|input| match input {
                Input::Statement(input_text) | Input::Command(input_text) => (input_text.line, input_text.column),
            })
            .collect();
        assert_eq!(places, [(1, 1), (1, 4), (3, 3)]);
    }

    #[test]
    fn open_statements_quotes_and_comments_are_incomplete() {
        for complete in ["", "  ", "SELECT 1;", "SELECT 1; -- done", "\\d", ".tables", "/* c */"] {
            assert!(StatementSplitter::is_complete(complete), "{complete}");
        }
        for open in ["SELECT", "SELECT ';", "SELECT 1; SELECT 2", "/* c", "SELECT $$ ;"] {
            assert!(!StatementSplitter::is_complete(open), "{open}");
        }
    }
}
