//! [`NvmeLocation`]: a namespace of an NVMe controller.

use std::fmt;

use grampus_driver::binding::PciAddress;
use url::Url;

use super::nvme_location::{BEGIN, shown};
use crate::store_error::StoreError;

/// How a location is written.
const EXPECTED: &str = "write nvme://0000:01:00.0/NAME, or nvme://0000:01:00.0n2/NAME for namespace 2; \
                        grampus nvme list prints the addresses";

/// A namespace of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NvmeLocation {
    /// The controller.
    pub(crate) address: PciAddress,
    /// The number of the namespace.
    pub(crate) nsid: u32,
}

impl NvmeLocation {
    /// The namespace that a URL of this scheme names.
    ///
    /// # Errors
    /// If its host is no PCI address, or the namespace no number. The error says how to write it.
    pub(crate) fn of(url: &Url) -> Result<Self, StoreError> {
        let host = url.host_str().unwrap_or_default();
        let wrong = |reason: String| StoreError::new(shown(&url[..url::Position::BeforePath]), reason, EXPECTED);
        let (address, namespace) = host.split_once('n').unwrap_or((host, "1"));
        let address = address.replace('-', ":").parse::<PciAddress>();
        let address = address.map_err(|error| wrong(error.to_string()))?;
        let nsid = namespace.parse().ok().filter(|nsid| *nsid > 0);
        let nsid = nsid.ok_or_else(|| wrong(format!("'{namespace}' is no number of a namespace")))?;
        Ok(Self { address, nsid })
    }
}

impl fmt::Display for NvmeLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, nsid } = self;
        match nsid {
            1 => write!(f, "{BEGIN}{address}"),
            nsid => write!(f, "{BEGIN}{address}n{nsid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::nvme_location::parse;
    use super::*;

    #[test]
    fn locations_name_controller_and_namespace() {
        for (text, expected) in [
            ("nvme://0000:01:00.0/a-b.orc", "nvme://0000:01:00.0"),
            ("nvme://0000-01-00.0n1/", "nvme://0000:01:00.0"),
            ("nvme://01:00.0n12/x:y/z.orc", "nvme://0000:01:00.0n12"),
            ("nvme://10000:c1:1f.7", "nvme://10000:c1:1f.7"),
        ] {
            let url = parse(text).unwrap();
            assert_eq!(NvmeLocation::of(&url).unwrap().to_string(), expected);
        }
        let url = parse("nvme://01:00.0n12/x:y/a-b.orc").unwrap();
        assert_eq!(
            (url.as_str(), url.path()),
            ("nvme://01-00.0n12/x:y/a-b.orc", "/x:y/a-b.orc")
        );
        assert_eq!(shown(url.as_str()), "nvme://01:00.0n12/x:y/a-b.orc");
        assert_eq!(shown("s3://a-b/c"), "s3://a-b/c");
        assert_eq!(parse("s3://a/c"), None);
    }

    #[test]
    fn other_hosts_are_refused_with_the_way_to_write_them() {
        for (text, expected) in [
            ("nvme://nvme0/a.orc", "nvme://nvme0: '' is no PCI address"),
            ("nvme://disk/a.orc", "nvme://disk: 'disk' is no PCI address"),
            ("nvme:///a.orc", "nvme://: '' is no PCI address"),
            ("nvme://0000:01:00.0n0/a.orc", "nvme://0000:01:00.0n0: '0' is no number"),
            ("nvme://0000:01:00.0nx/a.orc", "nvme://0000:01:00.0nx: 'x' is no number"),
        ] {
            let error = NvmeLocation::of(&parse(text).unwrap()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
            assert!(error.contains("write nvme://0000:01:00.0/NAME"), "{error}");
        }
    }
}
