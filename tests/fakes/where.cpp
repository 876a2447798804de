#include "tests/fakes/where.h"

namespace fakes {

std::string tree() {
  return NSA_TEST_TREE;
}

std::string programs() {
  return NSA_TEST_PROGRAMS;
}

}  // namespace fakes
