// Are the counts that a rank reports of its updates those of the state on record before and after each step? Whether a step was
// left out, and whether updates were lost, is judged from them. A count goes on from the one that was reported before the step: a
// wrong one is told once, and what is counted wrongly after it is a mistake of its own.
#include <algorithm>
#include <sstream>
#include <string>

#include "harness/checks/parameter_names.h"
#include "harness/checks/series.h"
#include "harness/checks/step/step_stages.h"
#include "oracles/training/scaler.h"

namespace harness::checks {
namespace {

// Numbers of a parameter that are on record, and those of them that the step changed.
struct Moved {
  std::int64_t recorded = 0;
  std::int64_t moved = 0;
};

Moved moved_of(const StepFile& file, const std::string& param) {
  const oracles::Numbers before = file.numbers("p." + param);
  const oracles::Numbers after = file.numbers("p1." + param);
  Moved found;
  if (before.size() != after.size()) return found;
  found.recorded = before.size();
  for (std::int64_t i = 0; i < before.size(); ++i) {
    if (!(before[i] == after[i])) ++found.moved;
  }
  return found;
}

// What a rank reports may be no count at all.
std::int64_t goes_on_from(double told, std::int64_t wanted) {
  constexpr double kMost = 1e15;
  return told >= 0.0 && told < kMost ? static_cast<std::int64_t>(told) : wanted;
}

class CountJudge {
 public:
  explicit CountJudge(StepJudge& judge)
      : judge_(judge), skipped_(series_of(judge.run.evidence, "skipped_steps")) {
    for (const auto& row : judge.run.evidence.states) {
      if (row.process >= 0 && row.row.part == "scaler") {
        states_.put({row.process, row.row.step}, row);
      }
    }
    for (const auto& row : judge.run.evidence.updates) {
      if (row.process >= 0) updates_.put({{row.process, row.row.step}, row.row.param}, row);
    }
  }

  void judge() {
    for (const int rank : all_ranks(judge_.run.evidence)) judge_rank(rank);
    if (judged_ > 0) judge_.judged.push_back(std::to_string(judged_) + " reported counts");
  }

 private:
  void judge_rank(int rank) {
    std::int64_t left_out = 0;  // up to the step before
    oracles::LossScale scale;   // after it
    for (std::int64_t step = 1; step <= judge_.run.training.steps; ++step) {
      const StepFile* file = judge_.file(rank, step);
      if (file == nullptr) return;  // already missing
      judge_lost(*file);
      const bool taken = file->moved(judge_.run.params);
      left_out = judge_skipped(*file, left_out + (taken ? 0 : 1));
      scale = oracles::scale_after(scale, taken);
      scale.taken = judge_row(*file, scale.taken);
    }
  }

  // What moved was not lost, and of what is wholly on record, what did not move was.
  void judge_lost(const StepFile& file) {
    Departure departure = step_departure(
        "OPT.UPDATE_WRONG", "told_updates", file.rank, file.step, "optimizer", {}, {});
    std::int64_t found = 0;
    std::int64_t wanted = 0;
    const bool left_out = judge_.run.scales_loss && !file.moved(judge_.run.params);
    for (const std::string& param : judge_.run.params) {
      const Update* row = updates_.find({{file.rank, file.step}, param});
      const Moved on_record = moved_of(file, param);
      if (row == nullptr || on_record.recorded == 0) continue;
      ++judged_;
      const std::int64_t most = row->elements - on_record.moved;
      const bool whole = on_record.recorded == row->elements;
      const std::int64_t least = whole ? row->wanted - on_record.moved : 0;
      const std::int64_t right = std::min(std::max(row->lost, least), most);
      if (row->lost != right || row->skipped != left_out) depart(file, param, right, left_out);
      if (row->lost == right) continue;
      departure.params.push_back(param);
      found += row->lost;
      wanted += right;
    }
    if (departure.params.empty()) return;
    departure.site.detail["found"] = found;
    departure.site.detail["wanted"] = wanted;
    judge_.told.add(std::move(departure));
  }

  // The worker compares the state before and after the step, which is on record.
  void depart(const StepFile& file, const std::string& param, std::int64_t lost, bool skipped) {
    judge_.result.departed({"the update of " + param + " of " + process_name(file.rank) +
                                ", step " + std::to_string(file.step) + ", in the ledger",
                            "update ledger",
                            [=, rank = file.rank, step = file.step](Evidence& evidence) {
                              for (From<Update>& from : evidence.updates) {
                                const bool same = from.process == rank && from.row.step == step;
                                if (!same || from.row.param != param) continue;
                                from.row.lost = lost;
                                from.row.skipped = skipped;
                              }
                            },
                            true});
  }

  // Only a loss scale leaves steps out. Returns what was reported, or `wanted` where nothing was.
  std::int64_t judge_skipped(const StepFile& file, std::int64_t wanted) {
    const Sample* told = skipped_.find({file.rank, file.step});
    if (told == nullptr) return wanted;
    compare({"told_skips", "number of skipped steps"}, file, told->value, wanted);
    return goes_on_from(told->value, wanted);
  }

  // The state that a snapshot keeps: "scale taken skipped", where taken counts steps since the scale last changed.
  std::int64_t judge_row(const StepFile& file, std::int64_t wanted) {
    const StateHash* told = states_.find({file.rank, file.step});
    if (told == nullptr) return wanted;
    std::istringstream parts(told->hash);
    double scale = 0;
    double found = -1;
    parts >> scale >> found;
    compare({"told_row", "number of steps since the loss scale changed"}, file, found, wanted);
    return goes_on_from(found, wanted);
  }

  struct Count {
    const char* op;
    const char* what;  // for people
  };
  void compare(const Count& count, const StepFile& file, double found, std::int64_t wanted) {
    if (!judge_.run.scales_loss) return;
    ++judged_;
    if (found == static_cast<double>(wanted)) return;
    Departure departure = step_departure("SCALER.WRONG", count.op, file.rank, file.step, "optimizer", {}, {});
    departure.site.detail["what"] = count.what;
    departure.site.detail["found"] = found;
    departure.site.detail["wanted"] = wanted;
    judge_.told.add(std::move(departure));
  }

  StepJudge& judge_;
  Series skipped_;
  Latest<RankStep, StateHash> states_;  // of the scaler
  Latest<std::pair<RankStep, std::string>, Update> updates_;
  std::int64_t judged_ = 0;
};

}  // namespace

void judge_counts(StepJudge& judge) {
  CountJudge(judge).judge();
}

}  // namespace harness::checks
