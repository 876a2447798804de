// What is planted into the trials of a foreign kernel. The kernel is a few loops over a list of allowed keys: it shares nothing
// with the oracle, so what is healthy here is right by two witnesses.
#pragma once

#include <algorithm>

#include "harness/checks/kernel/kernel_call.h"
#include "harness/foreign/draw.h"
#include "harness/foreign/trials.h"
#include "nsa/base/hash.h"
#include "tests/checks/planted_case.h"

namespace fixtures {

// What a trial's kernel is asked for, and what it gives; all in [B,N,rows,width].
struct KernelTensors {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::map<std::string, std::vector<double>> values;
  std::vector<std::int64_t> blocks;  // [B,G,S,n]

  [[nodiscard]] std::int64_t size(const std::string& name, int axis) const {
    return shapes.at(name).at(static_cast<std::size_t>(axis));
  }
  double& at(
      const std::string& name, std::int64_t b, std::int64_t n, std::int64_t row, std::int64_t c) {
    const std::vector<std::int64_t>& s = shapes.at(name);
    return values.at(name).at(static_cast<std::size_t>(((b * s[1] + n) * s[2] + row) * s[3] + c));
  }
  void add(const std::string& name, const std::string& like, std::int64_t width) {
    shapes[name] = shapes.at(like);
    shapes[name].back() = width;
    std::int64_t count = 1;
    for (const std::int64_t axis : shapes[name]) count *= axis;
    values[name].assign(static_cast<std::size_t>(count), 0.0);
  }
};

struct PlantedKernel {
  std::string level = "attend_win";
  std::string lse = "none";
  // Is key u listed for the query at t? `right` says what should be.
  std::function<bool(std::int64_t t, std::int64_t u, bool right)> allowed =
      [](auto, auto, bool right) { return right; };
  // Changes what a call of a trial gives.
  std::function<void(const std::string& trial, int call, KernelTensors& t)> spoil =
      [](auto, auto, auto&) {};
  bool slots_are_block_zero = false;  // what a list's slots without a block are read as
  int slots = 3;                      // of a list
  bool keeps_lists = false;           // those of the first call with as many queries
  bool narrow = false;                // in bfloat16, forward alone
  bool rounds_scores = false;         // to bfloat16, once they are scaled
  std::string allow = "none";
  bool gates_turned =
      false;  // of a whole layer: those of the selected branch and of the window are exchanged
  bool queries_begin_again =
      false;  // in the forward, from the largest power of two below their number on
  std::vector<std::int64_t> rows = {};  // that trials of as many positions judge; none: all
  bool gradient_elsewhere = false;      // than in these rows
  std::int64_t longest = 60;  // trials of more positions are not on record: loops are slow
  int fresh = -1;             // the trial that a fresh process has called alone
  bool spoils_fresh = false;  // what is spoilt is also wrong there
};

inline bool right_key(const harness::Scenario& s,
                      const KernelTensors& k,
                      std::int64_t b,
                      std::int64_t g,
                      std::int64_t t,
                      std::int64_t u) {
  const nsa::ModelConfig& m = s.model;
  if (s.kernel.level == "attend_win") return u <= t && u > t - m.w;
  if (s.kernel.level == "attend_cmp") return u * m.d + m.l - 1 <= t;
  bool chosen = false;
  for (std::int64_t i = 0; i < m.n_sel; ++i) {
    const std::int64_t list = (b * m.n_kv_groups + g) * k.size("q", 2) + t;
    chosen = chosen || k.blocks[static_cast<std::size_t>(list * m.n_sel + i)] == u / m.l_sel;
  }
  return chosen && u <= t;
}

inline std::int64_t empty_slots(const harness::Scenario& s,
                                const KernelTensors& k,
                                std::int64_t b,
                                std::int64_t g,
                                std::int64_t t) {
  const std::int64_t list = (b * s.model.n_kv_groups + g) * k.size("q", 2) + t;
  const auto first = k.blocks.begin() + list * s.model.n_sel;
  return std::count(first, first + s.model.n_sel, -1);
}

inline double in_bfloat16(double value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8);
}

