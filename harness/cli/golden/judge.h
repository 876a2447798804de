// Compares the results of a golden file with the oracle's and the model's, stage by stage in
// computing order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/cli/golden/case.h"
#include "harness/cli/golden/oracle.h"

namespace harness::cli::golden {

// Largest difference over the largest wanted number, or over a thousandth of the largest of its
// kind where that is more. Of `blocks`: the share of rows that are wrong, and the limit is 0.
struct Compared {
  double error = 0;
  double limit = 0;
  std::string where = {};  // it is measured: "of one row"; "" for the largest of all numbers
  // A NaN never agrees.
  [[nodiscard]] bool agrees() const { return error <= limit; }
};

struct Stage {
  std::string name;
  Compared oracle;
  std::optional<Compared> model;  // nothing where the worker failed
  std::string words;              // where it differs, or what was said of ties

  [[nodiscard]] bool agrees() const { return oracle.agrees() && (!model || model->agrees()); }
};

struct Judgement {
  std::vector<Stage> stages;  // those of the file, in computing order
  std::string first;          // the first that differs, "" where all agree
  std::string sentence;       // "first stage that differs: k_cmp; q is right", or that all agree
  std::string reason;         // what explains it, "" where nothing does

  [[nodiscard]] bool agrees() const { return first.empty(); }
};

// `model` may be null: the worker failed.
[[nodiscard]] Judgement judge_golden(const Case& the_case,
                                     const Wanted& oracle,
                                     const Wanted* model);

// "outputs", "gradients", ...: tensors that share a scale.
[[nodiscard]] std::string kind_of(const std::string& result);

}  // namespace harness::cli::golden
