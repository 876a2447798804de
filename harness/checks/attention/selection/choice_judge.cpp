#include "harness/checks/attention/selection/choice_judge.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "harness/checks/attention/accuracy/law_codes.h"
#include "harness/checks/largest.h"
#include "oracles/attention/selection.h"
#include "oracles/laws/match.h"

namespace harness::checks {
namespace {

bool all_finite(const oracles::Tensor& tensor) {
  return std::all_of(
      tensor.data.begin(), tensor.data.end(), [](double value) { return std::isfinite(value); });
}

class ChoiceJudge {
 public:
  explicit ChoiceJudge(const LayerRecord& record)
      : record_(record), blocks_(record.config.block_count(record.length)) {}

  ChoiceJudgement judge() {
    verdict_.rows = record_.lists() * record_.length;
    const UnusableRows unusable = unusable_rows(record_);
    skip_.insert(unusable.out_of_range.begin(), unusable.out_of_range.end());
    skip_.insert(unusable.malformed.begin(), unusable.malformed.end());
    if (!unusable.out_of_range.empty()) add("RANGE.INVALID", Of::blocks, unusable.out_of_range);
    if (record_.given.count("p_grp") == 0) judge_scores();
    judge_choices(unusable.malformed);
    return std::move(verdict_);
  }

 private:
  enum class Of { scores, blocks };

  Departure& add(const char* code, Of of, const std::vector<BadRow>& rows) {
    const bool scores = of == Of::scores;
    Departure seen;
    seen.code = code;
    seen.site.op = scores ? "score" : "select";
    seen.tensors = {scores ? "p_grp" : "blocks"};
    put_rows(rows, scores ? record_.lists() * record_.row_count() : verdict_.rows, seen);
    verdict_.departures.push_back(std::move(seen));
    return verdict_.departures.back();
  }

  // visit(query, index among all rows)
  template <typename Visit>
  void for_each_row(const std::vector<std::int64_t>& rows, Visit visit) const {
    for (std::int64_t b = 0; b < record_.batch; ++b) {
      for (std::int64_t g = 0; g < record_.config.n_kv_groups; ++g) {
        const std::int64_t list = b * record_.config.n_kv_groups + g;
        for (const std::int64_t t : rows) visit(BadRow{b, g, t}, list * record_.length + t);
      }
    }
  }

  [[nodiscard]] std::span<const double> recorded(std::int64_t index) const {
    return {record_.at("p_grp").data.data() + index * blocks_, static_cast<std::size_t>(blocks_)};
  }
  [[nodiscard]] std::span<const std::int64_t> taken(std::int64_t index) const {
    const std::int64_t n = record_.config.n_sel;
    return {record_.blocks.data.data() + index * n, static_cast<std::size_t>(n)};
  }

  // ---- scores: at the judged rows ---------------------------------------------------------------

  // Made of the recorded queries and compressed keys, which are judged as tensors: the bound holds
  // what the score itself may lose, and no more.
  void judge_scores() {
    if (!all_finite(record_.at("q")) || !all_finite(record_.at("k_cmp"))) {
      verdict_.missing.emplace_back("scores of queries or compressed keys that are not finite");
      return;
    }
    oracles::ScoreInputs inputs;
    inputs.q = record_.at("q");
    inputs.k_cmp = record_.at("k_cmp");
    inputs.length = record_.length;
    inputs.rows = record_.rows;
    const oracles::BoundedScores scores =
        oracles::scores_from(record_.config, inputs, arithmetic_of_scores(record_));
    std::vector<BadRow> wrong;
    std::vector<std::size_t> vectors;  // of them
    std::size_t begin = 0;
    for_each_row(record_.rows, [&](const BadRow& at, std::int64_t index) {
      const auto count = static_cast<std::size_t>(blocks_);
      const std::span own(scores.p_grp.data.data() + begin, count);
      const std::span bound(scores.bound.data.data() + begin, count);
      begin += count;
      if (!within(recorded(index), own, bound)) {
        wrong.push_back(at);
        vectors.push_back(begin / count - 1);
      } else if (skip_.count(at) == 0) {
        note_tie(at, index, own, bound);
      }
    });
    if (wrong.empty()) return;
    explain_scores(scores, vectors, add("SELECTION.WRONG", Of::scores, wrong));
  }

  // The law that gives the wrong scores, within the largest bound of any.
  void explain_scores(const oracles::BoundedScores& scores,
                      const std::vector<std::size_t>& wrong,
                      Departure& seen) const {
    const double scale = oracles::finite_scale(scores.p_grp);
    if (!(scale > 0.0)) return;
    oracles::AttentionOptions options;
    if (record_.is_sample()) options.rows = record_.rows;
    oracles::Stages stages(record_.config, record_.weights, record_.x, options);
    for (const oracles::Stage stage : {oracles::Stage::q, oracles::Stage::k_cmp}) {
      stages.record(stage, record_.at(std::string(oracles::stage_name(stage))));
    }
    const oracles::Tensor& all = record_.at("p_grp");
    oracles::Tensor found =
        record_.is_sample() ? at_rows(all, record_.length, blocks_, record_.rows) : all;
    found.shape = scores.p_grp.shape;
    explain(oracles::name_stage(
                stages,
                oracles::Stage::p_grp,
                found,
                scores.p_grp,
                wrong,
                {largest(scores.bound.data) / scale, scale, arithmetic_of_scores(record_).stored}),
            seen);
  }

