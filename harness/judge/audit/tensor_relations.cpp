// Rows against what a rank wrote of its step: gradients, parameters, tokens, losses.
#include <algorithm>
#include <cmath>
#include <set>

#include "harness/judge/audit/relations.h"
#include "nsa/base/hash.h"
#include "nsa/base/text.h"

namespace harness::audit {
namespace {

using LedgerKey = std::tuple<int, std::int64_t, int>;  // process, step, of_rank
using Ledgers = std::map<LedgerKey, std::vector<const Gradient*>>;

Ledgers ledgers_of(const Evidence& evidence) {
  using RowKey = std::tuple<int, std::int64_t, int, std::string>;
  Ledgers ledgers;
  for (const auto& [key, from] : newest_by<RowKey>(evidence.gradients, [](const auto& one) {
         return RowKey{one.process, one.row.step, one.row.of_rank, one.row.param};
       })) {
    ledgers[{from->process, from->row.step, from->row.of_rank}].push_back(&from->row);
  }
  return ledgers;
}

// Calls ask(file, process, row) with every gradient that was looked at, until it gives a sentence.
template <typename Ask>
std::string ask_ledgers(const Record& record, const char* name, const Ask& ask) {
  const Ledgers ledgers = ledgers_of(record.evidence());
  for (const FileKey& key : record.files(name)) {
    const auto at = ledgers.find({key.process, key.step, key.of_rank});
    if (at == ledgers.end()) continue;
    const auto file = record.open(key);
    if (!file) continue;
    for (const Gradient* row : at->second) {
      std::string found = ask(*file, key, *row);
      if (!found.empty()) return found;
    }
  }
  return "";
}

bool is_zero(const nsa::TensorView& tensor) {
  return std::all_of(tensor.bytes.begin(), tensor.bytes.end(), [](std::byte byte) {
    return byte == std::byte{0};
  });
}

std::int64_t element_count(const nsa::TensorView& tensor) {
  return static_cast<std::int64_t>(tensor.bytes.size()) / nsa::dtype_bytes(tensor.dtype);
}

std::string ledger_text(const FileKey& key) {
  return "the gradient ledger of " + place_text(key.process, key.of_rank, key.step);
}

// The hash is taken of the bytes in the file, when they are put there. A gradient that did not come is left as zeros.
std::string hash_differs(const RecordedFile& file,
                         const FileKey& key,
                         const Gradient& row,
                         const std::string& hash) {
  const nsa::TensorView* tensor = file.find(row.param);
  if (tensor == nullptr) return "";
  const bool holds = hash.empty() ? is_zero(*tensor) : hash == hash_of(*tensor);
  if (holds || !file.is_as_recorded()) return "";
  return "the hash of " + row.param + " in " + ledger_text(key) +
         (hash.empty() ? ", is not there, and the tensor in " : ", is not that of the tensor in ") +
         file.path();
}

// Another backward may write into the gradient between the look and the copy where it comes twice, where it lies in the reducer's
// memory, or where a stream of a card makes it.
bool is_looked_at_in_peace(const Evidence& evidence, const Gradient& row) {
  const nsa::ParallelConfig& parallel = evidence.the_case.scenario.parallel;
  return parallel.device == nsa::Device::cpu && !parallel.gradient_as_bucket_view &&
         row.ready_count == 1 && !row.hash_before.empty();
}

constexpr std::size_t kMostBytesAdded = std::size_t{1} << 20;  // of one tensor

std::string size_differs(const RecordedFile& file, const FileKey& key, const Gradient& row) {
  constexpr double kOtherOrder = 1e-6;  // of a sum in double
  const nsa::TensorView* tensor = file.find(row.param);
  if (tensor == nullptr || tensor->bytes.size() > kMostBytesAdded) return "";
  double largest = 0.0;
  double square = 0.0;
  for (const double value : nsa::to_doubles(*tensor)) {
    largest = std::isnan(value) || std::abs(value) > largest ? std::abs(value) : largest;
    if (std::isnan(value)) break;
    square += value * value;
  }
  const double l2 = std::sqrt(square);
  const bool same_largest =
      row.absmax == largest || (std::isnan(row.absmax) && std::isnan(largest));
  const bool same_l2 =
      !std::isfinite(largest) || !std::isfinite(l2) || std::abs(row.l2 - l2) <= kOtherOrder * l2;
  if ((same_largest && same_l2) || !file.is_as_recorded()) return "";
  return ledger_text(key) + " says that the gradient of " + row.param + " has " +
         (same_largest ? "the norm " + nsa::to_text(row.l2, 6)
                       : "the largest value " + nsa::to_text(row.absmax, 6)) +
         ", and the tensor in " + file.path() + " has " +
         nsa::to_text(same_largest ? l2 : largest, 6);
}

// "tokens.1" of a step's file, cut into the sequences of its micro-batch.
std::vector<std::string> sequence_hashes(const nsa::TensorView& tokens) {
  std::vector<std::string> hashes;
  if (tokens.shape.empty() || tokens.shape.front() <= 0) return hashes;
  const auto count = static_cast<std::size_t>(tokens.shape.front());
  const std::size_t bytes = tokens.bytes.size() / count;
  for (std::size_t row = 0; row < count; ++row) {
    hashes.push_back(nsa::hash_hex(tokens.bytes.subspan(row * bytes, bytes)));
  }
  return hashes;
}

using SequenceKey = std::tuple<int, std::int64_t, std::int64_t, int>;  // process, step, micro, row

std::string sequence_text(const SequenceKey& key) {
  const auto& [process, step, micro, row] = key;
  return "sequence " + std::to_string(row) + " of " + process_name(process) + ", step " +
         std::to_string(step) + ", micro-batch " + std::to_string(micro);
}

std::map<SequenceKey, std::string> recorded_tokens(const Record& record) {
  std::map<SequenceKey, std::string> hashes;
  for (const FileKey& key : record.files("optimizer_step")) {
    const auto file = record.open(key);
    if (!file) continue;
    for (std::int64_t micro = 0;; ++micro) {
      const nsa::TensorView* tokens = file->find("tokens." + std::to_string(micro));
      if (tokens == nullptr) break;
      int row = 0;
      for (std::string& hash : sequence_hashes(*tokens)) {
        hashes[{key.process, key.step, micro, row++}] = std::move(hash);
      }
    }
  }
  return hashes;
}

bool is_step_as_recorded(const Record& record, const SequenceKey& key) {
  const auto& [process, step, micro, row] = key;
  const auto file = record.open({"optimizer_step", process, step, process, -1});
  return file && file->is_as_recorded();
}

}  // namespace

std::string gradient_hash_is_of_tensor(const Record& record) {
  std::string found = ask_ledgers(
      record, "local_gradients", [](const auto& file, const FileKey& key, const Gradient& row) {
        return hash_differs(file, key, row, row.hash_before);
      });
  if (!found.empty()) return found;
  return ask_ledgers(
      record, "reduced_gradients", [](const auto& file, const FileKey& key, const Gradient& row) {
        return hash_differs(file, key, row, row.hash_after);
      });
}

std::string gradient_size_is_of_tensor(const Record& record) {
  return ask_ledgers(
      record, "local_gradients", [&](const auto& file, const FileKey& key, const Gradient& row) {
        return is_looked_at_in_peace(record.evidence(), row) ? size_differs(file, key, row) : "";
      });
}

// The plan of a file of gradients is made of the parameters.
std::string update_counts_the_tensor(const Record& record) {
  std::map<std::pair<int, std::int64_t>, std::vector<const Update*>> updates;
  for (const From<Update>& from : record.evidence().updates) {
    updates[{from.process, from.row.step}].push_back(&from.row);
  }
  for (const FileKey& key : record.files("reduced_gradients")) {
    const auto at = updates.find({key.process, key.step});
    if (at == updates.end()) continue;
    const auto file = record.open(key);
    if (!file) continue;
    for (const Update* row : at->second) {
      const nsa::TensorView* tensor = file->header_of(row->param);
      if (tensor == nullptr || element_count(*tensor) == row->elements) continue;
      if (!file->is_as_recorded()) break;
      return "the update ledger of " + place_text(key.process, key.of_rank, key.step) +
             " says that " + row->param + " has " + std::to_string(row->elements) +
             " elements, and the tensor in " + file->path() + " has " +
             std::to_string(element_count(*tensor));
    }
  }
  return "";
}

// On a CPU, where nothing runs between the copy and the hash. Of masters the row is of the model's weight.
std::string parameter_hash_is_of_tensor(const Record& record) {
  const Evidence& evidence = record.evidence();
  if (evidence.the_case.scenario.parallel.device != nsa::Device::cpu) return "";
  std::map<std::pair<int, std::int64_t>, std::map<std::string, std::string>> hashes;
  for (const From<ParameterHash>& from : evidence.parameters) {
    hashes[{from.process, from.row.step}][from.row.param] = from.row.hash;
  }
  for (const FileKey& key : record.files("optimizer_step")) {
    const auto at = hashes.find({key.process, key.step});
    if (at == hashes.end()) continue;
    const auto file = record.open(key);
    if (!file) continue;
    for (const auto& [param, hash] : at->second) {
      if (file->header_of("rows." + param) != nullptr) continue;  // drawn rows alone are there
      const bool has_masters = file->header_of("w1." + param) != nullptr;
      const nsa::TensorView* tensor = file->find((has_masters ? "w1." : "p1.") + param);
      if (tensor == nullptr || hash_of(*tensor) == hash || !file->is_as_recorded()) continue;
      return "the hash of " + param + " after " + place_text(key.process, key.of_rank, key.step) +
             ", is not that of the tensor in " + file->path();
    }
  }
  return "";
}

// What the model does to its tokens comes between the hash and the copy, and never makes the tokens of another place of them.
std::string batch_hash_is_of_its_tokens(const Record& record) {
  const auto tokens = recorded_tokens(record);
  std::map<std::string, SequenceKey> place_of;
  for (const auto& [key, hash] : tokens) place_of.try_emplace(hash, key);
  for (const From<Batch>& from : record.evidence().batches) {
    const SequenceKey key{from.process, from.row.step, from.row.micro, from.row.sequence};
    const auto own = tokens.find(key);
    if (own == tokens.end() || own->second == from.row.hash) continue;
    const auto other = place_of.find(from.row.hash);
    if (other == place_of.end() || !is_step_as_recorded(record, key) ||
        !is_step_as_recorded(record, other->second)) {
      continue;
    }
    return "the hash of " + sequence_text(key) +
           ", is not that of its recorded tokens, but that of " + sequence_text(other->second);
  }
  return "";
}

// The loss of a step is a mean: it lies between the smallest and the largest loss of the step's file. If these are finite, it is
// finite. If the loss scores a drawn number of positions, it may score none: then the mean may be NaN.
std::string loss_is_of_its_step(const Record& record) {
  constexpr double kRounded = 1e-9;
  const Evidence& evidence = record.evidence();
  const bool scores =
      evidence.the_case.scenario.training.data.loss_mask == nsa::DataConfig::LossMask::none;
  std::map<std::pair<int, std::int64_t>, double> losses;
  for (const From<Sample>& from : evidence.samples) {
    if (from.row.metric == "loss") losses[{from.process, from.row.step}] = from.row.value;
  }
  for (const FileKey& key : record.files("optimizer_step")) {
    const auto at = losses.find({key.process, key.step});
    const auto file = at == losses.end() ? std::nullopt : record.open(key);
    const nsa::TensorView* recorded = file ? file->find("loss") : nullptr;
    const std::vector<double> each =
        recorded == nullptr ? std::vector<double>() : nsa::to_doubles(*recorded);
    if (each.empty() || (!scores && !std::isfinite(at->second))) continue;
    const bool finite =
        std::all_of(each.begin(), each.end(), [](double loss) { return std::isfinite(loss); });
    if (!finite && !std::isfinite(at->second)) continue;
    const auto [least, most] = std::minmax_element(each.begin(), each.end());
    const double room = kRounded * std::max(std::abs(*least), std::abs(*most));
    const bool holds =
        finite && at->second >= *least - room && at->second <= *most + room;  // NaN is neither
    if (holds || !file->is_as_recorded()) continue;
    return "the loss of " + place_text(key.process, key.of_rank, key.step) + ", is " +
           nsa::to_text(at->second, 6) + " by its sample, and the losses in " + file->path() +
           (finite ? " lie between " + nsa::to_text(*least, 6) + " and " + nsa::to_text(*most, 6)
                   : std::string(" are not finite"));
  }
  return "";
}

// The same batch gives the same gradients. If those of two ranks stand in each other's place in the twin, and the batches do not,
// the twin names the wrong rank.
std::string twin_has_the_gradients_of_its_rank(const Record& record) {
  const Evidence& evidence = record.evidence();
  using Hashes = std::map<std::string, std::string>;
  std::map<std::pair<std::int64_t, int>, Hashes> own;  // by step and rank
  std::map<std::pair<std::int64_t, int>, Hashes> twin;
  for (const From<Gradient>& from : evidence.gradients) {
    const bool of_twin = from.process == kTwin;
    if (from.row.hash_before.empty() || (from.process < 0 && !of_twin)) continue;
    const int rank = of_twin ? from.row.of_rank : from.process;
    (of_twin ? twin : own)[{from.row.step, rank}][from.row.param] = from.row.hash_before;
  }
  std::map<std::pair<std::int64_t, int>, std::set<std::string>> tokens;
  std::map<std::pair<std::int64_t, int>, std::set<std::string>> tokens_of_twin;
  for (const From<Batch>& from : evidence.batches) {
    const int rank = from.process == kTwin ? from.row.of_rank : from.process;
    auto& to = from.process == kTwin ? tokens_of_twin : tokens;
    if (from.process >= 0 || from.process == kTwin) to[{from.row.step, rank}].insert(from.row.hash);
  }
  for (const auto& [place, hashes] : own) {
    const auto& [step, rank] = place;
    for (int other = rank + 1; other < evidence.ranks(); ++other) {
      const auto at = own.find({step, other});
      if (at == own.end() || at->second == hashes || hashes.empty()) continue;
      const bool exchanged = twin[{step, rank}] == at->second && twin[{step, other}] == hashes;
      const bool batches = tokens[{step, rank}] == tokens_of_twin[{step, rank}] &&
                           tokens[{step, other}] == tokens_of_twin[{step, other}];
      if (!exchanged || !batches) continue;
      return "the gradients that the twin has of " + process_name(rank) + " in step " +
             std::to_string(step) + " are those of " + process_name(other) +
             " and the other way round, and their batches are not";
    }
  }
  return "";
}

}  // namespace harness::audit
