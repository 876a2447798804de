#include "harness/golden/golden_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/strict_json.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

using nsa::DType;
using nsa::Error;
using nsa::Location;

// Parameters, gradients and logits of a model of 78 M parameters in float64 are 1.3 GB.
constexpr std::int64_t kMaxFileBytes = std::int64_t{4} << 30;
constexpr std::int64_t kMaxTokens = std::int64_t{1}
                                    << 24;  // of a sequence; the configuration's laws have the same

constexpr std::array<std::string_view, 13> kAttentionResults = {"q",
                                                                "k_cmp",
                                                                "v_cmp",
                                                                "p_grp",
                                                                "blocks",
                                                                "o_cmp",
                                                                "o_sel",
                                                                "o_win",
                                                                "gate",
                                                                "y",
                                                                "y_cmp",
                                                                "y_sel",
                                                                "y_win"};
constexpr std::array<std::string_view, 2> kLmResults = {"loss", "logits"};
constexpr std::array<std::string_view, 3> kTrainResults = {"loss", "grad_norm", "lr"};

bool is_float(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

bool is_parameter_name(std::string_view name) {
  return name.ends_with(".weight") || name.ends_with(".bias") || name.ends_with(".pe");
}

template <typename List>
bool holds(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

GoldenFile::GoldenFile(const std::string& path)
    : path_(path), content_(nsa::read_file(path, kMaxFileBytes)) {
  index_ = nsa::parse_safetensors(std::as_bytes(std::span(content_)), path_);
  read_metadata();
  read_names();
  read_sizes();
  require_inputs();
}

void GoldenFile::read_metadata() {
  const auto entry = [&](const char* key) -> const std::string& {
    const auto found = index_.metadata.find(key);
    if (found == index_.metadata.end()) {
      throw Error(Location{path_}, std::string("metadata: found no entry '") + key + "'");
    }
    return found->second;
  };
  level_ = golden_level_named(entry("level"), path_ + ": metadata");
  config_ = parse_golden_config(entry("config"), level_, path_ + ": metadata");
}

const std::string& GoldenFile::weight_prefix() const {
  static const std::array<std::string, 3> prefixes = {"w.", "p.", "p0."};
  return prefixes.at(static_cast<std::size_t>(level_));
}

// The README's name: prefixes that only tell inputs apart may be missing.
std::string GoldenFile::canonical(const std::string& name) const {
  if (!is_parameter_name(name)) return name;
  const std::string& prefix = weight_prefix();
  if (name.starts_with(prefix) || name.starts_with("p1.")) return name;
  if (!name.starts_with("g.")) return prefix + name;
  const std::string rest = name.substr(2);
  return rest.starts_with(prefix) ? name : "g." + prefix + rest;
}

bool GoldenFile::is_result(const std::string& name) const {
  const bool gradient = name.starts_with("g." + weight_prefix());
  switch (level_) {
    case GoldenLevel::attention: return holds(kAttentionResults, name) || gradient || name == "g.x";
    case GoldenLevel::lm: return holds(kLmResults, name) || gradient;
    default: return holds(kTrainResults, name) || name.starts_with("p1.");
  }
}

void GoldenFile::add(const std::string& name, const nsa::TensorView& view) {
  const bool whole = name == "tokens" || name == "blocks";
  const bool right =
      whole ? view.dtype == DType::i64 || view.dtype == DType::i32 : is_float(view.dtype);
  if (!right) {
    throw Error(Location{view.where},
                "found " + std::string(nsa::dtype_name(view.dtype)) + ", wanted " +
                    (whole ? "I64 or I32" : "F64, F32, BF16 or F16"));
  }
  if (!tensors_.emplace(name, &view).second) {
    throw Error(Location{view.where},
                "found it with and without its prefix '" + weight_prefix() + "'");
  }
}

void GoldenFile::read_names() {
  const bool attention = level_ == GoldenLevel::attention;
  for (const auto& [given, view] : index_.tensors) {
    const std::string name = canonical(given);
    const bool input = attention ? name == "x" || name == "dy" : name == "tokens";
    if (input || is_result(name) || name.starts_with(weight_prefix())) {
      add(name, view);
    } else {
      unknown_.push_back(given);
    }
  }
  if (results().empty()) {
    throw Error(
        Location{path_},
        std::string("found no result to compare with, wanted at least one tensor of level ") +
            name_of(level_) + (attention ? ", such as y" : ", such as loss"));
  }
}

void GoldenFile::read_sizes() {
  const nsa::TensorView& input = at(level_ == GoldenLevel::attention ? "x" : "tokens");
  std::vector<std::int64_t> shape = input.shape;
  const char* wanted = level_ == GoldenLevel::attention ? "[B,S,dim]"
                       : level_ == GoldenLevel::lm      ? "[B,S]"
                                                        : "[steps,B,S]";
  const std::size_t rank = level_ == GoldenLevel::lm ? 2 : 3;
  const bool fits =
      shape.size() == rank && std::all_of(shape.begin(), shape.end(), [](std::int64_t size) {
        return size >= 1 && size <= kMaxTokens;
      });
  if (!fits || (level_ == GoldenLevel::attention && shape.back() != config_.model.dim)) {
    throw Error(Location{input.where},
                "found shape " + nsa::shape_text(shape) + ", wanted " + wanted + " with dim " +
                    std::to_string(config_.model.dim) + " and no size 0");
  }
  if (level_ == GoldenLevel::train) {
    steps_ = shape.front();
    shape.erase(shape.begin());
  }
  batch_ = shape[0];
  length_ = shape[1];
  if (level_ != GoldenLevel::attention && length_ < 2) {
    throw Error(Location{input.where},
                "found sequences of 1 token, wanted 2 or more: the last predicts nothing");
  }
  if (level_ == GoldenLevel::train && steps_ > config_.train->total) {
    throw Error(Location{input.where},
                "found " + std::to_string(steps_) +
                    " steps, wanted at most train.total = " + std::to_string(config_.train->total));
  }
}

void GoldenFile::require_inputs() const {
  for (const std::string& name : weights()) (void)finite_doubles(weight_prefix() + name);
  if (level_ == GoldenLevel::attention) {
    (void)finite_doubles("x");
    const bool gradients = std::any_of(tensors_.begin(), tensors_.end(), [](const auto& entry) {
      return entry.first.starts_with("g.");
    });
    if (gradients && !has("dy")) {
      throw Error(Location{path_},
                  "found gradients (g.*), but no tensor 'dy' that they are the gradients of");
    }
    if (!has("dy")) return;
    require_shape("dy", at("x").shape);
    (void)finite_doubles("dy");
    return;
  }
  const std::vector<std::int64_t> tokens = integers("tokens");
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < config_.model.vocab_size) continue;
    throw Error(
        Location{at("tokens").where},
        "element " + place_text(at("tokens").shape, i) + ": found " + std::to_string(tokens[i]) +
            ", wanted 0 to vocab_size - 1 = " + std::to_string(config_.model.vocab_size - 1));
  }
}