  bool within(std::span<const double> found,
              std::span<const double> own,
              std::span<const double> bound) {
    bool good = true;
    for (std::size_t j = 0; j < found.size(); ++j) {
      const double error = std::abs(found[j] - own[j]);
      if (error == 0.0) continue;
      raise_to(verdict_.worst_share_of_bound, error / bound[j]);
      good = good && error <= bound[j];
    }
    return good;
  }

  void note_tie(const BadRow& at,
                std::int64_t index,
                std::span<const double> own,
                std::span<const double> bound) {
    const auto seen = oracles::compare_selection(record_.config, at.row, own, bound, taken(index));
    if (seen.agreement != oracles::Agreement::tied) return;
    verdict_.ties.take({1, seen.gap, seen.bound});
  }

  // ---- choice: in every row ---------------------------------------------------------------------

  // `select` was given the recorded scores, and only compares: its choice is exact, ties included.
  void judge_choices(const std::vector<BadRow>& malformed) {
    std::set<BadRow> wrong(malformed.begin(), malformed.end());
    std::int64_t tie_rows = 0;
    for_each_row(first_rows(), [&](const BadRow& at, std::int64_t index) {
      if (skip_.count(at) > 0) return;
      const oracles::Selection own =
          oracles::select_blocks(record_.config, at.row, recorded(index));
      const auto list = taken(index);
      const auto end = std::find(list.begin(), list.end(), -1);
      if (std::equal(list.begin(), end, own.blocks.begin(), own.blocks.end())) return;
      wrong.insert(at);
      if (same_scores(at, index, own.blocks, {list.begin(), end})) ++tie_rows;
    });
    if (wrong.empty()) return;
    Departure& seen = add("SELECTION.WRONG", Of::blocks, {wrong.begin(), wrong.end()});
    if (tie_rows > 0) seen.site.detail["tie_rows"] = tie_rows;
    explain_choice(wrong, seen);
    if (seen.law().empty() && wrong.size() == malformed.size()) {
      seen.laws = {{kNotALegalList, "", /*fitted=*/true}};  // which list it is, the record says
    }
  }

  // The law that chooses the blocks found from the recorded scores, in every row that is wrong.
  void explain_choice(const std::set<BadRow>& rows, Departure& seen) const {
    std::vector<std::size_t> wrong;
    for (const BadRow& at : rows) {
      const std::int64_t list = at.batch * record_.config.n_kv_groups + at.group;
      wrong.push_back(static_cast<std::size_t>(list * record_.length + at.row));
    }
    oracles::Stages stages(record_.config, record_.weights, record_.x);
    stages.record(oracles::Stage::p_grp, record_.at("p_grp"));
    stages.record(oracles::Stage::k_cmp, record_.at("k_cmp"));
    const oracles::Tensor found = {record_.blocks.shape,
                                   {record_.blocks.data.begin(), record_.blocks.data.end()}};
    explain(
        oracles::name_stage(
            stages, oracles::Stage::blocks, found, stages.right(oracles::Stage::blocks), wrong, {}),
        seen);
  }

  [[nodiscard]] std::vector<std::int64_t> first_rows() const {
    std::vector<std::int64_t> rows;
    for (std::int64_t t = 0; t < record_.length; ++t) rows.push_back(t);
    return rows;
  }

  // Are the blocks that differ of equal scores, one for one?
  [[nodiscard]] bool same_scores(const BadRow& at,
                                 std::int64_t index,
                                 const std::vector<std::int64_t>& own,
                                 const std::vector<std::int64_t>& other) const {
    const auto scores_of = [&](const std::vector<std::int64_t>& list) {
      std::multiset<double> scores;
      for (const std::int64_t block : list) {
        if (oracles::is_candidate(record_.config, at.row, block)) {
          scores.insert(recorded(index)[static_cast<std::size_t>(block)]);
        }
      }
      return scores;
    };
    const auto forced_of = [&](const std::vector<std::int64_t>& list) {
      return std::count_if(list.begin(), list.end(), [&](std::int64_t block) {
        return oracles::is_forced(record_.config, at.row, block);
      });
    };
    return own.size() == other.size() && forced_of(own) == forced_of(other) &&
           scores_of(own) == scores_of(other);
  }

  const LayerRecord& record_;
  std::int64_t blocks_;
  std::set<BadRow> skip_;
  ChoiceJudgement verdict_;
};

}  // namespace

void Ties::take(const Ties& more) {
  rows += more.rows;
  if (more.rows == 0 || more.gap < gap) return;
  gap = more.gap;
  bound = more.bound;
}

oracles::Arithmetic arithmetic_of_scores(const LayerRecord& record) {
  const oracles::Arithmetic& own = record.arithmetic;
  return own.stored > own.summed ? oracles::Arithmetic::float32() : own;
}

ChoiceJudgement judge_choice(const LayerRecord& record) {
  return ChoiceJudge(record).judge();
}

}  // namespace harness::checks
