// What ranks record: one struct per kind of evidence, the same in the worker that writes it, in the JSON line on fd 3, in
// the database and in the checks that judge it. Plain values; nothing here judges.
//
// Conventions: `process` is the rank (0..ranks-1), or one of the numbers below zero named here. Steps count from 1, layers and
// ranks from 0; -1 stands for "not of one layer". `of_rank` is the rank whose micro-batch is meant: the rank's own number, and
// in the twin, which runs every rank's micro-batches, the number of the rank it stands in for. `param` is the full name of a
// parameter ("blocks.3.attn.W_K_cmp.weight"). Hashes are nsa::hash_hex of the raw bytes.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace harness {

inline constexpr int kTwin = -1;
inline constexpr int kController = -2;
// The command of a case of kind command, where its ranks are other processes.
inline constexpr int kLauncher = -3;
inline constexpr int kLowestProcess = kLauncher;

// "rank 3", "twin", "controller", "launcher"
[[nodiscard]] std::string process_name(int process);

// A double that survives JSON: NaN and infinities travel as the strings "NaN", "Infinity", "-Infinity".
struct Real {
  double value = 0.0;
  Real() = default;
  Real(double v)
      : value(v) {}  // NOLINT(google-explicit-constructor): a double in every other respect
  operator double() const { return value; }  // NOLINT(google-explicit-constructor)
};
void to_json(nlohmann::json& json, const Real& real);
void from_json(const nlohmann::json& json, Real& real);

struct Hello {  // first event of a worker
  static constexpr const char* kKind = "hello";
  std::int64_t pid = 0;
  std::string source_hash;  // compiled into the worker
  std::string torch_version;
  std::string device;   // "cpu", or the card's name
  std::string backend;  // gloo, nccl
  int threads = 0;
};

// Progress counters; they only grow within a process.
struct Counters {
  std::int64_t operators_forward = 0;
  std::int64_t operators_backward = 0;
  std::int64_t hooks = 0;  // gradient hooks fired
  std::int64_t collectives_enqueued = 0;
  std::int64_t collectives_completed = 0;
  std::int64_t work_items =
      0;  // other work of the worker itself: tensors hashed, written, initialised
  std::int64_t bytes_written = 0;
  std::int64_t cpu_ms = 0;  // of the process; not a sign of progress by itself

  [[nodiscard]] std::int64_t moved() const {
    return operators_forward + operators_backward + hooks + collectives_enqueued +
           collectives_completed + work_items;
  }
};

struct Heartbeat {  // every 2 s, from a thread of its own
  static constexpr const char* kKind = "heartbeat";
  std::string phase;  // init, rendezvous, data, forward, backward, optimizer, record, done
  std::int64_t step = 0;
  int layer = -1;
  Counters counters;
  std::int64_t longest_gap_ms =
      0;  // longest time between two increments in this phase, waits on peers left out
  std::int64_t rss_bytes = 0;
};

struct Phase {  // a phase begins
  static constexpr const char* kKind = "phase";
  std::string phase;
  std::int64_t step = 0;
};

struct Sample {  // loss, grad_norm, lr, rss_peak_bytes, step_ms, tokens, ...; units are in the name
  static constexpr const char* kKind = "sample";
  std::string metric;
  std::int64_t step = 0;
  Real value;
};

// Whether the loss leads to a parameter, by a walk over the graph. Unknown: it was not walked, or its end lies in a piece without
// a graph. In JSON: true, false, "unknown".
enum class Reach { no, yes, unknown };
void to_json(nlohmann::json& json, const Reach& reach);
void from_json(const nlohmann::json& json, Reach& reach);

// State of a gradient that is there and whose values nobody looked at.
inline constexpr const char* kUnread = "unread";

