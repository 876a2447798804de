#!/usr/bin/env bash
# Debian packages: only the missing ones, only with root's rights, else the exact command and exit 3.
# shellcheck source=tests/launcher/fake_tree.sh
source "${BASH_SOURCE[0]%/*}/fake_tree.sh" "$1"

printf 'libgloo-dev\nccache\nlibcli11-dev\n' >"$mood/missing"
untold
expect "nobody to ask: exit 3" equal "$code" 3
expect "nobody to ask: what is missing" has "$log" 'libcli11-dev'
expect "nobody to ask: how to be told" has "$log" '--yes'
expect "nobody to ask: apt-get was not called" not_called apt-get
expect "nobody to ask: nothing was downloaded" not_called 'pip install'
expect "nobody to ask: nothing runs" equal "$output" ''
forget_calls
: >"$mood/user"
harness
expect "no rights: exit 3" equal "$code" 3
expect "no rights: nothing runs" equal "$output" ''
expect "no rights: the exact command" has "$log" 'apt-get install --no-install-recommends libcli11-dev libgloo-dev'
expect "no rights: apt-get was not called" not_called apt-get
expect "no rights: nothing was downloaded" not_called 'pip install'

: >"$mood/sudo_works"
forget_calls
harness
expect "sudo without a password is used" called 'sudo -n timeout .* apt-get .*install --no-install-recommends libcli11-dev libgloo-dev$'
expect "and the start goes on" has "$output" 'ran version='

rm "$mood/user" "$mood/sudo_works"
rm -rf "$tree/build"
printf 'libgloo-dev\nccache\n' >"$mood/missing"
forget_calls
harness
expect "root: update first" called 'apt-get .* update$'
expect "root: only what is missing" called 'apt-get .* install --no-install-recommends libgloo-dev$'
expect "root: what only helps comes apart" called 'apt-get .* install --no-install-recommends ccache$'
expect "root: no sudo" not_called '^sudo'
expect "waiting for apt's lock is bounded" called 'apt-get .*DPkg::Lock::Timeout='

rm -rf "$tree/build"
forget_calls
harness
expect "nothing missing: apt-get is not called" not_called apt-get

rm -rf "$tree/build"
printf 'ccache\nmold\n' >"$mood/missing"
forget_calls
harness
expect "what only helps stops nothing" equal "$code" 0

fake apt-get <<'FAKE'
[[ $* != *install* ]]
FAKE
rm -rf "$tree/build"
printf 'git\n' >"$mood/missing"
harness
expect "a failed apt-get: exit 3" equal "$code" 3
expect "a failed apt-get: the command" has "$log" 'apt-get install --no-install-recommends git'
expect "a failed apt-get: nothing runs" equal "$output" ''

# A system without apt: a PATH with everything but that.
mkdir "$work/other"
for folder in /usr/bin /bin /usr/local/bin; do
  for program in "$folder"/*; do
    case ${program##*/} in dpkg* | apt*) ;; *) ln -sf "$program" "$work/other/" ;; esac
  done
done
rm "$fakes/dpkg-query" "$fakes/apt-get"
rm -rf "$tree/build"
PATH=$fakes:$work/other harness
expect "not Debian: said" has "$log" 'is not Debian or Ubuntu'
expect "not Debian: what is needed" has "$log" libsqlitecpp-dev
expect "not Debian: goes on with what is there" has "$output" 'ran version='
finish
