// Were as many keys read as the equations say? For every token decoded alone, in every layer and branch, summed over batch and
// groups: the compressed tokens it can see, the tokens up to it in the blocks that it chose, the window. Numbers that another
// number of tokens held explains, or another position, say so (the parts "cache" and "position").
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/checks/attention/decode/decode_record.h"
#include "harness/checks/attention/record/layer_record.h"
#include "harness/checks/list.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"
#include "oracles/attention/keys.h"

namespace harness::checks {
namespace {

struct Wrong {
  std::set<int> layers;
  std::set<int> layers_at_end;  // at the last position
  std::int64_t position = 0;    // the first
  std::int64_t found = 0;
  std::int64_t wanted = 0;
  std::int64_t count = 0;
  bool of_cache = false;    // in the first of them: what later ones read is made of its results
  bool of_position = true;  // in all of them
};

constexpr std::array<const char*, 3> kBranches = {"cmp", "sel", "win"};

// How many keys there are to read in one layer, summed over its lists.
class Layer {
 public:
  Layer(const oracles::AttentionConfig& config,
        std::vector<std::int64_t> blocks,
        std::int64_t lists,
        std::int64_t rows,
        std::int64_t length)
      : config_(config), blocks_(std::move(blocks)), lists_(lists), rows_(rows), length_(length) {}

  // Of the blocks of this row, for position t.
  [[nodiscard]] std::int64_t wanted(std::string_view branch,
                                    std::int64_t row,
                                    std::int64_t t) const {
    if (branch == "win") return lists_ * oracles::key_count(oracles::window_tokens(config_, t));
    if (branch == "cmp") {
      return lists_ * oracles::key_count(oracles::visible_compressed(
                          config_, t, config_.compressed_count(length_)));
    }
    std::int64_t tokens = 0;
    for (std::int64_t list = 0; list < lists_; ++list) {
      const std::int64_t* begin = blocks_.data() + (list * rows_ + row) * config_.n_sel;
      tokens += oracles::key_count(
          oracles::selected_tokens(config_, t, {begin, static_cast<std::size_t>(config_.n_sel)}));
    }
    return tokens;
  }

  // By the tokens that the branch holds at the end; -1 where it is not on record.
  [[nodiscard]] std::int64_t held(std::string_view branch, const nsa::SafetensorsFile& file) const {
    const std::string tensor = branch == "cmp" ? "k_cmp" : "held_k_" + std::string(branch);
    if (!file.contains(tensor) || file.at(tensor).shape.size() < 2) return -1;
    const auto& shape = file.at(tensor).shape;
    const std::int64_t tokens = shape[shape.size() - 2];
    return branch == "sel" ? wanted(branch, rows_ - 1, tokens - 1) : lists_ * tokens;
  }

 private:
  const oracles::AttentionConfig& config_;
  std::vector<std::int64_t> blocks_;
  std::int64_t lists_;
  std::int64_t rows_;
  std::int64_t length_;
};

class ReadsJudge {
 public:
  explicit ReadsJudge(const Evidence& evidence)
      : evidence_(evidence), config_(oracle_config(evidence.the_case.scenario.model)) {
    for (const auto& row : evidence.reads) {
      if (row.process == 0) rows_.put({row.row.layer, row.row.step, row.row.branch}, row);
    }
  }

  CheckResult judge() {
    if (const auto prompt = prompt_length(evidence_, result_)) {
      for (int layer = 0; layer < evidence_.the_case.scenario.model.n_layers; ++layer) {
        judge_layer(layer, *prompt);
      }
      for (const auto& [branch, wrong] : wrong_) result_.found(finding(branch, wrong));
      result_.measured("read_counters", static_cast<double>(judged_));
    }
    return result_.finish(counted(judged_, "read counter") +
                          " say what the visible keys of every decoded token come to");
  }

