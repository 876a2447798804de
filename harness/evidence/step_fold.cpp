#include "harness/evidence/step_fold.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string_view>

#include "harness/evidence/gradient_sums.h"
#include "harness/evidence/tensor_classes.h"
#include "nsa/base/text.h"

namespace harness {

// What a rank told of one step.
struct StepFold::OfRank {
  std::vector<std::pair<std::int64_t, std::string>> phases;  // when each began
  std::vector<StepDigest> digests;
  std::vector<Sample> samples;
  std::vector<Bucket> buckets;
  std::vector<Collective> collectives;
  bool more = false;  // rows of other kinds

  [[nodiscard]] std::int64_t count(std::string_view phase) const {
    return std::count_if(
        phases.begin(), phases.end(), [&](const auto& begun) { return begun.second == phase; });
  }
  [[nodiscard]] std::int64_t sums() const {
    return std::count_if(collectives.begin(), collectives.end(), [](const Collective& row) {
      return sums_gradients(row) || scatters_gradients(row);
    });
  }
  [[nodiscard]] std::int64_t begin_ms() const { return phases.front().first; }

  // A step as most are: nothing but its own rows, each of them there, and every number finite.
  [[nodiscard]] bool is_plain() const {
    if (more || digests.size() != 1 || samples.size() != 1) return false;
    const StepDigest& digest = digests.front();
    const bool told = samples.front().metric == "loss" && digest.taken > 0 &&
                      !digest.parameters.empty() && count("optimizer") > 0;
    const bool finite = digest.not_finite.empty() && std::isfinite(digest.grad_norm.value) &&
                        std::isfinite(samples.front().value.value);
    const auto known = count("data") + count("forward") + count("backward") + count("optimizer");
    return told && finite && count("forward") > 0 && count("backward") > 0 &&
           known == static_cast<std::int64_t>(phases.size());
  }
};

struct StepFold::Step {
  std::map<int, OfRank> of_ranks;
};

struct StepFold::Given {
  std::map<std::int64_t, Step> steps;
  std::map<CollectiveKey, std::int64_t> begun;  // in this step
  std::set<CollectiveKey> done;

  // Of the step that an event is of; 0: of none. An end of a collective is of the step in which this began.
  std::int64_t take(const Event& event);
};

std::int64_t StepFold::Given::take(const Event& event) {
  if (event.process < 0 || event.kind == Heartbeat::kKind) return 0;
  if (event.kind == CollectiveDone::kKind) {
    const auto row = event.body.get<CollectiveDone>();
    const CollectiveKey key = {event.process, row.group, row.sequence};
    const auto at = begun.find(key);
    if (at == begun.end()) return 0;
    done.insert(key);
    return at->second;
  }
  const auto at = event.body.find("step");
  if (at == event.body.end() || !at->is_number_integer()) return 0;
  const auto number = at->get<std::int64_t>();
  if (number < 1) return 0;
  OfRank& rank = steps[number].of_ranks[event.process];
  if (event.kind == Phase::kKind) {
    rank.phases.emplace_back(event.t_ms, event.body.get<Phase>().phase);
  } else if (event.kind == StepDigest::kKind) {
    rank.digests.push_back(event.body.get<StepDigest>());
  } else if (event.kind == Sample::kKind) {
    rank.samples.push_back(event.body.get<Sample>());
  } else if (event.kind == Bucket::kKind) {
    rank.buckets.push_back(event.body.get<Bucket>());
  } else if (event.kind == Collective::kKind) {
    rank.collectives.push_back(event.body.get<Collective>());
    const Collective& row = rank.collectives.back();
    begun[{event.process, row.group, row.sequence}] = number;
  } else {
    rank.more = true;
  }
  return number;
}

namespace {

// By group, what a rank issued under which number.
using Issued = std::tuple<std::int64_t, std::string, std::string, std::string, std::int64_t>;
std::map<std::string, std::vector<Issued>> issued_by(const std::vector<Collective>& collectives) {
  std::map<std::string, std::vector<Issued>> issued;
  for (const Collective& row : collectives) {
    issued[row.group].emplace_back(row.sequence, row.op, row.reduce_op, row.dtype, row.count);
  }
  return issued;
}

bool has_gap(const std::vector<Issued>& issued) {
  for (std::size_t i = 1; i < issued.size(); ++i) {
    if (std::get<0>(issued[i]) != std::get<0>(issued[i - 1]) + 1) return true;
  }
  return false;
}

}  // namespace

void StepFold::hear(const Event& event) {
  if (event.kind == Started::kKind) {
    const int process = event.body.get<Started>().process_started;
    if (process >= 0) ranks_.insert(process);
  } else if (event.kind == StepDigest::kKind) {
    std::int64_t& newest = newest_[event.process];
    newest = std::max(newest, event.body.get<StepDigest>().step);
  } else if (event.kind == Collective::kKind) {
    groups_[event.body.get<Collective>().group].insert(event.process);
  } else if (event.kind == Observation::kKind || event.kind == Suspect::kKind) {
    looks_ms_.insert(event.t_ms);
  }
}

std::int64_t StepFold::told_by_all() const {
  std::int64_t least = ranks_.empty() ? 0 : std::numeric_limits<std::int64_t>::max();
  for (const int rank : ranks_) {
    const auto at = newest_.find(rank);
    least = std::min(least, at == newest_.end() ? 0 : at->second);
  }
  return least;
}

// Of each rank, when its folded steps were, and when its first step began that stays open.
struct StepFold::Times {
  std::map<int, std::map<std::int64_t, std::int64_t>> folded;  // begin, end
  std::map<int, std::int64_t> open;

