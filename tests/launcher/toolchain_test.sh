#!/usr/bin/env bash
# The toolchain is whole or not there: failed, killed, interrupted and doubled installs; a LibTorch of the user's.
# shellcheck source=tests/launcher/fake_tree.sh
source "${BASH_SOURCE[0]%/*}/fake_tree.sh" "$1"

toolchains() { find "$cache" -maxdepth 1 -name 'toolchain-*' 2>/dev/null | sort; }

: >"$mood/pip_fails"
harness
expect "pip fails: exit 3" equal "$code" 3
expect "pip fails: nothing runs" equal "$output" ''
expect "pip fails: nothing stays" equal "$(toolchains)" ''
expect "pip was tried twice" equal "$(count_calls 'pip install')" 2
rm "$mood/pip_fails"

# start_waiting: a launcher in a group of its own, in the middle of pip. Background jobs would ignore INT.
start_waiting() {
  : >"$mood/pip_waits"
  rm -f "$mood/pip_is_waiting"
  setsid env --default-signal=INT "$tree/nsa-harness" --yes </dev/null >"$work/stdout" 2>"$work/stderr" &
  child=$!
  wait_for "$mood/pip_is_waiting"
  rm "$mood/pip_waits"
}
for signal in INT TERM HUP; do
  start_waiting
  kill "-$signal" -- "-$child"
  code=0
  wait "$child" || code=$?
  log=$(<"$work/stderr")
  expect "SIG$signal: exit 5" equal "$code" 5
  expect "SIG$signal: nothing stays" equal "$(toolchains)" ''
done

start_waiting
{ kill -KILL -- "-$child" && wait "$child"; } 2>/dev/null
expect "killed: what stays has another name" eval '[[ $(toolchains) == *.partial ]]'
mkdir "$cache/toolchain-0123.partial"
: >"$(toolchains | grep -v 0123)/leftover"
forget_calls
harness
expect "killed: not taken for whole" called 'pip install'
expect "killed: the next start runs" has "$output" 'ran version='
expect "killed: what was left is gone" lacks "$(toolchains)" .partial
expect "killed: and is no part of the new one" eval '[[ ! -e $(toolchains)/leftover ]]'

whole=$(toolchains)
expect "pip has to check hashes" called 'pip install --require-hashes'
expect "everything is asked for" eval 'grep -q "^torch==" "$work/wanted" && grep -q sha256:11 "$work/wanted"'
expect "scripts name the final folder" equal "$(<"$whole/bin/script")" "#!$whole/bin/python"
expect "no download is left in it" eval '[[ ! -e $whole/tmp ]]'
expect "cmake is told where LibTorch is" called "NSA_TORCH_DIR=$whole/lib/python3.11/site-packages/torch"

printf 'sympy==1 \\\n    --hash=sha256:44\n' >>"$tree/requirements.txt"
harness
expect "other requirements, another toolchain" equal "$(toolchains | wc -l)" 2

mkdir -p "$work/own/share/cmake/Torch" "$work/own/lib"
: >"$work/own/lib/libtorch.so"
config=$work/own/share/cmake/Torch/TorchConfigVersion.cmake
NSA_TORCH=$work/own harness
expect "NSA_TORCH without LibTorch: exit 3" equal "$code" 3
expect "NSA_TORCH without LibTorch: says what is missing" has "$log" TorchConfigVersion.cmake
NSA_TORCH=$work/nowhere harness
expect "NSA_TORCH without a folder: exit 3" equal "$code" 3
expect "NSA_TORCH without a folder: named" has "$log" "$work/nowhere"
for old in 2.6.0 1.13.1; do
  echo "set(PACKAGE_VERSION \"$old\")" >"$config"
  NSA_TORCH=$work/own harness
  expect "LibTorch $old: exit 3" equal "$code" 3
  expect "LibTorch $old: named" has "$log" "LibTorch $old is too old; 2.7"
  expect "LibTorch $old: nothing runs" equal "$output" ''
done
for good in 2.7.0 2.11.0+cu126 3.0.1; do
  echo "set(PACKAGE_VERSION \"$good\")" >"$config"
  rm -rf "$tree/build"
  NSA_TORCH=$work/own harness
  expect "LibTorch $good is used" equal "$code" 0
done
expect "with NSA_TORCH: no LibTorch from PyPI" eval '! grep -qE "torch|sympy|33|44" "$work/wanted"'
expect "with NSA_TORCH: cmake and ninja, with hashes" equal "$(grep -cE 'cmake==|ninja==|sha256:11|sha256:22' "$work/wanted")" 4

rm -rf "$cache" "$tree/build"
cp -r "$tree" "$work/second"
forget_calls
"$tree/nsa-harness" --yes </dev/null >"$work/one" 2>&1 &
"$work/second/nsa-harness" --yes </dev/null >"$work/two" 2>&1 &
wait
expect "two trees at once install once" equal "$(count_calls 'pip install')" 1
expect "both run" equal "$(cat "$work/one" "$work/two" | grep -c '^ran ')" 2

unset NSA_HARNESS_CACHE
rm -rf "$tree/build"
XDG_CACHE_HOME=$work/xdg harness
expect "XDG_CACHE_HOME is followed" eval 'compgen -G "$work/xdg/nsa-harness/toolchain-*" >/dev/null'
rm -rf "$tree/build"
HOME='' XDG_CACHE_HOME='' harness
expect "no place at all: exit 3" equal "$code" 3
expect "no place at all: named" has "$log" NSA_HARNESS_CACHE

# The driver decides which LibTorch is fetched.
export NSA_HARNESS_CACHE=$cache
with_driver() {
  fake nvidia-smi <<FAKE
echo $1
FAKE
  rm -rf "$tree/build" "$cache"
  harness
  expect "driver $1 stops nothing" equal "$code" 0
}
with_driver 535.104.05
expect "an old driver is named" has "$log" 'NVIDIA driver 535.104.05 is too old for CUDA 13 (580 or newer)'
expect "an old driver: the LibTorch for CUDA 12, with its hash" equal "$(grep -cE 'torch==2.10.0|sha256:44' "$work/wanted")" 2
expect "an old driver: the same tools" equal "$(grep -cE 'cmake==|ninja==|sha256:11|sha256:22' "$work/wanted")" 4
with_driver 470.256.02
expect "a driver that runs neither is named" has "$log" 'NVIDIA driver 470.256.02 is too old (525 or newer)'
expect "a driver that runs neither: the LibTorch of all machines" has "$(<"$work/wanted")" torch==2.11.0
with_driver 580.65.06
expect "a new driver is no word worth" lacks "$log" 'NVIDIA driver'
expect "a new driver: the LibTorch of all machines" has "$(<"$work/wanted")" torch==2.11.0
finish
