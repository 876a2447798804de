#include "harness/checks/step_told.h"

#include <algorithm>
#include <set>

#include "harness/checks/params.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

struct Words {
  std::string_view op;
  std::string_view what;  // departs
  std::string_view ruled_out;
  std::string_view next_action;
};

// In the order of a step.
constexpr Words kWords[] = {
    {"data",
     "the tokens of a batch are not those that the source gives for this step, micro-batch and "
     "rank",
     "not the loader's own record: every token that entered the model was computed again from the "
     "scenario's seed and source",
     "look at how a batch is found from step, micro-batch, rank and row"},
    {"initial_values",
     "parameters do not begin with values of their law",
     "not chance: the bounds fail one healthy model in 10^9",
     "look at how this parameter is initialised, and at what writes to it before the first step"},
    {"loss",
     "the loss or its gradient is not that of the recorded logits and tokens",
     "not the model: the loss was computed again from the logits that left it",
     "look at labels, mask, mean and scaling of the loss"},
    {"accumulate",
     "the backward does not start from the loss over the number of micro-batches",
     "not the loss: its value is that of the logits; not the loss scale: it is the recorded one",
     "look at what divides the loss by the number of micro-batches"},
    {"grad_sync",
     "the gradient that the optimiser gets is not the mean over micro-batches and ranks",
     "not a micro-batch: the gradients of all of them are on record, and this is not their mean",
     "look at what sums and divides gradients: accumulation, buckets, the reduction"},
    {"scaler",
     "loss scale or skipped steps do not follow their rule",
     "not the gradients: whether each step's were finite is on record",
     "look at the loss scaler: when it halves, when it doubles, which steps it skips"},
    {"unscale",
     "the gradient is not divided by the loss scale once",
     "not the gradient itself: what the optimiser got is on record, and its moments show a factor",
     "look at where gradients are divided by the loss scale"},
    {"norm",
     "the norm of the gradients is not that of the gradients on record",
     "not rounding: the bound holds for float32 sums in any order",
     "look at what is summed for the norm: all parameters, once, after the reduction and unscaled"},
    {"clip",
     "gradients are not clipped by min(1, max_norm / (norm + 1e-6))",
     "not the norm: it was computed again from the gradients on record",
     "look at the coefficient, and at what it is multiplied with"},
    {"schedule",
     "parameters moved by another learning rate than the schedule's",
     "not the gradient and not the moments: both are right",
     "look at what advances the schedule, and whether its rate reaches the optimiser"},
    {"optimizer",
     "parameters or moments after the step are not those of AdamW",
     "not the gradient and not the state before the step: the step was computed again from both, "
     "number by number",
     "compare the optimiser with its equation"},
    {"masters",
     "the model's weights are not its float32 masters, rounded to nearest",
     "not the masters: the weights were computed again from them, bit by bit",
     "look at what copies masters to the model"},
    {"between_steps",
     "the state at the beginning of a step is not the one at the end of the step before",
     "not the optimiser: what it left is on record",
     "look at what writes to parameters or moments between two steps"},
    {"embed",
     "what leaves the embedding is not the token's row of the table",
     "not the data: the tokens that entered the model are on record",
     "compare the embedding with its equation"},
};

const Words& words_of(const std::string& op) {
  static constexpr Words kOther = {
      "",
      "a stage of the model is not what the oracle makes of its recorded input",
      "not rounding and not the attention: the stages between two recorded attention layers were "
      "computed again in float64",
      "compare this stage with its equation"};
  for (const Words& words : kWords) {
    if (words.op == op) return words;
  }
  return kOther;
}

// The laws that fit every departure.
std::vector<oracles::LawFit> common_laws(const std::vector<Departure>& departures) {
  std::vector<oracles::LawFit> common = departures.front().naming.fitting;
  for (const Departure& departure : departures) {
    const auto& fits = departure.naming.fitting;
    std::erase_if(common, [&](const oracles::LawFit& law) {
      return std::none_of(fits.begin(), fits.end(), [&](const oracles::LawFit& other) {
        return other.law.name == law.law.name;
      });
    });
  }
  return common;
}

std::string law_text(const std::vector<oracles::LawFit>& laws) {
  if (laws.empty()) return "; no known mistake alone gives these numbers";
  if (laws.size() == 1) {
    const oracles::LawFit& law = laws.front();
    return ": " + std::string(law.law.about) + (law.detail.empty() ? "" : " (" + law.detail + ")");
  }
  std::vector<std::string> names;
  for (const oracles::LawFit& law : laws) names.emplace_back(law.law.name);
  return "; several known mistakes would give these numbers: " + nsa::join(names);
}

Finding finding_of(const std::vector<Departure>& departures) {
  const auto earlier = [](const Departure& a, const Departure& b) { return a.step < b.step; };
  const Departure& first = *std::min_element(departures.begin(), departures.end(), earlier);
  std::set<int> ranks;
  std::set<int> steps;
  for (const Departure& departure : departures) {
    ranks.insert(departure.rank);
    steps.insert(static_cast<int>(departure.step));
  }
  const std::vector<oracles::LawFit> laws = common_laws(departures);
  const Words& words = words_of(first.op);
  Finding finding;
  finding.code = first.code;
  if (!first.params.empty()) finding.site = site_of_params(first.params);
  if (first.layer >= 0) finding.site.layers = {first.layer};
  finding.site.ranks = to_ints(ranks);
  finding.site.step = first.step;
  finding.site.op = first.op;
  finding.site.phase = first.phase;
  for (const auto& [key, value] : first.detail.items()) finding.site.detail[key] = value;
  if (steps.size() > 1) finding.site.detail["steps"] = to_ints(steps);
  if (laws.size() == 1) {
    finding.site.detail["law"] = laws.front().law.name;
  } else if (laws.size() > 1) {
    std::vector<std::string> names;
    for (const oracles::LawFit& law : laws) names.emplace_back(law.law.name);
    finding.site.detail["laws"] = names;
  }
  finding.statement = "in step " + std::to_string(first.step) + " " + std::string(words.what) +
                      " on " + ranks_text(finding.site.ranks);
  if (!first.params.empty()) finding.statement += " (" + some_of(first.params) + ")";
  finding.statement += law_text(laws);
  finding.ruled_out = words.ruled_out;
  finding.next_action = words.next_action;
  return finding;
}

}  // namespace

void StepFindings::add(Departure departure) {
  Group& group = groups_[{departure.code, departure.op}];
  group.departures.push_back(std::move(departure));
}

std::vector<Finding> StepFindings::findings() const {
  std::vector<Finding> all;
  for (const Words& words : kWords) {
    for (const auto& [key, group] : groups_) {
      if (key.second == words.op) all.push_back(finding_of(group.departures));
    }
  }
  for (const auto& [key, group] : groups_) {
    if (words_of(key.second).op.empty()) all.push_back(finding_of(group.departures));
  }
  return all;
}

}  // namespace harness::checks
