//! Random programs, values and placements, by seed: the seed alone replays a test.

use grampus_gpu_exec::program::{
    Aggregate, BinaryOp, Column, DatePart, Expr, Function, MathFunction, Program, Stored, TimeUnit, Type,
};

use super::interpreter::{Cell, Scalar};

const MATH: [MathFunction; 4] = [
    MathFunction::Floor,
    MathFunction::Ceil,
    MathFunction::Abs,
    MathFunction::Sqrt,
];

/// splitmix64
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

const TYPES: [Type; 15] = [
    Type::Bool,
    Type::Int8,
    Type::Int16,
    Type::Int32,
    Type::Int64,
    Type::Float32,
    Type::Float64,
    Type::Float64,
    Type::Date32,
    Type::Timestamp(TimeUnit::Second),
    Type::Timestamp(TimeUnit::Millisecond),
    Type::Timestamp(TimeUnit::Microsecond),
    Type::Timestamp(TimeUnit::Nanosecond),
    DECIMAL,
    Type::Code,
];
pub(crate) const DECIMAL: Type = Type::Decimal {
    precision: 12,
    scale: 2,
};
pub(crate) const PARTS: [DatePart; 10] = [
    DatePart::Year,
    DatePart::Quarter,
    DatePart::Month,
    DatePart::Week,
    DatePart::Day,
    DatePart::DayOfWeek,
    DatePart::DayOfYear,
    DatePart::Hour,
    DatePart::Minute,
    DatePart::Second,
];

/// A value of a type, usually small, sometimes an extreme. `tame` excludes values that dates, casts or sums refuse.
pub(crate) fn value(random: &mut Random, ty: Type, tame: bool) -> Scalar {
    let extreme = !tame && random.one_in(12);
    let small = random.below(40) as i64 - 12;
    let limits = |least: i64, most: i64, random: &mut Random| *random.pick(&[least, least + 1, -1, 0, most - 1, most]);
    match ty {
        Type::Bool => Scalar::Bool(random.one_in(2)),
        Type::Int8 if extreme => Scalar::Int(limits(i64::from(i8::MIN), i64::from(i8::MAX), random)),
        Type::Int16 if extreme => Scalar::Int(limits(i64::from(i16::MIN), i64::from(i16::MAX), random)),
        Type::Int32 if extreme => Scalar::Int(limits(i64::from(i32::MIN), i64::from(i32::MAX), random)),
        Type::Int64 if extreme => Scalar::Int(limits(i64::MIN, i64::MAX, random)),
        Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64 => Scalar::Int(small),
        Type::Float32 | Type::Float64 => {
            let v = match random.below(8) {
                0 if !tame => *random.pick(&[0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY]),
                1 => random.next() as i64 as f64 / 1e15,
                _ => small as f64 / 4.0,
            };
            Scalar::Float(if ty == Type::Float32 { f64::from(v as f32) } else { v })
        }
        Type::Date32 if extreme => Scalar::Int(limits(i64::from(i32::MIN), i64::from(i32::MAX), random)),
        Type::Date32 => Scalar::Int(random.below(60_000) as i64 - 25_000),
        Type::Timestamp(_) if extreme => Scalar::Int(limits(i64::MIN, i64::MAX, random)),
        Type::Timestamp(unit) => {
            let second = random.below(4_000_000_000) as i64 - 1_700_000_000;
            let scale = match unit {
                TimeUnit::Second => 1,
                TimeUnit::Millisecond => 1_000,
                TimeUnit::Microsecond => 1_000_000,
                TimeUnit::Nanosecond => 1_000_000_000,
            };
            Scalar::Int(second * scale + random.below(scale as u64) as i64)
        }
        Type::Decimal { .. } if extreme => Scalar::Int(*random.pick(&[-999_999_999_999, 999_999_999_999])),
        Type::Decimal { .. } => Scalar::Int(small * 25),
        Type::Code => Scalar::Int(random.below(6) as i64),
    }
}

/// A layout of a type's values: its own, or a narrower one.
fn layout(random: &mut Random, ty: Type) -> Stored {
    let bits = *random.pick(&[8, 16, 32, 62]);
    match random.one_in(2) {
        true => Stored::narrowest(ty, 0, (1 << bits) - 1),
        false => Stored::narrowest(ty, -1 << (bits - 1), 1),
    }
}

/// Whether the layout is that of floats which are whole numbers.
fn has_whole_floats(layout: Stored) -> bool {
    layout.bytes() < Type::Float32.width()
}

