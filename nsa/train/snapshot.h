// A snapshot: the full state of a training process after a step, as one safetensors file that is there whole or not at all.
// Weights, AdamW moments, schedule, loss scaler, masters, random number generators, and which data it was trained on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "nsa/parallel/data_parallel.h"
#include "nsa/torch.h"
#include "nsa/train/optimizer.h"

namespace nsa {

struct SnapshotParts {  // whose state it is
  const NamedParameters& parameters;
  Optimizer& optimizer;
  std::string data_identity;  // DataSource::identity(); a batch is a pure function of the step
};

// What is read back; the weights always are.
struct SnapshotSections {
  bool optimizer = true;
  bool schedule = true;
  bool scaler = true;
  bool rng = true;
};

// Throws: Error where the file cannot be written; an older file of that name is then still there.
void save_snapshot(const std::filesystem::path& path,
                   const SnapshotParts& parts,
                   std::int64_t step);

// By the names that a snapshot file has for them: hashes (nsa::hash_hex) of the tensors of the state as it is now.
[[nodiscard]] std::map<std::string, std::string> snapshot_hashes(const SnapshotParts& parts);

// Returns the step after which it was taken. Throws: Error naming the file and what does not fit (another model, other data, a
// file that is no snapshot); nothing was changed then.
std::int64_t load_snapshot(const std::filesystem::path& path,
                           const SnapshotParts& parts,
                           const SnapshotSections& sections = {});

// The data that the run of this snapshot was trained on. Throws: Error.
[[nodiscard]] std::string snapshot_data_identity(const std::filesystem::path& path);

}  // namespace nsa
