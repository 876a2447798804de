// Does every rank train on its own part of the data that was asked for? Compares batch hashes between ranks, and with the
// twin, which draws the batches of every rank itself.
#include <algorithm>
#include <tuple>

#include "harness/checks/course.h"
#include "harness/checks/list.h"
#include "harness/checks/result.h"

namespace harness::checks {
namespace {

using Slot = std::tuple<std::int64_t, std::int64_t, int>;           // step, micro-batch, sequence
using BatchKey = std::tuple<std::int64_t, std::int64_t, int, int>;  // ... and rank

// Shorter sequences of a text are often the same.
constexpr std::int64_t kTellingLength = 32;

using Readers = std::map<std::string, std::map<int, std::vector<Slot>>>;  // hash -> rank -> where

std::string slot_text(const Slot& slot) {
  const auto& [step, micro, sequence] = slot;
  return "step " + std::to_string(step) + ", micro-batch " + std::to_string(micro) + ", sequence " +
         std::to_string(sequence);
}

class Batches {
 public:
  explicit Batches(const Evidence& evidence)
      : evidence_(evidence),
        is_command_(evidence.the_case.scenario.is_command()),
        sat_out_(sat_out_steps(evidence)) {
    for (const auto& row : evidence.batches) {
      const Batch& batch = row.row;
      const int rank = row.process == kTwin ? batch.of_rank : row.process;
      const BatchKey key = {batch.step, batch.micro, batch.sequence, rank};
      if (batch.hash.empty()) continue;  // not read: it is missing
      if (row.process == kTwin) twin_.put(key, row);
      if (row.process >= 0) ranks_.put(key, row);
    }
    add_digests();
  }

  CheckResult judge() {
    if (ranks_.all().empty()) return inconclusive("no batch was recorded");
    for (const auto& [step, slots] : slots_of_steps()) {
      Readers readers;
      for (const Slot& slot : slots) judge_slot(slot, readers);
      judge_readers(readers);
    }
    for (const auto& from : evidence_.stretches) {
      const auto read = static_cast<std::int64_t>(from.row.of_ranks.size()) * from.row.steps();
      if (from.row.inputs) sequences_ += read;
    }
    judge_sources();
    if (evidence_.the_case.scenario.model.dropout > 0) judge_masks();
    if (evidence_.ranks() == 1 && compared_ == 0 && !is_command_) {
      result_.missing("the twin's batches: one rank has nobody else to be compared with");
    }
    for (const auto& [ranks, slots] : duplicates_) result_.found(duplicate(ranks, slots));
    if (duplicates_.empty()) {
      for (const auto& [rank, slots] : again_) result_.found(again(rank, slots));
      if (!foreign_.empty()) result_.found(foreign());
    }
    return result_.finish(summary());
  }

 private:
  // Of a step whose batches were not recorded one by one, a digest of all that the model was called with counts as one batch.
  void add_digests() {
    std::set<std::int64_t> recorded;
    for (const auto& row : evidence_.batches) recorded.insert(row.row.step);
    for (const auto& row : evidence_.digests) {
      if (row.process < 0 || row.row.inputs.empty() || recorded.contains(row.row.step)) continue;
      Batch whole;
      whole.step = row.row.step;
      whole.of_rank = row.process;
      whole.hash = row.row.inputs;
      wholes_.push_back({row.process, row.t_ms, whole});
    }
    for (const auto& row : wholes_) {
      ranks_.put({row.row.step, row.row.micro, row.row.sequence, row.process}, row);
    }
  }

  // Of a command those that some rank recorded.
  [[nodiscard]] std::map<std::int64_t, std::set<Slot>> slots_of_steps() const {
    std::map<std::int64_t, std::set<Slot>> slots;
    if (is_command_) {
      for (const auto& [key, row] : ranks_.all()) {
        const auto& [step, micro, sequence, rank] = key;
        slots[step].insert({step, micro, sequence});
      }
      return slots;
    }
    const nsa::TrainingConfig& training = evidence_.the_case.scenario.training;
    for (std::int64_t step = 1; step <= training.steps; ++step) {
      for (std::int64_t micro = 0; micro < training.accumulate; ++micro) {
        for (int sequence = 0; sequence < training.batch_size; ++sequence) {
          slots[step].insert({step, micro, sequence});
        }
      }
    }
    return slots;
  }

  [[nodiscard]] const Batch* find(const Latest<BatchKey, Batch>& rows,
                                  const Slot& slot,
                                  int rank) const {
    const auto& [step, micro, sequence] = slot;
    return rows.find({step, micro, sequence, rank});
  }