struct Gradient {  // the gradient ledger: one row a parameter, step and process (twin: and of_rank)
  static constexpr const char* kKind = "gradient";
  std::int64_t step = 0;
  int of_rank = 0;
  std::string param;
  int index = 0;  // position in the model's parameter list
  Reach reachable = Reach::unknown;
  int ready_count =
      0;  // runs of AccumulateGrad seen by an own hook in the synchronising micro-batch
  int ready_order = -1;    // 0 = first
  int bucket = -1;         // of the Reducer; -1 in the twin
  int hooks_expected = 0;  // post hooks on the grad accumulator: when they were installed,
  int hooks_found = 0;     //   and after the backward; another accumulator node counts as 0
  std::string state;  // ok, none, zero, nan, inf; frozen: the training needs none of it; kUnread
  Real l2;            // of the local gradient, before reduction
  Real absmax;
  std::string hash_before;  // local gradient, "" when there is none
  std::string hash_after;   // after reduction; "" in the twin and where there is none
  bool reduced = false;     // the Reducer finished this step's reduction
  // Of a sharded parameter: the one held here; "" for the whole. "rank 1": whether another rank holds the same is not known.
  std::string piece = {};
};

struct Bucket {  // the Reducer's plan as it was used in this step
  static constexpr const char* kKind = "bucket";
  std::int64_t step = 0;
  int bucket = 0;
  std::int64_t elements = 0;
  std::string dtype;
  std::vector<int> params;  // indices
};

struct Collective {  // written before the operation is enqueued
  static constexpr const char* kKind = "collective";
  std::int64_t sequence = 0;  // per process and group, from 0
  std::int64_t step = 0;      // 0 during start-up
  std::string phase;
  std::string op;         // allreduce, broadcast, allgather, barrier, ...
  std::string reduce_op;  // sum, avg, max, ...; "" where it means nothing
  std::string dtype;
  std::int64_t count = 0;  // elements over all tensors
  std::string group;       // "default"
  std::int64_t micro = 0;  // micro-batch of the step
};

struct CollectiveDone {
  static constexpr const char* kKind = "collective_done";
  std::int64_t sequence = 0;
  std::string group;
};

// A sum over the ranks whose addends everybody knows (docs/data.md, "Sums that are known beforehand"): what a rank holds of it.
struct ExactSum {
  static constexpr const char* kKind = "exact_sum";
  std::int64_t step = 0;  // after this one
  int bucket = 0;         // whose size and type the sum has
  std::int64_t elements = 0;
  std::string dtype;
  std::string hash;                       // of its bytes
  std::int64_t wrong = 0;                 // elements that the rank itself finds wrong
  std::vector<std::int64_t> places = {};  // of these, the first ones
  std::vector<std::string> values = {};   // what it holds there

  // Whether a run of so many steps takes one after this step.
  [[nodiscard]] static constexpr bool is_due(std::int64_t step, std::int64_t steps) {
    constexpr std::int64_t kEvery =
        10;  // more often where the run is short: then nothing else costs less
    return step <= kEvery || step % kEvery == 0 || step == steps;
  }
};

// A reduced gradient of a backward that was done again while streams of the card were late, or in series.
struct ReducedAgain {
  static constexpr const char* kKind = "reduced_again";
  std::int64_t step = 0;
  std::string call;  // of kReducedCalls
  std::string param;
  int bucket = -1;
  std::string hash;
};
inline constexpr const char* kReducedCalls[] = {
    "in_series", "in_series_2", "as_it_is", "late", "others_late"};

struct ParameterHash {  // after an optimiser step
  static constexpr const char* kKind = "parameter";
  std::int64_t step = 0;
  std::string param;
  std::string hash;
  std::string piece = {};  // as of Gradient
};

// What one step of a training of the user's own left behind, as fingerprints: 64 bits of all bytes of a class of tensors, in hex;
// "" where the class is empty or was not read. Taken in every step, recorded in full or not. Ranks with the same piece hold the
// same.
struct StepDigest {
  static constexpr const char* kKind = "digest";
  std::int64_t step = 0;
  std::int64_t reductions =
      0;  // backwards that reduced gradients, in the whole run up to the end of this step
  std::int64_t taken = 0;  // steps of the optimiser
  std::int64_t forwards = 0;
  std::int64_t backwards = 0;
  std::vector<std::string> gradients = {};  // of each backward that reduced them, in order
  std::string parameters = {};              // those that are trained, after the update
  std::string frozen = {};                  // the others, after the update
  std::string buffers = {};                 // when the last forward began, made equal on all ranks
  std::string own_buffers = {};             // the same, if nothing makes them equal
  // What optimisers keep, after the update: a sixteenth of the tensors in each step, in turn. `states_of` names these tensors and
  // the piece: ranks with the same one hold the same.
  std::string states = {};
  std::string states_of = {};
  std::string inputs = {};      // what the model was called with, in all forwards
  Real grad_norm = -1.0;        // of the last of `gradients`; -1: not taken
  std::string not_finite = {};  // classes with an infinity or a NaN, as they arose: g, p, f, b, s
  std::string piece = {};       // as of Gradient
};

