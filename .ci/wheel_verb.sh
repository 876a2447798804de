# shellcheck shell=bash disable=SC2154
# The launcher's verb `wheel`, read by it only when asked for. Uses the launcher's functions and what they set: root, build,
# binary, toolchain, pip_limit_s.

# newest_glibc FILE: the newest version of glibc that a program asks for: 2.36.
newest_glibc() {
  readelf --version-info --wide "$1" | grep -o 'Name: GLIBC_2\.[0-9]*' | sed 's/.*GLIBC_//' | sort -uV | tail -n 1
}

verb_wheel() {
  (($# <= 1)) || die 3 "usage: ./nsa-harness wheel [FOLDER]"
  local out=${1:-$root/build} package=$root/build/wheel version glibc
  build_full harness/all unless_fresh
  find_python || die 3 "a Python 3.10 to 3.13 with venv is needed, none was found"
  locate_toolchain  # where pip is
  local inside=$package/nsa_harness
  rm -rf -- "$package"
  mkdir -p -- "$inside/bin" "$inside/share/nsa-harness" "$out" || die 3 "$package or $out cannot be written"
  cp -R -- "$root/python/." "$package/"
  find "$package" -name __pycache__ -prune -exec rm -rf -- {} +
  # The controller alone: it links no LibTorch, and what it needs beside it is data.
  strip -o "$inside/bin/nsa-harness" "$binary" || die 3 "$binary cannot be stripped"
  cp -R -- "$root/configs" "$root/scenarios" "$build/share/nsa-harness/corpus.txt" "$inside/share/nsa-harness/"
  version=$("$inside/bin/nsa-harness" version) || die 3 "the controller that was built does not start"
  version=${version#nsa-harness } version=${version%%,*}
  glibc=$(newest_glibc "$inside/bin/nsa-harness")
  [[ -n $glibc ]] || die 3 "readelf tells no version of glibc of the controller"
  say "the wheel runs where glibc is $glibc or newer"
  NSA_HARNESS_VERSION=$version NSA_HARNESS_GLIBC=$glibc timeout --foreground -k 30 "$pip_limit_s" \
    "$toolchain/bin/python" -I -m pip wheel --quiet --no-deps --disable-pip-version-check --wheel-dir "$out" "$package" >&2 ||
    die 3 "pip could not make the wheel, see above"
  printf '%s\n' "$out"/nsa_harness-"$version"-py3-none-manylinux_"${glibc/./_}"_"$(uname -m)".whl
}
