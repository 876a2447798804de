#include "harness/kinds/list.h"

#include "harness/kinds/training.h"

namespace harness {

const std::vector<Kind>& all_kinds() {
  static const std::vector<Kind> kinds = {training()};
  return kinds;
}

}  // namespace harness
