//! Declarations at the head of a kernel's source: parameter, words of aggregates, shared memory of a warp, registers of
//! a lane.

use std::fmt::Write as _;

use super::statements::stored;
use super::words::Op;
use super::writer::{Writer, comment};
use super::{Access, GPU_LANES, HOST_LANES, TableScope};
use crate::abi::query::{Tail, parameter_bytes};

pub(super) fn head(writer: &Writer<'_>, out: &mut String) {
    let plan = writer.plan;
    let _ = writeln!(out, "// {}", comment(&writer.program.to_string()));
    for (at, (column, shape)) in writer.program.columns.iter().zip(&writer.shape.columns).enumerate() {
        let how = if plan.tile_columns.contains(&at) {
            "in tiles"
        } else {
            "by row"
        };
        let how = if plan.counter_of[at].is_none() {
            "not at all"
        } else {
            how
        };
        let _ = writeln!(
            out,
            "// c{at}: {}, {}{}, read {how}, {}{}",
            comment(&column.name),
            column.ty,
            if shape.nullable { " or NULL" } else { "" },
            match shape.access {
                Access::Plain => "by loads",
                Access::Paged => "by loads from pages",
                Access::Queued => "by commands",
            },
            if shape.aligned { "" } else { ", not aligned" },
        );
    }
    out.push_str("namespace grampus {\nnamespace query {\n\n");
    let _ = writeln!(
        out,
        "constexpr u32 K = {};  // values of a lane in a tile",
        plan.lane_values
    );
    let _ = writeln!(out, "constexpr u32 TILE_ROWS = K * WARP;");
    let _ = writeln!(
        out,
        "constexpr u32 CHUNK = {};  // consecutive tiles of a warp",
        plan.chunk_tiles
    );
    let columns = writer.program.columns.len().max(1);
    out.push_str("\nstruct QueryParameter {\n    QueryHead head;\n");
    let Tail { is_paged, coded_keys } = writer.tail();
    let mut tail = String::new();
    if is_paged {
        tail.push_str("    PagingDesc paging;\n");
    }
    if coded_keys > 0 {
        let _ = writeln!(tail, "    GroupCodes codes;\n    KeyCodes keys[{coded_keys}];");
    }
    let _ = writeln!(
        out,
        "    ColumnDesc columns[{columns}];\n    ColumnDesc valid[{columns}];\n{tail}}};"
    );
    let bytes = parameter_bytes(writer.program.columns.len(), writer.tail());
    let _ = writeln!(
        out,
        "static_assert(sizeof(QueryParameter) == {bytes}, \"the parameter's size\");\n"
    );
}

/// Declares `Words`: the operation of each word of the aggregates.
pub(super) fn words(writer: &Writer<'_>, out: &mut String) {
    let count = writer.plan.words.ops.len();
    out.push_str("struct Words {\n");
    let _ = writeln!(out, "    static constexpr u32 COUNT = {count};");
    out.push_str("    static GRAMPUS_DEVICE constexpr Op op(u32 at) {\n        switch (at) {\n");
    for (at, op) in writer.plan.words.ops.iter().enumerate() {
        let name = match op {
            Op::Add => "OP_ADD",
            Op::AddFloat => "OP_ADD_FLOAT",
            Op::AddWide => "OP_ADD_WIDE",
            Op::WideHigh => "OP_WIDE_HIGH",
            Op::Max => "OP_MAX",
            Op::Or => "OP_OR",
            Op::Xor => "OP_XOR",
            Op::Moments => "OP_MOMENTS",
            Op::MomentsRest => "OP_MOMENTS_REST",
        };
        let of = writer.plan.words.first_of.iter().position(|&first| first == at);
        let of = of.map_or(String::new(), |a| {
            writer.program.show_aggregate(&writer.program.aggregates[a])
        });
        let note = if of.is_empty() {
            of
        } else {
            format!("  // {}", comment(&of))
        };
        let _ = writeln!(out, "            case {at}: return {name};{note}");
    }
    out.push_str("        }\n        return OP_OR;\n    }\n");
    if writer.plan.scope == Some(TableScope::Block) {
        let is_count = |at: &usize| writer.plan.words.is_count(writer.program, *at);
        let counts: Vec<String> = (0..count).filter(is_count).map(|at| format!("at == {at}")).collect();
        let any = if counts.is_empty() {
            "false".to_owned()
        } else {
            counts.join(" || ")
        };
        let _ = writeln!(
            out,
            "    // Whether each row adds 0 or 1.\n    \
             static GRAMPUS_DEVICE constexpr bool is_count(u32 at) {{ return {any}; }}"
        );
    }
    out.push_str("};\n\n");
}

