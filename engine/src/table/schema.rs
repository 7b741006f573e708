//! The schema of a table: the columns of all its files, in the order of the first file that has them.
//!
//! The rules are those of Hive and Trino:
//!
//! 1. A file's column is the table's column of the same name. If no name is the same, letter case is ignored.
//! 2. If a file's columns are named `_col0`, `_col1`, …, as old versions of Hive write them, they have no names. Its
//!    column k is the table's column k.
//! 3. A column that a file lacks is NULL in all rows of the file.
//! 4. A column has the widest type of all files ([`column_types::common`](super::column_types::common)).
//! 5. Of columns of one file with one name, those after the first get a number: `a`, `a_1`, `a_2`.
//!
//! The table keeps its schema. Later, a further column of a new file is not read, and a wider one is an error.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::plan_err;
use datafusion::error::Result;
use grampus_orc_layout::schema::{OrcSchema, OrcSchemaRef};

use super::files::{ColumnMap, MappedColumn};
use super::{column_types, value_types};
use crate::file::file_cache::OrcFile;

/// The columns of all `files`, then the partition columns.
///
/// # Errors
/// - Two files give a column types without a common one.
/// - A file has no column in common with the files before it.
/// - A name stands for two columns of the table.
/// - A file without column names meets files whose columns have different positions.
///
/// The error names the file and the column.
pub(crate) fn table_schema(files: &[Arc<OrcFile>], partitions: &[Field]) -> Result<SchemaRef> {
    let mut seen = HashSet::new();
    let distinct: Vec<&OrcFile> = files
        .iter()
        .map(AsRef::as_ref)
        .filter(|file| seen.insert(Arc::as_ptr(&file.tail.schema)))
        .collect();
    let (unnamed, named): (Vec<&OrcFile>, Vec<&OrcFile>) =
        distinct.iter().partition(|file| is_unnamed(&file.tail.schema));
    let mut columns = Columns::default();
    let by_name = if named.is_empty() { &unnamed } else { &named };
    for file in by_name {
        columns.merge_by_name(file)?;
    }
    if !named.is_empty() {
        for file in &unnamed {
            columns.merge_by_position(file)?;
        }
    }
    columns.add_partitions(partitions)?;
    let fields: Vec<FieldRef> = columns.columns.into_iter().map(|column| column.field).collect();
    let schema = Arc::new(Schema::new(fields));
    // A later file can have changed the column that a name stands for, so the mapping itself is the last check.
    for file in distinct {
        map_columns(
            &file.name,
            &file.tail.schema,
            &schema,
            schema.fields().len() - partitions.len(),
        )?;
    }
    Ok(schema)
}

/// A column of the table and the file that its type is from.
struct TableColumn {
    field: FieldRef,
    file: Arc<str>,
}

/// The columns found so far.
#[derive(Default)]
struct Columns {
    columns: Vec<TableColumn>,
    names: NameIndex,
    /// A file with names whose columns have other positions than in the table.
    moved: Option<Arc<str>>,
}

impl Columns {
    fn merge_by_name(&mut self, file: &OrcFile) -> Result<()> {
        let fields = &distinct_names(file.tail.schema.arrow.fields());
        let places = self.names.places(&file.name, fields)?;
        if !self.columns.is_empty() && !fields.is_empty() && places.iter().all(Option::is_none) {
            return plan_err!(
                "{}: it has no column in common with {}: these files are not one table",
                file.name,
                self.columns[0].file
            );
        }
        for (k, (field, place)) in fields.iter().zip(places).enumerate() {
            let at = self.merge(file, field, place)?;
            if at != k {
                self.moved.get_or_insert_with(|| Arc::clone(&file.name));
            }
        }
        Ok(())
    }

    fn merge_by_position(&mut self, file: &OrcFile) -> Result<()> {
        if let Some(moved) = &self.moved {
            return plan_err!(
                "{}: its columns have no names (_col0, _col1, …) and count by position, but {moved} has columns at \
                 other positions than the files before it; query the files without names as a table of their own",
                file.name
            );
        }
        for (k, field) in file.tail.schema.arrow.fields().iter().enumerate() {
            self.merge(file, field, (k < self.columns.len()).then_some(k))?;
        }
        Ok(())
    }

