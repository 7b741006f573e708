// `ColumnArray` for columns without a cache: values come by loads, from a registered mapping or from device memory.
//
// Kernels whose columns are all of this kind need no header behind this one.
#pragma once
#include "column_layout.cuh"

namespace grampus {

// column_array.cuh documents the members.
template <class T, bool ALIGNED>
class ColumnArray<T, Mapped, ALIGNED> {
    typedef Layout<T, ALIGNED> In;
    typedef TileWords<T, ALIGNED> Tile;
    static constexpr u32 SIZE = sizeof(T);

    const IoStack& io;
    const ColumnDesc& column;

    // The extent used last: rows row_begin .. row_end - 1. `origin`: the address of row 0 if the extent reached back to
    // it.
    u64 row_begin, row_end, origin;

  public:
    GRAMPUS_DEVICE ColumnArray(const IoStack& stack, const ColumnDesc& desc) : io(stack), column(desc) { forget(); }
    ColumnArray(const ColumnArray&) = delete;

    template <u32 K, bool SEQUENTIAL = true>
    GRAMPUS_DEVICE bool tile(u64 row, u32 rows, T (&value)[K]) {
        static_assert(K * WARP * SIZE <= LINE_BYTES, "a tile lies in at most two lines");
        if (!has_rows(row, rows)) return out_of_range(io, true, row);
        if (rows < K * WARP) return tile_across<K>(row, rows, value);
        load_tile<K>(row, value);
        return true;
    }

    template <u32 K>
    GRAMPUS_DEVICE bool tile_across(u64 row, u32 rows, T (&value)[K]) {
        bool good = tile_value_by_value<Mapped>(io, column, row, rows, value);
        forget();
        return good;
    }

    template <u32 K, bool SEQUENTIAL = true>
    GRAMPUS_DEVICE bool tile_anywhere(u64 row, u32 rows, T (&value)[K], u64 = NO_STOP) {
        // A whole tile needs no look at single values.
        if (rows < K * WARP || !has_rows(row, K * WARP)) return tile_across<K>(row, rows, value);
        load_tile<K>(row, value);
        return true;
    }

    GRAMPUS_DEVICE bool fetch(bool active, u64 row, T& value) {
        u64 bits = 0;
        bool hit = !active || has_rows(row, 1);
        if (active && hit) bits = In::mapped_bits((const u8*)place_of(row));
        value = In::from_bits(bits);
        if (all(hit)) return true;
        FetchedBits slow = fetch_slowly<Mapped>(io, column, active, row, SIZE);
        forget();
        value = In::from_bits(active ? slow.bits : 0);
        return slow.ok;
    }

    GRAMPUS_DEVICE bool prefetch(bool, u64) { return true; }
    GRAMPUS_DEVICE bool ahead(u64, u64) { return true; }

    // Loads a whole tile of one extent. `origin`: the address of row 0 if the extent reached back to it.
    template <u32 K>
    static GRAMPUS_DEVICE void load_whole(u64 origin, u64 row, T (&value)[K]) {
        u64 place = origin + row * SIZE;
        if constexpr (ALIGNED) {
            const u8* base = (const u8*)(place + lane_id() * SIZE);
            GRAMPUS_UNROLL
            for (u32 i = 0; i < K; i++) value[i] = In::from_bits(In::mapped_bits(base + i * Tile::STRIDE));
        } else {
            // Loads each word once and takes its second half from the next lane: a second load would be another request
            // over PCIe.
            u32 at = (u32)place & 7, end = at + K * Tile::STRIDE;
            const u8* line = (const u8*)(place - at);
            u64 word[K], tail = load_mapped_if(Tile::needs_tail(at, K * WARP), (const u64*)(line + (end & ~7u)));
            GRAMPUS_UNROLL
            for (u32 i = 0; i < K; i++) word[i] = load_mapped(Tile::word_at(line, at + lane_id() * SIZE, i));
            Tile::template combine<K, true>(at, K * WARP, word, tail, value);
        }
    }

  private:
    // After an out-of-line call the array starts afresh: state that need not survive the call costs the hot path no
    // register and no spill.
    GRAMPUS_DEVICE void forget() { row_begin = row_end = origin = 0; }

    // Whether the rows are in the extent used last. If not, the first row's extent becomes that one.
    GRAMPUS_DEVICE bool has_rows(u64 row, u32 rows) {
        if (row >= row_begin && row + rows <= row_end) return true;
        InExtent found = far_call(&extent_at)(column, row, SIZE, false);
        row_begin = found.row_begin;
        row_end = found.row_end;
        origin = found.origin;
        return row >= row_begin && row + rows <= row_end;
    }

    GRAMPUS_DEVICE u64 place_of(u64 row) const { return origin + row * SIZE; }

    // Loads a whole tile in the extent used last.
    template <u32 K>
    GRAMPUS_DEVICE void load_tile(u64 row, T (&value)[K]) {
        load_whole<K>(origin, row, value);
    }
};

}  // namespace grampus
