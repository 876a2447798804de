#include "harness/worker/record/artefact_out.h"

namespace harness {

std::string ArtefactOut::path_of(const ArtefactId& id) const {
  const std::string number = id.layer < 0 ? "" : "_" + std::to_string(id.layer);
  return folder + "/" + id.name + number + ".safetensors";
}

void ArtefactOut::write(const ArtefactId& id, const std::vector<NamedTensor>& tensors) const {
  tell(id, write_tensors(root + "/" + path_of(id), tensors));
}

void ArtefactOut::tell(const ArtefactId& id, Artefact file) const {
  file.step = id.step;
  file.of_rank = id.of_rank;
  file.name = id.name;
  file.layer = id.layer;
  file.path = path_of(id);
  channel.write(file);
  progress.worked(file.bytes);
}

}  // namespace harness
