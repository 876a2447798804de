#include "harness/run/processes/step_digests.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <unistd.h>

#include "harness/evidence/tensor_classes.h"
#include "harness/run/processes/spawn_process.h"

namespace harness {
namespace {

constexpr std::size_t kMostTensors = 32;  // of a class and rank that are recorded
constexpr std::size_t kMostOpen = 256;    // steps that one rank is ahead of another

std::string hex_of(std::uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

// Another process writes the file: what it says of itself is not trusted, and it may be cut short at any time.
class RingFile {
 public:
  explicit RingFile(const std::string& path)
      : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {}

  // By tensor, its fingerprint and state. Nothing where the step is not there.
  [[nodiscard]] std::optional<std::map<std::string, TensorDigest>> read(std::int64_t step,
                                                                        const std::string& of) {
    constexpr std::uint64_t kMost = 64U << 20U;
    std::array<std::uint64_t, 5> head{};
    if (!read_at(0, head.data(), sizeof(head)) || std::memcmp(head.data(), "NSARING1", 8) != 0)
      return std::nullopt;
    const auto [magic, first, slot_bytes, slots, json_bytes] = head;
    if (slots == 0 || slots > kMost || json_bytes > kMost || slot_bytes > kMost || first > kMost)
      return std::nullopt;
    std::string text(json_bytes, '\0');
    if (!read_at(sizeof(head), text.data(), text.size())) return std::nullopt;
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object() || !json.contains("classes") || !json["classes"].is_array())
      return std::nullopt;
    std::vector<std::uint64_t> slot(slot_bytes / sizeof(std::uint64_t));
    if (slot.size() < 2) return std::nullopt;
    const std::uint64_t at = first + static_cast<std::uint64_t>(step) % slots * slot_bytes;
    if (!read_at(at, slot.data(), slot.size() * sizeof(std::uint64_t))) return std::nullopt;
    if (slot[0] != static_cast<std::uint64_t>(step)) return std::nullopt;
    std::map<std::string, TensorDigest> tensors;
    std::size_t next = 2;
    for (const auto& one : json["classes"]) {
      if (!one.is_object() || !one.contains("tensors") || !one["tensors"].is_array())
        return std::nullopt;
      const bool is_wanted = one.value("name", nlohmann::json()) == of;
      for (const auto& name : one["tensors"]) {
        if (!name.is_string() || next + 3 > slot.size()) return std::nullopt;
        if (is_wanted) {
          TensorDigest row;
          row.step = step;
          row.of = of;
          row.tensor = name.get<std::string>();
          row.fingerprint = hex_of(slot[next]);
          const std::uint64_t flags = slot[next + 1];
          row.state = (flags & 4U) != 0   ? kUnread
                      : (flags & 2U) != 0 ? "nan"
                      : (flags & 1U) != 0 ? "inf"
                                          : "ok";
          tensors.emplace(row.tensor, row);
        }
        next += 3;
      }
    }
    // It may have been written over meanwhile.
    std::uint64_t again = 0;
    if (!read_at(at, &again, sizeof(again)) || again != slot[0]) return std::nullopt;
    return tensors;
  }

 private:
  [[nodiscard]] bool read_at(std::uint64_t offset, void* into, std::size_t bytes) const {
    return file_.get() >= 0 && pread(file_.get(), into, bytes, static_cast<off_t>(offset)) ==
                                   static_cast<ssize_t>(bytes);
  }

  Fd file_;
};

}  // namespace

std::vector<std::pair<int, TensorDigest>> StepDigests::heard(const Event& event) {
  std::vector<std::pair<int, TensorDigest>> more;
  if (event.kind != StepDigest::kKind) return more;
  const auto digest = event.body.get<StepDigest>();
  const int rank = event.process;
  for (const TensorClass& one : kTensorClasses) {
    if (digest.not_finite.find(one.letter) == std::string::npos) continue;
    if (!not_finite_.emplace(rank, one.name).second) continue;
    const auto tensors = RingFile(path_of(rank)).read(digest.step, one.name);
    if (!tensors) continue;
    std::vector<TensorDigest> odd;
    for (const auto& [name, row] : *tensors) {
      if (row.state == "nan" || row.state == "inf") odd.push_back(row);
    }
    for (std::size_t i = 0; i < odd.size() && i < kMostTensors; ++i) {
      odd[i].odd = static_cast<std::int64_t>(odd.size());
      odd[i].all = static_cast<std::int64_t>(tensors->size());
      more.emplace_back(rank, odd[i]);
    }
  }
  const Key key = {digest.reductions, digest.reductions > 0 ? 0 : digest.step};
  std::map<int, StepDigest>& of_ranks = open_[key];
  of_ranks[rank] = digest;
  if (of_ranks.size() > 1) compare(key, of_ranks, more);
  if (open_.size() > kMostOpen) open_.erase(open_.begin());
  return more;
}

std::string StepDigests::path_of(int rank) const {
  return folder_ + "/rank_" + std::to_string(rank) + "/steps.ring";
}

void StepDigests::compare(const Key& key,
                          const std::map<int, StepDigest>& of_ranks,
                          std::vector<std::pair<int, TensorDigest>>& more) {
  for (const TensorClass& one : kTensorClasses) {
    // Of the step that is known already, a rank that comes later is recorded too.
    const auto known = differed_.find(one.name);
    if (known != differed_.end() && known->second < key) continue;
    std::map<std::string, std::map<std::string, std::set<int>>> pieces;  // piece -> digest -> ranks
    for (const auto& [rank, digest] : of_ranks) {
      if (const std::string hash = digest_of(digest, one); !hash.empty())
        pieces[digest.piece][hash].insert(rank);
    }
    for (const auto& [piece, hashes] : pieces) {
      if (hashes.size() < 2) continue;
      differed_[one.name] = key;
      std::map<int, std::map<std::string, TensorDigest>> rows;
      for (const auto& [hash, ranks] : hashes) {
        for (const int rank : ranks) {
          auto tensors = RingFile(path_of(rank)).read(of_ranks.at(rank).step, one.name);
          if (tensors) rows[rank] = std::move(*tensors);
        }
      }
      if (rows.size() < 2) continue;
      std::vector<std::string> odd;
      for (const auto& [name, row] : rows.begin()->second) {
        std::set<std::string> found;
        for (const auto& [rank, tensors] : rows) {
          const auto at = tensors.find(name);
          found.insert(at == tensors.end() ? "" : at->second.fingerprint + at->second.state);
        }
        if (found.size() > 1) odd.push_back(name);
      }
      const std::size_t all = rows.begin()->second.size();
      for (auto& [rank, tensors] : rows) {
        for (std::size_t i = 0; i < odd.size() && i < kMostTensors; ++i) {
          TensorDigest row = tensors[odd[i]];
          row.odd = static_cast<std::int64_t>(odd.size());
          row.all = static_cast<std::int64_t>(all);
          more.emplace_back(rank, std::move(row));
        }
      }
    }
  }
}

}  // namespace harness
