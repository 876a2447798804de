#!/usr/bin/env bash
# The source hash follows the content and the names of what decides the binary, and nothing else.
# shellcheck source=tests/launcher/fake_tree.sh
source "${BASH_SOURCE[0]%/*}/fake_tree.sh" "$1"

hash_now() { bash "$tree/nsa-harness" source-hash; }
is_hash() { [[ $1 =~ ^[0-9a-f]{64}$ ]]; }
first=$(hash_now)
expect "64 hexadecimal digits" is_hash "$first"

# changes WHAT COMMAND...: the command changes the hash, and the tree put back has the first one again.
changes() {
  local what=$1
  shift
  cp -a "$tree" "$work/before"
  "$@"
  local now
  now=$(hash_now)
  expect "changes it: $what" differ "$now" "$first"
  expect "is a hash: $what" is_hash "$now"
  rm -rf "$tree" && mv "$work/before" "$tree"
  expect "as before without: $what" equal "$(hash_now)" "$first"
}
keeps() {
  local what=$1
  shift
  "$@"
  expect "does not change it: $what" equal "$(hash_now)" "$first"
}
append() { printf 'x' >>"$tree/$1"; }
create() { mkdir -p "$(dirname "$tree/$1")" && printf 'x' >"$tree/$1"; }

for file in nsa/base/a.cpp nsa/base/a.h oracles/o.cpp harness/core/c.cpp reports/r.cpp CMakeLists.txt \
  CMakePresets.json requirements.txt requirements-nvcc.txt nsa-harness; do
  changes "a byte in $file" append "$file"
done
changes "a new file" create nsa/new/deep/n.cu
changes "a new file in the top of a folder" create oracles/n.h
changes "a file of a kind nobody thought of" create reports/page.html
changes "a CMakeLists.txt in a folder" create nsa/CMakeLists.txt
changes "a file with a newline in its name" create $'nsa/base/a\nb.h'
changes "a file with spaces in its name" create 'nsa/base/a  b.h'
changes "a removed file" rm "$tree/oracles/o.cpp"
changes "a renamed file" mv "$tree/nsa/base/a.h" "$tree/nsa/base/b.h"
changes "two files with their contents swapped" eval \
  'mv "$tree/nsa/base/a.h" "$tree/t" && mv "$tree/nsa/base/a.cpp" "$tree/nsa/base/a.h" && mv "$tree/t" "$tree/nsa/base/a.cpp"'

keeps "the time of a file" touch -d 2001-01-01 "$tree/nsa/base/a.cpp"
keeps "its permissions" chmod 600 "$tree/nsa/base/a.cpp"
keeps "a scenario" append scenarios/s.yaml
keeps "a test" append tests/t.cpp
keeps "a document" create README.md
keeps "a document beside the sources" create nsa/kernels/README.md
keeps "an editor's file" create nsa/base/.a.cpp.swp
keeps "an editor's backup" create nsa/base/a.cpp~
keeps "what was built" create build/full/bin/x

cd / || exit
expect "same from another folder" equal "$(hash_now)" "$first"
cd "$tree/nsa" || exit
expect "same by a relative path" equal "$(bash ../nsa-harness source-hash)" "$first"
cd "$tree" || exit
expect "same without a path" equal "$(bash nsa-harness source-hash)" "$first"
ln -s "$tree/nsa-harness" "$work/link"
expect "same through a link" equal "$("$work/link" source-hash)" "$first"
cp -r "$tree" "$work/copy"
expect "same in a copy of the tree" equal "$("$work/copy/nsa-harness" source-hash)" "$first"
expect "same after --yes" equal "$("$tree/nsa-harness" --yes source-hash)" "$first"

create nsa/base/B.h && create nsa/base/_.h && create nsa/base/ab.h
mixed=$(hash_now)
export LOCPATH=$work/locales  # one that sorts otherwise than C, where the system can make it
mkdir "$LOCPATH"
localedef -i en_US -f UTF-8 "$LOCPATH/en_US.UTF-8" 2>/dev/null || printf 'no localedef: only C is tried\n'
for locale in C en_US.UTF-8; do
  expect "same in locale $locale" equal "$(env LC_ALL="$locale" "$tree/nsa-harness" source-hash 2>/dev/null)" "$mixed"
done
unset LOCPATH
expect "same whatever the shell's options" equal \
  "$(env BASHOPTS=dotglob:nocaseglob SHELLOPTS=noglob CDPATH=/ bash "$tree/nsa-harness" source-hash)" "$mixed"
expect "no toolchain was touched" equal "$(count_calls .)" 0
ln -s /nowhere "$tree/nsa/dangling.h"
expect "same with a dangling link" equal "$(hash_now)" "$mixed"
finish
