// NVMe wire formats between device code and a controller: submission and completion entries. Names and bits are the
// specification's (NVMe Base 2.0c §3.3.3, §4.1; NVM Command Set 1.0c §3.2.4).
#pragma once
#include "types.h"

namespace grampus {

// Submission queue entry of a read, a write or a flush (NVMe Base 2.0c figure 87). The submitting lane writes it with
// plain stores; the controller reads it after it saw the tail doorbell.
struct alignas(64) SqEntry {
    u8 opc;      // opcode: NVME_OPC_*
    u8 flags;    // bits 7:6 PSDT: 0 = PRPs, 1 = SGL (NVME_PSDT_SGL)
    u16 cid;     // generation << depth_log2 | command slot
    u32 nsid;    // namespace
    u32 cdw2;    // reserved
    u32 cdw3;    // reserved
    u64 mptr;    // metadata pointer, unused
    u64 prp1;    // first page, or SGL data block: address
    u64 prp2;    // second page or PRP list, or SGL data block: length in bits 31:0, type 0 in 63:56
    u32 cdw10;   // starting LBA, bits 31:0
    u32 cdw11;   // starting LBA, bits 63:32
    u32 cdw12;   // bits 15:0 NLB, number of logical blocks, zero-based
    u32 cdw13;   // unused
    u32 cdw14;   // unused
    u32 cdw15;   // unused
};

// Completion queue entry (NVMe Base 2.0c figure 90). The controller writes dwords 0-2 first, then dword 3 with release.
// The reaper reads dword 3 with acquire, and nothing before it.
struct alignas(16) CqEntry {
    u32 dw0;      // command specific
    u32 dw1;      // command specific
    u16 sqhd;     // submission queue head, a physical index
    u16 sqid;     // submission queue id
    u32 cid_psf;  // bits 15:0 cid, bit 16 phase tag, bits 31:17 status field (SC, SCT, CRD, M, DNR)
};

constexpr u8 NVME_OPC_FLUSH = 0x00;
constexpr u8 NVME_OPC_WRITE = 0x01;
constexpr u8 NVME_OPC_READ = 0x02;
constexpr u8 NVME_PSDT_SGL = 0x40;
constexpr u32 NVME_CQE_STATUS_SHIFT = 17;

}  // namespace grampus
