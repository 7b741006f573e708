// `ValidityArray`: which rows of a column have a value, by a bit for each row.
//
// Every extent begins with bit 0 of a byte. The description of such an array has 0 as `value_bytes`. A bit's place is 8
// times the address of its byte, plus its number in the byte.
#pragma once
#include "column_layout.cuh"

namespace grampus {

// The place of row 0's bit if the extent reached back to it. `first`: the address of the extent's first byte.
GRAMPUS_DEVICE u64 bit_of_row_0(u64 first, u64 first_row) { return 8 * first - first_row; }

// Bits of a lane's rows.
struct RowBits {
    bool ok;  // false: a status is up
    u32 bits;
};
// Bit i: whether row + i * WARP + lane, below row + rows, has a value, across extents. Collective.
GRAMPUS_ENTRY RowBits validity_slowly(const IoStack& io, const ColumnDesc& valid, u64 row, u32 rows, u32 k);

class ValidityArray {
    const IoStack& io;
    const ColumnDesc& valid;
    // The extent used last: rows row_begin .. row_end - 1. `origin`: the place of row 0's bit.
    u64 row_begin, row_end, origin;

  public:
    GRAMPUS_DEVICE ValidityArray(const IoStack& stack, const ColumnDesc& desc) : io(stack), valid(desc) { forget(); }
    ValidityArray(const ValidityArray&) = delete;

    // Bit i of `there`: whether row + i * WARP + lane has a value. Zeros for rows from row + rows on. Collective.
    // False: a status is up.
    template <u32 K>
    GRAMPUS_DEVICE bool tile_anywhere(u64 row, u32 rows, u32& there) {
        if (rows == K * WARP && has_rows(row, K * WARP)) {
            load_whole<K>(origin, row, there);
            return true;
        }
        RowBits slow = far_call(&validity_slowly)(io, valid, row, rows, K);
        forget();
        there = slow.bits;
        return slow.ok;
    }

    // The same for a whole tile of one extent. `origin`: the place of row 0's bit.
    template <u32 K>
    static GRAMPUS_DEVICE void load_whole(u64 origin, u64 row, u32& there) {
        static_assert(K < 32, "bits of a word");
        u64 place = origin + row + lane_id();
        const u32* word = (const u32*)(place >> 5 << 2);
        u32 first = (u32)place & 31, bits = 0;
        GRAMPUS_UNROLL
        for (u32 i = 0; i < K; i++) {
            u32 at = first + i * WARP;
            bits |= (load_constant(word + at / 32) >> at % 32 & 1) << i;
        }
        there = bits;
    }

  private:
    GRAMPUS_DEVICE void forget() { row_begin = row_end = origin = 0; }

    // Whether the rows are in the extent used last. If not, the first row's extent becomes that one.
    GRAMPUS_DEVICE bool has_rows(u64 row, u32 rows) {
        if (row >= row_begin && row + rows <= row_end) return true;
        InExtent found = far_call(&extent_at)(valid, row, 0, false);
        row_begin = found.row_begin;
        row_end = found.row_end;
        origin = bit_of_row_0(found.origin, found.row_begin);
        return row >= row_begin && row + rows <= row_end;
    }
};

}  // namespace grampus
