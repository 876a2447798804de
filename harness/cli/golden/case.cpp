#include "harness/cli/golden/case.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

#include "harness/checks/attention/record/layer_record.h"
#include "harness/cli/golden/names.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"
#include "oracles/attention/stages.h"

namespace harness::cli::golden {
namespace {

using nsa::Error;
using nsa::Location;
using oracles::Shape;
using Shapes = std::vector<std::pair<std::string, Shape>>;

// Doubles that the results of a file, and the probabilities on the way to them, may have: 4 GiB. A small file can ask for
// any amount of work, since scores grow with the square of the length.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 29;
// Pairs of a query and a key that it sees: some minutes of the oracle, a thousand times those of m7c_125m at length 2048.
constexpr std::int64_t kMaxPairs = std::int64_t{1} << 36;

// The backward of a layer, from its output to its input.
constexpr std::array<std::string_view, 12> kBackwardOrder = {"out.",
                                                             "gate.fc2",
                                                             "gate.",
                                                             "W_V_win",
                                                             "W_V_sel",
                                                             "phi_v",
                                                             "W_V_cmp",
                                                             "W_K_win",
                                                             "W_K_sel",
                                                             "phi_k",
                                                             "W_K_cmp",
                                                             "W_Q"};

std::int64_t place_in_layer(std::string_view name) {
  const auto at = std::find_if(kBackwardOrder.begin(),
                               kBackwardOrder.end(),
                               [&](std::string_view part) { return name.starts_with(part); });
  return at - kBackwardOrder.begin();
}

// Sorts parameters of the language model from its head to its embedding.
std::tuple<std::int64_t, std::int64_t, std::int64_t> backward_place(const std::string& name) {
  constexpr std::string_view kBlocks = "blocks.";
  if (name.starts_with("lm_head")) return {0, 0, 0};
  if (name.starts_with("norm_f")) return {1, 0, 0};
  if (!name.starts_with(kBlocks)) return {3, 0, 0};  // embed
  const std::size_t dot = name.find('.', kBlocks.size());
  const std::string part = name.substr(dot + 1);
  const std::int64_t block =
      nsa::parse_int(name.substr(kBlocks.size(), dot - kBlocks.size())).value_or(0);
  const auto in_block = [&]() -> std::int64_t {
    if (part.starts_with("mlp.fc2")) return 0;
    if (part.starts_with("mlp.fc1")) return 1;
    if (part.starts_with("norm2")) return 2;
    if (!part.starts_with("attn.")) return 100;  // norm1, after all of the attention
    return 3 + place_in_layer(part.substr(std::string_view("attn.").size()));
  };
  return {2, -block, in_block()};
}

template <typename Place>
void add_in_order(const std::map<std::string, Shape>& weights,
                  const std::string& prefix,
                  Place place,
                  Shapes& shapes) {
  std::vector<std::pair<std::string, Shape>> sorted(weights.begin(), weights.end());
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) {
    return place(a.first) < place(b.first);
  });
  for (auto& [name, shape] : sorted) shapes.emplace_back(prefix + name, std::move(shape));
}

Shapes attention_results(const Case& c) {
  const oracles::AttentionConfig& a = c.attention();
  const oracles::Sizes sizes{c.batch, c.length, c.length, a.n_kv_groups, a.heads_per_group()};
  Shapes shapes;
  for (const oracles::StageRow& row : oracles::kStageTable) {
    const bool is_result = row.rows != oracles::RowsOf::tokens && row.stage != oracles::Stage::y;
    if (is_result) shapes.emplace_back(row.tensor, shape_of(row.stage, a, sizes));
  }
  const Shape of_tokens = {c.batch, c.length, a.dim};
  for (const char* name : {"y", "y_cmp", "y_sel", "y_win"}) shapes.emplace_back(name, of_tokens);
  add_in_order(oracles::weight_shapes(a), "g.w.", place_in_layer, shapes);
  shapes.emplace_back("g.x", of_tokens);
  return shapes;
}