  void judge_slot(const Slot& slot, Readers& readers) {
    for (const int rank : all_ranks(evidence_)) {
      const Batch* batch = find(ranks_, slot, rank);
      if (batch == nullptr && sat_out_.count({rank, std::get<0>(slot)}) > 0) continue;
      if (batch == nullptr) {
        result_.missing("batch of " + process_name(rank) + ", step " +
                            std::to_string(std::get<0>(slot)) + ended_early(evidence_, rank),
                        site_of_rank(rank));
        continue;
      }
      ++sequences_;
      readers[batch->hash][rank].push_back(slot);
      compare_with_twin(slot, rank, *batch);
    }
  }

  // The same sequence anywhere in the step on two ranks, where it was not asked for.
  void judge_readers(const Readers& readers) {
    if (is_replicated()) return;
    for (const auto& [hash, slots_of] : readers) {
      if (slots_of.size() < 2) continue;
      if (as_in_twin(hash, slots_of)) {
        ++repeats_;
        continue;
      }
      // A command hashes its whole batch.
      const bool telling =
          is_command_ || evidence_.the_case.scenario.training.seq_len >= kTellingLength;
      if (!evidence_.twin_ran() && !telling) {
        result_.missing("the twin's batches: sequences of this length coincide by chance");
        continue;
      }
      std::vector<int> ranks;
      for (const auto& [rank, slots] : slots_of) ranks.push_back(rank);
      duplicates_[ranks].push_back(slots_of.begin()->second.front());
    }
  }

  void compare_with_twin(const Slot& slot, int rank, const Batch& batch) {
    const Batch* wanted = find(twin_, slot, rank);
    if (wanted == nullptr) {
      if (evidence_.twin_ran()) {
        result_.missing("the twin's batch for " + process_name(rank) + ", " + slot_text(slot));
      }
    } else {
      ++compared_;
      if (wanted->hash != batch.hash) judge_other(slot, rank, batch.hash);
    }
    seen_[rank].try_emplace(batch.hash, slot);
  }

  // Not what it should have been: something that this rank rightly had before, or something else altogether.
  void judge_other(const Slot& slot, int rank, const std::string& hash) {
    const auto before = seen_[rank].find(hash);
    if (before == seen_[rank].end() || is_foreign(before->second, rank)) {
      foreign_[slot].push_back(rank);
    } else {
      again_[rank].emplace_back(slot, before->second);
    }
  }

  [[nodiscard]] bool is_foreign(const Slot& slot, int rank) const {
    const auto at = foreign_.find(slot);
    return at != foreign_.end() &&
           std::find(at->second.begin(), at->second.end(), rank) != at->second.end();
  }

  // The corpus repeats itself: every one of them read what it should have read.
  [[nodiscard]] bool as_in_twin(const std::string& hash,
                                const std::map<int, std::vector<Slot>>& slots_of) const {
    for (const auto& [rank, slots] : slots_of) {
      for (const Slot& slot : slots) {
        const Batch* wanted = find(twin_, slot, rank);
        if (wanted == nullptr || wanted->hash != hash) return false;
      }
    }
    return true;
  }

  // The same mask on two ranks, though the twin draws them different ones.
  void judge_masks() {
    using MaskKey =
        std::tuple<std::int64_t, std::int64_t, int, int>;  // step, micro-batch, layer, site
    std::map<MaskKey, std::map<int, std::string>> masks;
    std::map<MaskKey, std::map<int, std::string>> of_twin;
    for (const auto& row : evidence_.dropout_masks) {
      const DropoutMask& mask = row.row;
      const MaskKey key{mask.step, mask.micro, mask.layer, mask.site};
      if (row.process == kTwin) of_twin[key][mask.of_rank] = mask.hash;
      if (row.process >= 0) masks[key][row.process] = mask.hash;
    }
    if (masks.empty()) result_.missing("the masks of dropout");
    for (const auto& [key, hashes] : masks) {
      const auto twin = of_twin.find(key);
      if (twin == of_twin.end()) continue;
      for (const auto& [rank, hash] : hashes) {
        const auto own = twin->second.find(rank);
        if (own == twin->second.end() || own->second == hash) continue;
        result_.missing("rows of the masks of dropout that agree: those of " + process_name(rank) +
                        " and of the twin for it differ in step " +
                        std::to_string(std::get<0>(key)));
      }
    }
    std::set<int> ranks;
    std::set<std::int64_t> steps;
    for (const auto& [key, hashes] : masks) {
      for (const auto& [rank, hash] : hashes) {
        for (const auto& [other, hash_of_other] : hashes) {
          if (other == rank || hash != hash_of_other) continue;
          auto twin = of_twin.find(key);
          if (twin == of_twin.end()) {
            result_.missing("the twin's masks of dropout, step " +
                            std::to_string(std::get<0>(key)));
          } else if (twin->second[rank] != twin->second[other]) {
            ranks.insert(rank);
            steps.insert(std::get<0>(key));
          }
        }
      }
    }
    if (ranks.empty()) return;
    Finding finding = make_finding("DATA.RNG", "masks");
    finding.site.ranks = to_ints(ranks);
    finding.site.step = *steps.begin();
    finding.site.op = "dropout";
    result_.found(std::move(finding));
  }

