//! [`Steps`] over a sequence of rows, values or bytes: skip some, read some, and so on. A selection travels in this
//! form from rows through PRESENT and LENGTH streams to the values of every child.

/// Skip `skip` items, then read `read`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Step {
    pub(super) skip: u64,
    pub(super) read: u64,
}

/// A list of steps under construction; adjacent steps are merged where possible.
#[derive(Debug, Default)]
pub(super) struct Steps {
    steps: Vec<Step>,
}

impl Steps {
    pub(super) fn clear(&mut self) {
        self.steps.clear();
    }

    /// Skips `count` more items.
    #[inline]
    pub(super) fn skip(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        match self.steps.last_mut() {
            Some(last) if last.read == 0 => last.skip = last.skip.saturating_add(count),
            _ => self.steps.push(Step { skip: count, read: 0 }),
        }
    }

    /// Reads `count` more items.
    #[inline]
    pub(super) fn read(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        match self.steps.last_mut() {
            Some(last) => last.read = last.read.saturating_add(count),
            None => self.steps.push(Step { skip: 0, read: count }),
        }
    }

    pub(super) fn as_slice(&self) -> &[Step] {
        &self.steps
    }
}

/// Number of items that the steps read.
pub(super) fn read_count(steps: &[Step]) -> u64 {
    steps.iter().fold(0, |sum, step| sum.saturating_add(step.read))
}

/// Makes room for the values that the steps read, as far as a corrupt count may: 2^16 of them.
pub(super) fn reserve<T>(values: &mut Vec<T>, steps: &[Step]) {
    values.reserve(read_count(steps).min(1 << 16) as usize);
}

/// Whether so little of a range is selected that its gaps are not worth fetching.
pub(super) fn is_sparse(spans: &[Step]) -> bool {
    let (skipped, wanted) = spans.iter().fold((0u64, 0u64), |(skip, read), span| {
        (skip.saturating_add(span.skip), read.saturating_add(span.read))
    });
    skipped > wanted.saturating_mul(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_steps_merge() {
        let mut steps = Steps::default();
        for (skip, read) in [(0, 2), (0, 3), (4, 0), (1, 1), (0, 0), (0, 1)] {
            steps.skip(skip);
            steps.read(read);
        }
        assert_eq!(steps.as_slice(), [Step { skip: 0, read: 5 }, Step { skip: 5, read: 2 }]);
        assert_eq!(read_count(steps.as_slice()), 7);
    }
}