// Of a step in which digests differ, or are not finite: one tensor of one rank, read by the controller from the file in which the
// rank keeps its last steps.
struct TensorDigest {
  static constexpr const char* kKind = "tensor_digest";
  std::int64_t step = 0;
  std::string of;      // the class: gradients, parameters, frozen, buffers, states
  std::string tensor;  // full name
  std::string fingerprint;
  std::string state;     // ok, nan, inf; kUnread
  std::int64_t odd = 0;  // tensors of the class that differ or are not finite, of
  std::int64_t all = 0;  // so many
};

// In some steps all ranks did the same, and held the same wherever they must. The controller tells these steps in one row in place
// of theirs (step_fold.h). It has compared them before it did so, and what checks count of them is here.
struct Stretch {
  static constexpr const char* kKind = "stretch";
  struct OfGroup {  // collectives without a gap, each of which was done
    std::string group;
    std::int64_t first = 0;  // sequence
    std::int64_t last = 0;
  };
  struct OfRank {
    int rank = 0;
    std::int64_t begin_ms = 0;                     // as of an event
    std::map<std::string, std::int64_t> phase_ms;  // until the next phase begins
    std::string parameters;                        // digest after the last step
    bool moved = false;                            // another one after some step
    std::vector<OfGroup> collectives;
  };
  std::int64_t first = 0;  // step
  std::int64_t last = 0;
  // Of each rank, in all steps together:
  std::int64_t forwards = 0;
  std::int64_t backwards = 0;
  std::int64_t sums = 0;   // collectives that sum gradients; of several ranks in each step
  std::int64_t plans = 0;  // buckets
  std::int64_t reductions_before = 0;  // as of StepDigest, before the first step
  std::int64_t reductions_each = 0;    // and in each step
  bool inputs = false;                 // no two ranks read the same; false: they do not tell
  std::string losses;                  // of the lowest rank, step after step: "2.31,2.29"
  std::vector<OfRank> of_ranks;

  static constexpr std::int64_t kLongest = 1'000;  // steps
  [[nodiscard]] std::int64_t steps() const { return last - first + 1; }
};

struct Batch {  // one row per sequence of a micro-batch
  static constexpr const char* kKind = "batch";
  std::int64_t step = 0;
  std::int64_t micro = 0;  // micro-batch of the step, from 0
  int of_rank = 0;
  int sequence = 0;    // row of the micro-batch
  std::string hash;    // of the tokens that entered the model
  std::string source;  // hash of the corpus the loader read, or the name of a synthetic source
};

struct RouteUse {  // counted inside the implementation that ran
  static constexpr const char* kKind = "route";
  std::string seam;
  int layer = -1;
  std::string effective;     // the name the implementation has of itself
  std::int64_t forward = 0;  // runs
  std::int64_t backward = 0;
};

// An implementation was asked for what it cannot do, and said so before it did anything.
struct Refusal {
  static constexpr const char* kKind = "refusal";
  std::string seam;
  int layer = -1;         // -1: when the model was made
  std::string requested;  // the implementation
  std::string reason;     // what it cannot do
};

// What `auto` in a route considered for a seam before the model was made: the fastest first, up to the one that was taken.
struct RouteChoice {
  static constexpr const char* kKind = "route_choice";
  std::string seam;
  std::string implementation;
  std::string passed_over;  // what it cannot do there; "" for the one that was taken
};

// Kernels that ran on the device, as its own trace tells them, in forward and backward of one step.
struct KernelRuns {
  static constexpr const char* kKind = "kernel";
  std::int64_t step = 0;
  std::string name;  // of the function, without its template arguments
  std::int64_t runs = 0;
};

