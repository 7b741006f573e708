//! [`Run`]: one execution of a query, and the stream of its batches.
//!
//! 1. A worker executes the plan and sends batches, a few at most in advance ([`statement_events`]).
//! 2. The consumer of the Arrow stream takes them, on any thread and with or without the interpreter lock.
//! 3. On Python's main thread, a wait looks for Ctrl-C and draws the progress every [`TICK`].
//!
//! **Invariant:** a stream ends without an error only after the worker's last message. A stopped worker is an error.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use grampus::statement_events::{PlannedStatement, StatementEvent, statement_events};
use grampus::{device_path, scan_io};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{self, error::TryRecvError};
use tokio::time::error::Elapsed;

use crate::c_data::stream::BatchSource;
use crate::capsules::{schema_capsule, stream_capsule};
use crate::error::{error, query_error, text};
use crate::interpreter::attached;
use crate::python_function;
use crate::threads::{TICK, Task, Threads, caller};

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    Done,
    /// The consumer dropped the stream before its end.
    Stopped,
    Failed,
}

/// What the stream and the report share.
struct Progress {
    stage: Stage,
    rows: u64,
    time: Duration,
    /// The exception behind the error that the consumer of the stream sees.
    pending: Option<PyErr>,
}

/// One execution of a query.
#[pyclass(frozen, module = "grampus._grampus")]
pub(crate) struct Run {
    schema: SchemaRef,
    plan: Arc<dyn ExecutionPlan>,
    progress: Arc<Mutex<Progress>>,
    source: Mutex<Option<RunSource>>,
}

/// The receiving side of a run.
struct RunSource {
    schema: SchemaRef,
    plan: Arc<dyn ExecutionPlan>,
    events: mpsc::Receiver<StatementEvent>,
    caller: Runtime,
    task: Option<Task<()>>,
    /// Keeps the workers running.
    _threads: Arc<Threads>,
    progress: Arc<Mutex<Progress>>,
    start: Instant,
    looked: Instant,
    /// The thread that may look for Ctrl-C: Python's main thread, if it started the run.
    main: Option<ThreadId>,
    /// Called with seconds, rows scanned, rows in all, bytes moved; with nothing at the end.
    draw: Option<Py<PyAny>>,
    rows_to_read: Option<u64>,
    /// Whether Ctrl-C is raised again once the consumer has returned to Python.
    repeats_interrupt: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run {
    /// Starts to execute a plan of the statement `text`.
    pub(crate) fn start(
        py: Python<'_>,
        threads: &Arc<Threads>,
        text: &str,
        (plan, context): (Arc<dyn ExecutionPlan>, Arc<TaskContext>),
        draw: Option<Py<PyAny>>,
        repeats_interrupt: bool,
    ) -> PyResult<Self> {
        let start = Instant::now();
        let schema = described(&plan);
        let planned = PlannedStatement {
            schema: Arc::clone(&schema),
            plan: Arc::clone(&plan),
            context,
        };
        let (work, events) = statement_events(text.to_owned(), async { Ok(Some(planned)) });
        let task = threads.spawn(work)?;
        let progress = Arc::new(Mutex::new(Progress {
            stage: Stage::Running,
            rows: 0,
            time: Duration::ZERO,
            pending: None,
        }));
        let source = RunSource {
            schema: Arc::clone(&schema),
            plan: Arc::clone(&plan),
            events,
            caller: caller()?,
            task: Some(task),
            _threads: Arc::clone(threads),
            progress: Arc::clone(&progress),
            start,
            looked: start,
            main: is_main_thread(py)?.then(|| std::thread::current().id()),
            rows_to_read: draw.as_ref().and_then(|_| rows_to_read(plan.as_ref())),
            draw,
            repeats_interrupt,
        };
        Ok(Self {
            schema,
            plan,
            progress,
            source: Mutex::new(Some(source)),
        })
    }
}

#[pymethods]
impl Run {
    /// The stream of the batches, once.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema; // a producer may ignore it
        let source = lock(&self.source).take();
        match source {
            Some(source) => stream_capsule(py, Box::new(source)),
            None => Err(error("the result was read before: execute the query again")),
        }
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    /// Raises the exception behind the stream's error, if there is one.
    fn raise_pending(&self) -> PyResult<()> {
        match lock(&self.progress).pending.take() {
            Some(pending) => Err(pending),
            None => Ok(()),
        }
    }

    /// Stage, rows, seconds, device, reason and I/O, as they are now.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let path = device_path(&self.plan);
        let io = scan_io(&self.plan);
        let report = PyDict::new(py);
        let progress = lock(&self.progress);
        report.set_item(
            "stage",
            match progress.stage {
                Stage::Running => "running",
                Stage::Done => "done",
                Stage::Stopped => "stopped",
                Stage::Failed => "failed",
            },
        )?;
        report.set_item("rows", progress.rows)?;
        report.set_item("seconds", progress.time.as_secs_f64())?;
        drop(progress);
        report.set_item("device", device_word(path.on_gpu))?;
        report.set_item("reason", path.reason)?;
        let counters = PyDict::new(py);
        counters.set_item("needed_bytes", io.needed_bytes)?;
        counters.set_item("moved_bytes", io.moved_bytes)?;
        counters.set_item("amplification", io.amplification())?;
        counters.set_item("read_requests", io.read_requests)?;
        counters.set_item("row_groups_total", io.row_groups_total)?;
        counters.set_item("row_groups_skipped", io.row_groups_skipped)?;
        counters.set_item("stripes_skipped", io.stripes_skipped)?;
        counters.set_item("rows_scanned", io.rows_scanned)?;
        counters.set_item("rows_passed", io.rows_passed)?;
        report.set_item("io", counters)?;
        Ok(report)
    }
}

