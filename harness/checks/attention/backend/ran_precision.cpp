#include "harness/checks/attention/backend/ran_precision.h"

#include <optional>
#include <set>
#include <string>

#include "harness/checks/artefacts.h"
#include "harness/checks/attention/record/layer_survey.h"
#include "harness/checks/parameter_names.h"

namespace harness::checks {
namespace {

// What a linear map gives; nothing where the precision is no narrow one.
std::optional<nsa::DType> narrow_type(nsa::Precision precision) {
  switch (precision) {
    case nsa::Precision::bf16:
    case nsa::Precision::bf16_pure:
    case nsa::Precision::bf16_autocast: return nsa::DType::bf16;
    case nsa::Precision::fp16:
    case nsa::Precision::fp16_pure: return nsa::DType::f16;
    case nsa::Precision::fp64:
    case nsa::Precision::fp32: return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

void judge_precision(const Evidence& evidence, ResultBuilder& result) {
  const auto wanted = narrow_type(evidence.the_case.scenario.training.precision);
  if (!wanted) return;
  std::set<int> layers;
  std::set<int> ranks;
  std::string found;
  for (const int rank : all_ranks(evidence)) {
    for (const LayerPlace& at : layers_to_judge(evidence, rank)) {
      const ArtefactKey key{rank, kLayer, at.step, rank, at.layer};
      if (find_artefact(evidence, key) == nullptr) continue;
      const auto file = open_artefact(evidence, key, result);
      if (!file || !file->contains("q") || file->at("q").dtype == *wanted) continue;
      layers.insert(at.layer);
      ranks.insert(rank);
      found = nsa::dtype_name(file->at("q").dtype);
    }
  }
  if (layers.empty()) return;
  Finding finding = make_finding("ROUTE.MISMATCH", "precision");
  finding.site.op = "project";
  finding.site.layers = to_ints(layers);
  finding.site.ranks = to_ints(ranks);
  finding.site.detail["requested"] = nsa::dtype_name(*wanted);
  finding.site.detail["effective"] = found;
  result.found(finding);
}

}  // namespace harness::checks
