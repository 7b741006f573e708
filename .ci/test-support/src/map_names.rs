//! Names of the fields in maps. Arrow's are `key` and `value`; orc-rust has others.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};

/// The type with Arrow's names in each of its maps.
pub fn with_arrows_map_names(data_type: &DataType) -> DataType {
    let renamed = |field: &FieldRef, name: &str| -> FieldRef {
        let inner = with_arrows_map_names(field.data_type());
        Arc::new(field.as_ref().clone().with_name(name).with_data_type(inner))
    };
    match data_type {
        DataType::List(item) => DataType::List(renamed(item, item.name())),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| renamed(field, field.name())).collect()),
        DataType::Map(entries, is_sorted) => {
            let DataType::Struct(fields) = entries.data_type() else {
                panic!("a map of {}", entries.data_type());
            };
            let fields = fields
                .iter()
                .zip(["key", "value"])
                .map(|(field, name)| renamed(field, name));
            let entries = entries
                .as_ref()
                .clone()
                .with_data_type(DataType::Struct(fields.collect()));
            DataType::Map(Arc::new(entries), *is_sorted)
        }
        other => other.clone(),
    }
}
