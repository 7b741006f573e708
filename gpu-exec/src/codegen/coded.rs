//! The parts of a dense kernel whose groups have codes: rows go from the tile into tables in shared memory.
//!
//! 1. The outer loop takes the rows of consecutive tiles, and finds where the columns have them.
//! 2. The inner loop loads one whole tile after the other, computes the number of each row's group, and adds the row to
//!    the table. This loop calls no function, so that the compiler spills nothing in it.
//! 3. A tile with a row whose key has no code ends the inner loop. A function out of line adds these rows to the group
//!    table. The same function adds tiles that are not whole.
//! 4. The entry begins and ends the tables around the loops. A second entry merges what they left.

use super::expr::Emitter;
use super::group_codes::number_group;
use super::tile::{Named, declare_tiles, load_tile, load_tiles, stretch, tile_values};
use super::writer::{ENTRY_FUNCTION, Writer};
use super::{ENTRY, MERGE_ENTRY, TableScope, aggregate};
use crate::error::RunError;

/// The type of a kernel's tables.
fn tables(scope: TableScope) -> &'static str {
    match scope {
        TableScope::Lane => "LaneGroups<Words>",
        TableScope::Warp => "WarpGroups<Words>",
        TableScope::Block => "BlockGroups<Words>",
    }
}

/// Declares the type of the tables.
pub(super) fn declaration(scope: TableScope) -> String {
    format!("typedef {} Groups;\n\n", tables(scope))
}

/// Statements from a row's values to its group: filter, words, number of the group, addition.
fn add_row(writer: &Writer<'_>, e: &mut Emitter<'_>) -> Result<(), RunError> {
    writer.narrow(e, &writer.plan.tile_conjuncts)?;
    if !writer.plan.tile_conjuncts.is_empty() {
        e.line("passed += active ? 1 : 0;");
    }
    e.line("u64 word[Words::COUNT];");
    aggregate::words(writer, e)?;
    number_group(writer, e)?;
    e.line("groups.add(parameter.codes, inside, group, word);");
    Ok(())
}

/// The loops over tiles.
pub(super) fn run(writer: &Writer<'_>) -> Result<String, RunError> {
    let mut row = writer.emitter(6);
    tile_values(writer, &mut row, Named::ByIndex);
    row.line("bool active = true;");
    add_row(writer, &mut row)?;
    row.line("if (active && !inside) strange |= 1u << i;");
    let may_refuse = row.statements.may_refuse;
    let mut out = String::from(
        "// False: a status is up, or the query is refused.\n\
         GRAMPUS_DEVICE bool run(const QueryParameter& parameter, u64* memory) {\n    \
         const QueryHead& head = parameter.head;\n    Groups groups(memory, parameter.codes);\n",
    );
    writer.load_arguments(&mut out, false, writer.program.expressions());
    out.push_str(OUTER_LOOP);
    stretch(writer, &mut out);
    out.push_str(BROKEN_TILES);
    if may_refuse {
        out.push_str("                bool refused = false;\n");
    }
    out.push_str("                GRAMPUS_NO_UNROLL\n                while (row < last) {\n");
    load_tile(writer, &mut out);
    out.push_str("                    row += TILE_ROWS;\n                    GRAMPUS_UNROLL\n");
    out.push_str("                    for (u32 i = 0; i < K; i++) {\n");
    out.push_str(&row.statements.out);
    out.push_str("                    }\n");
    out.push_str(match may_refuse {
        true => {
            "                    if (any(strange != 0 || refused)) break;\n                }\n                \
             if (leaves(head, refused)) return false;\n"
        }
        false => "                    if (any(strange != 0)) break;\n                }\n",
    });
    out.push_str(STRANGE_ROWS);
    out.push_str(match writer.plan.tile_conjuncts.is_empty() {
        true => "    count_rows(head, looked, lane_id() == 0 ? (u32)looked : 0);\n",
        false => "    count_rows(head, looked, passed);\n",
    });
    out.push_str("    return true;\n}\n\n");
    Ok(out)
}

