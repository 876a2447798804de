#!/usr/bin/env bash
# The launcher becomes the program: arguments, folder, exit code, process and standard output are the program's.
# shellcheck source=tests/launcher/fake_tree.sh
source "${BASH_SOURCE[0]%/*}/fake_tree.sh" "$1"

forget_calls
untold --help
expect "help before anything is built: exit 0" equal "$code" 0
expect "it tells how to begin" has "$output" './nsa-harness [--yes] VERB'
expect "nothing is installed or built for it" not_called 'cmake|apt-get|pip'

echo git >"$mood/missing"
harness
expect "first start builds and runs" equal "$code" 0
expect "standard output is the program's alone" eval '[[ $output == "ran version=1 "* ]]'

harness run 'two words' '' '*' $'new\nline' '--yes' -- '$HOME'
expect "arguments arrive intact" eval '[[ $output == *"argument <run>"$'"'\n'"'"argument <two words>"$'"'\n'"'"argument <>"$'"'\n'"'"argument <*>"* ]]'
expect "a newline too" has "$output" $'argument <new\nline>'
expect "--yes further on is the program's" has "$output" 'argument <--yes>'
expect "nothing is expanded" has "$output" 'argument <$HOME>'
expect "nothing is said when nothing is to do" equal "$log" ''

untold --help
expect "help of a program that is built is its own" has "$output" 'argument <--help>'

untold --yes list
expect "the first --yes is the launcher's" lacks "$output" 'argument <--yes>'
expect "the rest is the program's" has "$output" 'argument <list>'

for wanted in 0 1 2 4 5 6 70 139; do
  FAKE_EXIT=$wanted harness x
  expect "exit code $wanted" equal "$code" "$wanted"
done

mkdir -p "$work/else where"
cd "$work/else where" || exit
harness x
expect "the user's folder stays" has "$output" "cwd=$work/else where"
expect "the tree is told" has "$output" "tree=$tree "
ln -s ../tree/nsa-harness "$work/else where/link"
output=$(./link a)
expect "through a link: folder" has "$output" "cwd=$work/else where"
expect "through a link: tree" has "$output" "tree=$tree "
output=$(PATH=$tree:$PATH && nsa-harness a)
expect "found on PATH" has "$output" "tree=$tree "
output=$(cd "$tree/nsa" && CDPATH=/ ../nsa-harness a)
expect "by a relative path" has "$output" "tree=$tree "
mkdir -p "$work/decoy/tree"
output=$(cd "$work" && CDPATH=$work/decoy tree/nsa-harness a)
expect "whatever CDPATH says" has "$output" "tree=$tree "

printf '#!/usr/bin/env bash\necho "$$" >"$1"\ncat >"$1.in"\n: >"$1.read"\nexec sleep 30\n' >"$work/binary"
printf ' ' >>"$tree/nsa/base/a.cpp"
echo word | "$tree/nsa-harness" "$work/pid" 2>/dev/null &
child=$!
wait_for "$work/pid.read"
expect "no shell stays in between" equal "$(<"$work/pid")" "$child"
kill -TERM "$child"
code=0
wait "$child" || code=$?
expect "a signal reaches the program" equal "$code" 143
expect "standard input is the program's" equal "$(<"$work/pid.in")" word
finish
