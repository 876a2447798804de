#include "harness/worker/record/tensor_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <utility>

#include "nsa/base/error.h"
#include "nsa/base/hash.h"
#include "nsa/base/safetensors_layout.h"
#include "nsa/tensor_dtype.h"

namespace harness {
namespace {

std::byte* map_file(int fd, const std::string& path, std::size_t size) {
  // Reserving the blocks turns a full disk into an error here instead of a SIGBUS later.
  const int failed = posix_fallocate(fd, 0, static_cast<off_t>(size));
  void* memory =
      failed == 0 ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  const int error = failed != 0 ? failed : errno;
  if (memory == MAP_FAILED) {
    throw nsa::Error(path + ": no room for " + std::to_string(size) +
                     " bytes: " + std::strerror(error));
  }
  return static_cast<std::byte*>(memory);
}

}  // namespace

TensorFile::TensorFile(std::string path, const std::vector<Plan>& plan) : path_(std::move(path)) {
  std::vector<nsa::TensorPlan> tensors;
  tensors.reserve(plan.size());
  for (const Plan& tensor : plan) {
    tensors.push_back({tensor.name, nsa::stored_dtype(tensor.dtype), tensor.shape});
  }
  const nsa::SafetensorsLayout layout = nsa::lay_out_safetensors(tensors, {}, path_);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const auto bytes = nsa::tensor_bytes(tensors[i].dtype, tensors[i].shape).value();
    places_[plan[i].name] = Place{plan[i], layout.offsets[i], static_cast<std::size_t>(bytes)};
  }
  size_ = layout.bytes;
  file_ = std::make_unique<nsa::NewFile>(path_);
  memory_ = map_file(file_->descriptor(), path_, size_);
  std::memcpy(memory_, layout.head.data(), layout.head.size());
}

TensorFile::~TensorFile() {
  if (memory_ != nullptr) munmap(memory_, size_);
}

std::span<const std::byte> TensorFile::put(const std::string& name, const torch::Tensor& tensor) {
  const auto found = places_.find(name);
  if (found == places_.end()) {
    throw nsa::Error(path_ + ": tensor " + name + " was not planned");
  }
  const Place& place = found->second;
  if (tensor.scalar_type() != place.plan.dtype ||
      tensor.sizes() != torch::IntArrayRef(place.plan.shape)) {
    throw nsa::Error(path_ + ": tensor " + name + " is not of the planned dtype and shape");
  }
  std::byte* bytes = memory_ + place.offset;
  if (place.bytes > 0) {
    const torch::NoGradGuard no_grad;
    torch::from_blob(
        bytes, tensor.sizes(), tensor.options().device(torch::kCPU).requires_grad(false))
        .copy_(tensor.detach());
  }
  return {bytes, place.bytes};
}

torch::Tensor TensorFile::view(const std::string& name) const {
  const Place& place = places_.at(name);
  return torch::from_blob(memory_ + place.offset, place.plan.shape, place.plan.dtype);
}

Artefact TensorFile::finish() {
  Artefact artefact;
  artefact.path = path_;
  artefact.bytes = static_cast<std::int64_t>(size_);
  artefact.hash = nsa::hash_hex(std::span<const std::byte>(memory_, size_));
  munmap(memory_, size_);
  memory_ = nullptr;
  // Gigabytes, which a case that passes drops at once: not worth a wait for the disk.
  file_->keep(false);
  file_.reset();
  return artefact;
}

Artefact write_tensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  std::vector<TensorFile::Plan> plan;
  plan.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    plan.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  }
  TensorFile file(path, plan);
  for (const auto& [name, tensor] : tensors) {
    file.put(name, tensor);
  }
  return file.finish();
}

std::span<const std::byte> bytes_of(const torch::Tensor& contiguous_cpu) {
  return {static_cast<const std::byte*>(contiguous_cpu.const_data_ptr()),
          static_cast<std::size_t>(contiguous_cpu.nbytes())};
}

}  // namespace harness
