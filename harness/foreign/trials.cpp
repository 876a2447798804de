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
    2.23606797749979;  // of queries and of keys: logits are five times as large
// Queries times this: probabilities are nearly alike, and so are the scores of blocks.
constexpr double kNearlyAlike = 0x1p-4;
constexpr double kBelowTwo = 0.98;  // 1 + this is below two in eight digits, which narrow types get

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
  other_gates,
  other_blocks
};

constexpr std::array kBranches = {"cmp", "sel", "win"};

struct Sizes {
  std::int64_t batch, heads, groups, length, keys, d_k, d_v, picks, blocks;
};

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
              trial.d_k > 0 ? trial.d_k : m.d_k,
              trial.d_v > 0 ? trial.d_v : m.d_v,
              m.n_sel,
              (trial.length + m.l_sel - 1) / m.l_sel};
    const std::string& numbers = trial.as.empty() ? trial.name : trial.as;
    key_ = static_cast<std::uint64_t>(scenario.seed) * 1024 + number_of(numbers);
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
  static std::uint64_t number_of(const std::string& name) {
    std::uint64_t number = 7;
    for (const char c : name) number = number * 131 + static_cast<unsigned char>(c);
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
    const double of_queries = trial_.inputs == "octave" ? kNearlyAlike : factor;
    q_ = normal(Purpose::q, n.batch * n.heads * n.length * n.d_k, of_queries);
    const bool apart = scenario_.kernel.is_whole() && scenario_.kernel.keys == "separate";
    for (std::size_t i = 0; i < (apart ? kBranches.size() : 1); ++i) {
      const std::string of = apart ? std::string("_") + kBranches[i] : "";
      banks_.push_back({"k" + of,
                        "v" + of,
                        normal(Purpose::k, n.batch * n.groups * n.keys * n.d_k, factor, i),
                        normal(Purpose::v, n.batch * n.groups * n.keys * n.d_v, 1.0, i)});
    }
    do_ = normal(Purpose::d_o, n.batch * n.heads * n.length * n.d_v, 1.0);
    if (trial_.inputs == "just_held") make_just_held();
    leave_judged_rows();
    if (trial_.inputs == "one_hot") make_one_hot();
    if (trial_.inputs == "equal_keys") make_equal();
    if (trial_.inputs == "ties") make_ties();
    if (takes_lists()) blocks_ = lists(Purpose::blocks);
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

  // Never below zero, as sums of probabilities are. `ties`: every other block has none; `equal_keys`: all have the same;
  // `octave`: all lie between 1 and 2; `units`: they are the next few numbers above 1 that the type holds, and some are equal.
  [[nodiscard]] std::vector<double> scores(Purpose purpose) const {
    const Sizes& n = sizes_;
    std::vector<double> values = normal(purpose, n.batch * n.groups * n.length * n.blocks, 1.0);
    const double same = std::abs(values.front());
    const Draws draws(key_ * 16 + static_cast<std::uint64_t>(purpose));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto place = static_cast<std::int64_t>(i);
      const std::int64_t block = place % n.blocks;
      const std::int64_t t = place / n.blocks % n.length;
      double& value = values[i];
      value = trial_.inputs == "equal_keys" ? same : std::abs(value);
      if (trial_.inputs == "octave") value = 1.0 + kBelowTwo * draws.uniform(i);
      if (trial_.inputs == "units") {
        constexpr std::uint64_t kSteps =
            100;  // below two in every type; as many as candidates, or more
        value = 1.0 + static_cast<double>(draws.bits(i) % kSteps) * unit_above_one(dtype_);
      }
      if (trial_.inputs == "octave") value = held_by(dtype_, value);
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

  // Values near the largest that the type holds, and in a column of one sign: what adds them up before it divides needs a wider
  // type, and their mean is as large. Gradients that come in are as small, so that all results are held too. In bfloat16 and
  // wider types room is left for sums of many keys in float32; three branches that are added leave room for the sum.
  void make_just_held() {
    const bool half = dtype_ == nsa::DType::f16;
    const int wide = dtype_ == nsa::DType::f64 ? 1000 : 110;
    const int exponent = half ? (scenario_.kernel.is_whole() ? 13 : 15) : wide;
    constexpr int kOfProducts = 7;  // their product is below 2^15, times the root of the width
    const Draws draws(key_ * 16 + static_cast<std::uint64_t>(Purpose::v));
    for (Bank& bank : banks_) {
      for (std::size_t i = 0; i < bank.v.size(); ++i) {
        const bool below_zero = i % static_cast<std::size_t>(sizes_.d_v) % 2 == 1;
        const double size = std::ldexp(1.0 + kBelowTwo * draws.uniform(i), exponent);
        bank.v[i] = held_by(dtype_, below_zero ? -size : size);
      }
    }
    for (double& value : do_) value = held_by(dtype_, std::ldexp(value, kOfProducts - exponent));
  }

  // No gradient comes in at rows that are not judged: those of keys and values are sums over the judged ones.
  void leave_judged_rows() {
    if (trial_.rows.empty()) return;
    const std::set<std::int64_t> judged(trial_.rows.begin(), trial_.rows.end());
    for (std::size_t i = 0; i < do_.size(); ++i) {
      const auto vector = static_cast<std::int64_t>(i) / sizes_.d_v;
      if (!judged.contains(vector % sizes_.length)) do_[i] = 0.0;
    }
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
  [[nodiscard]] std::vector<std::int64_t> lists(Purpose purpose) const {
    const nsa::ModelConfig& m = scenario_.model;
    const Draws draws(key_ * 16 + static_cast<std::uint64_t>(purpose));
    const Sizes& n = sizes_;
    const bool external = scenario_.kernel.picks == "external";
    std::vector<std::int64_t> blocks(
        static_cast<std::size_t>(n.batch * n.groups * n.length * n.picks), -1);
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
      std::copy(chosen.begin(), chosen.end(), blocks.begin() + row * n.picks);
    }
    return blocks;
  }

  // Of one sequence of the batch everything from position `first` on is another; no gradient comes in there.
  void perturb() {
    const Sizes& n = sizes_;
    const nsa::ModelConfig& m = scenario_.model;
    const std::int64_t first = trial_.first;
    const auto replace =
        [&](auto& values, const auto& others, std::int64_t rows, std::int64_t width, auto changes) {
          const std::size_t of_sequence = values.size() / static_cast<std::size_t>(n.batch);
          const std::size_t begin = static_cast<std::size_t>(trial_.sequence) * of_sequence;
          for (std::size_t i = begin; i < begin + of_sequence; ++i) {
            if (changes(static_cast<std::int64_t>(i) / width % rows)) values[i] = others[i];
          }
        };
    const auto late = [&](std::int64_t token) { return token >= first; };
    const auto late_key = [&](std::int64_t key) {
      return compresses() ? key * m.d + m.l > first : key >= first;
    };
    const auto other = [&](Purpose purpose, const std::vector<double>& like, std::size_t bank = 0) {
      return three_times(normal(purpose, static_cast<std::int64_t>(like.size()), 1.0, bank));
    };
    replace(q_, other(Purpose::other_q, q_), n.length, n.d_k, late);
    for (std::size_t i = 0; i < banks_.size(); ++i) {
      Bank& bank = banks_[i];
      replace(bank.k, other(Purpose::other_k, bank.k, i), n.keys, n.d_k, late_key);
      replace(bank.v, other(Purpose::other_v, bank.v, i), n.keys, n.d_v, late_key);
    }
    if (scenario_.kernel.is_whole())
      replace(gates_, three_times(gates(Purpose::other_gates)), n.length, 3, late);
    replace(do_, std::vector<double>(do_.size()), n.length, n.d_v, late);
    if (takes_scores())
      replace(scores_, three_times(scores(Purpose::other_scores)), n.length, n.blocks, late);
    if (takes_lists()) replace(blocks_, lists(Purpose::other_blocks), n.length, n.picks, late);
  }

  [[nodiscard]] std::vector<double> three_times(std::vector<double> values) const {
    for (double& value : values) value = held_by(dtype_, 3.0 * value);
    return values;
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
      said["sequence"] = std::to_string(trial_.sequence);
    }
    if (trial_.d_k > 0) {
      said[kWidths] = std::to_string(trial_.d_k) + "x" + std::to_string(trial_.d_v);
    }
    for (const std::int64_t row : trial_.rows) {
      std::string& rows = said[kJudgedRows];
      rows += (rows.empty() ? "" : " ") + std::to_string(row);
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