 private:
  void judge_layer(int layer, std::int64_t prompt) {
    const nsa::TrainingConfig& training = evidence_.the_case.scenario.training;
    const std::int64_t k = training.seq_len - prompt;
    const auto file = open_decoded(evidence_, kSteps, layer, result_);
    if (!file) return;
    const std::vector<std::int64_t> shape = {
        training.batch_size, config_.n_kv_groups, k, config_.n_sel};
    if (!has_shape(*file, "blocks", shape, result_)) return;
    std::vector<std::int64_t> blocks;
    try {
      blocks = nsa::to_int64s(file->at("blocks"));
    } catch (const nsa::Error& error) {
      result_.missing(std::string("blocks: ") + error.what());
      return;
    }
    const std::int64_t lists = training.batch_size * config_.n_kv_groups;
    const Layer at(config_, std::move(blocks), lists, k, training.seq_len);
    for (std::int64_t t = prompt; t < training.seq_len; ++t) {
      for (const char* branch : kBranches)
        judge_one(layer, t, branch, at.wanted(branch, t - prompt, t));
    }
    for (const char* branch : kBranches) {
      if (wrong_.count(branch) == 0 || wrong_.at(branch).layers.count(layer) == 0) continue;
      Wrong& wrong = wrong_.at(branch);
      // -1: not on record, which is already missing.
      const auto found = [&](std::int64_t t) -> std::int64_t {
        const Reads* row = rows_.find({layer, t, branch});
        return row == nullptr ? -1 : row->tokens;
      };
      if (layer == *wrong.layers.begin()) {
        wrong.of_cache = wrong.layers_at_end.count(layer) > 0 &&
                         found(training.seq_len - 1) == at.held(branch, *file);
      }
      wrong.of_position = wrong.of_position && read_elsewhere(at, branch, prompt, found);
    }
  }

  // Is what was read everywhere that of one other position, or of a position so many tokens further?
  template <typename Found>
  [[nodiscard]] bool read_elsewhere(const Layer& at,
                                    const char* branch,
                                    std::int64_t prompt,
                                    Found found) const {
    const std::int64_t length = evidence_.the_case.scenario.training.seq_len;
    const auto all = [&](auto position) {
      for (std::int64_t t = prompt; t < length; ++t) {
        if (found(t) <= 0 || found(t) != at.wanted(branch, t - prompt, position(t))) return false;
      }
      return true;
    };
    for (std::int64_t other = 0; other < length; ++other) {
      if (all([&](std::int64_t) { return other; })) return true;
      if (all([&](std::int64_t t) { return t + other; })) return true;
      if (all([&](std::int64_t t) { return std::max<std::int64_t>(0, t - other); })) return true;
    }
    return false;
  }

  void judge_one(int layer, std::int64_t t, const std::string& branch, std::int64_t wanted) {
    const Reads* row = rows_.find({layer, t, branch});
    if (row == nullptr) {
      result_.missing("reads of branch " + branch + " in layer " + std::to_string(layer) +
                      ", position " + std::to_string(t) + ended_early(evidence_, 0));
      return;
    }
    ++judged_;
    if (row->tokens == wanted) return;
    Wrong& wrong = wrong_[branch];
    wrong.layers.insert(layer);
    if (t + 1 == evidence_.the_case.scenario.training.seq_len) wrong.layers_at_end.insert(layer);
    if (wrong.count == 0 || t < wrong.position) {
      wrong.position = t;
      wrong.found = row->tokens;
      wrong.wanted = wanted;
    }
    ++wrong.count;
  }

  [[nodiscard]] static Finding finding(const std::string& branch, const Wrong& wrong) {
    Finding finding = make_finding("READS.MISMATCH", "count");
    finding.site.layers = to_ints(wrong.layers);
    finding.site.ranks = {0};
    finding.site.branch = branch;
    finding.site.rows = {static_cast<int>(wrong.position)};
    finding.site.detail["counter"] = branch;
    finding.site.detail["found"] = wrong.found;
    finding.site.detail["wanted"] = wrong.wanted;
    finding.facts = {{"position", wrong.position}, {"wrong", wrong.count}};
    std::vector<std::string> parts;
    if (wrong.of_cache) {
      parts.emplace_back("cache");
      finding.facts["held"] = "as many";
    }
    if (wrong.of_position) {
      parts.emplace_back("position");
      finding.facts["elsewhere"] = "another position";
    }
    if (!parts.empty()) finding.site.detail["parts"] = parts;
    return finding;
  }

  const Evidence& evidence_;
  oracles::AttentionConfig config_;
  Latest<std::tuple<int, std::int64_t, std::string>, Reads> rows_;
  std::map<std::string, Wrong> wrong_;
  std::int64_t judged_ = 0;
  ResultBuilder result_;
};

}  // namespace

Check reads_count() {
  return {"reads_count",
          "every decoded token read as many keys of each branch as it may see",
          {"READS.MISMATCH"},
          [](const Evidence& evidence) { return ReadsJudge(evidence).judge(); }};
}

}  // namespace harness::checks
