// What checks do alike with each recorded layer: open it, hand it to a judge, take what the judge says.
#pragma once

#include <stdexcept>

#include "harness/checks/attention/record/layer_survey.h"

namespace harness::checks {

// Calls `judge` with the layer's LayerRecord or PackedRecord. What cannot be opened, and what the oracle refuses, is missing in
// `result`.
template <typename Judge>
void judge_recorded(const Evidence& evidence,
                    const LayerPlace& at,
                    ResultBuilder& result,
                    const Judge& judge) {
  const auto guarded = [&](const auto& record) {
    if (!record) return;
    try {
      judge(*record);
    } catch (const std::invalid_argument& error) {
      result.missing(text_of(at) + " cannot be judged: the oracle refuses it: " + error.what(),
                     site_of_layer(at.rank, at.layer));
    }
  };
  if (is_packed(evidence)) {
    guarded(open_packed(evidence, at, result));
  } else {
    guarded(open_record(evidence, at, kLayer, result));
  }
}

// Of a LayerJudgement or ChoiceJudgement: what it lacks is missing in `result`, what deviates goes to `all`.
template <typename Judgement>
void take_judged(const Judgement& judged,
                 const LayerPlace& at,
                 ResultBuilder& result,
                 Departures& all) {
  for (const std::string& lacking : judged.missing) {
    result.missing(lacking + " in " + text_of(at), site_of_layer(at.rank, at.layer));
  }
  for (const Departure& seen : judged.departures) all.add(placed(seen, at));
}

}  // namespace harness::checks
