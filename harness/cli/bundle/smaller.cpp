#include "harness/cli/bundle/smaller.h"

#include <chrono>

#include "harness/cli/bundle/stored.h"
#include "harness/cli/output.h"
#include "harness/cli/signals.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::string saw_text(const Judgement& judgement, const std::vector<Cause>& causes) {
  std::string text = name_of(judgement.outcome);
  if (!causes.empty()) return text + " " + causes.front().title();
  return judgement.outcome == Outcome::pass ? text : text + " (" + judgement.reason + ")";
}

class Trier {
 public:
  Trier(const Bundle& bundle, Tries& tries, double seconds)
      : expected_(bundle.failing.causes), tries_(tries), limit_(seconds) {}

  TryResult operator()(const Case& the_case) {
    if (interrupted() != 0) throw nsa::Error("interrupted: no bundle was written");
    const double begin = elapsed();
    if (begin + last_ > limit_) return {false, false, ""};
    const Judgement judgement = tries_.run(the_case);
    if (interrupted() != 0) throw nsa::Error("interrupted: no bundle was written");
    std::vector<Cause> causes = causes_of(judgement);
    TryResult result;
    result.alike = has_failed(judgement.outcome) && fails_alike(expected_, causes);
    result.saw = saw_text(judgement, causes);
    if (result.alike) {
      last_ = elapsed() - begin;
      smallest_ = {the_case, judgement.outcome, std::move(causes)};
    }
    ++count_;
    log_line("try " + std::to_string(count_) + ", " + size_text(the_case) + ": " +
             (result.alike ? "fails alike" : result.saw));
    return result;
  }

  [[nodiscard]] const FailingCase& smallest() const { return smallest_; }

 private:
  [[nodiscard]] double elapsed() const {
    return std::chrono::duration<double>(Clock::now() - begun_).count();
  }

  static std::string size_text(const Case& the_case) {
    std::vector<std::string> parts;
    for (const auto& [name, value] : sizes_of(the_case.scenario)) {
      parts.push_back(name.substr(name.find('.') + 1) + " " + std::to_string(value));
    }
    return nsa::join(parts);
  }

  const std::vector<Cause>& expected_;
  Tries& tries_;
  double limit_;
  double last_ = 0.0;  // what the last one that failed alike took
  int count_ = 0;
  Clock::time_point begun_ = Clock::now();
  FailingCase smallest_;
};

std::string tries_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " try" : " tries");
}

std::string told(const Case& original, const Shrunk& shrunk, std::size_t count, double seconds) {
  const std::string changes =
      size_changes(sizes_of(original.scenario), sizes_of(shrunk.smallest.scenario));
  std::string text = changes.empty() ? "not made smaller in " + tries_text(count)
                                     : "made smaller in " + tries_text(count) + ": " + changes;
  if (shrunk.stopped) text += "; ended at the limit of " + nsa::to_text(seconds, 6) + " s";
  return text;
}

}  // namespace

void make_smaller(Bundle& bundle, Tries& tries, double seconds) {
  const Case original = bundle.failing.the_case;
  if (const std::string why = tries.unrunnable(original); !why.empty()) {
    bundle.shrinking = "not tried: " + why;
    return;
  }
  Trier attempt(bundle, tries, seconds);
  const TryResult again = attempt(original);
  bundle.tries.push_back({"none", again.saw, again.alike});
  if (!again.alike) {
    bundle.shrinking =
        "not made smaller: the case itself did not fail alike when it ran again: " + again.saw;
    return;
  }
  const auto is_valid = [&](const Case& one) { return tries.unrunnable(one).empty(); };
  Shrunk shrunk = shrink(original, is_valid, std::ref(attempt));
  bundle.tries.insert(bundle.tries.end(), shrunk.tries.begin(), shrunk.tries.end());
  bundle.shrinking = told(original, shrunk, bundle.tries.size(), seconds);
  if (shrunk.smallest.id == original.id) return;
  bundle.original = std::move(bundle.failing);
  bundle.failing = attempt.smallest();
  bundle.versions = versions_of(tries.provenance());
}

}  // namespace harness::cli