    /// Adds a field to the column at `place`, or as a new column. Returns the column's position.
    fn merge(&mut self, file: &OrcFile, field: &FieldRef, place: Option<usize>) -> Result<usize> {
        let Some(at) = place else {
            self.names.insert(field.name(), self.columns.len());
            self.columns.push(TableColumn {
                field: Arc::clone(field),
                file: Arc::clone(&file.name),
            });
            return Ok(self.columns.len() - 1);
        };
        let known = &mut self.columns[at];
        if field.data_type() == known.field.data_type() {
            return Ok(at);
        }
        match column_types::common(known.field.data_type(), field.data_type()) {
            Some(common) if common == *known.field.data_type() => {}
            Some(common) => {
                known.field = Arc::new(known.field.as_ref().clone().with_data_type(common));
                known.file = Arc::clone(&file.name);
            }
            None => {
                return plan_err!(
                    "{}: column {} is {}, but {} in {}, and no type holds both: query the files one by one, or convert \
                     one of them",
                    file.name,
                    known.field.name(),
                    field.data_type(),
                    known.field.data_type(),
                    known.file
                );
            }
        }
        Ok(at)
    }

    fn add_partitions(&mut self, partitions: &[Field]) -> Result<()> {
        for partition in partitions {
            if let Some(column) = self.names.exact.get(partition.name()).map(|&at| &self.columns[at]) {
                return plan_err!(
                    "{}: column {} is in the file and in the name of a folder above it: rename the folders or query \
                     the files one by one",
                    column.file,
                    partition.name()
                );
            }
            self.columns.push(TableColumn {
                field: Arc::new(partition.clone()),
                file: Arc::from(""),
            });
        }
        Ok(())
    }
}

/// Positions by name, and by name in lower case.
#[derive(Default)]
struct NameIndex {
    exact: HashMap<String, usize>,
    lower: HashMap<String, Vec<usize>>,
}

impl NameIndex {
    fn of(fields: &[FieldRef]) -> Self {
        let mut index = Self::default();
        fields
            .iter()
            .enumerate()
            .for_each(|(at, field)| index.insert(field.name(), at));
        index
    }

    fn insert(&mut self, name: &str, at: usize) {
        self.exact.insert(name.to_owned(), at);
        self.lower.entry(name.to_lowercase()).or_default().push(at);
    }

    /// For each field of a file the position with its name, or with its name in another letter case; `None`: there is
    /// none. No position is returned twice.
    fn places(&self, file: &str, fields: &[FieldRef]) -> Result<Vec<Option<usize>>> {
        let mut places: Vec<Option<usize>> = fields
            .iter()
            .map(|field| self.exact.get(field.name()).copied())
            .collect();
        let mut taken: HashSet<usize> = places.iter().flatten().copied().collect();
        for (field, place) in fields.iter().zip(&mut places).filter(|(_, place)| place.is_none()) {
            let alike = self.lower.get(&field.name().to_lowercase()).into_iter().flatten();
            let free: Vec<usize> = alike.copied().filter(|at| !taken.contains(at)).collect();
            match free[..] {
                [] => {}
                [at] => {
                    taken.insert(at);
                    *place = Some(at);
                }
                _ => {
                    return plan_err!(
                        "{file}: column {} differs in letter case from {} columns of other files: rename the column",
                        field.name(),
                        free.len()
                    );
                }
            }
        }
        Ok(places)
    }
}

/// The fields of a file with numbers behind repeated names. No name becomes that of another field.
pub(crate) fn distinct_names(fields: &Fields) -> Fields {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for field in fields {
        *counts.entry(field.name()).or_default() += 1;
    }
    if counts.len() == fields.len() {
        return fields.clone();
    }
    let stored: HashSet<&str> = counts.into_keys().collect();
    let mut last: HashMap<&str, usize> = HashMap::new();
    let named = fields.iter().map(|field| {
        let Some(number) = last.get_mut(field.name().as_str()) else {
            last.insert(field.name(), 0);
            return Arc::clone(field);
        };
        loop {
            *number += 1;
            let name = format!("{}_{number}", field.name());
            if !stored.contains(name.as_str()) {
                return Arc::new(field.as_ref().clone().with_name(name));
            }
        }
    });
    named.collect()
}

/// True if the columns are named `_col0`, `_col1`, … in this order.
fn is_unnamed(schema: &OrcSchema) -> bool {
    let fields = schema.arrow.fields();
    let is_number = |(k, field): (usize, &FieldRef)| {
        let number = field.name().strip_prefix("_col");
        number.is_some_and(|number| number == k.to_string())
    };
    !fields.is_empty() && fields.iter().enumerate().all(is_number)
}

