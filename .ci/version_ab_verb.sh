# shellcheck shell=bash disable=SC2154
# The launcher's verb `version-ab`, read by it only when asked for: the same sources with two LibTorch, the same cases, one
# comparison. Uses the launcher's functions and what they set: root, build, binary, hash.

readonly version_ab_usage='usage: ./nsa-harness version-ab --other-torch FOLDER|FILE [--pairs N] [--db FILE] SCENARIO... [OPTION OF run...]'
readonly pairs_where_timed=8  # with fewer no change can be told from noise

# Sets torch_variable, words before a program that runs with the LibTorch of the last build, whatever the user's NSA_TORCH is.
name_torch() {
  torch_variable=(env -u NSA_TORCH)
  if [[ -n $torch_choice ]]; then torch_variable=(env NSA_TORCH="$torch_choice"); fi
}

# use_other_torch WHAT: the LibTorch of a folder, or the one that a file like requirements.txt pins. From here on everything is
# built in a folder of its own.
use_other_torch() {
  local version=
  if [[ -d $1 ]]; then
    NSA_TORCH=$1
    read_torch_choice
    check_torch_choice
    version=$torch_version
  else
    [[ -r $1 ]] || die 3 "$1: neither a folder with a LibTorch nor a file that can be read"
    [[ $(<"$1") =~ (^|$'\n')torch==([0-9][0-9.]*) ]] || die 3 "$1: it has no line torch==VERSION"
    version=${BASH_REMATCH[2]}
    other_requirements=$(CDPATH='' cd -P -- "$(dirname -- "$1")" && pwd)/${1##*/}
    unset NSA_TORCH
  fi
  build=$root/build/torch-$version
  binary=$build/bin/nsa-harness
}

# run_one SIDE: runs the words with that side's program; sets name_of_run.
run_one() {
  local side=$1 code=0 told
  local -n program=program_$side variable=variable_$side
  told=$("${variable[@]}" "$program" run "${words[@]}" --db "$database") || code=$?
  printf '%s\n' "$told" >&2
  case $code in 3 | 5 | 70) exit "$code" ;; esac
  told=${told##*$'\n'}
  [[ $told == */report.md ]] || die 3 "run told no report of its own: it needs its usual output (no --json)"
  told=${told%/report.md}
  name_of_run=${told##*/}
}

# A B, then B A, then A B ...: what drifts moves both. Sets before, now: the runs' names.
run_pair() {
  local order=(first other) side
  if (($1 % 2 == 0)); then order=(other first); fi
  for side in "${order[@]}"; do
    run_one "$side"
    if [[ $side == first ]]; then before+=("$name_of_run"); else now+=("$name_of_run"); fi
  done
}

verb_version_ab() {
  local other='' pairs='' database='' words=() first_hash i
  while (($#)); do
    case $1 in
      --other-torch | --pairs | --db)
        (($# > 1)) || die 3 "$version_ab_usage"
        [[ -n $2 ]] || die 3 "$1: found an empty word, wanted a value"
        case $1 in
          --other-torch) other=$2 ;;
          --pairs) pairs=$2 ;;
          --db) database=$2 ;;
        esac
        shift ;;
      *) words+=("$1") ;;
    esac
    shift
  done
  [[ -n $other && ${#words[@]} -gt 0 ]] || die 3 "$version_ab_usage"
  [[ $pairs =~ ^([1-9][0-9]?)?$ ]] || die 3 "--pairs $pairs: a number from 1 to 99 is wanted"
  if [[ -z $database ]]; then
    local data=${XDG_DATA_HOME:-${HOME:+$HOME/.local/share}}
    [[ -n $data ]] || die 3 "neither HOME nor XDG_DATA_HOME is set: name a database by --db"
    database=$data/nsa-harness/version-ab.db
  fi

  ensure_built
  program_first=$binary first_hash=$hash
  name_torch
  variable_first=("${torch_variable[@]}")
  use_other_torch "$other"
  ensure_built
  program_other=$binary
  name_torch
  variable_other=("${torch_variable[@]}")
  [[ $hash == "$first_hash" ]] || die 3 "the sources changed while the two programs were built: start again"

  export NSA_HARNESS_TREE=$root
  local before=() now=() more=()
  run_pair 1
  if [[ -z $pairs ]]; then
    pairs=1
    if [[ $("$program_first" compare "${before[0]}" "${now[0]}" --db "$database" --json) == *'"paired":[{'* ]]; then
      pairs=$pairs_where_timed
      say "times were measured: $pairs pairs of launches are made (--pairs 1: only this one)"
    fi
  fi
  for ((i = 2; i <= pairs; i++)); do
    run_pair "$i"
    more+=(--pair "${before[i - 1]}" "${now[i - 1]}")
  done
  exec "$program_first" compare "${before[0]}" "${now[0]}" "${more[@]}" --db "$database"
}
