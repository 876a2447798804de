#include "harness/worker/tensor_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "nsa/base/error.h"
#include "nsa/base/hash.h"

namespace harness {
namespace {

constexpr std::size_t kAlignment =
    8;  // of the first tensor; the format's header is padded with spaces

std::string dtype_name(torch::ScalarType dtype) {
  switch (dtype) {
    case torch::kFloat64: return "F64";
    case torch::kFloat32: return "F32";
    case torch::kFloat16: return "F16";
    case torch::kBFloat16: return "BF16";
    case torch::kInt64: return "I64";
    case torch::kInt32: return "I32";
    default:
      throw nsa::Error(std::string("tensor file: no name for dtype ") + c10::toString(dtype));
  }
}

std::size_t bytes_needed(const TensorFile::Plan& plan) {
  std::size_t count = 1;
  for (const std::int64_t size : plan.shape) {
    count *= static_cast<std::size_t>(size);
  }
  return count * c10::elementSize(plan.dtype);
}

std::byte* map_new_file(const std::string& path, std::size_t size) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    throw nsa::Error(path + ": cannot create: " + std::strerror(errno));
  }
  // Reserving the blocks turns a full disk into an error here instead of a SIGBUS later.
  const int failed = posix_fallocate(fd, 0, static_cast<off_t>(size));
  void* memory =
      failed == 0 ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  const int error = failed != 0 ? failed : errno;
  ::close(fd);
  if (memory == MAP_FAILED) {
    std::remove(path.c_str());
    throw nsa::Error(path + ": no room for " + std::to_string(size) +
                     " bytes: " + std::strerror(error));
  }
  return static_cast<std::byte*>(memory);
}

}  // namespace

TensorFile::TensorFile(std::string path, const std::vector<Plan>& plan) : path_(std::move(path)) {
  auto header = nlohmann::ordered_json::object();
  std::size_t offset = 0;
  for (const Plan& tensor : plan) {
    const std::size_t bytes = bytes_needed(tensor);
    header[tensor.name] = {{"dtype", dtype_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + bytes}}};
    places_[tensor.name] = Place{tensor, offset, bytes};
    offset += bytes;
  }
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  const std::size_t data_begin = sizeof(std::uint64_t) + text.size();
  size_ = data_begin + offset;
  memory_ = map_new_file(path_ + ".part", size_);
  const std::uint64_t header_bytes = text.size();
  std::memcpy(memory_, &header_bytes, sizeof header_bytes);
  std::memcpy(memory_ + sizeof header_bytes, text.data(), text.size());
  for (auto& [name, place] : places_) {
    place.offset += data_begin;
  }
}

TensorFile::~TensorFile() {
  if (memory_ != nullptr) {
    munmap(memory_, size_);
    std::remove((path_ + ".part").c_str());
  }
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
  if (std::rename((path_ + ".part").c_str(), path_.c_str()) != 0) {
    throw nsa::Error(path_ + ": cannot rename: " + std::strerror(errno));
  }
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
