#!/usr/bin/env bash
# The nightly's own commands leave the checkout as it is; a night that could not start says so in the summary.
# shellcheck source=tests/launcher/fake_tree.sh
source "${BASH_SOURCE[0]%/*}/fake_tree.sh" "$1"

# step_script NAME: the shell text of that step of the workflow.
step_script() {
  awk -v name="      - name: $1" '
    $0 == name { inside = 1; next }
    inside && /^      - / { exit }
    inside && /^        run: \|$/ { block = 1; next }
    inside && /^        run: / { sub(/^        run: /, ""); print; exit }
    inside && block { sub(/^          /, ""); print }' "$workflow"
}

workflow=$1/.github/workflows/nightly.yml
cat >"$tree/nsa-harness" <<'FAKE'
#!/usr/bin/env bash
printf 'nsa-harness %s\n' "$*" >>"$FAKE_WORK/calls"
[[ -z ${FAKE_EXIT:-} ]] || exit "$FAKE_EXIT"
echo "# a report" >>"$GITHUB_STEP_SUMMARY"
FAKE
chmod +x "$tree/nsa-harness"
mkdir "$work/temp"
export RUNNER_TEMP=$work/temp GITHUB_STEP_SUMMARY=$work/summary BUDGET=8m CARDS=0
cd "$tree" || exit
find . -type f | sort >"$work/before"
step_script 'The night' >"$work/step.sh"
expect "has the step" test -s "$work/step.sh"

expect "runs" bash -eo pipefail "$work/step.sh"
expect "calls one verb" equal "$(count_calls '^nsa-harness ')" 1
expect "with what the variables say" equal "$(count_calls '^nsa-harness --yes nightly --budget 8m --cards 0 ')" 1
expect "the summary has the report" equal "$(cat "$work/summary")" "# a report"

: >"$work/summary"
code=0
FAKE_EXIT=3 bash -eo pipefail "$work/step.sh" || code=$?
expect "its exit code is kept" equal "$code" 3
expect "a start that failed is told" grep -q 'NO-GO.*exit code 3' "$work/summary"
expect "the checkout is as it was" equal "$(find . -type f | sort)" "$(cat "$work/before")"
kept=$(sed -n 's/^          path: //p' "$workflow")
expect "what is kept is what was written" test -s "${kept/'${{ runner.temp }}'/$RUNNER_TEMP}"
finish
