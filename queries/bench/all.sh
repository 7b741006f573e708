#!/usr/bin/env bash
# Everything about the GPU path on a machine that has one, in one run: first that kernels give the right answers, then times.
#
#   queries/gpu/all.sh BINARIES WORK OUT [DISK]
#
# BINARIES: a folder with grampus and gpu-exec's example scan (release), and gpu-exec's test binaries modules, decode, expressions, kernels
# (`cargo test -p grampus-gpu-exec --no-run` says where they are). WORK: a tmpfs with room for 60 GB. OUT: for logs. DISK: a folder on a disk,
# for cold files. Needs python3 with numpy and pyarrow; duckdb where the comparison with it is wanted; compute-sanitizer where it is found.
#
# ROWS (200000000), SET (a setting for every session, such as grampus.gpu_target=host to try this out without a GPU), TEST_SECONDS (100, for
# each of the tests: one that is not finished by then is said), STEPS (answers measure cpu duckdb), SAMPLE (files of real trips, as Parquet, CSV
# or ORC: DuckDB is compared over these too).
set -u
[ $# -ge 3 ] || { sed -n 2,14p "$0" >&2; exit 2; }
mkdir -p "$2" "$3"
binaries=$(realpath "$1") work=$(realpath "$2") out=$(realpath "$3") disk=${4:-}
queries=$(realpath "$(dirname "$0")/..")
rows=${ROWS:-200000000} seconds=${TEST_SECONDS:-100} steps=${STEPS:-answers measure cpu duckdb}
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
setting=(); [ -z "${SET:-}" ] || setting=(--set "$SET")

said() { echo "[$SECONDS s] $*"; }

# A test's name and command. Not finished in time is no failure, unless something had failed by then.
one() {
    local name=$1 status
    shift
    timeout "$seconds" "$@" >"$out/$name.txt" 2>&1
    status=$?
    said "$name: status $status; $(grep -E '^test result|panicked|SUMMARY' "$out/$name.txt" | tail -n 3 | tr '\n' ' ')"
    # Tests pass where they find nothing to run on.
    ! grep -q 'skipped: no GPU' "$out/$name.txt" || { said "$name: no GPU"; return 1; }
    [ $status = 0 ] || { [ $status = 124 ] && ! grep -q -E 'FAILED|panicked|Error' "$out/$name.txt"; }
}

# Without a C++ compiler in sight the tests run on the GPU alone. One thread each: a test that loads a module stops the others' copies.
answers() {
    local ids=() bad=0 id
    mkdir -p "$work/path"
    for command in sh bash readlink dirname; do ln -sf "$(command -v $command)" "$work/path/$command"; done
    for test in modules decode expressions kernels; do
        [ -x "$binaries/$test" ] || { said "skipped: $test"; continue; }
        one "test-$test" env CXX=/none PATH="$work/path" "$binaries/$test" --test-threads 1 --nocapture &
        ids+=($!)
    done
    for tool in memcheck racecheck; do
        [ -n "$sanitizer" ] || { said "skipped: $tool"; continue; }
        mkdir -p "$work/$tool"
        one "$tool" "$sanitizer" --tool "$tool" --error-exitcode 9 "$binaries/scan" "$work/$tool" --rows 200000 --files 3 --runs 1 &
        ids+=($!)
    done
    for id in "${ids[@]}"; do wait "$id" || bad=1; done
    return $bad
}

measure() {
    local more=()
    [ -z "$disk" ] || more=(--disk "$disk")
    python3 "$queries/gpu/measure.py" "$binaries/grampus" "$work" --scan "$binaries/scan" --rows "$rows" --out "$out/measure.json" \
        "${more[@]}" "${setting[@]}" >"$out/measure.txt" 2>&1
    local status=$?
    cat "$out/measure.txt"
    return $status
}

taxi() { [ -d "$work/core" ] || "$binaries/grampus" taxi generate --rows "$rows" --files 16 --out "$work/core" --quiet; }

# The CPU's path: q5 against q0, planning included, on one thread and on all.
cpu() {
    taxi
    for threads in 1 "$(nproc)"; do
        said "cpu, $threads threads"
        "$binaries/grampus" bench sql "$queries/q0_30.sql" "$queries/q5_30.sql" -t trips="$work/core" --set grampus.device=cpu -p "$threads" --runs 21 2>&1
    done | tee "$out/cpu.txt"
}

# DuckDB's answers and times against ours, over a folder of ORC files.
compare() {
    python3 "$queries/gpu/compare_duckdb.py" "$binaries/grampus" "$1" --out "$out/$2.json" "${setting[@]}" 2>&1 | tee "$out/$2.txt"
    return "${PIPESTATUS[0]}"
}

duckdb() {
    local bad=0
    taxi
    compare "$work/core" duckdb || bad=1
    if [ -n "${SAMPLE:-}" ]; then
        [ -d "$work/sample" ] || "$binaries/grampus" convert $SAMPLE --out "$work/sample" --compression none --quiet || bad=1
        compare "$work/sample" duckdb-sample || bad=1
    fi
    return $bad
}

failed=0
for step in $steps; do
    said "$step"
    $step || { failed=1; said "$step: FAILED"; [ "$step" != answers ] || break; }
done
said "done"
exit $failed
