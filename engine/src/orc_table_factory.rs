//! [`OrcTableFactory`]: tables of `CREATE EXTERNAL TABLE … STORED AS ORC`.
//!
//! - Without columns, the table has those of its files. Partition columns may still have declared types.
//! - With columns, the location is a folder, which may be new or empty. If it has files, their columns must be the
//!   declared ones.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::CreateExternalTable;

use crate::orc_table::OrcTable;
use crate::output::write_options::writer_options;
use crate::redaction::without_passwords;
use crate::table::listing::find_files_if_any;
use crate::table_definition::definition;

/// The table factory.
#[derive(Debug)]
pub(crate) struct OrcTableFactory;

#[async_trait]
impl TableProviderFactory for OrcTableFactory {
    async fn create(&self, state: &dyn Session, command: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        writer_options(&command.options)?;
        let is_partition = |field: &&Arc<Field>| command.table_partition_cols.contains(field.name());
        let fields = command.schema.fields().iter();
        let (partitions, columns): (Vec<&Arc<Field>>, Vec<&Arc<Field>>) = fields.partition(is_partition);
        let columns = Schema::new(columns.into_iter().cloned().collect::<Vec<_>>());
        let table = if columns.fields().is_empty() {
            let types = partitions.into_iter().map(|field| partition_column(field));
            let types = types.collect::<Result<Vec<_>>>()?;
            OrcTable::open_partitioned(state, &command.locations, &types).await?
        } else {
            declared(state, command, &columns, &partitions).await?
        };
        check_partitions(&table, command)?;
        let is_declared = !columns.fields().is_empty();
        let table = table.with_definition(definition(command));
        Ok(Arc::new(table.with_options(&command.options, is_declared)))
    }
}

/// The table of a command with columns.
async fn declared(
    state: &dyn Session,
    command: &CreateExternalTable,
    columns: &Schema,
    partitions: &[&Arc<Field>],
) -> Result<OrcTable> {
    let folder = folder(command)?;
    refuse_constraints(command, columns)?;
    let mut types = Vec::with_capacity(partitions.len());
    for name in &command.table_partition_cols {
        types.push(match partitions.iter().find(|field| field.name() == name) {
            Some(field) => partition_column(field)?,
            None => return plan_err!("PARTITIONED BY ({name}): the column list has no such column"),
        });
    }
    let table = OrcTable::declare(state, folder, columns, types.clone()).await?;
    if find_files_if_any(state, &command.locations).await?.is_empty() {
        return Ok(table);
    }
    let found = OrcTable::open_partitioned(state, &command.locations, &types).await?;
    match first_difference(&found.schema(), &table.schema()) {
        None => Ok(found),
        Some(difference) => plan_err!(
            "the files in {} have other columns: {difference}; leave out the column list to take those of the files",
            without_passwords(folder)
        ),
    }
}

/// The only location, which is a folder.
fn folder(command: &CreateExternalTable) -> Result<&str> {
    let [location] = command.locations.as_slice() else {
        return plan_err!(
            "an ORC table with a column list has one folder, not {}",
            command.locations.len()
        );
    };
    let is_folder = location.ends_with('/') || Path::new(location).is_dir();
    if !is_folder || location.contains(['*', '?', '[']) {
        return plan_err!(
            "{} is no folder: the LOCATION of an ORC table with a column list is a folder and ends with '/'; \
             for files that are there, leave out the column list",
            without_passwords(location)
        );
    }
    Ok(location)
}

/// Refuses promises that ORC files do not keep.
fn refuse_constraints(command: &CreateExternalTable, columns: &Schema) -> Result<()> {
    if let Some(field) = columns.fields().iter().find(|field| !field.is_nullable()) {
        return plan_err!(
            "column {}: an ORC table does not check NOT NULL; leave it out",
            field.name()
        );
    }
    if let Some(name) = command.column_defaults.keys().min() {
        return plan_err!("column {name}: an ORC table has no DEFAULT; leave it out");
    }
    match command.constraints.iter().next() {
        Some(_) => plan_err!("an ORC table does not check PRIMARY KEY, UNIQUE and other constraints; leave them out"),
        None => Ok(()),
    }
}

/// A partition column with the type that values of folder names have.
fn partition_column(field: &Field) -> Result<Field> {
    let data_type = match field.data_type() {
        integer if integer.is_integer() => DataType::Int64,
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        other => {
            return plan_err!(
                "partition column {} of type {other}: partition columns are BIGINT or VARCHAR",
                field.name()
            );
        }
    };
    Ok(Field::new(field.name(), data_type, true))
}

/// The first difference between the columns of files and declared columns. The unit of timestamps follows the files.
fn first_difference(found: &Schema, declared: &Schema) -> Option<String> {
    let is_alike = |one: &DataType, other: &DataType| match (one, other) {
        (DataType::Timestamp(_, zone), DataType::Timestamp(_, other)) => zone == other,
        _ => one == other,
    };
    for (found, declared) in found.fields().iter().zip(declared.fields()) {
        if found.name() != declared.name() || !is_alike(found.data_type(), declared.data_type()) {
            let words = |field: &Field| format!("{} {}", field.name(), field.data_type());
            return Some(format!("{}, not {}", words(found), words(declared)));
        }
    }
    let (found, declared) = (found.fields().len(), declared.fields().len());
    (found != declared).then(|| format!("{found}, not {declared}"))
}

/// Refuses another PARTITIONED BY than the folders have.
fn check_partitions(table: &OrcTable, command: &CreateExternalTable) -> Result<()> {
    let found = table.partition_columns();
    let named = &command.table_partition_cols;
    if !named.is_empty() && !named.iter().eq(found.iter().map(|field| field.name())) {
        let found: Vec<&str> = found.iter().map(|field| field.name().as_str()).collect();
        return plan_err!(
            "PARTITIONED BY ({}): the folders at {} are partitioned by ({})",
            named.join(", "),
            command.locations.join(", "),
            found.join(", ")
        );
    }
    Ok(())
}
