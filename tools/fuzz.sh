#!/usr/bin/env bash
# Runs every fuzz target of the main module for the given time each, one after another.
# usage: tools/fuzz.sh DURATION [GO]
set -euo pipefail
duration=${1:?usage: fuzz.sh DURATION [GO]}
go=${2:-go}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t files < <(grep -rlE --include='*_test.go' '^func Fuzz[A-Z]' . | sort)
[[ ${#files[@]} -gt 0 ]] || { echo "no fuzz target in this module" >&2; exit 1; }
for file in "${files[@]}"; do
  while read -r target; do
    printf '== %s %s\n' "$(dirname "$file")" "$target"
    "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$duration" "$(dirname "$file")"
  done < <(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$file")
done