// Was the claimed law exercised? rows = (batch, group, query) triples of one layer and step
struct Exposure {
  static constexpr const char* kKind = "exposure";
  std::int64_t step = 0;
  int layer = 0;
  std::int64_t rows = 0;
  std::int64_t rows_dropped = 0;     // selection: rows for which a complete past block was left out
  std::int64_t rows_cut = 0;         // window: rows that lost a past key
  std::int64_t rows_compressed = 0;  // compressed: rows that see at least one compressed token
};

// Decision ledger: which blocks one layer chose in the first forward of a step, and the scores it chose from, as hashes of their
// bytes.
struct BlockChoice {
  static constexpr const char* kKind = "block_choice";
  std::int64_t step = 0;
  int layer = 0;
  int of_rank = 0;  // of a twin: whose micro-batch
  std::string scores;
  std::string blocks;
};

// Which numbers residual dropout kept in a forward: the hash of a mask.
struct DropoutMask {
  static constexpr const char* kKind = "dropout_mask";
  std::int64_t step = 0;
  std::int64_t micro = 0;
  int layer = 0;
  int site = 0;     // 0: what the attention gives, 1: what the MLP gives
  int of_rank = 0;  // of a twin: whose micro-batch
  std::string hash;
};

// The birth certificate of a number that is not finite: the first operator of this process and step whose inputs were finite
// and whose output was not. `direction` is forward, backward or optimizer; `poisoned` when uninitialised memory starts as NaN.
struct NanBirth {
  static constexpr const char* kKind = "nan_birth";
  std::int64_t step = 0;
  int layer = -1;
  std::string seam;  // whose implementation ran: "attend_sel"; "" outside of seams
  std::string
      op;  // the operator's name: "softmax"; "" when memory was handed out that nobody wrote
  std::string direction;
  bool poisoned = false;
  std::vector<std::int64_t> shape;  // of the output
  std::int64_t elements = 0;        // of the output that are not finite
  std::int64_t first = 0;           // index of the first of them, row-major
  Real largest_input;               // largest |input|
};

// What the driver says of a rank's card while the rank's times are taken.
struct CardLook {
  static constexpr const char* kKind = "card_look";
  std::int64_t step = 0;  // after this one; 0: before the first
  bool idle =
      false;  // the rank had nothing on its card for longer than the driver's sampling period
  int busy_percent =
      -1;  // share of that period in which a kernel ran, of whichever process; -1: not told
  std::int64_t used_bytes = -1;  // of the card's memory, by all processes; -1: not told
  std::int64_t own_bytes = -1;   // of these, what the rank's allocator holds
  int processes = -1;            // that compute on the card, the rank included; -1: not told
};

struct Mutation {  // a seam's implementation wrote into what it was given
  static constexpr const char* kKind = "mutation";
  std::int64_t step = 0;
  int layer = -1;
  std::string seam;           // who wrote
  std::string tensor;         // what was written to: "blocks", "q", "x"
  std::int64_t elements = 0;  // that have another value now
  std::string seen_by;        // what told: values, version counter, or both; "": not said
};

struct GateUse {  // what a layer's gates were over all rows of one step
  static constexpr const char* kKind = "gate_use";
  std::int64_t step = 0;
  int layer = 0;
  Real mean_cmp;
  Real mean_sel;
  Real mean_win;
  Real spread;       // largest difference of one branch's gate between two rows
  std::string hash;  // of the gates' bytes
};

// The update ledger: what an optimiser step wanted of a parameter, and what its stored value took up
struct Update {
  static constexpr const char* kKind = "update";
  std::int64_t step = 0;
  std::string param;
  std::string dtype;  // of the stored value that the next step starts from
  std::int64_t elements = 0;
  std::int64_t wanted = 0;  // elements whose gradient is not zero: AdamW moves them
  std::int64_t lost = 0;    // of them: those whose stored value did not change
  bool skipped = false;     // the step was skipped (loss scaling)
};

