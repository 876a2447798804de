#include "harness/diagnose/diagnosis.h"

#include <algorithm>
#include <utility>

#include "harness/diagnose/on_record.h"
#include "harness/scenario/case_json.h"
#include "harness/scenario/experiment.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

using State = Question::State;
using Certainty = Diagnosis::Certainty;

constexpr const char* kAgain = "again";
constexpr const char* kSmaller = "smaller";
// Seconds: of a shorter one ten experiments fit into the usual two minutes.
constexpr double kLongCase = 10.0;
constexpr double kCostOfSmaller = 0.5;  // in runs of the case

enum class Answer { alike, gone, another, unjudged };

Answer answer_of(const std::vector<Cause>& causes, const Ran& ran) {
  if (ran.outcome == Outcome::pass) return Answer::gone;
  if (!has_failed(ran.outcome)) return Answer::unjudged;
  return fails_alike(causes, ran.causes) ? Answer::alike : Answer::another;
}

std::string saw_text(const Ran& ran) {
  if (ran.outcome == Outcome::pass) return "PASS";
  const std::string word = name_of(ran.outcome);
  if (has_failed(ran.outcome) && !ran.causes.empty())
    return word + " " + ran.causes.front().title();
  return word + " (" + ran.reason + ")";
}

// The widths of a toy model, and one layer above those that the failure names. What a failure may depend on itself
// (lengths, ranks, steps, options) stays as it was.
Scenario smaller_sizes(Scenario scenario, const Site& site) {
  constexpr std::int64_t kDim = 128;
  constexpr std::int64_t kMlpRatio = 2;
  scenario.model.dim = std::min(scenario.model.dim, kDim);
  scenario.model.mlp_ratio = std::min(scenario.model.mlp_ratio, kMlpRatio);
  if (site.layers.empty()) return scenario;
  const int layers = *std::max_element(site.layers.begin(), site.layers.end()) + 2;
  scenario.model.n_layers = std::min<std::int64_t>(scenario.model.n_layers, layers);
  std::erase_if(scenario.parallel.checkpoint_layers, [&](int layer) { return layer >= layers; });
  return scenario;
}

// A row of the table and one of its changes.
struct Asked {
  const Experiment* row = nullptr;
  Change change;
  Question question;
  bool is_no_case = false;
};

std::string what_of(const Experiment& row, const Change& change) {
  return change.what.empty() ? row.what : change.what;
}

// Those that the case has, the most telling first: those that the code speaks for, then the cheapest.
std::vector<Asked> questions_of(const Case& failing, const Cause& symptom) {
  std::vector<Asked> all;
  for (const Experiment& row : all_experiments()) {
    if (!row.only_of.empty() && !begins_with_any(symptom.code, row.only_of)) continue;
    for (Change& change : row.changes(failing.scenario, symptom)) {
      Asked asked{&row, std::move(change), {}};
      asked.question.about = row.question;
      asked.question.what = what_of(row, asked.change);
      asked.question.change =
          difference(asked.change.with.value_or(failing.scenario), asked.change.without);
      all.push_back(std::move(asked));
    }
  }
  const auto is_first = [&](const Asked& asked) {
    return begins_with_any(symptom.code, asked.row->first_of);
  };
  std::stable_sort(all.begin(), all.end(), [&](const Asked& a, const Asked& b) {
    if (is_first(a) != is_first(b)) return is_first(a);
    return a.row->cost < b.row->cost;
  });
  return all;
}

std::string without_text(const Question& question) {
  return "Removing " + question.what + " (" + question.change + ")";
}

class Search {
 public:
  Search(const Case& failing, const std::vector<Cause>& causes, std::span<const Ran> ran)
      : failing_(failing), causes_(causes), ran_(ran), seconds_(ran.front().seconds) {
    found_.symptom = causes.front();
  }

  Diagnosis run() {
    found_.repeats.push_back(ran_.front());
    if (!is_as_it_was(ran_.front())) return std::move(found_);
    if (const std::string record = shown_by_record(failing_.scenario, causes_); !record.empty()) {
      found_.certainty = Certainty::recorded;
      found_.because.push_back(record);
      return std::move(found_);
    }
    ask_all();
    conclude();
    return std::move(found_);
  }

 private:
  // False: the case itself did not fail alike; then nothing can be said of it.
  bool is_as_it_was(const Ran& ran) {
    if (answer_of(causes_, ran) == Answer::alike) return true;
    contradiction_ = "Run again as it was, the case ended with " + saw_text(ran) +
                     ": it is not deterministic, or needs something that is not in the case";
    found_.because = {contradiction_};
    return false;
  }

  void ask_all() {
    const Ran* again = take(kAgain, failing_.scenario, 1.0);
    if (again != nullptr) {
      found_.repeats.push_back(*again);
      if (is_as_it_was(*again)) make_smaller();
    }
    std::vector<Asked> questions = questions_of(failing_, causes_.front());
    for (Asked& asked : questions) {
      if (found_.next || !contradiction_.empty()) break;
      ask(asked);
    }
    for (Asked& asked : questions) {
      if (!asked.is_no_case) found_.questions.push_back(std::move(asked.question));
    }
  }

