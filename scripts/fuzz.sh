#!/usr/bin/env bash
# fuzz.sh [NAME...]: builds the library for libFuzzer and runs the targets of spec/fuzz (NAME_fuzz.c, seeds in spec/fuzz/NAME), 60 s each or
# FA4_FUZZ_SECONDS. Ends with "N passed, N failed"; what made a target fail is kept in build-fuzz/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${FA4_FUZZ_SECONDS:-60}
passed=0 failed=0

[ -f build-fuzz/build.ninja ] || cmake -G Ninja -S . -B build-fuzz -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release \
  "-DFA4_SANITIZE=fuzzer-no-link;address;undefined" >&2
cmake --build build-fuzz --target fa4_static >&2

names=("$@")
if [ ${#names[@]} = 0 ]; then
  for target in spec/fuzz/*_fuzz.c; do names+=("$(basename "$target" _fuzz.c)"); done
fi
for name in "${names[@]}"; do
  clang -std=gnu11 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -Iengine -D_GNU_SOURCE \
    -o "build-fuzz/${name}_fuzz" "spec/fuzz/${name}_fuzz.c" build-fuzz/libfa4.a -lz -lm -ldl -pthread
  mkdir -p "build-fuzz/corpus/$name"
  echo "== $name, $seconds s"
  if "build-fuzz/${name}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix="build-fuzz/$name-" "build-fuzz/corpus/$name" "spec/fuzz/$name" > "build-fuzz/$name.log" 2>&1; then
    grep -E 'stat::(number_of_executed_units|peak_rss_mb)' "build-fuzz/$name.log"
    passed=$((passed + 1))
  else
    tail -n 40 "build-fuzz/$name.log"
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
