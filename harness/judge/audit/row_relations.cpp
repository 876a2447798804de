// Relations between rows alone.
#include <algorithm>
#include <cmath>
#include <set>

#include "harness/judge/audit/relations.h"

namespace harness::audit {
namespace {

// As ArtefactOut::path_of and Session::folder_of give it.
std::string wanted_path(const From<Artefact>& from) {
  const Artefact& row = from.row;
  const std::string who = from.process == kTwin ? "twin_of_" + std::to_string(row.of_rank)
                                                : "rank_" + std::to_string(from.process);
  const std::string number = row.layer < 0 ? "" : "_" + std::to_string(row.layer);
  return who + "/step_" + std::to_string(row.step) + "/" + row.name + number + ".safetensors";
}

std::string row_text(const From<Artefact>& from) {
  return from.row.name + (from.row.layer < 0 ? "" : " " + std::to_string(from.row.layer)) + " of " +
         place_text(from.process, from.row.of_rank, from.row.step);
}

std::string state_of_largest(double absmax) {
  if (std::isnan(absmax)) return "nan";
  if (std::isinf(absmax)) return "inf";
  return absmax == 0.0 ? "zero" : "ok";
}

// Times of the rows of one process, ascending.
template <typename Row>
std::map<int, std::vector<std::int64_t>> times_of(const Rows<Row>& rows) {
  std::map<int, std::vector<std::int64_t>> times;
  for (const From<Row>& row : rows) times[row.process].push_back(row.t_ms);
  for (auto& [process, of_process] : times) std::sort(of_process.begin(), of_process.end());
  return times;
}

std::int64_t count_until(const std::map<int, std::vector<std::int64_t>>& times,
                         int process,
                         std::int64_t t_ms) {
  const auto at = times.find(process);
  if (at == times.end()) return 0;
  return std::upper_bound(at->second.begin(), at->second.end(), t_ms) - at->second.begin();
}

std::string counter_text(
    int process, std::int64_t t_ms, const char* what, std::int64_t counted, std::int64_t rows) {
  return "the heartbeat of " + process_name(process) + " after " + std::to_string(t_ms) +
         " ms counts " + std::to_string(counted) + " collectives that " + what + ", and " +
         std::to_string(rows) + " rows tell of them";
}

}  // namespace

std::string artefact_is_where_it_says(const Record& record) {
  for (const From<Artefact>& from : record.evidence().artefacts) {
    const std::string& path = from.row.path;
    const bool of_worker = path.starts_with("rank_") || path.starts_with("twin_of_");
    if (!of_worker || path == wanted_path(from)) continue;
    return "a row tells of " + row_text(from) + ", and its file is " + path;
  }
  return "";
}

std::string one_row_a_file(const Record& record) {
  std::map<std::string, const From<Artefact>*> of_path;
  for (const From<Artefact>& from : record.evidence().artefacts) {
    const auto [at, is_new] = of_path.try_emplace(from.row.path, &from);
    if (is_new || row_text(*at->second) == row_text(from)) continue;
    return "one file, " + from.row.path + ", is " + row_text(*at->second) + " and " +
           row_text(from);
  }
  return "";
}

// Steps count from 1, layers and ranks from 0; the case says how many there are. A sweep has another model at each point.
std::string rows_are_of_the_case(const Record& record) {
  const Evidence& evidence = record.evidence();
  const Scenario& scenario = evidence.the_case.scenario;
  if (scenario.kind == "sweep") return "";
  std::string found;
  const auto within = [&](const char* kind,
                          const char* what,
                          std::int64_t number,
                          std::int64_t least,
                          std::int64_t most) {
    if (!found.empty() || (least <= number && number <= most)) return;
    found = std::string("a row of kind ") + kind + " speaks of " + what + " " +
            std::to_string(number) + ", and the case has " + what + "s " + std::to_string(least) +
            " to " + std::to_string(most);
  };
  const auto layers = static_cast<std::int64_t>(scenario.model.n_layers);
  const auto of_layers = [&](const char* kind, const auto& rows, std::int64_t least = 0) {
    for (const auto& row : rows) within(kind, "layer", row.row.layer, least, layers - 1);
  };
  of_layers("route", evidence.routes, -1);
  of_layers("gate_use", evidence.gates);
  of_layers("exposure", evidence.exposures);
  of_layers("block_choice", evidence.block_choices);
  of_layers("recompute", evidence.recomputes);
  of_layers("reads", evidence.reads);
  for (const auto& row : evidence.reads) {
    within("reads", "position", row.row.step, 0, scenario.training.seq_len - 1);
  }
  if (!scenario.trains()) return found;
  const std::int64_t steps = scenario.training.steps;
  const auto of_steps = [&](const char* kind, const auto& rows) {
    for (const auto& row : rows) within(kind, "step", row.row.step, 1, steps);
  };
  of_steps("gradient", evidence.gradients);
  of_steps("update", evidence.updates);
  of_steps("gate_use", evidence.gates);
  of_steps("exposure", evidence.exposures);
  of_steps("block_choice", evidence.block_choices);
  of_steps("batch", evidence.batches);
  of_steps("bucket", evidence.buckets);
  of_steps("recompute", evidence.recomputes);
  const auto of_ranks = [&](const char* kind, const auto& rows) {
    for (const auto& row : rows) within(kind, "rank", row.row.of_rank, 0, evidence.ranks() - 1);
  };
  of_ranks("gradient", evidence.gradients);
  of_ranks("batch", evidence.batches);
  return found;
}

// A hook on the accumulator runs in the backward of the graph that was walked.
std::string what_was_ready_was_reached(const Record& record) {
  for (const From<Gradient>& from : record.evidence().gradients) {
    const Gradient& row = from.row;
    if (row.reachable != Reach::no || row.ready_count == 0) continue;
    return "the gradient ledger of " + place_text(from.process, row.of_rank, row.step) +
           " says that the loss does not lead to " + row.param + ", and that it became ready " +
           std::to_string(row.ready_count) + " times";
  }
  return "";
}

// Both are written by one look at the gradient.
std::string state_is_of_absmax(const Record& record) {
  for (const From<Gradient>& from : record.evidence().gradients) {
    const Gradient& row = from.row;
    const std::string wanted = state_of_largest(row.absmax);
    if (row.hash_before.empty() || row.state == wanted) continue;
    return "the gradient ledger of " + place_text(from.process, row.of_rank, row.step) +
           " says that the gradient of " + row.param + " is \"" + row.state +
           "\", and its largest value makes it \"" + wanted + "\"";
  }
  return "";
}

std::string bucket_is_of_plan(const Record& record) {
  std::map<std::tuple<int, std::int64_t, int>, int> planned;  // process, step, parameter -> bucket
  for (const From<Bucket>& from : record.evidence().buckets) {
    for (const int index : from.row.params) {
      planned[{from.process, from.row.step, index}] = from.row.bucket;
    }
  }
  for (const From<Gradient>& from : record.evidence().gradients) {
    const Gradient& row = from.row;
    if (from.process < 0) continue;
    const auto at = planned.find({from.process, row.step, row.index});
    if (at == planned.end() || at->second == row.bucket) continue;
    return "the gradient ledger of " + place_text(from.process, row.of_rank, row.step) + " has " +
           row.param + " in bucket " + std::to_string(row.bucket) +
           ", and the plan of that step has it in bucket " + std::to_string(at->second);
  }
  return "";
}

std::string update_counts_are_parts(const Record& record) {
  for (const From<Update>& from : record.evidence().updates) {
    const Update& row = from.row;
    if (0 <= row.lost && row.lost <= row.wanted && row.wanted <= row.elements) continue;
    return "the update ledger of " + place_text(from.process, 0, row.step) + " counts " +
           std::to_string(row.lost) + " lost of " + std::to_string(row.wanted) +
           " wanted updates of " + row.param + ", which has " + std::to_string(row.elements) +
           " elements";
  }
  return "";
}

std::string exposure_counts_are_parts(const Record& record) {
  for (const From<Exposure>& from : record.evidence().exposures) {
    const Exposure& row = from.row;
    const auto [least, most] =
        std::minmax({row.rows_dropped, row.rows_cut, row.rows_compressed, std::int64_t{0}});
    if (least >= 0 && most <= row.rows) continue;
    return "the exposure of " + layer_text(from.process, row.step, row.layer) + " counts " +
           std::to_string(most) + " of " + std::to_string(row.rows) + " rows";
  }
  return "";
}

// Equal bytes hold equal rows.
std::string recompute_counts_its_blocks(const Record& record) {
  for (const From<Recompute>& from : record.evidence().recomputes) {
    const Recompute& row = from.row;
    if (row.rows == 0) continue;  // of other shapes: rows were not compared
    const bool same = row.blocks_forward == row.blocks_recompute;
    const bool holds = row.rows_differing <= row.rows && (!same || row.rows_differing == 0) &&
                       (same || row.rows_differing > 0) &&
                       row.queries.empty() == (row.rows_differing == 0) &&
                       static_cast<std::int64_t>(row.queries.size()) <= row.rows_differing;
    if (holds) continue;
    return "the blocks that " + layer_text(from.process, row.step, row.layer) +
           " chose again have " + (same ? "the same hash" : "another hash") + ", and " +
           std::to_string(row.rows_differing) + " of " + std::to_string(row.rows) +
           " rows are counted as different";
  }
  return "";
}

std::string collective_began(const Record& record) {
  const Evidence& evidence = record.evidence();
  if (!every_row_is_there(evidence)) return "";
  std::set<std::tuple<int, std::string, std::int64_t>> began;
  for (const From<Collective>& from : evidence.collectives) {
    began.insert({from.process, from.row.group, from.row.sequence});
  }
  for (const From<CollectiveDone>& from : evidence.collectives_done) {
    if (began.count({from.process, from.row.group, from.row.sequence}) > 0) continue;
    return "collective " + std::to_string(from.row.sequence) + " of group " + from.row.group +
           " ended on " + process_name(from.process) + ", and no row tells that it began there";
  }
  return "";
}

// A row is written before it is counted where a collective begins, and after it where one ends. A heartbeat reads the counters
// before it is written, and after the one before it was.
std::string heartbeat_counts_collectives(const Record& record) {
  constexpr std::int64_t kOnTheirWay = 8;  // threads that have written a row and not counted it
  const Evidence& evidence = record.evidence();
  if (!every_row_is_there(evidence)) return "";
  const auto began = times_of(evidence.collectives);
  const auto ended = times_of(evidence.collectives_done);
  std::map<int, std::int64_t> beat_before;
  for (const auto& [key, from] : newest_by<std::pair<int, std::int64_t>>(
           evidence.heartbeats,
           [](const auto& beat) { return std::pair(beat.process, beat.t_ms); })) {
    const auto [process, t_ms] = key;
    const Counters& counters = from->row.counters;
    const std::int64_t rows = count_until(began, process, t_ms);
    if (counters.collectives_enqueued > rows) {
      return counter_text(process, t_ms, "began", counters.collectives_enqueued, rows);
    }
    const auto before = beat_before.find(process);
    if (before != beat_before.end()) {
      const std::int64_t least = count_until(began, process, before->second) - kOnTheirWay;
      if (counters.collectives_enqueued < least) {
        return counter_text(process, t_ms, "began", counters.collectives_enqueued, rows);
      }
      const std::int64_t done = count_until(ended, process, before->second);
      if (counters.collectives_completed < done) {
        return counter_text(process, t_ms, "ended", counters.collectives_completed, done);
      }
    }
    beat_before[process] = t_ms;
  }
  return "";
}

}  // namespace harness::audit
