#include "harness/evidence/evidence.h"

#include <algorithm>
#include <array>
#include <limits>

#include "nsa/base/error.h"
#include "nsa/base/hash.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

using nlohmann::json;

bool same_type(const json& found, const json& wanted) {
  if (wanted.is_number_integer()) return found.is_number_integer();
  if (wanted.is_number_float()) return found.is_number() || found.is_string();  // a Real
  if (wanted == json(Reach::unknown)) return found.is_boolean() || found == wanted;
  return found.type() == wanted.type();
}

// Types are compared with those of a default row before anything is converted: a double that becomes an int is undefined
// behaviour when it does not fit.
void check_types(const json& body, const json& pattern, const std::string& path) {
  for (const auto& [key, value] : body.items()) {
    const auto at = pattern.find(key);
    if (at == pattern.end()) throw nsa::Error(path + key + ": no such value");
    if (!same_type(value, *at)) throw nsa::Error(path + key + ": a " + value.type_name());
    if (value.is_object()) check_types(value, *at, path + key + ".");
    if (value.is_array()) {
      for (const json& item : value) {
        if (item.is_number_float()) throw nsa::Error(path + key + ": a number that is no integer");
      }
    }
  }
}

// A number that was cut to the member's width, or an element of another type, does not come back as it was.
void check_kept(const json& body, const json& again, const std::string& path) {
  for (const auto& [key, value] : body.items()) {
    const json& kept = again.at(key);
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) {
      throw nsa::Error(path + key + ": out of range");
    }
    if (value.is_object()) {
      check_kept(value, kept, path + key + ".");
    } else if (value.is_number_integer() && kept.is_number_integer() && value != kept) {
      throw nsa::Error(path + key + ": out of range");
    } else if (value.is_array() && value.size() == kept.size()) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (value[i].is_number() && value[i] != kept[i]) {
          throw nsa::Error(path + key + ": out of range");
        }
      }
    }
  }
}

// Of the controller trials; rank_2; of the twin twin_of_0, twin_of_1, ...: it writes into a folder for each rank that it stands in
// for.
bool is_folder_of(int process, std::string_view name) {
  if (process >= 0) return name == "rank_" + std::to_string(process);
  if (process == kController) return name == "trials";
  constexpr std::string_view kTwinFolder = "twin_of_";
  return process == kTwin && name.starts_with(kTwinFolder) &&
         nsa::parse_int(name.substr(kTwinFolder.size())).has_value();
}

void check_more(int, const auto&) {}

// The path is joined to the case's folder by whoever opens the file, and by whoever deletes it: outside of a process's own
// folder lie the events, the verdicts and what the other processes wrote.
void check_more(int process, const Artefact& row) {
  const std::size_t slash = row.path.find('/');
  bool own = slash != std::string::npos && is_folder_of(process, row.path.substr(0, slash)) &&
             row.path.find('\0') == std::string::npos;
  for (std::size_t begin = 0; own && begin <= row.path.size();) {
    const std::size_t end = std::min(row.path.find('/', begin), row.path.size());
    const std::string part = row.path.substr(begin, end - begin);
    own = !part.empty() && part != "." && part != "..";
    begin = end + 1;
  }
  if (!own) throw nsa::Error("path: not a file in the process's own folder: " + row.path);
  if (row.bytes < 0) throw nsa::Error("bytes: found " + std::to_string(row.bytes));
}

void check_more(int, const Stretch& row) {
  const bool whole = row.first > 0 && row.steps() > 0 && row.steps() <= Stretch::kLongest;
  if (!whole || row.of_ranks.empty()) throw nsa::Error("no steps of any rank");
}

template <typename Row>
Row read_row(int process, const json& body) {
  static const json kPattern = json(Row{});
  check_types(body, kPattern, "");
  Row row = body.get<Row>();
  check_kept(body, json(row), "");
  check_more(process, row);
  return row;
}