// One layer of one backward: what a checkpointed layer computed again against what it had computed forward.
struct Recompute {
  static constexpr const char* kKind = "recompute";
  std::int64_t step = 0;
  std::int64_t micro = 0;
  int layer = 0;
  std::string mode;           // functional, nested
  std::string dtype_forward;  // of what the layer's operators put out: "Float", "BFloat16"
  std::string dtype_recompute;
  std::string blocks_forward;  // hash of the selected blocks
  std::string blocks_recompute;
  std::int64_t rows = 0;            // (batch, group, query) rows of the selection
  std::int64_t rows_differing = 0;  // rows whose blocks differ
  std::vector<int> queries;         // up to 64 query positions of such rows, ascending
  bool queries_equal = true;        // what the selection starts from, bit by bit
  bool output_equal = true;         // the block's output, bit by bit
};

// A tensor that the backward needs was written to after it was made.
struct InPlace {
  static constexpr const char* kKind = "in_place";
  std::int64_t step = 0;
  int layer = -1;    // that made it
  std::string seam;  // whose output it is
  std::string tensor;
  std::int64_t version_made = 0;
  std::int64_t version_found = 0;  // before the backward
  std::int64_t elements = 0;       // that have another value now
};

// A part of the training state after a step, so that a resumed run can be told from one that never stopped.
struct StateHash {
  static constexpr const char* kKind = "state";
  std::int64_t step = 0;
  std::string part;  // optimizer, schedule, scaler, rng, data
  std::string hash;
};

// A snapshot of the full state: written whole, or read back.
struct SnapshotUse {
  static constexpr const char* kKind = "snapshot";
  std::int64_t step = 0;  // the state after this step
  std::string use;        // saved, resumed
  std::string path;       // relative to the case's folder
  std::int64_t bytes = 0;
  std::int64_t tensors = 0;  // of a saved one: those whose bytes in the file were compared
  std::vector<std::string> torn =
      {};  // of them: those that are not what they were when it was asked for
};

struct Reads {  // keys and values that one branch really read, summed over batch and groups
  static constexpr const char* kKind = "reads";
  std::int64_t step = 0;  // position of the query, counted from 0, in decoding
  int layer = 0;
  std::string branch;
  std::int64_t tokens = 0;
};

struct Artefact {  // a file below the case's folder
  static constexpr const char* kKind = "artefact";
  std::int64_t step = 0;
  int of_rank = 0;
  std::string name;  // attention_layer, local_gradients, reduced_gradients, weights, ...
  int layer = -1;
  std::string path;  // relative to the case's folder: rank_2/..., of the twin twin_of_2/...
  std::int64_t bytes = 0;
  std::string hash;
};

struct WorkerError {  // an exception that ended a worker
  static constexpr const char* kKind = "error";
  std::string type;
  std::string what;
  std::string phase;
  std::int64_t step = 0;
  std::vector<std::string> bases = {};  // classes that the type derives from, nearest first
  std::vector<std::string> frames =
      {};                        // where it was raised, innermost first; empty where not known
  std::int64_t device_code = 0;  // the error number of the device's runtime; 0 where none
  std::string raised_from =
      "";  // the exception that it was raised from, or that tells of it, with the user's line
};

struct FaultFired {  // read by the runner only, never by a check
  static constexpr const char* kKind = "fault_fired";
  std::int64_t times = 0;
};

struct Fact {
  static constexpr const char* kKind = "fact";
  std::string name;
  std::string value;
};

struct Done {  // last event of a worker that did all it was asked
  static constexpr const char* kKind = "done";
};

// ---- written by the controller -------------------------------------------------------------------------------------

// What a case of the same run showed that differs from this one in the level of observation alone, and had ended before.
struct OtherLevel {
  static constexpr const char* kKind = "other_level";
  int observe = 0;
  std::string end;                  // well; still or budget: ended by the controller for it; failed
  std::vector<int> ranks;           // that did not end well
  std::vector<std::string> losses;  // "RANK STEP LOSS", every digit of it, where they were recorded
  std::vector<std::string> parameters;  // "RANK HASH", over all of them after the last step
};

struct Started {
  static constexpr const char* kKind = "started";
  int process_started = 0;
  std::int64_t pid = 0;
};

struct Exited {
  static constexpr const char* kKind = "exited";
  int process_ended = 0;
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  bool by_controller = false;  // the controller had sent it a signal before
  bool by_launcher =
      false;  // of kind command: the launcher ended it, after another rank had failed
  bool core_dumped = false;
  bool out_of_memory = false;          // the kernel killed it for memory
  bool memory_kill_elsewhere = false;  // the kernel killed some process for memory meanwhile
  std::int64_t rss_peak_bytes = 0;
};

