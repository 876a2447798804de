// "First departure": two recorded passes over the same layer are compared stage by stage. A stage that differs follows from an
// input that differs; it departs by itself if none of its inputs does.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/checks/artefacts.h"
#include "harness/checks/attention/invariance/forward_stages.h"
#include "harness/checks/departures.h"
#include "nsa/base/error.h"

namespace harness::checks {

// Which rows of two tensors are compared, and when they are the same.
struct Sameness {
  double limit = 0.0;          // absolute; of integers 0
  bool last_sequence = false;  // of each tensor: their batches may differ
  bool bit_by_bit = false;     // also a zero's sign and the bits of a NaN
  std::function<bool(int row)> keep = [](int) { return true; };
};

// The bytes of each element of a tensor.
class ElementBits {
 public:
  explicit ElementBits(const nsa::TensorView& view)
      : bytes_(view.bytes), width_(static_cast<std::size_t>(nsa::dtype_bytes(view.dtype))) {}
  std::span<const std::byte> operator[](std::size_t i) const {
    return bytes_.subspan(i * width_, width_);
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t width_;
};

// Rows (along `row_axis`, or compressed tokens in axis 2 if it is -1) in which the tensors differ. Unless it is asked bit by bit,
// NaNs are the same, and so are zeros of either sign. Equal infinities are the same. Throws: nsa::Error if dtype or shape differ.
[[nodiscard]] inline std::set<int> rows_apart(const nsa::TensorView& a,
                                              const nsa::TensorView& b,
                                              int row_axis,
                                              const Sameness& same = {}) {
  const auto sequence_shape = [](const nsa::TensorView& view) {
    return std::vector<std::int64_t>(view.shape.begin() + 1, view.shape.end());
  };
  const bool alike =
      same.last_sequence ? sequence_shape(a) == sequence_shape(b) : a.shape == b.shape;
  if (a.dtype != b.dtype || !alike) {
    throw nsa::Error(b.where + ": has another dtype or shape than in the first pass");
  }
  std::set<int> rows;
  const auto width = static_cast<std::size_t>(nsa::dtype_bytes(a.dtype));
  const std::size_t count = std::min(a.bytes.size(), b.bytes.size()) / width;
  const std::size_t in_a =
      a.bytes.size() / width - count;  // of the last sequence, the first element
  const std::size_t in_b = b.bytes.size() / width - count;
  const std::size_t size = same.last_sequence && !a.shape.empty() && a.shape[0] > 0
                               ? a.bytes.size() / width / static_cast<std::size_t>(a.shape[0])
                               : count;
  const RowAxis along(a, row_axis < 0 ? 2 : row_axis);
  const auto compare = [&](const auto& x, const auto& y, const auto& equal) {
    for (std::size_t i = count - size; i < count; ++i) {
      const int row = along.row(i - (count - size));
      if (!equal(x[in_a + i], y[in_b + i]) && same.keep(row)) rows.insert(row);
    }
  };
  if (same.bit_by_bit) {
    compare(ElementBits(a), ElementBits(b), [](const auto& x, const auto& y) {
      return std::equal(x.begin(), x.end(), y.begin());
    });
  } else if (is_integer(a)) {
    compare(nsa::to_int64s(a), nsa::to_int64s(b), std::equal_to<>());
  } else {
    compare(Reals(a), Reals(b), [&](double x, double y) {
      return x == y || std::abs(x - y) <= same.limit || (std::isnan(x) && std::isnan(y));
    });
  }
  return rows;
}

// A stage that departs by itself.
struct StageApart {
  const oracles::StageRow* stage = nullptr;
  std::set<int> rows;            // positions, or compressed tokens
  std::set<std::string> follow;  // tensors that differ because of it

  // The departure of this stage in one layer.
  [[nodiscard]] Departure departure(const char* code, const char* variant, int layer) const {
    Departure seen(code, variant);
    seen.site = site_of_layer(0, layer);
    seen.site.step = 1;
    seen.site.branch = stage->branch;
    seen.site.op = stage->op;
    seen.site.phase = "forward";
    seen.site.rows = to_ints(rows);
    seen.site.detail["row_count"] = rows.size();
    seen.facts["tensor"] = name_of(*stage);
    seen.apart_by = name_of(*stage);
    seen.counts_each_row_once = true;
    return seen;
  }
};

// Rows in which the tensor of a stage differs; nothing where it cannot be compared.
using CompareStage = std::function<std::optional<std::set<int>>(const oracles::StageRow&)>;

// In the order of computation.
[[nodiscard]] inline std::vector<StageApart> first_departures(const CompareStage& compare) {
  std::map<oracles::Stage, oracles::Stage> root_of;  // of a stage that differs: where it began
  std::map<oracles::Stage, StageApart> roots;
  for (const oracles::StageRow& stage : oracles::kStageTable) {
    auto rows = compare(stage);
    if (!rows || rows->empty()) continue;
    const oracles::Stage root = root_of_stage(stage, root_of);
    root_of[stage.stage] = root;
    StageApart& apart = roots[root];
    if (root == stage.stage) {
      apart.stage = &stage;
      apart.rows = std::move(*rows);
    } else {
      apart.follow.insert(name_of(stage));
    }
  }
  std::vector<StageApart> list;
  for (auto& [place, apart] : roots) list.push_back(std::move(apart));
  return list;
}

}  // namespace harness::checks