// One kind of evidence: its name, who writes it, and how its row is read. A null evidence: only checked.
struct Entry {
  std::string_view kind;
  bool of_worker;
  void (*read)(const Event& event, Evidence* evidence);
  void (*keep_after)(Evidence& evidence, std::int64_t t_ms);
};

template <auto kMember>
void read_into(const Event& event, Evidence* evidence) {
  using Row =
      decltype(std::remove_cvref_t<decltype((std::declval<Evidence&>().*kMember).front())>::row);
  Row row = read_row<Row>(event.process, event.body);
  if (evidence != nullptr) {
    (evidence->*kMember).push_back({event.process, event.t_ms, std::move(row)});
  }
}

template <auto kMember>
void keep_after(Evidence& evidence, std::int64_t t_ms) {
  std::erase_if(evidence.*kMember, [&](const auto& from) { return from.t_ms <= t_ms; });
}

template <typename Row, auto kMember>
constexpr Entry entry(bool of_worker) {
  return {Row::kKind, of_worker, &read_into<kMember>, &keep_after<kMember>};
}

constexpr bool kWorker = true;
constexpr bool kControllerOnly = false;

constexpr std::array kEntries = {
    entry<Hello, &Evidence::hellos>(kWorker),
    entry<Phase, &Evidence::phases>(kWorker),
    entry<Heartbeat, &Evidence::heartbeats>(kWorker),
    entry<Sample, &Evidence::samples>(kWorker),
    entry<Gradient, &Evidence::gradients>(kWorker),
    entry<Bucket, &Evidence::buckets>(kWorker),
    entry<Collective, &Evidence::collectives>(kWorker),
    entry<CollectiveDone, &Evidence::collectives_done>(kWorker),
    entry<ExactSum, &Evidence::exact_sums>(kWorker),
    entry<ReducedAgain, &Evidence::reduced_again>(kWorker),
    entry<ParameterHash, &Evidence::parameters>(kWorker),
    entry<StepDigest, &Evidence::digests>(kWorker),
    entry<Batch, &Evidence::batches>(kWorker),
    entry<RouteUse, &Evidence::routes>(kWorker),
    entry<Refusal, &Evidence::refusals>(kWorker),
    entry<RouteChoice, &Evidence::route_choices>(kWorker),
    entry<KernelRuns, &Evidence::kernels>(kWorker),
    entry<Exposure, &Evidence::exposures>(kWorker),
    entry<BlockChoice, &Evidence::block_choices>(kWorker),
    entry<DropoutMask, &Evidence::dropout_masks>(kWorker),
    entry<NanBirth, &Evidence::nan_births>(kWorker),
    entry<CardLook, &Evidence::card_looks>(kWorker),
    entry<Mutation, &Evidence::mutations>(kWorker),
    entry<GateUse, &Evidence::gates>(kWorker),
    entry<Update, &Evidence::updates>(kWorker),
    entry<Recompute, &Evidence::recomputes>(kWorker),
    entry<InPlace, &Evidence::in_place>(kWorker),
    entry<StateHash, &Evidence::states>(kWorker),
    entry<SnapshotUse, &Evidence::snapshots>(kWorker),
    entry<Reads, &Evidence::reads>(kWorker),
    entry<Artefact, &Evidence::artefacts>(kWorker),
    entry<WorkerError, &Evidence::errors>(kWorker),
    entry<FaultFired, &Evidence::faults_fired>(kWorker),
    entry<Fact, &Evidence::facts>(kWorker),
    entry<Done, &Evidence::done>(kWorker),
    entry<Observation, &Evidence::observations>(kWorker),
    entry<TensorDigest, &Evidence::tensor_digests>(kControllerOnly),
    entry<Stretch, &Evidence::stretches>(kControllerOnly),
    entry<OtherLevel, &Evidence::other_levels>(kControllerOnly),
    entry<Started, &Evidence::started>(kControllerOnly),
    entry<Exited, &Evidence::exited>(kControllerOnly),
    entry<Suspect, &Evidence::suspects>(kControllerOnly),
    entry<Stopped, &Evidence::stopped>(kControllerOnly),
    entry<Relaunched, &Evidence::relaunches>(kControllerOnly),
    Entry{kRejectedKind,
          kControllerOnly,
          &read_into<&Evidence::rejected>,
          &keep_after<&Evidence::rejected>},
};

