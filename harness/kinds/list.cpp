#include "harness/kinds/list.h"

#include "harness/kinds/attention.h"
#include "harness/kinds/decode.h"
#include "harness/kinds/sweep.h"
#include "harness/kinds/throughput.h"
#include "harness/kinds/training.h"

namespace harness {

const std::vector<Kind>& all_kinds() {
  static const std::vector<Kind> kinds = {attention(), decode(), sweep(), throughput(), training()};
  return kinds;
}

}  // namespace harness
