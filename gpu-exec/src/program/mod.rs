//! `Program`: a filtered, grouped aggregate over the rows of a table.
//!
//! Literals are arguments, so that one kernel serves all queries of a shape. [`Program::check`] reports whether a
//! kernel can compute a program.
//!
//! ```text
//! mod      programs, expressions and types
//! verify   types of expressions, and limits of programs
//! display  programs as text
//! stored   layouts of columns in memory
//! ```

mod display;
mod stored;
mod verify;

pub use stored::Stored;
pub use verify::MAX_COLUMNS;
pub(crate) use verify::{nodes, operands};

/// Type of a value and layout of its bytes in memory (little-endian, no padding).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    /// One byte, 0 or 1.
    Bool,
    /// TINYINT.
    Int8,
    /// SMALLINT.
    Int16,
    /// INT.
    Int32,
    /// BIGINT.
    Int64,
    /// FLOAT.
    Float32,
    /// DOUBLE.
    Float64,
    /// Days since 1970-01-01, four bytes.
    Date32,
    /// Time since 1970-01-01T00:00:00 without a zone, eight bytes, in the unit.
    Timestamp(TimeUnit),
    /// An unscaled value. In memory it has eight bytes, whatever its digits: a column with a value that takes more
    /// cannot be decoded. Operations compute with 16 bytes if their type has more than 18 digits, and with eight
    /// otherwise. A result that takes more, and a key or an extreme of more than eight bytes, end the query with
    /// [`RunError::Refused`](crate::error::RunError::Refused).
    Decimal {
        /// Digits, at most 38.
        precision: u8,
        /// Digits after the point, 0 to `precision`.
        scale: i8,
    },
    /// Code of a string in the caller's dictionary, four bytes. Compared for equality only.
    Code,
}

/// Unit of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum TimeUnit {
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
}

/// Digits of any decimal, at most.
pub const MAX_DECIMAL_DIGITS: u8 = 38;
/// Digits by which a decimal is scaled up or down, at most: powers of ten beyond take more than eight bytes.
const MAX_RESCALED_DIGITS: i8 = 18;

impl Type {
    /// The type of a sum, difference or product of two decimals, as arrow has it (arrow-arith, `decimal_op`: the rules
    /// of Hive). `None`: another operation, other types, or a scale that kernels do not compute.
    pub fn of_decimals(op: BinaryOp, left: Self, right: Self) -> Option<Self> {
        let (
            Self::Decimal {
                precision: p1,
                scale: s1,
            },
            Self::Decimal {
                precision: p2,
                scale: s2,
            },
        ) = (left, right)
        else {
            return None;
        };
        let (digits, scale) = match op {
            BinaryOp::Add | BinaryOp::Subtract if (s1 - s2).abs() <= MAX_RESCALED_DIGITS => {
                let scale = s1.max(s2);
                let whole = (i16::from(p1) - i16::from(s1)).max(i16::from(p2) - i16::from(s2));
                (i16::from(scale) + whole + 1, scale)
            }
            BinaryOp::Multiply => (i16::from(p1) + i16::from(p2) + 1, s1.checked_add(s2)?),
            _ => return None,
        };
        let precision = digits.min(i16::from(MAX_DECIMAL_DIGITS)) as u8;
        (0..=MAX_DECIMAL_DIGITS as i8)
            .contains(&scale)
            .then_some(Self::Decimal { precision, scale })
    }

    /// Whether kernels cast between a decimal and another type as arrow does. To floats of four bytes, and from floats
    /// to more than 18 digits, the CPU casts.
    pub fn casts_decimal(from: Self, to: Self) -> bool {
        let rescales = |by: i8| by.abs() <= MAX_RESCALED_DIGITS;
        match (from, to) {
            (Self::Decimal { scale: a, .. }, Self::Decimal { scale: b, .. }) => rescales(b - a),
            (Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64, Self::Decimal { scale, .. })
            | (Self::Decimal { scale, .. }, Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64 | Self::Float64) => {
                rescales(scale)
            }
            (Self::Float32 | Self::Float64, Self::Decimal { precision, scale }) => {
                precision <= MAX_RESCALED_DIGITS as u8 && (0..=MAX_RESCALED_DIGITS).contains(&scale)
            }
            _ => false,
        }
    }

    /// Bytes of a value in memory.
    pub fn width(self) -> u32 {
        match self {
            Self::Bool | Self::Int8 => 1,
            Self::Int16 => 2,
            Self::Int32 | Self::Float32 | Self::Date32 | Self::Code => 4,
            Self::Int64 | Self::Float64 | Self::Timestamp(_) | Self::Decimal { .. } => 8,
        }
    }
}

/// A literal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// Of [`Type::Bool`].
    Bool(bool),
    /// Of an integer, date, timestamp or decimal type (unscaled), or of [`Type::Code`].
    Int(i64),
    /// Of a floating-point type.
    Float(f64),
}

/// A column that a program reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Column {
    /// Shown in EXPLAIN and in the kernel's source.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Whether a value may be missing.
    pub nullable: bool,
    /// Layout of its values in memory. A run takes the narrowest one for the bounds in
    /// [`Input::value_bounds`](crate::input::Input::value_bounds).
    pub stored: Stored,
}

impl Column {
    /// A column in its type's layout.
    pub fn new(name: impl Into<String>, ty: Type, nullable: bool) -> Self {
        Self {
            name: name.into(),
            ty,
            nullable,
            stored: Stored::of(ty),
        }
    }
}

