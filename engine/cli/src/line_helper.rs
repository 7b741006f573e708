//! [`LineHelper`]: the line editor's helper.
//!
//! 1. Completion, by [`Completion`].
//! 2. Colours of keywords, strings and comments.
//! 3. Validation: Enter runs a complete text, and begins another line of an incomplete one.

use std::borrow::Cow;

use console::Style;
use datafusion::prelude::SessionContext;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hint, Hinter};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Result};

use crate::completion::Completion;
use crate::keywords::{KEYWORDS, MORE_KEYWORDS};
use crate::statement_splitter::StatementSplitter;

/// A helper with the names that a session knows.
pub(crate) struct LineHelper {
    completion: Completion,
}

impl LineHelper {
    /// `completes_paths`: whether folders are read for names of files.
    pub(crate) fn new(context: &SessionContext, completes_paths: bool) -> Self {
        Self {
            completion: Completion::new(context, completes_paths),
        }
    }

    /// Takes over the session's current tables and columns.
    pub(crate) fn refresh(&mut self, context: &SessionContext) {
        self.completion.refresh(context);
    }
}

impl Completer for LineHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        self.completion.complete(line, position)
    }
}

/// A hint at the end of an empty line: how to end a statement. It cannot be accepted as text.
pub(crate) struct HowToEnd;

impl Hint for HowToEnd {
    fn display(&self) -> &str {
        "   ; and Enter run it, Ctrl-C drops it"
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Hinter for LineHelper {
    type Hint = HowToEnd;

    fn hint(&self, line: &str, position: usize, _: &Context<'_>) -> Option<HowToEnd> {
        (position == line.len() && line.ends_with('\n')).then_some(HowToEnd)
    }
}

impl Validator for LineHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        let text = context.input();
        let complete = is_word_command(text) || StatementSplitter::is_complete(text);
        Ok(if complete {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

/// Words without a backslash that leave the shell or print its help.
pub(crate) fn is_word_command(text: &str) -> bool {
    matches!(
        text.trim().to_ascii_lowercase().as_str(),
        "quit" | "exit" | "help" | "?"
    )
}

impl Highlighter for LineHelper {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if line.starts_with(['\\', '.']) || !console::colors_enabled() {
            return Cow::Borrowed(line);
        }
        Cow::Owned(coloured(line))
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Owned(Style::new().bold().apply_to(prompt).to_string())
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(Style::new().dim().apply_to(hint).to_string())
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

impl Helper for LineHelper {}

/// The text with keywords, strings and comments in colours.
fn coloured(line: &str) -> String {
    let (keyword, string, comment) = (Style::new().blue().bold(), Style::new().green(), Style::new().dim());
    let mut text = String::with_capacity(line.len() * 2);
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let (length, style) = if rest.starts_with("--") {
            (rest.find('\n').unwrap_or(rest.len()), Some(&comment))
        } else if first == '\'' {
            (rest[1..].find('\'').map_or(rest.len(), |end| end + 2), Some(&string))
        } else if first.is_alphabetic() || first == '_' {
            let length = rest
                .find(|c: char| !(c.is_alphanumeric() || c == '_'))
                .unwrap_or(rest.len());
            let word = rest[..length].to_uppercase();
            let known = KEYWORDS.contains(&word.as_str()) || MORE_KEYWORDS.contains(&word.as_str());
            (length, known.then_some(&keyword))
        } else {
            (first.len_utf8(), None)
        };
        let (token, tail) = rest.split_at(length);
        match style {
            Some(style) => text.push_str(&style.apply_to(token).to_string()),
            None => text.push_str(token),
        }
        rest = tail;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_do_not_change_the_text() {
        let line = "SELECT 'it''s', é FROM t -- done\nWHERE x";
        assert_eq!(console::strip_ansi_codes(&coloured(line)), line);
    }
}
