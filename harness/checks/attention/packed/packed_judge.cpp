#include "harness/checks/attention/packed/packed_judge.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "harness/checks/attention/packed/document_stages.h"
#include "harness/checks/attention/packed/packed_gradients.h"
#include "harness/checks/largest.h"
#include "harness/checks/result.h"
#include "oracles/attention/stages.h"
#include "oracles/laws/document_laws.h"
#include "oracles/laws/match.h"

namespace harness::checks {
namespace {

using oracles::Branch;
using oracles::Stage;
using oracles::Tensor;

// A departure of a document, and which document of the record it is.
struct OfDocument {
  Departure seen;
  std::size_t document = 0;
};

void add_to(std::vector<int>& places, std::int64_t before) {
  for (int& place : places) place += static_cast<int>(before);
}

Departure in_sequence(Departure seen, const DocumentRecord& document) {
  add_to(seen.site.rows, document.at.begin);
  if (seen.site.detail.contains("compressed_tokens")) {
    auto tokens = seen.site.detail.at("compressed_tokens").get<std::vector<int>>();
    add_to(tokens, document.compressed_before);
    seen.site.detail["compressed_tokens"] = tokens;
  }
  seen.site.detail["documents"] = {static_cast<int>(document.at.number)};
  return seen;
}

std::string output_of(Branch branch) {
  return std::string(oracles::stage_name(oracles::output_stage(branch)));
}

class PackedJudge {
 public:
  PackedJudge(const PackedRecord& packed, const nsa::ModelConfig& model)
      : packed_(packed), model_(model) {}

  LayerJudgement judge() {
    for (std::size_t i = 0; i < packed_.documents.size(); ++i) judge_forward(i);
    // A query without a list of blocks has no defined output, and no defined gradient.
    const bool right = seen_.empty() && !any_unusable_;
    for (const Branch branch : {Branch::cmp, Branch::sel, Branch::win}) tell_crossing(branch);
    for (OfDocument& of : seen_) verdict_.departures.push_back(std::move(of.seen));
    if (right) {
      judge_gradients_of_documents(packed_, model_, verdict_);
    } else {
      verdict_.missing.emplace_back("gradients, which go through a forward that is wrong");
    }
    return std::move(verdict_);
  }

 private:
  void judge_forward(std::size_t i) {
    const DocumentRecord& document = packed_.documents[i];
    LayerJudgement own = judge_layer(document.record, model_);
    for (const auto& [name, error] : own.errors) note(name, error);
    verdict_.missing.insert(verdict_.missing.end(), own.missing.begin(), own.missing.end());
    verdict_.rows += own.rows;
    verdict_.rows_in_all += own.rows_in_all;
    const UnusableRows unusable = unusable_rows(document.record);
    any_unusable_ = any_unusable_ || !unusable.out_of_range.empty() || !unusable.malformed.empty();
    for (Departure& seen : own.departures) {
      seen_.push_back({in_sequence(std::move(seen), document), i});
    }
  }

  // The worst of all documents; a NaN stays.
  void note(const std::string& name, const ErrorOfTensor& error) {
    const auto [place, is_new] = verdict_.errors.try_emplace(name, error);
    if (is_new || std::isnan(place->second.value)) return;
    const ErrorOfTensor& worst = place->second;
    if (!(error.value * worst.limit <= worst.value * error.limit)) place->second = error;
  }

  // ---- across the border ------------------------------------------------------------------------

  [[nodiscard]] bool is_of(const OfDocument& of, Branch branch) const {
    return of.seen.law().empty() && of.seen.tensors == std::vector<std::string>{output_of(branch)};
  }

  // The branch's law is named if it explains what is wrong in every document.
  void tell_crossing(Branch branch) {
    const bool all_cross = std::all_of(seen_.begin(), seen_.end(), [&](const OfDocument& of) {
      return !is_of(of, branch) ||
             crosses(packed_.documents[of.document], branch, of.seen.limit.value_or(0.0));
    });
    if (!all_cross) return;
    const oracles::Law& law = oracles::crossing_law(branch).law;
    for (OfDocument& of : seen_) {
      if (!is_of(of, branch)) continue;
      of.seen.code = "CAUSALITY.LEAK";
      of.seen.laws = {{std::string(law.name), std::string(law.about), law.fitted}};
    }
  }

  // Does the law give every wrong vector of the document?
  [[nodiscard]] bool crosses(const DocumentRecord& document, Branch branch, double limit) const {
    const LayerRecord& record = document.record;
    const Tensor& found = record.at(output_of(branch));
    const DocumentStages stages(record);
    const Tensor wanted = stages.get().right(oracles::output_stage(branch));
    const Tensor under_law = under_crossing_law(document, branch);
    const double scale = std::max(oracles::finite_scale(wanted), oracles::finite_scale(under_law));
    // In a narrow type the law's numbers are rounded as right ones are, and the limit may be that of a mean: four units in the last
    // place, which is what the budget of a single number has beside the yardstick (error_budget.h).
    constexpr double kRoundings = 8.0;
    if (record.kept) limit = std::max(limit, kRoundings * record.unit_roundoff);
    const auto wrong = oracles::wrong_vectors(found, wanted, limit * scale);
    const auto unlike = oracles::wrong_vectors(found, under_law, limit * scale);
    return !wrong.empty() && std::none_of(wrong.begin(), wrong.end(), [&](std::size_t vector) {
      return std::binary_search(unlike.begin(), unlike.end(), vector);
    });
  }

  [[nodiscard]] Tensor under_crossing_law(const DocumentRecord& document, Branch branch) const {
    const auto of = [&](Stage stage) {
      return of_sequence(packed_, document, std::string(oracles::stage_name(stage)));
    };
    const Tensor keys = of(oracles::key_stage(branch));
    const Tensor values = of(oracles::value_stage(branch));
    const oracles::IntTensor blocks = usable_blocks(document.record);
    const bool compressed = branch == Branch::cmp;
    return oracles::output_across_documents(
        branch,
        {packed_.shared.config,
         document.at,
         document.record.at("q"),
         keys,
         values,
         compressed ? document.compressed_before : document.at.begin,
         blocks});
  }

  const PackedRecord& packed_;
  const nsa::ModelConfig& model_;
  LayerJudgement verdict_;
  std::vector<OfDocument> seen_;
  bool any_unusable_ = false;
};

}  // namespace

LayerJudgement judge_layer(const PackedRecord& packed, const nsa::ModelConfig& model) {
  return PackedJudge(packed, model).judge();
}

ChoiceJudgement judge_choice(const PackedRecord& packed) {
  ChoiceJudgement all;
  for (const DocumentRecord& document : packed.documents) {
    const ChoiceJudgement own = judge_choice(document.record);
    for (const Departure& seen : own.departures) {
      all.departures.push_back(in_sequence(seen, document));
    }
    all.missing.insert(all.missing.end(), own.missing.begin(), own.missing.end());
    all.rows += own.rows;
    all.ties.take(own.ties);
    raise_to(all.worst_share_of_bound, own.worst_share_of_bound);
  }
  return all;
}

}  // namespace harness::checks
