// Everything that was recorded of one case, typed: what checks judge. Built from events alone, live or from an old run,
// so that `judge RUN` sees exactly what the run saw.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "harness/evidence/event.h"
#include "harness/evidence/rows.h"
#include "harness/scenario/case.h"

namespace harness {

// A row and who wrote it when.
template <typename Row>
struct From {
  int process = 0;
  std::int64_t t_ms = 0;
  Row row;
};
template <typename Row>
using Rows = std::vector<From<Row>>;

// Hashes of files as they are now. Each file is read once, however many checks open it. Any thread may ask.
class FileHashes {
 public:
  // As nsa::hash_file() gives it. Throws: nsa::Error.
  [[nodiscard]] std::string of(const std::string& path);
  // A check met a file that is not what was recorded.
  void note_altered();
  [[nodiscard]] bool any_altered() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> hashes_;
  bool altered_ = false;
};

// What a check reads in place of a recorded tensor: bytes of the same size. Without bytes the recorded ones stay. `error`: how far
// its numbers may be from those that the training had. See judge/unused_facts.h.
struct StandIn {
  std::vector<std::byte> bytes;
  double error = 0.0;
};
using StandIns = std::map<std::string, std::map<std::string, StandIn>>;  // path of the file, tensor

struct Evidence {
  Case the_case;
  std::string folder;  // the case's folder: Artefact::path is relative to it
  std::shared_ptr<FileHashes> hashes =
      std::make_shared<FileHashes>();  // of its files; copies share them
  StandIns stand_ins;                  // none in a record as it was written

  Rows<Hello> hellos;
  Rows<Phase> phases;
  Rows<Heartbeat> heartbeats;
  Rows<Sample> samples;
  Rows<Gradient> gradients;
  Rows<Bucket> buckets;
  Rows<Collective> collectives;
  Rows<CollectiveDone> collectives_done;
  Rows<ExactSum> exact_sums;
  Rows<ReducedAgain> reduced_again;
  Rows<ParameterHash> parameters;
  Rows<StepDigest> digests;
  Rows<TensorDigest> tensor_digests;
  Rows<Stretch> stretches;
  Rows<Batch> batches;
  Rows<RouteUse> routes;
  Rows<Refusal> refusals;
  Rows<RouteChoice> route_choices;
  Rows<KernelRuns> kernels;
  Rows<Exposure> exposures;
  Rows<BlockChoice> block_choices;
  Rows<DropoutMask> dropout_masks;
  Rows<NanBirth> nan_births;
  Rows<CardLook> card_looks;
  Rows<Mutation> mutations;
  Rows<GateUse> gates;
  Rows<Update> updates;
  Rows<Recompute> recomputes;
  Rows<InPlace> in_place;
  Rows<StateHash> states;
  Rows<SnapshotUse> snapshots;
  Rows<Reads> reads;
  Rows<Artefact> artefacts;
  Rows<WorkerError> errors;
  Rows<FaultFired> faults_fired;
  Rows<Fact> facts;
  Rows<Done> done;
  Rows<OtherLevel> other_levels;
  Rows<Started> started;
  Rows<Exited> exited;
  Rows<Observation> observations;
  Rows<Suspect> suspects;
  Rows<Stopped> stopped;
  Rows<Relaunched> relaunches;
  Rows<Fact> rejected;  // lines that were no evidence: kept, never judged as anything else

  // Throws: nsa::Error as check_row() does; then nothing was added.
  void add(const Event& event);

  [[nodiscard]] int ranks() const;  // as the case wanted; of kind command as they were found
  // Ranks that were killed on purpose and started again (Relaunched) are in their last life: these three speak of it.
  [[nodiscard]] bool finished(int process) const;  // Done was seen
  [[nodiscard]] bool twin_ran() const { return finished(kTwin); }
  [[nodiscard]] const Exited* exit_of(int process) const;
  [[nodiscard]] const WorkerError* error_of(int process) const;
  // Only the rows since the ranks were started for the last time; all of them where that was once.
  [[nodiscard]] Evidence last_life() const;
  // The path of an artefact's file (the newest of that name), "" when it was never written.
  [[nodiscard]] std::string artefact(
      int process, std::string_view name, std::int64_t step, int of_rank, int layer = -1) const;
};

// The kind of `Evidence::rejected`: what a process wrote that was no event. Written by the controller alone.
inline constexpr const char* kRejectedKind = "rejected";

// Facts of a rank with the two lines. What it cannot judge, in words: "WHAT, because WHY".
inline constexpr const char* kNotJudgedFact = "not_judged";
// How many lines it could not send, since the controller did not read them.
inline constexpr const char* kLinesLostFact = "lines_lost";
// Its DistributedDataParallel is in `join`: ranks may take fewer steps by right.
inline constexpr const char* kJoinsFact = "joins";
// The number of a step of the others in which a rank that has joined took part with nothing of its own.
inline constexpr const char* kSatOutFact = "sat_out";
// Neither DistributedDataParallel nor fully_shard joins its rank with the others. The script may do so itself.
// Of the controller: how many ranks the environment of the ranks says that there are.
inline constexpr const char* kWorldSizeFact = "world_size";
inline constexpr const char* kNotJoinedFact = "not_joined";
// Parameters that its optimiser holds and that no backward of the whole run gave a gradient: a JSON list of full names.
inline constexpr const char* kNeverReachedFact = "never_reached";
// A fact of the controller: at the end of the case its disk was full.
inline constexpr const char* kDiskFullFact = "disk_full";
// A fact of the controller: the hash of the sources that it was built from.
inline constexpr const char* kBuiltFromFact = "built_from";
// A fact of the controller: the name of a file in the case's folder, and below it the last lines that were written to it on stderr.
inline constexpr const char* kLastLinesFact = "last_lines";
// A fact of the controller: the names of processes that ranks had started and that outlived them; they were ended.
inline constexpr const char* kLeftBehindFact = "left_behind";
// A fact of the controller: what the system's loader said of a worker that it could not start.
inline constexpr const char* kCannotStartFact = "worker_cannot_start";

// Whether a worker may write rows of this kind (the others are the controller's).
[[nodiscard]] bool is_worker_kind(std::string_view kind);

// Throws: nsa::Error on an unknown kind, a key the row does not have, a value of another type or out of its range, an
// artefact's path outside of the process's own folder. A missing key is not refused: it takes the row's default.
void check_row(const Event& event);

}  // namespace harness
