#include "harness/checks/artefacts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>

#include "nsa/base/error.h"

namespace harness::checks {
namespace {

template <typename T>
T read_at(const std::byte* data, std::size_t i) {
  T value{};
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

// The upper half of a float.
double of_bfloat16(std::uint16_t bits) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U));
}

// 1 sign, 5 exponent and 10 fraction bits.
double of_float16(std::uint16_t bits) {
  const double sign = (bits & 0x8000U) != 0U ? -1.0 : 1.0;
  const int exponent = (bits >> 10U) & 0x1FU;
  const int fraction = bits & 0x3FFU;
  if (exponent == 0x1F) return fraction == 0 ? sign * INFINITY : std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

}  // namespace

std::string ArtefactKey::text() const {
  std::string text = name;
  if (layer >= 0) text += " " + std::to_string(layer);
  text += " of " + process_name(process);
  if (process == kTwin) text += " for rank " + std::to_string(of_rank);
  return text + ", step " + std::to_string(step);
}

const Artefact* find_artefact(const Evidence& evidence, const ArtefactKey& key) {
  const From<Artefact>* latest = nullptr;
  for (const auto& row : evidence.artefacts) {
    const Artefact& artefact = row.row;
    const bool same = row.process == key.process && artefact.name == key.name &&
                      artefact.step == key.step && artefact.layer == key.layer &&
                      (key.process != kTwin || artefact.of_rank == key.of_rank);
    if (same && (latest == nullptr || latest->t_ms <= row.t_ms)) latest = &row;
  }
  return latest == nullptr ? nullptr : &latest->row;
}

std::string path_of(const Evidence& evidence, const ArtefactKey& key) {
  const Artefact* row = find_artefact(evidence, key);
  return row == nullptr ? "" : row->path;
}

std::optional<nsa::SafetensorsFile> open_artefact(const Evidence& evidence,
                                                  const ArtefactKey& key,
                                                  ResultBuilder& result) {
  const Artefact* row = find_artefact(evidence, key);
  if (row == nullptr) {
    result.missing(key.text() + " was never written" + ended_early(evidence, key.process));
    return std::nullopt;
  }
  const std::filesystem::path path = std::filesystem::path(evidence.folder) / row->path;
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) {
    result.missing(key.text() + " is not there any more (pruned?)");
    return std::nullopt;
  }
  if (row->bytes > 0 && static_cast<std::int64_t>(size) != row->bytes) {
    result.missing(key.text() + " has " + std::to_string(size) + " bytes, recorded were " +
                   std::to_string(row->bytes));
    return std::nullopt;
  }
  try {
    if (!row->hash.empty() && evidence.hashes->of(path) != row->hash) {
      evidence.hashes->note_altered();
      result.missing(key.text() + " (" + row->path + ") is not what was recorded: another hash");
      return std::nullopt;
    }
    nsa::SafetensorsFile file(path);
    const auto stand_ins = evidence.stand_ins.find(row->path);
    if (stand_ins != evidence.stand_ins.end()) {
      for (const auto& [name, stand_in] : stand_ins->second) {
        if (!stand_in.bytes.empty()) file.show(name, stand_in.bytes);
      }
    }
    return file;
  } catch (const nsa::Error& what) {
    result.missing(key.text() + " cannot be read: " + what.what());
    return std::nullopt;
  }
}

Reals::Reals(const nsa::TensorView& view) : data_(view.bytes.data()), dtype_(view.dtype) {
  switch (dtype_) {
    case nsa::DType::f64:
    case nsa::DType::f32:
    case nsa::DType::f16:
    case nsa::DType::bf16: break;
    default:
      throw nsa::Error(view.where + ": found dtype " + std::string(nsa::dtype_name(dtype_)) +
                       ", wanted F32, F64, F16 or BF16");
  }
  count_ = view.bytes.size() / static_cast<std::size_t>(nsa::dtype_bytes(dtype_));
}

double Reals::operator[](std::size_t i) const {
  if (dtype_ == nsa::DType::f64) return read_at<double>(data_, i);
  if (dtype_ == nsa::DType::f32) return static_cast<double>(read_at<float>(data_, i));
  const auto bits = read_at<std::uint16_t>(data_, i);
  return dtype_ == nsa::DType::bf16 ? of_bfloat16(bits) : of_float16(bits);
}

double Reals::unit_roundoff() const {
  switch (dtype_) {
    case nsa::DType::f64: return 0x1p-53;
    case nsa::DType::f16: return 0x1p-11;
    case nsa::DType::bf16: return 0x1p-8;
    default: return 0x1p-24;
  }
}

bool same_bytes(const nsa::TensorView& a, const nsa::TensorView& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.bytes.size() == b.bytes.size() &&
         (a.bytes.empty() || std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0);
}

}  // namespace harness::checks
