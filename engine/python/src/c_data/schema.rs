//! [`CSchema`]: a field or a schema in the C data interface.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::error::ArrowError;

use super::format::{data_type, format_of};

const DICTIONARY_ORDERED: i64 = 1;
const NULLABLE: i64 = 2;
const MAP_KEYS_SORTED: i64 = 4;

/// Depth of nested types that is read. A struct that contains itself is refused, not followed.
const MAX_DEPTH: usize = 64;

/// `struct ArrowSchema` of the C data interface.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CSchema {
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

// SAFETY: the struct owns what it points at, and the interface lets any thread read and release it.
unsafe impl Send for CSchema {}

/// What an exported struct points at.
struct Owned {
    format: CString,
    name: CString,
    metadata: Vec<u8>,
    children: Vec<*mut CSchema>,
    dictionary: *mut CSchema,
}

impl CSchema {
    /// A struct without content, as the interface defines it.
    pub(crate) fn empty() -> Self {
        Self {
            format: ptr::null(),
            name: ptr::null(),
            metadata: ptr::null(),
            flags: 0,
            n_children: 0,
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }

    /// A schema, which the interface represents as a struct's field.
    ///
    /// # Errors
    /// If a name contains a zero character.
    pub(crate) fn of_schema(schema: &Schema) -> Result<Self, ArrowError> {
        let field = Field::new("", DataType::Struct(schema.fields().clone()), false);
        Self::of_field(&field.with_metadata(schema.metadata().clone()))
    }

    /// # Errors
    /// If a name contains a zero character.
    pub(crate) fn of_field(field: &Field) -> Result<Self, ArrowError> {
        let children = children_of(field.data_type())
            .into_iter()
            .map(|child| Self::of_field(&child))
            .collect::<Result<Vec<_>, _>>()?;
        let dictionary = match field.data_type() {
            DataType::Dictionary(_, values) => Some(Self::of_field(&Field::new("", values.as_ref().clone(), true))?),
            _ => None,
        };
        let c_string = |text: &str| {
            CString::new(text)
                .map_err(|_| ArrowError::CDataInterface(format!("the name {text:?} contains a zero character")))
        };
        let boxed = |schema: Self| Box::into_raw(Box::new(schema));
        let mut owned = Box::new(Owned {
            format: c_string(&format_of(field.data_type())?)?,
            name: c_string(field.name())?,
            metadata: encode_metadata(field.metadata()),
            children: children.into_iter().map(boxed).collect(),
            dictionary: dictionary.map_or(ptr::null_mut(), boxed),
        });
        let mut flags = if field.is_nullable() { NULLABLE } else { 0 };
        if matches!(field.data_type(), DataType::Map(_, true)) {
            flags |= MAP_KEYS_SORTED;
        }
        if field.dict_is_ordered() == Some(true) {
            flags |= DICTIONARY_ORDERED;
        }
        Ok(Self {
            format: owned.format.as_ptr(),
            name: owned.name.as_ptr(),
            metadata: match owned.metadata.is_empty() {
                true => ptr::null(),
                false => owned.metadata.as_ptr().cast(),
            },
            flags,
            n_children: owned.children.len() as i64,
            children: owned.children.as_mut_ptr(),
            dictionary: owned.dictionary,
            release: Some(release),
            private_data: Box::into_raw(owned).cast(),
        })
    }

    /// Reads a schema.
    ///
    /// # Errors
    /// If the struct is no schema of columns, or has an unknown type.
    ///
    /// # Safety
    /// The struct follows the C data interface.
    pub(crate) unsafe fn to_schema(&self) -> Result<Schema, ArrowError> {
        // SAFETY: as required of the caller.
        let field = unsafe { self.to_field(0)? };
        match field.data_type() {
            DataType::Struct(fields) => Ok(Schema::new_with_metadata(fields.clone(), field.metadata().clone())),
            other => Err(ArrowError::CDataInterface(format!(
                "a stream of {other} has no columns: a table is a stream of structs"
            ))),
        }
    }

    /// # Safety
    /// As [`to_schema`](Self::to_schema).
    unsafe fn to_field(&self, depth: usize) -> Result<Field, ArrowError> {
        let refuse = |reason: &str| Err(ArrowError::CDataInterface(reason.to_owned()));
        if self.release.is_none() || self.format.is_null() {
            return refuse("an Arrow schema was released before it was read");
        }
        if depth > MAX_DEPTH {
            return refuse("an Arrow type is nested more than 64 levels deep");
        }
        let text = |at: *const c_char| match at.is_null() {
            true => String::new(),
            // SAFETY: the interface's strings end with zero.
            false => unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned(),
        };
        let count = usize::try_from(self.n_children).unwrap_or(0);
        let mut children = Vec::with_capacity(count);
        for at in 0..count {
            // SAFETY: `children` has `n_children` pointers to valid structs.
            children.push(unsafe { (**self.children.add(at)).to_field(depth + 1)? });
        }
        let mut found = data_type(&text(self.format), children, self.flags & MAP_KEYS_SORTED != 0)?;
        if !self.dictionary.is_null() {
            // SAFETY: a dictionary that is not null is a valid struct.
            let values = unsafe { (*self.dictionary).to_field(depth + 1)? };
            found = DataType::Dictionary(Box::new(found), Box::new(values.data_type().clone()));
        }
        // SAFETY: `metadata` is null or follows the interface.
        let metadata = unsafe { decode_metadata(self.metadata) };
        let field = Field::new(text(self.name), found, self.flags & NULLABLE != 0);
        Ok(field
            .with_dict_is_ordered(self.flags & DICTIONARY_ORDERED != 0)
            .with_metadata(metadata))
    }
}

impl Drop for CSchema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: a struct with `release` has not been released.
            unsafe { release(self) }
        }
    }
}

/// # Safety
/// `schema` was made by [`CSchema::of_field`] and has not been released.
unsafe extern "C" fn release(schema: *mut CSchema) {
    // SAFETY: `private_data` is the box of `of_field`, whose children are boxes of it.
    unsafe {
        let owned = Box::from_raw((*schema).private_data.cast::<Owned>());
        for &child in owned.children.iter().chain([&owned.dictionary]) {
            if !child.is_null() {
                drop(Box::from_raw(child));
            }
        }
        (*schema).release = None;
        (*schema).private_data = ptr::null_mut();
    }
}

/// The child fields of a type, in the interface's order.
fn children_of(data_type: &DataType) -> Vec<Field> {
    let all = |fields: &Fields| fields.iter().map(|field| field.as_ref().clone()).collect();
    match data_type {
        DataType::Struct(fields) => all(fields),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => vec![item.as_ref().clone()],
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field.as_ref().clone()).collect(),
        DataType::RunEndEncoded(run_ends, values) => vec![run_ends.as_ref().clone(), values.as_ref().clone()],
        _ => Vec::new(),
    }
}

/// Number of pairs, then length and bytes of each key and value, as native 32-bit integers.
fn encode_metadata(metadata: &HashMap<String, String>) -> Vec<u8> {
    if metadata.is_empty() {
        return Vec::new();
    }
    let mut pairs: Vec<_> = metadata.iter().collect();
    pairs.sort();
    let mut bytes = (pairs.len() as i32).to_ne_bytes().to_vec();
    for text in pairs.into_iter().flat_map(|(key, value)| [key, value]) {
        bytes.extend((text.len() as i32).to_ne_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}

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