fn device_word(on_gpu: bool) -> &'static str {
    if on_gpu { "gpu" } else { "cpu" }
}

/// The plan's schema with the planned device in its metadata.
fn described(plan: &Arc<dyn ExecutionPlan>) -> SchemaRef {
    let path = device_path(plan);
    let mut metadata = plan.schema().metadata().clone();
    metadata.insert("grampus.device".to_owned(), device_word(path.on_gpu).to_owned());
    if let Some(reason) = path.reason {
        metadata.insert("grampus.reason".to_owned(), reason);
    }
    Arc::new(Schema::new_with_metadata(plan.schema().fields().clone(), metadata))
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?;
    threading.call_method0("current_thread")?.eq(main)
}

/// Rows of the plan's leaves, if the statistics of every leaf have a number of rows.
fn rows_to_read(plan: &dyn ExecutionPlan) -> Option<u64> {
    let children = plan.children();
    if children.is_empty() {
        let statistics = StatisticsContext::new().compute(plan, &StatisticsArgs::new()).ok()?;
        return statistics.num_rows.get_value().map(|&rows| rows as u64);
    }
    children.into_iter().map(|child| rows_to_read(child.as_ref())).sum()
}

impl BatchSource for RunSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, String> {
        if lock(&self.progress).stage != Stage::Running {
            return Ok(None);
        }
        loop {
            if self.looked.elapsed() >= TICK {
                self.looked = Instant::now();
                self.tick()?;
            }
            match self.event() {
                Ok(Some(StatementEvent::Started(_))) => {}
                Ok(Some(StatementEvent::Rows(batch))) => {
                    lock(&self.progress).rows += batch.num_rows() as u64;
                    return Ok(Some(batch));
                }
                Ok(Some(StatementEvent::Done)) => {
                    self.end(Stage::Done);
                    return Ok(None);
                }
                Ok(Some(StatementEvent::Failed(failure))) => {
                    return Err(self.fail(query_error(&failure), text(&failure)));
                }
                Ok(None) => {
                    let words = "the query was stopped before its end".to_owned();
                    return Err(self.fail(error(words.clone()), words));
                }
                Err(_) => {}
            }
        }
    }
}

impl RunSource {
    /// The next message, if it comes within a [`TICK`].
    fn event(&mut self) -> Result<Option<StatementEvent>, Elapsed> {
        let Self { caller, events, .. } = self;
        match events.try_recv() {
            Ok(event) => return Ok(Some(event)),
            Err(TryRecvError::Disconnected) => return Ok(None),
            Err(TryRecvError::Empty) => {}
        }
        let mut wait = || caller.block_on(async { tokio::time::timeout(TICK, events.recv()).await });
        if !python_function::exist() {
            return wait();
        }
        // A consumer may hold the interpreter lock, for which a function of the query waits.
        match attached(|py| py.detach(&mut wait)) {
            Some(event) => event,
            None => wait(),
        }
    }

    /// Looks for Ctrl-C and draws the progress.
    fn tick(&mut self) -> Result<(), String> {
        if self.main != Some(std::thread::current().id()) {
            return Ok(());
        }
        let interrupted = attached(|py| {
            py.check_signals()?;
            if let Some(draw) = &self.draw {
                let io = scan_io(&self.plan);
                let arguments = (
                    self.start.elapsed().as_secs_f64(),
                    io.rows_scanned,
                    self.rows_to_read,
                    io.moved_bytes,
                );
                draw.call1(py, arguments)?;
            }
            Ok(())
        });
        match interrupted {
            Some(Err(exception)) => Err(self.fail(exception, "cancelled".to_owned())),
            _ => Ok(()),
        }
    }

    /// Stops the run. The consumer sees `words`; the exception waits for [`Run::raise_pending`].
    fn fail(&mut self, exception: PyErr, words: String) -> String {
        let is_interrupt = attached(|py| exception.is_instance_of::<PyKeyboardInterrupt>(py));
        self.end(Stage::Failed);
        if is_interrupt == Some(true) && self.repeats_interrupt {
            // The consumer raises an exception of its own; Python raises KeyboardInterrupt right after.
            attached(|py| {
                // `signal.raise_signal` would handle the signal before it returns.
                let raised = py
                    .import("_thread")
                    .and_then(|thread| thread.call_method0("interrupt_main"));
                drop(raised);
            });
        }
        lock(&self.progress).pending = Some(exception);
        words
    }

    fn end(&mut self, stage: Stage) {
        self.task = None;
        {
            let mut progress = lock(&self.progress);
            if progress.stage != Stage::Running {
                return;
            }
            progress.stage = stage;
            progress.time = self.start.elapsed();
        }
        if self.main == Some(std::thread::current().id())
            && let Some(draw) = self.draw.take()
        {
            attached(|py| draw.call0(py).map(drop));
        }
    }
}

impl Drop for RunSource {
    fn drop(&mut self) {
        self.end(Stage::Stopped);
    }
}
