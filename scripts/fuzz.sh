#!/usr/bin/env bash
# fuzz.sh [NAME...]: builds the libFuzzer targets (spec/fuzz/fuzz_NAME.c) with clang and runs them on their seeds, 60 s each or
# FA4_FUZZ_SECONDS. Ends with "N passed, N failed"; what made a target fail is kept in build-fuzz/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${FA4_FUZZ_SECONDS:-60}
passed=0 failed=0

names=("$@")
if [ ${#names[@]} = 0 ]; then
  for source in spec/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    names+=("${name#fuzz_}")
  done
fi
[ -f build-fuzz/build.ninja ] || cmake -G Ninja -S . -B build-fuzz -DFA4_FUZZ=ON -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release >&2
cmake --build build-fuzz --target "${names[@]/#/fuzz_}" >&2

for name in "${names[@]}"; do
  mkdir -p "build-fuzz/corpus/$name"
  echo "== $name, $seconds s"
  if "build-fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix="build-fuzz/$name-" "build-fuzz/corpus/$name" "spec/fuzz/seeds/$name" > "build-fuzz/$name.log" 2>&1; then
    grep -E 'stat::(number_of_executed_units|peak_rss_mb)' "build-fuzz/$name.log"
    passed=$((passed + 1))
  else
    tail -n 40 "build-fuzz/$name.log"
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
