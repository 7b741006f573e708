#!/usr/bin/env python3
"""Rates at which the decompression kernels and nvCOMP expand chunks of columns, and the time of one chunk alone.

    chunk_rates.py [--nvcomp libnvcomp.so.5] [CODEC...]

Codecs are snappy, lz4, zstd and deflate. Chunks lie in device memory before and after. All outputs are compared. Needs
an NVIDIA GPU, cupy, numpy and pyarrow; the kernels are those of gpu-exec/device, compiled by cupy.
"""

import argparse
import ctypes
import os
import re
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import cupy
import numpy as np
import pyarrow

DEVICE = [os.path.join(os.path.dirname(__file__), "../..", folder) for folder in ("gpu-exec/device", "io-stack/device")]
TARGET = ["types.h", "target.h", "target_gpu.cuh"]
CODECS = ["decode.h", "decompress.h", "stream_bytes.cuh", "byte_copy.cuh", "element_batch.cuh", "short_elements.cuh",
          "snappy.cuh", "lz4.cuh", "decompress.cuh"]
DEFLATE = ["bit_window.cuh", "prefix_code.cuh", "deflate.cuh", "deflate.cu"]
ZSTD = ["bit_window.cuh", "backward_bits.cuh", "fse_table.cuh", "xxhash.cuh", "zstd_literals.cuh", "zstd.cuh",
        "zstd.cu"]
# A codec's number, its kernel, the kernel's files and threads, and nvCOMP's name.
KERNELS = {
    "snappy": (1, "grampus_decompress", ["decompress.cu"], 256, "Snappy"),
    "lz4": (2, "grampus_decompress", ["decompress.cu"], 256, "LZ4"),
    "zstd": (3, "grampus_decompress_zstd", ZSTD, 128, "Zstd"),
    "deflate": (4, "grampus_decompress_deflate", DEFLATE, 128, "Deflate"),
}
CHUNK = np.dtype([("from", "<u8"), ("to", "<u8"), ("length", "<u4"), ("bytes", "<u4"), ("codec", "<u4"),
                  ("label", "<u4")])
JOBS = 128
LAUNCH = np.dtype([("failed", "<u8"), ("results", "<u8"), ("jobs", "<u4"), ("chunks", "<u4"),
                   ("job", [("chunks", "<u8"), ("first", "<u4"), ("count", "<u4")], (JOBS,))])


class Options(ctypes.Structure):
    """nvCOMP's options of a decompressor: the CUDA backend."""

    _fields_ = [("backend", ctypes.c_int), ("rest", ctypes.c_char * 60)]


def text_of(names):
    """The device's files, one after the other."""
    out = []
    for name in names:
        path = next(path for path in (os.path.join(folder, name) for folder in DEVICE) if os.path.exists(path))
        with open(path, encoding="utf-8") as file:
            out.append(re.sub(r'^#include ".*"\n|^#pragma once\n', "", file.read(), flags=re.M))
    return "".join(out)


def compressed(codec, raw):
    if codec == "deflate":
        compressor = zlib.compressobj(6, zlib.DEFLATED, -15)
        return compressor.compress(raw) + compressor.flush()
    return pyarrow.compress(raw, codec={"lz4": "lz4_raw"}.get(codec, codec), asbytes=True)


def columns(values):
    """Columns like those of taxi trips, each as its bytes."""
    random = np.random.default_rng(1)
    distance = np.round(np.minimum(random.lognormal(0.604, 0.939, values), 80), 2)
    return {
        "distances": distance,
        "amounts": np.round(4.49 + 2.88 * distance + random.random(values) * 5, 2),
        "tolls": np.where(random.random(values) < 0.057, 5.76, 0.0),
        "times": np.cumsum(random.integers(0, 2_000_000, values)).astype(np.int64) * 1000,
    }


