#include "nsa/base/error.h"
#include "nsa/base/new_file.h"
#include "nsa/base/safetensors_layout.h"

namespace nsa {
namespace {

void require_fitting(const TensorToWrite& tensor, const std::string& path) {
  const std::optional<std::int64_t> wanted = tensor_bytes(tensor.dtype, tensor.shape);
  if (!wanted || static_cast<std::uint64_t>(*wanted) != tensor.bytes.size()) {
    throw Error(path + ": tensor '" + tensor.name + "': " + std::to_string(tensor.bytes.size()) +
                " bytes do not fit " + std::string(dtype_name(tensor.dtype)) +
                shape_text(tensor.shape));
  }
}

}  // namespace

void write_safetensors(const std::filesystem::path& path,
                       std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorPlan> plan;
  plan.reserve(tensors.size());
  for (const TensorToWrite& tensor : tensors) {
    require_fitting(tensor, path.string());
    plan.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  const SafetensorsLayout layout = lay_out_safetensors(plan, metadata, path.string());
  NewFile file(path.string());
  file.write({layout.head.data(), layout.head.size()});
  for (const TensorToWrite& tensor : tensors) {
    file.write(
        {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});  // NOLINT
  }
  file.keep();
}

}  // namespace nsa
