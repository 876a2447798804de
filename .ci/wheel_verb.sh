# shellcheck shell=bash disable=SC2154
# The launcher's verb `wheel`, read by it only when asked for. Uses the launcher's functions and what they set: root, cmake,
# toolchain.

# newest_glibc FILE: the newest version of glibc that a program asks for: 2.36.
newest_glibc() {
  readelf --version-info --wide "$1" | grep -o 'Name: GLIBC_2\.[0-9]*' | sed 's/.*GLIBC_//' | sort -uV | tail -n 1
}

# The controller alone: no LibTorch, and C++ inside, so that it asks the machine for its C library and nothing else.
build_controller() {
  configure "$folder" "wheel"$'\n'"$root" -DCMAKE_BUILD_TYPE=Release -G Ninja -DNSA_WITH_TORCH=OFF -DBUILD_TESTING=OFF \
    -DCMAKE_EXE_LINKER_FLAGS="-static-libstdc++ -static-libgcc"
  compile "$folder" all
}

verb_wheel() {
  (($# <= 1)) || die 3 "usage: ./nsa-harness wheel [FOLDER]"
  local out=${1:-$root/build} folder=$root/build/wheel package=$root/build/wheel/package lock_fd version glibc
  lock "$root/build/launcher.lock"
  prepare_machine
  build_controller
  rm -rf -- "$package"
  mkdir -p -- "$package" "$out" || die 3 "the folder $out cannot be written"
  cp -R -- "$root/python/." "$package/"
  find "$package" -name __pycache__ -prune -exec rm -rf -- {} +
  "$cmake" --install "$folder" --prefix "$package/nsa_harness" --strip >/dev/null || die 3 "installing failed, see above"
  version=$("$package/nsa_harness/bin/nsa-harness" version) || die 3 "the controller that was built does not start"
  version=${version#nsa-harness } version=${version%%,*}
  glibc=$(newest_glibc "$package/nsa_harness/bin/nsa-harness")
  [[ -n $glibc ]] || die 3 "readelf tells no version of glibc of the controller"
  say "the wheel runs where glibc is $glibc or newer"
  NSA_HARNESS_VERSION=$version NSA_HARNESS_GLIBC=$glibc timeout --foreground -k 30 "$pip_limit_s" \
    "$toolchain/bin/python" -I -m pip wheel --quiet --no-deps --disable-pip-version-check --wheel-dir "$out" "$package" >&2 ||
    die 3 "pip could not make the wheel, see above"
  unlock
  printf '%s\n' "$out"/nsa_harness-"$version"-py3-none-manylinux_"${glibc/./_}"_"$(uname -m)".whl
}
