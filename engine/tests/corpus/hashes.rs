//! The hashes of `column_hashes.json`: SHA-256 over one line per value, from another reader (Apache ORC's C++ library
//! through pyarrow).
//!
//! ```text
//! NULL                              \N
//! integers, days, nanoseconds       decimal
//! booleans                          0 or 1
//! text, bytes                       lower-case hexadecimal
//! floats                            hexadecimal of their little-endian bytes
//! decimals                          as Python prints them
//! lists, structs, maps, unions      JSON
//! ```

use std::fmt::Write;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimeUnit, TimestampMicrosecondType, TimestampNanosecondType, UnionMode,
};
use sha2::{Digest, Sha256};

/// Hexadecimal SHA-256 of a column.
pub(crate) fn column_hash(column: &dyn Array) -> String {
    let mut hash = Sha256::new();
    let mut line = String::new();
    for row in 0..column.len() {
        line.clear();
        write_value(&mut line, column, row);
        line.push('\n');
        hash.update(line.as_bytes());
    }
    hash.finalize()
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// One value as a line of the hashed text.
pub(crate) fn write_value(out: &mut String, column: &dyn Array, row: usize) {
    if is_null(column, row) {
        out.push_str("\\N");
        return;
    }
    match column.data_type() {
        DataType::Boolean => out.push(if column.as_boolean().value(row) { '1' } else { '0' }),
        DataType::Utf8 => write_hex(out, column.as_string::<i32>().value(row).as_bytes()),
        DataType::Binary => write_hex(out, column.as_binary::<i32>().value(row)),
        DataType::Float32 => write_hex(out, &column.as_primitive::<Float32Type>().value(row).to_le_bytes()),
        DataType::Float64 => write_hex(out, &column.as_primitive::<Float64Type>().value(row).to_le_bytes()),
        DataType::Date32 => push(out, column.as_primitive::<Date32Type>().value(row)),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            push(out, column.as_primitive::<TimestampNanosecondType>().value(row));
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            push(
                out,
                i128::from(column.as_primitive::<TimestampMicrosecondType>().value(row)) * 1_000,
            );
        }
        DataType::Decimal128(_, scale) => {
            write_decimal(
                out,
                column.as_primitive::<Decimal128Type>().value(row),
                i32::from(*scale),
            );
        }
        _ => write_json(out, column, row),
    }
}

/// Whether a value is NULL. A union is NULL too if its selected child is.
fn is_null(column: &dyn Array, row: usize) -> bool {
    match column.data_type() {
        DataType::Union(..) => {
            let union = column.as_union();
            is_null(union.child(union.type_id(row)), union.value_offset(row))
        }
        _ => column.is_null(row),
    }
}

fn push(out: &mut String, value: impl std::fmt::Display) {
    let _ = write!(out, "{value}");
}

fn write_hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
}

/// Python's `str(Decimal)`: exponent notation if the first digit is more than six places behind the point.
fn write_decimal(out: &mut String, unscaled: i128, scale: i32) {
    let digits = unscaled.unsigned_abs().to_string();
    if unscaled < 0 {
        out.push('-');
    }
    let count = digits.len() as i32;
    let adjusted = count - 1 - scale;
    if scale == 0 {
        out.push_str(&digits);
    } else if adjusted < -6 {
        out.push_str(&digits[..1]);
        if count > 1 {
            push(out, format_args!(".{}", &digits[1..]));
        }
        push(out, format_args!("E{adjusted}"));
    } else if count > scale {
        let (whole, fraction) = digits.split_at((count - scale) as usize);
        push(out, format_args!("{whole}.{fraction}"));
    } else {
        push(out, format_args!("0.{}{digits}", "0".repeat((scale - count) as usize)));
    }
}

fn write_json(out: &mut String, column: &dyn Array, row: usize) {
    if is_null(column, row) {
        out.push_str("null");
        return;
    }
    match column.data_type() {
        DataType::Boolean => push(out, column.as_boolean().value(row)),
        DataType::Int8 => push(out, column.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => push(out, column.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => push(out, column.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => push(out, column.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => push(
            out,
            format_args!("{:?}", f64::from(column.as_primitive::<Float32Type>().value(row))),
        ),
        DataType::Float64 => push(
            out,
            format_args!("{:?}", column.as_primitive::<Float64Type>().value(row)),
        ),
        DataType::Utf8 => write_text(out, column.as_string::<i32>().value(row)),
        DataType::List(_) => write_items(out, &column.as_list::<i32>().value(row)),
        DataType::Struct(fields) => {
            let columns = column.as_struct();
            out.push('{');
            for (index, field) in fields.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_text(out, field.name());
                out.push_str(": ");
                write_json(out, columns.column(index), row);
            }
            out.push('}');
        }
        DataType::Map(..) => {
            let entries = column.as_map().value(row);
            out.push('[');
            for entry in 0..entries.len() {
                out.push_str(if entry > 0 { ", [" } else { "[" });
                write_json(out, entries.column(0), entry);
                out.push_str(", ");
                write_json(out, entries.column(1), entry);
                out.push(']');
            }
            out.push(']');
        }
        DataType::Union(_, UnionMode::Sparse | UnionMode::Dense) => {
            let union = column.as_union();
            write_json(out, union.child(union.type_id(row)), union.value_offset(row));
        }
        other => panic!("no recipe for {other}"),
    }
}

fn write_items(out: &mut String, items: &dyn Array) {
    out.push('[');
    for item in 0..items.len() {
        out.push_str(if item > 0 { ", " } else { "" });
        write_json(out, items, item);
    }
    out.push(']');
}

fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => push(out, format_args!("\\u{:04x}", control as u32)),
            plain => out.push(plain),
        }
    }
    out.push('"');
}
