// Which tokens the case gives a rank, by the oracle from docs/data.md: nothing that a rank recorded of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/evidence/evidence.h"
#include "oracles/training/data.h"

namespace harness::checks {

// The text that the controller kept when the case began, as the case in its folder names it, also where the run's folder was
// moved; nothing where it was not kept as one file.
[[nodiscard]] std::optional<std::string> kept_text(const Evidence& evidence);
[[nodiscard]] oracles::Text bytes_of_text(const std::string& text);

class DrawnTokens {
 public:
  // Refers to it.
  explicit DrawnTokens(const Evidence& evidence) : evidence_(evidence) {}

  // The most positions that predict and see each other: of a sequence, or of packed documents of the longest one that the rank
  // gets in this step.
  [[nodiscard]] std::int64_t most_in_one_piece(int rank, std::int64_t step) const;
  // Is each of the sequences, or packed documents, that the rank gets in this step one token repeated, but for its last one?
  // False where the tokens are not known.
  [[nodiscard]] bool repeat_one_token(int rank, std::int64_t step);

 private:
  const Evidence& evidence_;
  std::optional<std::string> text_;
  bool looked_ = false;  // for the text
};

}  // namespace harness::checks
