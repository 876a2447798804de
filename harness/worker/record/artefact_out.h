// How a worker hands over a file of tensors: it writes it below the case's folder and tells of it on the channel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/worker/channel.h"
#include "harness/worker/record/tensor_file.h"
#include "harness/worker/work_counters.h"

namespace harness {

struct ArtefactId {
  std::int64_t step = 0;
  int of_rank = 0;
  std::string name = {};
  int layer = -1;  // -1: of no layer
};

struct ArtefactOut {
  Channel& channel;
  Progress& progress;
  std::string root;    // what artefact paths are relative to
  std::string folder;  // below it; it exists

  // Writes NAME.safetensors, of a layer NAME_3.safetensors.
  void write(const ArtefactId& id, const std::vector<NamedTensor>& tensors) const;
  // Tells of a file that lies where write() would put it; `file` has its size and hash.
  void tell(const ArtefactId& id, Artefact file) const;
  [[nodiscard]] std::string path_of(const ArtefactId& id) const;  // relative to `root`
};

}  // namespace harness
