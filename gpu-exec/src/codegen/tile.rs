//! Statements that load a tile and name the values of its rows.
//!
//! A loop over few columns keeps an array for each, which knows the extent used last. A loop whose groups have codes
//! goes over rows that lie in one extent of every column (`Stretch`).

use std::fmt::Write as _;

use super::expr::Emitter;
use super::statements::{Statements, cpp_held, stored};
use super::writer::{Writer, mask_of};
use crate::program::{Program, Type};

/// Declares the arrays of a tile's columns.
pub(super) fn declare_tiles(writer: &Writer<'_>, out: &mut String) {
    for &c in &writer.plan.tile_columns {
        let _ = writeln!(
            out,
            "    {} tiles_{c}(head.io, parameter.columns[{c}]);",
            writer.array(c)
        );
        if writer.shape.columns[c].nullable {
            let _ = writeln!(out, "    ValidityArray valid_tiles_{c}(head.io, parameter.valid[{c}]);");
        }
    }
}

/// Loads a tile, in statements at an indentation.
pub(super) fn load_tiles(writer: &Writer<'_>, out: &mut String, indent: usize) {
    let sequential = writer.plan.chunk_tiles > 1;
    let mut lines = Statements::new(indent);
    for &c in &writer.plan.tile_columns {
        let ty = stored(&writer.program.columns[c]);
        lines.line(&format!("{ty} tile_{c}[K];"));
        let stop = match writer.shape.columns[c].access.by_loads() {
            true => "",
            false => ", tiles.stop()", // nothing is asked for behind the run
        };
        lines.line(&format!(
            "if (!tiles_{c}.tile_anywhere<K, {sequential}>(row, rows, tile_{c}{stop})) return false;"
        ));
        if writer.shape.columns[c].nullable {
            lines.line(&format!("u32 valid_tile_{c};"));
            lines.line(&format!(
                "if (!valid_tiles_{c}.tile_anywhere<K>(row, rows, valid_tile_{c})) return false;"
            ));
        }
    }
    out.push_str(&lines.out);
}

/// Ways to name a value of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// By an index that an unrolled loop makes constant.
    ByIndex,
    /// By an index that varies.
    Picked,
}

/// The name of a float's value of a row as an integer, if it is one in memory.
pub(super) fn whole_name(program: &Program, column: usize) -> Option<String> {
    let stored = program.columns[column].stored;
    stored.float_bytes().map(|_| format!("whole{column}"))
}

/// Names the tile's values of one row.
pub(super) fn tile_values(writer: &Writer<'_>, e: &mut Emitter<'_>, named: Named) {
    let value = |name: String| match named {
        Named::ByIndex => format!("{name}[i]"),
        Named::Picked => format!("pick({name}, i)"),
    };
    for &c in &writer.plan.tile_columns {
        let ty = writer.program.columns[c].ty;
        let is_true = if ty == Type::Bool { " != 0" } else { "" };
        let mut value = value(format!("tile_{c}"));
        if let Some(whole) = whole_name(writer.program, c) {
            e.line(&format!("const i32 {whole} = {value};"));
            value = whole;
        }
        e.line(&format!("const {} c{c} = {value}{is_true};", cpp_held(ty)));
        if writer.shape.columns[c].nullable {
            e.line(&format!("const bool ok{c} = (valid_tile_{c} >> i & 1) != 0;"));
        }
    }
}

/// A column of a tile, or its validity.
struct TileArray {
    /// `tile_c` for values, `valid_tile_c` for validity.
    name: String,
    /// Declaration of the variable that holds the tile.
    declaration: String,
    /// C++ type of the array.
    array: String,
}

/// The arrays of a tile: columns first, then their validity (`find_stretch` of device/tiles.cuh).
fn tile_arrays(writer: &Writer<'_>) -> Vec<TileArray> {
    let columns = writer.plan.tile_columns.iter().map(|&c| {
        let (ty, aligned) = (stored(&writer.program.columns[c]), writer.shape.columns[c].aligned);
        TileArray {
            name: format!("tile_{c}"),
            declaration: format!("{ty} tile_{c}[K]"),
            array: format!("ColumnArray<{ty}, Mapped, {aligned}>"),
        }
    });
    let valid = writer
        .nullable(&writer.plan.tile_columns)
        .into_iter()
        .map(|c| TileArray {
            name: format!("valid_tile_{c}"),
            declaration: format!("u32 valid_tile_{c}"),
            array: "ValidityArray".to_owned(),
        });
    columns.chain(valid).collect()
}

/// Finds the stretch around `row`, and the places of the columns' values in it.
pub(super) fn stretch(writer: &Writer<'_>, out: &mut String) {
    let arrays = tile_arrays(writer);
    let columns = &writer.plan.tile_columns;
    let mask = |columns: &[usize]| mask_of(columns).unwrap_or(0);
    let mut lines = Statements::new(3);
    lines.line(&format!("u64 origin[{}];", arrays.len().max(1)));
    lines.line("const Stretch stretch = far_call(&find_stretch)(");
    lines.line(&format!(
        "    parameter.columns, {:#x}ull, parameter.valid, {:#x}ull, row, origin);",
        mask(columns),
        mask(&writer.nullable(columns))
    ));
    for (at, TileArray { name, .. }) in arrays.iter().enumerate() {
        lines.line(&format!("const u64 of_{name} = origin[{at}];"));
    }
    out.push_str(&lines.out);
}

/// Loads the whole tile at `row` by the stretch.
pub(super) fn load_tile(writer: &Writer<'_>, out: &mut String) {
    let arrays = tile_arrays(writer);
    let mut lines = Statements::new(5);
    for of in &arrays {
        let TileArray {
            name,
            declaration,
            array,
        } = of;
        lines.line(&format!("{declaration};"));
        lines.line(&format!("{array}::load_whole<K>(of_{name}, row, {name});"));
    }
    out.push_str(&lines.out);
}
