//! A device that refuses, fails, or waits to be cancelled, for tests of the operator and the optimizer rule.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow::array::{Float64Array, RecordBatch};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use grampus_cuda::CudaError;
use grampus_gpu_exec::input::Input;
use grampus_gpu_exec::program::Program;
use grampus_gpu_exec::{Backing, ColumnChoice, Output, RefusalReason, Request, RunError, RunPreview, Shortage};
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};

use crate::Grampus;
use crate::config::{Device, GrampusConfig, GrampusOptions};
use crate::gpu::runner::Runner;
use crate::gpu::session::GpuSession;

/// The behaviour of the fake device in a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Behaviour {
    Refuses,
    Fails,
    WaitsForCancel,
    CannotOpen,
    /// A kernel fails, and with it the process's context.
    Dies,
    /// Columns are resident after a run.
    Loads,
    /// There is room for the columns of one program: the last one that was loaded. If they are resident, a run is
    /// refused, so that the CPU answers.
    HoldsOne,
    /// As [`HoldsOne`](Self::HoldsOne), but the first run finds too little memory.
    ShortOnce,
    /// As [`HoldsOne`](Self::HoldsOne), but programs of two aggregates fail.
    RefusesTwo,
}

#[derive(Debug)]
pub(crate) struct FakeDevice {
    behaviour: Behaviour,
    /// Runs that have begun.
    pub(crate) begun: AtomicUsize,
    /// Runs that have ended.
    pub(crate) ended: AtomicUsize,
    /// Of all runs.
    pub(crate) inputs: Mutex<Vec<Arc<Input>>>,
    /// The programs whose columns were loaded, one for each load.
    pub(crate) loads: Mutex<Vec<Program>>,
}

impl FakeDevice {
    fn is_loaded(&self, program: &Program) -> bool {
        match self.behaviour {
            Behaviour::Loads => self.ended.load(Ordering::Relaxed) > 0,
            _ => self.loads.lock().unwrap().last() == Some(program),
        }
    }

    /// A run on a device with room for one program's columns.
    fn run_of_one(&self, program: &Program) -> Result<Output, RunError> {
        let is_first = self.begun.load(Ordering::Relaxed) == 1;
        if matches!(self.behaviour, Behaviour::ShortOnce) && is_first {
            return Err(Shortage::Columns {
                needed: 2,
                available: 1,
            }
            .into());
        }
        let is_refused = matches!(self.behaviour, Behaviour::RefusesTwo) && program.aggregates.len() == 2;
        if is_refused || self.is_loaded(program) {
            return Err(RefusalReason::ValueOutOfRange.into());
        }
        self.loads.lock().unwrap().push(program.clone());
        Ok(Output {
            groups: 1,
            keys: Vec::new(),
            aggregates: Vec::new(),
            cost: grampus_gpu_exec::output::Cost::default(),
        })
    }
}

impl Runner for FakeDevice {
    fn name(&self) -> String {
        "a fake".to_owned()
    }

    fn is_open(&self) -> bool {
        match self.behaviour {
            Behaviour::CannotOpen => false,
            Behaviour::Dies => self.begun.load(Ordering::Relaxed) == 0,
            _ => true,
        }
    }

    fn plan(&self, request: &Request<'_>) -> Result<RunPreview, RunError> {
        let choice = ColumnChoice {
            backing: match self.behaviour {
                Behaviour::Fails | Behaviour::CannotOpen | Behaviour::Dies => Backing::Mapped,
                _ => Backing::Resident,
            },
            granularity_bytes: 32,
            estimated_bytes: 1000,
            // As over a link of 5 KB/s.
            estimated_time: match self.is_loaded(request.program) {
                true => Duration::ZERO,
                false => Duration::from_millis(200),
            },
            scan_time: Duration::ZERO,
            resident_bytes: 0,
            reason: String::new(),
        };
        Ok(RunPreview {
            columns: vec![choice; request.program.columns.len()],
            kernel_shape: "by row".to_owned(),
            coded_groups: None,
            is_compiled: true,
        })
    }

