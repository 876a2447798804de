// How long the documents of a packed sequence are (docs/data.md, "Packed documents"). A pure function of (seed, step, micro-batch,
// rank, world), like the tokens.
#pragma once

#include <cstdint>

#include "nsa/base/config.h"
#include "nsa/model/packed_attention.h"
#include "nsa/train/data.h"

namespace nsa {

class Documents {
 public:
  Documents(const DataConfig& config, const BatchShape& shape, std::int64_t seed, int world);

  // Of each row of a micro-batch; none where a sequence is one document.
  [[nodiscard]] DocumentLengths lengths(std::int64_t step, std::int64_t micro, int rank) const;

 private:
  [[nodiscard]] std::vector<std::int64_t> of_sequence(std::uint64_t number) const;

  std::int64_t count_;
  BatchShape shape_;
  std::uint64_t key_;
  int world_;
};

}  // namespace nsa
