#include "harness/judge/ties.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "harness/judge/layer_flow.h"
#include "harness/judge/patterns.h"

namespace harness {
namespace {

bool share(const std::vector<int>& a, const std::vector<int>& b) {
  if (a.empty() || b.empty()) return true;
  return std::any_of(
      a.begin(), a.end(), [&](int one) { return std::find(b.begin(), b.end(), one) != b.end(); });
}

bool same_layer(const Site& a, const Site& b) {
  return !a.layers.empty() && !b.layers.empty() && share(a.layers, b.layers);
}

bool not_earlier(const Site& cause, const Site& effect) {
  return !cause.step || !effect.step || *effect.step >= *cause.step;
}

bool same_or_unsaid(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() || a == b;
}

// A known mistake explains what a stage made out of that stage's recorded inputs: what was wrong before it has no part in it.
bool explains_itself(Tie tie, const Site& effect) {
  const bool from_before = tie == Tie::downstream || tie == Tie::same_layer ||
                           tie == Tie::gradient_path || tie == Tie::same_rank ||
                           tie == Tie::in_its_steps || tie == Tie::in_its_steps_alone;
  return from_before && !law_of(effect).empty();
}

// Whoever wrote into what it was given is told beside the place of what was written.
std::string seam_of(const Site& site) {
  return site.detail.value("written_by", site.op);
}

bool share_rank(const Site& a, const Site& b) {
  return share(a.ranks, b.ranks);
}

bool on_rank(const Site& cause, const Site& effect) {
  return share_rank(cause, effect) && not_earlier(cause, effect);
}

// A kernel of the user's own is in no layer.
bool same_place(const Site& a, const Site& b) {
  const bool outside = a.layers.empty() && b.layers.empty();
  return outside ? !a.op.empty() && a.op == b.op : same_layer(a, b);
}

bool same_tensor(const Site& a, const Site& b) {
  if (!same_or_unsaid(law_of(a), law_of(b))) return false;
  if (!same_place(a, b) || !same_or_unsaid(a.branch, b.branch)) return false;
  return same_or_unsaid(node_of(a), node_of(b));
}

bool is_in_all(const std::vector<int>& cause, const std::vector<int>& effect) {
  return std::all_of(effect.begin(), effect.end(), [&](int layer) {
    return std::find(cause.begin(), cause.end(), layer) != cause.end();
  });
}

// The whole numbers that a site's detail lists under this name.
std::set<std::int64_t> listed(const Site& site, FactName name) {
  std::set<std::int64_t> numbers;
  for (const auto& one : site.detail.value(name, nlohmann::json::array())) {
    if (one.is_number_integer()) numbers.insert(one.get<std::int64_t>());
  }
  return numbers;
}

// A finding may name one layer, and tell that it was seen in others too.
std::vector<int> all_layers(const Site& site) {
  std::vector<int> layers = site.layers;
  for (const std::int64_t layer : listed(site, "layers")) layers.push_back(static_cast<int>(layer));
  return layers;
}

bool is_on_a_layer_of(const Site& cause, const Site& effect) {
  const std::vector<int> layers = all_layers(cause);
  return !layers.empty() && !effect.layers.empty() && share(layers, effect.layers);
}

// A gradient passes every tensor between the loss and its parameter.
bool same_path(const Site& a, const Site& b) {
  if (!same_layer(a, b)) return false;
  const FlowNode one = node_of(a);
  const FlowNode other = node_of(b);
  return one.empty() || other.empty() || flows(one, other, Of::gradients) ||
         flows(other, one, Of::gradients);
}

bool downstream(const Site& cause, const Site& effect) {
  if (cause.layers.empty() || effect.layers.empty()) return true;
  const auto first = *std::min_element(cause.layers.begin(), cause.layers.end());
  const auto last = *std::max_element(effect.layers.begin(), effect.layers.end());
  if (last > first) return true;
  const FlowNode from = node_of(cause);
  const FlowNode to = node_of(effect);
  return last == first && (from.empty() || to.empty() || flows(from, to, Of::values));
}

// The head and the final norm come first in the backward, the embedding last.
int backward_place(const Site& site) {
  if (!site.layers.empty()) return *std::max_element(site.layers.begin(), site.layers.end());
  if (site.param == "embed") return -1;
  return std::numeric_limits<int>::max();
}

std::set<std::string> params_of(const Site& site) {
  std::set<std::string> params;
  if (!site.param.empty()) params.insert(site.param);
  if (site.detail.contains("params")) {
    for (const auto& param : site.detail.at("params")) {
      if (param.is_string()) params.insert(param.get<std::string>());
    }
  }
  return params;
}

bool same_param(const Site& a, const Site& b) {
  const std::set<std::string> of_a = params_of(a);
  const std::set<std::string> of_b = params_of(b);
  if (!share(a.layers, b.layers) || !not_earlier(a, b)) return false;
  if (of_a.empty() || of_b.empty()) return same_or_unsaid(a.branch, b.branch);
  return std::any_of(
      of_a.begin(), of_a.end(), [&](const std::string& param) { return of_b.count(param) > 0; });
}

bool is_peer(const Site& cause, const Site& effect) {
  const bool others =
      cause.ranks.empty() || effect.ranks.empty() ||
      std::any_of(effect.ranks.begin(), effect.ranks.end(), [&](int rank) {
        return std::find(cause.ranks.begin(), cause.ranks.end(), rank) == cause.ranks.end();
      });
  // Every step synchronises: a rank is at most one step ahead of its peers.
  return others &&
         (!cause.step || !effect.step || std::abs(*cause.step - *effect.step) <= std::int64_t{1});
}

// What happens on all ranks alike makes none of them differ from the others. Without a majority it is not known which ones differ.
bool one_side(const Site& cause, const Site& effect) {
  const auto differs = [&](int rank) {
    return std::find(effect.ranks.begin(), effect.ranks.end(), rank) != effect.ranks.end();
  };
  const bool known = !effect.ranks.empty();
  return not_earlier(cause, effect) &&
         (known
              ? !cause.ranks.empty() && std::all_of(cause.ranks.begin(), cause.ranks.end(), differs)
              : cause.ranks.size() == 1);
}

bool each_its_own(const Site& cause) {
  return cause.detail.value("differs_by_rank", false);
}

// The steps in which it was seen: those that it names, and its own one.
std::set<std::int64_t> steps_of(const Site& site) {
  std::set<std::int64_t> steps = listed(site, "steps");
  if (site.step) steps.insert(*site.step);
  return steps;
}

bool in_its_steps(const Site& cause, const Site& effect) {
  if (!share_rank(cause, effect) || !cause.step || !effect.step) return false;
  return steps_of(cause).count(*effect.step) > 0;
}

bool in_its_steps_alone(const Site& cause, const Site& effect) {
  const std::set<std::int64_t> of_cause = steps_of(cause);
  const std::set<std::int64_t> of_effect = steps_of(effect);
  return in_its_steps(cause, effect) &&
         std::includes(of_cause.begin(), of_cause.end(), of_effect.begin(), of_effect.end());
}

// What goes on after the first step is told wrong by itself.
bool read_back(const Site& cause, const Site& effect) {
  const std::set<std::int64_t> resumed = listed(cause, "resumed_after_step");
  const std::set<std::int64_t> of_effect = steps_of(effect);
  return effect.step && share_rank(cause, effect) &&
         std::includes(resumed.begin(), resumed.end(), of_effect.begin(), of_effect.end());
}

bool same_step(const Site& a, const Site& b) {
  return !a.step || !b.step || *a.step == *b.step;
}

// Of a collective; each group counts its own.
std::string group_of(const Site& site) {
  return site.detail.value("group", std::string());
}

// After a mismatch the later operations of the step meet wrong ones too. Where one of them does not know the number: the same
// step and phase.
bool same_sequence(const Site& cause, const Site& effect) {
  if (!same_or_unsaid(group_of(cause), group_of(effect))) return false;
  if (cause.sequence && effect.sequence) {
    return same_step(cause, effect) && *effect.sequence >= *cause.sequence;
  }
  return cause.step && effect.step && *cause.step == *effect.step &&
         same_or_unsaid(cause.phase, effect.phase);
}

// What is known of a law holds its numbers: two factors are two mistakes.
bool same_law(const Finding& cause, const Finding& effect) {
  const Site& a = cause.site;
  const Site& b = effect.site;
  const bool layers = a.layers.empty() || b.layers.empty() || a.layers == b.layers;
  return !law_of(a).empty() && law_of(a) == law_of(b) && layers && a.ranks == b.ranks &&
         a.step == b.step &&
         cause.facts.value("known", std::string()) == effect.facts.value("known", std::string());
}

// A stage that takes the weights, keys or values of another branch (weights_of_win) gives these a gradient besides their own.
bool other_weight(const Site& cause, const Site& effect) {
  return !effect.branch.empty() && law_of(cause).ends_with("s_of_" + effect.branch) &&
         same_layer(cause, effect) && on_rank(cause, effect);
}

bool ties_sites(Tie tie, const Site& cause, const Site& effect) {
  switch (tie) {
    case Tie::same_seam:
      return same_layer(cause, effect) && seam_of(cause) == seam_of(effect) && !cause.op.empty() &&
             same_or_unsaid(law_of(cause), law_of(effect)) && share_rank(cause, effect);
    case Tie::same_tensor: return same_tensor(cause, effect) && on_rank(cause, effect);
    case Tie::same_tensors:
      return same_tensor(cause, effect) && is_in_all(cause.layers, effect.layers) &&
             on_rank(cause, effect);
    case Tie::same_path: return same_path(cause, effect) && on_rank(cause, effect);
    case Tie::downstream: return downstream(cause, effect) && on_rank(cause, effect);
    case Tie::same_layer: return is_on_a_layer_of(cause, effect) && on_rank(cause, effect);
    case Tie::gradient_path:
      return backward_place(effect) <= backward_place(cause) && on_rank(cause, effect);
    case Tie::same_param: return same_param(cause, effect);
    case Tie::other_weight: return other_weight(cause, effect);
    case Tie::in_batches:
    case Tie::same_law: return false;  // sites alone do not tell
    case Tie::same_rank:
    case Tie::same_fact: return on_rank(cause, effect);
    case Tie::one_side: return one_side(cause, effect);
    case Tie::each_its_own: return each_its_own(cause) && not_earlier(cause, effect);
    case Tie::later_step:
      return share_rank(cause, effect) && cause.step && effect.step && *effect.step > *cause.step;
    case Tie::in_its_steps: return in_its_steps(cause, effect);
    case Tie::in_its_steps_alone: return in_its_steps_alone(cause, effect);
    case Tie::same_step: return same_step(cause, effect);
    case Tie::read_back: return read_back(cause, effect);
    case Tie::peer: return is_peer(cause, effect);
    case Tie::same_sequence: return same_sequence(cause, effect);
    case Tie::whole_run: return true;
  }
  return false;
}

}  // namespace

bool ties(Tie tie, const Finding& cause, const Finding& effect) {
  if (tie == Tie::same_law) return same_law(cause, effect);
  if (tie == Tie::in_batches) {
    return effect.facts.contains("only") && same_tensor(cause.site, effect.site);
  }
  return !explains_itself(tie, effect.site) && ties_sites(tie, cause.site, effect.site);
}

const char* text_of(Tie tie) {
  switch (tie) {
    case Tie::same_seam: return "the same seam in the same layer";
    case Tie::same_tensor: return "the same tensor";
    case Tie::same_tensors: return "the same tensor in the same layers";
    case Tie::same_path: return "the gradient passes the wrong tensor";
    case Tie::downstream: return "made of the wrong tensor";
    case Tie::same_layer: return "the same layer";
    case Tie::gradient_path: return "the backward passes there first";
    case Tie::same_param: return "the same parameter";
    case Tie::same_rank: return "the same rank, not in an earlier step";
    case Tie::same_law: return "the same mistake, in other operations";
    case Tie::in_batches: return "wrong in batches alone";
    case Tie::other_weight: return "the gradient of the weights that were taken";
    case Tie::same_fact: return "the same fact, told in other words";
    case Tie::one_side: return "on the ranks alone that differ from the others";
    case Tie::each_its_own: return "each rank has a number of its own";
    case Tie::later_step: return "the same rank, in a later step";
    case Tie::in_its_steps: return "the same rank, in a step of it";
    case Tie::in_its_steps_alone: return "the same rank, in no step but its own";
    case Tie::same_step: return "the same step";
    case Tie::read_back: return "told of the step after which it was resumed";
    case Tie::peer: return "a peer at the same place in the run";
    case Tie::same_sequence: return "the same collective, or one after it in the step";
    case Tie::whole_run: return "the whole run shows it";
  }
  return "";
}

}  // namespace harness
