#include "harness/scenario/bisect.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "harness/scenario/case_json.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

using nlohmann::json;

using Indices = std::vector<std::size_t>;  // of candidates, ascending

Indices united(Indices a, const Indices& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end());
  return a;
}

// Junker's algorithm, run anew over what is known each time: it stops at the first subset whose outcome is not known yet.
class QuickXplain {
 public:
  explicit QuickXplain(const std::map<Indices, bool>& known) : known_(known) {}

  // The conflict among `candidates`, given that `background` and they were seen to fail together; so was what it gives, with
  // the background. Nothing: next() must be tried first.
  // `added`: the background has grown since it was last known to pass.
  std::optional<Indices> conflict(const Indices& background,
                                  bool added,
                                  const Indices& candidates) {
    if (added) {
      const std::optional<bool> failed = fails(background);
      if (!failed) return std::nullopt;
      if (*failed) return Indices{};
    }
    if (candidates.size() == 1) return candidates;
    const auto half = static_cast<std::ptrdiff_t>((candidates.size() + 1) / 2);
    const Indices left(candidates.begin(), candidates.begin() + half);
    const Indices right(candidates.begin() + half, candidates.end());
    const auto of_right = conflict(united(background, left), true, right);
    if (!of_right) return std::nullopt;
    const auto of_left = conflict(united(background, *of_right), !of_right->empty(), left);
    if (!of_left) return std::nullopt;
    return united(*of_left, *of_right);
  }

  std::optional<bool> fails(const Indices& subset) {
    const auto at = known_.find(subset);
    if (at != known_.end()) return at->second;
    next_ = subset;
    return std::nullopt;
  }

  [[nodiscard]] const Indices& next() const { return next_; }

 private:
  const std::map<Indices, bool>& known_;
  Indices next_;
};

Indices indices_of(const std::vector<std::string>& candidates,
                   const std::vector<std::string>& subset) {
  Indices indices;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (std::find(subset.begin(), subset.end(), candidates[i]) != subset.end()) {
      indices.push_back(i);
    }
  }
  return indices;
}

std::vector<std::string> names_of(const std::vector<std::string>& candidates,
                                  const Indices& indices) {
  std::vector<std::string> names;
  names.reserve(indices.size());
  for (const std::size_t index : indices) names.push_back(candidates[index]);
  return names;
}

BisectProgress ended(BisectProgress::State state, const std::string& conclusion) {
  BisectProgress progress;
  progress.state = state;
  progress.conclusion = conclusion;
  return progress;
}

class Search {
 public:
  Search(const std::vector<std::string>& candidates, std::span<const BisectTrial> trials)
      : candidates_(candidates), explain_(known_), all_(candidates.size()) {
    std::iota(all_.begin(), all_.end(), std::size_t{0});
    for (const BisectTrial& trial : trials) {
      const bool decided = trial.outcome == Outcome::pass || has_failed(trial.outcome);
      if (!decided && undecided_ == nullptr) undecided_ = &trial;
      known_[indices_of(candidates_, trial.subset)] = has_failed(trial.outcome);
    }
  }

  BisectProgress progress() {
    using State = BisectProgress::State;
    if (undecided_ != nullptr) {
      return ended(State::inconclusive,
                   "the trial with " + subset_text(undecided_->subset) + " is " +
                       name_of(undecided_->outcome) + ", neither passed nor failed");
    }
    const auto whole = explain_.fails(all_);
    if (!whole) return searching();
    if (!*whole) {
      return ended(State::nothing_breaks, "nothing breaks: all candidates together pass");
    }
    const auto without = explain_.fails({});
    if (!without) return searching();
    if (*without) {
      return ended(State::broken_without_any, "it fails without any of the candidates");
    }
    const auto conflict = explain_.conflict({}, false, all_);
    if (!conflict) return searching();
    const std::vector<std::string> names = names_of(candidates_, *conflict);
    BisectProgress found =
        ended(State::minimal, "a minimal set that fails is " + subset_text(names));
    found.minimal = names;
    return found;
  }

 private:
  BisectProgress searching() {
    BisectProgress progress;
    progress.next = names_of(candidates_, explain_.next());
    progress.conclusion = "not finished";
    return progress;
  }

  const std::vector<std::string>& candidates_;
  std::map<Indices, bool> known_;  // subset -> failed
  QuickXplain explain_;
  Indices all_;
  const BisectTrial* undecided_ = nullptr;
};

json value_of(const std::string& candidate) {
  if (const auto whole = nsa::parse_int(candidate)) return *whole;
  if (candidate == "true" || candidate == "false") return candidate == "true";
  const auto number = nsa::parse_double(candidate);
  if (number && *number - *number == 0.0) return *number;  // JSON knows finite ones only
  return candidate;
}

// A path of keys in the case's document; parts that are not there are made, and refused by the reader if it knows none.
json& member(json& document, const std::string& path) {
  json* node = &document;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    if (!node->is_object() && !node->is_null()) *node = json::object();
    node = &(*node)[path.substr(begin, end - begin)];
    begin = end + 1;
  }
  return *node;
}

}  // namespace

BisectProgress bisect_progress(const std::vector<std::string>& candidates,
                               std::span<const BisectTrial> trials) {
  return Search(candidates, trials).progress();
}

Case trial_of(const Case& base, const std::vector<std::string>& subset) {
  const std::string& over = base.scenario.bisect.over;
  json document = json::parse(case_to_json(base));
  json values = json::array();
  for (const std::string& candidate : subset) values.push_back(value_of(candidate));
  member(document["scenario"], over) = std::move(values);
  document["point"].push_back({over, subset_text(subset)});
  Case trial = case_from_json(document.dump(), "the trial");
  trial.id = case_id(trial);
  return trial;
}

bool is_trial(const Case& the_case) {
  const std::string& over = the_case.scenario.bisect.over;
  return !over.empty() && !the_case.point.empty() && the_case.point.back().first == over;
}

bool is_whole_trial(const Case& the_case) {
  return is_trial(the_case) &&
         the_case.point.back().second == subset_text(the_case.scenario.bisect.candidates);
}

std::vector<std::string> subset_of(const Case& trial) {
  const nsa::YamlNode node = nsa::parse_yaml(trial.point.back().second, "the trial");
  return nsa::read_texts(node, "the trial");
}

std::string subset_text(const std::vector<std::string>& subset) {
  return "[" + nsa::join(subset) + "]";
}

}  // namespace harness
