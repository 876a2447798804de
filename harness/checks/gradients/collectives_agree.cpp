// Do all ranks issue the same collectives in the same order? Judged from each rank's own record, written before an operation
// is enqueued: a back end may complete a mismatch silently, or abort the innocent rank.
#include <algorithm>
#include <optional>
#include <tuple>

#include "harness/checks/flights.h"
#include "harness/checks/gradients/sequences.h"
#include "harness/checks/gradients/travelling_type.h"
#include "harness/checks/list.h"
#include "harness/checks/lives.h"
#include "harness/checks/process/rank_state.h"
#include "harness/checks/result.h"

namespace harness::checks {
namespace {

using Shape =
    std::tuple<std::string, std::string, std::string, std::int64_t>;  // op, reduce op, dtype, count
using Sequence = std::map<std::int64_t, Collective>;

Shape shape_of(const Collective& row) {
  return {row.op, row.reduce_op, row.dtype, row.count};
}

std::string words(const Collective& row) {
  const std::string name = row.op + (row.reduce_op.empty() ? "" : " " + row.reduce_op);
  // Barriers and collectives of objects have no size that is known.
  return row.dtype.empty() ? name : name + " of " + std::to_string(row.count) + " " + row.dtype;
}

using Folded = std::map<std::int64_t, std::int64_t>;  // first and last sequence

struct Group {
  std::map<int, Sequence> of_rank;
  std::map<int, std::int64_t> completed;  // highest sequence done, by rank
  std::map<int, Folded> folded;           // by rank: compared before, and told as a Stretch alone

  // The last one of those around `sequence`.
  [[nodiscard]] std::optional<std::int64_t> folded_to(int rank, std::int64_t sequence) const {
    const auto of = folded.find(rank);
    if (of == folded.end()) return std::nullopt;
    const auto after = of->second.upper_bound(sequence);
    if (after == of->second.begin() || std::prev(after)->second < sequence) return std::nullopt;
    return std::prev(after)->second;
  }
};

bool alive(const Evidence& evidence, int rank) {
  const Exited* end = evidence.exit_of(rank);
  return end == nullptr || end->by_controller;
}

class Sequences {
 public:
  // Only the last life: numbers begin anew in each, and ranks that were ended on purpose do not end at the same place.
  explicit Sequences(const Evidence& evidence) : evidence_(evidence) {
    const int last_life = static_cast<int>(evidence.relaunches.size());
    for (const auto& row : evidence.collectives) {
      if (row.process < 0 || life_at(evidence, row.t_ms) < last_life) continue;
      groups_[row.row.group].of_rank[row.process][row.row.sequence] = row.row;
      seen_.insert(row.process);
    }
    for (const auto& row : evidence.collectives_done) {
      if (row.process < 0 || life_at(evidence, row.t_ms) < last_life) continue;
      const auto [at, is_new] =
          groups_[row.row.group].completed.try_emplace(row.process, row.row.sequence);
      at->second = std::max(at->second, row.row.sequence);
    }
    for (const auto& from : evidence.stretches) {
      plans_ += from.row.plans;
      for (const Stretch::OfRank& rank : from.row.of_ranks) {
        for (const Stretch::OfGroup& of : rank.collectives) {
          Group& group = groups_[of.group];
          group.of_rank[rank.rank];
          group.folded[rank.rank][of.first] = of.last;
          std::int64_t& completed = group.completed[rank.rank];
          completed = std::max(completed, of.last);
          seen_.insert(rank.rank);
        }
      }
    }
  }

