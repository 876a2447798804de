// Rows and files of attention layers. The hashes of scores and gates are taken when a layer has run, and its file is written after
// the backward: what the model writes into its own memory meanwhile makes them differ. So one is called a contradiction only where
// the hash is that of another layer's tensor.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>

#include "harness/judge/audit/relations.h"
#include "nsa/base/text.h"

namespace harness::audit {
namespace {

constexpr const char* kLayerFile = "attention_layer";

struct LayerKey {
  int process = 0;
  std::int64_t step = 0;
  int layer = 0;

  auto operator<=>(const LayerKey&) const = default;
};

std::string text_of(const LayerKey& key) {
  return layer_text(key.process, key.step, key.layer);
}

LayerKey layer_of_file(const FileKey& file) {
  return {file.process, file.step, file.layer};
}

FileKey file_of_layer(const LayerKey& key) {
  return {kLayerFile, key.process, key.step, std::max(key.process, 0), key.layer};
}

// One hash a layer, of ranks: a twin writes no files of layers.
template <typename Row>
std::map<LayerKey, const Row*> rows_of_layers(const Rows<Row>& rows) {
  std::map<LayerKey, const Row*> of_layer;
  for (const auto& [key, from] : newest_by<LayerKey>(rows, [](const auto& one) {
         return LayerKey{one.process, one.row.step, one.row.layer};
       })) {
    if (key.process >= 0) of_layer[key] = &from->row;
  }
  return of_layer;
}

// The hash of a layer's row against the tensors of all layers.
std::string is_of_another_layer(const Record& record,
                                const char* tensor,
                                const char* what,
                                const std::map<LayerKey, std::string>& hashes) {
  if (hashes.empty()) return "";
  std::map<LayerKey, std::string> recorded;
  std::map<std::string, LayerKey> place_of;
  for (const FileKey& key : record.files(kLayerFile)) {
    const auto file = record.open(key);
    const nsa::TensorView* found = file ? file->find(tensor) : nullptr;
    if (found == nullptr) continue;
    std::string& hash = recorded[layer_of_file(key)] = hash_of(*found);
    place_of.try_emplace(hash, layer_of_file(key));
  }
  for (const auto& [key, hash] : hashes) {
    const auto own = recorded.find(key);
    if (own == recorded.end() || own->second == hash) continue;
    const auto other = place_of.find(hash);
    if (other == place_of.end()) continue;
    const auto file = record.open(file_of_layer(key));
    const auto other_file = record.open(file_of_layer(other->second));
    if (!file || !file->is_as_recorded() || !other_file || !other_file->is_as_recorded()) continue;
    return "the hash of the " + std::string(what) + " of " + text_of(key) +
           ", is not that of the tensor in " + file->path() + ", but that of the one in " +
           other_file->path();
  }
  return "";
}

std::int64_t runs_of(const Evidence& evidence, const LayerKey& key, std::string_view seam) {
  std::int64_t runs = 0;
  for (const From<RouteUse>& from : evidence.routes) {
    if (from.process == key.process && from.row.layer == key.layer && from.row.seam == seam) {
      runs += from.row.forward;
    }
  }
  return runs;
}

bool is_packed(const Evidence& evidence) {
  return evidence.the_case.scenario.training.data.packed > 1;
}

// If the selection ran in the layer and documents are not packed, the file holds a copy of the chosen blocks. The copy was made
// before anything could write into them.
bool holds_a_copy_of_blocks(const Evidence& evidence, const LayerKey& key) {
  return !is_packed(evidence) && runs_of(evidence, key, "select") > 0;
}

bool blocks_were_written(const Evidence& evidence, const LayerKey& key) {
  return std::any_of(
      evidence.mutations.begin(), evidence.mutations.end(), [&](const From<Mutation>& from) {
        return from.process == key.process && from.row.step == key.step &&
               from.row.layer == key.layer && from.row.tensor == "blocks";
      });
}

// The layer is the sum of its seams as this tree writes it: after the choice only seams see the blocks, and they are watched.
bool is_plain_layer(const Evidence& evidence, const LayerKey& key) {
  bool ran = false;
  for (const From<RouteUse>& from : evidence.routes) {
    if (from.process != key.process || from.row.layer != key.layer) continue;
    if (from.row.seam != "attention" || from.row.forward == 0) continue;
    if (from.row.effective != "reference") return false;
    ran = true;
  }
  return ran;
}

// Rows for which a complete past block, or their own, was left out: fewer blocks than there are up to the query.
std::int64_t dropped_rows(const nsa::TensorView& blocks_BGSn, std::int64_t l_sel) {
  const std::vector<std::int64_t> blocks = nsa::to_int64s(blocks_BGSn);
  const std::int64_t length = blocks_BGSn.shape[2];
  const std::int64_t width = blocks_BGSn.shape[3];
  const std::int64_t rows = blocks_BGSn.shape[0] * blocks_BGSn.shape[1] * length;
  std::int64_t dropped = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin = blocks.begin() + row * width;
    const auto chosen = std::count_if(begin, begin + width, [](auto block) { return block >= 0; });
    dropped += chosen < row % length / l_sel + 1 ? 1 : 0;
  }
  return dropped;
}

struct GateMeans {
  std::array<double, 3> mean{};
  double spread = 0.0;
};

std::optional<GateMeans> means_of(const nsa::TensorView& gate) {
  const std::vector<double> values = nsa::to_doubles(gate);
  if (values.empty() || values.size() % 3 != 0) return std::nullopt;
  GateMeans means;
  std::array<double, 3> least{INFINITY, INFINITY, INFINITY};
  std::array<double, 3> most{-INFINITY, -INFINITY, -INFINITY};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) return std::nullopt;
    means.mean[i % 3] += values[i];
    least[i % 3] = std::min(least[i % 3], values[i]);
    most[i % 3] = std::max(most[i % 3], values[i]);
  }
  for (std::size_t branch = 0; branch < 3; ++branch) {
    means.mean[branch] /= static_cast<double>(values.size() / 3);
    means.spread = std::max(means.spread, most[branch] - least[branch]);
  }
  return means;
}

