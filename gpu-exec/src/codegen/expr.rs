//! `Emitter`: expressions as C++ statements.
//!
//! - Every operator becomes a named constant. If the result may be NULL, a second constant `ok…` stands beside it.
//! - A NULL has some value, so `ok…` is checked first.
//! - Statements use no other lane, so branches of CASE may differ between lanes.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use super::Shape;
use super::casts::{cast, extract, rescale, truncate};
use super::statements::{Operand, Statements, WIDE, cpp, cpp_held};
use crate::error::RunError;
use crate::program::{BinaryOp, Expr, MathFunction, Program, Type, operands};

/// A condition for `a < b`, written so that the bits of an argument are interpreted once (device/values.cuh).
fn below(a: &str, b: &str) -> String {
    let is_argument = a
        .strip_prefix('a')
        .is_some_and(|n| n.bytes().all(|c| c.is_ascii_digit()));
    if is_argument {
        format!("more({b}, {a})")
    } else {
        format!("less({a}, {b})")
    }
}

/// A condition that is true if no operand is NULL. `None`: always true.
fn all_ok<'a>(operands: impl IntoIterator<Item = &'a Operand>) -> Option<String> {
    let mut known: Vec<&str> = operands.into_iter().filter_map(|o| o.ok.as_deref()).collect();
    known.dedup();
    (!known.is_empty()).then(|| known.join(" && "))
}

