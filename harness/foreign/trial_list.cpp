// Which trials there are. What a trial holds is in trials.cpp.
#include <algorithm>
#include <array>
#include <set>

#include "harness/foreign/draw.h"
#include "harness/foreign/trials.h"

namespace harness {
namespace {

constexpr int kMain = 0;                   // the trial that others are tied to
constexpr const char* kNormal = "normal";  // its name
constexpr std::array kBranches = {"cmp", "sel", "win"};

// Kernels work in tiles of these sizes: what is wrong at a border of tiles shows from there on.
constexpr std::array<std::int64_t, 3> kTiles = {64, 128, 256};
constexpr std::array<std::int64_t, 4> kLargeTiles = {512, 1024, 2048, 4096};
constexpr std::int64_t kBothSides = 1024;  // of a larger tile only one length beyond it is tried
constexpr std::int64_t kBeyond = 65;       // by so much: another tile, and one row

// Of compressed keys as many as a tile has take d times as many tokens. Longer trials also come once, and not again.
constexpr std::int64_t kMostForKeys = 1100;
constexpr std::int64_t kMostForKeysThorough = 4200;

// A plain kernel makes a tensor of all scores of a call, and keeps several for its backward. This is the most numbers of one:
// 64 MiB in float32, and 512 MiB where the trials are thorough. A trial that would need more is shortened, or left out.
constexpr std::int64_t kMostScores = std::int64_t{1} << 24;
constexpr std::int64_t kMostScoresThorough = std::int64_t{1} << 27;

// Products that the oracle takes for the forward of one trial, a few tens of milliseconds; the backward takes three times as many,
// in a narrow type four times. Beyond it the oracle judges drawn rows.
constexpr std::int64_t kMostProducts = std::int64_t{1} << 24;
constexpr std::int64_t kFewestRows = 48;

constexpr std::int64_t kTimesTheListInAll = kTimesTheList * 5 / 4;  // a fifth of the rows has more

class Lengths {
 public:
  explicit Lengths(const Scenario& scenario) : scenario_(scenario), m_(scenario.model) {}

  // Long enough that blocks are dropped, keys leave the window, compressed tokens are many; no multiple of anything.
  [[nodiscard]] std::int64_t main() const {
    const std::int64_t of_lists = (m_.n_sel + 2) * m_.l_sel + m_.l_sel / 2 + 1;
    if (whole()) return std::max(of_lists, m_.w + m_.w / 2 + 3) | 1;
    if (has_lists()) return of_lists;
    if (is("attend_win")) return 2 * std::min<std::int64_t>(m_.w, 512) + m_.w / 2 + 3;
    const std::int64_t of_tokens = m_.l + 9 * m_.d + 1;
    return is("score") ? std::max(of_tokens, 3 * m_.l_sel + m_.l_sel / 2 + 1) : of_tokens;
  }

  // Both sides of every edge, of the mathematics and of tiles.
  [[nodiscard]] std::set<std::int64_t> edges() const {
    std::set<std::int64_t> lengths = {1};
    const auto around = [&](std::int64_t edge, std::int64_t apart = 1) {
      for (std::int64_t side = -1; side <= 1; ++side) lengths.insert(edge + side * apart);
    };
    if (whole() || has_lists()) {
      around(m_.l_sel);
      lengths.insert(m_.n_sel * m_.l_sel);
    }
    if (whole() || is("attend_win")) around(m_.w);
    if (compresses()) {
      around(m_.l);
      lengths.insert(m_.l + m_.d);
    }
    if (is("score")) around(m_.l_sel);
    for (const std::int64_t tile : tiles()) {
      if (tile > kBothSides && !is_users(tile)) {
        lengths.insert(tile + kBeyond);
        continue;
      }
      around(tile);
      const std::int64_t as_many_keys = m_.l + (tile - 1) * m_.d;
      const std::int64_t most = scenario_.kernel.thorough ? kMostForKeysThorough : kMostForKeys;
      if (compresses() && as_many_keys <= most) around(as_many_keys, m_.d);
    }
    lengths.erase(lengths.begin(), lengths.lower_bound(1));
    lengths.erase(lengths.upper_bound(longest()), lengths.end());
    lengths.erase(main());
    return lengths;
  }

