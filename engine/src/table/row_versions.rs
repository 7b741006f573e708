//! Row versions: refuses Hive tables whose rows only Hive can merge ("ACID", transactional tables).
//!
//! Such a table has folders `base_N`, `delta_x_y` and `delete_delta_x_y`. A row of a delta replaces or deletes a row of
//! another folder, and a base replaces earlier deltas. Reading all files as plain ones would return rows that Hive has
//! deleted. Source: `AcidUtils` of Hive, `OrcRecordUpdater` for the columns.

use datafusion::common::plan_err;
use datafusion::error::Result;
use grampus_orc_layout::schema::{OrcSchema, TypeKind};

/// The columns of a file with row versions; `row` has the table's columns.
const COLUMNS: [&str; 6] = [
    "operation",
    "originalTransaction",
    "bucket",
    "rowId",
    "currentTransaction",
    "row",
];

/// The ways out that the errors name.
const ADVICE: &str = "rows that Hive has updated or deleted would come back; copy the table in Hive with CREATE TABLE \
                      … STORED AS ORC TBLPROPERTIES ('transactional'='false') AS SELECT … and query the copy, or query \
                      a single file by its own path to see its row versions";

/// Refuses a file that lies in a folder of row versions below the location.
///
/// # Errors
/// If one of `folders` is such a folder.
pub(crate) fn refuse_folders(name: &str, folders: &[String]) -> Result<()> {
    match folders.iter().find(|folder| is_version_folder(folder)) {
        Some(folder) => plan_err!("{name}: folder {folder} belongs to a transactional Hive table (ACID): {ADVICE}"),
        None => Ok(()),
    }
}

/// Refuses a file whose rows are row versions. Only a location that is the file itself may have them.
///
/// # Errors
/// If the file has the columns of row versions.
pub(crate) fn refuse_columns(name: &str, schema: &OrcSchema) -> Result<()> {
    match has_version_columns(schema) {
        true => plan_err!(
            "{name}: its columns ({}) are row versions of a transactional Hive table (ACID): {ADVICE}",
            COLUMNS.join(", ")
        ),
        false => Ok(()),
    }
}

/// True for `base_N`, `delta_x_y`, `delta_x_y_s` and `delete_delta_…`, also with Hive's suffix `_vN`.
fn is_version_folder(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (name, visibility) = match name.rsplit_once("_v") {
        Some((name, visibility)) => (name, is_number(visibility)),
        None => (name, true),
    };
    let (numbers, lengths) = match name.strip_prefix("delete_").unwrap_or(name).strip_prefix("delta_") {
        Some(numbers) => (numbers, 2..=3),
        None => match name.strip_prefix("base_") {
            Some(numbers) => (numbers, 1..=1),
            None => return false,
        },
    };
    visibility && numbers.split('_').all(is_number) && lengths.contains(&numbers.split('_').count())
}

fn has_version_columns(schema: &OrcSchema) -> bool {
    let fields = schema.fields();
    let names = fields.iter().map(|&id| schema.column(id).name.as_str());
    let is_row = |&id| schema.column(id).kind == TypeKind::Struct;
    names.eq(COLUMNS) && fields.last().is_some_and(is_row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_folders_are_those_of_hive() {
        for name in [
            "base_5",
            "base_0000005",
            "base_0000005_v0000023",
            "delta_1_1",
            "delta_0000001_0000002_0003",
            "delta_0000001_0000002_v0000017",
            "delete_delta_0000002_0000002_0000",
        ] {
            assert!(is_version_folder(name), "{name}");
        }
        for name in [
            "base",
            "base_",
            "base_x",
            "base_1_2",
            "delta_1",
            "delta_a_b",
            "delta",
            "year=2019",
            "delete_base_1",
        ] {
            assert!(!is_version_folder(name), "{name}");
        }
    }
}
