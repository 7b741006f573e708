//! `GroupIndex`: the number of the group of each row, by a table over the combinations of the keys' codes.
//!
//! 1. Each key's codes are found.
//! 2. A row's codes are joined to one number: each key has some of its bits. The number is a place in the table.
//! 3. Places that no row has had yet are looked up in DataFusion's `GroupValues`, which numbers the groups.
//! 4. The table gives each row its group.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

use super::key_codes::KeyCodes;
use crate::scan::coded_strings::expanded;

/// log2 of the table's places, at most: 1 MiB.
const MAX_BITS: u32 = 18;
/// In the table: no row has had this combination.
const NO_GROUP: u32 = u32::MAX;
/// In the table: a row of this batch is the first with this combination.
const NEW_GROUP: u32 = u32::MAX - 1;

/// The groups of an aggregation.
pub(super) struct GroupIndex {
    keys: Vec<KeyCodes>,
    /// By key: bits of a place in the table. The first key has the lowest ones.
    bits: Vec<u32>,
    /// By place: the group.
    table: Vec<u32>,
    groups: Box<dyn GroupValues>,
    schema: SchemaRef,
    /// Codes of one key, and places, of the batch.
    codes: Vec<Vec<u32>>,
    places: Vec<u32>,
}

impl GroupIndex {
    /// `None`: keys of this schema have no codes.
    pub(super) fn new(group_schema: &SchemaRef) -> Result<Option<Self>> {
        let keys = group_schema
            .fields()
            .iter()
            .map(|field| KeyCodes::new(field.data_type()));
        let Some(keys) = keys.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        Ok(Some(Self {
            bits: vec![0; keys.len()],
            table: vec![NO_GROUP],
            groups: new_group_values(Arc::clone(group_schema), &GroupOrdering::None)?,
            schema: Arc::clone(group_schema),
            codes: vec![Vec::new(); keys.len()],
            places: Vec::new(),
            keys,
        }))
    }

    /// Number of groups.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Sets `groups` to the group of each row. `keys`: by key, its values.
    ///
    /// Returns false if there are too many combinations. No row has a group then.
    pub(super) fn groups_of(&mut self, keys: &[ArrayRef], groups: &mut Vec<usize>) -> Result<bool> {
        for ((codes, values), out) in self.keys.iter_mut().zip(keys).zip(&mut self.codes) {
            if codes.codes_of(values, out).is_err() {
                return Ok(false);
            }
        }
        if !self.make_room() {
            return Ok(false);
        }
        self.find_places();
        let (table, places) = (&self.table, &self.places);
        groups.clear();
        groups.extend(places.iter().map(|&place| table[place as usize] as usize));
        if groups.contains(&(NO_GROUP as usize)) {
            self.add_groups(keys, groups)?;
        }
        Ok(true)
    }

    /// Gives each key as many bits as its codes have. False: the table would be too large.
    fn make_room(&mut self) -> bool {
        let bits_of = |key: &KeyCodes| u32::BITS - (key.end() - 1).leading_zeros();
        let bits = self
            .keys
            .iter()
            .zip(&self.bits)
            .map(|(key, now)| bits_of(key).max(*now));
        let bits: Vec<u32> = bits.collect();
        if bits == self.bits {
            return true;
        }
        let all: u32 = bits.iter().sum();
        if all > MAX_BITS {
            return false;
        }
        let mut table = vec![NO_GROUP; 1 << all];
        let known = self.table.iter().enumerate().filter(|(_, group)| **group != NO_GROUP);
        for (place, group) in known {
            let (mut rest, mut moved, mut shift) = (place, 0, 0);
            for (old, new) in self.bits.iter().zip(&bits) {
                moved |= (rest & ((1 << old) - 1)) << shift;
                (rest, shift) = (rest >> old, shift + new);
            }
            table[moved] = *group;
        }
        (self.bits, self.table) = (bits, table);
        true
    }

    fn find_places(&mut self) {
        self.places.clear();
        let mut shift = 0;
        for (codes, bits) in self.codes.iter().zip(&self.bits) {
            match shift {
                0 => self.places.clone_from(codes),
                _ => {
                    let places = self.places.iter_mut().zip(codes);
                    places.for_each(|(place, code)| *place |= code << shift);
                }
            }
            shift += bits;
        }
    }

    /// Numbers the groups of combinations that have not come up before.
    fn add_groups(&mut self, keys: &[ArrayRef], groups: &mut [usize]) -> Result<()> {
        let mut rows = Vec::new();
        for (row, place) in self.places.iter().enumerate() {
            let group = &mut self.table[*place as usize];
            if *group == NO_GROUP {
                *group = NEW_GROUP;
                rows.push(row as u32);
            }
        }
        let rows = UInt32Array::from(rows);
        let values = keys.iter().zip(self.schema.fields()).map(|(key, field)| {
            let values = take(key, &rows, None)?;
            match values.data_type() == field.data_type() {
                true => Ok(values),
                false => expanded(&values),
            }
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        let mut numbers = Vec::with_capacity(rows.len());
        self.groups.intern(&values, &mut numbers)?;
        for (row, number) in rows.values().iter().zip(numbers) {
            self.table[self.places[*row as usize] as usize] = number as u32;
        }
        for (place, group) in self.places.iter().zip(groups) {
            *group = self.table[*place as usize] as usize;
        }
        Ok(())
    }

    /// The keys of all groups, by key, in the order of the groups' numbers. No group is left.
    pub(super) fn take_keys(&mut self) -> Result<Vec<ArrayRef>> {
        self.table.fill(NO_GROUP);
        self.groups.emit(EmitTo::All)
    }

    /// Bytes of memory.
    pub(super) fn size(&self) -> usize {
        let codes: usize = self.keys.iter().map(KeyCodes::size).sum();
        let rows: usize = self.codes.iter().map(Vec::capacity).sum();
        let words = self.table.capacity() + self.places.capacity() + rows;
        self.groups.size() + codes + words * size_of::<u32>()
    }
}
