//! The extents of columns that kernels read by address, from where bring.rs found or put their stripes. Neighbours in device memory
//! become one extent: kernels look extents up.

use grampus_io_stack::layout::Extent;

use crate::error::RunError;
use crate::input::Placement;
use crate::program::{Type, Value};
use crate::runtime::memory::constant_columns::{CONSTANT_ROWS, ConstantColumns};
use crate::runtime::transfer::transfer_plan::{Builder, ColumnLocation, ExtentMap};

/// Bytes of a value as a literal.
pub(crate) fn bits_of(value: Value, ty: Type) -> u64 {
    match (value, ty) {
        (Value::Bool(b), _) => u64::from(b),
        (Value::Int(n), _) => n as u64,
        (Value::Float(x), Type::Float32) => u64::from((x as f32).to_bits()),
        (Value::Float(x), _) => x.to_bits(),
    }
}

impl Builder<'_, '_> {
    /// The extents of a column that kernels read by address.
    pub(crate) fn layout(&mut self, column: usize) -> Result<ExtentMap, RunError> {
        let (ty, nullable) = (self.ty(column), self.nullable[column]);
        let width = u64::from(ty.width());
        let mut out = ExtentMap {
            nullable,
            ..ExtentMap::default()
        };
        for (stripe, s) in self.request.input.stripes.iter().enumerate() {
            let base = self.bases[stripe];
            let all_there =
                |out: &mut ExtentMap, constants: &mut ConstantColumns, there: u64| -> Result<(), RunError> {
                    if nullable {
                        repeat(
                            &mut out.valid,
                            constants.get(self.means.device, 1, there)?.address(),
                            base,
                            s.rows,
                            1,
                        );
                    }
                    Ok(())
                };
            match &self.places[stripe][column] {
                ColumnLocation::Nowhere => {}
                ColumnLocation::Resident(resident) => {
                    add(&mut out.extents, base, s.rows, resident.values.address(), width);
                    match &resident.valid {
                        Some(valid) if nullable => add(&mut out.valid, base, s.rows, valid.address(), 1),
                        _ => all_there(&mut out, self.means.constants, 1)?,
                    }
                }
                ColumnLocation::Mapped(address) => {
                    let Placement::Direct(segments) = &s.columns[column] else {
                        continue;
                    };
                    for segment in segments {
                        let first_row = base + segment.first_row;
                        add(
                            &mut out.extents,
                            first_row,
                            segment.rows,
                            address + segment.offset,
                            width,
                        );
                    }
                    all_there(&mut out, self.means.constants, 1)?;
                }
                ColumnLocation::Constant => {
                    let Placement::Constant(value) = s.columns[column] else {
                        continue;
                    };
                    let bits = value.map_or(0, |v| bits_of(v, ty));
                    let at = self.means.constants.get(self.means.device, ty.width(), bits)?.address();
                    repeat(&mut out.extents, at, base, s.rows, width);
                    all_there(&mut out, self.means.constants, u64::from(value.is_some()))?;
                }
                ColumnLocation::Transient(chunks) => {
                    let Some(piece) = &self.out.transient else { continue };
                    for (rows, values, valid) in chunks {
                        let (first, count) = (base + rows.start, rows.end - rows.start);
                        add(&mut out.extents, first, count, piece.address() + *values as u64, width);
                        if let Some(valid) = valid {
                            add(&mut out.valid, first, count, piece.address() + *valid as u64, 1);
                        }
                    }
                    if chunks.iter().any(|(_, _, valid)| valid.is_none()) {
                        all_there(&mut out, self.means.constants, 1)?;
                    }
                }
            }
        }
        Ok(out)
    }
}

/// Appends rows at an address; they become one extent with the rows before, if they follow them there too: kernels look extents up.
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

/// Appends rows that all have the value that a constant's buffer is full of.
fn repeat(extents: &mut Vec<Extent>, address: u64, first_row: u64, rows: u64, width: u64) {
    let mut done = 0;
    while done < rows {
        let count = CONSTANT_ROWS.min(rows - done);
        add(extents, first_row + done, count, address, width);
        done += count;
    }
}
