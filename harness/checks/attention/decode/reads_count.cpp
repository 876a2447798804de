// Were as many keys read as the equations say? For every token decoded alone, in every layer and branch, summed over batch and
// groups: the compressed tokens it can see, the tokens up to it in the blocks that it chose, the window.
#include <algorithm>
#include <tuple>

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
  std::int64_t position = 0;  // the first
  std::int64_t found = 0;
  std::int64_t wanted = 0;
  std::int64_t count = 0;
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
    for (std::int64_t t = prompt; t < training.seq_len; ++t) {
      const std::int64_t compressed = oracles::key_count(
          oracles::visible_compressed(config_, t, config_.compressed_count(training.seq_len)));
      std::int64_t selected = 0;
      for (std::int64_t list = 0; list < lists; ++list) {
        const std::int64_t* begin = blocks.data() + (list * k + t - prompt) * config_.n_sel;
        selected += oracles::key_count(
            oracles::selected_tokens(config_, t, {begin, static_cast<std::size_t>(config_.n_sel)}));
      }
      judge_one(layer, t, "cmp", lists * compressed);
      judge_one(layer, t, "sel", selected);
      judge_one(layer, t, "win", lists * oracles::key_count(oracles::window_tokens(config_, t)));
    }
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
