// Golden files to be changed before they are read again.
#pragma once

#include <bit>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/cli/golden/judge.h"
#include "nsa/base/safetensors.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/where.h"

namespace fakes {

inline std::string golden_path(const std::string& name) {
  return fakes::tree() + "/tests/golden/" + name + ".safetensors";
}

inline std::vector<std::string> all_golden_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(fakes::tree() + "/tests/golden")) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

struct EditableTensor {
  nsa::DType dtype = nsa::DType::f64;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

class EditableFile {
 public:
  EditableFile() = default;
  explicit EditableFile(const std::string& path) {
    const nsa::SafetensorsFile file(path);
    metadata = file.metadata();
    for (const auto& [name, view] : file.tensors()) {
      tensors[name] = {view.dtype, view.shape, {view.bytes.begin(), view.bytes.end()}};
    }
  }

  // The file as it lies on disk.
  [[nodiscard]] std::string image() const {
    nlohmann::ordered_json header = {{"__metadata__", metadata}};
    std::string data;
    for (const auto& [key, tensor] : tensors) {
      const std::size_t begin = data.size();
      data.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
      header[key] = {{"dtype", nsa::dtype_name(tensor.dtype)},
                     {"shape", tensor.shape},
                     {"data_offsets", {begin, data.size()}}};
    }
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    std::string image(sizeof length, '\0');
    std::memcpy(image.data(), &length, sizeof length);
    return image + text + data;
  }

  std::string write(const TempFolder& folder, const std::string& name = "f.safetensors") const {
    std::filesystem::remove(folder / name);  // writing over a file waits for the disk
    return folder.write(name, image());
  }

  template <typename T>
  void set(const std::string& name, const std::vector<T>& values) {
    auto& bytes = tensors.at(name).bytes;
    bytes.resize(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  template <typename T>
  [[nodiscard]] std::vector<T> get(const std::string& name) const {
    const auto& bytes = tensors.at(name).bytes;
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  // Every tensor of doubles whose name `chosen` accepts, in another type.
  template <typename Choose>
  void narrow(nsa::DType dtype, Choose chosen) {
    for (auto& [name, tensor] : tensors) {
      if (tensor.dtype != nsa::DType::f64 || !chosen(name)) continue;
      const std::vector<double> values = get<double>(name);
      tensor.dtype = dtype;
      if (dtype == nsa::DType::f32) {
        set(name, std::vector<float>(values.begin(), values.end()));
        continue;
      }
      std::vector<std::uint16_t> halves;  // bfloat16, to the nearest
      for (const double value : values) {
        const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
        halves.push_back(
            static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U));
      }
      set(name, halves);
    }
  }
  void rename(const std::string& from, const std::string& to) {
    auto node = tensors.extract(from);
    node.key() = to;
    tensors.insert(std::move(node));
  }

  std::map<std::string, EditableTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// The file's own tensors, as if a model had computed them.
inline harness::cli::golden::Wanted results_of(const harness::cli::golden::Case& the_case) {
  harness::cli::golden::Wanted results;
  results.tensors = the_case.found;
  results.blocks = the_case.blocks;
  return results;
}

}  // namespace fakes
