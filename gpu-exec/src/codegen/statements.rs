//! `Statements`: lines of C++ that name values. An `Operand` is a named value.
//!
//! A value that may be NULL has a second name, `ok…`.

use std::fmt::Write as _;

use crate::program::{Column, Stored, Type};

/// Digits of any decimal in eight bytes.
const EIGHT_BYTE_DIGITS: u8 = 18;

/// C++ type of decimals that may take more than eight bytes (device/decimals.cuh).
pub(super) const WIDE: &str = "i128";

/// C++ type of an expression's values in registers.
pub(super) fn cpp(ty: Type) -> &'static str {
    match ty {
        Type::Decimal { precision, .. } if precision > EIGHT_BYTE_DIGITS => WIDE,
        other => cpp_held(other),
    }
}

/// C++ type of the values of columns and arguments in registers. Decimals have eight bytes there, whatever their type.
pub(super) fn cpp_held(ty: Type) -> &'static str {
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

/// C++ type of a column's values in memory.
pub(super) fn stored(column: &Column) -> &'static str {
    if column.stored == Stored::of(column.ty) {
        return match column.ty {
            Type::Bool => "u8",
            other => cpp_held(other),
        };
    }
    match (column.stored.bytes(), column.stored.is_signed()) {
        (1, false) => "u8",
        (1, true) => "i8",
        (2, false) => "u16",
        (2, true) => "i16",
        (4, false) => "u32",
        (4, true) => "i32",
        _ => "i64",
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
    /// C++ type of the value.
    pub cpp: &'static str,
}

impl Operand {
    /// Whether the value is a decimal that may take more than eight bytes.
    pub(super) fn is_wide(&self) -> bool {
        self.cpp == WIDE
    }

    /// The value in a C++ type.
    pub(super) fn value_as(&self, cpp: &str) -> String {
        match self.cpp == cpp {
            true => self.value.clone(),
            false => format!("({cpp}){}", self.value),
        }
    }

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
    /// An operator that has no result gives NULL, and sets nothing.
    pub null_if_bad: bool,
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

    /// Names a value of a type.
    pub(super) fn bind(&mut self, ty: Type, value: &str, ok: Option<String>) -> Operand {
        self.bind_as(cpp(ty), ty, value, ok)
    }

    /// Names a value of a type, in a C++ type.
    pub(super) fn bind_as(&mut self, cpp: &'static str, ty: Type, value: &str, ok: Option<String>) -> Operand {
        let n = self.name();
        self.line(&format!("const {cpp} v{n} = {value};"));
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
            cpp,
        }
    }

    /// As [`bind_refusing_as`](Self::bind_refusing_as), in the C++ type of a type's values.
    pub(super) fn bind_refusing(&mut self, ty: Type, call: &str, ok: Option<String>) -> Operand {
        self.bind_refusing_as(cpp(ty), ty, call, ok)
    }

    /// Names the result of a call that sets its last argument if it has no result. The refusal counts only for rows
    /// with operands that are not NULL.
    pub(super) fn bind_refusing_as(&mut self, cpp: &'static str, ty: Type, call: &str, ok: Option<String>) -> Operand {
        let n = self.name();
        self.line(&format!("bool bad{n} = false;"));
        let mut bound = self.bind_as(cpp, ty, &call.replace("REFUSED", &format!("bad{n}")), ok);
        if self.null_if_bad {
            let ok = bound.ok.take().map_or_else(String::new, |ok| format!("{ok} && "));
            let there = format!("there{n}");
            self.line(&format!("const bool {there} = {ok}!bad{n};"));
            bound.ok = Some(there);
            return bound;
        }
        self.may_refuse = true;
        let there = bound.ok.iter().fold(String::new(), |all, ok| all + " && " + ok);
        self.line(&format!("refused = refused || (bad{n} && active{there});"));
        bound
    }
}
