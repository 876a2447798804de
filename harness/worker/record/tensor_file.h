// A safetensors file that is laid out first and filled tensor by tensor through a shared mapping, in any order: gradients
// are copied in as they become ready, without a second copy in memory. The file has its final name only after finish().
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/evidence/rows.h"
#include "nsa/base/new_file.h"
#include "nsa/torch.h"

namespace harness {

class TensorFile {
 public:
  struct Plan {
    std::string name;
    torch::ScalarType dtype = torch::kFloat32;
    std::vector<std::int64_t> shape;
  };

  // Makes a draft beside PATH with room for all tensors, zero-filled. Throws: nsa::Error (no room, not writable).
  TensorFile(std::string path, const std::vector<Plan>& plan);
  ~TensorFile();
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  // Copies `tensor` (any device, same dtype and shape) to its place and returns the bytes there.
  // Throws: nsa::Error when the name, dtype or shape is not the planned one.
  std::span<const std::byte> put(const std::string& name, const torch::Tensor& tensor);

  // What lies at a name now, without a copy; valid until finish().
  [[nodiscard]] torch::Tensor view(const std::string& name) const;

  // Renames to the final name. Returns its size and content hash, `path` as given.
  Artefact finish();

 private:
  struct Place {
    Plan plan;
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };
  std::string path_;
  std::map<std::string, Place> places_;
  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
  std::unique_ptr<nsa::NewFile> file_;  // until finish()
};

// A whole file at once.
struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
};
[[nodiscard]] Artefact write_tensors(const std::string& path,
                                     const std::vector<NamedTensor>& tensors);

// The bytes of a contiguous CPU tensor.
[[nodiscard]] std::span<const std::byte> bytes_of(const torch::Tensor& contiguous_cpu);

}  // namespace harness
