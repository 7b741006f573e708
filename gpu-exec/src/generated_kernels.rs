//! `GeneratedKernels`: the kernels of queries that ran, so that the next query of the same shape generates no source.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::codegen::{QueryKernel, Shape};
use crate::error::RunError;
use crate::program::Program;

/// Programs whose kernels are kept, at most. When there are more, all are dropped.
const MAX_PROGRAMS: usize = 256;

/// Kernels by program and shape. Threads share them.
#[derive(Debug, Default)]
pub(crate) struct GeneratedKernels(Mutex<HashMap<Program, HashMap<Shape, Arc<QueryKernel>>>>);

impl GeneratedKernels {
    /// The kernel of a program over columns of a shape.
    ///
    /// # Errors
    /// As [`QueryKernel::generate`]'s.
    pub(crate) fn get(&self, program: &Program, shape: &Shape) -> Result<Arc<QueryKernel>, RunError> {
        if let Some(kernel) = self.lock().get(program).and_then(|kernels| kernels.get(shape)) {
            return Ok(Arc::clone(kernel));
        }
        let kernel = Arc::new(QueryKernel::generate(program, shape)?);
        let mut known = self.lock();
        if known.len() >= MAX_PROGRAMS && !known.contains_key(program) {
            known.clear();
        }
        let kernels = known.entry(program.clone()).or_default();
        kernels.insert(shape.clone(), Arc::clone(&kernel));
        Ok(kernel)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Program, HashMap<Shape, Arc<QueryKernel>>>> {
        // Each insertion is complete or absent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