/// Writes statements over columns named `c0`, `ok0` …, and arguments named `a0` ….
///
/// `active` marks lanes with a row. If an operator has no result for an active lane, the statements set `refused`.
pub(super) struct Emitter<'a> {
    program: &'a Program,
    shape: &'a Shape,
    pub statements: Statements,
    /// Results in open blocks, with the indentation of their block. No expression is computed twice: the compiler would
    /// merge the two, but that takes compile time.
    known: HashMap<Expr, (Operand, usize)>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(program: &'a Program, shape: &'a Shape, indent: usize) -> Self {
        Self {
            program,
            shape,
            statements: Statements::new(indent),
            known: HashMap::new(),
        }
    }

    pub(super) fn line(&mut self, text: &str) {
        self.statements.line(text);
    }

    /// Closes a block, and forgets the names in it.
    fn close(&mut self) {
        self.statements.indent -= 1;
        self.known.retain(|_, (_, indent)| *indent <= self.statements.indent);
    }

    /// Writes statements that compute an expression, unless an open block has its result.
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<Operand, RunError> {
        if let Some((operand, _)) = self.known.get(expr) {
            return Ok(operand.clone());
        }
        let operand = self.compute(expr)?;
        self.known
            .insert(expr.clone(), (operand.clone(), self.statements.indent));
        Ok(operand)
    }

    fn compute(&mut self, expr: &Expr) -> Result<Operand, RunError> {
        let ty = self.program.type_of(expr)?;
        Ok(match expr {
            Expr::Column(at) => Operand {
                value: format!("c{at}"),
                ok: self.shape.columns[*at].nullable.then(|| format!("ok{at}")),
                ty,
                cpp: cpp_held(ty),
            },
            Expr::Argument(at) => Operand {
                value: format!("a{at}"),
                ok: None,
                ty,
                cpp: cpp_held(ty),
            },
            Expr::Null(_) => Operand {
                value: format!("({})0", cpp(ty)),
                ok: Some("false".to_owned()),
                ty,
                cpp: cpp(ty),
            },
            Expr::Not(value) => {
                let value = self.expr(value)?;
                self.statements.bind(ty, &format!("!{}", value.value), value.ok)
            }
            Expr::Negate(value) if matches!(ty, Type::Decimal { .. }) => {
                let value = self.expr(value)?;
                let (zero, value_as) = (cpp(ty), value.value_as(cpp(ty)));
                let text = format!("subtract_checked(({zero})0, {value_as}, REFUSED)");
                self.statements.bind_refusing(ty, &text, value.ok)
            }
            Expr::Negate(value) => {
                let value = self.expr(value)?;
                self.statements.bind(ty, &format!("negate({})", value.value), value.ok)
            }
            Expr::IsNull(value) => {
                let value = self.expr(value)?;
                let missing = value.ok.map_or("false".to_owned(), |ok| format!("!{ok}"));
                self.statements.bind(ty, &missing, None)
            }
            Expr::Binary { op, left, right } => {
                let (left, right) = (self.expr(left)?, self.expr(right)?);
                self.binary(ty, *op, &left, &right)
            }
            Expr::InList { value, list, negated } => self.in_list(value, list, *negated)?,
            Expr::Case { branches, otherwise } => self.case(ty, branches, otherwise.as_deref())?,
            Expr::Coalesce(values) => self.coalesce(ty, values)?,
            Expr::Cast { value, to } => {
                let value = self.expr(value)?;
                cast(&mut self.statements, value, *to)
            }
            Expr::TryCast { value, to } => {
                let value = self.expr(value)?;
                self.statements.null_if_bad = true;
                let result = cast(&mut self.statements, value, *to);
                self.statements.null_if_bad = false;
                result
            }
            Expr::Math { function, value } => {
                let (operand, ok) = self.expr(value).map(|value| (value.value, value.ok))?;
                match function {
                    MathFunction::Sqrt => {
                        let call = format!("{function}_of({operand}, REFUSED)");
                        self.statements.bind_refusing(ty, &call, ok)
                    }
                    MathFunction::Floor | MathFunction::Ceil | MathFunction::Abs => {
                        self.statements.bind(ty, &format!("{function}_of({operand})"), ok)
                    }
                }
            }
            Expr::Extract { part, value } => {
                let value = self.expr(value)?;
                extract(&mut self.statements, *part, value)
            }
            Expr::Truncate { part, value } => {
                let value = self.expr(value)?;
                truncate(&mut self.statements, *part, value)
            }
        })
    }

    fn binary(&mut self, ty: Type, op: BinaryOp, left: &Operand, right: &Operand) -> Operand {
        if Type::of_decimals(op, left.ty, right.ty).is_some() {
            return self.decimals(ty, op, left, right);
        }
        let ok = all_ok([left, right]);
        let [left, right] = &in_one_type(left, right);
        let (a, b) = (&left.value, &right.value);
        let call = |name: &str| format!("{name}({a}, {b})");
        let plain = match op {
            BinaryOp::Add => call("add"),
            BinaryOp::Subtract => call("subtract"),
            BinaryOp::Multiply => call("multiply"),
            BinaryOp::Divide | BinaryOp::Modulo => {
                let name = if op == BinaryOp::Divide { "divide" } else { "modulo" };
                let call = format!("{name}({a}, {b}, REFUSED)");
                return match ty {
                    Type::Float32 | Type::Float64 => self.statements.bind(ty, &call.replace(", REFUSED", ""), ok),
                    _ => self.statements.bind_refusing(ty, &call, ok),
                };
            }
            BinaryOp::Eq => call("equal"),
            BinaryOp::NotEq => format!("!equal({a}, {b})"),
            BinaryOp::Lt => below(a, b),
            BinaryOp::LtEq => format!("!{}", below(b, a)),
            BinaryOp::Gt => below(b, a),
            BinaryOp::GtEq => format!("!{}", below(a, b)),
            BinaryOp::And => {
                let both = format!("{} && {}", left.is_true(), right.is_true());
                let ok = ok.map(|ok| format!("({ok}) || {} || {}", left.is_false(), right.is_false()));
                return self.statements.bind(ty, &both, ok);
            }
            BinaryOp::Or => {
                let either = format!("({}) || ({})", left.is_true(), right.is_true());
                let value = self.statements.bind(ty, &either, None);
                let ok = ok.map(|ok| format!("({ok}) || {}", value.value));
                return match ok {
                    None => value,
                    Some(ok) => self.statements.bind(ty, &value.value, Some(ok)),
                };
            }
            BinaryOp::IsDistinctFrom => return self.statements.bind(ty, &distinct(left, right), None),
            BinaryOp::IsNotDistinctFrom => {
                return self.statements.bind(ty, &format!("!({})", distinct(left, right)), None);
            }
        };
        self.statements.bind(ty, &plain, ok)
    }

    /// A sum, difference or product of decimals. Sums have the greater scale.
    fn decimals(&mut self, ty: Type, op: BinaryOp, left: &Operand, right: &Operand) -> Operand {
        let scale_of = |ty: Type| match ty {
            Type::Decimal { scale, .. } => i32::from(scale),
            _ => 0,
        };
        // An operand refuses the query only in rows that have both.
        let ok = all_ok([left, right]);
        let operand = |value: &Operand| Operand {
            ok: ok.clone(),
            ..value.clone()
        };
        if op == BinaryOp::Multiply {
            let (a, b) = (&left.value, &right.value);
            if cpp(ty) == WIDE && !left.is_wide() && !right.is_wide() {
                return self.statements.bind(ty, &format!("multiply_wide({a}, {b})"), ok);
            }
            let call = format!("multiply_checked({a}, {b}, REFUSED)");
            return self.statements.bind_refusing(ty, &call, ok);
        }
        let mut scaled = |value: &Operand| match scale_of(ty) - scale_of(value.ty) {
            0 => value.value_as(cpp(ty)),
            by => rescale(&mut self.statements, &operand(value), by, (ty, cpp(ty))).value,
        };
        let (left, right) = (scaled(left), scaled(right));
        let function = match op {
            BinaryOp::Add => "add_checked",
            _ => "subtract_checked",
        };
        let call = format!("{function}({left}, {right}, REFUSED)");
        self.statements.bind_refusing(ty, &call, ok)
    }

    /// True if the value is in the list; otherwise NULL if any operand is NULL; otherwise false. Floats are compared by
    /// their bits, as DataFusion looks them up.
    fn in_list(&mut self, value: &Expr, list: &[Expr], negated: bool) -> Result<Operand, RunError> {
        let value = self.expr(value)?;
        if let Some(arguments) = looped(list) {
            let n = self.statements.name();
            self.line(&format!("bool found{n} = false;"));
            self.line("GRAMPUS_NO_UNROLL");
            self.line(&format!(
                "for (u32 a = {}; a < {}; a++) found{n} |= identical({}, ({})argument<{}>(head, a));",
                arguments.start,
                arguments.end,
                value.value,
                value.cpp,
                cpp_held(value.ty)
            ));
            let answer = format!("{}found{n}", if negated { "!" } else { "" });
            return Ok(self.statements.bind(Type::Bool, &answer, value.ok));
        }
        let list = list.iter().map(|e| self.expr(e)).collect::<Result<Vec<_>, _>>()?;
        let is_here = |item: &Operand| {
            let [value, item] = in_one_type(&value, item);
            let same = format!("identical({}, {})", value.value, item.value);
            item.ok.iter().fold(same, |same, ok| format!("({ok} && {same})"))
        };
        let found = list.iter().map(is_here).collect::<Vec<_>>().join(" || ");
        let found = if found.is_empty() { "false".to_owned() } else { found };
        let found = self.statements.bind(Type::Bool, &found, None).value;
        let ok = match (value.ok, all_ok(&list)) {
            (ok, None) => ok,
            (None, Some(all)) => Some(format!("{found} || ({all})")),
            (Some(ok), Some(all)) => Some(format!("{ok} && ({found} || ({all}))")),
        };
        let answer = if negated { format!("!{found}") } else { found };
        Ok(self.statements.bind(Type::Bool, &answer, ok))
    }

    /// Declares a result that branches assign.
    fn result(&mut self, ty: Type, nullable: bool) -> Operand {
        let n = self.statements.name();
        self.line(&format!("{} v{n} = ({})0;", cpp(ty), cpp(ty)));
        let ok = nullable.then(|| format!("ok_v{n}"));
        if let Some(ok) = &ok {
            self.line(&format!("bool {ok} = false;"));
        }
        Operand {
            value: format!("v{n}"),
            ok,
            ty,
            cpp: cpp(ty),
        }
    }

    fn assign(&mut self, to: &Operand, from: &Operand) {
        self.line(&format!("{} = {};", to.value, from.value));
        if let Some(ok) = &to.ok {
            let there = from.ok.as_deref().unwrap_or("true").to_owned();
            self.line(&format!("{ok} = {there};"));
        }
    }

    /// The value in eight bytes: as the key of a group, as a least or greatest value. A decimal that takes more refuses
    /// the query.
    pub(super) fn in_eight_bytes(&mut self, value: Operand) -> Operand {
        match value.is_wide() {
            true => {
                let narrow = format!("narrow<i64>({}, REFUSED)", value.value);
                self.statements.bind_refusing_as("i64", value.ty, &narrow, value.ok)
            }
            false => value,
        }
    }

    /// The value, of which any number that a query has rows can be summed. A decimal beyond refuses the query.
    pub(super) fn summand(&mut self, value: Operand) -> Operand {
        match value.is_wide() {
            true => {
                let call = format!("summand({}, REFUSED)", value.value);
                self.statements.bind_refusing(value.ty, &call, value.ok)
            }
            false => value,
        }
    }

    fn can_be_null(&self, expr: &Expr) -> bool {
        self.program.can_be_null(expr, &|at| self.shape.columns[at].nullable)
    }

    fn case(&mut self, ty: Type, branches: &[(Expr, Expr)], otherwise: Option<&Expr>) -> Result<Operand, RunError> {
        let results = branches.iter().map(|(_, result)| result).chain(otherwise);
        let nullable = otherwise.is_none() || results.into_iter().any(|e| self.can_be_null(e));
        let to = self.result(ty, nullable);
        for (condition, result) in branches {
            let condition = self.expr(condition)?;
            self.line(&format!("if ({}) {{", condition.is_true()));
            self.statements.indent += 1;
            let result = self.expr(result)?;
            self.assign(&to, &result);
            self.close();
            self.line("} else {");
            self.statements.indent += 1;
        }
        if let Some(result) = otherwise {
            let result = self.expr(result)?;
            self.assign(&to, &result);
        }
        for _ in branches {
            self.close();
            self.line("}");
        }
        Ok(to)
    }

    fn coalesce(&mut self, ty: Type, values: &[Expr]) -> Result<Operand, RunError> {
        let to = self.result(ty, values.iter().all(|e| self.can_be_null(e)));
        let mut open = 0;
        for value in values {
            let value = self.expr(value)?;
            let Some(ok) = value.ok.clone() else {
                self.assign(&to, &value);
                break;
            };
            self.line(&format!("if ({ok}) {{"));
            self.statements.indent += 1;
            self.assign(&to, &value);
            self.close();
            self.line("} else {");
            self.statements.indent += 1;
            open += 1;
        }
        for _ in 0..open {
            self.close();
            self.line("}");
        }
        Ok(to)
    }
}

