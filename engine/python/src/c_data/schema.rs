//! [`export`] and [`import`]: a schema out of and into Rust.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, UnionFields, UnionMode};
use arrow::error::ArrowError;
use arrow::ffi::FFI_ArrowSchema;

const DICTIONARY_ORDERED: i64 = 1;
const NULLABLE: i64 = 2;
const MAP_KEYS_SORTED: i64 = 4;

/// Depth of nested types that is read. A struct that contains itself is refused, not followed.
const MAX_DEPTH: usize = 64;

/// `struct ArrowSchema` of the C data interface: arrow's [`FFI_ArrowSchema`], whose fields are private.
#[repr(C)]
struct CSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut CSchema,
    dictionary: *mut CSchema,
    release: Option<unsafe extern "C" fn(*mut CSchema)>,
    private_data: *mut c_void,
}

const _: () = assert!(size_of::<CSchema>() == size_of::<FFI_ArrowSchema>());

/// The struct of a schema.
///
/// # Errors
/// If a name contains a zero character.
pub(crate) fn export(schema: &Schema) -> Result<FFI_ArrowSchema, ArrowError> {
    let mut exported = FFI_ArrowSchema::try_from(schema)?;
    let columns = DataType::Struct(schema.fields().clone());
    // SAFETY: arrow has made the struct of this type.
    unsafe { mark_sorted_keys(ptr::from_mut(&mut exported).cast(), &columns) };
    Ok(exported)
}

/// Marks maps with sorted keys, which arrow forgets in fields.
///
/// # Safety
/// The struct is one of the type.
unsafe fn mark_sorted_keys(schema: *mut CSchema, data_type: &DataType) {
    // SAFETY: as required of the caller. The struct has a child for each of the type, and a dictionary for its values.
    unsafe {
        if matches!(data_type, DataType::Map(_, true)) {
            (*schema).flags |= MAP_KEYS_SORTED;
        }
        for (place, child) in child_types(data_type).into_iter().enumerate() {
            mark_sorted_keys(*(*schema).children.add(place), child);
        }
        if let DataType::Dictionary(_, values) = data_type {
            mark_sorted_keys((*schema).dictionary, values);
        }
    }
}

/// The types of an array's children, in the interface's order.
pub(super) fn child_types(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => vec![item.data_type()],
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field.data_type()).collect(),
        DataType::RunEndEncoded(run_ends, values) => vec![run_ends.data_type(), values.data_type()],
        _ => Vec::new(),
    }
}

/// The schema of a struct.
///
/// # Errors
/// If the struct is no schema of columns, or has an unknown type.
///
/// # Safety
/// The struct follows the C data interface: its pointers are null, or valid for what the interface defines.
pub(crate) unsafe fn import(schema: &FFI_ArrowSchema) -> Result<Schema, ArrowError> {
    // SAFETY: as required of the caller; both structs are those of the interface.
    let field = unsafe { import_field(ptr::from_ref(schema).cast(), 0)? };
    match field.data_type() {
        DataType::Struct(fields) => Ok(Schema::new_with_metadata(fields.clone(), field.metadata().clone())),
        other => refuse(format!(
            "a stream of {other} has no columns: a table is a stream of structs"
        )),
    }
}

fn refuse<T>(reason: String) -> Result<T, ArrowError> {
    Err(ArrowError::CDataInterface(reason))
}

/// # Safety
/// As [`import`], for a pointer that may be null.
unsafe fn import_field(schema: *const CSchema, depth: usize) -> Result<Field, ArrowError> {
    // SAFETY: as required of the caller.
    let Some(schema) = (unsafe { schema.as_ref() }) else {
        return refuse("a part of an Arrow schema is missing".to_owned());
    };
    if schema.release.is_none() || schema.format.is_null() {
        return refuse("an Arrow schema was released before it was read".to_owned());
    }
    if depth > MAX_DEPTH {
        return refuse(format!("an Arrow type is nested more than {MAX_DEPTH} levels deep"));
    }
    let text = |at: *const c_char| match at.is_null() {
        true => String::new(),
        // SAFETY: the interface's strings end with zero.
        false => unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned(),
    };
    let count = match usize::try_from(schema.n_children) {
        Ok(count) if count == 0 || !schema.children.is_null() => count,
        _ => return refuse(format!("an Arrow schema lacks its {} children", schema.n_children)),
    };
    let mut children = Vec::new();
    for at in 0..count {
        // SAFETY: `children` has `n_children` pointers.
        children.push(unsafe { import_field(*schema.children.add(at), depth + 1)? });
    }
    let mut found = data_type(&text(schema.format), children, schema.flags & MAP_KEYS_SORTED != 0)?;
    if !schema.dictionary.is_null() {
        // SAFETY: a dictionary that is not null is a valid struct.
        let values = unsafe { import_field(schema.dictionary, depth + 1)? };
        if !found.is_dictionary_key_type() {
            return refuse(format!("an Arrow dictionary has keys of {found}"));
        }
        found = DataType::Dictionary(Box::new(found), Box::new(values.data_type().clone()));
    }
    // SAFETY: `metadata` is null or follows the interface.
    let metadata = unsafe { decode_metadata(schema.metadata) };
    let field = Field::new(text(schema.name), found, schema.flags & NULLABLE != 0);
    Ok(field
        .with_dict_is_ordered(schema.flags & DICTIONARY_ORDERED != 0)
        .with_metadata(metadata))
}

