//! `COPY … TO 'file' (format csv, delimiter ';')` as PostgreSQL and DuckDB write it, and `COPY table FROM 'file'`.
//!
//! DataFusion's parser knows `STORED AS`, `PARTITIONED BY` and `OPTIONS`. It does not read the options in parentheses,
//! which the statement gets afterwards ([`CopyOptions::apply`]). `COPY … FROM` is read as an `INSERT` ([`insertion`]).

use std::ops::Range;

use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Value;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::text::{is_keyword, offset};
use crate::file_table::ends;

/// An option, in small letters, and the texts of its values. No value is `true`.
type CopyOption = (String, Vec<String>);

/// The options of a statement.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CopyOptions(Vec<CopyOption>);

impl CopyOptions {
    /// The options in parentheses of `COPY … TO`, and the bytes where they are written.
    pub(super) fn find(text: &str, tokens: &[&TokenWithSpan]) -> Option<(Range<usize>, Self)> {
        let to = top_level(tokens, Keyword::TO)?;
        let group = group_after(tokens, to + 2)?;
        let last = tokens.last()?;
        let range = offset(text, tokens[to + 2].span.start)..offset(text, last.span.start) + 1;
        Some((range, Self::read(&tokens[group])?))
    }

    /// Reads `name value, name (value, value), name`.
    fn read(tokens: &[&TokenWithSpan]) -> Option<Self> {
        let mut options = Vec::new();
        let (mut depth, mut start) = (0, 0);
        for at in 0..=tokens.len() {
            match tokens.get(at).map(|token| &token.token) {
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) => depth -= 1,
                Some(Token::Comma) if depth > 0 => {}
                Some(Token::Comma) | None => {
                    options.push(option(&tokens[start..at])?);
                    start = at + 1;
                }
                _ => {}
            }
        }
        Some(Self(options))
    }

    /// Gives the options to a statement.
    ///
    /// # Errors
    /// If an option is not known for the format, or has another number of values.
    pub(super) fn apply(self, statement: &mut Statement) -> Result<()> {
        let Statement::CopyTo(copy) = statement else {
            return Ok(()); // of another kind, which the parser has read
        };
        let mut rest = Vec::new();
        for (name, values) in self.0 {
            match (name.as_str(), values.as_slice()) {
                ("format", [format]) => copy.stored_as = Some(format.to_ascii_uppercase()),
                ("partition_by" | "partitioned_by", columns) if !columns.is_empty() => {
                    copy.partitioned_by = columns.to_vec();
                }
                (_, []) => rest.push((name, "true".to_owned())),
                (_, [value]) => rest.push((name, value.clone())),
                _ => return plan_err!("COPY: the option {name} has one value"),
            }
        }
        let (end, compression) = ends(&copy.target);
        let format = copy
            .stored_as
            .clone()
            .unwrap_or_else(|| end.to_owned())
            .to_ascii_lowercase();
        let level = take(&mut rest, "compression_level");
        for (name, value) in rest {
            let Some(option) = option_of(&format, &name) else {
                return plan_err!("COPY: {format} has no option {name}");
            };
            let value = match (option, &level) {
                ("format.compression", Some(level)) if format == "parquet" => format!("{value}({level})"),
                ("format.compression", None) if format == "parquet" => with_usual_level(value.to_ascii_lowercase()),
                ("format.compression", _) => value.to_ascii_lowercase(),
                ("format.delimiter", _) if value == "\\t" => "\t".to_owned(),
                _ => value,
            };
            copy.options.push((option.to_owned(), Value::SingleQuotedString(value)));
        }
        if let Some(compression) = compression {
            compress(copy, end, compression);
        }
        Ok(())
    }
}

/// The Parquet writer's codec with a level, which its names need: each codec's own usual one.
fn with_usual_level(codec: String) -> String {
    match codec.as_str() {
        "zstd" => "zstd(3)".to_owned(),
        "gzip" => "gzip(6)".to_owned(),
        "brotli" => "brotli(4)".to_owned(),
        _ => codec,
    }
}

/// A compressed text file, by the end of its name.
pub(super) fn compress_by_name(statement: &mut Statement) {
    if let Statement::CopyTo(copy) = statement
        && let (end, Some(compression)) = ends(&copy.target.clone())
    {
        compress(copy, end, compression);
    }
}

fn compress(copy: &mut datafusion::sql::parser::CopyToStatement, end: &str, compression: &str) {
    const OPTION: &str = "format.compression";
    let format = copy.stored_as.get_or_insert_with(|| end.to_ascii_uppercase());
    let is_text = ["CSV", "JSON", "NDJSON"].contains(&format.as_str());
    let is_given = copy
        .options
        .iter()
        .any(|(name, _)| name.trim_start_matches("format.") == "compression");
    if is_text && !is_given {
        let value = Value::SingleQuotedString(compression.to_owned());
        copy.options.push((OPTION.to_owned(), value));
    }
}