Shapes lm_results(const Case& c) {
  Shapes shapes = {{"logits", {c.batch, c.length, c.lm.vocab_size}}, {"loss", {}}};
  add_in_order(oracles::parameter_shapes(c.lm), "g.p.", backward_place, shapes);
  return shapes;
}

Shapes train_results(const Case& c) {
  Shapes shapes = {{"loss", {c.steps}}, {"grad_norm", {c.steps}}, {"lr", {c.steps}}};
  add_in_order(oracles::parameter_shapes(c.lm), "p1.", backward_place, shapes);
  return shapes;
}

// Their product, or nothing where it does not fit.
std::optional<std::int64_t> product(const std::vector<std::int64_t>& factors) {
  std::int64_t result = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(result, factor, &result)) return std::nullopt;
  }
  return result;
}

void require_bounded(const Case& c) {
  const oracles::AttentionConfig& a = c.attention();
  std::vector<Shape> shapes = {
      {c.batch, a.n_heads, c.length, std::max<std::int64_t>(1, a.compressed_count(c.length))},
      {c.batch, a.n_kv_groups, c.length, a.block_count(c.length)},
      {c.batch, c.length, c.lm.mlp_ratio * a.dim},
      {c.batch, c.length, c.lm.vocab_size}};
  for (const auto& [name, shape] : all_results(c)) shapes.push_back(shape);
  const std::int64_t keys = std::min(c.length, std::max(a.w, a.n_sel * a.l_sel));
  const auto pairs = product({c.steps, c.lm.n_layers, c.batch, a.n_heads, c.length, keys});
  if (!pairs || *pairs > kMaxPairs) {
    throw Error(Location{c.path},
                "found a length of " + std::to_string(c.length) + " and a window or blocks of " +
                    std::to_string(keys) + " tokens, wanted at most " + std::to_string(kMaxPairs) +
                    " pairs of query and key in all");
  }
  std::int64_t sum = 0;
  for (const Shape& shape : shapes) {
    const auto count = product(shape);
    if (count && *count <= kMaxElements && (sum += *count) <= kMaxElements) continue;
    throw Error(Location{c.path},
                "found batch " + std::to_string(c.batch) + ", length " + std::to_string(c.length) +
                    " and a configuration whose results are more than " +
                    std::to_string(kMaxElements) + " numbers, wanted at most that many");
  }
}

void read_config(const GoldenFile& file, Case& c) {
  c.path = file.path();
  c.level = file.level();
  c.config = file.config();
  c.batch = file.batch();
  c.length = file.length();
  c.steps = file.steps();
  const nsa::ModelConfig& model = c.config.model;
  c.lm = {checks::oracle_config(model), model.n_layers, model.vocab_size, model.mlp_ratio};
  if (!c.config.train) return;
  const nsa::OptimizerConfig& t = *c.config.train;
  c.train = {t.lr, t.beta1, t.beta2, t.eps, t.weight_decay, t.max_norm, t.warmup, t.total};
}

void read_weights(const GoldenFile& file, Case& c) {
  const auto shapes = c.level == GoldenLevel::attention ? oracles::weight_shapes(c.attention())
                                                        : oracles::parameter_shapes(c.lm);
  require_names(file, c, shapes);
  for (const auto& [name, shape] : shapes) {
    const std::string full = file.weight_prefix() + name;
    file.require_shape(full, shape);
    c.weights[name] = {shape, file.doubles(full)};
  }
}

void read_inputs(const GoldenFile& file, Case& c) {
  if (c.level != GoldenLevel::attention) {
    c.tokens = {file.at("tokens").shape, file.integers("tokens")};
    return;
  }
  c.x = {file.at("x").shape, file.doubles("x")};
  if (file.has("dy")) c.dy = oracles::Tensor{file.at("dy").shape, file.doubles("dy")};
}

