// `Disk`: a storage that takes writes and keeps them in a cache of its own. After a loss of power it has what was
// flushed, and any of the blocks that were written since.
#pragma once
#include <string.h>

#include <mutex>
#include <vector>

#include "random.h"

struct Disk {
    u8* visible;  // what reads return
    u64 bytes;
    u32 block_bytes;
    std::vector<u8> durable;
    struct Block {
        u64 at;
        std::vector<u8> bytes;
    };
    std::vector<Block> pending;  // written since the last flush, in order
    std::mutex mutex;            // of the two vectors
    u64 writes = 0, flushes = 0;

    Disk(u8* visible, u64 bytes, u32 block_bytes)
        : visible(visible), bytes(bytes), block_bytes(block_bytes), durable(visible, visible + bytes) {}

    // Stores one block, whole. Not under the lock: a write that nothing orders before another command is a data race.
    void write_block(u64 at, const u8* from) {
        memcpy(visible + at, from, block_bytes);
        std::lock_guard<std::mutex> guard(mutex);
        pending.push_back(Block{at, std::vector<u8>(from, from + block_bytes)});
        writes++;
    }
    void flush() {
        std::lock_guard<std::mutex> guard(mutex);
        for (const Block& block : pending) memcpy(&durable[block.at], block.bytes.data(), block_bytes);
        pending.clear();
        flushes++;
    }
    // The bytes after a loss of power at this moment. Disks store most of what they cache, or little of it.
    std::vector<u8> after_loss(Random& random) {
        std::lock_guard<std::mutex> guard(mutex);
        std::vector<u8> image = durable;
        u32 odds = random.below(5);
        for (const Block& block : pending)
            if (random.below(4) < odds) memcpy(&image[block.at], block.bytes.data(), block_bytes);
        return image;
    }
};
