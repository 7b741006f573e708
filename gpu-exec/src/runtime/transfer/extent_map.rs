//! `ExtentMap`: the extents of a column that kernels read by address. Neighbours in device memory become one extent,
//! since kernels search extents by row.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use grampus_cuda::{CudaError, Device, DeviceBuffer};
use grampus_io_stack::abi::Extent;

use crate::error::RunError;
use crate::input::Placement;
use crate::program::{Stored, Type, Value};
use crate::runtime::memory::constant_columns::{ConstantColumns, ConstantRun};
use crate::runtime::transfer::column_locator::{ColumnLocation, ColumnLocator};
use crate::runtime::transfer::window_plan::WindowPlan;

/// A column as kernels see it.
#[derive(Debug, Default)]
pub(crate) struct ExtentMap {
    pub(crate) extents: Vec<Extent>,
    /// A bit for each row, where the column may have NULLs in this input.
    pub(crate) valid: Vec<Extent>,
    pub(crate) nullable: bool,
    /// The constants' buffers that the extents point into. `ConstantColumns` may drop its own before the query ends.
    constants: Vec<Arc<DeviceBuffer>>,
}

impl ExtentMap {
    pub(crate) fn new(
        column: usize,
        columns: &ColumnLocator<'_>,
        windows: &WindowPlan,
        device: &Device,
        constants: &Mutex<ConstantColumns>,
    ) -> Result<Self, RunError> {
        let (ty, nullable) = (columns.ty(column), columns.nullable[column]);
        let bits = 8 * u64::from(columns.stored(column).bytes());
        let mut out = Self {
            nullable,
            ..Self::default()
        };
        let runs = Runs::of(column, columns, device, constants)?;
        out.constants = runs.buffers();
        let mut base = 0;
        for (at, stripe) in columns.request.input.stripes.iter().enumerate() {
            let same_validity = |out: &mut Self, valid: u64| {
                if nullable {
                    repeat(&mut out.valid, runs.validity.get(&valid), base, stripe.rows, (8, 1));
                }
            };
            match &columns.locations[at][column] {
                ColumnLocation::Nowhere => {}
                ColumnLocation::Pool(cached) => {
                    add(&mut out.extents, base, stripe.rows, cached.values.address(), bits);
                    match &cached.valid {
                        Some(valid) if nullable => add(&mut out.valid, base, stripe.rows, valid.address(), 1),
                        _ => same_validity(&mut out, ALL_VALID),
                    }
                }
                ColumnLocation::Mapped(address) => {
                    if let Placement::Direct(segments) = &stripe.columns[column] {
                        for segment in segments {
                            let (first, address) = (base + segment.first_row, address + segment.offset);
                            add(&mut out.extents, first, segment.rows, address, bits);
                        }
                        same_validity(&mut out, ALL_VALID);
                    }
                }
                ColumnLocation::Constant => {
                    if let Placement::Constant(value) = stripe.columns[column] {
                        let run = runs.values.get(&bits_of(value, ty, columns.stored(column)));
                        repeat(&mut out.extents, run, base, stripe.rows, (1, bits));
                        same_validity(&mut out, if value.is_some() { ALL_VALID } else { ALL_NULL });
                    }
                }
                ColumnLocation::Streamed(chunks) => {
                    if let Some(memory) = &windows.memory {
                        for chunk in chunks {
                            let (first, rows) = (base + chunk.rows.start, chunk.rows.end - chunk.rows.start);
                            let address = |offset: usize| memory.address() + offset as u64;
                            add(&mut out.extents, first, rows, address(chunk.values), bits);
                            if let Some(valid) = chunk.valid {
                                add(&mut out.valid, first, rows, address(valid), 1);
                            }
                        }
                        if chunks.iter().any(|chunk| chunk.valid.is_none()) {
                            same_validity(&mut out, ALL_VALID);
                        }
                    }
                }
            }
            base += stripe.rows;
        }
        Ok(out)
    }
}

/// Validity of eight rows.
const ALL_VALID: u64 = 0xFF;
const ALL_NULL: u64 = 0;

/// The constants of a column, by the bits of the value.
struct Runs {
    values: HashMap<u64, ConstantRun>,
    /// By the validity of eight rows, where the column may have NULLs.
    validity: HashMap<u64, ConstantRun>,
}

impl Runs {
    fn of(
        column: usize,
        columns: &ColumnLocator<'_>,
        device: &Device,
        constants: &Mutex<ConstantColumns>,
    ) -> Result<Self, CudaError> {
        let (ty, input) = (columns.ty(column), columns.request.input);
        let (mut values, mut most_rows) = (BTreeSet::new(), 0);
        for (stripe, locations) in input.stripes.iter().zip(&columns.locations) {
            if let (ColumnLocation::Constant, Placement::Constant(value)) =
                (&locations[column], &stripe.columns[column])
            {
                values.insert(bits_of(*value, ty, columns.stored(column)));
                most_rows = most_rows.max(stripe.rows);
            }
        }
        let values: Vec<u64> = values.into_iter().collect();
        // Each insertion is complete or absent.
        let mut constants = constants.lock().unwrap_or_else(PoisonError::into_inner);
        let mut runs = |width, values: &[u64], rows| match values {
            [] => Ok(HashMap::new()),
            _ => constants.runs(device, width, values, rows),
        };
        let validity: &[u64] = if columns.nullable[column] {
            &[ALL_NULL, ALL_VALID]
        } else {
            &[]
        };
        Ok(Self {
            values: runs(columns.stored(column).bytes(), &values, most_rows)?,
            validity: runs(1, validity, u64::MAX)?,
        })
    }

    fn buffers(&self) -> Vec<Arc<DeviceBuffer>> {
        let mut buffers: Vec<Arc<DeviceBuffer>> = Vec::new();
        for run in self.values.values().chain(self.validity.values()) {
            if !buffers.iter().any(|known| Arc::ptr_eq(known, &run.buffer)) {
                buffers.push(run.buffer.clone());
            }
        }
        buffers
    }
}

/// Bits of a value of a type in its layout, in the low bytes. NULL: zero.
fn bits_of(value: Option<Value>, ty: Type, stored: Stored) -> u64 {
    match (value, ty) {
        (Some(Value::Float(x)), _) if stored.float_bytes().is_some() => x as i64 as u64,
        (None, _) => 0,
        (Some(Value::Bool(b)), _) => u64::from(b),
        (Some(Value::Int(n)), _) => n as u64,
        (Some(Value::Float(x)), Type::Float32) => u64::from((x as f32).to_bits()),
        (Some(Value::Float(x)), _) => x.to_bits(),
    }
}

/// Appends rows of `bits` bits each at an address. Rows that follow the last extent's, in the table and in memory,
/// become part of that extent.
fn add(extents: &mut Vec<Extent>, first_row: u64, rows: u64, address: u64, bits: u64) {
    if let Some(last) = extents.last_mut()
        && last.first_row + last.rows == first_row
        && 8 * last.mapped + last.rows * bits == 8 * address
    {
        last.rows += rows;
        return;
    }
    extents.push(Extent {
        first_row,
        rows,
        mapped: address,
        ..Extent::default()
    });
}

/// Appends rows that all have the value of a run. A value of it stands for `each` rows of `bits` bits.
fn repeat(extents: &mut Vec<Extent>, run: Option<&ConstantRun>, first_row: u64, rows: u64, (each, bits): (u64, u64)) {
    let Some(run) = run else { return };
    let mut done = 0;
    while done < rows {
        let count = (each * run.rows).min(rows - done);
        add(extents, first_row + done, count, run.address(), bits);
        done += count;
    }
}
