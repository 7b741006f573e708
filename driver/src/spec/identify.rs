//! `ControllerIdentity` and `NamespaceIdentity`: the data of the Identify command (Base 2.0c §5.17, NVM 1.0c §4.1.5).

/// Bytes of every Identify data structure.
pub const IDENTIFY_BYTES: usize = 4096;

/// CNS values of Identify (Base 2.0c figure 273).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Cns {
    /// 00h: one namespace.
    Namespace = 0,
    /// 01h: the controller.
    Controller = 1,
    /// 02h: numbers of the active namespaces.
    ActiveNamespaces = 2,
}

fn u16_at(data: &[u8; IDENTIFY_BYTES], at: usize) -> u16 {
    u16::from_le_bytes([data[at], data[at + 1]])
}

fn u32_at(data: &[u8; IDENTIFY_BYTES], at: usize) -> u32 {
    u32::from(u16_at(data, at)) | u32::from(u16_at(data, at + 2)) << 16
}

fn u64_at(data: &[u8; IDENTIFY_BYTES], at: usize) -> u64 {
    u64::from(u32_at(data, at)) | u64::from(u32_at(data, at + 4)) << 32
}

fn text_at(data: &[u8; IDENTIFY_BYTES], at: usize, length: usize) -> String {
    String::from_utf8_lossy(&data[at..at + length])
        .trim_end_matches([' ', '\0'])
        .to_owned()
}

/// What a controller says about itself (Base 2.0c figure 275).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerIdentity {
    /// SN.
    pub serial: String,
    /// MN.
    pub model: String,
    /// FR.
    pub firmware: String,
    /// MDTS as bytes of one transfer; `None`: no limit.
    pub max_transfer_bytes: Option<u64>,
    /// RTD3E: longest time of a normal shutdown, in microseconds; 0: not reported.
    pub shutdown_us: u32,
    /// AERL: number of asynchronous event requests that the controller holds at once.
    pub async_event_limit: u16,
    /// NN: largest namespace number.
    pub max_namespace: u32,
    /// ONCS bit 3: Write Zeroes.
    pub has_write_zeroes: bool,
    /// VWC bit 0: there is a volatile write cache, so that writes need a flush.
    pub has_volatile_write_cache: bool,
    /// SGLS bits 1:0: SGLs are supported for I/O commands.
    pub has_sgls: bool,
    /// SQES and CQES hold the sizes 64 and 16 bytes.
    pub has_standard_entries: bool,
}

impl ControllerIdentity {
    /// Reads the structure. `page_bytes` is CAP.MPSMIN as bytes, the unit of MDTS.
    pub fn parse(data: &[u8; IDENTIFY_BYTES], page_bytes: u64) -> Self {
        let mdts = data[77];
        let sizes = |byte: u8, log2: u8| (byte & 0xf..=byte >> 4).contains(&log2);
        Self {
            serial: text_at(data, 4, 20),
            model: text_at(data, 24, 40),
            firmware: text_at(data, 64, 8),
            max_transfer_bytes: (mdts != 0).then(|| page_bytes.checked_shl(u32::from(mdts)).unwrap_or(u64::MAX)),
            shutdown_us: u32_at(data, 88),
            async_event_limit: u16::from(data[259]) + 1,
            max_namespace: u32_at(data, 516),
            has_write_zeroes: u16_at(data, 520) & 1 << 3 != 0,
            has_volatile_write_cache: data[525] & 1 != 0,
            has_sgls: matches!(u32_at(data, 536) & 3, 1 | 2),
            has_standard_entries: sizes(data[512], 6) && sizes(data[513], 4),
        }
    }
}

/// A format of logical blocks (NVM 1.0c figure 98).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LbaFormat {
    /// LBADS: log2 of the block's bytes; below 9, the format is not available.
    pub lba_log2: u8,
    /// MS: bytes of metadata of each block.
    pub metadata_bytes: u16,
}

