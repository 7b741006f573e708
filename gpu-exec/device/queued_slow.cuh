// Values of columns on the NVMe command path, one for each active lane, of any type: the entry that tiles.cuh declares.
// The unit takes ptxas long; only kernels with such columns are linked with it.
#pragma once
#include "tiles.cuh"

namespace grampus {

template <class Bits>
GRAMPUS_SLOW FetchedBits fetch_as(const IoStack& io, const ColumnDesc& column, bool active, u64 row) {
    ColumnArray<Bits, Queued<>, false> array(io, column);
    Bits value = 0;
    FetchedBits got;
    got.ok = array.fetch(active, row, value);
    got.bits = value;
    return got;
}

GRAMPUS_ENTRY FetchedBits fetch_queued(const IoStack& io, const ColumnDesc& column, bool active, u64 row) {
    switch (column.value_bytes) {
        case 1: return fetch_as<u8>(io, column, active, row);
        case 2: return fetch_as<unsigned short>(io, column, active, row);
        case 4: return fetch_as<u32>(io, column, active, row);
        default: return fetch_as<u64>(io, column, active, row);
    }
}

}  // namespace grampus
