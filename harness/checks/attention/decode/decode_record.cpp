#include "harness/checks/attention/decode/decode_record.h"

#include <cmath>

#include "nsa/base/text.h"
#include "oracles/tensor.h"

namespace harness::checks {

std::optional<std::int64_t> prompt_length(const Evidence& evidence, ResultBuilder& result) {
  const From<Sample>* latest = nullptr;
  for (const auto& row : evidence.samples) {
    if (row.process != 0 || row.row.metric != "prompt_tokens") continue;
    if (latest == nullptr || latest->t_ms <= row.t_ms) latest = &row;
  }
  if (latest == nullptr) {
    result.missing("the length of the prompt: sample prompt_tokens" + ended_early(evidence, 0));
    return std::nullopt;
  }
  const double value = latest->row.value;
  const auto length = static_cast<double>(evidence.the_case.scenario.training.seq_len);
  if (!(value >= 1.0 && value < length && value == std::floor(value))) {
    result.missing("a token after a prompt of " + nsa::to_text(value));
    return std::nullopt;
  }
  return static_cast<std::int64_t>(value);
}

std::optional<nsa::SafetensorsFile> open_decoded(const Evidence& evidence,
                                                 const std::string& name,
                                                 int layer,
                                                 ResultBuilder& result) {
  return open_artefact(evidence, {0, name, 1, 0, layer}, result);
}

bool has_shape(const nsa::SafetensorsFile& file,
               const std::string& name,
               const std::vector<std::int64_t>& shape,
               ResultBuilder& result) {
  if (file.contains(name) && file.at(name).shape == shape) return true;
  result.missing("tensor " + name + " of shape " + oracles::shape_text(shape));
  return false;
}

}  // namespace harness::checks
