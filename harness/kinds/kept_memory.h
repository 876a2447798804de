// How many bytes of tensors a call of a seam leaves behind: its output and what its backward will need. Counted, so that the
// same implementation at the same size leaves the same, to the byte.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "harness/worker/watch/memory_watch.h"
#include "nsa/model/nsa_lm.h"

namespace harness {

class KeptMemory {
 public:
  explicit KeptMemory(const MemoryWatch& memory) : memory_(memory) {}
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  // Puts itself around the seams as they are now; must outlive the model's forwards.
  void watch(nsa::NsaLm& model);
  // From here on nothing is counted any more.
  void stop() { counts_ = false; }

  // By seam and layer, over all calls; what seams called meanwhile leave is theirs.
  [[nodiscard]] const std::map<std::pair<std::string, int>, std::int64_t>& bytes() const {
    return bytes_;
  }

 private:
  template <typename Result, typename... Arguments>
  void around(const char* seam,
              std::function<Result(const nsa::SeamContext&, Arguments...)>& function);

  const MemoryWatch& memory_;
  bool counts_ = true;
  std::int64_t inside_ = 0;  // left by the seams that the one which runs now has called
  std::map<std::pair<std::string, int>, std::int64_t> bytes_;
};

}  // namespace harness