bool is_near(double a, double b) {
  constexpr double kOtherOrder = 1e-6;  // of a sum in double
  return std::abs(a - b) <= kOtherOrder * std::max(std::abs(a), std::abs(b)) + kOtherOrder * 1e-3;
}

std::map<std::string, std::string> hashes_named(const RecordedFile& file,
                                                const std::string& prefix) {
  std::map<std::string, std::string> hashes;
  for (const std::string& name : file.within_share()) {
    if (name.starts_with(prefix)) hashes[name.substr(prefix.size())] = hash_of(*file.find(name));
  }
  return hashes;
}

std::string attention_prefix(int layer) {
  return "blocks." + std::to_string(layer) + ".attn.";
}

// Do all of these equal what the step's file has of this layer (or: does none)? `after`: "1" for what it has after the step.
// Nothing where they cannot be compared.
std::optional<bool> all_equal_to(const RecordedFile& step,
                                 int layer,
                                 const std::map<std::string, std::string>& hashes,
                                 bool wanted,
                                 const std::string& after = "") {
  if (hashes.empty()) return std::nullopt;
  for (const auto& [name, hash] : hashes) {
    const std::string param = attention_prefix(layer) + name;
    if (step.header_of("rows." + param) != nullptr) return std::nullopt;
    const bool has_masters = step.header_of("w" + after + "." + param) != nullptr;
    const nsa::TensorView* tensor = step.find((has_masters ? "w" : "p") + after + "." + param);
    if (tensor == nullptr) return std::nullopt;
    if ((hash_of(*tensor) == hash) != wanted) return false;
  }
  return true;
}

}  // namespace

