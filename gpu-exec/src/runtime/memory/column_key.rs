//! `ColumnKey`: the key of cached data of a column of a stripe.

use crate::input::file_registry::FileId;
use crate::options::Request;
use crate::program::{Stored, Type};

/// A map whose keys are numbers of this crate. A table has thousands of columns of stripes, for each of which the
/// standard library's hasher takes several times longer.
pub(crate) type FastMap<K, V> = hashbrown::HashMap<K, V>;

/// A column of a stripe of a file in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ColumnKey {
    pub(crate) file: FileId,
    pub(crate) stripe: usize,
    pub(crate) column: u32,
    pub(crate) ty: Type,
    pub(crate) stored: Stored,
    /// The dictionary that codes refer to; 0 for other types.
    pub(crate) dictionary: u64,
}

impl ColumnKey {
    /// The key of a column of the program in a stripe of the input. `file_ids`: by file of the input.
    pub(crate) fn of(request: &Request<'_>, file_ids: &[FileId], stripe: usize, column: usize) -> Self {
        let (stripe, of) = (&request.input.stripes[stripe], &request.program.columns[column]);
        Self {
            file: file_ids[stripe.file],
            stripe: stripe.index,
            column: request.input.column_ids[column],
            ty: of.ty,
            stored: of.stored,
            dictionary: dictionary_of(request, of.ty),
        }
    }
}

/// The dictionary that values of a type refer to; 0: none.
pub(crate) fn dictionary_of(request: &Request<'_>, ty: Type) -> u64 {
    if ty == Type::Code { request.input.dictionary } else { 0 }
}
