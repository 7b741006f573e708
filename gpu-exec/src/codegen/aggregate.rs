//! Statements that add rows to their groups: key, group, and the words of each aggregate.

use super::expr::Emitter;
use super::words::Op;
use super::writer::{Writer, comment};
use crate::error::RunError;
use crate::program::{Aggregate, Function};

/// Adds the active lanes' rows to their groups.
pub(super) fn accumulate(writer: &Writer<'_>, e: &mut Emitter<'_>) -> Result<(), RunError> {
    let mut inner = writer.emitter(e.statements.indent + 1);
    inner.line("u64 word[Words::COUNT];");
    words(writer, &mut inner)?;
    if writer.plan.grouped() {
        keys(writer, &mut inner)?;
    }
    if inner.statements.may_refuse {
        inner.line("if (leaves(head, refused)) return false;");
    }
    if !writer.plan.grouped() && writer.plan.stages.is_empty() {
        inner.line("combine<Words>(lane.word, word);");
    } else if !writer.plan.grouped() {
        inner.line("combine_lanes<Words>(word);");
        inner.line("if (lane_id() == 0) combine<Words>(shared.tally.word, word);");
    } else if writer.plan.own_groups > 0 {
        inner.line("if (any(active) && !add_to_own<Words>(head, shared.own, active, key, word)) return false;");
    } else {
        inner.line("if (any(active) && !add_to_all<Words>(head, active, key, word)) return false;");
    }
    e.line("{");
    if inner.statements.may_refuse {
        e.statements.indent += 1;
        e.line("bool refused = false;");
        e.statements.indent -= 1;
    }
    e.statements.out.push_str(&inner.statements.out);
    e.line("}");
    Ok(())
}

/// Computes the row's words for all aggregates.
pub(super) fn words(writer: &Writer<'_>, e: &mut Emitter<'_>) -> Result<(), RunError> {
    for (at, aggregate) in writer.program.aggregates.iter().enumerate() {
        words_of(writer, e, at, aggregate)?;
    }
    seen(writer, e);
    let words = &writer.plan.words;
    if let Some(rows) = words.rows.filter(|rows| !words.first_of.contains(rows)) {
        e.line(&format!("word[{rows}] = active ? 1 : 0;"));
    }
    Ok(())
}

/// Computes the row's words for one aggregate. A word is zero if the row has nothing to add.
fn words_of(writer: &Writer<'_>, e: &mut Emitter<'_>, at: usize, aggregate: &Aggregate) -> Result<(), RunError> {
    e.line(&format!("// {}", comment(&writer.program.show_aggregate(aggregate))));
    let mut adds = vec!["active".to_owned()];
    if let Some(filter) = &aggregate.filter {
        adds.push(e.expr(filter)?.is_true());
    }
    let mut argument = aggregate.argument.as_ref().map(|a| e.expr(a)).transpose()?;
    if matches!(aggregate.function, Function::Min | Function::Max) {
        argument = argument.map(|value| e.in_eight_bytes(value));
    }
    if aggregate.function == Function::Sum {
        argument = argument.map(|value| e.summand(value));
    }
    adds.extend(argument.as_ref().and_then(|a| a.ok.clone()));
    e.line(&format!("const bool adds{at} = {};", adds.join(" && ")));
    let word = writer.plan.words.first_of[at];
    let value = argument.map(|a| a.value).unwrap_or_default();
    let add = match (aggregate.function, writer.plan.words.ops[word]) {
        (Function::Count, _) => "1".to_owned(),
        (Function::Min, _) => format!("word_for_min({value})"),
        (Function::Max, _) => format!("word_for_max({value})"),
        (Function::Sum, Op::AddFloat) => format!("bits_as<u64>((double){value})"),
        (Function::Sum, Op::AddWide) => {
            e.line(&format!("const Wide wide{at} = widen(adds{at} ? {value} : 0);"));
            e.line(&format!("word[{word}] = wide{at}.low;"));
            e.line(&format!("word[{}] = wide{at}.high;", word + 1));
            return Ok(());
        }
        (Function::Sum | Function::BitOr | Function::BitXor, _) => format!("(u64)(i64){value}"),
        (Function::BitAnd, _) => format!("~(u64)(i64){value}"),
        (Function::Moments, _) => {
            e.line(&format!("word[{word}] = adds{at} ? 1 : 0;"));
            e.line(&format!("word[{}] = adds{at} ? bits_as<u64>({value}) : 0;", word + 1));
            e.line(&format!("word[{}] = 0;", word + 2));
            return Ok(());
        }
    };
    e.line(&format!("word[{word}] = adds{at} ? {add} : 0;"));
    Ok(())
}

/// Computes the word that marks the aggregates that have seen a value.
fn seen(writer: &Writer<'_>, e: &mut Emitter<'_>) {
    let bits: Vec<String> = (writer.plan.words.has_seen_bit.iter().enumerate())
        .filter(|(_, marks)| **marks)
        .map(|(at, _)| format!("(adds{at} ? {}ull : 0)", 1u64 << at))
        .collect();
    match writer.plan.words.seen {
        Some(word) => e.line(&format!("word[{word}] = {};", bits.join(" | "))),
        None if writer.program.aggregates.is_empty() => e.line("word[0] = 0;"),
        None => {}
    }
}

/// Computes the row's key.
pub(super) fn keys(writer: &Writer<'_>, e: &mut Emitter<'_>) -> Result<(), RunError> {
    e.line(&format!("u64 key[{}];", writer.plan.key_words));
    let mut nulls = Vec::new();
    for (at, key) in writer.program.keys.iter().enumerate() {
        e.line(&format!("// {}", comment(&writer.program.show(key).to_string())));
        let value = e.expr(key)?;
        let value = e.in_eight_bytes(value);
        match value.ok {
            None => e.line(&format!("key[{at}] = key_word({});", value.value)),
            Some(ok) => {
                e.line(&format!("key[{at}] = {ok} ? key_word({}) : 0;", value.value));
                nulls.push(format!("({ok} ? 0 : {}ull)", 1u64 << at));
            }
        }
    }
    if writer.plan.null_keys {
        let nulls = if nulls.is_empty() {
            "0".to_owned()
        } else {
            nulls.join(" | ")
        };
        e.line(&format!("key[{}] = {nulls};", writer.plan.key_words - 1));
    }
    Ok(())
}
