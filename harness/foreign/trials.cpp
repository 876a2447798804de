#include "harness/foreign/trials.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>

#include "harness/foreign/draw.h"
#include "nsa/base/error.h"
#include "nsa/base/hash.h"

namespace harness {
namespace {

constexpr double kLogitsFive =
    2.23606797749979;     // of queries and of keys: logits are five times as large
constexpr int kMain = 0;  // the trial that others are tied to

// Tensors that are drawn apart.
enum class Purpose : std::uint64_t {
  q = 1,
  k,
  v,
  d_o,
  blocks,
  other_q,
  other_k,
  other_v,
  scores,
  other_scores,
  gates,
  other_gates
};

constexpr std::array kBranches = {"cmp", "sel", "win"};

struct Sizes {
  std::int64_t batch, heads, groups, length, keys, d_k, d_v, picks, blocks;
};

// ---- which trials -----------------------------------------------------------------------------------------------

bool has_lists(const std::string& level) {
  return level == "attend_sel" || level == "select";
}

// Long enough that blocks are dropped, keys leave the window, compressed tokens are many; no multiple of anything.
std::int64_t main_length(const Scenario& scenario) {
  const nsa::ModelConfig& m = scenario.model;
  const std::string& level = scenario.kernel.level;
  const std::int64_t of_lists = (m.n_sel + 2) * m.l_sel + m.l_sel / 2 + 1;
  if (scenario.kernel.is_whole()) return std::max(of_lists, m.w + m.w / 2 + 3) | 1;
  if (has_lists(level)) return of_lists;
  if (level == "attend_win") return 2 * std::min<std::int64_t>(m.w, 512) + m.w / 2 + 3;
  const std::int64_t of_tokens = m.l + 9 * m.d + 1;
  return level == "score" ? std::max(of_tokens, 3 * m.l_sel + m.l_sel / 2 + 1) : of_tokens;
}

// Both sides of every edge.
std::set<std::int64_t> edge_lengths(const Scenario& scenario) {
  const nsa::ModelConfig& m = scenario.model;
  std::set<std::int64_t> lengths = {1};
  const auto around = [&](std::int64_t edge) { lengths.insert({edge - 1, edge, edge + 1}); };
  const std::string& level = scenario.kernel.level;
  const bool whole = scenario.kernel.is_whole();
  if (whole || has_lists(level)) {
    around(m.l_sel);
    lengths.insert(m.n_sel * m.l_sel);
  }
  if (whole || level == "attend_win") around(m.w);
  if (level == "attend_cmp" || level == "score") {
    around(m.l);
    lengths.insert(m.l + m.d);
  }
  if (level == "score") around(m.l_sel);
  lengths.erase(lengths.begin(), lengths.lower_bound(1));
  lengths.erase(main_length(scenario));
  return lengths;
}

// ---- numbers ----------------------------------------------------------------------------------------------------

class Drawn {
 public:
  Drawn(const Scenario& scenario, const KernelTrial& trial)
      : scenario_(scenario), trial_(trial), dtype_(dtype_of(scenario.training.precision)) {
    const nsa::ModelConfig& m = scenario.model;
    const bool alone = trial.alone_of >= 0;
    const std::int64_t compressed = trial.length < m.l ? 0 : (trial.length - m.l) / m.d + 1;
    sizes_ = {alone ? 2 : trial.batch,
              m.n_heads,
              m.n_kv_groups,
              trial.length,
              compresses() ? compressed : trial.length,
              m.d_k,
              m.d_v,
              m.n_sel,
              (trial.length + m.l_sel - 1) / m.l_sel};
    const int tied = std::max(trial.alone_of, trial.perturbed_of);
    const std::uint64_t number = tied >= 0 ? static_cast<std::uint64_t>(tied) : trial_number();
    key_ = static_cast<std::uint64_t>(scenario.seed) * 1024 + number;
  }