/// Begin of the outer loop.
const OUTER_LOOP: &str = "    u64 row = 0, rows = 0, looked = 0;
    u32 passed = 0;
    Tiles<TILE_ROWS, CHUNK> tiles(head);
    GRAMPUS_NO_UNROLL
    while (tiles.take_chunk(row, rows)) {
        looked += rows;
        const u64 end = row + rows;
        GRAMPUS_NO_UNROLL
        while (row < end) {
";
/// Tiles that are not whole, or lie in two extents.
const BROKEN_TILES: &str = "            const u64 last = row + stretch.tiles<TILE_ROWS>(row, end) * TILE_ROWS;
            if (row == last) {
                const u32 some = end - row < TILE_ROWS ? (u32)(end - row) : TILE_ROWS;
                if (!far_call(&add_rows)(parameter, memory, row, some, lanes_bits<K>(some), true)) return false;
                row += some;
            }
            GRAMPUS_NO_UNROLL
            while (row < last) {
                u32 strange = 0;  // rows whose keys have no code
";
/// End of the loops.
const STRANGE_ROWS: &str = "                if (any(strange != 0) &&
                    !far_call(&add_rows)(parameter, memory, row - TILE_ROWS, TILE_ROWS, strange, false))
                    return false;
            }
        }
    }
";

/// The function that adds rows of a tile one after the other: to the tables, and to the group table if their keys have
/// no code. It is out of line and loads the tile again, so that the loop over tiles needs no register for it.
pub(super) fn rows_function(writer: &Writer<'_>) -> Result<String, RunError> {
    let mut out = format!(
        "// Adds the lanes' rows of a tile of which `left` has a bit. `first`: the rows were not added before.\n\
         {ENTRY_FUNCTION}add_rows(const QueryParameter& parameter, u64* memory, u64 row, u32 rows, u32 left, \
         bool first) {{\n    const QueryHead& head = parameter.head;\n    Groups groups(memory, parameter.codes);\n"
    );
    writer.load_arguments(&mut out, false, writer.program.expressions());
    out.push_str("    u32 passed = 0;\n");
    declare_tiles(writer, &mut out);
    load_tiles(writer, &mut out, 1);
    let mut e = writer.emitter(2);
    tile_values(writer, &mut e, Named::Picked);
    e.line("bool active = left >> i & 1;");
    add_row(writer, &mut e)?;
    e.line("active = active && !inside;");
    aggregate::keys(writer, &mut e)?;
    out.push_str("    GRAMPUS_NO_UNROLL\n");
    out.push_str("    for (u32 all = or_of_lanes(left); all != 0; all &= all - 1) {\n");
    out.push_str("        const u32 i = lowest_bit(all);\n");
    if e.statements.may_refuse {
        out.push_str("        bool refused = false;\n");
        e.line("if (leaves(head, refused)) return false;");
    }
    e.line("if (any(active) && !add_to_all<Words>(head, active, key, word)) return false;");
    out.push_str(&e.statements.out);
    out.push_str("    }\n");
    if !writer.plan.tile_conjuncts.is_empty() {
        out.push_str("    if (first) count_rows(head, 0, passed);\n");
    }
    out.push_str("    return true;\n}\n\n");
    Ok(out)
}

/// The entries: the kernel, and the one that merges its partials.
pub(super) fn entries(scope: TableScope) -> String {
    let macro_name = match scope {
        TableScope::Lane | TableScope::Warp => "GRAMPUS_KERNEL",
        TableScope::Block => "GRAMPUS_KERNEL_OF_LARGE_BLOCKS",
    };
    let (begin, end) = match scope {
        TableScope::Lane | TableScope::Warp => (
            "begin_groups<Groups>(parameter.head, parameter.codes, memory)",
            "end_groups<Words, Groups>(parameter.head, parameter.codes, memory)",
        ),
        TableScope::Block => (
            "begin_block<Words>(parameter.codes, memory)",
            "end_block<Words>(parameter.head, parameter.codes, memory)",
        ),
    };
    format!(
        "{macro_name}({ENTRY}, QueryParameter, parameter) {{\n    \
         GRAMPUS_SHARED_BY_BLOCK(memory);\n    {begin};\n    \
         run(parameter, memory);\n    {end};\n}}\n\n\
         GRAMPUS_KERNEL({MERGE_ENTRY}, QueryParameter, parameter) {{ merge_groups<Words>(parameter.codes); }}\n\n"
    )
}