std::string blocks_hash_is_of_tensor(const Record& record) {
  const Evidence& evidence = record.evidence();
  for (const auto& [key, row] : rows_of_layers(evidence.block_choices)) {
    if (!holds_a_copy_of_blocks(evidence, key)) continue;
    const auto file = record.open(file_of_layer(key));
    const nsa::TensorView* blocks = file ? file->find("blocks") : nullptr;
    if (blocks == nullptr || hash_of(*blocks) == row->blocks || !file->is_as_recorded()) continue;
    return "the hash of the blocks of " + text_of(key) + ", is not that of the tensor in " +
           file->path();
  }
  return "";
}

std::string scores_hash_is_of_its_layer(const Record& record) {
  std::map<LayerKey, std::string> hashes;
  for (const auto& [key, row] : rows_of_layers(record.evidence().block_choices)) {
    hashes[key] = row->scores;
  }
  return is_of_another_layer(record, "p_grp", "scores", hashes);
}

std::string gate_hash_is_of_its_layer(const Record& record) {
  std::map<LayerKey, std::string> hashes;
  for (const auto& [key, row] : rows_of_layers(record.evidence().gates)) hashes[key] = row->hash;
  return is_of_another_layer(record, "gate", "gates", hashes);
}

// Hash and means are taken of the same bytes.
std::string gate_means_are_of_tensor(const Record& record) {
  constexpr std::size_t kMostGateBytes = std::size_t{1} << 20;
  for (const auto& [key, row] : rows_of_layers(record.evidence().gates)) {
    const auto file = record.open(file_of_layer(key));
    const nsa::TensorView* gate = file ? file->find("gate") : nullptr;
    if (gate == nullptr || gate->bytes.size() > kMostGateBytes) continue;
    if (hash_of(*gate) != row->hash) continue;
    const auto means = means_of(*gate);
    if (!means) continue;
    const bool holds =
        is_near(row->mean_cmp, means->mean[0]) && is_near(row->mean_sel, means->mean[1]) &&
        is_near(row->mean_win, means->mean[2]) && is_near(row->spread, means->spread);
    if (holds) continue;
    return "the means of the gates of " + text_of(key) + ", are not those of the tensor in " +
           file->path() + ", whose hash the same row has";
  }
  return "";
}

std::string exposure_counts_the_blocks(const Record& record) {
  const Evidence& evidence = record.evidence();
  if (is_packed(evidence)) return "";  // counted document by document
  const std::int64_t l_sel = evidence.the_case.scenario.model.l_sel;
  for (const auto& [key, row] : rows_of_layers(evidence.exposures)) {
    const auto file = record.open(file_of_layer(key));
    const nsa::TensorView* blocks = file ? file->header_of("blocks") : nullptr;
    if (blocks == nullptr || blocks->shape.size() != 4) continue;
    const std::int64_t rows = blocks->shape[0] * blocks->shape[1] * blocks->shape[2];
    std::string found;
    if (row->rows != rows) {
      found = std::to_string(row->rows) + " rows, and the blocks in " + file->path() + " have " +
              std::to_string(rows);
    } else if (file->find("blocks") != nullptr && l_sel > 0 && is_plain_layer(evidence, key) &&
               holds_a_copy_of_blocks(evidence, key) && !blocks_were_written(evidence, key)) {
      const std::int64_t dropped = dropped_rows(*blocks, l_sel);
      if (dropped == row->rows_dropped) continue;
      found = std::to_string(row->rows_dropped) +
              " rows that left a block out, and the blocks in " + file->path() + " have " +
              std::to_string(dropped);
    }
    if (found.empty() || !file->is_as_recorded()) continue;
    return "the exposure of " + text_of(key) + ", counts " + found;
  }
  return "";
}

