// Partially resident columns: a kernel checks whether a value's page is resident. If the page is missing, the kernel
// requests it and leaves the row to the next pass over the table. (A GPU's fault buffer in software: mark, serve in
// batches, replay.)
#pragma once
#include "pages.h"
#include "tiles.cuh"

namespace grampus {

// The stripe of a warp's last row: in shared memory, zeros at first.
struct NearStripe {
    u64 begin, rows;
    u64 at;
};

// Whether the values of the active lane's row are resident, in all columns of `which` (bits that count the paged
// columns, lowest first). Requests the pages of those that are not. The bits of pages change only between passes:
// within a kernel they are constant. Out of line, for any number of columns. Collective.
GRAMPUS_ENTRY bool has_pages(const PagingDesc& paging, u64 which, NearStripe& near, bool active, u64 row);

}  // namespace grampus
