#include "harness/run/build_info.h"

#include "source_hash.h"

namespace harness {

const char* built_source_hash() {
  return NSA_SOURCE_HASH;
}

}  // namespace harness
