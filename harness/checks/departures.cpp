#include "harness/checks/departures.h"

#include <algorithm>
#include <cmath>

#include "harness/checks/parameter_names.h"
#include "harness/judge/patterns.h"

namespace harness::checks {
namespace {

using nlohmann::json;
using Alike = std::vector<const Departure*>;

void unite(const std::vector<int>& more, std::vector<int>& all) {
  std::set<int> both(all.begin(), all.end());
  both.insert(more.begin(), more.end());
  all = to_ints(both);
}

// A list without its repetitions, in ascending order.
json united(const json& one, const json& other) {
  std::set<json> all;
  for (const json* list : {&one, &other}) {
    if (list->is_array()) all.insert(list->begin(), list->end());
    if (!list->is_array()) all.insert(*list);
  }
  json list = json::array();
  for (const json& item : all) list.push_back(item);
  return list;
}

json sum_of(const json& one, const json& other) {
  if (one.is_number_integer() && other.is_number_integer()) {
    return one.get<std::int64_t>() + other.get<std::int64_t>();
  }
  return one.get<double>() + other.get<double>();
}

// The facts of `all` with those of one more departure, each by its rule. `heavier`: its other facts replace those of `all`.
Facts merged(const Facts& all, const Facts& more, bool heavier) {
  json result = heavier ? more.json() : all.json();
  for (const FactRow& row : kFacts) {
    const std::string name(row.name);
    const json* one = all.find(name);
    const json* other = more.find(name);
    const bool both = one != nullptr && other != nullptr;
    switch (row.merge) {
      case Merge::heaviest: break;
      case Merge::agreed:
        result.erase(name);
        if (both && *one == *other) result[name] = *one;
        break;
      case Merge::total:
      case Merge::smallest:
      case Merge::largest:
      case Merge::united:
        if (both && row.merge == Merge::total) result[name] = sum_of(*one, *other);
        if (both && row.merge == Merge::smallest) result[name] = std::min(*one, *other);
        if (both && row.merge == Merge::largest) result[name] = std::max(*one, *other);
        if (both && row.merge == Merge::united) result[name] = united(*one, *other);
        if (!both && one != nullptr) result[name] = *one;
        if (!both && other != nullptr) result[name] = *other;
    }
  }
  return Facts(std::move(result));
}

// The laws of all departures.
std::vector<KnownLaw> common_laws(const Alike& group) {
  std::vector<KnownLaw> common = group.front()->laws;
  for (const Departure* departure : group) {
    std::erase_if(common, [&](const KnownLaw& law) {
      return std::none_of(departure->laws.begin(), departure->laws.end(), [&](const KnownLaw& own) {
        return own.name == law.name;
      });
    });
  }
  return common;
}

// Of all departures, each once; empty if one of them is about all parameters.
std::vector<std::string> params_of(const Alike& group) {
  std::vector<std::string> params;
  for (const Departure* departure : group) {
    if (departure->params.empty()) return {};
    for (const std::string& param : departure->params) {
      if (std::find(params.begin(), params.end(), param) == params.end()) params.push_back(param);
    }
  }
  return params;
}

// A NaN is larger than any number.
bool is_heavier(const Departure& one, const Departure& other) {
  return !std::isnan(other.error) && !(one.error <= other.error);
}

// One departure for all of a group that are of the same step.
Departure joined(const Alike& group) {
  Departure all = *group.front();
  bool all_heads = all.site.heads.empty();
  for (auto at = group.begin() + 1; at != group.end(); ++at) {
    const Departure& more = **at;
    const bool heavier = is_heavier(more, all);
    Site site = heavier ? more.site : all.site;
    const Site& other = heavier ? all.site : more.site;
    unite(other.layers, site.layers);
    unite(other.ranks, site.ranks);
    unite(other.rows, site.rows);
    all_heads = all_heads || more.site.heads.empty();
    unite(other.heads, site.heads);
    site.detail = merged(all.site.detail, more.site.detail, heavier);
    Facts facts = merged(all.facts, more.facts, heavier);
    if (heavier) all = more;
    all.site = std::move(site);
    all.facts = std::move(facts);
  }
  if (all_heads) all.site.heads.clear();
  if (all.counts_each_row_once) all.site.detail["row_count"] = all.site.rows.size();
  if (!all.by_law) all.laws = common_laws(group);
  all.params = params_of(group);
  return all;
}

void put_laws(const Departure& seen, FactName about, Finding& finding) {
  if (seen.laws.size() == 1) {
    const KnownLaw& law = seen.laws.front();
    put_law(law.name, law.fitted, finding.site);
    if (!law.about.empty()) finding.facts[about] = law.about;
    return;
  }
  std::vector<std::string> names;
  for (const KnownLaw& law : seen.laws) names.push_back(law.name);
  if (!names.empty()) finding.site.detail["laws"] = names;
}

void put_share(const Departure& seen, Finding& finding) {
  const auto in_all = static_cast<double>(finding.facts.value("rows_in_all", std::int64_t{0}));
  const double of_law = seen.laws.size() == 1 ? seen.laws.front().share : 0.0;
  if (seen.row_count() == 0) return;
  if (of_law > 0.0) finding.site.detail["share"] = of_law;
  if (of_law <= 0.0 && in_all > 0.0) {
    finding.site.detail["share"] = static_cast<double>(seen.row_count()) / in_all;
  }
}

// A finding holds no fact that its sentences leave out.
bool is_reported(const Finding& finding, std::string_view fact) {
  const Wording* words = find_wording(finding.code, finding.variant);
  return words == nullptr || uses_fact(*words, fact);
}

// Place, count and names of the parameters. A place that the check gave itself stays.
void put_params(const Departure& seen, Finding& finding) {
  if (seen.params.empty()) return;
  const Site own = site_of_params(seen.params);
  if (finding.site.layers.empty()) finding.site.layers = own.layers;
  if (finding.site.param.empty()) finding.site.param = own.param;
  if (finding.site.branch.empty()) finding.site.branch = own.branch;
  for (const char* name : {"params", "param_count"}) finding.site.detail.take(name, own.detail);
  if (is_reported(finding, "count")) finding.facts["count"] = seen.params.size();
  if (is_reported(finding, "params")) finding.facts.put_some("params", seen.params);
}

Finding finished(const Departure& seen, FactName about) {
  Finding finding = seen;
  finding.site.detail.erase_empty_lists();
  if (finding.site.rows.size() > kMostRows) finding.site.rows.resize(kMostRows);
  put_params(seen, finding);
  put_laws(seen, about, finding);
  put_share(seen, finding);
  if (seen.limit && is_reported(finding, "error")) {
    finding.facts["error"] = Real(seen.error);
    finding.facts["limit"] = Real(*seen.limit);
    if (!seen.where.empty()) finding.facts["measure"] = seen.where;
  }
  if (!seen.tensors.empty() && is_reported(finding, "tensors")) {
    finding.facts.put_some("tensors", seen.tensors);
  }
  return finding;
}

// Does each rank have a number of its own where all should have one?
bool differs_by_rank(const Alike& group) {
  std::map<std::vector<int>, json> found;
  for (const Departure* departure : group) {
    const json* own = departure->site.detail.find("found");
    if (own != nullptr) found[departure->site.ranks] = *own;
  }
  return found.size() > 1 && !all_equal(found);
}

// The first step gives the place; ranks and totals are those of all steps.
Departure of_first_step(const std::vector<Departure>& group) {
  const auto earlier = [](const Departure& a, const Departure& b) {
    return a.site.step < b.site.step;
  };
  const auto first = std::min_element(group.begin(), group.end(), earlier)->site.step;
  Alike of_first;
  Alike of_all;
  std::set<int> ranks;
  std::set<int> steps;
  for (const Departure& departure : group) {
    of_all.push_back(&departure);
    if (departure.site.step == first) of_first.push_back(&departure);
    ranks.insert(departure.site.ranks.begin(), departure.site.ranks.end());
    if (departure.site.step) steps.insert(static_cast<int>(*departure.site.step));
  }
  Departure all = joined(of_first);
  if (!all.by_law) all.laws = common_laws(of_all);
  all.site.ranks = to_ints(ranks);
  if (differs_by_rank(of_first)) all.site.detail["differs_by_rank"] = true;
  const Departure whole = joined(of_all);
  for (const FactRow& row : kFacts) {
    if (row.merge == Merge::total) all.facts.take(std::string(row.name), whole.facts);
  }
  if (steps.size() > 1) all.site.detail["steps"] = to_ints(steps);
  return all;
}

}  // namespace

std::vector<KnownLaw> known_laws(const oracles::Naming& naming) {
  std::vector<KnownLaw> laws;
  for (const oracles::LawFit& fit : naming.fitting) {
    std::string about(fit.law.about);
    if (!fit.detail.empty()) about += ": " + fit.detail;
    laws.push_back(
        {std::string(fit.law.name), about, fit.law.fitted, fit.share, fit.number, fit.detail});
  }
  return laws;
}

void keep_worst(double error, double limit, const std::string& where, Departure& seen) {
  if (std::isnan(seen.error)) return;
  if (seen.limit && *seen.limit > 0.0 && error / limit <= seen.error / *seen.limit) return;
  seen.error = error;
  seen.limit = limit;
  seen.where = where;
}

std::string Departures::key_of(const Departure& departure) const {
  const Site& site = departure.site;
  json key = {departure.code, site.op, departure.by_law ? departure.law() : ""};
  if (steps_ == Steps::first) return key.dump();
  key += {departure.variant, name_of(departure.role), site.branch, site.param, site.phase};
  key += {site.step.value_or(0), site.bucket.value_or(-1), site.sequence.value_or(-1)};
  key += departure.apart_by;
  return key.dump(-1, ' ', false, json::error_handler_t::replace);
}

void Departures::add(Departure departure) {
  const auto [at, is_new] = place_of_.try_emplace(key_of(departure), groups_.size());
  if (is_new) groups_.emplace_back();
  groups_[at->second].push_back(std::move(departure));
}

std::vector<Finding> Departures::findings() const {
  std::vector<Finding> list;
  for (const auto& departures : groups_) {
    Alike group;
    for (const Departure& departure : departures) group.push_back(&departure);
    const Departure all = steps_ == Steps::first ? of_first_step(departures) : joined(group);
    list.push_back(finished(all, about_));
  }
  return list;
}

}  // namespace harness::checks
