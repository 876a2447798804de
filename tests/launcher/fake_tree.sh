# shellcheck shell=bash
# A small tree around the launcher under test, with fakes of python3, pip, cmake, ctest, dpkg-query, apt-get, sudo, id.
# Read by every test of this folder; REQUIRES $1 = the repository's root. Sets
#   tree     the tree, its launcher is "$tree/nsa-harness"        cache   where toolchains go
#   calls    one line for each call of a fake                     fakes   the folder in front of PATH
# What the fakes do is asked of files in $mood: pip_fails, pip_waits, nvcc_fails, build_waits, missing (packages), user (not root),
# sudo_works, tests (how each one ends), ctest_fails. A source file with the word BROKEN in it does not compile.
set -u

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
tree=$work/tree fakes=$work/fakes calls=$work/calls cache=$work/cache mood=$work/mood
mkdir -p "$fakes" "$mood" "$tree"/{nsa/base,oracles,harness/core,reports,scenarios,tests,.ci}
: >"$calls"
# A broken launcher must not reach the home of who runs the tests.
export FAKE_WORK=$work HOME=$work/home NSA_HARNESS_CACHE=$cache PATH=$fakes:$PATH
unset NSA_TORCH NSA_HARNESS_TREE NSA_HARNESS_NVCC XDG_CACHE_HOME

cp "$1/nsa-harness" "$tree/"
cp "$1"/.ci/{test,wheel,version_ab}_verb.sh "$tree/.ci/"
for name in CMakeLists.txt CMakePresets.json nsa/base/a.cpp nsa/base/a.h oracles/o.cpp harness/core/c.cpp \
  reports/r.cpp scenarios/s.yaml tests/t.cpp; do
  printf '%s\n' "$name" >"$tree/$name"
done
printf '# tools and LibTorch\ncmake==1 \\\n    --hash=sha256:11\nninja==1 \\\n    --hash=sha256:22\ntorch==2.11.0 \\\n    --hash=sha256:33\n' \
  >"$tree/requirements.txt"
sed 's/torch==2.11.0/torch==2.10.0/; s/:33/:44/' "$tree/requirements.txt" >"$tree/requirements-cuda12.txt"

printf '# the compiler\nnvidia-cuda-nvcc==13 \\\n    --hash=sha256:55\n' >"$tree/requirements-nvcc.txt"

# fake NAME: the program NAME from standard input. It notes its call first.
fake() {
  { printf '#!/usr/bin/env bash\nmood=$FAKE_WORK/mood\nprintf "%s %%s\\n" "$*" >>"$FAKE_WORK/calls"\n' "$1"; cat; } >"$fakes/$1"
  chmod +x "$fakes/$1"
}

fake python3 <<'FAKE'
case "$1 $2" in
  '-c '*) echo 3.11 ;;
  '-m venv') mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  '-I -m')
    if [[ "$3 $4" == 'pip wheel' ]]; then exit 0; fi
    place=${0%/bin/python}
    for last; do :; done
    echo "Collecting"
    if grep -q nvcc "$last"; then
      [[ ! -e $mood/nvcc_fails ]] || exit 1
      cp "$last" "$FAKE_WORK/wanted_nvcc"
      while [[ $1 != --target ]]; do shift; done
      mkdir -p "$2"/nvidia/cu13/{bin,lib} && printf '#!/bin/sh\n' >"$2/nvidia/cu13/bin/nvcc" && chmod +x "$2/nvidia/cu13/bin/nvcc"
      exit
    fi
    cp "$last" "$FAKE_WORK/wanted"
    mkdir -p "$place/lib/python3.11/site-packages/cmake/data/bin"
    cp "$FAKE_WORK/fakes/cmake" "$FAKE_WORK/fakes/ctest" "$place/lib/python3.11/site-packages/cmake/data/bin/"
    if [[ -e $mood/pip_waits ]]; then trap 'exit 1' INT TERM; : >"$mood/pip_is_waiting"; sleep 30; fi
    [[ ! -e $mood/pip_fails ]] || exit 1
    if grep -q torch "$last"; then
      mkdir -p "$place/lib/python3.11/site-packages/torch/lib"
      : >"$place/lib/python3.11/site-packages/torch/lib/libtorch.so"
    fi
    printf '#!%s/bin/python\n' "$place" >"$place/bin/script"
    cp "$FAKE_WORK/fakes/cmake" "$place/bin/ninja" ;;
esac
FAKE
fake cmake <<'FAKE'
case $1 in
  --fresh) echo "-- Configuring" && mkdir -p "$5" && : >"$5/build.ninja" ;;
  --install) echo "installed into $4" ;;
  --build)
    echo "[building 1 of 2, 3 s so far, about 00:04 left] Building"
    if grep -rq BROKEN "$FAKE_WORK"/tree/{nsa,oracles,harness,reports}; then
      echo "c.cpp:1:1: error: BROKEN does not name a type"
      exit 1
    fi
    mkdir -p "$2/bin"
    cp "$FAKE_WORK/binary" "$2/bin/nsa-harness"
    [[ ! -e $FAKE_WORK/portable ]] || cp "$FAKE_WORK/portable" "$2/bin/nsa-harness-portable"
    if [[ -e $mood/build_waits ]]; then trap 'exit 1' INT TERM; : >"$mood/build_is_waiting"; sleep 30; exit 1; fi ;;
