// One implementation of one seam of the attention layer: a row of the registry. A folder that brings several gives its rows
// in a list.
#pragma once

#include <functional>
#include <string>

#include "nsa/seams/seams.h"

namespace nsa {

struct Implementation {
  std::string seam;
  std::string name;
  // What it cannot do, "" when nothing. Surroundings are null where they are not known yet.
  std::function<std::string(const ModelConfig&, const Surroundings*)> unsupported;
  std::function<void(AttentionSeams&)> install;  // empty: all it can do is refuse
};

}  // namespace nsa
