#!/usr/bin/env bash
# The verb version-ab: a second build beside the first, launches in turn, one comparison of all pairs.
# shellcheck source=tests/launcher/fake_tree.sh
source "${BASH_SOURCE[0]%/*}/fake_tree.sh" "$1"

# The built program: notes which build ran with which LibTorch; a run tells its report, a comparison what FAKE_JSON says.
cat >"$work/binary" <<'FAKE'
#!/usr/bin/env bash
folder=${0%/bin/nsa-harness}
printf 'program %s %s torch=%s\n' "${folder##*/}" "$*" "${NSA_TORCH:-}" >>"$FAKE_WORK/calls"
case $1 in
  run)
    number=$(($(cat "$FAKE_WORK/number" 2>/dev/null || echo 0) + 1))
    echo "$number" >"$FAKE_WORK/number"
    printf 'nsa-harness: PASS\n/somewhere/runs/run%s/report.md\n' "$number"
    exit "${FAKE_EXIT:-0}" ;;
  compare)
    if [[ $* == *--json* ]]; then printf '%s\n' "${FAKE_JSON:-}"; exit 0; fi
    echo "compared $*"
    exit 1 ;;
esac
FAKE
chmod +x "$work/binary"
export XDG_DATA_HOME=$work/data
runs() { grep '^program .* run ' "$calls" | cut -d' ' -f2 | tr '\n' ' '; }

harness version-ab scenarios/s.yaml
expect "without another LibTorch: exit 3" equal "$code" 3
expect "without another LibTorch: usage" has "$log" 'usage: ./nsa-harness version-ab --other-torch'
for option in --other-torch --pairs --db; do
  harness version-ab --other-torch "$tree/requirements.txt" "$option" '' scenarios/s.yaml
  expect "$option '': exit 3" equal "$code" 3
  expect "$option '': said in one line" has "$log" "$option: found an empty word, wanted a value"
done
harness version-ab --other-torch "$work/nowhere" scenarios/s.yaml
expect "no such LibTorch: exit 3" equal "$code" 3
expect "no such LibTorch: named" has "$log" "$work/nowhere: neither a folder"
harness version-ab --other-torch "$tree/requirements.txt" --pairs many scenarios/s.yaml
expect "pairs that are no number: exit 3" equal "$code" 3

forget_calls
harness version-ab --other-torch "$tree/requirements-cuda12.txt" scenarios/s.yaml --set training.steps=2
expect "a file that pins it: the comparison decides" equal "$code" 1
expect "a file that pins it: two builds, side by side" equal "$(runs)" 'full torch-2.10.0 '
expect "a file that pins it: that LibTorch" has "$(<"$work/wanted")" torch==2.10.0
expect "a file that pins it: what was asked for reaches both" equal \
  "$(grep -c 'run scenarios/s.yaml --set training.steps=2 --db .*/nsa-harness/version-ab.db torch=$' "$calls")" 2
expect "a file that pins it: stdout is the comparison" equal "$output" \
  "compared compare run1 run2 --db $work/data/nsa-harness/version-ab.db"

mkdir -p "$work/own/share/cmake/Torch" "$work/own/lib"
: >"$work/own/lib/libtorch.so"
echo 'set(PACKAGE_VERSION "2.9.1")' >"$work/own/share/cmake/Torch/TorchConfigVersion.cmake"
rm "$work/number"
forget_calls
harness version-ab --other-torch "$work/own" --pairs 3 --db "$work/d.db" scenarios/s.yaml
expect "a folder: in turn, and each pair in the other order" equal "$(runs)" \
  'full torch-2.9.1 torch-2.9.1 full full torch-2.9.1 '
expect "a folder: each program with its own LibTorch" equal \
  "$(grep -c "torch-2.9.1 run .* torch=$work/own\$" "$calls")/$(grep -c "full run .* torch=\$" "$calls")" 3/3
expect "a folder: pairs of before and now" equal "$output" \
  "compared compare run1 run2 --pair run4 run3 --pair run5 run6 --db $work/d.db"
forget_calls
harness version-ab --other-torch "$work/own" --pairs 1 scenarios/s.yaml
expect "later: nothing is built" not_called cmake
FAKE_JSON='{"paired":[{"case":"fast"}]}' harness version-ab --other-torch "$work/own" scenarios/s.yaml
expect "timed cells: eight pairs" equal "$(grep -o -- '--pair' <<<"$output" | wc -l)" 7

forget_calls
FAKE_EXIT=5 harness version-ab --other-torch "$work/own" scenarios/s.yaml
expect "an interrupted run ends it" equal "$code/$(runs)" '5/full '
forget_calls
FAKE_EXIT=1 harness version-ab --other-torch "$work/own" scenarios/s.yaml
expect "a failing run is compared" equal "$(runs)" 'full torch-2.9.1 '
finish
