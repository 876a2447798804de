#include "oracles/laws/tiled_laws.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "oracles/attention/attend.h"

namespace oracles {
namespace {

constexpr std::array kTiled = {
    Law{"accumulator_not_rescaled",
        "when a tile raises the row's maximum, the weighted values so far are not rescaled"},
    Law{"sum_not_rescaled",
        "when a tile raises the row's maximum, the sum of the softmax so far is not rescaled"},
    Law{"tiles_not_rescaled",
        "when a tile raises the row's maximum, neither the weighted values nor the sum so far are "
        "rescaled"},
    Law{"merged_with_base_e",
        "parts with log-sum-exps to base 2 are merged by powers of e, or the like: the logarithms "
        "are too large by 1/ln 2"},
    Law{"merged_with_base_two",
        "parts with natural log-sum-exps are merged by powers of 2: the logarithms are too small "
        "by "
        "ln 2"}};
enum Tiled { accumulator, sum, both, base_e, base_two };

// Tiles of `size` keys, or `size` parts; of the branch's keys, or of those that the row sees.
struct Form {
  bool parts = false;
  bool of_row = false;
  std::int64_t size = 0;

  [[nodiscard]] std::string text() const {
    return parts
               ? std::to_string(size) + " parts of the " + (of_row ? "row's" : "branch's") + " keys"
               : "tiles of " + std::to_string(size) + " of the " + (of_row ? "row's" : "branch's") +
                     " keys";
  }
  // Which tile a key is in: number `key` of the branch's `count`, and `place` of the row's `listed`.
  [[nodiscard]] std::int64_t tile(std::int64_t key,
                                  std::int64_t place,
                                  std::int64_t count,
                                  std::int64_t listed) const {
    const std::int64_t all = of_row ? listed : count;
    const std::int64_t width = parts ? (all + size - 1) / size : size;
    return (of_row ? place : key) / std::max<std::int64_t>(1, width);
  }
};

const std::vector<Form>& forms() {
  static const std::vector<Form> kForms = [] {
    std::vector<Form> all;
    for (const bool of_row : {false, true}) {
      for (const std::int64_t size : {4, 8, 16, 32, 64, 128, 256})
        all.push_back({false, of_row, size});
      for (const std::int64_t size : {2, 3, 4, 8}) all.push_back({true, of_row, size});
    }
    return all;
  }();
  return kForms;
}

// What the keys of one tile weigh beside each other, and in the sum: of the logits of all keys.
struct Tile {
  std::size_t begin = 0;
  std::size_t end = 0;
  double maximum = 0;  // of this tile
  double running = 0;  // of this one and those before it
};

std::vector<Tile> tiles_of(const double* s_K, const std::vector<std::int64_t>& tile_of) {
  std::vector<Tile> tiles;
  for (std::size_t i = 0; i < tile_of.size(); ++i) {
    if (i == 0 || tile_of[i] != tile_of[i - 1]) {
      const double before =
          tiles.empty() ? -std::numeric_limits<double>::infinity() : tiles.back().running;
      tiles.push_back({i, i, s_K[i], before});
    }
    Tile& tile = tiles.back();
    tile.end = i + 1;
    tile.maximum = std::max(tile.maximum, s_K[i]);
    tile.running = std::max(tile.running, tile.maximum);
  }
  return tiles;
}

// Logits of one head to what its keys weigh, tile by tile. A weight is exp(logit - own) / sum over all of exp(logit - of the sum).
void rescale_wrongly(Tiled law, const std::vector<Tile>& tiles, double* s_K) {
  const double last = tiles.back().running;
  const bool values = law == accumulator || law == both;
  const bool sums = law == sum || law == both;
  double total = 0;
  for (const Tile& tile : tiles) {
    for (std::size_t i = tile.begin; i < tile.end; ++i) {
      total += std::exp(s_K[i] - (sums ? tile.running : last));
      s_K[i] = std::exp(s_K[i] - (values ? tile.running : last));
    }
  }
  for (std::size_t i = 0; i < tiles.back().end; ++i) s_K[i] /= total;
}

void merge_wrongly(double factor, const std::vector<Tile>& tiles, double* s_K) {
  std::vector<double> merged;  // factor * log sum exp of each tile
  for (const Tile& tile : tiles) {
    double total = 0;
    for (std::size_t i = tile.begin; i < tile.end; ++i) total += std::exp(s_K[i] - tile.maximum);
    for (std::size_t i = tile.begin; i < tile.end; ++i) {
      s_K[i] = std::exp(s_K[i] - tile.maximum) / total;
    }
    merged.push_back(factor * (tile.maximum + std::log(total)));
  }
  const double most = *std::max_element(merged.begin(), merged.end());
  double all = 0;
  for (const double one : merged) all += std::exp(one - most);
  for (std::size_t tile = 0; tile < tiles.size(); ++tile) {
    const double share = std::exp(merged[tile] - most) / all;
    for (std::size_t i = tiles[tile].begin; i < tiles[tile].end; ++i) s_K[i] *= share;
  }
}

Tensor output_of(Tiled law, const Form& form, const Stages& in, Branch branch) {
  const std::vector<KeyBank>& banks = in.banks(branch);
  const Tensor& q = in.input(Stage::q);
  if (branch == Branch::sel) (void)in.attended();  // computed before threads ask for it
  Tensor out = zeros(in.shape_of(output_stage(branch)));
  for_each_row(
      in.sizes(), in.layer().threads, [&](std::int64_t group, std::int64_t row, auto& work) {
        const Query query = in.query(branch, group, row);
        const KeyList keys = visible_keys(query);
        if (keys.empty()) return;
        std::vector<std::int64_t> tile_of;
        for (const KeyRange& range : keys) {
          for (std::int64_t key = range.begin; key < range.end; ++key) {
            tile_of.push_back(form.tile(
                key, static_cast<std::int64_t>(tile_of.size()), query.key_count, key_count(keys)));
          }
        }
        scaled_logits(banks[static_cast<std::size_t>(group)], keys, head_rows(q, group, row), work);
        for (auto s_K = work.begin(); s_K != work.end();
             s_K += static_cast<std::ptrdiff_t>(tile_of.size())) {
          const std::vector<Tile> tiles = tiles_of(&*s_K, tile_of);
          if (law == base_e || law == base_two) {
            merge_wrongly(law == base_e ? 1 / std::log(2.0) : std::log(2.0), tiles, &*s_K);
          } else {
            rescale_wrongly(law, tiles, &*s_K);
          }
        }
        weighted_values(
            banks[static_cast<std::size_t>(group)], keys, work, head_rows(out, group, row));
      });
  return out;
}

}  // namespace

std::span<const Law> tiled_laws() {
  return kTiled;
}

const Law* tiled_law(std::string_view name) {
  const auto at =
      std::find_if(kTiled.begin(), kTiled.end(), [&](const Law& law) { return law.name == name; });
  return at == kTiled.end() ? nullptr : &*at;
}

std::vector<std::string> tiled_forms() {
  std::vector<std::string> texts;
  for (const Form& form : forms()) texts.push_back(form.text());
  return texts;
}

Tensor tiled_output(std::string_view law, std::string_view form, const Stages& in, Branch branch) {
  for (std::size_t i = 0; i < kTiled.size(); ++i) {
    for (const Form& own : forms()) {
      if (kTiled[i].name == law && own.text() == form) {
        return output_of(static_cast<Tiled>(i), own, in, branch);
      }
    }
  }
  throw std::invalid_argument("no law " + std::string(law) + " with " + std::string(form));
}

std::vector<LawFit> fitting_tiled_laws(Stage stage,
                                       const std::function<bool(const OutputOf&)>& gives_all) {
  std::vector<LawFit> fits;
  const Branch branch = branch_of(stage);
  if (stage != output_stage(branch)) return fits;
  for (std::size_t i = 0; i < kTiled.size(); ++i) {
    for (const Form& form : forms()) {
      const bool gives = gives_all(
          [&](const Stages& in) { return output_of(static_cast<Tiled>(i), form, in, branch); });
      if (gives) fits.push_back({kTiled[i], {}, 1, form.text()});
    }
  }
  merge_forms(fits);
  return fits;
}

}  // namespace oracles
