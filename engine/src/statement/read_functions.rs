//! Files as tables by functions: `read_csv('x.txt', delim = ';')`, `read_parquet(['a.parquet', 'b.parquet'])`.
//!
//! A call becomes the name of a table ([`name_calls`]), which the catalog of `path_tables` opens ([`FileCall::parse`]).

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::{plan_datafusion_err, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArgOperator, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, TableFactor, Value, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use object_store::ObjectStoreExt;

use super::expressions;
use super::file_metadata::{self, Described};
use crate::file::Place;
use crate::file_table::{self, FileChoice};
use crate::redaction::without_passwords;
use crate::table::listing::{FoundFile, find_files};

/// What a function makes of files.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reader {
    /// A table of a format.
    Rows(&'static str),
    /// Their names.
    Names,
    /// Their contents as texts.
    Texts,
    /// Their contents as bytes.
    Blobs,
    /// What they say of themselves.
    Metadata(Described),
}

const READERS: [(&str, Reader); 14] = [
    ("read_csv", Reader::Rows("csv")),
    ("read_csv_auto", Reader::Rows("csv")),
    ("read_parquet", Reader::Rows("parquet")),
    ("parquet_scan", Reader::Rows("parquet")),
    ("read_json", Reader::Rows("json")),
    ("read_json_auto", Reader::Rows("json")),
    ("read_ndjson", Reader::Rows("json")),
    ("read_orc", Reader::Rows("orc")),
    ("read_arrow", Reader::Rows("arrow")),
    ("glob", Reader::Names),
    ("read_text", Reader::Texts),
    ("read_blob", Reader::Blobs),
    ("orc_metadata", Reader::Metadata(Described::Orc)),
    ("parquet_metadata", Reader::Metadata(Described::Parquet)),
];

fn reader(name: &str) -> Option<Reader> {
    let found = READERS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, reader)| *reader)
}

/// Puts the names of tables in the place of calls in FROM. A table function of the session comes before.
pub(super) fn name_calls(state: &SessionState, statement: &mut Statement) {
    struct Calls<'a>(&'a SessionState);
    impl VisitorMut for Calls<'_> {
        type Break = ();

        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, args, .. } = factor
                && let [ObjectNamePart::Identifier(function)] = name.0.as_slice()
                && reader(&function.value).is_some()
                && !self.0.table_functions().contains_key(&function.value)
                && let Some(arguments) = args.take()
            {
                let texts: Vec<String> = arguments.args.iter().map(ToString::to_string).collect();
                let call = format!("{}({})", function.value, texts.join(", "));
                *name = ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote('"', call))]);
            }
            ControlFlow::Continue(())
        }
    }
    expressions::visit(statement, &mut Calls(state));
}

/// A call of one of the functions.
#[derive(Debug)]
pub(crate) struct FileCall {
    function: String,
    reader: Reader,
    locations: Vec<String>,
    choice: FileChoice,
}

