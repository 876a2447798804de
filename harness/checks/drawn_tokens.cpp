#include "harness/checks/drawn_tokens.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "harness/checks/data_of.h"
#include "harness/scenario/case.h"
#include "nsa/base/file.h"
#include "oracles/attention/documents.h"
#include "oracles/training/document_lengths.h"

namespace harness::checks {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;  // no larger text is kept

// Each document, without its last token, which predicts nothing and which none of its own sees.
bool documents_repeat_one(const oracles::IntTensor& tokens,
                          const oracles::DocumentLengths& lengths) {
  const std::int64_t width = tokens.shape.back();
  for (const oracles::DocumentPlace& at : oracles::document_places(lengths)) {
    const auto begin = tokens.data.begin() + at.row * width + at.begin;
    const auto same = [&](std::int64_t token) { return token == *begin; };
    if (!std::all_of(begin, begin + at.length - 1, same)) return false;
  }
  return true;
}

bool repeats_one(const oracles::IntTensor& tokens, std::int64_t length) {
  const auto width = static_cast<std::size_t>(tokens.shape.back());
  for (std::size_t row = 0; row + width <= tokens.data.size(); row += width) {
    const auto begin = tokens.data.begin() + static_cast<std::ptrdiff_t>(row);
    const auto same = [&](std::int64_t token) { return token == *begin; };
    if (!std::all_of(begin, begin + length, same)) return false;
  }
  return true;
}

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

std::int64_t DrawnTokens::most_in_one_piece(int rank, std::int64_t step) const {
  const oracles::DataConfig config = data_of(evidence_.the_case.scenario);
  if (config.documents == 1) return config.seq_len - 1;
  std::int64_t most = 0;
  for (std::int64_t micro = 0; micro < config.accumulate; ++micro) {
    for (const auto& sequence : oracles::document_lengths(config, {step, micro, rank})) {
      for (const std::int64_t length : sequence) most = std::max(most, length - 1);
    }
  }
  return most;
}

bool DrawnTokens::repeat_one_token(int rank, std::int64_t step) {
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
      const bool repeats =
          config.documents > 1
              ? documents_repeat_one(tokens, oracles::document_lengths(config, place))
              : repeats_one(tokens, config.seq_len - 1);
      if (!repeats) return false;
    }
  } catch (const std::invalid_argument&) {
    return false;  // no run of this case: others say so
  }
  return true;
}

}  // namespace harness::checks