  CheckResult judge() {
    if (evidence_.ranks() == 1) return judge_alone();
    if (seen_.empty()) return inconclusive("no collective was recorded");
    for (const int rank : all_ranks(evidence_)) {
      if (seen_.count(rank) == 0) {
        result_.missing("collectives of " + process_name(rank) + ended_early(evidence_, rank),
                        site_of_rank(rank));
      }
    }
    for (const auto& [name, group] : groups_) judge_group(name, group);
    judge_plans();
    // What a script calls by names of its own is in no record of the two lines.
    auto unseen = result_.has_findings() ? std::nullopt : flight_finding(evidence_);
    if (unseen) found(std::move(*unseen));
    // In a command of the user's own nobody asked for a type.
    const bool asked = evidence_.the_case.scenario.kind == "training";
    if (auto other = asked ? other_type_travels(evidence_) : std::nullopt) {
      result_.found(std::move(*other));
    }
    return result_.finish(std::to_string(compared_) + " collectives are the same on " +
                          ranks_text(all_ranks(evidence_)) + ", in the same order; " + "and so " +
                          (plans_ == 1 ? "is" : "are") + " " + counted(plans_, "bucket plan"));
  }

 private:
  CheckResult judge_alone() {
    if (!evidence_.finished(0)) result_.missing("the end of rank 0" + ended_early(evidence_, 0));
    return result_.finish("one rank: no other whose collectives could differ");
  }

  void judge_group(const std::string& name, const Group& group) {
    if (group.of_rank.empty()) return;  // completions without a record of what was enqueued
    look_for_holes(group);
    std::int64_t first_missing = 0;
    while (true) {
      std::set<int> apart;
      if (const auto last = folded_on_all(group, first_missing, apart)) {
        compared_ += *last - first_missing + 1;
        first_missing = *last + 1;
        continue;
      }
      if (!apart.empty()) {
        result_.missing("whether " + ranks_text(to_ints(apart)) + " issued as sequence " +
                        std::to_string(first_missing) + " of group " + name +
                        " what the others did, who were compared before");
        return;
      }
      const std::map<int, Shape> shapes = shapes_at(group, first_missing);
      if (shapes.size() < group.of_rank.size()) break;
      if (!all_equal(shapes)) {
        tell_departure(name, group, first_missing, shapes);
        return;
      }
      ++compared_;
      ++first_missing;
    }
    judge_shorter(name, group, first_missing);
  }

  // The last of the sequences from this one on that all ranks of the group have folded. `apart`: who has not, if others have.
  [[nodiscard]] static std::optional<std::int64_t> folded_on_all(const Group& group,
                                                                 std::int64_t sequence,
                                                                 std::set<int>& apart) {
    std::optional<std::int64_t> last;
    for (const auto& [rank, rows] : group.of_rank) {
      const auto of_rank = group.folded_to(rank, sequence);
      if (!of_rank) {
        apart.insert(rank);
      } else {
        last = last ? std::min(*last, *of_rank) : of_rank;
      }
    }
    if (!last) apart.clear();
    return apart.empty() ? last : std::nullopt;
  }

  // A rank numbers its collectives one after the other and writes each before it begins: a record with a hole, or the end of
  // what never began, is not all that happened.
  void look_for_holes(const Group& group) {
    for (const auto& [rank, rows] : group.of_rank) {
      std::int64_t last = rows.empty() ? -1 : rows.rbegin()->first;
      auto count = static_cast<std::int64_t>(rows.size());
      if (const auto folded = group.folded.find(rank); folded != group.folded.end()) {
        for (const auto& [first, to] : folded->second) {
          count += to - first + 1;
          last = std::max(last, to);
        }
      }
      if (last + 1 != count) {
        result_.missing("collectives of " + process_name(rank) + " without a gap (" +
                            counted(count, "row") + " up to sequence " + std::to_string(last) + ")",
                        site_of_rank(rank));
      }
      const auto completed = group.completed.find(rank);
      if (completed != group.completed.end() && completed->second > last) {
        result_.missing("what " + process_name(rank) + " began as sequence " +
                            std::to_string(completed->second) + ", whose end it tells",
                        site_of_rank(rank));
      }
    }
  }

