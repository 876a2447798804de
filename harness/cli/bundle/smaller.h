// Makes the failing case of a bundle smaller, by trying on this machine.
#pragma once

#include <string>

#include "harness/bundle/bundle.h"
#include "harness/cli/bundle/tries.h"

namespace harness::cli {

// No try begins of which the last one that failed alike says that it would end after `seconds`. The first try is the
// case itself: where that does not fail alike here, none follows. What was found is told in bundle.shrinking. Throws:
// nsa::Error where nothing can be recorded, or when interrupted.
void make_smaller(Bundle& bundle, Tries& tries, double seconds);

}  // namespace harness::cli