/// Longest list of literals that is compared one by one. Longer lists are searched by a loop, so that the kernel does
/// not grow.
const MAX_UNROLLED_LITERALS: usize = 8;

/// Arguments of a list that is searched by a loop. The list must consist of consecutive arguments.
pub(super) fn looped(list: &[Expr]) -> Option<Range<usize>> {
    let Some(Expr::Argument(first)) = list.first() else {
        return None;
    };
    let follows = |(i, e): (usize, &Expr)| matches!(e, Expr::Argument(at) if *at == first + i);
    let all = list.len() > MAX_UNROLLED_LITERALS && list.iter().enumerate().all(follows);
    all.then(|| *first..first + list.len())
}

/// Size of an expression in a kernel: operators, columns, literals.
pub(super) fn cost(expr: &Expr) -> usize {
    match expr {
        Expr::InList { value, list, .. } if looped(list).is_some() => MAX_UNROLLED_LITERALS + cost(value),
        _ => 1 + operands(expr).into_iter().map(cost).sum::<usize>(),
    }
}

/// Arguments that the expressions read by name, as `a0` ….
pub(super) fn arguments_of<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Expr> = exprs.into_iter().collect();
    while let Some(expr) = open.pop() {
        match expr {
            Expr::Argument(at) => _ = found.insert(*at),
            Expr::InList { value, list, .. } if looped(list).is_some() => open.push(value),
            _ => open.extend(operands(expr)),
        }
    }
    found
}

/// Both operands in one C++ type. Only those of decimals may differ.
fn in_one_type(left: &Operand, right: &Operand) -> [Operand; 2] {
    let is_wide = left.is_wide() || right.is_wide();
    [left, right].map(|operand| match is_wide {
        true => Operand {
            value: operand.value_as(WIDE),
            cpp: WIDE,
            ..operand.clone()
        },
        false => operand.clone(),
    })
}

/// A condition for `IS DISTINCT FROM`.
fn distinct(left: &Operand, right: &Operand) -> String {
    let differ = format!("!equal({}, {})", left.value, right.value);
    match (&left.ok, &right.ok) {
        (None, None) => differ,
        (Some(ok), None) | (None, Some(ok)) => format!("!{ok} || {differ}"),
        (Some(a), Some(b)) => format!("{a} != {b} || ({a} && {differ})"),
    }
}