  [[nodiscard]] bool is_open(const Event& beat) const {
    const auto at = open.find(beat.process);
    return at != open.end() && beat.t_ms >= at->second;
  }
  [[nodiscard]] bool is_in_folded(const Event& beat) const {
    const auto of_rank = folded.find(beat.process);
    if (of_rank == folded.end()) return false;
    const auto after = of_rank->second.upper_bound(beat.t_ms);
    return after != of_rank->second.begin() && beat.t_ms < std::prev(after)->second;
  }
};

StepFold::Folded StepFold::fold(std::vector<Event> events, bool ends) {
  Given given;
  std::vector<std::int64_t> steps;  // of each event
  for (const Event& event : events) {
    hear(event);
    steps.push_back(given.take(event));
  }
  std::int64_t furthest = 0;
  for (const auto& [rank, step] : newest_) furthest = std::max(furthest, step);
  const std::int64_t last = told_by_all() - limits_.last;
  const std::int64_t decides =
      ends ? std::numeric_limits<std::int64_t>::max() : std::max(last, furthest - limits_.ahead);
  Folded result;
  std::set<std::int64_t> folded;
  Times times;
  for (const auto& [number, step] : given.steps) {
    if (number > decides) {
      for (const auto& [rank, of_rank] : step.of_ranks) {
        if (!of_rank.phases.empty()) times.open.try_emplace(rank, of_rank.begin_ms());
      }
      continue;
    }
    if (number <= last && may_fold(number, given)) {
      const Step& next = given.steps.at(number + 1);
      if (!continues(number, step)) close(result.settled);
      add(number, step, next);
      folded.insert(number);
      for (const auto& [rank, of_rank] : step.of_ranks)
        times.folded[rank][of_rank.begin_ms()] = next.of_ranks.at(rank).begin_ms();
    } else {
      close(result.settled);
    }
    if (number <= decided_) continue;
    decided_ = number;
    before_ = digests_of(step);
    for (const auto& [rank, digest] : before_)
      parted_ = parted_ || digest.reductions != before_.begin()->second.reductions;
  }
  if (ends) close(result.settled);
  for (std::size_t i = 0; i < events.size(); ++i) {
    Event& event = events[i];
    const bool beat = event.kind == Heartbeat::kKind && event.process >= 0;
    if (steps[i] > decides || (beat && times.is_open(event))) {
      result.open.push_back(std::move(event));
    } else if (!folded.contains(steps[i]) && !(beat && says_nothing_new(event, times))) {
      result.settled.push_back(std::move(event));
    }
  }
  if (stretch_) result.stretch = row();
  return result;
}

// Of what a heartbeat says, the longest time without movement counts, by phase.
bool StepFold::says_nothing_new(const Event& event, const Times& times) {
  const auto beat = event.body.get<Heartbeat>();
  const auto [longest, is_new] =
      longest_gap_ms_.try_emplace({event.process, beat.phase}, beat.longest_gap_ms);
  const bool longer = is_new || beat.longest_gap_ms > longest->second;
  longest->second = std::max(longest->second, beat.longest_gap_ms);
  return !longer && times.is_in_folded(event);
}

std::map<int, StepDigest> StepFold::digests_of(const Step& step) {
  std::map<int, StepDigest> digests;
  for (const auto& [rank, of_rank] : step.of_ranks) {
    if (!of_rank.digests.empty()) digests[rank] = of_rank.digests.back();
  }
  return digests;
}

// The step after it is compared with it in all that checks compare of two steps. It must be alike too, so that nothing is missed.
bool StepFold::may_fold(std::int64_t number, const Given& given) const {
  if (parted_ || number <= decided_ || !is_alike(number, given) || !is_alike(number + 1, given))
    return false;
  return !was_looked_at(given.steps.at(number), given.steps.at(number + 1));
}

bool StepFold::is_alike(std::int64_t number, const Given& given) const {
  const auto at = given.steps.find(number);
  if (at == given.steps.end() || ranks_.empty()) return false;
  const Step& step = at->second;
  const auto before = given.steps.find(number - 1);
  const auto digests = before != given.steps.end() ? digests_of(before->second)
                       : decided_ == number - 1    ? before_
                                                   : std::map<int, StepDigest>{};
  if (step.of_ranks.size() != ranks_.size() || digests.size() != ranks_.size()) return false;
  for (const auto& [rank, of_rank] : step.of_ranks) {
    if (!ranks_.contains(rank) || !digests.contains(rank) || !of_rank.is_plain()) return false;
  }
  const bool none = step.of_ranks.begin()->second.digests.front().gradients.empty();
  return (ranks_.size() == 1 || !none) && holds_alike(step, digests) && issues_alike(step, given);
}

bool StepFold::holds_alike(const Step& step, const std::map<int, StepDigest>& before) {
  const auto ranks = static_cast<std::int64_t>(step.of_ranks.size());
  const OfRank& one = step.of_ranks.begin()->second;
  const StepDigest& first = one.digests.front();
  std::map<std::pair<std::string, std::string>, std::string> held;  // by class and piece
  std::set<std::string> inputs;
  std::int64_t changed = 0;  // ranks whose own buffers are not what they were
  for (const auto& [rank, of_rank] : step.of_ranks) {
    const StepDigest& digest = of_rank.digests.front();
    const StepDigest& last = before.at(rank);
    const bool counts = digest.reductions == first.reductions &&
                        digest.gradients.size() == first.gradients.size() &&
                        last.reductions == before.begin()->second.reductions &&
                        of_rank.count("forward") == one.count("forward") &&
                        of_rank.count("backward") == one.count("backward");
    if (!counts) return false;
    for (const TensorClass& of : kTensorClasses) {
      const std::string hash = digest_of(digest, of);
      if (held.try_emplace({of.name, digest.*of.piece}, hash).first->second != hash) return false;
    }
    if (digest.own_buffers.empty() != first.own_buffers.empty()) return false;
    changed += digest.own_buffers != last.own_buffers ? 1 : 0;
    if (!digest.inputs.empty()) inputs.insert(digest.inputs);
  }
  const auto read = static_cast<std::int64_t>(inputs.size());
  return (changed == 0 || changed == ranks) &&
         (read == ranks || (read == 0 && first.inputs.empty()));
}

bool StepFold::issues_alike(const Step& step, const Given& given) const {
  const OfRank& one = step.of_ranks.begin()->second;
  std::map<std::string, std::map<int, std::vector<Issued>>> groups;
  for (const auto& [rank, of_rank] : step.of_ranks) {
    if (of_rank.sums() != one.sums() || (ranks_.size() > 1 && one.sums() == 0)) return false;
    if (nlohmann::json(of_rank.buckets) != nlohmann::json(one.buckets)) return false;
    for (const Collective& row : of_rank.collectives) {
      if (!given.done.contains({rank, row.group, row.sequence})) return false;
    }
    for (auto& [group, issued] : issued_by(of_rank.collectives))
      groups[group][rank] = std::move(issued);
  }
  return std::all_of(groups.begin(), groups.end(), [&](const auto& entry) {
    const auto& [group, of_ranks] = entry;
    const std::vector<Issued>& issued = of_ranks.begin()->second;
    return of_ranks.size() == groups_.at(group).size() && !has_gap(issued) &&
           std::all_of(of_ranks.begin(), of_ranks.end(), [&](const auto& of_rank) {
             return of_rank.second == issued;
           });
  });
}

bool StepFold::was_looked_at(const Step& step, const Step& next) const {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = 0;
  for (const auto& [rank, of_rank] : step.of_ranks) begin = std::min(begin, of_rank.begin_ms());
  for (const auto& [rank, of_rank] : next.of_ranks) end = std::max(end, of_rank.begin_ms());
  const auto look = looks_ms_.lower_bound(begin);
  return look != looks_ms_.end() && *look <= end;
}

bool StepFold::continues(std::int64_t number, const Step& step) const {
  if (!stretch_ || stretch_->last + 1 != number || stretch_->steps() >= Stretch::kLongest)
    return false;
  const StepDigest& digest = step.of_ranks.begin()->second.digests.front();
  const bool same = stretch_->inputs != digest.inputs.empty() &&
                    digest.reductions == stretch_->reductions_before +
                                             stretch_->reductions_each * (stretch_->steps() + 1) &&
                    stretch_->of_ranks.size() == step.of_ranks.size();
  return same && std::all_of(stretch_->of_ranks.begin(),
                             stretch_->of_ranks.end(),
                             [&](const Stretch::OfRank& folded) {
                               const auto at = step.of_ranks.find(folded.rank);
                               if (at == step.of_ranks.end()) return false;
                               const auto issued = issued_by(at->second.collectives);
                               return std::all_of(folded.collectives.begin(),
                                                  folded.collectives.end(),
                                                  [&](const Stretch::OfGroup& of) {
                                                    const auto group = issued.find(of.group);
                                                    return group == issued.end() ||
                                                           std::get<0>(group->second.front()) ==
                                                               of.last + 1;
                                                  });
                             });
}

void StepFold::add(std::int64_t number, const Step& step, const Step& next) {
  const OfRank& one = step.of_ranks.begin()->second;
  const StepDigest& first = one.digests.front();
  if (!stretch_) {
    stretch_.emplace();
    stretch_->first = number;
    stretch_->inputs = !first.inputs.empty();
    stretch_->reductions_before = before_.begin()->second.reductions;
    stretch_->reductions_each = first.reductions - stretch_->reductions_before;
    for (const auto& [rank, of_rank] : step.of_ranks) {
      Stretch::OfRank folded;
      folded.rank = rank;
      folded.begin_ms = of_rank.begin_ms();
      stretch_->of_ranks.push_back(std::move(folded));
    }
  }
  Stretch& stretch = *stretch_;
  stretch.last = number;
  stretch.forwards += one.count("forward");
  stretch.backwards += one.count("backward");
  stretch.sums += one.sums();
  std::set<int> buckets;  // of several plans of one the last counts
  for (const Bucket& row : one.buckets) buckets.insert(row.bucket);
  stretch.plans += static_cast<std::int64_t>(buckets.size());
  stretch.losses += (stretch.losses.empty() ? "" : ",") + nsa::to_text(one.samples.front().value);
  for (Stretch::OfRank& folded : stretch.of_ranks) {
    const OfRank& of_rank = step.of_ranks.at(folded.rank);
    stretch_ms_ = std::max(stretch_ms_, of_rank.begin_ms());
    for (std::size_t i = 0; i < of_rank.phases.size(); ++i) {
      const std::int64_t end = i + 1 < of_rank.phases.size()
                                   ? of_rank.phases[i + 1].first
                                   : next.of_ranks.at(folded.rank).begin_ms();
      folded.phase_ms[of_rank.phases[i].second] += end - of_rank.phases[i].first;
    }
    const std::string& parameters = of_rank.digests.front().parameters;
    folded.moved = folded.moved || (number > stretch.first && parameters != folded.parameters);
    folded.parameters = parameters;
    for (const auto& [group, issued] : issued_by(of_rank.collectives)) {
      auto at = std::find_if(folded.collectives.begin(),
                             folded.collectives.end(),
                             [&, name = group](const auto& of) { return of.group == name; });
      if (at == folded.collectives.end())
        at = folded.collectives.insert(at, {group, std::get<0>(issued.front()), 0});
      at->last = std::get<0>(issued.back());
    }
  }
}

void StepFold::close(std::vector<Event>& settled) {
  if (stretch_) settled.push_back(row());
  stretch_.reset();
}

Event StepFold::row() const {
  return Event::of(kController, stretch_ms_, *stretch_);
}

std::map<std::int64_t, double> losses_of(const Stretch& stretch) {
  std::map<std::int64_t, double> losses;
  std::int64_t step = stretch.first;
  std::istringstream stream(stretch.losses);
  for (std::string loss; std::getline(stream, loss, ',');)
    losses[step++] = nsa::parse_double(loss).value_or(std::nan(""));
  return losses;
}

}  // namespace harness