  void write(const std::string& path) {
    draw();
    if (trial_.perturbed_of >= 0) perturb();
    if (trial_.alone_of >= 0) keep_last_sequence();
    std::vector<nsa::TensorToWrite> tensors;
    std::vector<std::vector<std::byte>> bytes;
    bytes.reserve(16);  // the spans below point into them
    const auto add =
        [&](const char* name, std::vector<double>& values, std::vector<std::int64_t> shape) {
          bytes.push_back(encoded(dtype_, values));
          tensors.push_back({name, dtype_, std::move(shape), bytes.back()});
        };
    const Sizes& n = sizes_;
    if (takes_scores()) {
      add("scores", scores_, {n.batch, n.groups, n.length, n.blocks});
    } else {
      add("q", q_, {n.batch, n.heads, n.length, n.d_k});
    }
    for (Bank& bank : banks_) {
      if (!takes_scores()) add(bank.k_name.c_str(), bank.k, {n.batch, n.groups, n.keys, n.d_k});
      if (scenario_.kernel.chooses()) continue;
      add(bank.v_name.c_str(), bank.v, {n.batch, n.groups, n.keys, n.d_v});
    }
    if (!scenario_.kernel.chooses()) add("do", do_, {n.batch, n.heads, n.length, n.d_v});
    if (scenario_.kernel.is_whole()) add("gates", gates_, {n.batch, n.heads, n.length, 3});
    if (takes_lists()) {
      tensors.push_back({"blocks",
                         nsa::DType::i64,
                         {n.batch, n.groups, n.length, n.picks},
                         std::as_bytes(std::span(blocks_))});
    }
    nsa::write_safetensors(path, tensors, metadata());
  }

 private:
  // Keys and values of one branch, or of all.
  struct Bank {
    std::string k_name, v_name;
    std::vector<double> k, v;
  };

  [[nodiscard]] bool takes_lists() const { return scenario_.kernel.takes_picks(); }
  [[nodiscard]] bool takes_scores() const { return scenario_.kernel.level == "select"; }
  [[nodiscard]] bool compresses() const {
    return scenario_.kernel.level == "attend_cmp" || scenario_.kernel.level == "score";
  }

  // A trial's numbers depend on its name, not on how many others there are.
  [[nodiscard]] std::uint64_t trial_number() const {
    if (trial_.name == "normal") return kMain;
    std::uint64_t number = 7;
    for (const char c : trial_.name) number = number * 131 + static_cast<unsigned char>(c);
    return number;
  }

  [[nodiscard]] std::vector<double> normal(Purpose purpose,
                                           std::int64_t count,
                                           double factor,
                                           std::size_t bank = 0) const {
    constexpr std::uint64_t kOfBank = std::uint64_t{1} << 48U;
    const Draws draws(key_ * 16 + static_cast<std::uint64_t>(purpose) + bank * kOfBank);
    std::vector<double> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) {
      double value = factor * draws.normal(i);
      if (trial_.inputs == "integers") value = std::clamp(std::nearbyint(value), -2.0, 2.0);
      values[i] = held_by(dtype_, value);
    }
    return values;
  }

  void draw() {
    const Sizes& n = sizes_;
    const double factor = trial_.inputs == "large_logits" ? kLogitsFive : 1.0;
    q_ = normal(Purpose::q, n.batch * n.heads * n.length * n.d_k, factor);
    const bool apart = scenario_.kernel.is_whole() && scenario_.kernel.keys == "separate";
    for (std::size_t i = 0; i < (apart ? kBranches.size() : 1); ++i) {
      const std::string of = apart ? std::string("_") + kBranches[i] : "";
      banks_.push_back({"k" + of,
                        "v" + of,
                        normal(Purpose::k, n.batch * n.groups * n.keys * n.d_k, factor, i),
                        normal(Purpose::v, n.batch * n.groups * n.keys * n.d_v, 1.0, i)});
    }
    do_ = normal(Purpose::d_o, n.batch * n.heads * n.length * n.d_v, 1.0);
    if (trial_.inputs == "one_hot") make_one_hot();
    if (trial_.inputs == "equal_keys") make_equal();
    if (trial_.inputs == "ties") make_ties();
    if (takes_lists()) draw_blocks();
    if (takes_scores()) scores_ = scores(Purpose::scores);
    if (scenario_.kernel.is_whole()) gates_ = gates(Purpose::gates);
  }

  // Of all branches between 0 and 1, or one branch alone: then the output is that branch's.
  [[nodiscard]] std::vector<double> gates(Purpose purpose) const {
    const Draws draws(key_ * 16 + static_cast<std::uint64_t>(purpose));
    std::vector<double> values(
        static_cast<std::size_t>(sizes_.batch * sizes_.heads * sizes_.length * 3));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = trial_.gate.empty() ? held_by(dtype_, draws.uniform(i))
                                      : (trial_.gate == kBranches[i % 3] ? 1.0 : 0.0);
    }
    return values;
  }