// Softmax attention of one query and its gradients, written out.
inline void attend_row(const harness::Scenario& s,
                       const PlantedKernel& planted,
                       KernelTensors& k,
                       std::int64_t b,
                       std::int64_t head,
                       std::int64_t t) {
  const std::int64_t g = head / s.model.heads_per_group();
  const double scale = 1.0 / std::sqrt(static_cast<double>(s.model.d_k));
  std::vector<std::int64_t> keys;
  std::vector<double> p;
  double sum = 0.0;
  for (std::int64_t u = 0; u < k.size("k", 2); ++u) {
    if (!planted.allowed(t, u, right_key(s, k, b, g, t, u))) continue;
    double logit = 0.0;
    for (std::int64_t c = 0; c < s.model.d_k; ++c)
      logit += k.at("q", b, head, t, c) * k.at("k", b, g, u, c);
    logit *= scale;
    if (planted.rounds_scores) logit = in_bfloat16(logit);
    keys.push_back(u);
    p.push_back(std::exp(logit));
    if (planted.slots_are_block_zero && u < s.model.l_sel)
      p.back() *= static_cast<double>(1 + empty_slots(s, k, b, g, t));
    sum += p.back();
  }
  k.at("lse", b, head, t, 0) = std::log(sum);
  double mean = 0.0;
  std::vector<double> dp(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    p[i] /= sum;
    for (std::int64_t c = 0; c < s.model.d_v; ++c) {
      k.at("o", b, head, t, c) += p[i] * k.at("v", b, g, keys[i], c);
      k.at("dv", b, g, keys[i], c) += p[i] * k.at("do", b, head, t, c);
      dp[i] += k.at("do", b, head, t, c) * k.at("v", b, g, keys[i], c);
    }
    mean += p[i] * dp[i];
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const double ds = scale * p[i] * (dp[i] - mean);
    for (std::int64_t c = 0; c < s.model.d_k; ++c) {
      k.at("dq", b, head, t, c) += ds * k.at("k", b, g, keys[i], c);
      k.at("dk", b, g, keys[i], c) += ds * k.at("q", b, head, t, c);
    }
  }
}

inline KernelTensors given_to_kernel(const nsa::SafetensorsFile& inputs) {
  KernelTensors k;
  for (const auto& [name, view] : inputs.tensors()) {
    if (name == "blocks") {
      k.blocks = nsa::to_int64s(view);
    } else {
      k.shapes[name] = view.shape;
      k.values[name] = nsa::to_doubles(view);
    }
  }
  return k;
}

inline void begin_again(std::vector<double>& values) {
  std::size_t limit = 1;
  while (2 * limit < values.size()) limit *= 2;
  for (std::size_t i = limit; i < values.size(); ++i) values[i] = values[i - limit];
}

inline void attend(const harness::Scenario& s, const PlantedKernel& planted, KernelTensors& k) {
  KernelTensors read = k;
  for (const auto& [name, like] : std::map<std::string, std::string>{
           {"o", "do"}, {"dq", "q"}, {"dk", "k"}, {"dv", "v"}, {"lse", "q"}}) {
    k.add(name, like, name == "lse" ? 1 : k.shapes[like].back());
  }
  for (std::int64_t b = 0; b < k.size("q", 0); ++b) {
    for (std::int64_t head = 0; head < s.model.n_heads; ++head) {
      for (std::int64_t t = 0; t < k.size("q", 2); ++t) attend_row(s, planted, k, b, head, t);
    }
  }
  if (!planted.queries_begin_again) return;
  begin_again(read.values["q"]);  // in the forward alone
  attend(s, {}, read);
  k.values["o"] = read.values["o"];
}

// Tokens that compressed token i and block j share, of those of the token.
inline double share_of_block(const nsa::ModelConfig& m, std::int64_t i, std::int64_t j) {
  std::int64_t shared = 0;
  for (std::int64_t token = i * m.d; token < i * m.d + m.l; ++token) {
    shared += token / m.l_sel == j ? 1 : 0;
  }
  return static_cast<double>(shared) / static_cast<double>(m.l);
}

// The scores of blocks: probabilities of the compressed tokens that are complete, by their share, over the heads of a
// group.
inline void score_blocks(const harness::Scenario& s, KernelTensors& k) {
  const nsa::ModelConfig& m = s.model;
  const std::int64_t blocks = (k.size("q", 2) + m.l_sel - 1) / m.l_sel;
  k.add("scores", "q", blocks);
  k.shapes["scores"][1] = m.n_kv_groups;
  const std::int64_t rows = k.size("q", 0) * k.size("q", 2);
  k.values["scores"].assign(static_cast<std::size_t>(rows * m.n_kv_groups * blocks), 0.0);
  for (std::int64_t at = 0; at < rows * m.n_heads; ++at) {
    const std::int64_t b = at / m.n_heads / k.size("q", 2);
    const std::int64_t head = at % m.n_heads;
    const std::int64_t t = at / m.n_heads % k.size("q", 2);
    const std::int64_t g = head / m.heads_per_group();
    std::vector<double> p;
    double sum = 0.0;
    for (std::int64_t i = 0; i * m.d + m.l - 1 <= t; ++i) {
      double logit = 0.0;
      for (std::int64_t c = 0; c < m.d_k; ++c)
        logit += k.at("q", b, head, t, c) * k.at("k", b, g, i, c);
      p.push_back(std::exp(logit / std::sqrt(static_cast<double>(m.d_k))));
      sum += p.back();
    }
    for (std::size_t i = 0; i < p.size(); ++i) {
      for (std::int64_t j = 0; j < blocks; ++j) {
        k.at("scores", b, g, t, j) +=
            p[i] / sum * share_of_block(m, static_cast<std::int64_t>(i), j);
      }
    }
  }
}