esac
exit 0
FAKE
fake ctest <<'FAKE'
for argument; do printf 'ctest-argument <%s>\n' "$argument" >>"$FAKE_WORK/calls"; done
while (($#)); do
  case $1 in
    -N) [[ $* == *gpu* && ! $* == *multi* ]] && printf '  Test #7: kernels\n'; exit 0 ;;
    --output-junit) out=$2; shift ;;
  esac
  shift
done
if [[ -s $mood/tests ]]; then
  for status in $(<"$mood/tests"); do
    case $status in
      skip) printf '\t<testcase name="a" status="notrun">\n\t\t<skipped message="SKIP_RETURN_CODE=77"/>\n' ;;
      gone) printf '\t<testcase name="a" status="notrun">\n\t\t<skipped message="Unable to find executable"/>\n' ;;
      *) printf '\t<testcase name="a" status="%s">\n\t\t<system-out>\n<failure &lt;testcase status="fail"> of old\n' "$status" ;;
    esac
  done >"$out"
fi
if [[ -s $mood/program ]]; then  # what a test program left, and the line of ctest that stands for all of it
  mkdir -p "${out%/*}/gtest"
  for result in $(<"$mood/program"); do
    case $result in
      fail) printf '    <testcase name="b" status="run" result="completed" time="0">\n      <failure message=""></failure>\n' ;;
      twice) printf '    <testcase name="b" status="run" result="completed" time="0">\n      <failure message="">\n      <failure message="">\n    </testcase>\n' ;;
      measured) printf '    <testcase name="b" status="run" result="completed" time="0">\n      <properties>\n        <property name="worst" value="1"/>\n      </properties>\n    </testcase>\n' ;;
      other) printf '    <testcase name="b" status="notrun" result="suppressed" />\n' ;;
      *) printf '    <testcase name="b" status="run" result="%s" time="0" />\n' "$result" ;;
    esac
  done >"${out%/*}/gtest/checks.0.xml"
  ended=run
  grep -qE 'fail|twice' "$mood/program" && ended=fail
  printf '\t<testcase name="checks.0" status="%s">\n' "$ended" >>"$out"
  [[ $ended == run ]] || exit 8
fi
[[ ! -e $mood/ctest_fails ]] && ! grep -qE 'fail|gone' "$mood/tests"
FAKE
fake dpkg-query <<'FAKE'
shift 2
for name; do
  grep -qsxF -- "$name" "$mood/missing" || printf '%s installed\n' "$name"
done
FAKE
fake apt-get <<'FAKE'
echo "Reading package lists"
[[ " $* " != *' install '* ]] || : >"$mood/missing"
FAKE
fake id <<'FAKE'
if [[ -e $mood/user ]]; then echo 1000; else echo 0; fi
FAKE
fake sudo <<'FAKE'
[[ -e $mood/sudo_works ]] || exit 1
[[ $1 != -n ]] || shift
exec "$@"
FAKE
fake nvidia-smi <<'FAKE'
exit 9
FAKE

# The built program: tells what reached it, then leaves with the code in FAKE_EXIT.
cat >"$work/binary" <<'FAKE'
#!/usr/bin/env bash
printf 'ran version=1 cwd=%s tree=%s pid=%s\n' "$PWD" "${NSA_HARNESS_TREE:-}" "$$"
printf 'argument <%s>\n' "$@"
exit "${FAKE_EXIT:-0}"
FAKE
chmod +x "$work/binary"

# untold ARG...: the launcher without a terminal and without --yes; sets code, output (stdout) and log (stderr).
untold() {
  code=0
  "$tree/nsa-harness" "$@" </dev/null >"$work/stdout" 2>"$work/stderr" || code=$?
  output=$(<"$work/stdout") log=$(<"$work/stderr")
}

# harness ARG...: the same, told not to ask.
harness() { untold --yes "$@"; }

failures=0
# expect WHAT CONDITION...: the condition is a command; on failure says what was expected and goes on.
expect() {
  local what=$1
  shift
  if "$@"; then return 0; fi
  failures=$((failures + 1))
  printf 'FAILED: %s\n  %s\n  exit %s\n  stdout: %s\n  stderr: %s\n' "$what" "$*" "${code:-}" "${output:-}" "${log:-}"
}
equal() { [[ $1 == "$2" ]]; }
differ() { [[ $1 != "$2" ]]; }
has() { [[ $1 == *"$2"* ]]; }
lacks() { [[ $1 != *"$2"* ]]; }
called() { grep -q -- "$1" "$calls"; }
not_called() { ! called "$1"; }
count_calls() { grep -c -- "$1" "$calls" || true; }
forget_calls() { : >"$calls"; }

# wait_for FILE: until it exists, at most 20 s.
wait_for() {
  local i
  for ((i = 0; i < 400; i++)); do
    [[ ! -e $1 ]] || return 0
    sleep 0.05
  done
  printf 'FAILED: %s never came\n' "$1"
  exit 1
}

finish() {
  printf '%s: %d failed\n' "${0##*/}" "$failures"
  ((failures == 0))
  exit
}