/// What a controller says about one namespace (NVM 1.0c figure 97).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceIdentity {
    /// The namespace's number.
    pub nsid: u32,
    /// NSZE: number of logical blocks.
    pub blocks: u64,
    /// The format in use.
    pub format: LbaFormat,
    /// FLBAS bit 4: metadata lies behind each block's data, in the same buffer.
    pub metadata_inline: bool,
    /// All formats that the namespace can be given.
    pub formats: Vec<LbaFormat>,
}

impl NamespaceIdentity {
    /// Reads the structure of namespace `nsid`; `None`: the namespace is not active, or its format cannot be used.
    pub fn parse(nsid: u32, data: &[u8; IDENTIFY_BYTES]) -> Option<Self> {
        let format_at = |i: usize| {
            let word = u32_at(data, 128 + 4 * i);
            LbaFormat {
                lba_log2: (word >> 16) as u8,
                metadata_bytes: word as u16,
            }
        };
        let formats: Vec<_> = (0..=usize::from(data[25]).min(63)).map(format_at).collect();
        let in_use = usize::from(data[26] & 0xf) | usize::from(data[26] >> 5 & 3) << 4;
        let (blocks, format) = (u64_at(data, 0), format_at(in_use));
        // Byte addresses must fit 64 bits, and a block's size 32.
        let usable = (9..=31).contains(&format.lba_log2) && blocks.leading_zeros() >= u32::from(format.lba_log2);
        (blocks > 0 && usable).then_some(Self {
            nsid,
            blocks,
            format,
            metadata_inline: data[26] & 1 << 4 != 0,
            formats,
        })
    }

    /// Bytes of a logical block.
    pub fn block_bytes(&self) -> u64 {
        1 << self.format.lba_log2
    }
}

/// The namespace numbers of an active namespace list, up to its first zero.
pub fn namespace_list(data: &[u8; IDENTIFY_BYTES]) -> Vec<u32> {
    let all = (0..IDENTIFY_BYTES / 4).map(|i| u32_at(data, 4 * i));
    all.take_while(|nsid| *nsid != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_specification_says() {
        let mut data = [0; IDENTIFY_BYTES];
        data[4..9].copy_from_slice(b"S1   ");
        data[77] = 5;
        data[259] = 3;
        data[512..514].copy_from_slice(&[0x66, 0x44]);
        data[516] = 2;
        data[520] = 1 << 3;
        data[525] = 1;
        data[536] = 1;
        let identity = ControllerIdentity::parse(&data, 4096);
        assert_eq!(identity.serial, "S1");
        assert_eq!(identity.max_transfer_bytes, Some(128 << 10));
        assert_eq!((identity.async_event_limit, identity.max_namespace), (4, 2));
        assert!(identity.has_write_zeroes && identity.has_volatile_write_cache);
        assert!(identity.has_sgls && identity.has_standard_entries);
        data[512] = 0x55;
        assert!(!ControllerIdentity::parse(&data, 4096).has_standard_entries);
    }

    #[test]
    fn namespace_takes_the_format_in_use() {
        let mut data = [0; IDENTIFY_BYTES];
        data[0..8].copy_from_slice(&1000u64.to_le_bytes());
        data[25] = 1;
        data[26] = 1;
        data[130] = 9;
        data[134] = 12;
        data[132] = 8;
        let namespace = NamespaceIdentity::parse(3, &data).unwrap();
        assert_eq!((namespace.blocks, namespace.block_bytes()), (1000, 4096));
        assert_eq!(namespace.format.metadata_bytes, 8);
        assert_eq!(namespace.formats.len(), 2);
        data[134] = 3;
        assert_eq!(NamespaceIdentity::parse(3, &data), None, "blocks of 8 bytes");
        data[134] = 12;
        data[0..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(
            NamespaceIdentity::parse(3, &data),
            None,
            "more bytes than 64 bits count"
        );
    }
}