  // Never below zero, as sums of probabilities are. `ties`: every other block has none; `equal_keys`: all have the
  // same.
  [[nodiscard]] std::vector<double> scores(Purpose purpose) const {
    const Sizes& n = sizes_;
    std::vector<double> values = normal(purpose, n.batch * n.groups * n.length * n.blocks, 1.0);
    const double same = std::abs(values.front());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto place = static_cast<std::int64_t>(i);
      const std::int64_t block = place % n.blocks;
      const std::int64_t t = place / n.blocks % n.length;
      double& value = values[i];
      value = trial_.inputs == "equal_keys" ? same : std::abs(value);
      const bool tied = trial_.inputs == "ties" && block % 2 == 1;
      if (tied || block * scenario_.model.l_sel > t) value = 0.0;
    }
    return values;
  }

  template <typename Change>
  void for_each_key(Change change) {
    const std::int64_t rows = sizes_.batch * sizes_.groups * sizes_.keys;
    for (Bank& bank : banks_) {
      for (std::int64_t row = 0; row < rows; ++row) {
        change(row % std::max<std::int64_t>(1, sizes_.keys), bank.k.data() + row * sizes_.d_k, row);
      }
    }
  }

  void make_one_hot() {
    const Draws draws(key_ * 16 + static_cast<std::uint64_t>(Purpose::k));
    for_each_key([&](std::int64_t, double* k, std::int64_t row) {
      std::fill_n(k, sizes_.d_k, 0.0);
      k[draws.bits(static_cast<std::uint64_t>(row)) % static_cast<std::uint64_t>(sizes_.d_k)] = 1.0;
    });
  }

  void make_equal() {
    for_each_key([&](std::int64_t, double* k, std::int64_t) {
      std::copy_n(banks_.front().k.data(), sizes_.d_k, k);
    });
  }

  // Zeros in half of the runs of keys: their logits are equal.
  void make_ties() {
    const std::int64_t run = compresses() ? 2 : std::max<std::int64_t>(1, scenario_.model.l_sel);
    for_each_key([&](std::int64_t token, double* k, std::int64_t) {
      if (token / run % 2 == 1) std::fill_n(k, sizes_.d_k, 0.0);
    });
  }

  // The forced blocks, and past ones that are drawn; `crowded`: the first ones, which all queries share. External
  // lists may be shorter than they could be.
  void draw_blocks() {
    const nsa::ModelConfig& m = scenario_.model;
    const Draws draws(key_ * 16 + static_cast<std::uint64_t>(Purpose::blocks));
    const Sizes& n = sizes_;
    const bool external = scenario_.kernel.picks == "external";
    blocks_.assign(static_cast<std::size_t>(n.batch * n.groups * n.length * n.picks), -1);
    std::uint64_t at = 0;
    for (std::int64_t row = 0; row < n.batch * n.groups * n.length; ++row) {
      const std::int64_t current = row % n.length / m.l_sel;
      std::set<std::int64_t> chosen;
      for (std::int64_t i = 0; i < m.init_blocks; ++i) chosen.insert(std::min(i, current));
      for (std::int64_t i = 0; scenario_.kernel.own_block && i < m.local_blocks; ++i) {
        chosen.insert(std::max<std::int64_t>(0, current - i));
      }
      std::int64_t wanted = std::min(n.picks, current + 1);
      if (external && draws.bits(at++) % 2 == 1) {
        wanted =
            1 + static_cast<std::int64_t>(draws.bits(at++) % static_cast<std::uint64_t>(wanted));
      }
      for (std::int64_t next = 0; static_cast<std::int64_t>(chosen.size()) < wanted; ++next) {
        const std::uint64_t drawn = draws.bits(at++) % static_cast<std::uint64_t>(current + 1);
        chosen.insert(trial_.inputs == "crowded" ? next : static_cast<std::int64_t>(drawn));
      }
      std::copy(chosen.begin(), chosen.end(), blocks_.begin() + row * n.picks);
    }
  }

  // Everything from position `first` on is another; no gradient comes in there.
  void perturb() {
    const Sizes& n = sizes_;
    const nsa::ModelConfig& m = scenario_.model;
    const std::int64_t first = trial_.first;
    const auto replace = [&](std::vector<double>& values,
                             const std::vector<double>& others,
                             std::int64_t rows,
                             std::int64_t width,
                             auto changes) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (changes(static_cast<std::int64_t>(i) / width % rows)) {
          values[i] = held_by(dtype_, 3.0 * others[i]);
        }
      }
    };
    const auto late = [&](std::int64_t token) { return token >= first; };
    const auto late_key = [&](std::int64_t key) {
      return compresses() ? key * m.d + m.l > first : key >= first;
    };
    const auto other = [&](Purpose purpose, const std::vector<double>& like, std::size_t bank = 0) {
      return normal(purpose, static_cast<std::int64_t>(like.size()), 1.0, bank);
    };
    replace(q_, other(Purpose::other_q, q_), n.length, n.d_k, late);
    for (std::size_t i = 0; i < banks_.size(); ++i) {
      Bank& bank = banks_[i];
      replace(bank.k, other(Purpose::other_k, bank.k, i), n.keys, n.d_k, late_key);
      replace(bank.v, other(Purpose::other_v, bank.v, i), n.keys, n.d_v, late_key);
    }
    if (scenario_.kernel.is_whole())
      replace(gates_, gates(Purpose::other_gates), n.length, 3, late);
    replace(do_, std::vector<double>(do_.size()), n.length, n.d_v, late);
    if (takes_scores()) replace(scores_, scores(Purpose::other_scores), n.length, n.blocks, late);
  }

  void keep_last_sequence() {
    const auto keep = [&](auto& values) {
      values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
    };
    keep(q_);
    for (Bank& bank : banks_) {
      keep(bank.k);
      keep(bank.v);
    }
    keep(do_);
    keep(gates_);
    keep(blocks_);
    keep(scores_);
    sizes_.batch = 1;
  }

  [[nodiscard]] std::map<std::string, std::string> metadata() const {
    std::map<std::string, std::string> said = {{"trial", trial_.name},
                                               {"calls", std::to_string(trial_.calls)},
                                               {"gaps", trial_.gaps ? "1" : "0"}};
    if (!trial_.gate.empty()) said["gate"] = trial_.gate;
    if (trial_.perturbed_of >= 0) {
      said["perturbed_of"] = std::to_string(trial_.perturbed_of);
      said["first"] = std::to_string(trial_.first);
    }
    if (trial_.alone_of >= 0) said["alone_of"] = std::to_string(trial_.alone_of);
    return said;
  }

  const Scenario& scenario_;
  const KernelTrial& trial_;
  nsa::DType dtype_;
  Sizes sizes_{};
  std::uint64_t key_ = 0;
  std::vector<double> q_, do_, scores_, gates_;
  std::vector<Bank> banks_;
  std::vector<std::int64_t> blocks_;
};