const Entry& entry_of(std::string_view kind) {
  const auto* const at = std::find_if(
      kEntries.begin(), kEntries.end(), [&](const Entry& entry) { return entry.kind == kind; });
  if (at == kEntries.end()) throw nsa::Error("unknown kind " + std::string(kind));
  return *at;
}

void read_event(const Event& event, Evidence* evidence) {
  const Entry& entry = entry_of(event.kind);
  if (!event.body.is_object()) throw nsa::Error(event.kind + ": body is not a JSON object");
  try {
    entry.read(event, evidence);
  } catch (const json::exception& error) {
    throw nsa::Error(event.kind + ": " + error.what());
  } catch (const nsa::Error& error) {
    throw nsa::Error(event.kind + ": " + error.what());
  }
}

// When the ranks were last started again; before everything when they never were.
std::int64_t life_began_ms(const Evidence& evidence) {
  std::int64_t began = std::numeric_limits<std::int64_t>::min();
  for (const From<Relaunched>& from : evidence.relaunches) began = std::max(began, from.t_ms);
  return began;
}

}  // namespace

std::string FileHashes::of(const std::string& path) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = hashes_.find(path);
    if (known != hashes_.end()) return known->second;
  }
  std::string hash = nsa::hash_file(path);
  const std::lock_guard lock(mutex_);
  return hashes_.emplace(path, std::move(hash)).first->second;
}

void FileHashes::note_altered() {
  const std::lock_guard lock(mutex_);
  altered_ = true;
}

bool FileHashes::any_altered() const {
  const std::lock_guard lock(mutex_);
  return altered_;
}

void Evidence::add(const Event& event) {
  read_event(event, this);
}

void check_row(const Event& event) {
  read_event(event, nullptr);
}

bool is_worker_kind(std::string_view kind) {
  return std::any_of(kEntries.begin(), kEntries.end(), [&](const Entry& entry) {
    return entry.kind == kind && entry.of_worker;
  });
}

int Evidence::ranks() const {
  if (!the_case.scenario.is_command()) return static_cast<int>(the_case.scenario.parallel.ranks);
  int ranks = 1;
  for (const From<Started>& from : started) ranks = std::max(ranks, from.row.process_started + 1);
  return ranks;
}

bool Evidence::finished(int process) const {
  const std::int64_t began = life_began_ms(*this);
  return std::any_of(done.begin(), done.end(), [&](const From<Done>& from) {
    return from.process == process && from.t_ms > began;
  });
}

const Exited* Evidence::exit_of(int process) const {
  const std::int64_t began = life_began_ms(*this);
  for (const From<Exited>& from : exited) {
    if (from.row.process_ended == process && from.t_ms > began) return &from.row;
  }
  return nullptr;
}

const WorkerError* Evidence::error_of(int process) const {
  const std::int64_t began = life_began_ms(*this);
  for (const From<WorkerError>& from : errors) {
    if (from.process == process && from.t_ms > began) return &from.row;
  }
  return nullptr;
}

Evidence Evidence::last_life() const {
  Evidence last = *this;
  if (relaunches.empty()) return last;
  const std::int64_t began = life_began_ms(*this);
  for (const Entry& entry : kEntries) entry.keep_after(last, began);
  return last;
}

std::string Evidence::artefact(
    int process, std::string_view name, std::int64_t step, int of_rank, int layer) const {
  const auto at =
      std::find_if(artefacts.rbegin(), artefacts.rend(), [&](const From<Artefact>& from) {
        return from.process == process && from.row.name == name && from.row.step == step &&
               from.row.of_rank == of_rank && from.row.layer == layer;
      });
  if (at == artefacts.rend()) return "";
  return folder.empty() ? at->row.path : folder + "/" + at->row.path;
}

}  // namespace harness
