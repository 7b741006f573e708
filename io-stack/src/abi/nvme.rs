//! `SqEntry` and `CqEntry`: the mirror of `device/nvme.h`.
#![allow(missing_docs)] // the header documents the fields

crate::shared_structs! {
    #[repr(align(64))]
    SqEntry {
        opc: u8, flags: u8, cid: u16, nsid: u32, cdw2: u32, cdw3: u32, mptr: u64, prp1: u64, prp2: u64,
        cdw10: u32, cdw11: u32, cdw12: u32, cdw13: u32, cdw14: u32, cdw15: u32,
    }
    #[repr(align(16))]
    CqEntry { dw0: u32, dw1: u32, sqhd: u16, sqid: u16, cid_psf: u32 }
}
