# shellcheck shell=bash disable=SC2154
# The launcher's verb `wheel`, read by it only when asked for. Uses the launcher's functions and what they set: root, build,
# binary, toolchain, pip_limit_s.

# newest_glibc FILE: the newest version of glibc that a program asks for: 2.36; nothing where it asks for none.
newest_glibc() {
  readelf --version-info --wide "$1" | sed -n 's/.*Name: GLIBC_\(2\.[0-9]*\).*/\1/p' | sort -uV | tail -n 1
}

# A program with the C library inside asks for none. The oldest systems it is made for, by theirs: RHEL 8, Debian 10.
readonly glibc_of_portable=2.28

verb_wheel() {
  (($# <= 1)) || die 3 "usage: ./nsa-harness wheel [FOLDER]"
  local out=${1:-$root/build} package=$root/build/wheel version glibc
  build_full harness/all unless_fresh
  find_python || die 3 "a Python 3.10 to 3.13 with venv is needed, none was found"
  choose_requirements 2>/dev/null || true  # told when it was built
  locate_toolchain  # where pip is
  local inside=$package/nsa_harness
  rm -rf -- "$package"
  mkdir -p -- "$inside/bin" "$inside/lib" "$inside/share/nsa-harness" "$out" || die 3 "$package or $out cannot be written"
  cp -R -- "$root/python/." "$root/LICENSE" "$root/CHANGELOG.md" "$package/"
  find "$package" -name __pycache__ -prune -exec rm -rf -- {} +
  # The controller alone: it links no LibTorch, and what it needs beside it is data.
  local program=$build/bin/nsa-harness-portable
  if [[ ! -x $program ]]; then
    say "the program could not be linked to a static C library: missing is libc.a (Debian: libc6-dev, Fedora: glibc-static)"
    say "  or one of libyaml-cpp.a, libSQLiteCpp.a, libsqlite3.a; the wheel needs a machine with this one's glibc"
    program=$binary
  fi
  strip -o "$inside/bin/nsa-harness" "$program" || die 3 "$program cannot be stripped"
  strip -o "$inside/lib/libnsa_fingerprint.so" "$build/lib/libnsa_fingerprint.so" || die 3 "the library of fingerprints cannot be stripped"
  cp -R -- "$root/configs" "$root/scenarios" "$build/share/nsa-harness/corpus.txt" "$inside/share/nsa-harness/"
  version=$("$inside/bin/nsa-harness" version) || die 3 "the controller that was built does not start"
  version=${version#nsa-harness } version=${version%%,*}
  glibc=$(newest_glibc "$inside/bin/nsa-harness")
  if [[ $program != "$binary" ]]; then
    [[ -z $glibc ]] || die 3 "$program was to ask for no glibc, but asks for $glibc"
    glibc=$glibc_of_portable
  fi
  [[ -n $glibc ]] || die 3 "readelf tells no version of glibc of the controller"
  say "the wheel runs where glibc is $glibc or newer"
  NSA_HARNESS_VERSION=$version NSA_HARNESS_GLIBC=$glibc timeout --foreground -k 30 "$pip_limit_s" \
    "$toolchain/bin/python" -I -m pip wheel --quiet --no-deps --disable-pip-version-check --wheel-dir "$out" "$package" >&2 ||
    die 3 "pip could not make the wheel, see above"
  printf '%s\n' "$out"/nsa_harness-"$version"-py3-none-manylinux_"${glibc/./_}"_"$(uname -m)".whl
}
