// The files of one record, as the relations of the audit read them: opened when they are asked for, by what their row says of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "harness/evidence/evidence.h"
#include "nsa/base/safetensors.h"

namespace harness::audit {

// "the attention_layer 2 of rank 1, step 3"
struct FileKey {
  std::string name;
  int process = 0;
  std::int64_t step = 0;
  int of_rank = 0;
  int layer = -1;

  auto operator<=>(const FileKey&) const = default;
};

// Of all files together, so many bytes of tensors are looked at in one judgement, some of them by two or three relations. Each file
// has the same share, and its small tensors come first.
inline constexpr std::int64_t kMostBytes = std::int64_t{128} << 20;

// An open file. Tensors beyond its share of kMostBytes are not read.
class RecordedFile {
 public:
  // Throws: nsa::Error where the file cannot be read.
  RecordedFile(const Evidence& evidence, const Artefact& row, std::int64_t share);

  // Its bytes are not to be read where `find` gives nullptr.
  [[nodiscard]] const nsa::TensorView* find(const std::string& name) const;
  // Of any size: for dtype and shape alone.
  [[nodiscard]] const nsa::TensorView* header_of(const std::string& name) const;
  [[nodiscard]] const std::set<std::string>& within_share() const { return within_; }
  // Is the whole file what its row says? It reads all of it: to be asked once something differs.
  [[nodiscard]] bool is_as_recorded() const;
  [[nodiscard]] const std::string& path() const { return row_->path; }

 private:
  const Evidence* evidence_;
  const Artefact* row_;
  nsa::SafetensorsFile file_;
  std::set<std::string> within_;
};

class Record {
 public:
  // REQUIRES: all rows are of one life of the ranks (Evidence::last_life). Refers to `evidence`.
  explicit Record(const Evidence& evidence);

  [[nodiscard]] const Evidence& evidence() const { return evidence_; }
  // In the order of process, step, rank and layer.
  [[nodiscard]] std::vector<FileKey> files(std::string_view name) const;
  // Nothing where the file was never written, is gone, or cannot be read: then there is nothing to compare.
  [[nodiscard]] std::optional<RecordedFile> open(const FileKey& key) const;

 private:
  const Evidence& evidence_;
  std::map<FileKey, const From<Artefact>*> newest_;
  std::int64_t share_ = kMostBytes;
};

// The newest row of each key.
template <typename Key, typename Row, typename KeyOf>
std::map<Key, const From<Row>*> newest_by(const Rows<Row>& rows, const KeyOf& key_of) {
  std::map<Key, const From<Row>*> newest;
  for (const From<Row>& row : rows) {
    const auto [at, is_new] = newest.try_emplace(key_of(row), &row);
    if (!is_new && at->second->t_ms <= row.t_ms) at->second = &row;
  }
  return newest;
}

// A line that was not read, or not kept, is missed by every count.
[[nodiscard]] bool every_row_is_there(const Evidence& evidence);
[[nodiscard]] std::string hash_of(const nsa::TensorView& tensor);
// "rank 1, step 2", "the twin for rank 1, step 2"
[[nodiscard]] std::string place_text(int process, int of_rank, std::int64_t step);
// "layer 2 of rank 1, step 3"
[[nodiscard]] std::string layer_text(int process, std::int64_t step, int layer);

}  // namespace harness::audit
