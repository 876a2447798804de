#!/usr/bin/env bash
# An old program never runs: changed sources, a failed or an interrupted build, a lost toolchain, another LibTorch.
# shellcheck source=tests/launcher/fake_tree.sh
source "${BASH_SOURCE[0]%/*}/fake_tree.sh" "$1"

version() { sed -i "s/version=[0-9]*/version=$1/" "$work/binary"; }

harness
expect "built and run" has "$output" version=1
forget_calls
harness
expect "not built again" equal "$(count_calls .)" 0
expect "run again" has "$output" version=1
expect "the hash of the sources is stored" equal "$(<"$tree/build/full/source.hash")" "$("$tree/nsa-harness" source-hash)"

version 2
printf 'more\n' >>"$tree/nsa/base/a.cpp"
harness
expect "a change is said" has "$log" 'nsa-harness: sources changed, rebuilding'
expect "and built" has "$output" version=2
expect "not configured again" not_called 'cmake --fresh'

version 3
printf 'BROKEN\n' >>"$tree/harness/core/c.cpp"
harness
expect "a failed build: exit 3" equal "$code" 3
expect "a failed build: the old program does not run" equal "$output" ''
expect "a failed build: the compiler's words" has "$log" 'error: BROKEN does not name a type'
expect "a failed build: one clear line at the end" eval '[[ ${log##*$'"'\n'"'} == "nsa-harness: the build failed"* ]]'
harness
expect "the second start neither" equal "$output" ''
sed -i '/BROKEN/d' "$tree/harness/core/c.cpp"
harness
expect "sources as before a failed build are built again" has "$output" version=3

# Interrupted after the program was replaced; then the sources go back to what the stored hash was made of.
version 4
cp "$tree/oracles/o.cpp" "$work/o.cpp"
printf 'more\n' >>"$tree/oracles/o.cpp"
: >"$mood/build_waits"
setsid env --default-signal=INT "$tree/nsa-harness" --yes </dev/null >"$work/stdout" 2>"$work/stderr" &
child=$!
wait_for "$mood/build_is_waiting"
kill -INT -- "-$child"
code=0
wait "$child" || code=$?
log=$(<"$work/stderr") output=$(<"$work/stdout")
expect "an interrupted build: exit 5" equal "$code" 5
expect "an interrupted build runs nothing" equal "$output" ''
rm "$mood/build_waits"
cp "$work/o.cpp" "$tree/oracles/o.cpp"
forget_calls
harness
expect "what an interrupted build left is not taken for whole" called 'cmake --build'
expect "and the program runs" has "$output" version=4

# A change while the compiler runs is in no binary for sure.
mv "$fakes/cmake" "$work/cmake"
site=$(echo "$cache"/toolchain-*/lib/python3.11/site-packages)
cp "$site/cmake/data/bin/cmake" "$work/cmake"
{ sed '$d' "$work/cmake"; printf 'echo late >>"$FAKE_WORK/tree/reports/r.cpp"\nexit 0\n'; } >"$site/cmake/data/bin/cmake"
printf 'more\n' >>"$tree/oracles/o.cpp"
harness
cp "$work/cmake" "$site/cmake/data/bin/cmake"
cp "$work/cmake" "$fakes/cmake"
forget_calls
harness
expect "a change during the build is built next time" called 'cmake --build'

rm "$tree/build/full/bin/nsa-harness"
harness
expect "a lost program is built again" has "$output" 'ran version='
rm -rf "$cache"
harness
expect "a lost toolchain is installed again" has "$output" 'ran version='
expect "and said" has "$log" 'which the last build used, cannot be read'

forget_calls
cp -r "$tree" "$work/moved" && rm -rf "$work/moved/build/full/source.hash"
"$work/moved/nsa-harness" >/dev/null 2>&1 </dev/null
expect "a moved tree is configured anew" called "cmake --fresh -S $work/moved"

mkdir -p "$work/own/share/cmake/Torch" "$work/own/lib"
: >"$work/own/lib/libtorch.so"
echo 'set(PACKAGE_VERSION "2.9.1")' >"$work/own/share/cmake/Torch/TorchConfigVersion.cmake"
forget_calls
NSA_TORCH=$work/own harness
expect "another LibTorch: configured anew" called "cmake --fresh .*NSA_TORCH_DIR=$work/own"
forget_calls
cd "$work" || exit
NSA_TORCH=own harness
expect "the same by a relative path: nothing to do" not_called cmake
harness
expect "back to the pinned one: configured anew" called "cmake --fresh .*NSA_TORCH_DIR=$cache"

mkdir "$work/cuda"
forget_calls
if [[ ! -x /usr/local/cuda/bin/nvcc ]] && ! command -v nvcc >/dev/null; then
  printf '#!/bin/sh\n' >"$work/cuda/nvcc" && chmod +x "$work/cuda/nvcc"
  PATH=$PATH:$work/cuda harness
  expect "a new nvcc is noticed" called 'cmake --fresh'
  forget_calls
  harness
  expect "an nvcc that only left PATH is kept" not_called cmake
fi

# Two at once: one builds, the other waits and finds it done.
printf 'more\n' >>"$tree/oracles/o.cpp"
forget_calls
"$tree/nsa-harness" --yes </dev/null >"$work/one" 2>/dev/null &
"$tree/nsa-harness" --yes </dev/null >"$work/two" 2>/dev/null &
wait
expect "two at once build once" equal "$(count_calls 'cmake --build')" 1
expect "both run" equal "$(cat "$work/one" "$work/two" | grep -c '^ran ')" 2

harness install "$work/prefix"
expect "install: the program does not run" equal "$output" "installed into $work/prefix"
expect "install: stripped" called 'cmake --install .* --strip'
harness install
expect "install without a folder: exit 3" equal "$code" 3
finish
