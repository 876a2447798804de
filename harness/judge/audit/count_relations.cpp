// Relations between rows that tell one fact twice: a number and what it numbers, a count and what was counted.
#include <algorithm>
#include <filesystem>
#include <set>

#include "harness/evidence/torch_types.h"
#include "harness/judge/audit/relations.h"
#include "nsa/base/error.h"

namespace harness::audit {
namespace {

using OfStep = std::pair<int, std::int64_t>;  // process, step

std::string numbered(const char* what, std::int64_t number) {
  return std::string(what) + " " + std::to_string(number);
}

// The key of the first row that comes twice.
template <typename Row, typename KeyOf>
const From<Row>* second_of_one(const Rows<Row>& rows, const KeyOf& key_of) {
  std::set<decltype(key_of(rows.front()))> known;
  for (const From<Row>& row : rows) {
    if (!known.insert(key_of(row)).second) return &row;
  }
  return nullptr;
}

std::string twice(const std::string& what) {
  return "two rows tell of " + what + ", and a worker writes one";
}

// Steps in which a process was in a phase.
std::set<OfStep> steps_of_phase(const Evidence& evidence, std::string_view phase) {
  std::set<OfStep> steps;
  for (const From<Phase>& from : evidence.phases) {
    if (from.row.phase == phase) steps.insert({from.process, from.row.step});
  }
  return steps;
}

template <typename Row>
std::string outside_of_phase(const Evidence& evidence,
                             const Rows<Row>& rows,
                             const char* phase,
                             const char* what) {
  const std::set<OfStep> steps = steps_of_phase(evidence, phase);
  for (const From<Row>& from : rows) {
    if (steps.count({from.process, from.row.step}) > 0) continue;
    return process_name(from.process) + " tells of " + what + " of step " +
           std::to_string(from.row.step) + ", and no row says that it was in phase " + phase +
           " of that step";
  }
  return "";
}

constexpr std::size_t kMostPlacesTold = 64;  // of a known sum

const Fact* fact_of(const Evidence& evidence, int process, std::string_view name) {
  for (const From<Fact>& from : evidence.facts) {
    if (from.process == process && from.row.name == name) return &from.row;
  }
  return nullptr;
}

// The heartbeat that a worker writes when its work is over, right before it says that it is done.
std::map<int, const From<Heartbeat>*> last_beats(const Evidence& evidence) {
  std::map<int, const From<Heartbeat>*> last;
  for (const From<Heartbeat>& from : evidence.heartbeats) {
    if (from.row.phase != "done" || !evidence.finished(from.process)) continue;
    const auto [at, is_new] = last.try_emplace(from.process, &from);
    if (!is_new && at->second->t_ms <= from.t_ms) at->second = &from;
  }
  return last;
}

template <typename Row>
std::int64_t rows_of_process(const Rows<Row>& rows, int process) {
  return std::count_if(
      rows.begin(), rows.end(), [&](const From<Row>& from) { return from.process == process; });
}

std::string beat_text(int process, std::int64_t counted, const char* what, std::int64_t rows) {
  return "the last heartbeat of " + process_name(process) + " counts " + std::to_string(counted) +
         " " + what + ", and its rows tell of " + std::to_string(rows);
}

}  // namespace

std::string one_row_a_fact(const Record& record) {
  const Evidence& evidence = record.evidence();
  if (const auto* two = second_of_one(evidence.gradients, [](const From<Gradient>& from) {
        return std::tuple(from.process, from.row.step, from.row.of_rank, from.row.param);
      })) {
    return twice("the gradient of " + two->row.param + " of " +
                 place_text(two->process, two->row.of_rank, two->row.step));
  }
  if (const auto* two = second_of_one(evidence.batches, [](const From<Batch>& from) {
        const Batch& row = from.row;
        return std::tuple(from.process, row.step, row.micro, row.of_rank, row.sequence);
      })) {
    return twice(numbered("sequence", two->row.sequence) + " of " +
                 numbered("micro-batch", two->row.micro) + " of " +
                 place_text(two->process, two->row.of_rank, two->row.step));
  }
  if (const auto* two = second_of_one(evidence.updates, [](const From<Update>& from) {
        return std::tuple(from.process, from.row.step, from.row.param);
      })) {
    return twice("the update of " + two->row.param + " of " +
                 place_text(two->process, 0, two->row.step));
  }
  if (const auto* two = second_of_one(evidence.collectives, [](const From<Collective>& from) {
        return std::tuple(from.process, from.row.group, from.row.sequence);
      })) {
    return twice("the beginning of " + numbered("collective", two->row.sequence) + " of " +
                 process_name(two->process));
  }
  if (const auto* two =
          second_of_one(evidence.hellos, [](const From<Hello>& from) { return from.process; })) {
    return twice("the beginning of " + process_name(two->process));
  }
  return "";
}

// Each run of the ledger's hook counts once and gets the next number.
std::string orders_are_as_many_as_counts(const Record& record) {
  using Key = std::tuple<int, std::int64_t, int>;
  std::map<Key, std::pair<std::int64_t, std::int64_t>> counts;  // runs, the number after the last
  for (const From<Gradient>& from : record.evidence().gradients) {
    auto& [runs, next] = counts[{from.process, from.row.step, from.row.of_rank}];
    runs += from.row.ready_count;
    next = std::max<std::int64_t>(next, from.row.ready_order + 1);
  }
  for (const auto& [key, count] : counts) {
    if (count.first == count.second) continue;
    return "the gradient ledger of " +
           place_text(std::get<0>(key), std::get<2>(key), std::get<1>(key)) + " counts that " +
           std::to_string(count.first) + " gradients became ready, and numbers " +
           std::to_string(count.second) + " of them";
  }
  return "";
}

// A worker writes these rows after it has entered the phase.
std::string row_is_of_a_phase(const Record& record) {
  const Evidence& evidence = record.evidence();
  if (!evidence.the_case.scenario.trains() || !every_row_is_there(evidence)) return "";
  std::string found = outside_of_phase(evidence, evidence.batches, "data", "a batch");
  if (found.empty()) {
    found = outside_of_phase(evidence, evidence.gradients, "backward", "a gradient");
  }
  if (found.empty()) found = outside_of_phase(evidence, evidence.updates, "optimizer", "an update");
  return found;
}

std::string sequence_has_no_hole(const Record& record) {
  const Evidence& evidence = record.evidence();
  if (!every_row_is_there(evidence)) return "";
  std::map<std::pair<int, std::string>, std::set<std::int64_t>> numbers;
  for (const From<Collective>& from : evidence.collectives) {
    numbers[{from.process, from.row.group}].insert(from.row.sequence);
  }
  for (const auto& [of, sequences] : numbers) {
    if (!evidence.finished(of.first)) continue;  // a row may have been on its way
    const auto count = static_cast<std::int64_t>(sequences.size());
    if (*sequences.begin() == 0 && *sequences.rbegin() == count - 1) continue;
    return process_name(of.first) + " numbers its collectives of group " + of.second + " from " +
           std::to_string(*sequences.begin()) + " to " + std::to_string(*sequences.rbegin()) +
           ", and writes " + std::to_string(count) + " rows of them";
  }
  return "";
}

std::string known_sum_shows_what_is_wrong(const Record& record) {
  for (const From<ExactSum>& from : record.evidence().exact_sums) {
    const ExactSum& row = from.row;
    const auto shown = static_cast<std::int64_t>(row.places.size());
    const bool holds = row.places.size() == row.values.size() && row.wrong <= row.elements &&
                       shown == std::min(row.wrong, static_cast<std::int64_t>(kMostPlacesTold));
    if (holds) continue;
    return "the known sum of " + numbered("bucket", row.bucket) + " of " +
           place_text(from.process, 0, row.step) + " has " + std::to_string(row.wrong) + " of " +
           std::to_string(row.elements) + " elements wrong, and shows " + std::to_string(shown) +
           " of them";
  }
  return "";
}

// Whatever a transport does to a sum, it does not send as many elements as the sum has bytes, in every one of a step.
std::string known_sum_is_as_large_as_its_reduction(const Record& record) {
  const Evidence& evidence = record.evidence();
  if (!every_row_is_there(evidence)) return "";
  std::map<OfStep, std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>> bytes;
  for (const From<ExactSum>& from : evidence.exact_sums) {
    bytes[{from.process, from.row.step}].first.push_back(from.row.elements *
                                                         torch_type_bytes(from.row.dtype));
  }
  for (const From<Collective>& from : evidence.collectives) {
    if (from.row.phase != "known_sums") continue;
    bytes[{from.process, from.row.step}].second.push_back(from.row.count);
  }
  for (auto& [of, pair] : bytes) {
    auto& [sums, sent] = pair;
    std::sort(sums.begin(), sums.end());
    std::sort(sent.begin(), sent.end());
    if (sums.empty() || sums != sent) continue;
    return "the known sums of " + place_text(of.first, 0, of.second) + " have " +
           std::to_string(sums.front()) +
           " bytes and more, and their collectives count as many elements";
  }
  return "";
}

// Both are written of the same plan.
std::string known_sum_is_of_its_bucket(const Record& record) {
  const Evidence& evidence = record.evidence();
  if (!every_row_is_there(evidence)) return "";
  std::map<std::tuple<int, std::int64_t, int>, std::int64_t> planned;  // process, step, bucket
  std::set<OfStep> with_plan;
  for (const From<Bucket>& from : evidence.buckets) {
    planned[{from.process, from.row.step, from.row.bucket}] = from.row.elements;
    with_plan.insert({from.process, from.row.step});
  }
  for (const From<ExactSum>& from : evidence.exact_sums) {
    const ExactSum& row = from.row;
    if (with_plan.count({from.process, row.step}) == 0) continue;
    const auto at = planned.find({from.process, row.step, row.bucket});
    if (at != planned.end() && at->second == row.elements) continue;
    return "the known sum of " + numbered("bucket", row.bucket) + " of " +
           place_text(from.process, 0, row.step) + " has " + std::to_string(row.elements) +
           " elements, and the plan of that step has " +
           (at == planned.end() ? "no such bucket" : std::to_string(at->second));
  }
  return "";
}

// Of the step and of the name of the file one number is made. What is read back tells its step itself; where the process goes on
// after the step in the name, that step is the right one.
std::string snapshot_is_of_its_step(const Record& record) {
  const Evidence& evidence = record.evidence();
  for (const From<SnapshotUse>& from : evidence.snapshots) {
    const std::string stem = std::filesystem::path(from.row.path).stem().string();
    const std::string number = stem.substr(stem.find_last_of('_') + 1);
    const bool is_number = from.process >= 0 && !number.empty() && number.size() < 18 &&
                           number.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number || number == std::to_string(from.row.step)) continue;
    const std::int64_t named = std::stoll(number);
    const auto is_gone_on_with = [&](const From<Phase>& phase) {
      return phase.process == from.process && phase.t_ms >= from.t_ms &&
             phase.row.step == named + 1;
    };
    const bool goes_on =
        std::any_of(evidence.phases.begin(), evidence.phases.end(), is_gone_on_with);
    if (from.row.use != "saved" && !goes_on) continue;
    return "a row of " + process_name(from.process) + " tells of the snapshot of step " +
           std::to_string(from.row.step) + ", and its file is " + from.row.path;
  }
  return "";
}