struct ThreadStack {
  std::string thread;               // name and tid
  std::string state;                // /proc state letter
  std::string wchan;                // kernel function it sleeps in, where readable
  std::vector<std::string> frames;  // innermost first; empty when the process could not answer
  std::vector<std::string> kernel;  // the same inside the kernel, seen from outside, where readable
  std::string call;                 // system call it waits in, or "running"; "" where not readable
  bool timed = false;               // that call ends by itself: it has a time limit
  std::int64_t left_ms = -1;        // until that limit; -1: not readable, or none
  std::int64_t cpu_ms = 0;
  std::int64_t switches = -1;  // times it gave up the processor of its own will; -1: not readable
  std::string
      other_end;  // who can end its wait: "process 4711 (python), which holds the lock"; "" where that is not known
  bool outside =
      false;  // the other end is known, and is nothing that was started together with this process
};

struct ChildProcess {  // a process that a rank started, or one that this started
  std::string name;
  int pid = 0;
  std::string state;
  std::int64_t cpu_ms = 0;
  std::vector<std::string> frames =
      {};  // of its main thread, innermost first, if it is Python and was asked
  bool writes_to_rank = false;  // it waits in a write to a pipe that the rank has open
};

inline constexpr int kAskedLook = -2;

struct Observation {  // a look at one process from outside (and its own stacks, where it answers)
  static constexpr const char* kKind = "observation";
  int process_observed = 0;
  // 0 and 1, some seconds apart, with stacks; 2 and 3, the first and the last look without them at a case that was not ended
  // after the first two; -1: a process's own, not asked for; -2: the user asked for it
  int look = 0;
  std::string state;  // R running, S sleeping, D disk, T stopped, t traced, Z zombie
  std::int64_t cpu_ms = 0;
  std::vector<ThreadStack> threads;  // the main thread first
  std::vector<ChildProcess> children;
  std::int64_t children_cpu_ms = 0;  // of all children, those that have ended too
  std::int64_t disk_bytes = 0;       // read from and written to disks so far
  // Of its card: share of the driver's last sampling period in which a kernel ran, of whichever process; -1: not read
  int device_busy_percent = -1;
  // Times that its main thread had woken up in the seconds before, while nothing else moved: something comes, piece by piece
  std::int64_t woke = 0;
  // Of a Python process that neither its faulthandler nor py-spy told a stack of: the command that would let it be read
  std::string way_to_stacks = "";
};

struct Suspect {  // nothing moved on any live rank for longer than the threshold
  static constexpr const char* kKind = "suspect";
  std::int64_t still_ms = 0;
  std::int64_t threshold_ms = 0;
  std::int64_t longest_gap_ms = 0;
  std::int64_t polls_ms = 0;  // how long a wait that wakes up again and again was to be borne
};

// Why the controller ended the case; absent when all processes ended by themselves
struct Stopped {
  static constexpr const char* kKind = "stopped";
  std::string reason;  // still, budget, peer_ended, interrupted
  std::string detail;
  std::int64_t after_ms = 0;  // since the case began
};

// The ranks have ended, on purpose or by a failure, and are started again: what they write from now on is their next life.
struct Relaunched {
  static constexpr const char* kKind = "relaunched";
  static constexpr const char* kWell = "they exited with 0";  // a reason: nothing had failed
  int life = 1;                                               // 1: the second one
  std::string
      reason;  // "killed in step 3, phase save", "rank 1 exited with 1: ValueError: no data"
};

