#!/usr/bin/env bash
# Everything about the GPU path on a machine that has a GPU, in one run: first right answers of kernels, then times.
#
#   queries/bench/all.sh BINARIES WORK OUT [DISK]
#
# BINARIES: a folder with grampus, the example scan of gpu-exec, the benchmark on_demand (for its step), all release,
# and gpu-exec's test binaries (`cargo test -p grampus-gpu-exec --no-run` names them). The step answers runs every
# executable of that folder whose name begins with modules, decode, expressions or kernels, and every executable in
# BINARIES/tests, whatever its name. WORK: a tmpfs with room for 60 GB. OUT: for logs and result files. DISK: a folder
# on a disk, for cold files and the I/O stack. Needs python3 with numpy and pyarrow; duckdb for the comparison with
# DuckDB; compute-sanitizer where the machine has it.
#
# The result files of all steps in OUT become one: OUT/DATE_COMMIT_MACHINE.json, for queries/results.
#
# ROWS (200000000); SET (a setting for every session, such as grampus.gpu_target=host to try this without a GPU);
# TEST_SECONDS (100, for each test; the log names a test that takes longer); STEPS (answers measure cpu duckdb; also io
# and on_demand); SAMPLE (files of real trips, as Parquet, CSV or ORC, for a second comparison with DuckDB);
# COMMIT and MACHINE (names in the result file; without them, what git and nvidia-smi say); IO_SIZE (8g).
set -u
[ $# -ge 3 ] || { sed -n 2,20p "$0" >&2; exit 2; }
mkdir -p "$2" "$3"
binaries=$(realpath "$1") work=$(realpath "$2") out=$(realpath "$3") disk=${4:-}
queries=$(realpath "$(dirname "$0")/..")
rows=${ROWS:-200000000} seconds=${TEST_SECONDS:-100} steps=${STEPS:-answers measure cpu duckdb}
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
setting=(); [ -z "${SET:-}" ] || setting=(--set "$SET")
named=(); [ -z "${COMMIT:-}" ] || named+=(--commit "$COMMIT"); [ -z "${MACHINE:-}" ] || named+=(--machine "$MACHINE")

log() { echo "[$SECONDS s] $*"; }

# A test's name and command. A test that is not finished in time fails only if it had failed by then.
one() {
    local name=$1 status
    shift
    timeout "$seconds" "$@" >"$out/$name.txt" 2>&1
    status=$?
    log "$name: status $status; $(grep -E '^test result|panicked|SUMMARY' "$out/$name.txt" | tail -n 3 | tr '\n' ' ')"
    { [ $status = 0 ] && echo "$name passed" || echo "$name: status $status"; } >>"$out/checks.txt"
    # Tests pass on a machine without a GPU.
    ! grep -q 'skipped: no GPU' "$out/$name.txt" || { log "$name: no GPU"; return 1; }
    [ $status = 0 ] || { [ $status = 124 ] && ! grep -q -E 'FAILED|panicked|Error' "$out/$name.txt"; }
}

# Names of gpu-exec's test binaries in BINARIES.
tests() {
    local path
    for path in "$binaries"/tests/* "$binaries"/{modules,decode,expressions,kernels}*; do
        [ ! -f "$path" ] || [ ! -x "$path" ] || echo "$path"
    done
}

# Without a C++ compiler in the path, tests run on the GPU alone. One thread each: a test that loads a module stops the
# others' copies.
answers() {
    local ids=() bad=0 id path
    mkdir -p "$work/path"
    : >"$out/checks.txt"
    for command in sh bash readlink dirname; do ln -sf "$(command -v $command)" "$work/path/$command"; done
    [ -n "$(tests)" ] || { log "skipped: gpu-exec's tests, none in $binaries"; }
    while read -r path; do
        one "test-$(basename "$path")" env CXX=/none PATH="$work/path" "$path" --test-threads 1 --nocapture </dev/null &
        ids+=($!)
    done < <(tests)
    for tool in memcheck racecheck; do
        [ -n "$sanitizer" ] || { log "skipped: $tool"; continue; }
        mkdir -p "$work/$tool"
        one "$tool" "$sanitizer" --tool "$tool" --error-exitcode 9 \
            "$binaries/scan" "$work/$tool" --rows 200000 --files 3 --runs 1 &
        ids+=($!)
    done
    for id in "${ids[@]}"; do wait "$id" || bad=1; done
    return $bad
}

measure() {
    local more=()
    [ -z "$disk" ] || more=(--disk "$disk")
    python3 "$queries/bench/measure.py" "$binaries/grampus" "$work" --scan "$binaries/scan" --rows "$rows" \
        --out "$out/measure.json" "${more[@]}" "${setting[@]}" "${named[@]}" >"$out/measure.txt" 2>&1
    local status=$?
    cat "$out/measure.txt"
    return $status
}

taxi() {
    [ -d "$work/core" ] || "$binaries/grampus" taxi generate --rows "$rows" --files 16 --out "$work/core" --quiet
}

# The CPU's path: q5 against q0, planning included, on one thread and on all.
cpu() {
    taxi
    for threads in 1 "$(nproc)"; do
        log "cpu, $threads threads"
        "$binaries/grampus" bench sql "$queries/q0_30.sql" "$queries/q5_30.sql" -t trips="$work/core" \
            --set grampus.device=cpu -p "$threads" --runs 21 2>&1
    done | tee "$out/cpu.txt"
}

# Answers and times of DuckDB and Grampus, over a folder of ORC files.
compare() {
    python3 "$queries/bench/compare_duckdb.py" "$binaries/grampus" "$1" --data "$3" --out "$out/$2.json" \
        "${setting[@]}" "${named[@]}" 2>&1 | tee "$out/$2.txt"
    return "${PIPESTATUS[0]}"
}

duckdb() {
    local bad=0
    taxi
    compare "$work/core" duckdb generated || bad=1
    if [ -n "${SAMPLE:-}" ]; then
        [ -d "$work/sample" ] ||
            "$binaries/grampus" convert $SAMPLE --out "$work/sample" --compression none --quiet || bad=1
        compare "$work/sample" duckdb-sample "sample of real trips" || bad=1
    fi
    return $bad
}

# The I/O stack's microbenchmarks. Their data file lies on the disk.
io() {
    "$binaries/grampus" bench io --folder "${disk:-$work}" --size "${IO_SIZE:-8g}" --json "$out/io.json" 2>&1 |
        tee "$out/io.txt"
    return "${PIPESTATUS[0]}"
}

# The CPU's scan against a whole-column reader and a plain loop: uncompressed over all rows, snappy over a tenth.
on_demand() {
    local bad=0
    "$binaries/on_demand" --rows "$rows" --table uncompressed --query q0,q5 --threads "1,$(nproc)" \
        --whole-column-runs 1 --runs 15 --dir "$work/on_demand" --json "$out/on-demand.json" || bad=1
    "$binaries/on_demand" --rows $((rows / 10)) --table snappy --query q5,t --threads "1,$(nproc)" \
        --runs 9 --dir "$work/on_demand-snappy" --json "$out/on-demand-snappy.json" || bad=1
    return $bad
} 2>&1

# One result file of those that steps left in OUT.
collect() {
    local files=() name
    for name in measure duckdb duckdb-sample io on-demand on-demand-snappy; do
        [ ! -f "$out/$name.json" ] || files+=("$out/$name.json")
    done
    [ ${#files[@]} -gt 0 ] || return 0
    [ ! -f "$out/checks.txt" ] || files+=(--checks "$out/checks.txt")
    python3 "$queries/bench/report.py" collect "${files[@]}" --here "${named[@]}" --into "$out" \
        --command "queries/bench/all.sh BINARIES WORK OUT${disk:+ DISK} (ROWS=$rows STEPS='$steps')"
}

failed=0
for step in $steps; do
    log "$step"
    $step || { failed=1; log "$step: FAILED"; [ "$step" != answers ] || break; }
done
collect || failed=1
log "done"
exit $failed
