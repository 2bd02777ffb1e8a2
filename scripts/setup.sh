# shellcheck shell=bash
# setup.sh: sourced by demo.sh and test.sh. Installs the Debian packages that are missing and builds, without asking anything.
#   setup_packages        what building, running and testing need; quick when all is there
#   setup_compiler        the compiler of the GPU kernels (NVRTC), which is optional: without it a message, and all else works
#   setup_build DIR ARG.. configures DIR with the cmake arguments and builds it, or only $SETUP_TARGETS

FA4_PACKAGES=(build-essential cmake ninja-build pkg-config git ca-certificates zlib1g-dev
  luajit libluajit-5.1-dev lua-busted libedit-dev)
# Only for `test.sh --fuzz`.
FA4_PACKAGES_FUZZ=(clang libclang-rt-14-dev)

# Containers may leave HOME out; downloads and caches need one.
: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
export HOME

# Is Debian package $1 installed?
setup_has() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Runs a command as root: directly, or through sudo.
setup_as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

setup_packages() {
  local missing=() package
  if ! command -v dpkg-query >/dev/null; then
    echo "not a Debian system: these packages must be there under their names here: $*" >&2
    return 0
  fi
  for package in "$@"; do setup_has "$package" || missing+=("$package"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "installing ${missing[*]}" >&2
  setup_as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >&2
  setup_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >&2
}

setup_compiler() {
  . scripts/nvrtc.sh
  setup_nvrtc || echo "no NVRTC: GPU kernels cannot be compiled here, so the emulator and the GPU have none to run" >&2
}

setup_build() {
  local folder=$1
  shift
  [ -f "$folder/build.ninja" ] || cmake -G Ninja -S . -B "$folder" "$@" >&2
  # shellcheck disable=SC2086 # a list of words
  cmake --build "$folder" ${SETUP_TARGETS:+--target $SETUP_TARGETS} >&2
}
