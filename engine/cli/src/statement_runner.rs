//! Runner of one statement, from its text to its last printed row.
//!
//! 1. A worker parses, plans and executes the statement. Its stack is large enough for deep ones. It sends schema, rows
//!    and errors as [`StatementEvent`]s.
//! 2. The calling thread prints rows, draws the progress and listens for Ctrl-C at the same time.
//! 3. Once the table is full, the query goes on for at most [`MAX_COUNTING_TIME`] to count the rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use grampus::session::plan_cache::plan_statement;
use grampus::session::statement_parser::parse_statements;
use grampus::statement_events::{PlannedStatement, StatementEvent, statement_events};
use grampus::{ScanIo, scan_io};

use crate::column_headings::ColumnHeadings;
use crate::exit_error::ExitError;
use crate::interrupts::InterruptWatch;
use crate::progress::Progress;
use crate::result_writer::ResultWriter;
use crate::statement_splitter::InputText;
use crate::text_table::MoreRows;
use crate::threads::Threads;

/// Time in which a query may go on only to count the rows that are not printed.
const MAX_COUNTING_TIME: Duration = Duration::from_secs(1);
/// Time between two drawings of the progress.
const TICK: Duration = Duration::from_millis(100);

/// Rows, time and I/O of a finished statement.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StatementOutcome {
    /// Rows of the result; `None` if the statement has no result to count.
    pub(crate) rows: Option<u64>,
    /// Whether the statement was stopped before its end, after the last printed row.
    pub(crate) stopped: bool,
    /// Time from the text to the last row.
    pub(crate) time: Duration,
    /// The bytes, requests and rows of its scans.
    pub(crate) io: ScanIo,
}

/// Why a statement stopped. Errors of queries are not yet in words.
pub(crate) enum StatementError {
    Query(Box<DataFusionError>),
    Exit(ExitError),
}

impl From<ExitError> for StatementError {
    fn from(error: ExitError) -> Self {
        Self::Exit(error)
    }
}

/// Runs a statement. `open` gives the writer of its rows, for their schema and their plan.
pub(crate) async fn run<'a>(
    context: &SessionContext,
    threads: &Threads,
    input: &InputText,
    watch: &InterruptWatch,
    progress: &mut Progress,
    open: impl FnOnce(SchemaRef, &dyn ExecutionPlan) -> ResultWriter<'a>,
) -> Result<StatementOutcome, StatementError> {
    let start = Instant::now();
    let planned = plan(context.clone(), input.text.clone());
    let (work, mut events) = statement_events(input.text.clone(), planned);
    let task = threads.spawn(work);
    let mut printing = Printing::new(open);
    let mut tick = tokio::time::interval(TICK);
    let end = loop {
        tokio::select! {
            biased;
            () = watch.wait() => break Err(StatementError::Exit(ExitError::Interrupted)),
            event = events.recv() => match event {
                Some(StatementEvent::Done) => break Ok(()),
                // Rows without their end would be taken for the whole result.
                None => break Err(ended_early()),
                Some(StatementEvent::Failed(error)) => break Err(StatementError::Query(error)),
                Some(StatementEvent::Started(PlannedStatement { schema, plan, .. })) => {
                    progress.watch(&plan);
                    printing.begin(schema, plan);
                }
                Some(StatementEvent::Rows(batch)) => {
                    if !printing.rows(&batch, progress)? {
                        break Ok(());
                    }
                }
            },
            _ = tick.tick() => progress.draw(start.elapsed()),
        }
    };
    task.stop().await;
    progress.clear();
    end?;
    printing.finish(start)
}

/// Parses and plans the statement, on a worker.
async fn plan(context: SessionContext, text: String) -> datafusion::error::Result<Option<PlannedStatement>> {
    let Some(statement) = parse_statements(&context.state(), &text)?.pop() else {
        return Ok(None);
    };
    let headings = ColumnHeadings::of(&statement);
    let (plan, context) = plan_statement(&context, &text, statement).await?;
    let schema = headings.apply(&plan.schema());
    Ok(Some(PlannedStatement { schema, plan, context }))
}

/// The error of a worker that ends without a last message.
fn ended_early() -> StatementError {
    let ended = DataFusionError::Internal("the statement was stopped before its end".to_owned());
    StatementError::Query(Box::new(ended))
}

/// The printing side: counts rows and passes them to the result writer.
struct Printing<'a, F> {
    open: Option<F>,
    writer: Option<ResultWriter<'a>>,
    plan: Option<Arc<dyn ExecutionPlan>>,
    total: u64,
    full_since: Option<Instant>,
    stopped: bool,
}