    fn run(&self, request: &Request<'_>) -> Result<Output, RunError> {
        let begun = Instant::now();
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.inputs.lock().unwrap().push(Arc::clone(request.input));
        let error = match self.behaviour {
            Behaviour::Refuses => RunError::Refused(RefusalReason::ValueOutOfRange),
            Behaviour::CannotOpen => RunError::Cuda(CudaError::NoDriver("it is gone".to_owned())),
            Behaviour::Dies => RunError::Cuda(CudaError::Call {
                call: "cuStreamSynchronize",
                code: 700,
                text: "an illegal memory access was encountered".to_owned(),
                detail: String::new(),
            }),
            Behaviour::Fails => RunError::Invalid("it is broken".to_owned()),
            Behaviour::HoldsOne | Behaviour::ShortOnce | Behaviour::RefusesTwo => {
                let ran = self.run_of_one(request.program);
                self.ended.fetch_add(1, Ordering::Relaxed);
                return ran;
            }
            Behaviour::Loads => {
                self.ended.fetch_add(1, Ordering::Relaxed);
                return Ok(Output {
                    groups: 1,
                    keys: Vec::new(),
                    aggregates: Vec::new(),
                    cost: grampus_gpu_exec::output::Cost::default(),
                });
            }
            Behaviour::WaitsForCancel => loop {
                if request.cancel.load(Ordering::Relaxed) {
                    break RunError::Cancelled;
                }
                if begun.elapsed() > Duration::from_secs(30) {
                    break RunError::Invalid("not cancelled".to_owned());
                }
                std::thread::sleep(Duration::from_millis(1));
            },
        };
        self.ended.fetch_add(1, Ordering::Relaxed);
        Err(error)
    }

    fn kernel_source(&self, _: &Request<'_>) -> Result<String, RunError> {
        Ok("no kernel".to_owned())
    }
}

/// A session with the fake device and a table `t` of a thousand rows.
pub(crate) async fn session(folder: &Path, device: Device, behaviour: Behaviour) -> (SessionContext, Arc<FakeDevice>) {
    let (context, fake, _) = runtime(folder, device, behaviour).await;
    (context, fake)
}

/// As [`session`], with its runtime.
pub(crate) async fn runtime(
    folder: &Path,
    device: Device,
    behaviour: Behaviour,
) -> (SessionContext, Arc<FakeDevice>, Grampus) {
    let fake = Arc::new(FakeDevice {
        behaviour,
        begun: AtomicUsize::new(0),
        ended: AtomicUsize::new(0),
        inputs: Mutex::default(),
        loads: Mutex::default(),
    });
    let gpu = Arc::new(GpuSession::default());
    let options = GrampusOptions {
        device,
        cache_folder: folder.display().to_string(),
        ..GrampusOptions::default()
    };
    gpu.preset(&options, Arc::clone(&fake) as Arc<dyn Runner>);
    let builder = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_target_partitions(3))
        .with_default_features();
    let grampus = grampus_of(options, gpu);
    let context = SessionContext::new_with_state(grampus.register(builder).build());
    let column: Arc<Float64Array> = Arc::new(Float64Array::from_iter_values((0..1000).map(f64::from)));
    let rows = RecordBatch::try_from_iter([("x", column as _)]).unwrap();
    add_table(&context, folder, "t", &rows).await;
    (context, fake, grampus)
}

/// Writes rows to a file of `folder` and registers it.
pub(crate) async fn add_table(context: &SessionContext, folder: &Path, name: &str, rows: &RecordBatch) {
    let path = folder.join(format!("{name}.orc"));
    let options = Some(WriterProperties::default());
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), rows.schema(), options).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
    crate::session::register_orc(context, name, &path.display().to_string())
        .await
        .unwrap();
}

/// A runtime whose GPU state is `gpu`.
pub(crate) fn grampus_of(options: GrampusOptions, gpu: Arc<GpuSession>) -> Grampus {
    let config = GrampusConfig {
        options,
        ..GrampusConfig::default()
    };
    Grampus::builder().config(config).gpu(gpu).build().unwrap()
}