  [[nodiscard]] static std::map<int, Shape> shapes_at(const Group& group, std::int64_t sequence) {
    std::map<int, Shape> shapes;
    for (const auto& [rank, rows] : group.of_rank) {
      const auto at = rows.find(sequence);
      if (at != rows.end()) shapes[rank] = shape_of(at->second);
    }
    return shapes;
  }

  // From `sequence` on some rank has nothing. That is a fault only of a rank that ended well, or that is there and was
  // overtaken; one that failed on its own account just has fewer.
  void judge_shorter(const std::string& name, const Group& group, std::int64_t sequence) {
    std::vector<int> absent;
    std::vector<int> failed;
    std::vector<int> others;
    for (const auto& [rank, rows] : group.of_rank) {
      if (rows.count(sequence) > 0) {
        others.push_back(rank);
      } else if (evidence_.finished(rank) || overtaken(group, rank, sequence)) {
        absent.push_back(rank);
      } else {
        failed.push_back(rank);
      }
    }
    if (others.empty()) {
      for (const int rank : failed) name_end(rank, sequence);
      return;
    }
    for (const int rank : failed) name_end(rank, sequence);
    if (!absent.empty()) found(missing_rank(name, group, sequence, absent, others));
  }

  [[nodiscard]] bool overtaken(const Group& group, int rank, std::int64_t sequence) const {
    if (!alive(evidence_, rank)) return false;
    return std::any_of(group.completed.begin(), group.completed.end(), [&](const auto& entry) {
      return entry.first != rank && entry.second >= sequence;
    });
  }

  void name_end(int rank, std::int64_t sequence) {
    if (evidence_.finished(rank)) return;
    result_.missing("collectives of " + process_name(rank) + " from sequence " +
                        std::to_string(sequence) + " on" + ended_early(evidence_, rank),
                    site_of_rank(rank));
  }

  [[nodiscard]] static nlohmann::json issued_at(const Group& group, std::int64_t sequence) {
    nlohmann::json issued = nlohmann::json::object();
    for (const auto& [rank, rows] : group.of_rank) {
      issued[process_name(rank)] = words(rows.at(sequence));
    }
    return issued;
  }

  struct InStep {
    IssuedInStep issued;
    std::vector<const Collective*> rows;
  };

  // What a rank issued in a step, its operations as numbers of `known`.
  [[nodiscard]] InStep in_step(int rank,
                               const Sequence& rows,
                               std::int64_t step,
                               std::map<Shape, int>& known) const {
    InStep found;
    for (const auto& [sequence, row] : rows) {
      if (row.step != step) continue;
      const auto number = static_cast<int>(known.size());
      found.issued.operations.push_back(known.try_emplace(shape_of(row), number).first->second);
      found.rows.push_back(&row);
    }
    found.issued.whole = evidence_.finished(rank) || rows.rbegin()->second.step > step;
    return found;
  }

  // From the first step in which two ranks depart from each other: of several ranks, most do the same.
  void tell_departure(const std::string& name,
                      const Group& group,
                      std::int64_t sequence,
                      const std::map<int, Shape>& shapes) {
    const auto differs = std::find_if(shapes.begin(), shapes.end(), [&](const auto& entry) {
      return entry.second != shapes.begin()->second;
    });
    const int a = shapes.begin()->first;
    const int b = differs->first;
    const Finding finding = differing(code_of(group, sequence), name, group, sequence, shapes);
    const std::int64_t last =
        std::max(group.of_rank.at(a).at(sequence).step, group.of_rank.at(b).at(sequence).step);
    std::map<Shape, int> known;
    for (std::int64_t step = 0; step <= last; ++step) {
      const InStep of_a = in_step(a, group.of_rank.at(a), step, known);
      const InStep of_b = in_step(b, group.of_rank.at(b), step, known);
      const SequenceGap departure = departure_of(of_a.issued, of_b.issued);
      if (departure == SequenceGap{}) continue;
      if (cut_short(of_a.issued, of_b.issued) && are_planned(group, sequence)) {
        found(differing("DESYNC.ORDER", name, group, sequence, shapes));
        return;
      }
      if (departure.order) {
        found(differing("DESYNC.ORDER", name, group, sequence, shapes));
      }
      if (departure.other) {
        found(finding);
        return;
      }
      tell_extra(finding, a, b, pick(of_a.rows, departure.extra_a));
      tell_extra(finding, b, a, pick(of_b.rows, departure.extra_b));
      return;
    }
    // In each step both issued the same in the same order: they crossed operations of two steps.
    found(differing("DESYNC.ORDER", name, group, sequence, shapes));
  }

