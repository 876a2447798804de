#include "harness/checks/artefacts.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "nsa/base/error.h"

namespace harness::checks {

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
    return nsa::SafetensorsFile(path);
  } catch (const nsa::Error& what) {
    result.missing(key.text() + " cannot be read: " + what.what());
    return std::nullopt;
  }
}

Reals::Reals(const nsa::TensorView& view) : data_(view.bytes.data()) {
  if (view.dtype != nsa::DType::f32 && view.dtype != nsa::DType::f64) {
    throw nsa::Error(view.where + ": found dtype " + std::string(nsa::dtype_name(view.dtype)) +
                     ", wanted F32 or F64");
  }
  wide_ = view.dtype == nsa::DType::f64;
  count_ = view.bytes.size() / (wide_ ? sizeof(double) : sizeof(float));
}

double Reals::operator[](std::size_t i) const {
  if (wide_) {
    double value = 0.0;
    std::memcpy(&value, data_ + i * sizeof(double), sizeof(double));
    return value;
  }
  float value = 0.0F;
  std::memcpy(&value, data_ + i * sizeof(float), sizeof(float));
  return static_cast<double>(value);
}

double Reals::unit_roundoff() const {
  return wide_ ? 0x1p-53 : 0x1p-24;
}

bool same_bytes(const nsa::TensorView& a, const nsa::TensorView& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.bytes.size() == b.bytes.size() &&
         (a.bytes.empty() || std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0);
}

}  // namespace harness::checks