impl FileCall {
    /// The call whose text is the name of a table. `None`: the name is another's.
    ///
    /// # Errors
    /// If the arguments are no files, or an option is not known.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>> {
        let function = text.split('(').next().unwrap_or_default();
        let Some(reader) = reader(function).filter(|_| text.ends_with(')')) else {
            return Ok(None);
        };
        let parsed = Parser::new(&GenericDialect {})
            .try_with_sql(text)
            .and_then(|mut parser| parser.parse_expr());
        let Ok(Expr::Function(call)) = parsed else {
            return Ok(None);
        };
        let function = function.to_ascii_lowercase();
        let FunctionArguments::List(list) = &call.args else {
            return plan_err!("{function} takes the path of a file");
        };
        let format = match reader {
            Reader::Rows(format) => Some(format),
            _ => None,
        };
        let mut found = Self {
            function,
            reader,
            locations: Vec::new(),
            choice: FileChoice {
                format,
                ..FileChoice::default()
            },
        };
        for argument in &list.args {
            found.take(argument)?;
        }
        for (place, location) in found.locations.iter().enumerate() {
            if found.locations[..place].contains(location) {
                let (function, location) = (&found.function, without_passwords(location));
                return plan_err!("{function}: {location} is named twice; UNION ALL of two calls reads a file twice");
            }
        }
        match found.locations.is_empty() {
            true => plan_err!("{0} takes the path of a file: {0}('data/x')", found.function),
            false => Ok(Some(found)),
        }
    }

    fn take(&mut self, argument: &FunctionArg) -> Result<()> {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp {
                left,
                op: BinaryOperator::Eq,
                right,
            })) => match left.as_ref() {
                Expr::Identifier(name) => self.set(&name.value, right),
                other => plan_err!("{}: {other} is no name of an option", self.function),
            },
            FunctionArg::Named {
                name,
                arg: FunctionArgExpr::Expr(value),
                operator:
                    FunctionArgOperator::Assignment | FunctionArgOperator::RightArrow | FunctionArgOperator::Equals,
            } => self.set(&name.value, value),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(list))) => {
                list.elem.iter().try_for_each(|location| self.locate(location))
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(location)) => self.locate(location),
            other => plan_err!("{} does not take {other}", self.function),
        }
    }

    fn locate(&mut self, location: &Expr) -> Result<()> {
        let Some(Scalar::Text(path)) = scalar(location) else {
            return plan_err!("{} takes paths as texts, not {location}", self.function);
        };
        self.locations.push(path);
        Ok(())
    }

    fn set(&mut self, name: &str, value: &Expr) -> Result<()> {
        let name = name.to_ascii_lowercase();
        let Some(value) = scalar(value) else {
            let hint = "CREATE EXTERNAL TABLE declares columns";
            return plan_err!(
                "{}: the option {name} takes a text, a number or a truth value; {hint}",
                self.function
            );
        };
        let known = match self.reader {
            Reader::Rows(format) if format != "orc" => self.set_of_format(format, &name, &value),
            _ => false,
        };
        match known {
            true => Ok(()),
            // DataFusion's reader has no such option.
            false if name == "nullstr" => plan_err!(
                "{}: no option nullstr: write nullif(column, '{}')",
                self.function,
                value.text()
            ),
            false => plan_err!("{}: no option {name} = {}", self.function, value.text()),
        }
    }

    /// Sets an option. False: it is not known, or has no such value.
    fn set_of_format(&mut self, format: &str, name: &str, value: &Scalar) -> bool {
        let option = match (format, name) {
            (_, "filename") => match value {
                Scalar::Truth(has_names) => {
                    self.choice.has_names = *has_names;
                    return true;
                }
                _ => return false,
            },
            // Columns are always joined by name, folders always have their columns, formats are always looked at.
            (_, "union_by_name" | "hive_partitioning" | "auto_detect") => return *value == Scalar::Truth(true),
            ("csv", "delim" | "delimiter" | "sep") => "delimiter",
            ("csv", "header") => "has_header",
            ("csv", "quote" | "escape" | "comment") => name,
            ("csv" | "json", "compression") => "compression",
            ("csv" | "json", "sample_size") => "schema_infer_max_rec",
            ("json", "format") => {
                let is_list = match value.text().as_str() {
                    "auto" | "newline_delimited" | "nd" => false,
                    "array" => true,
                    _ => return false,
                };
                let lines = (!is_list).to_string();
                self.choice.options.insert("format.newline_delimited".to_owned(), lines);
                return true;
            }
            ("parquet", "binary_as_string") => name,
            _ => return false,
        };
        let value = match (option, value.text()) {
            ("schema_infer_max_rec", all) if all == "-1" => usize::MAX.to_string(),
            ("delimiter", tab) if tab == "\\t" => "\t".to_owned(),
            (_, value) => value,
        };
        self.choice.options.insert(format!("format.{option}"), value);
        true
    }

    /// The table.
    ///
    /// # Errors
    /// As [`file_table::open_as`].
    pub(crate) async fn open(&self, state: &SessionState) -> Result<Arc<dyn TableProvider>> {
        if let Reader::Rows(_) = self.reader {
            return file_table::open_as(state, &self.locations, &self.choice).await;
        }
        let found = find_files(state, &self.locations).await;
        let found = match self.reader {
            // A pattern that matches nothing has no names.
            Reader::Names => found.unwrap_or_default(),
            _ => found?,
        };
        if let Reader::Metadata(described) = self.reader {
            let rows = file_metadata::rows(described, &found).await?;
            return Ok(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?));
        }
        let names = StringArray::from_iter_values(found.iter().map(|file| file.name.as_ref()));
        let names: ArrayRef = Arc::new(names);
        let rows = match self.reader {
            Reader::Names => RecordBatch::try_from_iter([("file", names)])?,
            _ => {
                let mut contents = Vec::with_capacity(found.len());
                for file in &found {
                    contents.push(content(state, file).await?);
                }
                let sizes: ArrayRef = Arc::new(Int64Array::from_iter_values(contents.iter().map(|c| c.len() as i64)));
                let contents: ArrayRef = match self.reader {
                    Reader::Texts => Arc::new(texts(&found, &contents)?),
                    _ => Arc::new(BinaryArray::from_iter_values(&contents)),
                };
                RecordBatch::try_from_iter([("filename", names), ("content", contents), ("size", sizes)])?
            }
        };
        Ok(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))
    }
}