/// A value that a layout holds.
pub(crate) fn within(layout: Stored, value: Scalar) -> Scalar {
    let above = 64 - 8 * layout.bytes();
    let held = |v: i64| match layout.is_signed() {
        _ if layout.holds(v) => v,
        true => v << above >> above,
        false => ((v as u64) << above >> above) as i64,
    };
    match value {
        Scalar::Int(v) => Scalar::Int(held(v)),
        Scalar::Float(v) if has_whole_floats(layout) => Scalar::Float(held(v as i64) as f64),
        other => other,
    }
}

/// A value's bytes in memory. A missing value is zeros.
pub(crate) fn bytes(layout: Stored, ty: Type, cell: Cell) -> Vec<u8> {
    let all = match (ty, cell) {
        (_, None) => 0u64,
        (_, Some(Scalar::Float(v))) if has_whole_floats(layout) => v as i64 as u64,
        (Type::Float32, Some(Scalar::Float(v))) => u64::from((v as f32).to_bits()),
        (_, Some(Scalar::Float(v))) => v.to_bits(),
        (_, Some(Scalar::Int(v))) => v as u64,
        (_, Some(Scalar::Bool(v))) => u64::from(v),
        (_, Some(Scalar::Wide(v))) => unreachable!("{v} in memory"),
    };
    all.to_le_bytes()[..layout.bytes() as usize].to_vec()
}

/// Writes programs.
pub(crate) struct Writer<'a> {
    pub random: &'a mut Random,
    pub columns: Vec<Column>,
    pub arguments: Vec<Type>,
    /// No casts, divisions or dates, which could refuse.
    pub tame: bool,
}

