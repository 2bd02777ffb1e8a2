#!/usr/bin/env bash
# test.sh [--sanitize] [--fuzz] [--mutants]: installs what is missing, builds, and runs every test there is, in C and in Lua. The last
# line is the total: N passed, N failed[, N skipped]; the exit status is 0 only when nothing failed.
#   --sanitize  everything under address and undefined sanitizers, the threaded C tests under the thread sanitizer
#   --fuzz      the file readers' fuzz targets, 60 s each (FA4_FUZZ_SECONDS)
#   --mutants   breaks the code in known places, one at a time; each must fail a test
# A suite that dies or runs no test counts as one failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/setup.sh

sanitize=0 fuzz=0 mutants=0
for argument in "$@"; do
  case "$argument" in
    --sanitize) sanitize=1 ;;
    --fuzz) fuzz=1 ;;
    --mutants) mutants=1 ;;
    *) echo "usage: scripts/test.sh [--sanitize] [--fuzz] [--mutants]" >&2; exit 2 ;;
  esac
done

passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# suite NAME SECONDS COMMAND...: runs it, shows what it says and adds its last "N passed, N failed" line to the total.
suite() {
  local name=$1 seconds=$2 status=0 line
  shift 2
  printf '== %s\n' "$name"
  timeout --kill-after=10 "$seconds" "$@" 2>&1 | tee "$log" || status=${PIPESTATUS[0]}
  line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1 || true)
  if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)? ]]; then
    local p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[4]:-0}
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    if [ $((p + f + s)) = 0 ]; then
      echo "$name: ran no test"
      failed=$((failed + 1))
    elif [ "$status" != 0 ] && [ "$f" = 0 ]; then
      echo "$name: died with status $status"
      failed=$((failed + 1))
    fi
  else
    echo "$name: no result, status $status$([ "$status" = 124 ] && echo " (over $seconds s)")"
    failed=$((failed + 1))
  fi
}

# c_tests BUILD [NAME...]: all of them, or those named
c_tests() {
  local build=$1 names name arguments
  shift
  names=("$@")
  if [ $# = 0 ]; then
    for name in spec/*_test.c; do names+=("$(basename "$name" .c)"); done
  fi
  for name in "${names[@]}"; do
    # The kernels of others are no part of this tree: a run of its own, where somebody has them.
    [ "$name" != emu_peer_test ] || [ -n "${FA4_PEER_PTX:-}" ] || continue
    arguments=()
    # Sanitized code is many times slower: fewer of the same problems.
    case "$build/$name" in
      build/*) ;;
      */generated_test) arguments=(60) ;;
      */cpu_test) arguments=(20) ;;
    esac
    suite "$build $name" 1800 "$build/tests/$name" "${arguments[@]}"
  done
}

total() {
  local line="$passed passed, $failed failed"
  [ "$skipped" = 0 ] || line="$line, $skipped skipped"
  echo "$line"
  [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}

setup_packages "${FA4_PACKAGES[@]}"
setup_compiler

if [ $sanitize = 1 ]; then
  setup_build build -DCMAKE_BUILD_TYPE=Release
  # Little optimisation: what is sanitized takes minutes a file to optimise. Assertions are on.
  sanitized=(-DCMAKE_BUILD_TYPE=Sanitized "-DCMAKE_C_FLAGS_SANITIZED=-O1 -g")
  setup_build build-asan "${sanitized[@]}" "-DFA4_SANITIZE=address;undefined" -DFA4_CATALOGUE_FROM=build
  export ASAN_OPTIONS=abort_on_error=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
  c_tests build-asan
  FA4_BUILD=build-asan suite "specs under address and undefined sanitizers" 3600 build-asan/fa4 test --exclude-tags=weight
  # What shares memory between threads: the pool, the CPU backend on every instruction set, contexts side by side, and the machine's CTAs.
  # Whole kernels on the machine add instructions, not threads, and would take an hour here.
  threaded=(pool_test cpu_test api_test generated_test emu_machine_test emu_cluster_test)
  SETUP_TARGETS=${threaded[*]} setup_build build-tsan "${sanitized[@]}" "-DFA4_SANITIZE=thread"
  c_tests build-tsan "${threaded[@]}"
elif [ $fuzz = 1 ]; then
  setup_packages "${FA4_PACKAGES_FUZZ[@]}"
  setup_build build -DCMAKE_BUILD_TYPE=Release
  suite "fuzz targets" 3600 scripts/fuzz.sh
elif [ $mutants = 1 ]; then
  setup_build build -DCMAKE_BUILD_TYPE=Release
  suite "mutants" 14400 luajit scripts/mutants.lua
else
  setup_build build -DCMAKE_BUILD_TYPE=Release
  c_tests build
  suite "specs" 1800 luajit /usr/bin/busted
fi
total