struct DTypeRow {
  nsa::DType dtype;
  oracles::Arithmetic (*arithmetic)();
};
constexpr std::array kFromNarrowest = {DTypeRow{nsa::DType::bf16, oracles::Arithmetic::bfloat16},
                                       DTypeRow{nsa::DType::f16, oracles::Arithmetic::float16},
                                       DTypeRow{nsa::DType::f32, oracles::Arithmetic::float32},
                                       DTypeRow{nsa::DType::f64, oracles::Arithmetic::float64}};

const DTypeRow& row_of(nsa::DType dtype) {
  const auto* const at = std::find_if(kFromNarrowest.begin(),
                                      kFromNarrowest.end(),
                                      [&](const DTypeRow& row) { return row.dtype == dtype; });
  return at == kFromNarrowest.end() ? kFromNarrowest.back() : *at;  // integers are exact
}

bool is_narrower(nsa::DType a, nsa::DType b) {
  return &row_of(a) < &row_of(b);
}

void read_dtypes(const GoldenFile& file, Case& c) {
  for (const std::string& name : c.results) {
    c.stored[name] = file.at(name).dtype;
    const auto found = c.found.find(name);
    const bool is_empty = found != c.found.end() && found->second.data.empty();
    if (!is_empty && is_narrower(c.stored[name], c.dtype)) c.dtype = c.stored[name];
  }
  c.arithmetic = row_of(c.dtype).arithmetic();
}

// By the formulas: a gradient is made of everything forward, and of no other gradient.
bool is_made_of(const std::string& result, const std::string& other) {
  static const std::map<std::string, std::string> kOfModel = {
      {"logits", ""}, {"loss", "logits"}, {"grad_norm", "loss"}, {"lr", ""}};
  if (const auto at = kOfModel.find(result); at != kOfModel.end()) return other == at->second;
  // "y_sel" is the output with one branch alone.
  const bool is_alone = result.starts_with("y_");
  const auto stage = oracles::stage_named(is_alone ? "o" + result.substr(1) : result);
  if (!stage) return !other.starts_with("g.") && !other.starts_with("p1.");
  const auto of = oracles::stage_named(other);
  return of && (oracles::all_before(*stage).holds(*of) || (is_alone && of == stage));
}

void read_results(const GoldenFile& file, Case& c) {
  for (const auto& [name, shape] : all_results(c)) {
    if (!file.has(name)) continue;
    file.require_shape(name, shape);
    c.results.push_back(name);
    if (name == "blocks") {
      c.blocks = oracles::IntTensor{shape, file.integers(name)};
      c.unusable = unusable_blocks(c.config.model, c.length, c.blocks->data);
    } else {
      c.found[name] = {shape, file.doubles(name)};
    }
  }
  c.not_judged = file.unknown();
  for (const std::string& name : file.results()) {
    if (std::find(c.results.begin(), c.results.end(), name) == c.results.end()) {
      c.not_judged.push_back(name);
    }
  }
  if (c.results.empty()) {
    throw Error(Location{c.path}, "found no result that this configuration has");
  }
}

}  // namespace

nsa::DType type_of(const Case& c, const std::string& result) {
  nsa::DType narrowest = nsa::DType::f64;
  for (const auto& [other, dtype] : c.stored) {
    if (other != result && !is_made_of(result, other)) continue;
    const auto found = c.found.find(other);
    const bool is_empty = found != c.found.end() && found->second.data.empty();
    if (!is_empty && is_narrower(dtype, narrowest)) narrowest = dtype;
  }
  return narrowest;
}

Shapes all_results(const Case& c) {
  switch (c.level) {
    case GoldenLevel::attention: return attention_results(c);
    case GoldenLevel::lm: return lm_results(c);
    default: return train_results(c);
  }
}

Case read_case(const std::string& path) {
  const GoldenFile file(path);
  Case c;
  read_config(file, c);
  require_bounded(c);
  read_weights(file, c);
  read_inputs(file, c);
  read_results(file, c);
  read_dtypes(file, c);
  return c;
}

}  // namespace harness::cli::golden
