#include "harness/judge/unused_facts.h"

#include <algorithm>
#include <map>
#include <set>

namespace harness {
namespace {

constexpr int kMostTrials = 8;  // each judges again

using Names = std::set<std::string>;

bool all_pass(std::span<const CheckResult> verdicts) {
  return std::all_of(verdicts.begin(), verdicts.end(), [](const CheckResult& verdict) {
    return verdict.verdict == Verdict::pass;
  });
}

// The facts of one writer, and all that departs.
struct Departures {
  Names all;
  std::vector<std::string> writers;  // in the order in which the checks name them
  std::map<std::string, std::vector<Departed>> of_writer;
};

Departures departures_of(std::span<const CheckResult> verdicts) {
  Departures found;
  for (const CheckResult& verdict : verdicts) {
    for (const Departed& departed : verdict.departed) {
      const bool is_new = found.all.insert(departed.what).second;
      std::vector<Departed>& own = found.of_writer[departed.writer];
      if (own.empty()) found.writers.push_back(departed.writer);
      // One check knows what is right, and another one may not.
      const auto same = std::find_if(own.begin(), own.end(), [&](const Departed& known) {
        return known.what == departed.what;
      });
      if (is_new || same == own.end()) {
        own.push_back(departed);
      } else if (!same->put_right) {
        *same = departed;
      }
    }
  }
  return found;
}

Names without(const Names& all, const Names& some) {
  Names rest;
  std::set_difference(
      all.begin(), all.end(), some.begin(), some.end(), std::inserter(rest, rest.end()));
  return rest;
}

class Search {
 public:
  Search(const Evidence& evidence,
         std::span<const CheckResult> verdicts,
         const JudgeAgain& judge_again)
      : evidence_(evidence), departures_(departures_of(verdicts)), judge_again_(judge_again) {}

  std::string run() {
    while (put_one_right()) {
      if (all_pass_) return text_;
    }
    return "";
  }

 private:
  // False where nothing more can be put right.
  bool put_one_right() {
    for (const std::string& writer : departures_.writers) {
      const std::vector<Departed>& facts = departures_.of_writer.at(writer);
      const bool known = std::all_of(facts.begin(), facts.end(), [](const Departed& fact) {
        return static_cast<bool>(fact.put_right);
      });
      if (known && done_.count(writer) == 0 && is_put_right(writer, facts)) return true;
    }
    return false;
  }

  bool is_put_right(const std::string& writer, const std::vector<Departed>& facts) {
    Names own;
    for (const Departed& fact : facts) own.insert(fact.what);
    const Names others = without(departures_.all, own);
    const bool is_report = facts.front().is_report;
    if ((others.empty() && !is_report) || trials_ >= kMostTrials) return false;
    Evidence trial = evidence_;
    for (const Departed& fact : facts) fact.put_right(trial);
    ++trials_;
    const std::vector<CheckResult> verdicts = judge_again_(trial);
    Departures left = departures_of(verdicts);
    const Names follow = without(others, left.all);
    if (!without(left.all, others).empty() || (follow.empty() && !is_report)) return false;
    if (!follow.empty() && !is_due_to_numbers(trial, follow)) return false;
    text_ += text_.empty() ? "" : "; ";
    text_ += facts.front().what;
    if (facts.size() > 1) text_ += " and " + std::to_string(facts.size() - 1) + " more";
    text_ += " (" + writer +
             ") do not follow from the rest of the record, and nothing was computed from them";
    if (!follow.empty()) text_ += ": " + *follow.begin() + " follows from what would";
    done_.insert(writer);
    evidence_ = std::move(trial);
    departures_ = std::move(left);
    all_pass_ = all_pass(verdicts);
    return true;
  }

  // Checks give room for the error of a stand-in. Does something depart with this room and the recorded numbers?
  bool is_due_to_numbers(Evidence trial, const Names& follow) const {
    bool has_room = false;
    for (auto& [path, tensors] : trial.stand_ins) {
      for (auto& [name, stand_in] : tensors) {
        const auto file = evidence_.stand_ins.find(path);
        if (file != evidence_.stand_ins.end() && file->second.count(name) > 0) continue;
        stand_in.bytes.clear();
        has_room = true;
      }
    }
    if (!has_room) return true;
    const Names departed = departures_of(judge_again_(trial)).all;
    return std::any_of(follow.begin(), follow.end(), [&](const std::string& what) {
      return departed.count(what) > 0;
    });
  }

  Evidence evidence_;
  Departures departures_;
  const JudgeAgain& judge_again_;
  std::set<std::string> done_;  // writers
  std::string text_;
  bool all_pass_ = false;
  int trials_ = 0;
};

}  // namespace

std::string unused_fact(const Evidence& evidence,
                        std::span<const CheckResult> verdicts,
                        const JudgeAgain& judge_again) {
  const bool any = std::any_of(verdicts.begin(), verdicts.end(), [](const CheckResult& verdict) {
    return !verdict.findings.empty();
  });
  if (!any) return "";
  return Search(evidence, verdicts, judge_again).run();
}

}  // namespace harness
