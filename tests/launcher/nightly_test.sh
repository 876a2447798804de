#!/usr/bin/env bash
# The nightly's own commands leave the checkout as it is, and report this night's run alone.
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
echo "# a report"
FAKE
chmod +x "$tree/nsa-harness"
mkdir "$work/temp"
unset XDG_DATA_HOME
export RUNNER_TEMP=$work/temp GITHUB_ENV=$work/env GITHUB_STEP_SUMMARY=$work/summary NSA_HARNESS_DB=$work/n.db
cd "$tree" || exit
find . -type f | sort >"$work/before"
for step in 'Where the runs are kept' 'Run the scenarios' Report; do
  step_script "$step" >"$work/step.sh"
  expect "has the step: $step" test -s "$work/step.sh"
  expect "runs: $step" bash -ec 'source "$1" >/dev/null' run "$work/step.sh"
done
expect "the checkout is as it was" equal "$(find . -type f | sort)" "$(cat "$work/before")"
expect "this run is reported" equal "$(count_calls '^nsa-harness --yes report last ')" 1
expect "the summary has it" equal "$(cat "$work/summary")" "# a report"
kept=$(sed -n 's/^          path: //p' "$workflow")
expect "what is kept is what was written" test -s "${kept/'${{ runner.temp }}'/$RUNNER_TEMP}"
finish