// A file that can be read is whole.
std::string snapshot_has_its_size(const Record& record) {
  const Evidence& evidence = record.evidence();
  for (const From<SnapshotUse>& from : evidence.snapshots) {
    if (from.row.use != "saved" || evidence.folder.empty()) continue;
    const auto path = std::filesystem::path(evidence.folder) / from.row.path;
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (error || static_cast<std::int64_t>(size) == from.row.bytes) continue;
    try {
      const nsa::SafetensorsFile whole(path);
    } catch (const nsa::Error&) {
      continue;
    }
    return "a row of " + process_name(from.process) + " says that " + from.row.path + " has " +
           std::to_string(from.row.bytes) + " bytes, and the file has " + std::to_string(size);
  }
  return "";
}

// A worker tells what the case makes of its model.
std::string model_has_its_parameters(const Record& record) {
  const Evidence& evidence = record.evidence();
  if (!evidence.the_case.scenario.trains()) return "";
  const std::string wanted = std::to_string(evidence.the_case.scenario.model.parameter_count());
  std::map<std::tuple<int, std::int64_t, int>, std::int64_t> ledgers;
  for (const From<Gradient>& from : evidence.gradients) {
    ++ledgers[{from.process, from.row.step, from.row.of_rank}];
  }
  std::set<int> processes;
  for (const From<Fact>& from : evidence.facts) processes.insert(from.process);
  for (const int process : processes) {
    const Fact* elements = fact_of(evidence, process, "parameters");
    if (elements != nullptr && elements->value != wanted) {
      return process_name(process) + " tells of " + elements->value +
             " parameters, and the model of the case has " + wanted;
    }
  }
  if (!every_row_is_there(evidence)) return "";
  for (const auto& [key, rows] : ledgers) {
    const auto& [process, step, of_rank] = key;
    const Fact* tensors = fact_of(evidence, process, "parameter_tensors");
    if (tensors == nullptr || tensors->value == std::to_string(rows)) continue;
    return process_name(process) + " tells of " + tensors->value +
           " tensors of parameters, and the gradient ledger of " +
           place_text(process, of_rank, step) + " has " + std::to_string(rows) + " rows";
  }
  return "";
}