  [[nodiscard]] static std::vector<const Collective*> pick(
      const std::vector<const Collective*>& rows, const std::vector<std::size_t>& places) {
    std::vector<const Collective*> picked;
    for (const std::size_t place : places) picked.push_back(rows[place]);
    return picked;
  }

  // `finding` tells where the sequences differ.
  void tell_extra(Finding finding,
                  int rank,
                  int other,
                  const std::vector<const Collective*>& rows) {
    if (rows.empty()) return;
    const Collective& first = *rows.front();
    finding.variant = "extra";
    finding.site.sequence = first.sequence;
    finding.site.phase = first.phase;
    finding.site.step.reset();
    if (first.step > 0) finding.site.step = first.step;
    finding.facts = {{"group", finding.facts.at("group")},
                     {"more", process_name(rank)},
                     {"fewer", process_name(other)},
                     {"extra", rows.size()},
                     {"operation", words(first)}};
    found(finding);
  }

  [[nodiscard]] static const char* code_of(const Group& group, std::int64_t sequence) {
    std::set<std::pair<std::string, std::string>> operations;
    for (const auto& [rank, rows] : group.of_rank) {
      const Collective& row = rows.at(sequence);
      operations.insert({row.op, row.reduce_op});
    }
    return operations.size() > 1 ? "DESYNC.OP" : "DESYNC.SIZE";
  }

  [[nodiscard]] static bool cut_short(const IssuedInStep& a, const IssuedInStep& b) {
    return !a.whole || !b.whole;
  }

  // A back end may end a rank at the first of two operations that were crossed: the plans, equal on all ranks, tell what
  // it would have issued next.
  [[nodiscard]] bool are_planned(const Group& group, std::int64_t sequence) const {
    return std::all_of(group.of_rank.begin(), group.of_rank.end(), [&](const auto& of) {
      const Collective& row = of.second.at(sequence);
      return row.op == "allreduce" && row.reduce_op == "sum" && is_planned(row);
    });
  }

  // The size of a bucket that every rank has in this step.
  [[nodiscard]] bool is_planned(const Collective& row) const {
    std::set<int> planned;
    for (const auto& plan : evidence_.buckets) {
      const bool same = plan.row.step == row.step && plan.row.elements == row.count;
      if (plan.process >= 0 && same) planned.insert(plan.process);
    }
    return planned.size() == all_ranks(evidence_).size();
  }

  [[nodiscard]] Finding differing(const char* code,
                                  const std::string& name,
                                  const Group& group,
                                  std::int64_t sequence,
                                  const std::map<int, Shape>& shapes) const {
    Finding finding = make_finding(code, "collective");
    finding.site.sequence = sequence;
    finding.site.ranks = minority(shapes);
    const Collective& row = group.of_rank.begin()->second.at(sequence);
    if (row.step > 0) finding.site.step = row.step;
    finding.site.phase = row.phase;
    finding.facts["group"] = name;
    finding.site.detail["group"] = name;
    finding.facts["issued"] = issued_at(group, sequence);
    if (sequence > 0) finding.facts["agreed"] = sequence;
    const std::string second = flight_words(evidence_);
    if (!second.empty()) finding.facts["second"] = second;
    return finding;
  }

