//! `Statements`: lines of C++ that name values. An `Operand` is a named value.
//!
//! A value that may be NULL has a second name, `ok…`.

use std::fmt::Write as _;

use crate::program::Type;

/// C++ type of a type's values in registers.
pub(super) fn cpp(ty: Type) -> &'static str {
    match ty {
        Type::Bool => "bool",
        Type::Int8 => "i8",
        Type::Int16 => "i16",
        Type::Int32 | Type::Date32 => "i32",
        Type::Int64 | Type::Timestamp(_) | Type::Decimal { .. } => "i64",
        Type::Float32 => "float",
        Type::Float64 => "double",
        Type::Code => "u32",
    }
}

/// C++ type of a type's values in memory.
pub(super) fn stored(ty: Type) -> &'static str {
    match ty {
        Type::Bool => "u8",
        other => cpp(other),
    }
}

/// A value that statements have computed.
#[derive(Debug, Clone)]
pub(super) struct Operand {
    /// A C++ expression without side effects, usually a name.
    pub value: String,
    /// A C++ condition that is true if the value is not NULL. `None`: never NULL.
    pub ok: Option<String>,
    pub ty: Type,
}

impl Operand {
    /// A C++ condition that is true if the value is neither NULL nor false.
    pub(super) fn is_true(&self) -> String {
        match &self.ok {
            None => self.value.clone(),
            Some(ok) => format!("{ok} && {}", self.value),
        }
    }

    pub(super) fn is_false(&self) -> String {
        match &self.ok {
            None => format!("!{}", self.value),
            Some(ok) => format!("({ok} && !{})", self.value),
        }
    }
}

/// Lines of C++. They set `refused` if an operator has no result for an `active` lane.
#[derive(Debug, Default)]
pub(super) struct Statements {
    pub out: String,
    pub indent: usize,
    next: usize,
    /// Whether a statement may set `refused`.
    pub may_refuse: bool,
}

impl Statements {
    pub(super) fn new(indent: usize) -> Self {
        Self {
            indent,
            ..Self::default()
        }
    }

    pub(super) fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", 4 * self.indent);
    }

    pub(super) fn name(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    /// Names a value.
    pub(super) fn bind(&mut self, ty: Type, value: &str, ok: Option<String>) -> Operand {
        let n = self.name();
        self.line(&format!("const {} v{n} = {value};", cpp(ty)));
        let ok = ok.map(|ok| {
            if ok.contains(' ') {
                self.line(&format!("const bool ok_v{n} = {ok};"));
                format!("ok_v{n}")
            } else {
                ok
            }
        });
        Operand {
            value: format!("v{n}"),
            ok,
            ty,
        }
    }

    /// Names the result of a call that sets its last argument if it has no result. The refusal counts only for rows
    /// with operands that are not NULL.
    pub(super) fn bind_refusing(&mut self, ty: Type, call: &str, ok: Option<String>) -> Operand {
        self.may_refuse = true;
        let n = self.name();
        self.line(&format!("bool bad{n} = false;"));
        let bound = self.bind(ty, &call.replace("REFUSED", &format!("bad{n}")), ok);
        let there = bound.ok.iter().fold(String::new(), |all, ok| all + " && " + ok);
        self.line(&format!("refused = refused || (bad{n} && active{there});"));
        bound
    }
}
