#!/usr/bin/env bash
# `./nsa-harness test`: both presets, numbers from ctest's result file, no green without a test that ran.
# shellcheck source=tests/launcher/fake_tree.sh
source "${BASH_SOURCE[0]%/*}/fake_tree.sh" "$1"

last_line() { printf '%s' "${output##*$'\n'}"; }

echo run run run skip disabled >"$mood/tests"
harness test
expect "all pass: exit 0" equal "$code" 0
expect "both presets count, skipped ones apart" equal "$(last_line)" '6 passed, 0 failed, 5 skipped'
expect "everything of preset full is built" called 'cmake --build .*/build/full --target all'
expect "preset core is built" called 'cmake --build .*/build/core --target all'
expect "preset core has no LibTorch" not_called 'cmake --fresh .*build/core.*NSA_TORCH_DIR'
expect "a GPU test is named with its reason" has "$log" 'skipped: kernels (no NVIDIA GPU here'
expect "GPU tests are left out" called 'ctest .*-LE ^(gpu|multi|multi-gpu|slow)\$'

echo run fail >"$mood/tests"
harness test
expect "a failure: exit 1" equal "$code" 1
expect "a failure: counted" equal "$(last_line)" '2 passed, 2 failed, 1 skipped'

echo run >"$mood/tests"
echo completed completed skipped other >"$mood/program"
harness test
expect "what a test program ran is counted one by one" equal "$(last_line)" '6 passed, 0 failed, 3 skipped'
echo completed measured measured >"$mood/program"
harness test
expect "a test that tells what it measured has passed: exit 0" equal "$code" 0
expect "a test that tells what it measured is one that passed" equal "$(last_line)" '8 passed, 0 failed, 1 skipped'
echo completed twice >"$mood/program"
harness test
expect "a test with two failures is one that failed" equal "$(last_line)" '4 passed, 2 failed, 1 skipped'
echo completed fail fail >"$mood/program"
harness test
expect "a failure in a test program: exit 1" equal "$code" 1
expect "each failure of a test program is counted" equal "$(last_line)" '4 passed, 4 failed, 1 skipped'
rm "$mood/program"

echo run gone gone >"$mood/tests"
harness test
expect "a test that cannot be started: exit 1" equal "$code" 1
expect "a test that cannot be started has failed" equal "$(last_line)" '2 passed, 4 failed, 1 skipped'

: >"$mood/tests"
harness test
expect "no test at all is no success" equal "$code" 1
harness test -R nothing
expect "nothing selected: exit 4" equal "$code" 4
echo skip >"$mood/tests"
harness test
expect "nothing but skipped tests: exit 4" equal "$code" 4

: >"$mood/tests"
: >"$mood/ctest_fails"
harness test
expect "ctest that dies without a result: exit 1" equal "$code" 1
harness test -R some
expect "the same with a choice of tests: exit 1" equal "$code" 1
rm "$mood/ctest_fails"

echo run run run >"$mood/tests"
forget_calls
harness test -R 'two words' -j1
expect "ctest's own arguments" called 'ctest-argument <two words>'
expect "a choice keeps the default labels" called 'ctest .*-LE'
expect "exit 0" equal "$code" 0
expect "nothing is skipped" equal "$(last_line)" '6 passed, 0 failed'
forget_calls
harness test -L gpu
expect "a label of one's own replaces the default" not_called 'ctest .*-LE'

printf 'BROKEN\n' >>"$tree/harness/core/c.cpp"
forget_calls
harness test
expect "a failed build: exit 3" equal "$code" 3
expect "a failed build: no test runs" not_called '^ctest'
finish