  [[nodiscard]] static Finding missing_rank(const std::string& name,
                                            const Group& group,
                                            std::int64_t sequence,
                                            const std::vector<int>& absent,
                                            const std::vector<int>& others) {
    const Collective& row = group.of_rank.at(others.front()).at(sequence);
    Finding finding = make_finding("DESYNC.MISSING_RANK", "absent");
    finding.site.ranks = absent;
    finding.site.sequence = sequence;
    finding.site.phase = row.phase;
    if (row.step > 0) finding.site.step = row.step;
    finding.site.detail["group"] = name;
    finding.facts = {{"group", name}, {"operation", words(row)}, {"others", ranks_text(others)}};
    return finding;
  }

  void judge_plans() {
    std::map<std::pair<std::int64_t, int>, std::map<int, Bucket>> plans;  // step, bucket -> rank
    std::map<std::int64_t, std::set<int>> ranks_of;
    std::map<std::int64_t, int> life_of;  // the last one that did the step
    for (const auto& row : evidence_.buckets) {
      int& life = life_of[row.row.step];
      if (row.process >= 0) life = std::max(life, life_at(evidence_, row.t_ms));
    }
    for (const auto& row : evidence_.buckets) {
      if (row.process < 0 || life_at(evidence_, row.t_ms) < life_of[row.row.step]) continue;
      plans[{row.row.step, row.row.bucket}][row.process] = row.row;
      ranks_of[row.row.step].insert(row.process);
    }
    for (const auto& [place, of_rank] : plans) {
      if (!judge_bucket(place.first, place.second, of_rank, ranks_of[place.first])) return;
      ++plans_;
    }
  }

  bool judge_bucket(std::int64_t step,
                    int bucket,
                    const std::map<int, Bucket>& of_rank,
                    const std::set<int>& ranks) {
    using Plan = std::tuple<std::int64_t, std::string, std::vector<int>>;
    std::map<int, Plan> plans;
    for (const int rank : ranks) {
      const auto at = of_rank.find(rank);
      plans[rank] = at == of_rank.end()
                        ? Plan{0, "absent", {}}
                        : Plan{at->second.elements, at->second.dtype, at->second.params};
    }
    if (all_equal(plans)) return true;
    std::set<std::int64_t> sizes;
    for (const auto& [rank, plan] : plans) sizes.insert(std::get<0>(plan));
    Finding finding = make_finding(sizes.size() > 1 ? "DESYNC.SIZE" : "DESYNC.ORDER", "plan");
    finding.site.step = step;
    finding.site.bucket = bucket;
    finding.site.op = "grad_sync";
    finding.site.ranks = minority(plans);
    for (const auto& [rank, plan] : plans) {
      finding.facts["plans"][process_name(rank)] =
          std::to_string(std::get<0>(plan)) + " elements, " +
          std::to_string(std::get<2>(plan).size()) + " parameters";
    }
    result_.found(finding);
    return false;
  }

  // With the lines of the user's own that the ranks stood in.
  void found(Finding finding) {
    if (const std::string lines = last_lines_of(evidence_); !lines.empty())
      finding.facts["lines"] = lines;
    result_.found(std::move(finding));
  }

  const Evidence& evidence_;
  std::map<std::string, Group> groups_;
  std::set<int> seen_;
  ResultBuilder result_;
  std::int64_t compared_ = 0;
  std::int64_t plans_ = 0;
};

}  // namespace

Check collectives_agree() {
  return {"collectives_agree",
          "all ranks issue the same collectives in the same order, over the same buckets, and "
          "gradients travel in the type that was asked for",
          {"DESYNC.SIZE", "DESYNC.OP", "DESYNC.ORDER", "DESYNC.MISSING_RANK", "COMM.DTYPE"},
          [](const Evidence& evidence) {
            return only_flights(evidence) ? judge_flights(evidence) : Sequences(evidence).judge();
          },
          kWatchEvents};
}

}  // namespace harness::checks