impl Writer<'_> {
    fn boxed(&mut self, ty: Type, depth: u32) -> Box<Expr> {
        Box::new(self.expr(ty, depth))
    }

    fn some_type(&mut self) -> Type {
        *self.random.pick(&TYPES)
    }

    /// A column, an argument, or NULL.
    fn leaf(&mut self, ty: Type) -> Expr {
        let columns: Vec<usize> = (0..self.columns.len()).filter(|&c| self.columns[c].ty == ty).collect();
        match self.random.below(20) {
            0 => Expr::Null(ty),
            1..=16 if !columns.is_empty() => Expr::Column(*self.random.pick(&columns)),
            _ => {
                self.arguments.push(ty);
                Expr::Argument(self.arguments.len() - 1)
            }
        }
    }

    pub(crate) fn expr(&mut self, ty: Type, depth: u32) -> Expr {
        if depth == 0 || self.random.one_in(5) {
            return self.leaf(ty);
        }
        let depth = depth - 1;
        match self.random.below(10) {
            0 => Expr::Case {
                branches: (0..1 + self.random.below(2))
                    .map(|_| (self.expr(Type::Bool, depth), self.expr(ty, depth)))
                    .collect(),
                otherwise: if self.random.one_in(3) {
                    None
                } else {
                    Some(self.boxed(ty, depth))
                },
            },
            1 => Expr::Coalesce(vec![self.expr(ty, depth), self.expr(ty, depth)]),
            _ => self.of_type(ty, depth),
        }
    }

    fn of_type(&mut self, ty: Type, depth: u32) -> Expr {
        let arithmetic = [
            BinaryOp::Add,
            BinaryOp::Subtract,
            BinaryOp::Multiply,
            BinaryOp::Divide,
            BinaryOp::Modulo,
        ];
        let safe = if self.tame { 3 } else { 5 };
        let cast = |this: &mut Self, from: Type| Expr::Cast {
            value: this.boxed(from, depth),
            to: ty,
        };
        let float = matches!(ty, Type::Float32 | Type::Float64);
        match ty {
            Type::Bool => self.predicate(depth),
            Type::Int32 if !self.tame && self.random.one_in(4) => {
                let from = *self.random.pick(&TYPES[8..13]);
                Expr::Extract {
                    part: *self.random.pick(&PARTS),
                    value: self.boxed(from, depth),
                }
            }
            Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64 | Type::Float32 | Type::Float64 => {
                match self.random.below(6) {
                    0 => Expr::Negate(self.boxed(ty, depth)),
                    2 if float && self.random.one_in(3) => Expr::Math {
                        function: *self.random.pick(&MATH),
                        value: self.boxed(ty, depth),
                    },
                    1 if !self.tame || float => {
                        let from = *self.random.pick(&TYPES[..8]);
                        cast(self, from)
                    }
                    _ => Expr::Binary {
                        op: arithmetic[self.random.below(if float { 5 } else { safe }) as usize],
                        left: self.boxed(ty, depth),
                        right: self.boxed(ty, depth),
                    },
                }
            }
            Type::Date32 | Type::Timestamp(_) if self.tame => self.leaf(ty),
            Type::Timestamp(_) if self.random.one_in(2) => {
                let parts: Vec<_> = PARTS
                    .iter()
                    .filter(|p| !matches!(p, DatePart::DayOfWeek | DatePart::DayOfYear))
                    .collect();
                Expr::Truncate {
                    part: **self.random.pick(&parts),
                    value: self.boxed(ty, depth),
                }
            }
            Type::Date32 | Type::Timestamp(_) => {
                let from = *self.random.pick(&TYPES[8..13]);
                cast(self, from)
            }
            Type::Decimal { .. } if self.random.one_in(2) => Expr::Negate(self.boxed(ty, depth)),
            Type::Decimal { .. } | Type::Code => self.leaf(ty),
        }
    }

    fn predicate(&mut self, depth: u32) -> Expr {
        let ty = self.some_type();
        match self.random.below(9) {
            0 => Expr::Not(self.boxed(Type::Bool, depth)),
            1 => Expr::IsNull(self.boxed(ty, depth)),
            2 => Expr::InList {
                value: self.boxed(ty, depth),
                list: (0..1 + self.random.below(4)).map(|_| self.expr(ty, 0)).collect(),
                negated: self.random.one_in(2),
            },
            3 | 4 => Expr::Binary {
                op: *self.random.pick(&[BinaryOp::And, BinaryOp::Or]),
                left: self.boxed(Type::Bool, depth),
                right: self.boxed(Type::Bool, depth),
            },
            _ => self.comparison(ty, depth),
        }
    }

    fn comparison(&mut self, ty: Type, depth: u32) -> Expr {
        let ops = [
            BinaryOp::Eq,
            BinaryOp::NotEq,
            BinaryOp::IsDistinctFrom,
            BinaryOp::IsNotDistinctFrom,
            BinaryOp::Lt,
            BinaryOp::LtEq,
            BinaryOp::Gt,
            BinaryOp::GtEq,
        ];
        let ops = if ty == Type::Code { &ops[..4] } else { &ops[..] };
        Expr::Binary {
            op: *self.random.pick(ops),
            left: self.boxed(ty, depth),
            right: self.boxed(ty, depth),
        }
    }

    fn aggregate(&mut self) -> Aggregate {
        let function = *self.random.pick(&[
            Function::Count,
            Function::Sum,
            Function::Sum,
            Function::Min,
            Function::Max,
            Function::Max,
        ]);
        let function = match self.random.below(5) {
            0 => *self
                .random
                .pick(&[Function::BitAnd, Function::BitOr, Function::BitXor, Function::Moments]),
            _ => function,
        };
        let ty = match function {
            Function::BitAnd | Function::BitOr | Function::BitXor => *self.random.pick(&TYPES[1..5]),
            Function::Moments => Type::Float64,
            Function::Sum => *self
                .random
                .pick(&[Type::Int32, Type::Int64, Type::Float64, Type::Float32, DECIMAL]),
            _ => match self.some_type() {
                Type::Code => Type::Float64,
                ty => ty,
            },
        };
        let argument = (function != Function::Count || self.random.one_in(2)).then(|| self.expr(ty, 2));
        Aggregate {
            function,
            argument,
            filter: self.random.one_in(4).then(|| self.expr(Type::Bool, 1)),
        }
    }
}

/// A valid program with up to six columns.
pub(crate) fn program(random: &mut Random, tame: bool) -> Program {
    let columns: Vec<Column> = (0..1 + random.below(6))
        .map(|at| {
            let column = Column::new(format!("c{at}"), *random.pick(&TYPES), random.one_in(2));
            let stored = layout(random, column.ty);
            Column { stored, ..column }
        })
        .collect();
    let mut writer = Writer {
        random,
        columns,
        arguments: Vec::new(),
        tame,
    };
    let conjuncts: Vec<Expr> = (0..writer.random.below(5)).map(|_| writer.predicate(2)).collect();
    let keys = if writer.random.one_in(2) {
        0
    } else {
        1 + writer.random.below(3)
    };
    let keys: Vec<Expr> = (0..keys)
        .map(|_| {
            let ty = writer.some_type();
            writer.expr(ty, 1)
        })
        .collect();
    let least = u64::from(keys.is_empty());
    let aggregates = (0..least + writer.random.below(5))
        .map(|_| writer.aggregate())
        .collect();
    Program {
        columns: writer.columns,
        arguments: writer.arguments,
        conjuncts,
        keys,
        aggregates,
    }
}
