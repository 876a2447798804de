#include "harness/checks/kernel/kernel_findings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "harness/checks/attention/accuracy/law_codes.h"
#include "harness/checks/kernel/kernel_not_finite.h"
#include "harness/checks/kernel/kernel_roundings.h"
#include "harness/foreign/trials.h"
#include "oracles/laws/tiled_laws.h"

namespace harness::checks {
namespace {

bool is_of_choice(const std::string& code) {
  return code == "SELECTION.WRONG" || code == "RANGE.INVALID";
}

// A list is right, and its empty slots are attended: what is wrong is the output.
bool is_of_empty_slots(const Departure& seen) {
  return seen.code == "RANGE.INVALID" && !seen.laws.empty();
}

// The laws that give what was seen.
std::set<std::string> laws_of(const Departure& seen) {
  std::set<std::string> laws;
  for (const KnownLaw& law : seen.laws) laws.insert(law.name);
  return laws;
}

bool is_about(const Departure& one, const std::string& about) {
  return about_of(one) == about;
}

// The queries before the first compressed key is complete. Only they have no key, and only in this branch.
bool has_no_keys(const Departure& seen, std::int64_t compress_length) {
  const bool compressed = seen.site.branch == "cmp" || seen.site.op == "score";
  return compressed && !is_backward(seen) && !seen.site.rows.empty() &&
         seen.site.rows.back() < compress_length - 1;
}

// Numbers that are not finite, in every trial in which something is wrong. Where that is the one with NaNs in memory between
// the rows of its inputs, they come from there.
Departure told_not_finite(const std::vector<const Departure*>& all, std::int64_t compress_length) {
  Departure told;
  told.code = kNotFinite;
  const auto each = [&](auto fits) { return std::all_of(all.begin(), all.end(), fits); };
  if (each([](const Departure* one) { return one->facts.at("trial").front() == kGaps; })) {
    told.code = is_backward(*all.front()) ? "NUMERIC.GRADIENT" : "NUMERIC.FORWARD";
    told.laws = {{"strides_ignored",
                  "it reads memory between the rows of its inputs, where NaNs are: right for "
                  "contiguous inputs only"}};
  } else if (each([&](const Departure* one) { return has_no_keys(*one, compress_length); })) {
    told.facts["about"] = "they come before the first compressed key is complete, and have no key";
  }
  return told;
}

// Laws are the same where their numbers are: a factor of 2 in one trial and of 3 in another is none.
bool is_same_law(const KnownLaw& one, const KnownLaw& other) {
  constexpr double kOfDigits =
      0.02;  // a factor is as uncertain as the number that it was taken from
  return one.name == other.name && (!oracles::tiled_law(one.name) || one.detail == other.detail) &&
         std::abs(one.number - other.number) <= kOfDigits * std::abs(one.number);
}

// One for each form that fits: tiles of 16, tiles of 32.
std::vector<KnownLaw> each_form(const std::vector<KnownLaw>& laws) {
  std::vector<KnownLaw> all;
  for (const KnownLaw& law : laws) {
    if (oracles::tiled_law(law.name) == nullptr) {
      all.push_back(law);
      continue;
    }
    for (const std::string& form : oracles::forms_in(law.detail)) {
      all.push_back(law);
      all.back().detail = form;
    }
  }
  return all;
}

// Those of one law are one again.
void join_forms(std::vector<KnownLaw>& laws) {
  std::map<std::string, std::string> forms;  // by law
  for (const KnownLaw& law : laws) {
    std::string& all = forms[law.name];
    all += (all.empty() ? "" : " or ") + law.detail;
  }
  std::vector<KnownLaw> joined;
  for (KnownLaw& law : laws) {
    const bool first = std::none_of(joined.begin(), joined.end(), [&](const KnownLaw& other) {
      return other.name == law.name;
    });
    if (const oracles::Law* const tiled = oracles::tiled_law(law.name)) {
      law.about = std::string(tiled->about) + ": " + forms.at(law.name);
    }
    if (first) joined.push_back(std::move(law));
  }
  laws = std::move(joined);
}

// What a law that was found in all trials is worth.
struct CommonLaw {
  KnownLaw law;
  std::vector<ResultPlace> refuting;  // of all trials
};

// Laws that give what was seen in every trial in which something is wrong. A short trial leaves laws undecided that a long one
// tells apart.
std::vector<CommonLaw> common_laws(const std::vector<const Departure*>& all,
                                   const std::string& about,
                                   const LawsInTrials& trials) {
  std::vector<CommonLaw> common;
  std::set<std::string> tensors;
  for (const Departure* one : all) tensors.insert(one->tensors.begin(), one->tensors.end());
  std::vector<std::vector<KnownLaw>> laws;  // by departure
  for (const Departure* one : all) laws.push_back(each_form(one->laws));
  for (const KnownLaw& law : laws.front()) {
    const bool everywhere = std::all_of(laws.begin(), laws.end(), [&](const auto& own) {
      return std::any_of(own.begin(), own.end(), [&](const KnownLaw& other) {
        return is_same_law(law, other) && (other.share >= 1.0 || !oracles::is_pattern(law.name));
      });
    });
    if (everywhere) common.push_back({law, trials.refuting(about, law, tensors)});
  }
  return common;
}

// Of all departures that are about one result: the laws that no right row refutes, or which rows are wrong.
struct Told {
  std::string code;
  std::vector<KnownLaw> laws;
  Facts facts;
  std::set<int> sequences;  // that are wrong where others of their batch are right
};

// A law that holds in a part of the rows is none. But where the part is known, and the law gives every row of it, right or
// wrong, that is worth telling. In rows that come again and again it is not: a block's first row, for example, has no other key
// of its block, and many mistakes are the same there.
void put_part(const std::vector<CommonLaw>& common,
              const std::string& about,
              const LawsInTrials& trials,
              std::int64_t heads_per_group,
              Facts& facts) {
  const WrongPart part = part_of(trials.places(about), heads_per_group);
  if (part.words.empty()) return;
  facts["pattern"] = part.words;
  std::vector<std::string> there;
  for (const CommonLaw& law : common) {
    const bool outside = std::none_of(law.refuting.begin(), law.refuting.end(), part.belongs);
    if (outside && !part.repeats && about != kGradients && about != "y") {
      there.push_back(law.law.name);
    }
  }
  if (there.size() == 1) facts["there"] = there.front();
}

void put_first(const std::string& about, const LawsInTrials& trials, Facts& facts) {
  if (const auto first = trials.first_wrong(about)) {
    facts["first"] = first->words;
    facts["found"] = Real(first->found);
    facts["wanted"] = Real(first->wanted);
  }
  if (const auto alone = trials.right_alone(about)) facts["alone"] = *alone;
}

Told told_of(const std::vector<const Departure*>& all,
             const std::string& about,
             const LawsInTrials& trials,
             const nsa::ModelConfig& model) {
  Told told;
  told.code = about == kGradients ? "NUMERIC.GRADIENT" : "NUMERIC.FORWARD";
  if (is_of_choice(about)) {
    told.code = about;
    told.laws = all.front()->laws;  // they are of a list, and the same for all lists
    for (const Departure* one : all) {
      std::erase_if(told.laws,
                    [&](const KnownLaw& law) { return laws_of(*one).count(law.name) == 0; });
    }
    return told;
  }
  const bool finite = std::any_of(
      all.begin(), all.end(), [](const Departure* one) { return one->code != kNotFinite; });
  put_first(about, trials, told.facts);
  told.sequences = trials.wrong_sequences(about);
  if (!finite) {
    Departure seen = told_not_finite(all, model.l);
    told.code = seen.code;
    told.laws = seen.laws;
    if (seen.facts.contains("about")) told.facts["about"] = seen.facts.at("about");
    put_part({}, about, trials, model.heads_per_group(), told.facts);
    return told;
  }
  const std::vector<CommonLaw> common = common_laws(all, about, trials);
  for (const CommonLaw& law : common) {
    if (law.refuting.empty()) told.laws.push_back(law.law);
  }
  join_forms(told.laws);
  if (told.laws.empty()) {
    if (auto kept = trials.kept_law(about)) told.laws.push_back(std::move(*kept));
  }
  if (told.laws.size() == 1 && is_rounding(told.laws.front().name)) {
    for (const Departure* one : all) {
      const double times = one->error / one->limit.value_or(1.0);
      told.facts["factor"] = std::max(times, told.facts.value("factor", 0.0));
    }
  }
  if (told.laws.empty()) {
    put_part(common, about, trials, model.heads_per_group(), told.facts);
  } else if (about != kGradients) {
    told.code = code_of(told.laws);
  }
  return told;
}

// The one sequence of a batch that is wrong is a place. The words of a part may name it too.
void put_sequences(const Told& told, Departure& seen) {
  if (told.sequences.size() == 1) seen.site.sequence = *told.sequences.begin();
  if (told.sequences.empty() || told.facts.contains("pattern")) return;
  std::vector<std::string> names;
  for (const int sequence : told.sequences) names.push_back("sequence " + std::to_string(sequence));
  seen.facts["sequences"] = names;
}

void erase(const std::string& about,
           std::vector<Departure>& list,
           std::map<std::string, Told>& told) {
  std::erase_if(list, [&](const Departure& one) { return is_about(one, about); });
  told.erase(about);
}

// Of a whole layer, one mistake is seen in many outputs. A mistake of the sum that explains all of them is reported of the sum;
// else what one branch alone gives tells more than the sum of all; the choice follows from the compressed keys; and a gradient is
// judged where every output is right. It is wrong in the one branch in which it is wrong alone, if any.
void keep_what_tells_most(std::vector<Departure>& list, std::map<std::string, Told>& told) {
  std::set<std::string> branches;
  for (const Departure& one : list) {
    if (one.site.op != "attention") return;
    if (!one.site.branch.empty() && is_backward(one)) branches.insert(one.site.branch);
  }
  const auto has = [&](const char* about) { return told.count(about) > 0; };
  if (told.size() > (has(kGradients) ? 1U : 0U)) erase(kGradients, list, told);
  if (has("y") && !told.at("y").laws.empty()) {
    for (const char* output : {"o_cmp", "o_sel", "o_win"}) erase(output, list, told);
  } else if (has("o_cmp") || has("o_sel") || has("o_win")) {
    erase("y", list, told);
    if (has("o_cmp")) erase("o_sel", list, told);
  }
  for (Departure& one : list) {
    if (is_backward(one)) one.site.branch = branches.size() == 1 ? *branches.begin() : "";
  }
}

std::set<int> trials_of(const std::vector<Departure>& list, const std::string& about) {
  std::set<int> trials;
  for (const Departure& one : list) {
    if (is_about(one, about)) trials.insert(one.site.layers.front());
  }
  return trials;
}

// Of one branch: the sums are wrong wherever the output of their softmax is, and then they are reported with it. If a kernel's
// output is wrong in the first trial, its gradients are those of another function, also where its output happens to be right.
void keep_what_others_follow_from(std::vector<Departure>& list, std::map<std::string, Told>& told) {
  const auto output = std::find_if(
      told.begin(), told.end(), [](const auto& one) { return one.first.starts_with("o_"); });
  if (output == told.end() || list.front().site.op == "attention") return;
  const std::set<int> wrong = trials_of(list, output->first);
  const std::set<int> sums = trials_of(list, "lse");
  if (!sums.empty() && told.at("lse").laws.empty() &&
      std::includes(wrong.begin(), wrong.end(), sums.begin(), sums.end())) {
    for (Departure& one : list) {
      if (!is_about(one, output->first)) continue;
      if (sums.contains(one.site.layers.front())) one.tensors.push_back("lse");
    }
    erase("lse", list, told);
  }
  if (wrong.contains(0)) erase(kGradients, list, told);
}

}  // namespace

std::string about_of(const Departure& seen) {
  if (is_of_choice(seen.code) && !is_of_empty_slots(seen)) return seen.code;
  return is_backward(seen) ? kGradients : seen.tensors.front();
}

std::vector<Finding> findings_of(std::vector<Departure> list,
                                 const LawsInTrials& trials,
                                 const Scenario& scenario) {
  if (list.empty()) return {};
  std::map<std::string, std::vector<const Departure*>> all;
  for (const Departure& one : list) all[about_of(one)].push_back(&one);
  std::map<std::string, Told> told;
  for (const auto& [about, departures] : all) {
    told[about] = told_of(departures, about, trials, scenario.model);
  }
  keep_what_tells_most(list, told);
  keep_what_others_follow_from(list, told);
  Departures departures;
  for (Departure& one : list) {
    const Told& of_all = told.at(about_of(one));
    one.code = of_all.code;
    one.laws = of_all.laws;
    for (const auto& fact : of_all.facts.json().items()) one.facts.take(fact.key(), of_all.facts);
    put_sequences(of_all, one);
    const int trial = one.site.layers.front();
    Departure seen = placed(std::move(one), {0, 1, trial});
    const bool chose = is_of_choice(seen.code) && seen.variant != "law";
    seen.variant = chose ? "kernel_" + seen.variant : "kernel";
    if (seen.facts.contains("factor")) seen.variant = "kernel_rounding";
    departures.add(std::move(seen));
  }
  return departures.findings();
}

}  // namespace harness::checks