// The forced blocks and the best complete ones; among equal ones the first.
inline void choose_blocks(const harness::Scenario& s, KernelTensors& k) {
  const nsa::ModelConfig& m = s.model;
  const std::int64_t length = k.size("scores", 2);
  for (std::int64_t row = 0; row < k.size("scores", 0) * m.n_kv_groups * length; ++row) {
    const std::int64_t t = row % length;
    const std::int64_t current = t / m.l_sel;
    const double* const score = k.values["scores"].data() + row * k.size("scores", 3);
    std::set<std::int64_t> chosen;
    for (std::int64_t j = 0; j <= current; ++j) {
      if (j < m.init_blocks || j > current - m.local_blocks) chosen.insert(j);
    }
    while (static_cast<std::int64_t>(chosen.size()) < std::min(m.n_sel, current + 1)) {
      std::int64_t best = -1;
      for (std::int64_t j = 0; j < (t + 1) / m.l_sel; ++j) {
        if (!chosen.contains(j) && (best < 0 || score[j] > score[best])) best = j;
      }
      if (best < 0) break;
      chosen.insert(best);
    }
    k.blocks.insert(k.blocks.end(), chosen.begin(), chosen.end());
    k.blocks.resize(static_cast<std::size_t>((row + 1) * m.n_sel), -1);
  }
  k.shapes["blocks"] = k.shapes["scores"];
  k.shapes["blocks"].back() = m.n_sel;
}

// Averages of the windows of l tokens; and back, gradients of the averages to the tokens.
inline void average(const nsa::ModelConfig& m,
                    KernelTensors& k,
                    const std::string& from,
                    const std::string& to) {
  const std::int64_t length = k.size(from, 2);
  k.shapes[to] = k.shapes[from];
  k.shapes[to][2] = m.compressed_len(length);
  const std::vector<std::int64_t> n = k.shapes[to];
  k.values[to].assign(static_cast<std::size_t>(n[0] * n[1] * n[2] * n[3]), 0.0);
  for (std::int64_t at = 0; at < n[0] * n[1] * n[2] * n[3] * m.l; ++at) {
    const std::int64_t place = at / m.l;
    const std::int64_t c = place % n[3];
    const std::int64_t i = place / n[3] % n[2];
    const std::int64_t g = place / n[3] / n[2] % n[1];
    k.at(to, place / n[3] / n[2] / n[1], g, i, c) +=
        k.at(from, place / n[3] / n[2] / n[1], g, i * m.d + at % m.l, c) / static_cast<double>(m.l);
  }
}
inline void spread(const nsa::ModelConfig& m,
                   KernelTensors& k,
                   const std::string& from,
                   const std::string& to) {
  const std::vector<std::int64_t> n = k.shapes.at(from);
  for (std::int64_t at = 0; at < n[0] * n[1] * n[2] * n[3] * m.l; ++at) {
    const std::int64_t place = at / m.l;
    const std::int64_t c = place % n[3];
    const std::int64_t i = place / n[3] % n[2];
    const std::int64_t g = place / n[3] / n[2] % n[1];
    const std::int64_t b = place / n[3] / n[2] / n[1];
    k.at(to, b, g, i * m.d + at % m.l, c) += k.at(from, b, g, i, c) / static_cast<double>(m.l);
  }
}

// Every branch by itself, then the sum of each times its gate. What is planted concerns the keys of the window.
inline void attend_whole(harness::Scenario s, const PlantedKernel& planted, KernelTensors& k) {
  KernelTensors pooled = k;
  average(s.model, pooled, "k", "k_cmp");
  average(s.model, pooled, "v", "v_cmp");
  KernelTensors choice = k;
  choice.shapes["k"] = pooled.shapes["k_cmp"];
  choice.values["k"] = pooled.values["k_cmp"];
  score_blocks(s, choice);
  choose_blocks(s, choice);
  for (const auto& [name, like] : std::map<std::string, std::string>{
           {"o", "do"}, {"dq", "q"}, {"dk", "k"}, {"dv", "v"}, {"dgates", "gates"}}) {
    k.add(name, like, k.shapes[like].back());
  }
  if (planted.gates_turned) {
    std::vector<double>& gates = k.values["gates"];
    for (std::size_t i = 0; i < gates.size(); i += 3) std::swap(gates[i + 1], gates[i + 2]);
  }
  const std::vector<std::string> levels = {"attend_cmp", "attend_sel", "attend_win"};
  for (std::size_t branch = 0; branch < levels.size(); ++branch) {
    s.kernel.level = levels[branch];
    KernelTensors own = branch == 0 ? choice : k;
    own.blocks = choice.blocks;
    if (branch == 0) {
      own.shapes["v"] = pooled.shapes["v_cmp"];
      own.values["v"] = pooled.values["v_cmp"];
    }
    const auto width = static_cast<std::size_t>(s.model.d_v);
    for (std::size_t i = 0; i < own.values["do"].size(); ++i) {
      own.values["do"][i] *= k.values["gates"][i / width * 3 + branch];
    }
    attend(s, branch == 2 ? planted : PlantedKernel{}, own);
    for (std::size_t i = 0; i < own.values["o"].size(); ++i) {
      const std::size_t gate = i / width * 3 + branch;
      k.values["o"][i] += k.values["gates"][gate] * own.values["o"][i];
      k.values["dgates"][gate] += k.values["do"][i] * own.values["o"][i];
    }
    for (std::size_t i = 0; i < own.values["dq"].size(); ++i) {
      k.values["dq"][i] += own.values["dq"][i];
    }
    for (const char* name : {"dk", "dv"}) {
      if (branch == 0) {
        k.shapes["pooled"] = own.shapes[name];
        k.values["pooled"] = own.values[name];
        spread(s.model, k, "pooled", name);
      } else {
        for (std::size_t i = 0; i < own.values[name].size(); ++i) {
          k.values[name][i] += own.values[name][i];
        }
      }
    }
  }
}