impl<'a, F: FnOnce(SchemaRef, &dyn ExecutionPlan) -> ResultWriter<'a>> Printing<'a, F> {
    fn new(open: F) -> Self {
        Self {
            open: Some(open),
            writer: None,
            plan: None,
            total: 0,
            full_since: None,
            stopped: false,
        }
    }

    fn begin(&mut self, schema: SchemaRef, plan: Arc<dyn ExecutionPlan>) {
        if !schema.fields().is_empty() {
            self.writer = self.open.take().map(|open| open(schema, plan.as_ref()));
        }
        self.plan = Some(plan);
    }

    /// Takes rows. False if no more rows are needed.
    fn rows(&mut self, batch: &RecordBatch, progress: &mut Progress) -> Result<bool, ExitError> {
        self.total += batch.num_rows() as u64;
        let Some(writer) = &mut self.writer else {
            return Ok(true);
        };
        if !writer.is_full() {
            if writer.fills_the_terminal() {
                progress.clear();
                progress.hide();
            }
            writer.push(batch)?;
            return Ok(true);
        }
        let since = *self.full_since.get_or_insert_with(Instant::now);
        self.stopped = since.elapsed() > MAX_COUNTING_TIME;
        Ok(!self.stopped)
    }

    fn finish(self, start: Instant) -> Result<StatementOutcome, StatementError> {
        let rows = self
            .writer
            .as_ref()
            .filter(|writer| !writer.is_plan())
            .map(|_| self.total);
        if let Some(writer) = self.writer {
            let shown = writer.shown();
            let more = match self.total - shown.min(self.total) {
                0 => MoreRows::None,
                rows if self.stopped => MoreRows::AtLeast(rows),
                rows => MoreRows::Rows(rows),
            };
            writer.finish(more)?;
        }
        Ok(StatementOutcome {
            rows,
            stopped: self.stopped,
            time: start.elapsed(),
            io: self.plan.as_ref().map(scan_io).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;
    use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};

    use super::*;
    use crate::error_messages::{ErrorContext, explain};
    use crate::interrupts::{Interrupts, SignalMode};
    use crate::result_format::Format;
    use crate::result_writer::ResultStyle;

    /// A session with functions that return their argument, and panic for numbers above 20,000: `panics` in execution,
    /// `panics_early` in planning if the argument is constant.
    fn context() -> SessionContext {
        let context = grampus::session::context(grampus::GrampusConfig::default()).unwrap();
        let of_volatility = [
            ("panics", Volatility::Volatile),
            ("panics_early", Volatility::Immutable),
        ];
        for (name, volatility) in of_volatility {
            let work = |arguments: &[ColumnarValue]| {
                let numbers = ColumnarValue::values_to_arrays(arguments)?;
                let numbers: &arrow::array::Int64Array = arrow::array::AsArray::as_primitive(&numbers[0]);
                let most = numbers.iter().flatten().max().unwrap_or_default();
                assert!(most <= 20_000, "no number {most}");
                Ok(arguments[0].clone())
            };
            let function = create_udf(name, vec![DataType::Int64], DataType::Int64, volatility, Arc::new(work));
            context.register_udf(function);
        }
        context
    }

    /// What a statement prints, and its error in words.
    fn printed(context: &SessionContext, threads: &Threads, sql: &str) -> (String, Option<String>) {
        let mut output = Vec::new();
        let watch = Interrupts::listen(SignalMode::Ignored).unwrap().watch();
        let input = InputText {
            text: sql.to_owned(),
            line: 1,
            column: 1,
        };
        let mut progress = Progress::new(false);
        let ran = threads.block_on(run(context, threads, &input, &watch, &mut progress, |schema, plan| {
            let style = ResultStyle {
                format: Format::Csv,
                ..ResultStyle::default()
            };
            ResultWriter::new(&mut output, schema, plan, style)
        }));
        let error = match ran {
            Ok(_) => None,
            Err(StatementError::Query(error)) => Some(explain(&error, &ErrorContext::default()).message),
            Err(StatementError::Exit(_)) => Some("the program ends".to_owned()),
        };
        (String::from_utf8(output).unwrap(), error)
    }

    #[test]
    fn panics_end_their_statement_in_an_error_and_the_session_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let (context, threads) = (context(), Threads::start(Some(2)).unwrap());
        let series = "FROM generate_series(1, 30000) t(v)";
        let copy = folder.path().join("o.orc").display().to_string();
        for sql in [
            format!("SELECT panics(v) AS p {series}"),
            format!("SELECT count(*), v % 3 {series} WHERE panics(v) > 0 GROUP BY 2"),
            format!("SELECT v, panics(v) AS p {series} ORDER BY v % 7, v LIMIT 20000"),
            format!(
                "SELECT a.v FROM (SELECT v {series}) a JOIN (SELECT v {series} WHERE panics(v) > 0) b ON a.v = b.v"
            ),
            format!("SELECT sum(panics(v)) OVER (PARTITION BY v % 3) {series}"),
            format!("SELECT v {series} UNION ALL SELECT panics(v) {series}"),
            format!("COPY (SELECT panics(v) AS p {series}) TO '{copy}'"),
            format!("COPY (SELECT panics(v) AS p, v % 3 AS k {series}) TO '{copy}' STORED AS ORC PARTITIONED BY (k)"),
            format!("CREATE TABLE made AS SELECT panics(v) AS p {series}"),
            format!("EXPLAIN ANALYZE SELECT panics(v) {series}"),
            "SELECT panics_early(30000)".to_owned(),
            "CREATE TABLE made AS SELECT panics_early(30000)".to_owned(),
        ] {
            let (_, error) = printed(&context, &threads, &sql);
            let words = error.unwrap_or_else(|| panic!("no error: {sql}"));
            let beginning: String = sql.chars().take(40).collect();
            assert!(words.contains("no number "), "{sql}: {words}");
            assert!(words.contains(&beginning), "{sql}: {words}");
            assert!(
                std::fs::read_dir(folder.path()).unwrap().next().is_none(),
                "{sql} leaves a file"
            );
            assert_eq!(
                printed(&context, &threads, "SELECT 7 AS n"),
                ("n\n7\n".to_owned(), None)
            );
        }
    }
}
