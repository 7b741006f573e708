//! Validation of a request: its input must describe the columns of its program, and everything that the input points at
//! must lie inside its files. Kernels perform no bounds checks, so the host checks every offset and length.

use crate::error::RunError;
use crate::input::{FileVersion, Placement, Segment, Stripe};
use crate::options::Request;

/// Checks all of the request.
///
/// # Errors
/// [`RunError::Invalid`], with what does not fit.
pub(crate) fn validate(request: &Request<'_>) -> Result<(), RunError> {
    let (program, input) = (request.program, request.input);
    check_arguments(request)?;
    same("column ids", input.column_ids.len(), program.columns.len())?;
    let mut rows = 0u64;
    for stripe in &input.stripes {
        let named = |e: RunError| match e {
            RunError::Invalid(what) => RunError::Invalid(format!("stripe {}: {what}", stripe.index)),
            other => other,
        };
        same("columns", stripe.columns.len(), program.columns.len()).map_err(named)?;
        let Some(file) = input.files.get(stripe.file) else {
            return invalid(format!(
                "stripe {} is in file {} of {}",
                stripe.index,
                stripe.file,
                input.files.len()
            ));
        };
        check_stripe(stripe, file, request).map_err(named)?;
        // Rows are numbered by 64 bits, and so are bytes of columns.
        rows = match rows.checked_add(stripe.rows).filter(|r| *r < 1 << 56) {
            Some(rows) => rows,
            None => return invalid("more rows than can be numbered".to_owned()),
        };
    }
    Ok(())
}

/// Checks that the program has its literals.
///
/// # Errors
/// [`RunError::Invalid`].
pub(crate) fn check_arguments(request: &Request<'_>) -> Result<(), RunError> {
    same("literals", request.arguments.len(), request.program.arguments.len())
}

fn same(what: &str, has: usize, should: usize) -> Result<(), RunError> {
    match has == should {
        true => Ok(()),
        false => invalid(format!("{has} {what}, not {should}")),
    }
}

fn invalid<T>(what: String) -> Result<T, RunError> {
    Err(RunError::Invalid(what))
}

fn check_stripe(stripe: &Stripe, file: &FileVersion, request: &Request<'_>) -> Result<(), RunError> {
    if stripe.group_rows == 0 {
        return invalid("row groups of no rows".to_owned());
    }
    let mut next = 0;
    for range in &stripe.selected {
        if range.start < next || range.start >= range.end || range.end > stripe.rows {
            return invalid(format!("selected rows {range:?} of {}", stripe.rows));
        }
        next = range.end;
    }
    for (placement, column) in stripe.columns.iter().zip(&request.program.columns) {
        match placement {
            Placement::Direct(segments) => {
                check_segments(segments, stripe.rows, u64::from(column.ty.width()), file)?;
            }
            Placement::Constant(None) if !column.nullable => {
                return invalid(format!("column {} is NULL, which it must not be", column.name));
            }
            Placement::Constant(_) | Placement::Decoded { .. } => {}
        }
    }
    Ok(())
}

fn check_segments(segments: &[Segment], rows: u64, width: u64, file: &FileVersion) -> Result<(), RunError> {
    let mut next = 0u64;
    for segment in segments {
        if segment.first_row != next || segment.rows == 0 {
            return invalid(format!("values of row {next} are nowhere"));
        }
        let end = segment
            .rows
            .checked_mul(width)
            .and_then(|bytes| segment.offset.checked_add(bytes));
        if end.is_none_or(|end| end > file.bytes) {
            return invalid(format!(
                "{} values of {width} bytes at byte {} lie outside {} of {} bytes",
                segment.rows,
                segment.offset,
                file.path.display(),
                file.bytes
            ));
        }
        next += segment.rows;
    }
    if next != rows {
        return invalid(format!("values for {next} rows of {rows}"));
    }
    Ok(())
}
