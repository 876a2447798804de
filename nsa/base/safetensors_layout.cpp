#include "nsa/base/safetensors_layout.h"

#include <nlohmann/json.hpp>
#include <set>

#include "nsa/base/error.h"

namespace nsa {
namespace {

constexpr std::size_t kHeaderAlignment = 8;

}  // namespace

SafetensorsLayout lay_out_safetensors(std::span<const TensorPlan> tensors,
                                      const std::map<std::string, std::string>& metadata,
                                      const std::string& file) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  SafetensorsLayout layout;
  std::set<std::string> names{"__metadata__"};
  std::uint64_t offset = 0;
  for (const TensorPlan& tensor : tensors) {
    const std::optional<std::int64_t> bytes = tensor_bytes(tensor.dtype, tensor.shape);
    if (!bytes) {
      throw Error(file + ": tensor '" + tensor.name + "': no size fits " +
                  shape_text(tensor.shape));
    }
    if (!names.insert(tensor.name).second) {
      throw Error(file + ": tensor '" + tensor.name + "': name reserved or used twice");
    }
    const std::uint64_t end = offset + static_cast<std::uint64_t>(*bytes);
    header[tensor.name] = {{"dtype", dtype_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, end}}};
    layout.offsets.push_back(offset);
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {  // names and metadata must be UTF-8
    throw Error(file + ": header: " + error.what());
  }
  text.append((kHeaderAlignment - text.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
  if (text.size() > kMaxSafetensorsHeaderBytes) {
    throw Error(file + ": header: too long to be read");
  }
  const std::uint64_t length = text.size();
  layout.head.assign(reinterpret_cast<const char*>(&length), sizeof length);
  layout.head += text;
  for (std::uint64_t& begin : layout.offsets) begin += layout.head.size();
  layout.bytes = layout.head.size() + offset;
  return layout;
}

}  // namespace nsa
