// The law of every parameter's initial values (docs/data.md, "Initial values"), and whether a recorded
// model follows it. Random numbers cannot be compared one by one, so they are tested, with bounds that
// hold for every number of elements (no limit theorem) and a false alarm in at most one of 10^9 models:
//   finite; no number beyond what the law gives; mean and mean of squares (Hoeffding's inequality for
//   uniform numbers, the tails of normal and chi-square for normal ones: Laurent and Massart, 2000);
//   the distribution at 255 places (the inequality of Dvoretzky, Kiefer and Wolfowitz, with Massart's
//   constant, 1990), which lie between two numbers of the type, so that rounding moves none across;
//   no tensor equal to another, no row equal to another of any tensor, no tensor of the same draws as
//   another at another scale;
//   not fewer digits than the type has.
// Tensors of one kind in all blocks are tested together too: alone a bias of 16 numbers shows little.
// With L = ln(2 / a), a the share of 10^-9 of one test (L is about 28 with 200 tensors), the smallest
// scale error found in a tensor of n uniform numbers is about 3/2 sqrt(L / 2n): 3 % at n = 32,768, 0.4 %
// at 2.4 million; normal numbers 1.3 times less.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "oracles/model/lm.h"
#include "oracles/naming.h"
#include "oracles/numbers.h"

namespace oracles {

struct InitialLaw {
  enum class Kind { constant, uniform, normal };
  Kind kind = Kind::constant;
  // The constant, the largest magnitude of uniform numbers, or the standard deviation of normal ones.
  double size = 0;
};

// By the parameter's name. Throws std::invalid_argument for a name that the configuration lacks.
InitialLaw initial_law(const LmConfig& config, const std::string& name);

struct InitialRecord {
  std::string name;
  Shape shape;
  Numbers values;  // before the first step
};

// Every mistake that is told, each with what it means.
std::span<const Law> initial_laws();

struct InitialWrong {
  // "blocks.0.mlp.fc1.weight"; of all blocks together "blocks.*.mlp.fc1.weight".
  std::string parameter;
  Law law;
  std::string detail;  // the factor, the other tensor, the share; may be empty
};

struct InitialJudgement {
  std::int64_t tensors = 0;
  std::int64_t numbers = 0;
  std::vector<InitialWrong> wrong;  // one for each wrong parameter
};

// The records of a model, as many as there are. Throws std::invalid_argument where a name or a shape
// is none of the configuration's or a shape and its numbers disagree.
InitialJudgement judge_initial_values(const LmConfig& config,
                                      std::span<const InitialRecord> records,
                                      int threads = 0);

}  // namespace oracles