/// The maps of the files of a table. Files with the same schema share one.
#[derive(Debug, Default)]
pub(crate) struct ColumnMaps(HashMap<usize, (OrcSchemaRef, Arc<ColumnMap>)>);

impl ColumnMaps {
    /// The map of `file` to the first `columns` fields of `table`.
    ///
    /// # Errors
    /// If the file does not fit the table, because the file is new or has changed.
    pub(crate) fn of(&mut self, file: &OrcFile, table: &Schema, columns: usize) -> Result<Arc<ColumnMap>> {
        let schema = &file.tail.schema;
        let key = Arc::as_ptr(schema).addr();
        if let Some((_, map)) = self.0.get(&key) {
            return Ok(Arc::clone(map));
        }
        let map = Arc::new(map_columns(&file.name, schema, table, columns)?);
        // The schema is kept too, so that no other schema can have its address.
        self.0.insert(key, (Arc::clone(schema), Arc::clone(&map)));
        Ok(map)
    }
}

/// The columns as which a table of `columns` reads `file`, in their order: the table's own, but the file's type where
/// the scan does not convert it to the table's. `own` are the columns of the file alone.
///
/// # Errors
/// If the file has no column in common with the table, or lacks one that must not be NULL.
pub(crate) fn columns_in_file(file: &OrcFile, own: &Schema, columns: &Schema) -> Result<SchemaRef> {
    let table_fields = columns.fields();
    let mut places = vec![None; table_fields.len()];
    for (k, place) in places_of(&file.name, &file.tail.schema, table_fields)?
        .into_iter()
        .enumerate()
    {
        place.into_iter().for_each(|at| places[at] = Some(k));
    }
    let fields = table_fields.iter().zip(places).map(|(field, place)| {
        let Some(stored) = place.map(|k| own.field(k)) else {
            return match field.is_nullable() {
                true => Ok(Arc::clone(field)),
                false => plan_err!(
                    "{}: it lacks column {}, which has no NULL in the table: declare the column as nullable",
                    file.name,
                    field.name()
                ),
            };
        };
        let read = value_types::read_as(stored.data_type(), field.data_type());
        Ok(
            match column_types::common(field.data_type(), &read).as_ref() == Some(field.data_type()) {
                true => Arc::clone(field),
                false => Arc::new(stored.clone().with_name(field.name())),
            },
        )
    });
    let fields = fields.collect::<Result<Vec<FieldRef>>>()?;
    Ok(Arc::new(Schema::new_with_metadata(fields, columns.metadata().clone())))
}

/// The place in the table of each column of a file.
fn places_of(name: &Arc<str>, schema: &OrcSchema, table_fields: &[FieldRef]) -> Result<Vec<Option<usize>>> {
    let (fields, columns) = (&distinct_names(schema.arrow.fields()), table_fields.len());
    let places: Vec<Option<usize>> = match is_unnamed(schema) {
        true => (0..fields.len()).map(|k| (k < columns).then_some(k)).collect(),
        false => NameIndex::of(table_fields).places(name, fields)?,
    };
    if !fields.is_empty() && columns > 0 && places.iter().all(Option::is_none) {
        return plan_err!("{name}: it has no column in common with the table: the file came after the table was made");
    }
    Ok(places)
}

/// The column of a file for each of the first `columns` fields of the table.
fn map_columns(name: &Arc<str>, schema: &OrcSchema, table: &Schema, columns: usize) -> Result<ColumnMap> {
    let table_fields = &table.fields()[..columns];
    let fields = &distinct_names(schema.arrow.fields());
    let places = places_of(name, schema, table_fields)?;
    let mut map = vec![None; columns];
    for ((field, place), &id) in fields.iter().zip(places).zip(schema.fields()) {
        let Some(at) = place else { continue };
        let wanted = table_fields[at].data_type();
        let stored = value_types::read_as(field.data_type(), wanted);
        let is_converted = stored != *wanted;
        check_type(name, &Field::clone(field).with_data_type(stored), &table_fields[at])?;
        map[at] = Some(MappedColumn { id, is_converted });
    }
    Ok(ColumnMap(map))
}

fn check_type(file: &str, field: &Field, known: &Field) -> Result<()> {
    let wanted: &DataType = known.data_type();
    if column_types::common(wanted, field.data_type()).as_ref() == Some(wanted) {
        return Ok(());
    }
    plan_err!(
        "{file}: column {} is {}, but {wanted} in the table: the file came or changed after the table was made; make \
         the table again",
        field.name(),
        field.data_type()
    )
}
