// Where the tree is that was built, and its programs. Functions of one small source, so that no other source of the tests depends
// on the folder in which it is compiled.
#pragma once

#include <string>

namespace fakes {

[[nodiscard]] std::string tree();
[[nodiscard]] std::string programs();

}  // namespace fakes