inline KernelTensors results_of(const harness::Scenario& s,
                                const PlantedKernel& planted,
                                const nsa::SafetensorsFile& inputs,
                                std::map<std::size_t, std::vector<std::int64_t>>& lists) {
  KernelTensors k = given_to_kernel(inputs);
  const auto kept = lists.try_emplace(k.blocks.size(), k.blocks).first;
  if (planted.keeps_lists) k.blocks = kept->second;
  if (s.kernel.level == "score") {
    score_blocks(s, k);
  } else if (s.kernel.level == "select") {
    choose_blocks(s, k);
  } else if (s.kernel.is_whole()) {
    attend_whole(s, planted, k);
  } else {
    attend(s, planted, k);
  }
  return k;
}

inline void write_kernel_outputs(Healthy& h,
                                 const PlantedKernel& planted,
                                 const KernelTensors& k,
                                 int trial,
                                 int call,
                                 int process = 0) {
  const std::string& level = planted.level;
  const nsa::DType dtype = planted.narrow ? nsa::DType::bf16 : nsa::DType::f64;
  std::vector<nsa::TensorToWrite> tensors;
  std::vector<std::vector<std::byte>> bytes;
  bytes.reserve(8);  // the spans below point into them
  std::vector<const char*> names = {"o", "dq", "dk", "dv", "lse"};
  if (level == "score") names = {"scores"};
  if (level == "attention") names = {"o", "dq", "dk", "dv", "dgates"};
  if (level == "select") {
    names = {};
    tensors.push_back(
        {"blocks", nsa::DType::i64, k.shapes.at("blocks"), std::as_bytes(std::span(k.blocks))});
  }
  for (const char* name : names) {
    if (!k.values.contains(name)) continue;  // no gradient came
    std::vector<std::int64_t> shape = k.shapes.at(name);
    if (std::string(name) == "lse") shape.pop_back();
    std::vector<double> values = k.values.at(name);
    if (planted.narrow) std::transform(values.begin(), values.end(), values.begin(), in_bfloat16);
    bytes.push_back(harness::encoded(dtype, values));
    tensors.push_back({name, dtype, shape, bytes.back()});
  }
  harness::Artefact row;
  row.step = call;
  row.name = harness::checks::kKernelOutputs;
  row.layer = trial;
  row.path = std::string(process == kTwin ? "twin_of_0" : "rank_0") + "/outputs_" +
             std::to_string(trial) + "_" + std::to_string(call) + ".safetensors";
  const std::filesystem::path path = std::filesystem::path(h.evidence.folder) / row.path;
  std::filesystem::create_directories(path.parent_path());
  nsa::write_safetensors(path, tensors);
  row.bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
  put(h.evidence.artefacts, process, row);
}

// The trial with these rows alone judged; with `gradient` they alone get one.
inline void keep_rows(const std::string& path,
                      const std::vector<std::int64_t>& rows,
                      harness::Artefact& artefact,
                      bool gradient = true) {
  const nsa::SafetensorsFile file(path);
  if (rows.empty() || file.at("do").shape[2] <= rows.back()) return;
  std::map<std::string, std::string> said = file.metadata();
  said[harness::kJudgedRows].clear();
  for (const std::int64_t row : rows) said[harness::kJudgedRows] += std::to_string(row) + " ";
  const nsa::TensorView& view = file.at("do");
  std::vector<double> d_o = nsa::to_doubles(view);
  for (std::size_t i = 0; i < d_o.size(); ++i) {
    const std::int64_t row = static_cast<std::int64_t>(i) / view.shape[3] % view.shape[2];
    if (gradient && std::find(rows.begin(), rows.end(), row) == rows.end()) d_o[i] = 0.0;
  }
  std::vector<std::vector<std::byte>> kept;
  std::vector<nsa::TensorToWrite> tensors;
  for (const auto& [name, one] : file.tensors()) {
    const auto bytes = name == "do" ? std::as_bytes(std::span(d_o)) : one.bytes;
    kept.emplace_back(bytes.begin(), bytes.end());
    tensors.push_back({name, one.dtype, one.shape, {}});
  }
  for (std::size_t i = 0; i < kept.size(); ++i) tensors[i].bytes = kept[i];
  nsa::write_safetensors(path, tensors, said);
  artefact.bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
  artefact.hash = nsa::hash_file(path);
}

