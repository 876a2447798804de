// An implementation was asked for what it cannot do. It says so before it does anything, by name; nothing else runs in its
// place.
#pragma once

#include <string>

#include "nsa/base/error.h"

namespace nsa {

class Refused : public Error {
 public:
  // `reason` is what it cannot do, as in "cannot do " + reason. `at_layer` is -1 when the model was made.
  Refused(std::string of_seam, std::string by, std::string what, int at_layer = -1)
      : Error("seam " + of_seam + ": implementation " + by + " cannot do " + what),
        seam(std::move(of_seam)),
        implementation(std::move(by)),
        reason(std::move(what)),
        layer(at_layer) {}

  std::string seam;
  std::string implementation;
  std::string reason;
  int layer;
};

}  // namespace nsa
