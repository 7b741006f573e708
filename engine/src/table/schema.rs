//! The schema of a table: the columns of all its files by name, in the order of the first file that has them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::common::plan_err;
use datafusion::error::Result;
use grampus_orc_layout::schema::ColumnId;

use crate::file::file_cache::OrcFile;

/// The columns of all `files`, then the partition columns. If a file lacks a column, its rows read as NULL there.
///
/// # Errors
/// - Two files give a column different types.
/// - A file has no column in common with the files before it.
/// - A name stands for two columns.
///
/// The error names the file and the column.
pub(crate) fn table_schema(files: &[Arc<OrcFile>], partitions: &[Field]) -> Result<SchemaRef> {
    let mut fields: Vec<FieldRef> = Vec::new();
    let mut by_name: HashMap<String, (usize, &Arc<str>)> = HashMap::new();
    for file in files {
        let mut common = 0;
        for field in file.tail.schema.arrow.fields() {
            match by_name.get(field.name()) {
                Some((_, from)) if Arc::ptr_eq(from, &file.name) => {
                    return plan_err!("{}: two columns are named {}", file.name, field.name());
                }
                Some(&(at, from)) => {
                    check_type(file, field, &fields[at], from)?;
                    common += 1;
                }
                None => {
                    by_name.insert(field.name().clone(), (fields.len(), &file.name));
                    fields.push(Arc::clone(field));
                }
            }
        }
        if common == 0 && !Arc::ptr_eq(file, &files[0]) && !file.tail.schema.arrow.fields().is_empty() {
            return plan_err!(
                "{}: it has no column in common with {}: these files are not one table",
                file.name,
                files[0].name
            );
        }
    }
    for partition in partitions {
        if let Some((_, file)) = by_name.get(partition.name()) {
            return plan_err!(
                "{file}: column {} is in the file and in the name of a folder above it: rename the folders or query \
                 the files one by one",
                partition.name()
            );
        }
        fields.push(Arc::new(partition.clone()));
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn check_type(file: &OrcFile, field: &Field, known: &Field, from: &str) -> Result<()> {
    if field.data_type() == known.data_type() {
        return Ok(());
    }
    plan_err!(
        "{}: column {} is {}, but {} in {from}",
        file.name,
        field.name(),
        field.data_type(),
        known.data_type()
    )
}

/// The column of `file` for each of the first `columns` fields of the table; `None`: the file lacks the column.
///
/// # Errors
/// If the file does not fit the table, because the file is new or has changed.
pub(crate) fn map_columns(file: &OrcFile, table: &Schema, columns: usize) -> Result<Vec<Option<ColumnId>>> {
    let mut map = vec![None; columns];
    let table_fields = &table.fields()[..columns];
    for (k, field) in file.tail.schema.arrow.fields().iter().enumerate() {
        // Most files have their columns in the table's order.
        let same = table_fields.get(k).is_some_and(|known| known.name() == field.name());
        let at = match same {
            true => Some(k),
            false => table_fields.iter().position(|known| known.name() == field.name()),
        };
        let Some(at) = at else {
            return plan_err!(
                "{}: column {} is not in the table: the file came or changed after the table was made; make it again",
                file.name,
                field.name()
            );
        };
        check_type(file, field, &table_fields[at], "the table")?;
        map[at] = Some(file.tail.schema.fields()[k]);
    }
    Ok(map)
}
