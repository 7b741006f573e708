//! [`PciAddress`]: the place of a PCI function.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Domain, bus, device and function, as in `0000:01:00.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

/// A text that is no PCI address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no PCI address: expected domain:bus:device.function as in 0000:01:00.0")]
pub struct ParsePciAddressError(String);

impl FromStr for PciAddress {
    type Err = ParsePciAddressError;

    /// The domain may be left out if it is 0, as lspci does.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| ParsePciAddressError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<PciAddress> {
    let (place, function) = text.split_once('.')?;
    let mut parts = place.rsplit(':');
    let (device, bus) = (parts.next()?, parts.next()?);
    // Domains of Intel's VMD have five digits.
    let domain = parts.next().map_or(Some(0), |text| hexadecimal(text, 4..=8))?;
    let address = PciAddress {
        domain,
        bus: u8::try_from(hexadecimal(bus, 2..=2)?).ok()?,
        device: u8::try_from(hexadecimal(device, 2..=2)?).ok()?,
        function: u8::try_from(hexadecimal(function, 1..=1)?).ok()?,
    };
    (parts.next().is_none() && address.device < 32 && address.function < 8).then_some(address)
}

fn hexadecimal(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<u32> {
    let all_digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (all_digits && digits.contains(&text.len()))
        .then(|| u32::from_str_radix(text, 16).ok())
        .flatten()
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

impl Serialize for PciAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_read_with_and_without_domain() {
        let text = |text: &str| text.parse::<PciAddress>().map(|address| address.to_string());
        assert_eq!(text("0000:01:00.0"), Ok("0000:01:00.0".to_owned()));
        assert_eq!(text("C1:1f.7"), Ok("0000:c1:1f.7".to_owned()));
        assert_eq!(text("10000:02:00.0"), Ok("10000:02:00.0".to_owned()));
    }

    #[test]
    fn other_texts_are_no_address() {
        for wrong in [
            "",
            "nvme0",
            "01:00",
            "0000:01:20.0",
            "0000:01:00.8",
            "00:0000:01:00.0",
            "1:00.0",
            "../01:00.0",
            "0000:+1:00.0",
        ] {
            assert!(wrong.parse::<PciAddress>().is_err(), "{wrong}");
        }
    }
}