  [[nodiscard]] bool is_replicated() const {
    return evidence_.the_case.scenario.training.data.replicated;
  }

  void judge_sources() {
    std::map<int, std::string> sources;
    std::set<std::string> twins;
    for (const auto& [key, row] : ranks_.all()) sources[std::get<3>(key)] = row->row.source;
    for (const auto& [key, row] : twin_.all()) twins.insert(row->row.source);
    std::vector<int> off;
    if (twins.size() == 1) {
      for (const auto& [rank, source] : sources) {
        if (source != *twins.begin()) off.push_back(rank);
      }
    } else if (!all_equal(sources)) {
      off = minority(sources);
    }
    const bool differs = !off.empty() || !all_equal(sources) || twins.size() > 1;
    if (differs) result_.found(other_source(off));
  }

  [[nodiscard]] static Finding other_source(const std::vector<int>& ranks) {
    Finding finding = make_finding("DATA.SOURCE", ranks.empty() ? "sources" : "source");
    finding.site.ranks = ranks;
    finding.site.op = "data";
    return finding;
  }

  // What was read in `places` sequences, first in that of `first`.
  [[nodiscard]] static Finding read(const char* code,
                                    const char* variant,
                                    const std::vector<int>& ranks,
                                    std::size_t places,
                                    const Slot& first) {
    Finding finding = make_finding(code, variant);
    finding.site.ranks = ranks;
    finding.site.step = std::get<0>(first);
    finding.site.op = "data";
    finding.facts = {{"places", places}, {"first", slot_text(first)}};
    return finding;
  }

  [[nodiscard]] Finding duplicate(const std::vector<int>& ranks,
                                  const std::vector<Slot>& slots) const {
    Finding finding = read("DATA.DUPLICATE", "ranks", ranks, slots.size(), slots.front());
    if (evidence_.twin_ran()) finding.facts["twin"] = "differ";
    return finding;
  }

  using Again = std::vector<std::pair<Slot, Slot>>;  // where, and where it was before

  [[nodiscard]] static Finding again(int rank, const Again& slots) {
    const auto& [slot, before] = slots.front();
    Finding finding = read("DATA.DUPLICATE", "again", {rank}, slots.size(), slot);
    finding.facts["before"] = slot_text(before);
    return finding;
  }

  [[nodiscard]] Finding foreign() const {
    std::set<int> ranks;
    for (const auto& [slot, off] : foreign_) ranks.insert(off.begin(), off.end());
    return read("DATA.SOURCE", "tokens", to_ints(ranks), foreign_.size(), foreign_.begin()->first);
  }

  [[nodiscard]] std::string summary() const {
    std::string text = counted(sequences_, "sequence") + " on " + ranks_text(all_ranks(evidence_)) +
                       ", " + std::to_string(compared_) + " of them compared with the twin's";
    if (is_replicated()) {
      text += "; all ranks are to read the same";
    } else if (repeats_ > 0) {
      text += "; " + std::to_string(repeats_) +
              " coincide between ranks because the corpus repeats itself there";
    } else {
      text += "; no two ranks read the same";
    }
    return text;
  }

  const Evidence& evidence_;
  bool is_command_;
  std::set<std::pair<int, std::int64_t>> sat_out_;
  Rows<Batch> wholes_;  // of digests
  Latest<BatchKey, Batch> ranks_;
  Latest<BatchKey, Batch> twin_;
  ResultBuilder result_;
  std::map<std::vector<int>, std::vector<Slot>> duplicates_;
  std::map<Slot, std::vector<int>> foreign_;
  std::map<int, std::map<std::string, Slot>> seen_;  // of each rank, the first place of a hash
  std::map<int, Again> again_;
  std::int64_t sequences_ = 0;
  int compared_ = 0;
  int repeats_ = 0;
};

}  // namespace

Check data_distinct() {
  return {"data_distinct",
          "every rank trains on its own part of the data that was asked for",
          {"DATA.DUPLICATE", "DATA.SOURCE", "DATA.RNG"},
          [](const Evidence& evidence) { return Batches(evidence).judge(); }};
}

}  // namespace harness::checks