/// Operators of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// Integers wrap; so do `Subtract` and `Multiply`. Decimals may differ in scale.
    Add,
    /// Integers wrap.
    Subtract,
    /// Integers wrap.
    Multiply,
    /// An integer division by zero, or of the least value by −1, ends the query with
    /// [`RunError::Refused`](crate::error::RunError::Refused).
    Divide,
    /// As `Divide`.
    Modulo,
    /// All comparisons take floats by total order with −0 = 0: NaN equals NaN, and is greater than all other values.
    Eq,
    /// See `Eq`.
    NotEq,
    /// See `Eq`.
    Lt,
    /// See `Eq`.
    LtEq,
    /// See `Eq`.
    Gt,
    /// See `Eq`.
    GtEq,
    /// Of three values.
    And,
    /// Of three values.
    Or,
    /// Never NULL: NULL is distinct from every value, and not from NULL.
    IsDistinctFrom,
    /// Negation of `IsDistinctFrom`.
    IsNotDistinctFrom,
}

/// Fields of dates and timestamps (proleptic Gregorian calendar, as DataFusion).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum DatePart {
    Year,
    Quarter,
    Month,
    /// ISO week.
    Week,
    Day,
    /// 0 = Sunday.
    DayOfWeek,
    DayOfYear,
    Hour,
    Minute,
    Second,
}

/// Functions of one float that IEEE 754 defines to the last bit. The result has the argument's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum MathFunction {
    Floor,
    Ceil,
    Abs,
    /// A negative value ends the query with [`RunError::Refused`](crate::error::RunError::Refused), as DataFusion's
    /// function does.
    Sqrt,
}

/// A typed expression over a program's columns and arguments.
///
/// Both operands of a binary operator have the same type. AND and OR take booleans.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Expr {
    /// By position in [`Program::columns`].
    Column(usize),
    /// By position in [`Program::arguments`].
    Argument(usize),
    /// NULL of a type.
    Null(Type),
    /// NOT.
    Not(Box<Expr>),
    /// Minus; integers wrap.
    Negate(Box<Expr>),
    /// IS NULL.
    IsNull(Box<Expr>),
    /// Two operands.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Its left operand.
        left: Box<Expr>,
        /// Its right operand.
        right: Box<Expr>,
    },
    /// IN, by SQL's rules for NULL.
    InList {
        /// Value to look up.
        value: Box<Expr>,
        /// Values to compare it with.
        list: Vec<Expr>,
        /// NOT IN.
        negated: bool,
    },
    /// The first branch whose condition is true.
    Case {
        /// Conditions and results.
        branches: Vec<(Expr, Expr)>,
        /// Result if no condition is true. `None`: NULL.
        otherwise: Option<Box<Expr>>,
    },
    /// The first value that is not NULL.
    Coalesce(Vec<Expr>),
    /// A conversion. A value that does not fit the type ends the query with
    /// [`RunError::Refused`](crate::error::RunError::Refused).
    Cast {
        /// The value to convert.
        value: Box<Expr>,
        /// Type of the result.
        to: Type,
    },
    /// A conversion between numbers, booleans and decimals. A value that does not fit the type gives NULL.
    TryCast {
        /// The value to convert.
        value: Box<Expr>,
        /// Type of the result.
        to: Type,
    },
    /// A function of a float.
    Math {
        /// The function.
        function: MathFunction,
        /// A float.
        value: Box<Expr>,
    },
    /// `extract(part FROM value)` as [`Type::Int32`].
    Extract {
        /// The field.
        part: DatePart,
        /// A date or timestamp.
        value: Box<Expr>,
    },
    /// `date_trunc(part, value)`; the value's own type.
    Truncate {
        /// The finest field that is kept: Year, Quarter, Month, Week (Monday), Day, Hour, Minute or Second.
        part: DatePart,
        /// A timestamp.
        value: Box<Expr>,
    },
}

/// Aggregate functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// Counts rows, or values that are not NULL. The result is [`Type::Int64`], never NULL.
    Count,
    /// Sums integers as [`Type::Int64`], wrapping; floats as [`Type::Float64`]; decimals with 38 digits. NULL if there
    /// are no values.
    Sum,
    /// The least value, in the argument's type. NULL if there are no values.
    Min,
    /// The greatest value, in the argument's type. NULL if there are no values.
    Max,
    /// AND of the bits of integers. NULL if there are no values.
    BitAnd,
    /// OR of the bits of integers. NULL if there are no values.
    BitOr,
    /// Exclusive OR of the bits of integers. NULL if there are no values.
    BitXor,
    /// Count, mean, and sum of squared distances from the mean, of numbers as [`Type::Float64`]: the state of variances
    /// and standard deviations. Never NULL.
    Moments,
}

/// An aggregate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Aggregate {
    /// The function.
    pub function: Function,
    /// The argument. `None`: COUNT(*).
    pub argument: Option<Expr>,
    /// FILTER (WHERE …).
    pub filter: Option<Expr>,
}

/// A filtered, grouped aggregate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Program {
    /// Columns that the program reads.
    pub columns: Vec<Column>,
    /// Types of the literals.
    pub arguments: Vec<Type>,
    /// The filter's conjuncts in the order of evaluation. A row passes if all are true; without conjuncts all rows
    /// pass.
    pub conjuncts: Vec<Expr>,
    /// GROUP BY. Without keys there is one group, even of no rows.
    pub keys: Vec<Expr>,
    /// The aggregates.
    pub aggregates: Vec<Aggregate>,
}
