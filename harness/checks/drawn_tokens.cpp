#include "harness/checks/drawn_tokens.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "harness/checks/data_of.h"
#include "harness/scenario/case.h"
#include "nsa/base/file.h"

namespace harness::checks {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;  // no larger text is kept

}  // namespace

std::optional<std::string> kept_text(const Evidence& evidence) {
  namespace fs = std::filesystem;
  const fs::path folder = evidence.folder;
  const std::string path = folder / "case.json";
  std::error_code none;
  if (!fs::exists(path, none)) return std::nullopt;
  const Case the_case = case_from_json(nsa::read_file(path, kMostBytes), path);
  const std::vector<std::string>& files = the_case.scenario.training.data.text;
  if (files.size() != 1) return std::nullopt;
  const fs::path named = files.front();
  for (const fs::path& at : {named, folder.parent_path() / "texts" / named.filename()}) {
    if (fs::is_regular_file(at, none)) return nsa::read_file(at, kMostBytes);
  }
  return std::nullopt;
}

oracles::Text bytes_of_text(const std::string& text) {
  return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

bool DrawnTokens::repeat_one_token(int rank, std::int64_t step) {
  return repeat(rank, step, 1, [](std::int64_t length) { return length; });
}

bool DrawnTokens::repeat_one_window(int rank, std::int64_t step) {
  const nsa::ModelConfig& model = evidence_.the_case.scenario.model;
  return repeat(rank, step, model.d, [&](std::int64_t length) {
    const std::int64_t windows = model.compressed_len(length);
    return windows <= 1 ? 0 : (windows - 1) * model.d + model.l;
  });
}

bool DrawnTokens::repeat(int rank, std::int64_t step, std::int64_t period, const Extent& seen) {
  const oracles::DataConfig config = data_of(evidence_.the_case.scenario);
  if (config.source == oracles::Source::text && !looked_) {
    text_ = kept_text(evidence_);
    looked_ = true;
  }
  if (config.source == oracles::Source::text && !text_) return false;
  const oracles::Text text = text_ ? bytes_of_text(*text_) : oracles::Text{};
  try {
    for (std::int64_t micro = 0; micro < config.accumulate; ++micro) {
      const oracles::BatchPlace place{step, micro, rank};
      const oracles::IntTensor tokens = oracles::batch_tokens(config, place, text);
      for (const ScoredPiece& piece : scored_pieces(config, place)) {
        const auto begin = tokens.data.begin() + piece.row * tokens.shape.back() + piece.begin;
        const std::int64_t count = seen(piece.length);
        if (count > period && !std::equal(begin + period, begin + count, begin)) return false;
      }
    }
  } catch (const std::invalid_argument&) {
    return false;  // no run of this case: others say so
  }
  return true;
}

}  // namespace harness::checks
