//! `SmartLog` and `AsyncEvent`: what a controller reports about its health (Base 2.0c §5.16.1.3, §5.2.1).

/// Bytes of the SMART / health information log page.
pub const SMART_LOG_BYTES: usize = 512;

/// Log page identifiers (Base 2.0c figure 202).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum LogPage {
    /// 01h: error information.
    Error = 1,
    /// 02h: SMART / health information.
    Smart = 2,
}

/// The SMART / health information log page (Base 2.0c figure 207).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmartLog {
    /// Critical warning bits.
    pub critical_warning: u8,
    /// Composite temperature in kelvins.
    pub temperature_k: u16,
    /// Thousands of 512-byte units read, rounded up.
    pub data_units_read: u128,
    /// Thousands of 512-byte units written, rounded up.
    pub data_units_written: u128,
    /// Read commands completed.
    pub read_commands: u128,
    /// Write commands completed.
    pub write_commands: u128,
    /// Unrecovered data integrity errors.
    pub media_errors: u128,
}

impl SmartLog {
    /// Reads the page.
    pub fn parse(data: &[u8; SMART_LOG_BYTES]) -> Self {
        let wide = |at: usize| (0..16).rev().fold(0u128, |sum, i| sum << 8 | u128::from(data[at + i]));
        Self {
            critical_warning: data[0],
            temperature_k: u16::from_le_bytes([data[1], data[2]]),
            data_units_read: wide(32),
            data_units_written: wide(48),
            read_commands: wide(64),
            write_commands: wide(80),
            media_errors: wide(160),
        }
    }
}

/// An asynchronous event: dword 0 of the completion of an Asynchronous Event Request (Base 2.0c figure 145).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsyncEvent(pub u32);

impl AsyncEvent {
    /// Type 0 (error), information 0: a write to a doorbell of a queue that does not exist.
    pub const INVALID_DOORBELL_REGISTER: (u8, u8) = (0, 0);
    /// Type 0 (error), information 1: an index outside the queue was written to a doorbell.
    pub const INVALID_DOORBELL_VALUE: (u8, u8) = (0, 1);

    /// Type (0: error, 1: SMART) and information.
    pub fn kind(self) -> (u8, u8) {
        (self.0 as u8 & 7, (self.0 >> 8) as u8)
    }

    /// The log page whose reading ends the event.
    pub fn log_page(self) -> u8 {
        (self.0 >> 16) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_lie_where_the_specification_says() {
        let mut data = [0; SMART_LOG_BYTES];
        data[0] = 4;
        data[1..3].copy_from_slice(&323u16.to_le_bytes());
        data[64..72].copy_from_slice(&(1u64 << 40).to_le_bytes());
        data[80] = 7;
        data[175] = 1;
        let log = SmartLog::parse(&data);
        assert_eq!((log.critical_warning, log.temperature_k), (4, 323));
        assert_eq!((log.read_commands, log.write_commands), (1 << 40, 7));
        assert_eq!(log.media_errors, 1 << 120);
    }

    #[test]
    fn event_names_type_information_and_page() {
        let event = AsyncEvent(0x0001_0100);
        assert_eq!(
            (event.kind(), event.log_page()),
            (AsyncEvent::INVALID_DOORBELL_VALUE, 1)
        );
    }
}