  // With many candidates for a list; 0 where no list is made, or no such length fits.
  [[nodiscard]] std::int64_t of_candidates() const {
    if (!whole() && !has_lists() && !is("score")) return 0;
    const std::int64_t wanted = kTimesTheListInAll * m_.n_sel * m_.l_sel + m_.l_sel / 2 + 1;
    const std::int64_t length = std::min(wanted, longest());
    return length > main() ? length : 0;
  }

  // None where the oracle judges all rows.
  [[nodiscard]] std::vector<std::int64_t> judged(std::int64_t length) const {
    if (scenario_.kernel.chooses()) return {};  // no gradients, and one pass over the scores
    const std::int64_t of_row = m_.n_heads * keys(length) * (m_.d_k + m_.d_v);
    const std::int64_t count =
        std::max(kFewestRows, kMostProducts / std::max<std::int64_t>(1, of_row));
    if (count >= length) return {};
    std::set<std::int64_t> rows = {0, 1, length - 2, length - 1};
    const auto add = [&](std::int64_t row) {
      if (row >= 0 && row < length) rows.insert(row);
    };
    std::vector<std::int64_t> tiles = this->tiles();
    std::erase_if(tiles, [&](std::int64_t tile) { return tile >= length; });
    for (const std::int64_t tile : tiles) {
      add(tile - 1);
      add(tile);
    }
    const Draws draws(static_cast<std::uint64_t>(scenario_.seed) * 4096 +
                      static_cast<std::uint64_t>(length));
    std::uint64_t at = 0;
    const auto below = [&](std::int64_t most) {
      return static_cast<std::int64_t>(draws.bits(at++) % static_cast<std::uint64_t>(most));
    };
    while (static_cast<std::int64_t>(rows.size()) < count) {
      add(below(length));
      if (tiles.empty()) continue;
      const std::int64_t tile =
          tiles[static_cast<std::size_t>(below(static_cast<std::int64_t>(tiles.size())))];
      add((1 + below(length / tile)) * tile -
          below(2));  // the last of a tile, or the first of the next
    }
    return {rows.begin(), rows.end()};
  }

 private:
  [[nodiscard]] bool is(const char* level) const { return scenario_.kernel.level == level; }
  [[nodiscard]] bool whole() const { return scenario_.kernel.is_whole(); }
  [[nodiscard]] bool has_lists() const { return is("attend_sel") || is("select"); }
  [[nodiscard]] bool compresses() const { return is("attend_cmp") || is("score"); }
  [[nodiscard]] bool is_users(std::int64_t tile) const {
    const std::vector<std::int64_t>& own = scenario_.kernel.tile;
    return std::find(own.begin(), own.end(), tile) != own.end();
  }

  [[nodiscard]] std::vector<std::int64_t> tiles() const {
    std::set<std::int64_t> all(kTiles.begin(), kTiles.end());
    if (scenario_.kernel.thorough) all.insert(kLargeTiles.begin(), kLargeTiles.end());
    for (const std::int64_t tile : scenario_.kernel.tile) {
      all.insert(tile);
      all.insert(2 * tile);
    }
    return {all.begin(), all.end()};
  }

  // That a query of level attend_* sees at most, one branch after the other.
  [[nodiscard]] std::int64_t keys(std::int64_t length) const {
    const std::int64_t compressed = m_.compressed_len(length);
    if (is("attend_win")) return std::min(length, m_.w);
    if (is("attend_sel")) return std::min(length, m_.n_sel * m_.l_sel);
    if (is("attend_cmp")) return compressed;
    return 2 * compressed + std::min(length, m_.n_sel * m_.l_sel) + std::min(length, m_.w);
  }

  [[nodiscard]] std::int64_t scores(std::int64_t length) const {
    if (is("select")) return m_.n_kv_groups * length * (length / m_.l_sel + 1);
    return m_.n_heads * length * (compresses() ? m_.compressed_len(length) : length);
  }

  [[nodiscard]] std::int64_t longest() const {
    const KernelConfig& kernel = scenario_.kernel;
    const std::int64_t most = kernel.thorough ? kMostScoresThorough : kMostScores;
    std::int64_t low = 1;
    std::int64_t high = most;
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (scores(middle) <= most ? low : high) = middle;
    }
    return kernel.sentinel > 0 ? std::min(low, kernel.sentinel * m_.l_sel) : low;
  }

