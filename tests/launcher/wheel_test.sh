#!/usr/bin/env bash
# The wheel's tag tells the oldest glibc that its program runs with: that of a program with the C library inside, else this machine's.
# shellcheck source=tests/launcher/fake_tree.sh
source "${BASH_SOURCE[0]%/*}/fake_tree.sh" "$1"

mkdir -p "$tree"/{configs,python} "$tree"/build/full/{lib,share/nsa-harness}
printf 'takes fingerprints\n' >"$tree/build/full/lib/libnsa_fingerprint.so"
: >"$tree/build/full/share/nsa-harness/corpus.txt"
printf 'may be used\n' >"$tree/LICENSE"
printf 'what changed\n' >"$tree/CHANGELOG.md"
# program GLIBC...: one that says which versions of glibc it asks for, where readelf is asked.
program() { printf '#!/bin/sh\necho "nsa-harness 0.1.0, abc"; exit 0\n'; printf '# Name: GLIBC_%s  Flags\n' "$@"; }
fake strip <<'FAKE'
cp "$3" "$2"
FAKE
fake readelf <<'FAKE'
cat "${!#}"
FAKE
program 2.4 2.36 2.17 >"$work/binary"
chmod +x "$work/binary"

harness wheel "$work/out"
expect "no static C library: the wheel is made" equal "$code" 0
expect "no static C library: this machine's glibc" equal "$output" "$work/out/nsa_harness-0.1.0-py3-none-manylinux_2_36_$(uname -m).whl"
expect "the licence and the changes are beside the package" equal "$(cat "$tree"/build/wheel/{LICENSE,CHANGELOG.md})" $'may be used\nwhat changed'
expect "the library of fingerprints is in the package" equal "$(<"$tree/build/wheel/nsa_harness/lib/libnsa_fingerprint.so")" 'takes fingerprints'
expect "no static C library: what is missing" has "$log" 'missing is libc.a (Debian: libc6-dev'

program >"$work/portable"
sed -i '/Name:/d' "$work/portable"
chmod +x "$work/portable"
printf 'changed\n' >>"$tree/nsa/base/a.cpp"
harness wheel "$work/out"
expect "the C library inside: the wheel is made" equal "$code" 0
expect "the C library inside: the oldest system it is for" equal "$output" "$work/out/nsa_harness-0.1.0-py3-none-manylinux_2_28_$(uname -m).whl"
expect "the C library inside: that program is in the wheel" equal "$(<"$tree/build/wheel/nsa_harness/bin/nsa-harness")" "$(<"$work/portable")"

program 2.34 >"$work/portable"
printf 'changed again\n' >>"$tree/nsa/base/a.cpp"
harness wheel "$work/out"
expect "it asks for a glibc all the same: exit 3" equal "$code" 3
expect "it asks for a glibc all the same: said" has "$log" 'asks for 2.34'

finish