// Without accumulation both files are written from the same bytes.
std::string layer_gradient_is_of_its_layer(const Record& record) {
  const Scenario& scenario = record.evidence().the_case.scenario;
  if (!scenario.trains() || scenario.training.accumulate != 1) return "";
  for (const FileKey& key : record.files(kLayerFile)) {
    const auto file = record.open(key);
    const auto step = record.open({"local_gradients", key.process, key.step, key.of_rank, -1});
    if (!file || !step) continue;
    for (const auto& [name, hash] : hashes_named(*file, "g.w.")) {
      const nsa::TensorView* tensor = step->find(attention_prefix(key.layer) + name);
      if (tensor == nullptr || hash_of(*tensor) == hash) continue;
      if (!file->is_as_recorded() || !step->is_as_recorded()) break;
      return "the gradient g.w." + name + " in " + file->path() + " is not " +
             attention_prefix(key.layer) + name + " in " + step->path();
    }
  }
  return "";
}

// The model may write to its weights in a step; it never makes all of one layer those that another layer had before it, nor those
// that the optimiser made after it.
std::string layer_weights_are_of_its_layer(const Record& record) {
  const Scenario& scenario = record.evidence().the_case.scenario;
  if (!scenario.trains()) return "";
  const auto layers = static_cast<int>(scenario.model.n_layers);
  for (const FileKey& key : record.files(kLayerFile)) {
    const auto file = record.open(key);
    const auto step = record.open({"optimizer_step", key.process, key.step, key.of_rank, -1});
    if (!file || !step) continue;
    const auto hashes = hashes_named(*file, "w.");
    if (!all_equal_to(*step, key.layer, hashes, false).value_or(false)) continue;
    if (all_equal_to(*step, key.layer, hashes, true, "1").value_or(false) &&
        file->is_as_recorded() && step->is_as_recorded()) {
      return "the weights in " + file->path() + " are those that the layer has after the step in " +
             step->path();
    }
    for (int other = 0; other < layers; ++other) {
      if (other == key.layer || !all_equal_to(*step, other, hashes, true).value_or(false)) continue;
      if (!file->is_as_recorded() || !step->is_as_recorded()) continue;
      return "the weights in " + file->path() + " are those that layer " + std::to_string(other) +
             " has in " + step->path();
    }
  }
  return "";
}

// From one input, another weight makes other queries, and another attention makes another sum. Where no two of the three tensors
// are the same, none of them was copied or is zero.
std::string layers_have_their_own_results(const Record& record) {
  struct Results {
    const char* file;
    std::array<const char*, 3> tensors;
    const char* made_with;  // in the file of the attention
  };
  for (const Results& results : {Results{"decode_steps", {"x", "q", "y"}, "w.W_Q.weight"},
                                 Results{"block_stages", {"x", "middle", "mlp"}, "y"}}) {
    const auto made_with = [&](FileKey key) {
      key.name = kLayerFile;
      const auto file = record.open(key);
      const nsa::TensorView* found = file ? file->find(results.made_with) : nullptr;
      return found == nullptr ? std::string() : hash_of(*found);
    };
    std::map<std::set<std::string>, FileKey> layers;  // by hashes and process
    for (const FileKey& key : record.files(results.file)) {
      const auto file = record.open(key);
      std::set<std::string> own;
      for (const char* tensor : results.tensors) {
        const nsa::TensorView* found = file ? file->find(tensor) : nullptr;
        if (found != nullptr) own.insert(hash_of(*found));
      }
      if (own.size() < results.tensors.size()) continue;
      own.insert(place_text(key.process, key.of_rank, key.step));
      const auto [at, is_new] = layers.try_emplace(std::move(own), key);
      const std::string now = is_new ? "" : made_with(key);
      const std::string then = is_new ? "" : made_with(at->second);
      if (now.empty() || then.empty() || now == then) continue;
      const auto other = record.open(at->second);
      if (!file->is_as_recorded() || !other || !other->is_as_recorded()) continue;
      return "the results in " + file->path() + " are those in " + other->path() + ", and \"" +
             results.made_with + "\" of the two layers differs";
    }
  }
  return "";
}

}  // namespace harness::audit
