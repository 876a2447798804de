# shellcheck shell=bash disable=SC2154
# The launcher's verb `test`, read by it only when asked for. Uses the launcher's functions and what they set: root,
# build, cmake, ctest, ninja, torch.

# ---- tests ---------------------------------------------------------------------------------------------------------

# count_programs FOLDER: adds to passed, failed, skipped what each test program left in FOLDER/gtest, and names it in counted.
count_programs() {
  local file line name open
  for file in "$1"/gtest/*.xml; do
    [[ -r $file ]] || continue
    name=${file##*/}
    counted+=" ${name%.xml} "
    open=0  # inside a test that has lines of its own: what it measured, or what went wrong
    while read -r line; do
      case $line in
        '<testcase '*result=\"skipped\"*) skipped=$((skipped + 1)) ;;
        '<testcase '*result=\"completed\"*'/>') passed=$((passed + 1)) ;;
        '<testcase '*result=\"completed\"*) open=1 ;;
        '<failure'*) failed=$((failed + open)) open=0 ;;
        '</testcase>') passed=$((passed + open)) open=0 ;;
      esac
    done <"$file"
    failed=$((failed + open))
  done
}

# count_results FILE: adds to passed, failed, skipped, from ctest's own result file, what no test program counted. A test that
# could not be started is "skipped" there, but it is a failure.
count_results() {
  local line name
  while read -r line; do
    if [[ $line =~ ^'<testcase name="'([^\"]*)\" ]]; then
      name=${BASH_REMATCH[1]}
      [[ $counted != *" $name "* ]] || continue
    fi
    case $line in
      '<testcase '*' status="run">') passed=$((passed + 1)) ;;
      '<testcase '*' status="fail">') failed=$((failed + 1)) ;;
      '<testcase '*' status="disabled">' | '<skipped message="SKIP_'*) skipped=$((skipped + 1)) ;;
      '<skipped '*) failed=$((failed + 1)) ;;
    esac
  done <"$1"
}

# run_ctest FOLDER ARG...: runs the tests and counts them. No test at all, where none was chosen, is a failure.
run_ctest() {
  local folder=$1 results=$1/ctest.xml code=0 before=$((passed + failed + skipped)) failed_before=$failed counted=
  shift
  rm -rf -- "$results" "$folder/gtest"
  "$ctest" --test-dir "$folder" --output-on-failure --no-tests=ignore --output-junit "$results" \
    --parallel "$(job_count)" "$@" || code=$?
  count_programs "$folder"
  if [[ -r $results ]]; then count_results "$results"; fi
  if ((code != 0 && failed == failed_before)); then
    say "ctest left ${folder#"$root"/} with code $code"
    failed=$((failed + 1))
  elif ((!chosen && passed + failed + skipped == before)); then
    say "${folder#"$root"/} has no test to run"
    failed=$((failed + 1))
  fi
}

# list_skipped LABEL REASON: names what the default leaves out.
list_skipped() {
  local line
  while IFS= read -r line; do
    [[ $line =~ Test\ +#[0-9]+:\ (.+)$ ]] || continue
    say "skipped: ${BASH_REMATCH[1]} ($2; to run it: ./nsa-harness test -L $1)"
    skipped=$((skipped + 1))
  done < <("$ctest" --test-dir "$build" -N -L "^$1\$")
}

verb_test() {
  if [[ ${1:-} == --tidy ]]; then
    shift
    verb_tidy "$@"
    return
  fi
  build_full all
  configure "$root/build/core" "$ninja"$'\n'"$root" --preset core
  compile "$root/build/core" all
  local passed=0 failed=0 skipped=0 arg chosen=$(($# > 0)) default=(-LE '^(gpu|multi|multi-gpu|slow)$')
  for arg in "$@"; do
    case $arg in -L* | --label-*) default=() ;; esac
  done
  run_ctest "$root/build/core" "${default[@]}" "$@"
  run_ctest "$build" "${default[@]}" "$@"
  if ((!chosen)); then
    local reason="no NVIDIA GPU here"
    if timeout 20 nvidia-smi -L >/dev/null 2>&1; then reason="left out by default"; fi
    list_skipped gpu "$reason"
    list_skipped multi "$reason"
    list_skipped slow "takes long"
  fi
  printf '%d passed, %d failed%s\n' "$passed" "$failed" "$( ((skipped == 0)) || printf ', %d skipped' "$skipped")"
  ((failed == 0)) || return 1
  ((passed > 0)) || die 4 "no test ran"
}

# ---- format and tidy -----------------------------------------------------------------------------------------------

# tool_14 NAME: prints the program's name; other versions format and judge otherwise.
tool_14() {
  local name
  for name in "$1-14" "$1"; do
    if [[ $("$name" --version 2>/dev/null) == *version\ 14.* ]]; then
      printf '%s\n' "$name"
      return
    fi
  done
  die 3 "$1 14 is needed and was not found (Debian: $1-14)"
}

# changed_files REV: sources and headers, with those that git does not know yet.
changed_files() {
  if [[ $1 == all ]]; then
    git ls-files -- '*.cpp' '*.h'
  else
    git diff --name-only --diff-filter=d "$1" -- '*.cpp' '*.h'
  fi
  git ls-files --others --exclude-standard -- '*.cpp' '*.h'
}

# changed_sources REV: the .cpp files that changed, and for a changed header one source that includes it.
changed_sources() {
  local file user
  changed_files "$1" | while IFS= read -r file; do
    user=${file%.*}.cpp
    [[ -f $user ]] || user=$(git grep -lF --untracked "#include \"$file\"" -- '*.cpp' | sed -n 1p) || true
    if [[ -n $user ]]; then printf '%s\n' "$user"; fi
  done | sort -u
}

# The revision to compare with: where this branch left its upstream, else the commit before.
default_revision() {
  local base
  base=$(git merge-base HEAD '@{upstream}' 2>/dev/null) || base=
  if [[ -n $base && $base != "$(git rev-parse HEAD)" ]]; then
    printf '%s\n' "$base"
  else
    git rev-parse -q --verify HEAD~1 || printf 'all\n'
  fi
}

verb_tidy() {
  local format tidy revision sources files status=0
  format=$(tool_14 clang-format)
  tidy=$(tool_14 clang-tidy)
  cd -- "$root" || exit
  revision=${1:-$(default_revision)}
  mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cu' '*.cuh')
  "$format" --dry-run -Werror "${files[@]}" || status=1
  say "clang-format: ${#files[@]} files, $( ((status)) && printf 'some to mend' || printf 'all as wanted')"
  mapfile -t sources < <(changed_sources "$revision")
  say "clang-tidy: ${#sources[@]} sources (changed since $revision)"
  ((${#sources[@]})) || return "$status"
  read_choices
  prepare_machine
  # A build folder without precompiled headers: g++'s are of no use to clang.
  configure build/tidy "$torch" --preset full -DNSA_TORCH_DIR="$torch" -DNSA_WITH_CUDA=OFF \
    -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
  compile build/tidy nsa_source_hash
  printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$(job_count)" \
    "$tidy" --quiet -p build/tidy --extra-arg=-Wno-unknown-warning-option || status=1
  say "clang-tidy: $( ((status)) && printf 'something to mend, see above' || printf 'nothing found')"
  return "$status"
}
