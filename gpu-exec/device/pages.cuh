// Columns of which only some pages are in device memory: a kernel looks whether the page of a value is there, asks for it if it is not,
// and leaves its row to the next pass over the table. (A GPU's fault buffer in software: mark, serve in batches, replay.)
#pragma once
#include "pages.h"
#include "tiles.cuh"

namespace grampus {

// The stripe in which a warp's last row was: in shared memory, zeros at first.
struct NearStripe {
    u64 begin, rows;
    u64 at;
};

// Whether the values of the active lane's row are there, of all columns of `which` (bits that count the paged ones, lowest first); pages of
// those that are not are asked for. Bits of pages change only between passes: within a kernel they are constant. Out of line, for any number of
// columns. Collective.
GRAMPUS_ENTRY bool has_pages(const PagingDesc& paging, u64 which, NearStripe& near, bool active, u64 row);

}  // namespace grampus
