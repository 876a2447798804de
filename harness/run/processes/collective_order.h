// The collectives that ranks tell while they run: do two of them issue different ones under one number? What then waits will not
// come to an end. The judgement of it is a check's, from the whole record.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "harness/evidence/event.h"

namespace harness {

class CollectiveOrder {
 public:
  void heard(const Event& event);  // a checked event of a rank
  [[nodiscard]] bool departed() const { return departed_; }

 private:
  using Shape = std::tuple<std::string, std::string, std::string, std::int64_t>;

  // By group and sequence what the first rank issued; of long runs the newest.
  std::map<std::string, std::map<std::int64_t, Shape>> first_;
  bool departed_ = false;
};

}  // namespace harness
