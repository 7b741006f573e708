//! Programs, expressions and types as text, for EXPLAIN, error messages and comments in kernels.

use std::fmt;

use super::{Aggregate, BinaryOp, DatePart, Expr, Function, MathFunction, Program, TimeUnit, Type};

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "boolean",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Date32 => "date",
            Self::Timestamp(TimeUnit::Second) => "timestamp(s)",
            Self::Timestamp(TimeUnit::Millisecond) => "timestamp(ms)",
            Self::Timestamp(TimeUnit::Microsecond) => "timestamp(us)",
            Self::Timestamp(TimeUnit::Nanosecond) => "timestamp(ns)",
            Self::Decimal { precision, scale } => return write!(f, "decimal({precision}, {scale})"),
            Self::Code => "code",
        })
    }
}

impl fmt::Display for BinaryOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Eq => "=",
            Self::NotEq => "<>",
            Self::Lt => "<",
            Self::LtEq => "<=",
            Self::Gt => ">",
            Self::GtEq => ">=",
            Self::And => "AND",
            Self::Or => "OR",
            Self::IsDistinctFrom => "IS DISTINCT FROM",
            Self::IsNotDistinctFrom => "IS NOT DISTINCT FROM",
        })
    }
}

impl fmt::Display for DatePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Year => "year",
            Self::Quarter => "quarter",
            Self::Month => "month",
            Self::Week => "week",
            Self::Day => "day",
            Self::DayOfWeek => "dow",
            Self::DayOfYear => "doy",
            Self::Hour => "hour",
            Self::Minute => "minute",
            Self::Second => "second",
        })
    }
}

impl fmt::Display for MathFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Floor => "floor",
            Self::Ceil => "ceil",
            Self::Abs => "abs",
            Self::Sqrt => "sqrt",
        })
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::BitAnd => "bit_and",
            Self::BitOr => "bit_or",
            Self::BitXor => "bit_xor",
            Self::Moments => "moments",
        })
    }
}

/// `Shown`: an expression with the column names of its program. Literals are `$1`, `$2` ….
struct Shown<'a>(&'a Program, &'a Expr);

impl Program {
    /// An expression of this program as SQL-like text.
    pub fn show<'a>(&'a self, expr: &'a Expr) -> impl fmt::Display + 'a {
        Shown(self, expr)
    }

    /// An aggregate of this program as SQL-like text.
    pub fn show_aggregate(&self, aggregate: &Aggregate) -> String {
        let argument = match &aggregate.argument {
            Some(argument) => self.show(argument).to_string(),
            None => "*".to_owned(),
        };
        let filter = match &aggregate.filter {
            Some(filter) => format!(" FILTER (WHERE {})", self.show(filter)),
            None => String::new(),
        };
        format!("{}({argument}){filter}", aggregate.function)
    }

    fn list<'a>(&'a self, exprs: impl IntoIterator<Item = &'a Expr>) -> String {
        let shown: Vec<String> = exprs.into_iter().map(|e| self.show(e).to_string()).collect();
        shown.join(", ")
    }
}

impl Shown<'_> {
    /// Writes an operand, in parentheses unless it is one word.
    fn operand(&self, f: &mut fmt::Formatter<'_>, expr: &Expr) -> fmt::Result {
        let plain = !matches!(
            expr,
            Expr::Binary { .. } | Expr::InList { .. } | Expr::IsNull(_) | Expr::Not(_)
        );
        let shown = Shown(self.0, expr);
        if plain {
            write!(f, "{shown}")
        } else {
            write!(f, "({shown})")
        }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(program, expr) = self;
        match expr {
            Expr::Column(at) => match program.columns.get(*at) {
                Some(column) => f.write_str(&column.name),
                None => write!(f, "column {at}"),
            },
            Expr::Argument(at) => write!(f, "${}", at + 1),
            Expr::Null(_) => f.write_str("NULL"),
            Expr::Not(value) => {
                f.write_str("NOT ")?;
                self.operand(f, value)
            }
            Expr::Negate(value) => {
                f.write_str("-")?;
                self.operand(f, value)
            }
            Expr::IsNull(value) => {
                self.operand(f, value)?;
                f.write_str(" IS NULL")
            }
            Expr::Binary { op, left, right } => {
                self.operand(f, left)?;
                write!(f, " {op} ")?;
                self.operand(f, right)
            }
            Expr::InList { value, list, negated } => {
                self.operand(f, value)?;
                write!(f, " {}IN ({})", if *negated { "NOT " } else { "" }, program.list(list))
            }
            Expr::Case { branches, otherwise } => {
                f.write_str("CASE")?;
                for (condition, result) in branches {
                    write!(f, " WHEN {} THEN {}", program.show(condition), program.show(result))?;
                }
                if let Some(result) = otherwise {
                    write!(f, " ELSE {}", program.show(result))?;
                }
                f.write_str(" END")
            }
            Expr::Coalesce(values) => write!(f, "coalesce({})", program.list(values)),
            Expr::Cast { value, to } => write!(f, "CAST({} AS {to})", program.show(value)),
            Expr::TryCast { value, to } => write!(f, "TRY_CAST({} AS {to})", program.show(value)),
            Expr::Math { function, value } => write!(f, "{function}({})", program.show(value)),
            Expr::Extract { part, value } => write!(f, "extract({part} FROM {})", program.show(value)),
            Expr::Truncate { part, value } => write!(f, "date_trunc({part}, {})", program.show(value)),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let aggregates: Vec<String> = self.aggregates.iter().map(|a| self.show_aggregate(a)).collect();
        write!(f, "{}", aggregates.join(", "))?;
        for (i, conjunct) in self.conjuncts.iter().enumerate() {
            write!(f, " {} {}", if i == 0 { "WHERE" } else { "AND" }, self.show(conjunct))?;
        }
        if !self.keys.is_empty() {
            write!(f, " GROUP BY {}", self.list(&self.keys))?;
        }
        Ok(())
    }
}
