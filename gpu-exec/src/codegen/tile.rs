//! Statements that load a tile and name the values of its rows.
//!
//! A loop over few columns keeps an array for each, which knows the extent used last. A loop whose groups have codes
//! keeps the rows that lie in one extent of every column (`Stretch`), which takes fewer registers.

use std::fmt::Write as _;

use super::expr::Emitter;
use super::statements::{Statements, cpp, stored};
use super::writer::Writer;
use crate::program::Type;

/// Declares the arrays of a tile's columns.
pub(super) fn declare_tiles(writer: &Writer<'_>, out: &mut String) {
    for &c in &writer.plan.tile_columns {
        let _ = writeln!(
            out,
            "    {} tiles_{c}(head.io, parameter.columns[{c}]);",
            writer.array(c)
        );
        if writer.shape.columns[c].nullable {
            let _ = writeln!(
                out,
                "    ColumnArray<u8, Mapped, true> valid_tiles_{c}(head.io, parameter.valid[{c}]);"
            );
        }
    }
}

/// Loads a tile, in statements at an indentation.
pub(super) fn load_tiles(writer: &Writer<'_>, out: &mut String, indent: usize) {
    let sequential = writer.plan.chunk_tiles > 1;
    let mut lines = Statements::new(indent);
    for &c in &writer.plan.tile_columns {
        let ty = stored(writer.program.columns[c].ty);
        lines.line(&format!("{ty} tile_{c}[K];"));
        lines.line(&format!(
            "if (!tiles_{c}.tile_anywhere<K, {sequential}>(row, rows, tile_{c})) return false;"
        ));
        if writer.shape.columns[c].nullable {
            lines.line(&format!("u8 valid_tile_{c}[K];"));
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

/// Names the tile's values of one row.
pub(super) fn tile_values(writer: &Writer<'_>, e: &mut Emitter<'_>, named: Named) {
    let value = |name: String| match named {
        Named::ByIndex => format!("{name}[i]"),
        Named::Picked => format!("pick({name}, i)"),
    };
    for &c in &writer.plan.tile_columns {
        let ty = writer.program.columns[c].ty;
        let is_true = if ty == Type::Bool { " != 0" } else { "" };
        e.line(&format!(
            "const {} c{c} = {}{is_true};",
            cpp(ty),
            value(format!("tile_{c}"))
        ));
        if writer.shape.columns[c].nullable {
            e.line(&format!(
                "const bool ok{c} = {} != 0;",
                value(format!("valid_tile_{c}"))
            ));
        }
    }
}

/// A column of a tile, or the bytes that mark its values.
struct TileArray {
    /// `c` for a value, `valid_c` …
    name: String,
    /// The description in the kernel's parameter.
    desc: String,
    /// C++ type of a value in memory.
    ty: &'static str,
    /// Bytes of a value.
    width: u32,
    aligned: bool,
}

fn tile_arrays(writer: &Writer<'_>) -> Vec<TileArray> {
    let mut arrays = Vec::new();
    for &c in &writer.plan.tile_columns {
        let (ty, shape) = (writer.program.columns[c].ty, &writer.shape.columns[c]);
        arrays.push(TileArray {
            name: format!("tile_{c}"),
            desc: format!("parameter.columns[{c}]"),
            ty: stored(ty),
            width: ty.width(),
            aligned: shape.aligned,
        });
        if shape.nullable {
            arrays.push(TileArray {
                name: format!("valid_tile_{c}"),
                desc: format!("parameter.valid[{c}]"),
                ty: "u8",
                width: 1,
                aligned: true,
            });
        }
    }
    arrays
}

/// Declares what the loop over tiles keeps of the columns.
pub(super) fn declare_stretch(writer: &Writer<'_>, out: &mut String) {
    out.push_str("    Stretch stretch = {0, 0};\n");
    for array in tile_arrays(writer) {
        let _ = writeln!(out, "    u64 of_{} = 0;", array.name);
    }
}

/// Loads a tile by the stretch.
pub(super) fn load_tiles_of_stretch(writer: &Writer<'_>, out: &mut String) {
    let arrays = tile_arrays(writer);
    let mut lines = Statements::new(2);
    lines.line("if (!stretch.has(row, TILE_ROWS)) {");
    lines.line("    stretch = Stretch{0, ~0ull};");
    for TileArray { name, desc, width, .. } in &arrays {
        lines.line(&format!("    of_{name} = stretch.narrow({desc}, row, {width});"));
    }
    lines.line("}");
    for TileArray { name, ty, .. } in &arrays {
        lines.line(&format!("{ty} {name}[K];"));
    }
    lines.line("if (rows == TILE_ROWS && stretch.has(row, TILE_ROWS)) {");
    for array in &arrays {
        let TileArray { name, ty, aligned, .. } = array;
        lines.line(&format!(
            "    ColumnArray<{ty}, Mapped, {aligned}>::load_whole<K>(of_{name}, row, {name});"
        ));
    }
    lines.line("} else {");
    for TileArray { name, desc, .. } in &arrays {
        lines.line(&format!(
            "    if (!tile_value_by_value<Mapped>(head.io, {desc}, row, rows, {name})) return false;"
        ));
    }
    // After out-of-line calls the stretch starts afresh, so that nothing of it lives across them.
    lines.line("    stretch = Stretch{0, 0};");
    lines.line("}");
    out.push_str(&lines.out);
}
