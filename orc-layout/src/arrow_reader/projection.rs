//! [`ProjectionMask`], the columns that a reader returns or a predicate sees.

use crate::error::{LayoutError, Result};
use crate::schema::OrcSchema;

/// A set of a file's columns: of the fields of its root struct. Nested columns are read whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectionMask {
    /// Positions of the fields, ascending; `None` stands for all.
    roots: Option<Vec<usize>>,
}

impl ProjectionMask {
    /// All columns.
    pub fn all() -> Self {
        Self { roots: None }
    }

    /// No column: batches have a number of rows only.
    pub fn none() -> Self {
        Self {
            roots: Some(Vec::new()),
        }
    }

    /// The columns at these positions of the root struct, in any order. A reader refuses positions that the file does
    /// not have.
    pub fn roots(indices: impl IntoIterator<Item = usize>) -> Self {
        let mut roots: Vec<usize> = indices.into_iter().collect();
        roots.sort_unstable();
        roots.dedup();
        Self { roots: Some(roots) }
    }

    /// The columns with these names. Of several columns with one name, all are meant.
    ///
    /// # Errors
    /// `InvalidRequest` for a name that no field of the root struct has.
    pub fn columns<'a>(schema: &OrcSchema, names: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let fields = schema.arrow.fields();
        let mut roots = Vec::new();
        for name in names {
            let before = roots.len();
            roots.extend((0..fields.len()).filter(|&at| fields[at].name() == name));
            if roots.len() == before {
                let known: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
                let reason = format!("there is no column {name}; the columns are {}", known.join(", "));
                return Err(LayoutError::invalid_request(&"projection".into(), reason));
            }
        }
        Ok(Self::roots(roots))
    }

    /// Whether the column at a position is in the set.
    pub fn root_included(&self, index: usize) -> bool {
        self.roots
            .as_ref()
            .is_none_or(|roots| roots.binary_search(&index).is_ok())
    }

    /// Adds the columns of `other`.
    pub fn union(&mut self, other: &Self) {
        *self = match (&self.roots, &other.roots) {
            (Some(ours), Some(theirs)) => Self::roots(ours.iter().chain(theirs).copied()),
            _ => Self::all(),
        };
    }

    /// Keeps the columns that `other` has too.
    pub fn intersect(&mut self, other: &Self) {
        match &mut self.roots {
            None => *self = other.clone(),
            Some(roots) => roots.retain(|&root| other.root_included(root)),
        }
    }

    /// The positions among `count` columns.
    ///
    /// # Errors
    /// The first position beyond them.
    pub(super) fn positions(&self, count: usize) -> std::result::Result<Vec<usize>, usize> {
        match &self.roots {
            None => Ok((0..count).collect()),
            Some(roots) => match roots.last() {
                Some(&last) if last >= count => Err(last),
                _ => Ok(roots.clone()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_sets() {
        let mut mask = ProjectionMask::roots([3, 1, 3]);
        assert_eq!(mask.positions(4), Ok(vec![1, 3]));
        assert_eq!(mask.positions(3), Err(3));
        assert!(mask.root_included(1) && !mask.root_included(2));
        mask.union(&ProjectionMask::roots([0]));
        assert_eq!(mask, ProjectionMask::roots([0, 1, 3]));
        mask.intersect(&ProjectionMask::roots([1, 2]));
        assert_eq!(mask, ProjectionMask::roots([1]));
        mask.intersect(&ProjectionMask::all());
        assert_eq!(mask.positions(2), Ok(vec![1]));
        mask.union(&ProjectionMask::all());
        assert_eq!(mask.positions(2), Ok(vec![0, 1]));
        mask.intersect(&ProjectionMask::none());
        assert_eq!(mask.positions(2), Ok(vec![]));
    }
}
