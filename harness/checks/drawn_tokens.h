// Which tokens the case gives a rank, by the oracle from docs/data.md: nothing that a rank recorded of them.
#pragma once

#include <cstdint>
#include <functional>
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

  // Is all that scored positions see one token repeated, in each piece (data_of.h) that the rank gets in this step?
  // False where the tokens are not known.
  [[nodiscard]] bool repeat_one_token(int rank, std::int64_t step);
  // The same of the windows that scored positions see compressed: in each piece all windows hold the same tokens.
  [[nodiscard]] bool repeat_one_window(int rank, std::int64_t step);

 private:
  // Of a piece, how many of its first tokens are looked at.
  using Extent = std::function<std::int64_t(std::int64_t length)>;
  // Is each of these tokens the one `period` places before it?
  [[nodiscard]] bool repeat(int rank, std::int64_t step, std::int64_t period, const Extent& seen);

  const Evidence& evidence_;
  std::optional<std::string> text_;
  bool looked_ = false;  // for the text
};

}  // namespace harness::checks
