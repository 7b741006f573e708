//! `ExtentMap`: the extents of a column that kernels read by address. Neighbours in device memory become one extent,
//! since kernels search extents by row.

use std::sync::Arc;

use grampus_io_stack::abi::Extent;
use grampus_io_stack::cuda::{CudaError, Device, DeviceBuffer};

use crate::error::RunError;
use crate::input::Placement;
use crate::program::{Type, Value};
use crate::runtime::memory::constant_columns::{CONSTANT_ROWS, ConstantColumns};
use crate::runtime::transfer::column_locator::{ColumnLocation, ColumnLocator};
use crate::runtime::transfer::window_plan::WindowPlan;

/// A column as kernels see it.
#[derive(Debug, Default)]
pub(crate) struct ExtentMap {
    pub(crate) extents: Vec<Extent>,
    /// A byte for each row, where the column may have NULLs in this input.
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
        constants: &mut ConstantColumns,
    ) -> Result<Self, RunError> {
        let (ty, nullable) = (columns.ty(column), columns.nullable[column]);
        let width = u64::from(ty.width());
        let mut out = Self {
            nullable,
            ..Self::default()
        };
        let mut base = 0;
        for (at, stripe) in columns.request.input.stripes.iter().enumerate() {
            let same_validity = |out: &mut Self, constants: &mut ConstantColumns, valid: u64| -> Result<(), RunError> {
                if nullable {
                    let address = out.constant(constants, device, 1, valid)?;
                    repeat(&mut out.valid, address, base, stripe.rows, 1);
                }
                Ok(())
            };
            match &columns.locations[at][column] {
                ColumnLocation::Nowhere => {}
                ColumnLocation::Pool(cached) => {
                    add(&mut out.extents, base, stripe.rows, cached.values.address(), width);
                    match &cached.valid {
                        Some(valid) if nullable => add(&mut out.valid, base, stripe.rows, valid.address(), 1),
                        _ => same_validity(&mut out, constants, 1)?,
                    }
                }
                ColumnLocation::Mapped(address) => {
                    if let Placement::Direct(segments) = &stripe.columns[column] {
                        for segment in segments {
                            let (first, address) = (base + segment.first_row, address + segment.offset);
                            add(&mut out.extents, first, segment.rows, address, width);
                        }
                        same_validity(&mut out, constants, 1)?;
                    }
                }
                ColumnLocation::Constant => {
                    if let Placement::Constant(value) = stripe.columns[column] {
                        let bits = value.map_or(0, |value| bits_of(value, ty));
                        let address = out.constant(constants, device, ty.width(), bits)?;
                        repeat(&mut out.extents, address, base, stripe.rows, width);
                        same_validity(&mut out, constants, u64::from(value.is_some()))?;
                    }
                }
                ColumnLocation::Streamed(chunks) => {
                    if let Some(memory) = &windows.memory {
                        for chunk in chunks {
                            let (first, rows) = (base + chunk.rows.start, chunk.rows.end - chunk.rows.start);
                            let address = |offset: usize| memory.address() + offset as u64;
                            add(&mut out.extents, first, rows, address(chunk.values), width);
                            if let Some(valid) = chunk.valid {
                                add(&mut out.valid, first, rows, address(valid), 1);
                            }
                        }
                        if chunks.iter().any(|chunk| chunk.valid.is_none()) {
                            same_validity(&mut out, constants, 1)?;
                        }
                    }
                }
            }
            base += stripe.rows;
        }
        Ok(out)
    }

    /// The address of a constant's buffer, which stays allocated as long as this value.
    fn constant(
        &mut self,
        constants: &mut ConstantColumns,
        device: &Device,
        width: u32,
        bits: u64,
    ) -> Result<u64, CudaError> {
        let buffer = constants.get(device, width, bits)?;
        let address = buffer.address();
        if self.constants.last().is_none_or(|last| !Arc::ptr_eq(last, &buffer)) {
            self.constants.push(buffer);
        }
        Ok(address)
    }
}

/// Bytes of a value as a literal.
fn bits_of(value: Value, ty: Type) -> u64 {
    match (value, ty) {
        (Value::Bool(b), _) => u64::from(b),
        (Value::Int(n), _) => n as u64,
        (Value::Float(x), Type::Float32) => u64::from((x as f32).to_bits()),
        (Value::Float(x), _) => x.to_bits(),
    }
}

/// Appends rows at an address. Rows that follow the last extent's, in the table and in memory, become part of that
/// extent.
fn add(extents: &mut Vec<Extent>, first_row: u64, rows: u64, address: u64, width: u64) {
    if let Some(last) = extents.last_mut()
        && last.first_row + last.rows == first_row
        && last.mapped + last.rows * width == address
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

/// Appends rows that all have the value of which a constant's buffer is full.
fn repeat(extents: &mut Vec<Extent>, address: u64, first_row: u64, rows: u64, width: u64) {
    let mut done = 0;
    while done < rows {
        let count = CONSTANT_ROWS.min(rows - done);
        add(extents, first_row + done, count, address, width);
        done += count;
    }
}