/// The name that the format has for an option.
fn option_of(format: &str, name: &str) -> Option<&'static str> {
    Some(match (format, name) {
        ("csv", "delimiter" | "delim" | "sep") => "format.delimiter",
        ("csv", "header") => "format.has_header",
        ("csv", "null" | "nullstr") => "format.null_value",
        ("csv", "quote") => "format.quote",
        ("csv", "escape") => "format.escape",
        ("csv", "dateformat") => "format.date_format",
        ("csv", "timestampformat") => "format.timestamp_format",
        ("csv" | "json" | "parquet", "compression" | "codec") => "format.compression",
        ("parquet", "row_group_size") => "format.max_row_group_size",
        ("orc", "compression" | "codec") => "compression",
        ("orc", "row_group_size" | "stripe_rows") => "stripe_rows",
        ("orc", "row_group_rows") => "row_group_rows",
        ("orc", "chunk_size") => "chunk_size",
        ("orc", "number_chunk_size") => "number_chunk_size",
        ("orc", "direct_columns") => "direct_columns",
        ("orc", "bloom_filter_columns") => "bloom_filter_columns",
        _ => return None,
    })
}

fn take(options: &mut Vec<(String, String)>, name: &str) -> Option<String> {
    let at = options.iter().position(|(option, _)| option == name)?;
    Some(options.remove(at).1)
}

/// The statement `INSERT` for `COPY table [(columns)] FROM 'file' [(options)]`.
pub(super) fn insertion(text: &str, tokens: &[&TokenWithSpan]) -> Option<(Range<usize>, String)> {
    let from = top_level(tokens, Keyword::FROM)?;
    let Token::SingleQuotedString(path) = &tokens.get(from + 1)?.token else {
        return None;
    };
    let path = path.replace('\'', "''");
    let table = &text[offset(text, tokens[1].span.start)..offset(text, tokens[from].span.start)];
    let source = match tokens.get(from + 2) {
        None => format!("'{path}'"),
        Some(_) => {
            let CopyOptions(mut options) = CopyOptions::read(&tokens[group_after(tokens, from + 2)?])?;
            let format = options
                .iter()
                .position(|(name, _)| name == "format")
                .map(|at| options.remove(at).1);
            let format = format.and_then(|values| values.first().cloned());
            let by_end = Some(ends(&path).0).filter(|end| !end.is_empty()).unwrap_or("csv");
            let format = format.unwrap_or_else(|| by_end.to_owned()).to_ascii_lowercase();
            let options: Vec<String> = (options.iter())
                .map(|(name, values)| match values.as_slice() {
                    [] => format!(", {name} = true"),
                    [value] if ["true", "false"].contains(&value.to_ascii_lowercase().as_str()) => {
                        format!(", {name} = {value}")
                    }
                    values => format!(", {name} = '{}'", values.join(",").replace('\'', "''")),
                })
                .collect();
            format!("read_{format}('{path}'{})", options.concat())
        }
    };
    let range = offset(text, tokens[0].span.start)..end(text, tokens.last()?);
    Some((range, format!("INSERT INTO {table} SELECT * FROM {source}")))
}

/// The byte behind a token.
fn end(text: &str, token: &TokenWithSpan) -> usize {
    offset(text, token.span.end)
}

/// The place of a keyword outside parentheses, if the statement is a `COPY`.
fn top_level(tokens: &[&TokenWithSpan], keyword: Keyword) -> Option<usize> {
    tokens.first().filter(|token| is_keyword(&token.token, Keyword::COPY))?;
    let mut depth = 0;
    tokens.iter().position(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0 && is_keyword(&token.token, keyword)
    })
}

/// The tokens inside the parentheses that begin at `at`, or behind `WITH` there, and end the statement.
fn group_after(tokens: &[&TokenWithSpan], at: usize) -> Option<Range<usize>> {
    let at = at + usize::from(is_keyword(&tokens.get(at)?.token, Keyword::WITH));
    let is_group = tokens.get(at)?.token == Token::LParen && tokens.last()?.token == Token::RParen;
    (is_group && at + 1 < tokens.len() - 1).then(|| at + 1..tokens.len() - 1)
}

/// One option: its name, and a value or values in parentheses.
fn option(tokens: &[&TokenWithSpan]) -> Option<CopyOption> {
    let (name, values) = tokens.split_first()?;
    let Token::Word(name) = &name.token else {
        return None;
    };
    let values = values.iter().filter_map(|value| match &value.token {
        Token::Word(word) => Some(word.value.clone()),
        Token::SingleQuotedString(text) => Some(text.clone()),
        Token::Number(number, _) => Some(number.clone()),
        Token::Mul => Some("*".to_owned()),
        _ => None, // parentheses, commas, an equals sign
    });
    Some((name.value.to_ascii_lowercase(), values.collect()))
}