std::vector<std::string> GoldenFile::weights() const {
  std::vector<std::string> names;
  for (const auto& [name, view] : tensors_) {
    if (name.starts_with(weight_prefix())) names.push_back(name.substr(weight_prefix().size()));
  }
  return names;
}

std::vector<std::string> GoldenFile::results() const {
  std::vector<std::string> names;
  for (const auto& [name, view] : tensors_) {
    if (is_result(name)) names.push_back(name);
  }
  return names;
}

const nsa::TensorView& GoldenFile::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw Error(Location{path_},
                "found no tensor '" + name + "', which level " + name_of(level_) + " needs");
  }
  return *found->second;
}

void GoldenFile::require_shape(const std::string& name,
                               const std::vector<std::int64_t>& shape) const {
  const nsa::TensorView& view = at(name);
  if (view.shape != shape) {
    throw Error(
        Location{view.where},
        "found shape " + nsa::shape_text(view.shape) + ", wanted " + nsa::shape_text(shape));
  }
}

std::vector<double> GoldenFile::doubles(const std::string& name) const {
  return nsa::to_doubles(at(name));
}

std::vector<std::int64_t> GoldenFile::integers(const std::string& name) const {
  return nsa::to_int64s(at(name));
}

std::vector<double> GoldenFile::finite_doubles(const std::string& name) const {
  std::vector<double> values = doubles(name);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    throw Error(Location{at(name).where},
                "element " + place_text(at(name).shape, i) + ": found " + nsa::to_text(values[i]) +
                    ", wanted a finite number");
  }
  return values;
}

namespace {

// Of one row: why it is no list of blocks for a query at `t`, "" if it is one.
std::string unusable_row(const std::int64_t* row, std::int64_t n, std::int64_t last) {
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t before = k == 0 ? -1 : row[k - 1];
    if (row[k] == -1) continue;
    if (row[k] < -1 || row[k] > last) {
      return "found block " + std::to_string(row[k]) +
             ", wanted -1 or a block from 0 to the query's own, " + std::to_string(last);
    }
    if (before == -1 && k > 0) {
      return "found block " + std::to_string(row[k]) + " after -1, wanted -1 only at the end";
    }
    if (k > 0 && row[k] <= before) {
      return "found block " + std::to_string(row[k]) + " after " + std::to_string(before) +
             ", wanted blocks ascending, each once";
    }
  }
  return "";
}

}  // namespace

std::string unusable_blocks(const nsa::ModelConfig& config,
                            std::int64_t length,
                            const std::vector<std::int64_t>& blocks) {
  const std::int64_t rows = static_cast<std::int64_t>(blocks.size()) / config.n_sel;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t t = row % length;
    const std::string why = unusable_row(
        &blocks[static_cast<std::size_t>(row * config.n_sel)], config.n_sel, t / config.l_sel);
    if (why.empty()) continue;
    const std::int64_t list = row / length;
    return "batch " + std::to_string(list / config.n_kv_groups) + ", group " +
           std::to_string(list % config.n_kv_groups) + ", query " + std::to_string(t) + ": " + why;
  }
  return "";
}

std::string place_text(const std::vector<std::int64_t>& shape, std::size_t index) {
  std::vector<std::int64_t> place(shape.size());
  auto rest = static_cast<std::int64_t>(index);
  for (std::size_t i = shape.size(); i-- > 0;) {
    const std::int64_t size = std::max<std::int64_t>(shape[i], 1);
    place[i] = rest % size;
    rest /= size;
  }
  return nsa::shape_text(place);
}

}  // namespace harness
