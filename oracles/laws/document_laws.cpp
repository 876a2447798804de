#include "oracles/laws/document_laws.h"

#include <algorithm>
#include <array>
#include <vector>

#include "oracles/attention/attend.h"

namespace oracles {
namespace {

constexpr std::array<CrossingLaw, 3> kLaws{
    {{{"compressed_of_other_documents",
       "the compressed tokens of the documents before it in the sequence are attended to as well"},
      Branch::cmp},
     {{"blocks_of_sequence",
       "blocks are counted from the beginning of the sequence, not of the document"},
      Branch::sel},
     {{"window_of_sequence", "the window does not stop at the beginning of the document"},
      Branch::win}}};

// `row` counts in the document.
KeyList keys_across(Branch branch, const CrossingInputs& in, std::int64_t group, std::int64_t row) {
  const AttentionConfig& c = in.config;
  const std::int64_t in_sequence = in.at.begin + row;
  KeyList keys;
  if (branch == Branch::win) {
    append_range(keys, std::max<std::int64_t>(0, in_sequence - c.w + 1), in_sequence + 1);
  } else if (branch == Branch::cmp) {
    append_range(keys, 0, in.keys_before);
    const std::int64_t own = c.compressed_count(row + 1);  // those that end at the query or before
    append_range(keys, in.keys_before, in.keys_before + own);
  } else {
    const std::int64_t list = (group * in.at.length + row) * c.n_sel;
    for (std::int64_t i = 0; i < c.n_sel; ++i) {
      const std::int64_t block = in.blocks.data[static_cast<std::size_t>(list + i)];
      if (block < 0) break;
      const std::int64_t end = std::min((block + 1) * c.l_sel, in_sequence + 1);
      append_range(keys, block * c.l_sel, end);
    }
  }
  return keys;
}

}  // namespace

std::span<const CrossingLaw> crossing_laws() {
  return kLaws;
}

const CrossingLaw& crossing_law(Branch branch) {
  return *std::find_if(
      kLaws.begin(), kLaws.end(), [&](const CrossingLaw& law) { return law.branch == branch; });
}

Tensor output_across_documents(Branch branch, const CrossingInputs& in) {
  const std::int64_t groups = in.config.n_kv_groups;
  const std::int64_t heads = in.config.heads_per_group();
  const std::int64_t d_k = in.config.d_k;
  const std::int64_t d_v = in.config.d_v;
  const std::int64_t rows = in.at.length;
  const std::int64_t count = in.keys.shape.at(2);
  require_shape(in.q, {1, groups, heads, rows, d_k}, "q");
  require_shape(in.keys, {1, groups, count, d_k}, "keys");
  require_shape(in.values, {1, groups, count, d_v}, "values");
  if (branch == Branch::sel) require_shape(in.blocks, {1, groups, rows, in.config.n_sel}, "blocks");
  Tensor out = zeros({1, groups, heads, rows, d_v});
  std::vector<double> work;
  for (std::int64_t g = 0; g < groups; ++g) {
    const KeyBank bank(in.keys.data.data() + g * count * d_k,
                       in.values.data.data() + g * count * d_v,
                       count,
                       d_k,
                       d_v);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t place = g * heads * rows + row;
      const View q{in.q.data.data() + place * d_k, heads, d_k, rows * d_k};
      const MutableView o{out.data.data() + place * d_v, heads, d_v, rows * d_v};
      attend(bank, keys_across(branch, in, g, row), q, work, o);
    }
  }
  return out;
}

}  // namespace oracles