async fn content(state: &SessionState, file: &FoundFile) -> Result<Vec<u8>> {
    let failed = |error: &dyn std::fmt::Display| DataFusionError::Execution(format!("{}: {error}", file.name));
    match &file.place {
        Place::Local(path) => tokio::fs::read(path).await.map_err(|error| failed(&error)),
        Place::Remote { path, url, .. } => {
            let url = url::Url::parse(url).map_err(|error| failed(&error))?;
            let store = state.runtime_env().object_store_registry.get_store(&url)?;
            let object = store.get(path).await.map_err(|error| failed(&error))?;
            Ok(object.bytes().await.map_err(|error| failed(&error))?.to_vec())
        }
    }
}

fn texts(files: &[FoundFile], contents: &[Vec<u8>]) -> Result<StringArray> {
    let text = |(file, content)| {
        let file: &FoundFile = file;
        std::str::from_utf8(content)
            .map(Some)
            .map_err(|_| plan_datafusion_err!("{}: the content is no UTF-8; read_blob reads bytes", file.name))
    };
    files.iter().zip(contents.iter().map(Vec::as_slice)).map(text).collect()
}

/// The value of an option.
#[derive(Debug, PartialEq)]
enum Scalar {
    Text(String),
    Number(String),
    Truth(bool),
}

impl Scalar {
    fn text(&self) -> String {
        match self {
            Self::Text(text) | Self::Number(text) => text.clone(),
            Self::Truth(truth) => truth.to_string(),
        }
    }
}

fn scalar(expr: &Expr) -> Option<Scalar> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(Scalar::Text(text.clone())),
            Value::Number(number, _) => Some(Scalar::Number(number.clone())),
            Value::Boolean(truth) => Some(Scalar::Truth(*truth)),
            _ => None,
        },
        Expr::UnaryOp { expr, .. } => match scalar(expr)? {
            Scalar::Number(number) => Some(Scalar::Number(format!("-{number}"))),
            _ => None,
        },
        Expr::Identifier(word) => Some(Scalar::Text(word.value.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_files_and_options() {
        let call = FileCall::parse(
            "read_csv(['a.txt', 'b'], delim = ';', header := false, sample_size => -1, filename = true)",
        );
        let call = call.unwrap().unwrap();
        assert_eq!(call.locations, ["a.txt", "b"]);
        let mut options: Vec<_> = call
            .choice
            .options
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        options.sort();
        assert_eq!(
            options,
            [
                "format.delimiter ;",
                "format.has_header false",
                "format.schema_infer_max_rec 18446744073709551615"
            ]
        );
        assert!(call.choice.has_names);
        for (text, part) in [
            ("read_csv()", "takes the path"),
            ("read_csv(1)", "as texts"),
            ("read_csv('a', columns = {'a': 'INT'})", "CREATE EXTERNAL TABLE"),
            ("read_csv('a', colour = 'red')", "no option colour = red"),
            (
                "read_parquet('a', hive_partitioning = false)",
                "no option hive_partitioning = false",
            ),
            ("read_orc('a', filename = true)", "no option filename"),
        ] {
            let error = FileCall::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        for other in ["trips", "read_csv", "upper('a')", "read_csv('a') x"] {
            assert!(FileCall::parse(other).unwrap().is_none(), "{other}");
        }
    }
}
