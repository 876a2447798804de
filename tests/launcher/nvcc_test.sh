#!/usr/bin/env bash
# The CUDA compiler comes from PyPI where a card is and no nvcc; it is asked for, pinned, whole or not there, and never needed.
# shellcheck source=tests/launcher/fake_tree.sh
source "${BASH_SOURCE[0]%/*}/fake_tree.sh" "$1"

# A machine that has an nvcc must not help: CUDA_HOME is another folder, and PATH has the tools of the system alone.
export CUDA_HOME=$work/no-cuda PATH=$fakes:/usr/bin:/bin
if [[ -x /usr/bin/nvcc || -x /bin/nvcc ]]; then
  echo "nvcc is among the system's programs: nothing can be tried"
  exit 77
fi
compilers() { find "$cache" -maxdepth 1 -name 'nvcc-*' 2>/dev/null; }
with_driver() { fake nvidia-smi <<<"echo $1"; }
again() {
  rm -rf "$tree/build"
  forget_calls
  "$@"
}

harness
expect "no card: runs" has "$output" 'ran version='
expect "no card: no compiler" equal "$(compilers)" ''

with_driver 580.65.06
again untold
expect "nobody to ask: exit 3" equal "$code" 3
expect "nobody to ask: what, why and how much" has "$log" "in $cache: the CUDA compiler, since nvcc is not here (0.3 GB, 0.1 to download)"
expect "nobody to ask: nothing was downloaded" not_called 'pip install'

: >"$mood/nvcc_fails"
again harness
expect "PyPI fails: runs" has "$output" 'ran version='
expect "PyPI fails: says what is not there" has "$log" 'the CUDA compiler could not be taken from PyPI, see above. Built without CUDA'
expect "PyPI fails: nothing stays" equal "$(compilers)" ''
expect "PyPI fails: tried twice" equal "$(count_calls 'pip install')" 2
rm "$mood/nvcc_fails"

again harness
compiler=$(compilers)
bin=$compiler/nvidia/cu13/bin
expect "a card: runs" has "$output" 'ran version='
expect "a card: one compiler, whole" eval '[[ -x $bin/nvcc && ! -e $compiler/tmp ]]'
expect "a card: into a folder of its own, hashes checked" called 'pip install --require-hashes .*--target'
expect "a card: as it is pinned" has "$(<"$work/wanted_nvcc")" 'nvidia-cuda-nvcc==13'
expect "a card: the names that nvcc and CMake look for" eval \
  '[[ -d $compiler/nvidia/cu13/lib64 && $(readlink "$compiler/nvidia/cu13/lib/libcudart.so") == libcudart.so.13 ]]'
expect "a card: the build is told" has "$(<"$tree/build/full/launcher.state")" "$bin/nvcc"

forget_calls
untold
expect "later: nothing is asked or built" not_called 'pip install\|cmake'
again untold
expect "a second tree: nothing is downloaded" not_called 'pip install'
expect "a second tree: uses it" has "$(<"$tree/build/full/launcher.state")" "$bin/nvcc"

fake nvidia-smi <<<'exit 9'
printf 'more\n' >>"$tree/oracles/o.cpp"
harness
expect "the card does not answer for once: the build keeps its compiler" has "$(<"$tree/build/full/launcher.state")" "$bin/nvcc"
printf '# newer\n' >>"$tree/requirements-nvcc.txt"
harness
expect "other requirements, another compiler" equal "$(compilers | wc -l)" 2
expect "and it is the one that is used" lacks "$(<"$tree/build/full/launcher.state")" "$bin/nvcc"

rm -rf "$cache"/nvcc-*
NSA_HARNESS_NVCC=pypi again harness
expect "asked for without a card" differ "$(compilers)" ''
with_driver 580.65.06
NSA_HARNESS_NVCC=none again untold
expect "told never to: builds without" has "$output" 'ran version='
expect "told never to: no compiler" equal "$(sed -n 3p "$tree/build/full/launcher.state")" ''
NSA_HARNESS_NVCC=maybe again harness
expect "a word of no meaning: exit 3" equal "$code" 3
expect "a word of no meaning: what is wanted" has "$log" 'NSA_HARNESS_NVCC=maybe: pypi or none'

rm -rf "$cache"/nvcc-*
for driver in 535.104.05 470.256.02; do
  with_driver "$driver"
  again harness
  expect "driver $driver: runs" has "$output" 'ran version='
  expect "driver $driver: no compiler of CUDA 13" equal "$(compilers)" ''
done
with_driver 535.104.05
again harness
expect "an old driver: says that PyPI has no compiler for it" has "$log" 'PyPI has none of CUDA 12'

with_driver 580.65.06
mkdir -p "$CUDA_HOME/bin" && printf '#!/bin/sh\n' >"$CUDA_HOME/bin/nvcc" && chmod +x "$CUDA_HOME/bin/nvcc"
again harness
expect "an nvcc that is here is used" has "$(<"$tree/build/full/launcher.state")" "$CUDA_HOME/bin/nvcc"
expect "an nvcc that is here: nothing is downloaded" equal "$(compilers)" ''
rm -rf "$CUDA_HOME"

mkdir -p "$work/own/torch/share/cmake/Torch" "$work/own/torch/lib"
: >"$work/own/torch/lib/libtorch.so"
echo 'set(PACKAGE_VERSION "2.11.0")' >"$work/own/torch/share/cmake/Torch/TorchConfigVersion.cmake"
NSA_TORCH=$work/own/torch again harness
expect "NSA_TORCH without CUDA's headers: runs" has "$output" 'ran version='
expect "NSA_TORCH without CUDA's headers: says so" has "$log" 'no CUDA 13 headers beside NSA_TORCH'
expect "NSA_TORCH without CUDA's headers: no compiler" equal "$(compilers)" ''
mkdir -p "$work/own/nvidia/cu13/include"
: >"$work/own/nvidia/cu13/include/cublas_v2.h"
NSA_TORCH=$work/own/torch again harness
expect "NSA_TORCH with CUDA's headers: the compiler" differ "$(compilers)" ''
finish