  // A long case is asked in a smaller one, where that fails alike at the same place. One try: each costs its time. What stands
  // still or is ended at its limit takes as long in any size.
  void make_smaller() {
    if (begins_with_any(causes_.front().code, "HANG. SLOW.")) return;
    const Scenario smaller = smaller_sizes(failing_.scenario, causes_.front().site);
    if (seconds_ < kLongCase || smaller == failing_.scenario) return;
    const Ran* ran = take(kSmaller, smaller, kCostOfSmaller);
    if (ran == nullptr) return;
    found_.repeats.push_back(*ran);
    if (!is_at_same_place(*ran)) return;
    found_.smaller = difference(failing_.scenario, smaller);
    failing_.scenario = smaller;
    seconds_ = ran->seconds;
  }

  // A change may give no case at all: sizes and options depend on each other. What was run was one.
  [[nodiscard]] bool is_no_case(const Asked& asked) const {
    const std::string what = " " + asked.question.what;
    const bool was_run = std::any_of(ran_.begin(), ran_.end(), [&](const Ran& one) {
      return one.name == "without" + what || one.name == "with" + what;
    });
    if (was_run) return false;
    try {
      (void)experiment_on(failing_, asked.change.without, "");
      if (asked.change.with) (void)experiment_on(failing_, *asked.change.with, "");
    } catch (const nsa::Error&) {
      return true;
    }
    return false;
  }

  // The run of this name; nullptr: it is what is to be run next, in about so many runs of the case.
  const Ran* take(const std::string& name, const Scenario& scenario, double cost) {
    const auto at =
        std::find_if(ran_.begin(), ran_.end(), [&](const Ran& one) { return one.name == name; });
    if (at != ran_.end()) return &*at;
    found_.next = experiment_on(failing_, scenario, name);
    found_.next_seconds = cost * seconds_;
    return nullptr;
  }

  void ask(Asked& asked) {
    asked.is_no_case = is_no_case(asked);
    if (asked.is_no_case) return;
    if (asked.change.with) {
      ask_from_below(asked);
    } else {
      ask_plainly(asked);
    }
  }

  const Ran* take_for(Asked& asked, const std::string& words, bool with) {
    const Scenario& scenario =
        !with ? asked.change.without : asked.change.with.value_or(failing_.scenario);
    const double cost = with && !asked.change.with ? 1.0 : asked.row->cost;
    const Ran* ran = take(words, scenario, cost);
    if (ran != nullptr) {
      asked.question.runs.push_back(*ran);
    } else if (const Ran* before = run_before(asked.question, with)) {
      found_.next_seconds =
          before->seconds;  // the same case: what is gone may have been what took the time
    }
    return ran;
  }

  static const Ran* run_before(const Question& question, bool with) {
    const auto at = std::find_if(question.runs.begin(), question.runs.end(), [&](const Ran& ran) {
      return ran.name.starts_with("without ") != with;
    });
    return at == question.runs.end() ? nullptr : &*at;
  }

  // Without it, with it again, and twice more without it.
  void ask_plainly(Asked& asked) {
    Question& question = asked.question;
    const Ran* without = take_for(asked, "without " + question.what, false);
    if (without == nullptr || !goes(asked, *without)) return;
    if (asked.row->takes == Takes::what_shows_it) {
      question.state = State::needed;
      question.says = without_text(question) + " removes the symptom, and also what shows it";
      return;
    }
    const Ran* with = take_for(asked, "with " + question.what, true);
    if (with == nullptr || !is_as_it_was(*with)) return;
    if (asked.row->takes == Takes::also_the_draw) {
      establish_in_other_draws(asked);
    } else {
      establish(asked);
    }
  }

  // Both cases are smaller than the case itself, so the symptom is looked for in the one first, and at the same place.
  void ask_from_below(Asked& asked) {
    Question& question = asked.question;
    const Ran* with = take_for(asked, "with " + question.what, true);
    if (with == nullptr) return;
    if (!is_at_same_place(*with)) {
      question.state = State::unclear;
      question.says = question.what + " alone does not show it (" + saw_text(*with) +
                      "): it takes more than that";
      return;
    }
    const Ran* without = take_for(asked, "without " + question.what, false);
    if (without == nullptr || !goes(asked, *without)) return;
    const Ran* again = take_for(asked, "with " + question.what + " again", true);
    if (again == nullptr) return;
    if (!is_at_same_place(*again)) {
      contradict(question, *again);
      return;
    }
    establish(asked);
  }