std::string file_of(std::size_t trial) {
  const std::string number = std::to_string(trial);
  return std::string(kTrialsFolder) + "/" + std::string(number.size() < 2 ? 1 : 0, '0') + number +
         ".safetensors";
}

}  // namespace

std::vector<KernelTrial> kernel_trials(const Scenario& scenario) {
  const std::int64_t length = main_length(scenario);
  std::vector<KernelTrial> trials;
  trials.push_back(
      {.name = "normal", .inputs = "normal", .batch = 2, .length = length, .calls = 2});
  const std::int64_t first = std::max<std::int64_t>(1, length * 5 / 8 | 1);
  trials.push_back({.name = "other_future",
                    .inputs = "normal",
                    .batch = 2,
                    .length = length,
                    .perturbed_of = kMain,
                    .first = first});
  trials.push_back({.name = "alone", .inputs = "normal", .length = length, .alone_of = kMain});
  trials.push_back({.name = kGaps, .inputs = "normal", .batch = 2, .length = length, .gaps = true});
  for (const char* inputs : {"large_logits", "integers", "one_hot", "equal_keys", "ties"}) {
    const std::string name = inputs;
    const bool of_logits = name == "large_logits" || name == "one_hot";
    if (of_logits && scenario.kernel.level == "select") continue;
    // Where keys are alike so are scores, and the choice, which cannot be seen, is anybody's.
    const bool alike = name == "one_hot" || name == "equal_keys" || name == "ties";
    if (alike && scenario.kernel.is_whole() && !scenario.kernel.takes_picks()) continue;
    trials.push_back({.name = name, .inputs = name, .length = length});
  }
  for (const char* branch : kBranches) {
    if (!scenario.kernel.is_whole()) break;
    const std::string name = std::string("only_") + branch;
    trials.push_back({.name = name, .inputs = "normal", .gate = branch, .length = length});
  }
  if (scenario.kernel.takes_picks()) {
    trials.push_back({.name = "crowded", .inputs = "crowded", .length = length});
  }
  for (const std::int64_t edge : edge_lengths(scenario)) {
    trials.push_back(
        {.name = "length_" + std::to_string(edge), .inputs = "normal", .length = edge});
  }
  return trials;
}

std::vector<Artefact> write_trials(const Scenario& scenario, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directory(folder + "/" + kTrialsFolder, error);
  if (error)
    throw nsa::Error("cannot make " + folder + "/" + kTrialsFolder + ": " + error.message());
  std::vector<Artefact> rows;
  const std::vector<KernelTrial> trials = kernel_trials(scenario);
  for (std::size_t i = 0; i < trials.size(); ++i) {
    Artefact row;
    row.step = 1;
    row.name = kTrialInputs;
    row.layer = static_cast<int>(i);
    row.path = file_of(i);
    const std::string path = folder + "/" + row.path;
    Drawn(scenario, trials[i]).write(path);
    row.bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
    row.hash = nsa::hash_file(path);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace harness