std::string last_heartbeat_counts_all(const Record& record) {
  constexpr std::int64_t kEndedMeanwhile =
      4;  // threads that have counted an end and not written it
  const Evidence& evidence = record.evidence();
  if (!every_row_is_there(evidence)) return "";
  for (const auto& [process, beat] : last_beats(evidence)) {
    const Counters& counters = beat->row.counters;
    const std::int64_t began = rows_of_process(evidence.collectives, process);
    if (counters.collectives_enqueued != began) {
      return beat_text(process, counters.collectives_enqueued, "collectives that began", began);
    }
    const std::int64_t ended = rows_of_process(evidence.collectives_done, process);
    if (counters.collectives_completed > ended + kEndedMeanwhile) {
      return beat_text(process, counters.collectives_completed, "collectives that ended", ended);
    }
    std::int64_t bytes = 0;
    for (const From<Artefact>& from : evidence.artefacts) {
      if (from.process == process) bytes += from.row.bytes;
    }
    if (counters.bytes_written != bytes) {
      return beat_text(process, counters.bytes_written, "bytes of files", bytes);
    }
  }
  return "";
}

// It says that it is done before it exits with 0, and ends with another code where it cannot.
std::string who_ends_well_is_done(const Record& record) {
  const Evidence& evidence = record.evidence();
  if (!every_row_is_there(evidence)) return "";
  std::set<int> at_the_end;
  for (const From<Phase>& from : evidence.phases) {
    if (from.row.phase == "done") at_the_end.insert(from.process);
  }
  for (const int process : at_the_end) {
    const Exited* exited = evidence.exit_of(process);
    const bool well = exited != nullptr && exited->signal == 0 && exited->exit_code == 0;
    if (!well || evidence.finished(process)) continue;
    return process_name(process) +
           " exited with code 0 after its last phase, and no row says that it was done";
  }
  return "";
}

}  // namespace harness::audit
