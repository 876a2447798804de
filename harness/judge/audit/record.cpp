#include "harness/judge/audit/record.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "nsa/base/error.h"
#include "nsa/base/hash.h"

namespace harness::audit {
namespace {

constexpr std::array kAudited = {"attention_layer",
                                 "block_stages",
                                 "decode_steps",
                                 "local_gradients",
                                 "optimizer_step",
                                 "reduced_gradients"};

std::string full_path(const Evidence& evidence, const Artefact& row) {
  return (std::filesystem::path(evidence.folder) / row.path).string();
}

}  // namespace

RecordedFile::RecordedFile(const Evidence& evidence, const Artefact& row, std::int64_t share)
    : evidence_(&evidence), row_(&row), file_(full_path(evidence, row)) {
  std::vector<std::pair<std::int64_t, std::string>> by_size;
  for (const auto& [name, tensor] : file_.tensors()) {
    by_size.emplace_back(static_cast<std::int64_t>(tensor.bytes.size()), name);
  }
  std::sort(by_size.begin(), by_size.end());
  for (const auto& [bytes, name] : by_size) {
    share -= bytes;
    if (share < 0) return;
    within_.insert(name);
  }
}

const nsa::TensorView* RecordedFile::find(const std::string& name) const {
  return within_.count(name) > 0 ? header_of(name) : nullptr;
}

const nsa::TensorView* RecordedFile::header_of(const std::string& name) const {
  const auto at = file_.tensors().find(name);
  return at == file_.tensors().end() ? nullptr : &at->second;
}

bool RecordedFile::is_as_recorded() const {
  if (row_->hash.empty()) return true;
  try {
    return evidence_->hashes->of(full_path(*evidence_, *row_)) == row_->hash;
  } catch (const nsa::Error&) {
    return false;
  }
}

Record::Record(const Evidence& evidence) : evidence_(evidence) {
  newest_ = newest_by<FileKey>(evidence.artefacts, [](const From<Artefact>& from) {
    const Artefact& row = from.row;
    return FileKey{row.name, from.process, row.step, row.of_rank, row.layer};
  });
  std::erase_if(newest_, [](const auto& entry) {
    return std::find(kAudited.begin(), kAudited.end(), entry.first.name) == kAudited.end();
  });
  share_ = kMostBytes / std::max<std::int64_t>(1, static_cast<std::int64_t>(newest_.size()));
}

std::vector<FileKey> Record::files(std::string_view name) const {
  std::vector<FileKey> keys;
  for (const auto& [key, row] : newest_) {
    if (key.name == name) keys.push_back(key);
  }
  return keys;
}

std::optional<RecordedFile> Record::open(const FileKey& key) const {
  const auto at = newest_.find(key);
  if (at == newest_.end() || evidence_.folder.empty()) return std::nullopt;
  const Artefact& row = at->second->row;
  std::error_code error;
  const auto size = std::filesystem::file_size(full_path(evidence_, row), error);
  // Cut short or exchanged since: the checks say so.
  if (error || (row.bytes > 0 && static_cast<std::int64_t>(size) != row.bytes)) return std::nullopt;
  try {
    return RecordedFile(evidence_, row, share_);
  } catch (const nsa::Error&) {
    return std::nullopt;
  }
}

bool every_row_is_there(const Evidence& evidence) {
  return evidence.rejected.empty() &&
         std::none_of(evidence.facts.begin(), evidence.facts.end(), [](const auto& fact) {
           return fact.row.name == kDiskFullFact || fact.row.name == kLinesLostFact;
         });
}

std::string hash_of(const nsa::TensorView& tensor) {
  return nsa::hash_hex(tensor.bytes);
}

std::string place_text(int process, int of_rank, std::int64_t step) {
  const std::string who =
      process == kTwin ? "the twin for rank " + std::to_string(of_rank) : process_name(process);
  return who + ", step " + std::to_string(step);
}

std::string layer_text(int process, std::int64_t step, int layer) {
  return "layer " + std::to_string(layer) + " of " + process_name(process) + ", step " +
         std::to_string(step);
}

}  // namespace harness::audit
