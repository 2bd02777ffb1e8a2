#!/usr/bin/env bash
# demo.sh [arguments of scripts/experiment.lua]: from a bare Debian 12 clone to the experiment on real data. Installs what is missing
# (as root, or with sudo), builds build/fa4 and runs it. Quick when all is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/setup.sh
setup_packages "${FA4_PACKAGES[@]}"
setup_compiler
setup_build build -DCMAKE_BUILD_TYPE=Release
exec build/fa4 scripts/experiment.lua "$@"