// ---- JSON ----------------------------------------------------------------------------------------------------------

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    Hello, pid, source_hash, torch_version, device, backend, threads)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Counters,
                                                operators_forward,
                                                operators_backward,
                                                hooks,
                                                collectives_enqueued,
                                                collectives_completed,
                                                work_items,
                                                bytes_written,
                                                cpu_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    Heartbeat, phase, step, layer, counters, longest_gap_ms, rss_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Phase, phase, step)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Sample, metric, step, value)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Gradient,
                                                step,
                                                of_rank,
                                                param,
                                                index,
                                                reachable,
                                                ready_count,
                                                ready_order,
                                                bucket,
                                                hooks_expected,
                                                hooks_found,
                                                state,
                                                l2,
                                                absmax,
                                                hash_before,
                                                hash_after,
                                                reduced,
                                                piece)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Bucket, step, bucket, elements, dtype, params)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    Collective, sequence, step, phase, op, reduce_op, dtype, count, group, micro)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(CollectiveDone, sequence, group)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    ExactSum, step, bucket, elements, dtype, hash, wrong, places, values)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ReducedAgain, step, call, param, bucket, hash)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ParameterHash, step, param, hash, piece)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(StepDigest,
                                                step,
                                                reductions,
                                                taken,
                                                forwards,
                                                backwards,
                                                gradients,
                                                parameters,
                                                frozen,
                                                buffers,
                                                own_buffers,
                                                states,
                                                states_of,
                                                inputs,
                                                grad_norm,
                                                not_finite,
                                                piece)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    TensorDigest, step, of, tensor, fingerprint, state, odd, all)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Stretch::OfGroup, group, first, last)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    Stretch::OfRank, rank, begin_ms, phase_ms, parameters, moved, collectives)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Stretch,
                                                first,
                                                last,
                                                forwards,
                                                backwards,
                                                sums,
                                                plans,
                                                reductions_before,
                                                reductions_each,
                                                inputs,
                                                losses,
                                                of_ranks)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Batch, step, micro, of_rank, sequence, hash, source)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RouteUse, seam, layer, effective, forward, backward)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Refusal, seam, layer, requested, reason)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RouteChoice, seam, implementation, passed_over)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(KernelRuns, step, name, runs)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    DropoutMask, step, micro, layer, site, of_rank, hash)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(BlockChoice, step, layer, of_rank, scores, blocks)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    Exposure, step, layer, rows, rows_dropped, rows_cut, rows_compressed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    NanBirth, step, layer, seam, op, direction, poisoned, shape, elements, first, largest_input)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    CardLook, step, idle, busy_percent, used_bytes, own_bytes, processes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    Mutation, step, layer, seam, tensor, elements, seen_by)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    GateUse, step, layer, mean_cmp, mean_sel, mean_win, spread, hash)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    Update, step, param, dtype, elements, wanted, lost, skipped)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Recompute,
                                                step,
                                                micro,
                                                layer,
                                                mode,
                                                dtype_forward,
                                                dtype_recompute,
                                                blocks_forward,
                                                blocks_recompute,
                                                rows,
                                                rows_differing,
                                                queries,
                                                queries_equal,
                                                output_equal)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    InPlace, step, layer, seam, tensor, version_made, version_found, elements)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(StateHash, step, part, hash)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(SnapshotUse, step, use, path, bytes, tensors, torn)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Relaunched, life, reason)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Reads, step, layer, branch, tokens)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    Artefact, step, of_rank, name, layer, path, bytes, hash)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    WorkerError, type, what, phase, step, bases, frames, device_code, raised_from)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(FaultFired, times)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Fact, name, value)
inline void to_json(nlohmann::json& json, const Done&) {
  json = nlohmann::json::object();
}
inline void from_json(const nlohmann::json&, Done&) {}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(OtherLevel, observe, end, ranks, losses, parameters)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Started, process_started, pid)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Exited,
                                                process_ended,
                                                exit_code,
                                                signal,
                                                by_controller,
                                                by_launcher,
                                                core_dumped,
                                                out_of_memory,
                                                memory_kill_elsewhere,
                                                rss_peak_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ThreadStack,
                                                thread,
                                                state,
                                                wchan,
                                                frames,
                                                kernel,
                                                call,
                                                timed,
                                                left_ms,
                                                cpu_ms,
                                                switches,
                                                other_end,
                                                outside)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    ChildProcess, name, pid, state, cpu_ms, frames, writes_to_rank)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Observation,
                                                process_observed,
                                                look,
                                                state,
                                                cpu_ms,
                                                threads,
                                                children,
                                                children_cpu_ms,
                                                disk_bytes,
                                                device_busy_percent,
                                                woke,
                                                way_to_stacks)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    Suspect, still_ms, threshold_ms, longest_gap_ms, polls_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Stopped, reason, detail, after_ms)

}  // namespace harness
