//! Runs one statement: parses, plans and executes it beside the loop that prints its rows, draws its progress
//! and listens for Ctrl-C. What a statement means is DataFusion's business.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use futures::StreamExt;
use grampus::session::plan_cache::plan_statement;
use grampus::{ScanIo, scan_io};
use tokio::sync::mpsc;

use crate::exit_error::Failure;
use crate::interrupts::Watch;
use crate::result_writer::Sink;
use crate::progress::Progress;
use crate::threads::Threads;
use crate::statement_splitter::Piece;
use crate::text_table::More;

/// Batches that may wait to be printed.
const QUEUED_BATCHES: usize = 4;
/// How long a query may go on only to count the rows that are not printed.
const COUNTING_TIME: Duration = Duration::from_secs(1);
/// How often the progress is looked at.
const TICK: Duration = Duration::from_millis(100);

/// What a statement did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outcome {
    /// Rows of the result, if it has any meaning to count them.
    pub(crate) rows: Option<u64>,
    /// Whether the statement was stopped before its end because no more rows are printed.
    pub(crate) stopped: bool,
    /// From the text to the last row.
    pub(crate) time: Duration,
    /// What its scans read.
    pub(crate) io: ScanIo,
}

/// What the running statement tells the printing loop.
enum Event {
    Started(SchemaRef, Arc<dyn ExecutionPlan>),
    Rows(RecordBatch),
    Failed(Box<DataFusionError>),
}

/// Why a statement stopped, before it is put into words.
pub(crate) enum Stop {
    Query(Box<DataFusionError>),
    Failure(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// The statement that a piece of text is.
pub(crate) fn parse(context: &SessionContext, piece: &Piece) -> Result<Option<Statement>, Box<DataFusionError>> {
    let options = context.copied_config().options().sql_parser.clone();
    let dialect = datafusion::sql::sqlparser::dialect::dialect_from_str(options.dialect)
        .ok_or_else(|| DataFusionError::Configuration(format!("no SQL dialect named {}", options.dialect)))?;
    let mut parser = DFParserBuilder::new(piece.text.as_str())
        .with_dialect(dialect.as_ref())
        .with_recursion_limit(options.recursion_limit.get())
        .build()?;
    Ok(parser.parse_statements()?.pop_front())
}

/// Runs a statement and hands its rows to the sink that `sink` makes for their schema.
pub(crate) async fn run<'a>(
    context: &SessionContext,
    threads: &Threads,
    piece: &Piece,
    interrupt: &Watch,
    progress: &mut Progress,
    sink: impl FnOnce(SchemaRef) -> Sink<'a>,
) -> Result<Outcome, Stop> {
    let start = Instant::now();
    let Some(statement) = parse(context, piece).map_err(Stop::Query)? else {
        return Ok(Outcome::default());
    };
    let (sender, mut events) = mpsc::channel(QUEUED_BATCHES);
    let task = threads.spawn(work(context.clone(), piece.text.clone(), statement, sender));
    let mut printing = Printing::new(sink);
    let mut tick = tokio::time::interval(TICK);
    let end = loop {
        tokio::select! {
            biased;
            () = interrupt.wait() => break Err(Stop::Failure(Failure::Interrupted)),
            event = events.recv() => match event {
                None => break Ok(()),
                Some(Event::Failed(error)) => break Err(Stop::Query(error)),
                Some(Event::Started(schema, plan)) => {
                    progress.watch(&plan);
                    printing.begin(schema, plan);
                }
                Some(Event::Rows(batch)) => {
                    if !printing.rows(&batch, progress)? {
                        break Ok(());
                    }
                }
            },
            _ = tick.tick() => progress.draw(start.elapsed()),
        }
    };
    drop(task);
    progress.clear();
    end?;
    printing.finish(start)
}

/// The statement's side: everything that takes time.
async fn work(context: SessionContext, text: String, statement: Statement, events: mpsc::Sender<Event>) {
    let result = async {
        let (plan, task) = plan_statement(&context, &text, statement).await?;
        let schema = plan.schema();
        let mut stream = execute_stream(Arc::clone(&plan), task)?;
        if events.send(Event::Started(schema, plan)).await.is_err() {
            return Ok(());
        }
        while let Some(batch) = stream.next().await {
            if events.send(Event::Rows(batch?)).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    if let Err(error) = result.await {
        // The receiver is gone only when nobody wants to know.
        let _ = events.send(Event::Failed(Box::new(error))).await;
    }
}

/// The rows on their way to the sink.
struct Printing<'a, F> {
    make: Option<F>,
    sink: Option<Sink<'a>>,
    plan: Option<Arc<dyn ExecutionPlan>>,
    total: u64,
    full_since: Option<Instant>,
    stopped: bool,
}

impl<'a, F: FnOnce(SchemaRef) -> Sink<'a>> Printing<'a, F> {
    fn new(make: F) -> Self {
        Self {
            make: Some(make),
            sink: None,
            plan: None,
            total: 0,
            full_since: None,
            stopped: false,
        }
    }

    fn begin(&mut self, schema: SchemaRef, plan: Arc<dyn ExecutionPlan>) {
        self.plan = Some(plan);
        if !schema.fields().is_empty() {
            self.sink = self.make.take().map(|make| make(schema));
        }
    }

    /// Takes rows. False: enough.
    fn rows(&mut self, batch: &RecordBatch, progress: &mut Progress) -> Result<bool, Failure> {
        self.total += batch.num_rows() as u64;
        let Some(sink) = &mut self.sink else {
            return Ok(true);
        };
        if !sink.is_full() {
            if sink.fills_the_terminal() {
                progress.clear();
                progress.hide();
            }
            sink.push(batch)?;
            return Ok(true);
        }
        let since = *self.full_since.get_or_insert_with(Instant::now);
        self.stopped = since.elapsed() > COUNTING_TIME;
        Ok(!self.stopped)
    }

    fn finish(self, start: Instant) -> Result<Outcome, Stop> {
        let rows = self.sink.as_ref().filter(|sink| !sink.is_plan()).map(|_| self.total);
        if let Some(sink) = self.sink {
            let shown = sink.shown();
            let more = match self.total - shown.min(self.total) {
                0 => More::None,
                rows if self.stopped => More::AtLeast(rows),
                rows => More::Rows(rows),
            };
            sink.finish(more)?;
        }
        Ok(Outcome {
            rows,
            stopped: self.stopped,
            time: start.elapsed(),
            io: self.plan.as_ref().map(scan_io).unwrap_or_default(),
        })
    }
}
