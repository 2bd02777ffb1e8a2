#!/usr/bin/env bash
# nvrtc.sh [FOLDER]: fetches NVIDIA's run-time compiler, which compiles the GPU kernels, from PyPI into FOLDER (default: build/nvrtc; fa4
# looks there and in ${XDG_DATA_HOME:-~/.local/share}/fa4/nvrtc). Version and checksum stand in nvrtc.version. About 90 MB, 230 MB on disk.
# Sourced, it defines setup_nvrtc, which does the same unless a compiler is found already, and fails without one.

nvrtc_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# The wheel into folder $1.
nvrtc_download() {
  command -v pip3 >/dev/null || { setup_packages python3-pip 2>/dev/null || true; }
  command -v pip3 >/dev/null || { echo "nvrtc: pip3 is needed to fetch $NVRTC_FILE (apt-get install python3-pip)" >&2; return 1; }
  pip3 download --quiet --no-deps --disable-pip-version-check --only-binary :all: --platform manylinux_2_12_x86_64 \
    --dest "$1" "$NVRTC_PACKAGE==$NVRTC_VERSION" >&2
}

nvrtc_fetch() {
  local folder=$1 work wheel
  . "$nvrtc_here/nvrtc.version"
  [ "$(cat "$folder/version" 2>/dev/null)" = "$NVRTC_VERSION" ] && return 0
  [ "$(uname -m)" = x86_64 ] || { echo "nvrtc: the pinned wheel is for x86_64, this is $(uname -m)" >&2; return 1; }
  mkdir -p "$(dirname "$folder")" && work=$(mktemp -d "$folder.XXXXXX") || return 1
  wheel=$work/$NVRTC_FILE
  if nvrtc_download "$work" && echo "$NVRTC_SHA256  $wheel" | sha256sum --check --quiet >&2 &&
    python3 -m zipfile -e "$wheel" "$work/wheel"; then
    mkdir -p "$work/new/lib" && mv "$work"/wheel/nvidia/*/lib/libnvrtc*.so.* "$work/new/lib/" &&
      mv "$work"/wheel/*.dist-info/licenses "$work/new/" && echo "$NVRTC_VERSION" >"$work/new/version" &&
      rm -f "$work"/new/lib/*.alt.so.* && rm -rf "$folder" && mv "$work/new" "$folder"
  fi
  rm -rf "$work"
  [ -f "$folder/version" ] || { echo "nvrtc: fetching $NVRTC_PACKAGE $NVRTC_VERSION failed" >&2; return 1; }
}

# Is there a compiler already? The same places as in engine/kernel/nvrtc.c, but for the loader's own.
nvrtc_present() {
  local place
  [ -z "${FA4_NVRTC:-}" ] || return 0
  for place in build/nvrtc/lib "${XDG_DATA_HOME:-$HOME/.local/share}/fa4/nvrtc/lib" "${CUDA_HOME:-/usr/local/cuda}/lib64"; do
    compgen -G "$place/libnvrtc.so*" >/dev/null && return 0
  done
  ldconfig -p 2>/dev/null | grep -q 'libnvrtc\.so'
}

setup_nvrtc() {
  nvrtc_present || nvrtc_fetch build/nvrtc
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  cd "$nvrtc_here/.."
  nvrtc_fetch "${1:-build/nvrtc}"
fi
