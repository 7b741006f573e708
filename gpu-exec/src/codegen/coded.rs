//! The parts of a dense kernel whose groups have codes: rows go from the tile into tables in shared memory.
//!
//! 1. The loop over a tile's rows computes the number of each row's group, and adds the row to the table.
//! 2. Rows whose keys have no code are marked. A function out of line adds them to the group table.
//! 3. The entry begins and ends the tables around the loop over tiles. A second entry merges what they left.

use super::group_codes::number_group;
use super::tile::{Named, declare_tiles, load_tiles, tile_values};
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

/// Adds a tile's rows.
pub(super) fn accumulate_tile(writer: &Writer<'_>, out: &mut String) -> Result<(), RunError> {
    let mut coded = writer.emitter(3);
    coded.line("const bool active = pass >> i & 1;");
    tile_values(writer, &mut coded, Named::ByIndex);
    coded.line("u64 word[Words::COUNT];");
    aggregate::words(writer, &mut coded)?;
    number_group(writer, &mut coded)?;
    coded.line("groups.add(parameter.codes, inside, group, word);");
    coded.line("if (active && !inside) strange |= 1u << i;");
    let may_refuse = coded.statements.may_refuse;
    out.push_str("        passed += count_bits(pass);\n");
    out.push_str("        u32 strange = 0;  // rows whose keys have no code\n");
    if may_refuse {
        out.push_str("        bool refused_here = false;\n");
    }
    out.push_str("        GRAMPUS_UNROLL\n        for (u32 i = 0; i < K; i++) {\n");
    if may_refuse {
        out.push_str("            bool refused = false;\n");
        coded.line("refused_here = refused_here || refused;");
    }
    out.push_str(&coded.statements.out);
    out.push_str("        }\n");
    if may_refuse {
        out.push_str("        if (leaves(head, refused_here)) return false;\n");
    }
    out.push_str(
        "        if (any(strange != 0) && !far_call(&add_strange)(parameter, row, rows, strange)) return false;\n",
    );
    Ok(())
}

/// The function that adds a tile's rows without a code to the group table. It is out of line and loads the tile again,
/// so that the loop over tiles needs no register for it.
pub(super) fn strange_function(writer: &Writer<'_>) -> Result<String, RunError> {
    let mut out = format!(
        "// Adds the lanes' rows of a tile whose keys have no code: a bit for each of a lane's values.\n\
         {ENTRY_FUNCTION}add_strange(const QueryParameter& parameter, u64 row, u32 rows, u32 strange) {{\n    \
         const QueryHead& head = parameter.head;\n"
    );
    writer.load_arguments(&mut out, false, writer.last_expressions());
    declare_tiles(writer, &mut out);
    load_tiles(writer, &mut out, 1);
    let mut rows = writer.emitter(2);
    rows.line("const u32 i = lowest_bit(left);");
    rows.line("const bool active = strange >> i & 1;");
    tile_values(writer, &mut rows, Named::Picked);
    aggregate::accumulate(writer, &mut rows)?;
    out.push_str("    GRAMPUS_NO_UNROLL\n");
    out.push_str("    for (u32 left = or_of_lanes(strange); left != 0; left &= left - 1) {\n");
    out.push_str(&rows.statements.out);
    out.push_str("    }\n    return true;\n}\n\n");
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
         Groups groups(memory, parameter.codes);\n    \
         run(parameter, groups);\n    {end};\n}}\n\n\
         GRAMPUS_KERNEL({MERGE_ENTRY}, QueryParameter, parameter) {{ merge_groups<Words>(parameter.codes); }}\n\n"
    )
}
