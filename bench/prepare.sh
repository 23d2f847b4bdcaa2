# Sourced as `source prepare.sh TARGET [BUILD_DIRECTORY]`: builds dtc and the measurement, sets `build` and `work`, a
# folder that is removed when the script ends, and changes to the source directory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${2:-build}
cmake "$build" >/dev/null
ninja -C "$build" dtc "$1" >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