inline void make_kernel(Healthy& h, const PlantedKernel& planted) {
  harness::Scenario& s = h.evidence.the_case.scenario;
  s.kernel.callable = "module:name";
  s.kernel.level = planted.level;
  s.kernel.lse = planted.lse;
  s.kernel.gradients = !s.kernel.chooses() && !planted.narrow;
  s.kernel.products = "wide";
  s.kernel.allow = planted.allow;
  s.training.precision = planted.narrow ? nsa::Precision::bf16 : nsa::Precision::fp64;
  s.model.n_heads = 4;
  s.model.n_kv_groups = 2;
  s.model.d_k = 4;
  s.model.d_v = 3;
  s.model.l = s.model.d = s.model.l_sel = 4;
  if (planted.level == "score") s.model.l = 8;
  s.model.n_sel = planted.slots;
  s.model.w = 6;
  h.evidence.artefacts.clear();
  std::map<std::size_t, std::vector<std::int64_t>> lists;  // by their size
  for (harness::Artefact& row : harness::write_trials(s, h.evidence.folder)) {
    keep_rows(h.evidence.folder + "/" + row.path, planted.rows, row, !planted.gradient_elsewhere);
    const nsa::SafetensorsFile inputs(h.evidence.folder + "/" + row.path);
    const char* const first = inputs.contains("q") ? "q" : "scores";
    if (inputs.at(first).shape[2] > planted.longest) continue;
    put(h.evidence.artefacts, kController, row, 1);
    if (row.layer == planted.fresh) {
      std::map<std::size_t, std::vector<std::int64_t>> fresh;
      KernelTensors alone = results_of(s, planted, inputs, fresh);
      if (planted.spoils_fresh) planted.spoil(inputs.metadata().at("trial"), 1, alone);
      write_kernel_outputs(h, planted, alone, row.layer, 1, kTwin);
    }
    for (int call = 1; call <= std::stoi(inputs.metadata().at("calls")); ++call) {
      KernelTensors results = results_of(s, planted, inputs, lists);
      planted.spoil(inputs.metadata().at("trial"), call, results);
      write_kernel_outputs(h, planted, results, row.layer, call);
    }
  }
}

