# shellcheck shell=bash disable=SC2154
# The launcher's verb `test`, read by it only when asked for. Uses the launcher's functions and what they set: root,
# build, cmake, ctest, ninja, torch.

# ---- tests ---------------------------------------------------------------------------------------------------------

# run_ctest FOLDER ARG...: adds to passed, failed, skipped; the numbers come from ctest's own result file.
run_ctest() {
  local folder=$1 results=$1/ctest.xml text='' code=0 total=0 bad=0 out=0
  shift
  rm -f -- "$results"
  "$ctest" --test-dir "$folder" --output-on-failure --no-tests=ignore --output-junit "$results" \
    --parallel "$(job_count)" "$@" || code=$?
  if [[ -r $results ]]; then IFS= read -r -d '' -n 2000 text <"$results" || true; fi
  if [[ $text =~ tests=\"([0-9]+)\" ]]; then total=${BASH_REMATCH[1]}; fi
  if [[ $text =~ failures=\"([0-9]+)\" ]]; then bad=${BASH_REMATCH[1]}; fi
  if [[ $text =~ disabled=\"([0-9]+)\" ]]; then out=${BASH_REMATCH[1]}; fi
  if [[ $text =~ skipped=\"([0-9]+)\" ]]; then out=$((out + BASH_REMATCH[1])); fi
  if ((code != 0 && bad == 0)); then bad=1; fi
  if ((total == 0 && $# == 2)); then
    say "${folder#"$root"/} has no test to run"
    bad=1
  fi
  passed=$((passed + (total > bad + out ? total - bad - out : 0))) failed=$((failed + bad)) skipped=$((skipped + out))
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
  local passed=0 failed=0 skipped=0 arg chosen=0 default=(-LE '^(gpu|multi|multi-gpu|slow)$')
  for arg in "$@"; do
    case $arg in -L* | --label-*) chosen=1 ;; esac
  done
  if ((chosen)); then default=(); fi
  run_ctest "$root/build/core" "${default[@]}" "$@"
  run_ctest "$build" "${default[@]}" "$@"
  if (($# == 0)); then
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
