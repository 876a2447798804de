// Files that ranks wrote (safetensors): opened read-only, never copied. What cannot be opened is missing evidence, with the
// reason: never written, pruned, cut short, not what its row says, by size or by hash.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "harness/checks/result.h"
#include "nsa/base/safetensors.h"

namespace harness::checks {

struct ArtefactKey {
  int process = 0;
  std::string name;
  std::int64_t step = 0;
  int of_rank = 0;
  int layer = -1;

  [[nodiscard]] std::string text() const;  // "local_gradients of rank 1, step 1"
};

// The row of an artefact, or nullptr.
[[nodiscard]] const Artefact* find_artefact(const Evidence& evidence, const ArtefactKey& key);

// Relative to the case's folder; "" where there is no row.
[[nodiscard]] std::string path_of(const Evidence& evidence, const ArtefactKey& key);

// Says in `result` what is missing when it gives nothing. Where the evidence has stand-ins for its tensors, they are shown.
[[nodiscard]] std::optional<nsa::SafetensorsFile> open_artefact(const Evidence& evidence,
                                                                const ArtefactKey& key,
                                                                ResultBuilder& result);

// Elements of a floating tensor at any alignment, read in place.
class Reals {
 public:
  // Throws: nsa::Error naming the tensor when its dtype is no floating one.
  explicit Reals(const nsa::TensorView& view);
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] double operator[](std::size_t i) const;
  [[nodiscard]] double unit_roundoff() const;  // of the dtype

 private:
  const std::byte* data_ = nullptr;
  std::size_t count_ = 0;
  nsa::DType dtype_ = nsa::DType::f32;
};

// Two tensors of the same dtype, shape and bytes.
[[nodiscard]] bool same_bytes(const nsa::TensorView& a, const nsa::TensorView& b);

}  // namespace harness::checks