/// Declares a warp's shared memory and a lane's registers.
pub(super) fn memory(writer: &Writer<'_>, out: &mut String) {
    let plan = writer.plan;
    if plan.scope.is_some() {
        return; // tables alone
    }
    for (at, stage) in plan.stages.iter().enumerate() {
        let n = at + 1;
        let _ = writeln!(
            out,
            "constexpr u32 ROOM_{n} = {} * WARP, ENOUGH_{n} = {} * WARP;",
            stage.capacity_warps(),
            stage.enough_warps()
        );
        let _ = writeln!(out, "struct Held{n} {{\n    u64 row[ROOM_{n}];");
        for &c in &stage.carried {
            let _ = writeln!(out, "    {} c{c}[ROOM_{n}];", stored(&writer.program.columns[c]));
        }
        for &c in stage.carried.iter().filter(|&&c| writer.shape.columns[c].nullable) {
            let _ = writeln!(out, "    u8 ok{c}[ROOM_{n}];");
        }
        out.push_str("};\n");
    }
    let staged = !plan.stages.is_empty();
    if staged {
        let _ = writeln!(
            out,
            "constexpr u32 STEPS = {};  // counters beside that of rows looked at",
            plan.counters() - 1
        );
        tally(writer, out);
    }
    out.push_str("struct Shared {\n");
    for n in 1..=plan.stages.len() {
        let _ = writeln!(out, "    Held{n} held_{n};");
    }
    if plan.own_groups > 0 {
        let _ = writeln!(
            out,
            "    OwnGroups<Words, {}, {}> own;",
            plan.key_words, plan.own_groups
        );
    }
    if plan.stages.is_empty() && plan.own_groups == 0 {
        out.push_str("    u64 nothing;\n");
    }
    if staged {
        out.push_str("    Tally tally;\n");
    }
    if plan.near_bytes() > 0 {
        out.push_str("    Near near;\n");
    }
    out.push_str("};\n");
    let _ = writeln!(
        out,
        "static_assert(sizeof(Shared) == (WARP == 1 ? {} : {}), \"what a warp shares\");",
        plan.shared_bytes(HOST_LANES),
        plan.shared_bytes(GPU_LANES),
    );
    if !staged {
        let word = if plan.grouped() {
            "nothing"
        } else {
            "word[Words::COUNT]"
        };
        let _ = writeln!(
            out,
            "// What a lane keeps.\nstruct Lane {{\n    u64 {word};\n}};\n\
             static_assert(sizeof(Lane) == {}, \"what a lane has\");",
            plan.lane_bytes()
        );
    }
    out.push('\n');
}

/// Declares the state of stages (`Tally`) and their cache (`Near`).
fn tally(writer: &Writer<'_>, out: &mut String) {
    let plan = writer.plan;
    out.push_str("// What a warp has counted and added up. It starts as zeros.\nstruct Tally {\n");
    if !plan.grouped() {
        out.push_str("    u64 word[Words::COUNT];\n");
    }
    for n in 1..=plan.stages.len() {
        let _ = writeln!(out, "    Ring<ROOM_{n}> ring_{n};");
    }
    let _ = writeln!(out, "    alignas(8) u32 counted[STEPS];\n}};");
    if plan.near_bytes() == 0 {
        return;
    }
    out.push_str("// Of what stages look up, what was found last; and arguments.\nstruct Near {\n");
    for what in ["columns", "valid"] {
        let count = writer.near_mask(what).count_ones();
        if count > 0 {
            let _ = writeln!(out, "    Nearby {what}[{count}];");
        }
    }
    if plan.near_stripe {
        out.push_str("    NearStripe stripe;\n");
    }
    if !plan.near_arguments.is_empty() {
        let _ = writeln!(out, "    u64 argument[{}];", plan.near_arguments.len());
    }
    out.push_str("};\n");
}
