#include "reports/timeline.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace reports {
namespace {

using harness::Evidence;

class Lanes {
 public:
  Lane& of(int process) {
    const auto [at, is_new] = lanes_.try_emplace(process);
    if (is_new) at->second.process = process;
    return at->second;
  }

  std::vector<Lane> in_order() {
    std::vector<Lane> all;
    for (const bool rank : {true, false}) {
      for (auto& [process, lane] : lanes_) {
        if ((process >= 0) == rank) all.push_back(std::move(lane));
      }
    }
    return all;
  }

 private:
  std::map<int, Lane> lanes_;
};

template <typename Row>
void look_at(const harness::Rows<Row>& rows, std::int64_t& end_ms) {
  for (const auto& row : rows) end_ms = std::max(end_ms, row.t_ms);
}

std::int64_t end_of(const Evidence& evidence) {
  std::int64_t end_ms = 0;
  look_at(evidence.phases, end_ms);
  look_at(evidence.heartbeats, end_ms);
  look_at(evidence.collectives, end_ms);
  look_at(evidence.collectives_done, end_ms);
  look_at(evidence.errors, end_ms);
  look_at(evidence.done, end_ms);
  look_at(evidence.exited, end_ms);
  look_at(evidence.suspects, end_ms);
  look_at(evidence.stopped, end_ms);
  return end_ms;
}

// When each process was gone; processes without an entry were there until the end. Of several lives the last one.
std::map<int, std::int64_t> ends_of(const Evidence& evidence) {
  std::map<int, std::int64_t> ends;
  for (const auto& row : evidence.exited) ends[row.row.process_ended] = row.t_ms;
  return ends;
}

// From the beginning of each phase to that of the next one of the same process.
void take_phases(const Evidence& evidence,
                 const std::map<int, std::int64_t>& ends,
                 std::int64_t end_ms,
                 Lanes& lanes) {
  for (const auto& row : evidence.phases) {
    std::vector<Stretch>& phases = lanes.of(row.process).phases;
    if (!phases.empty() && phases.back().open) {
      phases.back().to_ms = row.t_ms;
      phases.back().open = false;
    }
    const auto end = ends.find(row.process);
    const std::int64_t last = end == ends.end() ? end_ms : end->second;
    Stretch phase{row.row.phase, row.t_ms, std::max(last, row.t_ms), row.row.step, true, -1, "", 0};
    phases.push_back(std::move(phase));
  }
  for (const auto& row : evidence.done) {
    std::vector<Stretch>& phases = lanes.of(row.process).phases;
    if (phases.empty() || !phases.back().open) continue;
    phases.back().to_ms = std::max(row.t_ms, phases.back().from_ms);
    phases.back().open = false;
  }
}

void take_collectives(const Evidence& evidence,
                      const std::map<int, std::int64_t>& ends,
                      std::int64_t end_ms,
                      Lanes& lanes) {
  std::map<std::tuple<int, std::string, std::int64_t>, std::int64_t> done;
  for (const auto& row : evidence.collectives_done) {
    done[{row.process, row.row.group, row.row.sequence}] = row.t_ms;
  }
  for (const auto& row : evidence.collectives) {
    const auto at = done.find({row.process, row.row.group, row.row.sequence});
    const auto end = ends.find(row.process);
    const bool open = at == done.end();
    const std::int64_t last = end == ends.end() ? end_ms : end->second;
    lanes.of(row.process)
        .collectives.push_back({row.row.op,
                                row.t_ms,
                                std::max(open ? last : at->second, row.t_ms),
                                row.row.step,
                                open,
                                row.row.sequence,
                                row.row.group,
                                row.row.count});
  }
}

std::string exit_text(const harness::Exited& exited) {
  const std::string by = exited.by_controller ? ", ended by nsa-harness" : "";
  if (exited.signal != 0) return "signal " + std::to_string(exited.signal) + by;
  return "exit code " + std::to_string(exited.exit_code) + by;
}

void take_moments(const Evidence& evidence, Lanes& lanes, Timeline& timeline) {
  for (const auto& row : evidence.errors) {
    lanes.of(row.process).moments.push_back({row.t_ms, "raised " + row.row.type});
  }
  for (const auto& row : evidence.exited) {
    const bool well = row.row.exit_code == 0 && row.row.signal == 0;
    if (well) continue;
    lanes.of(row.row.process_ended).moments.push_back({row.t_ms, exit_text(row.row)});
  }
  for (const auto& row : evidence.stopped) {
    timeline.moments.push_back(
        {row.t_ms, "the controller ended the case (" + row.row.reason + "): " + row.row.detail});
  }
}

// Until the controller looked; what it saw last stands for a case that it ended then.
void take_standstills(const Evidence& evidence, Timeline& timeline) {
  for (const auto& row : evidence.suspects) {
    const std::int64_t from = std::max<std::int64_t>(0, row.t_ms - row.row.still_ms);
    Stretch still{"nothing moved", from, row.t_ms, 0, false, -1, "", 0};
    for (const auto& stopped : evidence.stopped) {
      if (stopped.row.reason == "still") still.to_ms = std::max(still.to_ms, stopped.t_ms);
    }
    const bool longer = !timeline.standstills.empty() && timeline.standstills.back().to_ms >= from;
    if (longer) {
      timeline.standstills.back().to_ms = std::max(timeline.standstills.back().to_ms, still.to_ms);
    } else {
      timeline.standstills.push_back(std::move(still));
    }
  }
}

}  // namespace

Timeline timeline_of(const Evidence& evidence) {
  Timeline timeline;
  timeline.end_ms = end_of(evidence);
  const std::map<int, std::int64_t> ends = ends_of(evidence);
  Lanes lanes;
  take_phases(evidence, ends, timeline.end_ms, lanes);
  take_collectives(evidence, ends, timeline.end_ms, lanes);
  take_moments(evidence, lanes, timeline);
  take_standstills(evidence, timeline);
  timeline.lanes = lanes.in_order();
  std::erase_if(timeline.lanes,
                [](const Lane& lane) { return lane.process == harness::kController; });
  return timeline;
}

}  // namespace reports