/// The type of a format string, whose children are `children`.
fn data_type(format: &str, children: Vec<Field>, keys_sorted: bool) -> Result<DataType, ArrowError> {
    let unknown = || ArrowError::CDataInterface(format!("the Arrow format {format:?} is not known"));
    let only = |children: Vec<Field>| match <[Field; 1]>::try_from(children) {
        Ok([child]) => Ok(Arc::new(child)),
        Err(children) => refuse(format!(
            "the Arrow format {format:?} has one child, not {}",
            children.len()
        )),
    };
    let (kind, argument) = format.split_once(':').unwrap_or((format, ""));
    Ok(match kind {
        "+s" => DataType::Struct(children.into()),
        "+l" => DataType::List(only(children)?),
        "+L" => DataType::LargeList(only(children)?),
        "+vl" => DataType::ListView(only(children)?),
        "+vL" => DataType::LargeListView(only(children)?),
        "+w" => match argument.parse() {
            Ok(length @ 0..) => DataType::FixedSizeList(only(children)?, length),
            _ => return Err(unknown()),
        },
        "+m" => {
            let entries = only(children)?;
            if !matches!(entries.data_type(), DataType::Struct(fields) if fields.len() == 2) {
                return refuse(format!("an Arrow map has entries of {}", entries.data_type()));
            }
            DataType::Map(entries, keys_sorted)
        }
        "+r" => match <[Field; 2]>::try_from(children) {
            Ok([run_ends, values]) if run_ends.data_type().is_run_ends_type() => {
                DataType::RunEndEncoded(Arc::new(run_ends), Arc::new(values))
            }
            _ => return Err(unknown()),
        },
        "+ud" | "+us" => {
            let mode = if kind == "+ud" {
                UnionMode::Dense
            } else {
                UnionMode::Sparse
            };
            let ids = argument.split(',').map(str::parse::<i8>).collect::<Result<Vec<_>, _>>();
            let fields = ids.ok().and_then(|ids| UnionFields::try_new(ids, children).ok());
            DataType::Union(fields.ok_or_else(unknown)?, mode)
        }
        "w" if argument.starts_with('-') => return Err(unknown()),
        _ => {
            let plain = FFI_ArrowSchema::try_new(format, Vec::new(), None)?;
            DataType::try_from(&plain).map_err(|_| unknown())?
        }
    })
}

/// Number of pairs, then length and bytes of each key and value, as native 32-bit integers.
///
/// # Safety
/// `at` is null or points at metadata as the interface encodes them.
unsafe fn decode_metadata(mut at: *const c_char) -> HashMap<String, String> {
    let mut metadata = HashMap::new();
    if at.is_null() {
        return metadata;
    }
    // SAFETY: as required of the caller; the integers have no alignment.
    let pairs = unsafe { at.cast::<i32>().read_unaligned() };
    // SAFETY: the first pair follows.
    at = unsafe { at.add(4) };
    let mut text = || {
        // SAFETY: as above, at the place behind the previous text.
        unsafe {
            let length = usize::try_from(at.cast::<i32>().read_unaligned()).unwrap_or(0);
            let bytes = std::slice::from_raw_parts(at.add(4).cast::<u8>(), length);
            at = at.add(4 + length);
            String::from_utf8_lossy(bytes).into_owned()
        }
    };
    for _ in 0..pairs {
        let key = text();
        metadata.insert(key, text());
    }
    metadata
}