  const Scenario& scenario_;
  const nsa::ModelConfig& m_;
};

// What is tied to the main trial: one sequence of the batch is another at a time, first all of it.
void add_tied(std::int64_t length, std::vector<KernelTrial>& trials) {
  constexpr std::int64_t kBatch = 2;
  trials.push_back({.name = kNormal, .batch = kBatch, .length = length, .calls = 2});
  for (std::int64_t sequence = 0; sequence < kBatch; ++sequence) {
    trials.push_back({.name = "other_sequence_" + std::to_string(sequence),
                      .as = kNormal,
                      .batch = kBatch,
                      .length = length,
                      .perturbed_of = kMain,
                      .sequence = sequence});
  }
  trials.push_back({.name = "other_future",
                    .as = kNormal,
                    .batch = kBatch,
                    .length = length,
                    .perturbed_of = kMain,
                    .first = std::max<std::int64_t>(1, length * 5 / 8 | 1),
                    .sequence = kBatch - 1});
  trials.push_back({.name = "alone", .as = kNormal, .length = length, .alone_of = kMain});
  trials.push_back({.name = kGaps, .batch = kBatch, .length = length, .gaps = true});
}

void add_inputs(const Scenario& scenario, std::int64_t length, std::vector<KernelTrial>& trials) {
  const KernelConfig& kernel = scenario.kernel;
  for (const char* inputs : {"large_logits", "integers", "one_hot", "equal_keys", "ties"}) {
    const std::string name = inputs;
    const bool of_logits = name == "large_logits" || name == "one_hot";
    if (of_logits && kernel.level == "select") continue;
    // Where keys are alike so are scores, and the choice, which cannot be seen, is anybody's.
    const bool alike = name == "one_hot" || name == "equal_keys" || name == "ties";
    if (alike && kernel.is_whole() && !kernel.takes_picks()) continue;
    trials.push_back({.name = name, .inputs = name, .length = length});
  }
  if (!kernel.chooses()) {
    trials.push_back({.name = "just_held", .inputs = "just_held", .length = length});
  }
  for (const char* branch : kBranches) {
    if (!kernel.is_whole()) break;
    const std::string name = std::string("only_") + branch;
    trials.push_back({.name = name, .gate = branch, .length = length});
  }
  if (kernel.takes_picks()) {
    trials.push_back({.name = "crowded", .inputs = "crowded", .length = length});
  }
  for (const std::string& text : kernel.widths) {
    const KernelWidths widths = kernel_widths(text).value();
    trials.push_back(
        {.name = "widths_" + text, .length = length, .d_k = widths.d_k, .d_v = widths.d_v});
  }
}

void add_lengths(const Scenario& scenario, std::vector<KernelTrial>& trials) {
  const Lengths lengths(scenario);
  const KernelConfig& kernel = scenario.kernel;
  const auto add = [&](const std::string& name, const char* inputs, std::int64_t length) {
    trials.push_back(
        {.name = name, .inputs = inputs, .length = length, .rows = lengths.judged(length)});
  };
  for (const std::int64_t edge : lengths.edges()) {
    const std::string name = "length_" + std::to_string(edge);
    add(name, "normal", edge);
    if (kernel.thorough && edge <= kMostForKeys) add(name + "_again", "normal", edge);
  }
  if (const std::int64_t length = lengths.of_candidates(); length > 0) {
    add("candidates", "normal", length);
    // Given lists need no scores, and scores in level score choose nothing.
    const bool chooses = kernel.level == "select" || (kernel.is_whole() && !kernel.takes_picks());
    if (chooses) add("octave", "octave", length);
    if (kernel.level == "select") add("units", "units", length);
  }
  const auto longest = std::max_element(
      trials.begin(), trials.end(), [](const KernelTrial& a, const KernelTrial& b) {
        return a.length < b.length;
      });
  KernelTrial other = *longest;
  other.name = "longest_other_future";
  other.as = longest->name;
  other.calls = 1;
  other.perturbed_of = static_cast<int>(longest - trials.begin());
  other.first = other.length * 5 / 8 | 1;
  trials.push_back(std::move(other));
}

}  // namespace

std::vector<KernelTrial> kernel_trials(const Scenario& scenario) {
  const std::int64_t length = Lengths(scenario).main();
  std::vector<KernelTrial> trials;
  add_tied(length, trials);
  add_inputs(scenario, length, trials);
  add_lengths(scenario, trials);
  return trials;
}

}  // namespace harness