class Chunks:
    """The chunks of some bytes, in device memory."""

    def __init__(self, codec, raw, size, pool):
        parts = [raw[at:at + size] for at in range(0, len(raw), size)]
        stored = list(pool.map(lambda part: compressed(codec, part), parts))
        self.codec, self.size, self.count, self.raw_bytes = codec, size, len(parts), len(raw)
        self.lengths = np.array([len(chunk) for chunk in stored], np.uint64)
        self.spaces = np.array([len(part) for part in parts], np.uint64)
        ends = np.cumsum((self.lengths + 15) // 16 * 16)
        self.offsets = ends - (self.lengths + 15) // 16 * 16
        buffer = np.zeros(int(ends[-1]) + 16, np.uint8)
        for chunk, at in zip(stored, self.offsets):
            buffer[int(at):int(at) + len(chunk)] = np.frombuffer(chunk, np.uint8)
        self.stored, self.out = cupy.asarray(buffer), cupy.zeros(len(raw), cupy.uint8)
        self.wanted = cupy.asarray(np.frombuffer(raw, np.uint8))
        self.sources = (self.offsets + np.uint64(self.stored.data.ptr)).astype(np.uint64)
        self.targets = np.arange(self.count, dtype=np.uint64) * np.uint64(size) + np.uint64(self.out.data.ptr)

    def measured(self, run):
        """GB/s of output, the µs of one chunk alone, and whether all bytes came out."""
        def seconds(count, times):
            taken = []
            for _ in range(times):
                cupy.cuda.Device().synchronize()
                began = time.perf_counter()
                run(count)
                cupy.cuda.Device().synchronize()
                taken.append(time.perf_counter() - began)
            return sorted(taken)[times // 2]

        self.out[:] = 0
        run(self.count)
        right = bool((self.out == self.wanted).all())
        return self.raw_bytes / seconds(self.count, 5) / 1e9, seconds(1, 5) * 1e6, right


def by_kernel(chunks, kernel, threads):
    table = np.zeros(chunks.count, CHUNK)
    table["from"], table["to"] = chunks.sources, chunks.targets
    table["length"], table["bytes"] = chunks.lengths, chunks.spaces
    table["codec"] = KERNELS[chunks.codec][0]
    on_device, failed = cupy.asarray(table.view(np.uint8)), cupy.zeros(4, cupy.uint32)
    fit = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel.kernel.ptr, threads, 0)
    most = fit * cupy.cuda.Device().attributes["MultiProcessorCount"]

    def run(count):
        launch = np.zeros(1, LAUNCH)
        launch["failed"], launch["jobs"], launch["chunks"] = failed.data.ptr, 1, count
        launch["job"]["chunks"][0, 0], launch["job"]["count"][0, 0] = on_device.data.ptr, count
        warps = threads // 32
        kernel((min(most, (count + warps - 1) // warps),), (threads,), (launch[0],))

    return run


def by_nvcomp(chunks, library):
    name = KERNELS[chunks.codec][4]
    options, scratch_bytes = Options(2, b""), ctypes.c_size_t(0)
    size = ctypes.c_size_t
    asked = getattr(library, f"nvcompBatched{name}DecompressGetTempSizeAsync")(
        size(chunks.count), size(chunks.size), options, ctypes.byref(scratch_bytes), size(chunks.raw_bytes))
    if asked != 0:
        raise RuntimeError(f"nvCOMP's scratch memory: status {asked}")
    scratch = cupy.zeros(max(1, scratch_bytes.value), cupy.uint8)
    arrays = [cupy.asarray(array) for array in (chunks.sources, chunks.lengths, chunks.spaces, chunks.spaces,
                                                chunks.targets)]
    statuses = cupy.zeros(chunks.count, cupy.int32)
    pointers = [ctypes.c_void_p(array.data.ptr) for array in (*arrays, statuses, scratch)]
    sources, lengths, spaces, written, targets, status, memory = pointers
    decompress = getattr(library, f"nvcompBatched{name}DecompressAsync")

    def run(count):
        decompress(sources, lengths, spaces, written, size(count), memory, scratch_bytes, targets, options, status,
                   ctypes.c_void_p(0))

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nvcomp", help="nvCOMP's library, to compare with")
    parser.add_argument("codecs", nargs="*", metavar="CODEC", help="snappy, lz4, zstd, deflate (all)")
    asked = parser.parse_args()
    library = ctypes.CDLL(asked.nvcomp) if asked.nvcomp else None
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"{name}, CUDA {cupy.cuda.runtime.runtimeGetVersion()}; GB/s of output (µs of one chunk alone)")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for codec in asked.codecs or KERNELS:
            _, entry, files, threads, _ = KERNELS[codec]
            module = cupy.RawModule(code=text_of(TARGET + CODECS + files), options=("--std=c++17",), backend="nvrtc")
            kernel = module.get_function(entry)
            for column, values in columns(32_000_000).items():
                for size in (4, 64, 256) if column == "distances" else (64,):
                    chunks = Chunks(codec, values.tobytes()[:128 << 20], size << 10, pool)
                    runs = {"own": by_kernel(chunks, kernel, threads)}
                    if library:
                        runs["nvCOMP"] = by_nvcomp(chunks, library)
                    said = []
                    for who, run in runs.items():
                        rate, alone, right = chunks.measured(run)
                        said.append(f"{who} {rate:.1f} ({alone:.0f}){'' if right else ' WRONG'}")
                    ratio = chunks.raw_bytes / chunks.lengths.sum()
                    print(f"{codec}, {column}, {size} KiB, ratio {ratio:.2f}: {', '.join(said)}", flush=True)


if __name__ == "__main__":
    main()
