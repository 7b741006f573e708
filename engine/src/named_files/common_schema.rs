//! [`common_schema`]: the schema of files that store a column with different types.

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::common::plan_err;
use datafusion::error::Result;

use super::super::table::column_types;

/// The columns of all files, by name, with types that hold the values of each file.
///
/// # Errors
/// If there is no such type. The error names both files, the column and what to do.
pub(super) fn common_schema(files: &[(String, SchemaRef)]) -> Result<Schema> {
    // With each column, the first file that has its type.
    let mut columns: Vec<(Field, &str)> = Vec::new();
    for (file, schema) in files {
        for field in schema.fields() {
            let Some((known, first)) = columns.iter_mut().find(|(known, _)| known.name() == field.name()) else {
                columns.push((field.as_ref().clone(), file));
                continue;
            };
            let Some(common) = common(known.data_type(), field.data_type()) else {
                let name = field.name();
                let (here, there) = (field.data_type(), known.data_type());
                return plan_err!(
                    "{file}: column {name} is {here}, and {there} in {first}: read the files one by one with casts and \
                     UNION ALL BY NAME, or give the types: CREATE EXTERNAL TABLE t ({name} …, …) STORED AS … \
                     LOCATION '…'"
                );
            };
            if common == *field.data_type() && common != *known.data_type() {
                *first = file;
            }
            *known = known.clone().with_data_type(common);
        }
    }
    let metadata = files.first().map(|(_, schema)| schema.metadata().clone());
    let fields: Vec<Field> = columns.into_iter().map(|(field, _)| field).collect();
    Ok(Schema::new_with_metadata(fields, metadata.unwrap_or_default()))
}

/// The schema without claims that columns, and fields of structs, have no NULL.
///
/// Such a claim is one file's. Another of the table's files may lack the column, and then its rows have NULL.
/// DataFusion keeps the claim, and takes `column IS NULL` for false.
pub(super) fn without_claims(schema: &Schema) -> Schema {
    let fields: Fields = schema.fields().iter().map(|field| nullable(field)).collect();
    Schema::new_with_metadata(fields, schema.metadata().clone())
}

fn nullable(field: &Field) -> Field {
    let field = field.clone().with_nullable(true);
    match field.data_type() {
        DataType::Struct(inner) => {
            let inner = inner.iter().map(|field| nullable(field)).collect();
            field.with_data_type(DataType::Struct(inner))
        }
        _ => field,
    }
}

/// The type that holds the values of both. Beyond those of ORC, a column without values has any type, and unsigned
/// integers fit wider ones.
fn common(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::{Float64, Int8, Int16, Int32, Int64, Null, UInt8, UInt16, UInt32, UInt64};
    let signed = |unsigned: &DataType| match unsigned {
        UInt8 => Some(Int16),
        UInt16 => Some(Int32),
        UInt32 => Some(Int64),
        _ => None,
    };
    let unsigned = [UInt8, UInt16, UInt32, UInt64];
    let place = |data_type| unsigned.iter().position(|known| known == data_type);
    match (one, other) {
        (Null, other) => Some(other.clone()),
        (one, Null) => Some(one.clone()),
        // Each has its place in a DOUBLE.
        (Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32, Float64)
        | (Float64, Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32) => Some(Float64),
        _ => match (place(one), place(other)) {
            (Some(here), Some(there)) => Some(unsigned[here.max(there)].clone()),
            (Some(_), None) => column_types::common(&signed(one)?, other),
            (None, Some(_)) => column_types::common(one, &signed(other)?),
            (None, None) => column_types::common(one, other),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn file(name: &str, fields: &[(&str, DataType)]) -> (String, SchemaRef) {
        let fields: Vec<Field> = (fields.iter())
            .map(|(name, data_type)| Field::new(*name, data_type.clone(), false))
            .collect();
        (name.to_owned(), Arc::new(Schema::new(fields)))
    }

    #[test]
    fn columns_have_the_widest_type_of_all_files() {
        use DataType::{Float32, Float64, Int32, Int64, Null, UInt8, UInt32, Utf8};
        let files = [
            file("1", &[("a", Int32), ("b", Float32), ("c", UInt8), ("d", Null)]),
            file(
                "2",
                &[("b", Float64), ("a", Int64), ("c", UInt32), ("d", Utf8), ("e", Int32)],
            ),
            file(
                "3",
                &[("a", UInt32), ("b", Int32), ("c", UInt8), ("d", Null), ("e", Float64)],
            ),
        ];
        let schema = common_schema(&files).unwrap();
        let found: Vec<_> = (schema.fields().iter())
            .map(|field| (field.name().as_str(), field.data_type().clone()))
            .collect();
        assert_eq!(
            found,
            [("a", Int64), ("b", Float64), ("c", UInt32), ("d", Utf8), ("e", Float64),]
        );
    }

    #[test]
    fn types_without_a_common_one_are_refused_with_both_files() {
        use DataType::{Float64, Int16, Int64, UInt64, Utf8};
        for (one, other) in [(Int64, Utf8), (Int64, Float64), (UInt64, Int16)] {
            let files = [file("x/1.parquet", &[("a", one)]), file("x/2.parquet", &[("a", other)])];
            let words = common_schema(&files).unwrap_err().message().into_owned();
            assert!(words.starts_with("x/2.parquet: column a is "), "{words}");
            assert!(words.contains(" in x/1.parquet: "), "{words}");
        }
    }
}