  [[nodiscard]] bool is_at_same_place(const Ran& ran) const {
    if (answer_of(causes_, ran) != Answer::alike) return false;
    const Site& wanted = causes_.front().site;
    const Site& seen = ran.causes.front().site;
    return seen.layers == wanted.layers && seen.ranks == wanted.ranks;
  }

  // Whether the symptom goes without it and nothing comes in its place.
  bool goes(Asked& asked, const Ran& without) {
    Question& question = asked.question;
    switch (answer_of(causes_, without)) {
      case Answer::gone: return true;
      case Answer::alike:
        question.state = State::stays;
        question.says = asked.row->stays;
        return false;
      case Answer::another:
        question.state = State::unclear;
        question.says = "without it the case fails in another way (" + saw_text(without) +
                        "): this says nothing";
        return false;
      case Answer::unjudged:
        question.state = State::unclear;
        question.says =
            "without it the case was not judged (" + saw_text(without) + "): this says nothing";
    }
    return false;
  }

  // Once could be chance; so could twice, where it fails nine times of ten.
  void establish(Asked& asked) {
    Question& question = asked.question;
    for (const char* time : {" again", " once more"}) {
      const Ran* without = take_for(asked, "without " + question.what + time, false);
      if (without == nullptr) return;
      if (answer_of(causes_, *without) != Answer::gone) {
        contradict(question, *without);
        return;
      }
    }
    question.state = State::established;
    question.says =
        without_text(question) + " removed the symptom. Putting it back brought it back";
  }

  // The numbers that showed it may have gone with it. In other draws they are there again.
  void establish_in_other_draws(Asked& asked) {
    constexpr std::int64_t kFar = 101;
    Question& question = asked.question;
    for (const char* draw : {" in another draw", " in a third draw"}) {
      asked.change.without.seed += kFar;
      const Ran* without = take_for(asked, "without " + question.what + draw, false);
      if (without == nullptr || !goes(asked, *without)) return;
    }
    question.state = State::established;
    question.says = without_text(question) +
                    " removed the symptom, in two other draws too. Putting it back brought it back";
  }

  void contradict(const Question& question, const Ran& ran) {
    contradiction_ = "The same case, run twice (" + ran.name + "), ended differently, then with " +
                     saw_text(ran) + ": " + question.what +
                     " explains nothing, it is not deterministic";
    found_.because = {contradiction_};
  }

  void conclude() {
    if (!contradiction_.empty()) {
      found_.certainty = Certainty::unknown;
      return;
    }
    for (const Question& question : found_.questions) {
      if (question.state == State::established) found_.because.push_back(question.says);
    }
    if (!found_.because.empty()) {
      found_.certainty = Certainty::established;
    } else if (const std::string mistake = known_mistake(); !mistake.empty() && !found_.next) {
      found_.certainty = Certainty::reproduced;
      found_.because.push_back(mistake);
      tell_what_says_nothing();
    } else if (has_answer(State::stays) || has_answer(State::needed)) {
      found_.certainty = Certainty::supported;
      found_.because.push_back("Nothing that could be removed removed the symptom alone");
      tell_what_says_nothing();
    } else {
      found_.because.push_back("Nothing that could be removed gave an answer");
    }
  }

  [[nodiscard]] bool has_answer(State state) const { return !things_that(state).empty(); }

  [[nodiscard]] std::vector<std::string> things_that(State state) const {
    std::vector<std::string> things;
    for (const Question& question : found_.questions) {
      if (question.state == state) things.push_back(question.what);
    }
    return things;
  }

  // Neither for nor against: what shows the failure, and what gave no answer.
  void tell_what_says_nothing() {
    std::vector<std::string> things = things_that(State::needed);
    const std::vector<std::string> unclear = things_that(State::unclear);
    things.insert(things.end(), unclear.begin(), unclear.end());
    if (things.empty()) return;
    found_.because.push_back("What was seen without these was not counted: " + nsa::join(things));
  }

  // A sentence, or "". With other numbers drawn the case must fail alike too.
  [[nodiscard]] std::string known_mistake() const {
    std::vector<std::vector<Cause>> alike;
    for (const Ran& ran : found_.repeats) alike.push_back(ran.causes);
    bool in_another_draw = false;
    for (const Question& question : found_.questions) {
      if (question.state != State::stays) continue;
      for (const Ran& ran : question.runs) alike.push_back(ran.causes);
      in_another_draw = in_another_draw || question.what == kDraw;
    }
    return in_another_draw ? reproduced_by_law(causes_, alike) : "";
  }

  Case failing_;  // or the smaller one that stands for it
  const std::vector<Cause>& causes_;
  std::span<const Ran> ran_;
  double seconds_ = 0.0;       // that it takes
  std::string contradiction_;  // why nothing is established, "" where nothing contradicts
  Diagnosis found_;
};

}  // namespace

Diagnosis diagnose(const Case& failing,
                   const std::vector<Cause>& causes,
                   std::span<const Ran> ran) {
  return Search(failing, causes, ran).run();
}

}  // namespace harness
