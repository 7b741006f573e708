//! [`FetchedWindows`]: how far the tiles of a remote stripe are fetched.

/// Windows of tiles, of the columns with which a tile begins. At most one of them is in flight.
#[derive(Debug, Default)]
pub(super) struct FetchedWindows {
    /// The columns that were fetched.
    columns: Vec<usize>,
    /// Rows before this one are in windows that have arrived.
    pub(super) end: u64,
    /// Rows before this one are in windows that have arrived or are in flight.
    pub(super) ahead_end: u64,
    /// Memory was too short for a window in flight.
    pub(super) is_short: bool,
}

impl FetchedWindows {
    /// Whether the windows are of other columns than these. If they are, windows of these columns begin.
    pub(super) fn begin(&mut self, columns: &[usize]) -> bool {
        if self.columns == columns {
            return false;
        }
        *self = Self {
            columns: columns.to_vec(),
            is_short: self.is_short,
            ..Self::default()
        };
        true
    }

    /// All windows have arrived.
    pub(super) fn arrive(&mut self) {
        self.end = self.ahead_end;
    }

    /// The window in flight was given up. There is no other one in this stripe.
    pub(super) fn give_up(&mut self) {
        self.ahead_end = self.end;
        self.is_short = true;
    }
}