inline void add_foreign_kernels(std::vector<Planted>& list) {
  const auto adder = [&](const std::string& check,
                         const std::string& name,
                         Verdict verdict,
                         const std::string& code,
                         const std::string& site,
                         const PlantedKernel& planted) {
    list.push_back({check,
                    name,
                    verdict,
                    code,
                    site,
                    [planted](Healthy& h) { make_kernel(h, planted); },
                    1,
                    1,
                    "kernel"});
  };
  const auto of = [&](const std::string& check,
                      const std::string& name,
                      const std::string& code,
                      const std::string& site,
                      const PlantedKernel& planted) {
    adder(check, name, Verdict::fail, code, site, planted);
  };
  const std::string is_oracle = "kernel_is_oracle";
  for (const char* level :
       {"attend_sel", "attend_win", "attend_cmp", "score", "select", "attention"}) {
    adder(is_oracle, std::string("healthy ") + level, Verdict::pass, "", "{}", {.level = level});
  }
  adder(is_oracle, "healthy sums", Verdict::pass, "", "{}", {.lse = "e"});
  adder(is_oracle, "healthy in bfloat16", Verdict::pass, "", "{}", {.narrow = true});
  adder(is_oracle,
        "rounded scores that the case allows",
        Verdict::pass,
        "",
        "{}",
        {.narrow = true, .rounds_scores = true, .allow = "scores_rounded"});
  of(is_oracle,
     "rounded scores",
     "NUMERIC.FORWARD",
     R"({"branch":"win","op":"attend_win","detail":{"law":"scores_rounded"}})",
     {.narrow = true, .rounds_scores = true});
  of(is_oracle,
     "rounded scores where other roundings are allowed",
     "NUMERIC.FORWARD",
     R"({"branch":"win","op":"attend_win","detail":{"law":"scores_rounded"}})",
     {.narrow = true, .rounds_scores = true, .allow = "scaled_query_rounded"});
  of(is_oracle,
     "window one too long",
     "NUMERIC.FORWARD",
     R"({"branch":"win","op":"attend_win"})",
     {.allowed = [](std::int64_t t, std::int64_t u, bool) { return u <= t && u > t - 7; }});
  // What holds in a part of the rows, heads, sequences or trials is no law: kernel_findings_test.cpp says what is told.
  const auto longer_where = [](auto holds) {
    return [=](std::int64_t t, std::int64_t u, bool right) {
      return right || (u == t - 6 && holds(t));
    };
  };
  of(is_oracle,
     "window one too long in every eighth row",
     "NUMERIC.FORWARD",
     R"({"branch":"win","op":"attend_win"})",
     {.allowed = longer_where([](std::int64_t t) { return t % 8 == 0; })});
  of(is_oracle,
     "window one too long from row 9 on",
     "NUMERIC.FORWARD",
     R"({"branch":"win","op":"attend_win"})",
     {.allowed = longer_where([](std::int64_t t) { return t >= 9; })});
  of(is_oracle,
     "one head twice as large",
     "NUMERIC.FORWARD",
     R"({"branch":"win","op":"attend_win","heads":[3]})",
     {.spoil = [](const std::string&, int, KernelTensors& t) {
       for (std::int64_t b = 0; b < t.size("o", 0); ++b) {
         for (std::int64_t row = 0; row < t.size("o", 2); ++row) {
           for (std::int64_t c = 0; c < t.size("o", 3); ++c) t.at("o", b, 3, row, c) *= 2.0;
         }
       }
     }});
  of(is_oracle,
     "the second sequence of a batch is off",
     "NUMERIC.FORWARD",
     R"({"branch":"win","op":"attend_win"})",
     {.spoil = [](const std::string&, int, KernelTensors& t) {
       std::vector<double>& o = t.values.at("o");
       if (t.size("o", 0) < 2) return;
       for (std::size_t i = o.size() / 2; i < o.size(); ++i) o[i] += 0.25;
     }});
  of(is_oracle,
     "twice as large, with large logits alone",
     "NUMERIC.FORWARD",
     R"({"branch":"win","op":"attend_win","detail":{"trials":["large_logits"]}})",
     {.spoil = [](const std::string& trial, int, KernelTensors& t) {
       if (trial != "large_logits") return;
       for (double& value : t.values.at("o")) value *= 2.0;
     }});
  of(is_oracle,
     "window one too long, and its sums",
     "NUMERIC.FORWARD",
     R"({"branch":"win","op":"attend_win","detail":{"law":"one_longer"}})",
     {.lse = "e", .allowed = longer_where([](auto) { return true; })});
  of(is_oracle,
     "a layer whose gates are turned",
     "NUMERIC.FORWARD",
     R"({"op":"attention","detail":{"law":"sel_win_exchanged"}})",
     {.level = "attention", .gates_turned = true});
  of(is_oracle,
     "no mask",
     "MASK.ABSENT",
     R"({"branch":"cmp"})",
     {.level = "attend_cmp", .allowed = [](auto, auto, bool) { return true; }});
  of(is_oracle,
     "first key alone",
     "MASK.ALIGNMENT",
     R"({"branch":"win"})",
     {.allowed = [](std::int64_t t, std::int64_t u, bool) {
       return u == std::max<std::int64_t>(0, t - 5);
     }});
  of(is_oracle,
     "mask turned round",
     "MASK.POLARITY",
     R"({"branch":"win"})",
     {.allowed = [](auto, auto, bool right) { return !right; }});
  of(is_oracle,
     "empty slots of a list read as block 0",
     "NUMERIC.FORWARD",
     R"({"branch":"sel","op":"attend_sel","detail":{"laws":["forced_twice","empty_slots_block_zero"]}})",
     {.level = "attend_sel", .slots_are_block_zero = true});
  of(is_oracle,
     "lists of the first call with as many queries",
     "NUMERIC.FORWARD",
     R"({"branch":"sel","op":"attend_sel","detail":{"law":"lists_of_an_earlier_call"}})",
     {.level = "attend_sel", .slots = 4, .keeps_lists = true});
  of(is_oracle,
     "two empty slots of a list read as block 0",
     "RANGE.INVALID",
     R"({"branch":"sel","op":"attend_sel","detail":{"law":"empty_slots_block_zero"}})",
     {.level = "attend_sel", .slots_are_block_zero = true, .slots = 4});
  of(is_oracle,
     "sums to base two",
     "NUMERIC.FORWARD",
     R"({"op":"attend_win"})",
     {.lse = "e", .spoil = [](const std::string&, int, KernelTensors& t) {
        for (double& value : t.values.at("lse")) value /= std::log(2.0);
      }});
  of(is_oracle,
     "half the values' gradients",
     "NUMERIC.GRADIENT",
     R"({"branch":"sel","phase":"backward"})",
     {.level = "attend_sel", .spoil = [](const std::string&, int, KernelTensors& t) {
        for (double& value : t.values.at("dv")) value *= 0.5;
      }});
  of(is_oracle,
     "the second call adds to the first",
     "NUMERIC.FORWARD",
     R"({"branch":"win"})",
     {.spoil = [](const std::string&, int call, KernelTensors& t) {
       for (double& value : t.values.at("o")) value *= call;
     }});
  of(is_oracle,
     "a NaN in one row of one length",
     "NAN.ORIGIN",
     R"({"rows":[0],"op":"attend_win"})",
     {.spoil = [](const std::string& trial, int, KernelTensors& t) {
       if (trial == "length_1") t.at("o", 0, 1, 0, 2) = std::nan("");
     }});
  of(is_oracle,
     "NaNs where no compressed key is complete",
     "NAN.ORIGIN",
     R"({"rows":[0,1,2],"op":"attend_cmp","branch":"cmp"})",
     {.level = "attend_cmp", .spoil = [](const std::string&, int, KernelTensors& t) {
        for (std::int64_t row = 0; row < std::min<std::int64_t>(3, t.size("o", 2)); ++row) {
          t.at("o", 0, 0, row, 0) = std::nan("");
        }
      }});
  of(is_oracle,
     "scores that are NaN where no compressed key is complete",
     "NAN.ORIGIN",
     R"({"op":"score"})",
     {.level = "score", .spoil = [](const std::string&, int, KernelTensors& t) {
        t.at("scores", 0, 0, 0, 0) = std::nan("");
      }});
  of(is_oracle,
     "a NaN beside a row that is wrong",
     "NUMERIC.FORWARD",
     R"({"op":"attend_win"})",
     {.spoil = [](const std::string&, int, KernelTensors& t) {
       t.at("o", 0, 0, 0, 0) = std::nan("");
       if (t.size("o", 2) > 1) t.at("o", 0, 0, 1, 0) += 1.0;
     }});
  of(is_oracle,
     "NaNs in the backward alone",
     "NAN.ORIGIN",
     R"({"op":"attend_cmp","phase":"backward"})",
     {.level = "attend_cmp", .spoil = [](const std::string&, int, KernelTensors& t) {
        t.at("dq", 0, 0, 0, 0) = std::nan("");
      }});
  of(is_oracle,
     "a layer whose gates get NaNs",
     "NAN.ORIGIN",
     R"({"op":"attention","phase":"backward"})",
     {.level = "attention", .spoil = [](const std::string&, int, KernelTensors& t) {
        t.at("dgates", 0, 0, 0, 0) = std::nan("");
      }});
  of(is_oracle,
     "queries whose offsets begin again",
     "OVERFLOW.INDEX",
     R"({"op":"attend_win","detail":{"law":"offsets_begin_again"}})",
     {.queries_begin_again = true});
  const auto in_batches = [](const char* tensor) {
    return [=](const std::string&, int, KernelTensors& t) {
      if (t.size("o", 0) > 1) t.at(tensor, 1, 0, 3, 0) += 1.0;
    };
  };
  of(is_oracle,
     "one sequence of each batch",
     "NUMERIC.FORWARD",
     R"({"op":"attend_win","sequence":1})",
     {.spoil = in_batches("o")});
  of(is_oracle,
     "one sequence of each batch in the backward",
     "NUMERIC.GRADIENT",
     R"({"op":"attend_win","sequence":1})",
     {.spoil = in_batches("dk")});
  of(is_oracle,
     "NaNs from memory between the rows",
     "NUMERIC.FORWARD",
     R"({"op":"attend_win","detail":{"law":"strides_ignored"}})",
     {.spoil = [](const std::string& trial, int, KernelTensors& t) {
       if (trial != "gaps") return;
       t.at("o", 0, 0, 1, 0) = std::nan("");
     }});
  of(is_oracle,
     "keys that get no gradient",
     "GRAD.MISSING",
     R"({"op":"attend_win","phase":"backward"})",
     {.spoil = [](const std::string&, int, KernelTensors& t) { t.values.erase("dk"); }});
  of(is_oracle,
     "keys whose gradient is zero",
     "NUMERIC.GRADIENT",
     R"({"op":"attend_win","phase":"backward"})",
     {.spoil = [](const std::string&, int, KernelTensors& t) {
       for (double& value : t.values.at("dk")) value = 0.0;
     }});
  of(is_oracle,
     "a layer whose window is one too long",
     "NUMERIC.FORWARD",
     R"({"branch":"win","op":"attention"})",
     {.level = "attention",
      .allowed = [](std::int64_t t, std::int64_t u, bool right) { return right || u == t - 6; }});
  of(is_oracle,
     "a layer whose gates get half of their gradient",
     "NUMERIC.GRADIENT",
     R"({"op":"attention","phase":"backward"})",
     {.level = "attention", .spoil = [](const std::string&, int, KernelTensors& t) {
        for (double& value : t.values.at("dgates")) value *= 0.5;
      }});
  of(is_oracle,
     "scores a hundred thousandth too high",
     "SELECTION.WRONG",
     R"({"op":"score"})",
     {.level = "score", .spoil = [](const std::string&, int, KernelTensors& t) {
        for (double& value : t.values.at("scores")) value *= 1.00001;
      }});
  of(is_oracle,
     "the first block is not in the last list",
     "SELECTION.WRONG",
     R"({"op":"select"})",
     {.level = "select", .spoil = [](const std::string& trial, int, KernelTensors& t) {
        if (trial == "normal") ++t.blocks[t.blocks.size() - 3];
      }});
  of(is_oracle,
     "a list that does not ascend",
     "SELECTION.WRONG",
     R"({"op":"select","detail":{"law":"not_a_legal_list"}})",
     {.level = "select", .spoil = [](const std::string& trial, int, KernelTensors& t) {
        if (trial == "normal") std::swap(t.blocks.end()[-1], t.blocks.end()[-2]);
      }});
  of(is_oracle,
     "a block after the query",
     "RANGE.INVALID",
     R"({"op":"select"})",
     {.level = "select", .spoil = [](const std::string& trial, int, KernelTensors& t) {
        if (trial == "normal") t.blocks.back() += 1;
      }});
  list.push_back(
      {is_oracle, "no trial", Verdict::inconclusive, "", "{}", kLeaveAsItIs, 1, 1, "kernel"});
  list.push_back({is_oracle,
                  "what came back is lost",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [](Healthy& h) {
                    make_kernel(h, {});
                    remove_if(h.evidence.artefacts, [](const auto& row) {
                      return row.process == 0 && row.row.layer == 3;
                    });
                  },
                  1,
                  1,
                  "kernel"});
  const std::string causal = "kernel_causal";
  adder(causal, "healthy", Verdict::pass, "", "{}", {});
  of(causal,
     "sees the next key",
     "CAUSALITY.LEAK",
     R"({"branch":"win","phase":"forward"})",
     {.allowed = [](std::int64_t t, std::int64_t u, bool right) { return right || u == t + 1; }});
  const auto other_calls = [](double second, double future) {
    return [=](const std::string& trial, int call, KernelTensors& t) {
      if (trial == "normal" && call == 2) t.at("o", 0, 0, 0, 0) += second;
      if (trial == "other_future") t.at("o", 1, 0, 1, 0) += future;
    };
  };
  adder(causal,
        "whose calls differ by as much",
        Verdict::pass,
        "",
        "{}",
        {.spoil = other_calls(1e-3, 2e-3)});
  of(causal,
     "whose calls differ by much less",
     "CAUSALITY.LEAK",
     R"({"branch":"win","phase":"forward"})",
     {.spoil = other_calls(1e-3, 1e-2)});
  of(causal,
     "its last choice depends on the future",
     "CAUSALITY.LEAK",
     R"({"op":"select","phase":"forward"})",
     {.level = "select", .spoil = [](const std::string& trial, int, KernelTensors& t) {
        if (trial == "other_future") t.blocks[t.blocks.size() / 2] = 1;  // of sequence 1
      }});
  const auto in_other_trial = [](const std::string& wanted, auto change) {
    return [=](const std::string& trial, int, KernelTensors& t) {
      if (trial == wanted) change(t);
    };
  };
  of(causal,
     "takes something from another sequence of the batch",
     "CAUSALITY.LEAK",
     R"({"op":"attend_win","phase":"forward","sequence":1,"rows":[5]})",
     {.spoil = in_other_trial("other_sequence_0",
                              [](KernelTensors& t) { t.at("o", 1, 0, 5, 0) += 1e-3; })});
  of(causal,
     "gives a gradient to another sequence of the batch",
     "CAUSALITY.LEAK",
     R"({"op":"attend_win","phase":"backward","sequence":0,"rows":[5]})",
     {.spoil = in_other_trial("other_sequence_0",
                              [](KernelTensors& t) { t.at("dk", 0, 0, 5, 0) = 1e-3; })});
  of(causal,
     "gives gradients to what comes after",
     "CAUSALITY.LEAK",
     R"({"op":"attend_win","phase":"backward","sequence":1})",
     {.spoil = in_other_trial("other_future",
                              [](KernelTensors& t) { t.values.at("dk").back() = 1e-30; })});
  adder(causal,
        "NaNs in the backward, whatever the future",
        Verdict::pass,
        "",
        "{}",
        {.spoil = [](const std::string&, int, KernelTensors& t) {
          t.values.at("dk").back() = std::nan("");
        }});
  of(causal,
     "NaNs in the backward with one future alone",
     "CAUSALITY.LEAK",
     R"({"op":"attend_win","phase":"backward"})",
     {.spoil = [](const std::string& trial, int, KernelTensors& t) {
       if (trial == "other_future") t.values.at("dk").back() = std::nan("");
     }});
  adder(causal,
        "NaNs in the backward beside a NaN of the output, with one future alone",
        Verdict::pass,
        "",
        "{}",
        {.spoil = in_other_trial("other_future", [](KernelTensors& t) {
           t.at("o", 1, 0, 17, 0) = std::nan("");
           t.values.at("dk").back() = std::nan("");
         })});
  adder(causal,
        "a gradient that a fresh process does not give to another sequence",
        Verdict::inconclusive,
        "",
        "{}",
        {.spoil = in_other_trial("other_sequence_0",
                                 [](KernelTensors& t) { t.at("dk", 0, 0, 5, 0) = 1e-3; }),
         .fresh = 1});  // that trial
  list.push_back(
      {causal, "no trial", Verdict::inconclusive, "", "{}", kLeaveAsItIs, 1, 1, "kernel"});
}

}  // namespace fixtures
