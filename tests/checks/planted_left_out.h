// A command of the user's own whose loss leaves a layer out: of one step, of all, frozen, or where nothing is known of it.
#pragma once

#include <string>
#include <vector>

#include "tests/checks/planted_command.h"
#include "tests/checks/planted_gradients.h"

namespace fixtures {

constexpr const char* kLeftOut = "blocks.1.attn.W_K_sel";

inline void nothing_came(Gradient& row, harness::Reach reach, const std::string& state = "none") {
  unreachable(row);
  row.reachable = reach;
  row.state = state;
  row.reduced = false;
}

// In the steps from `first` to `last`, on `rank` (-1: on each).
inline std::function<void(Healthy&)> left_out(
    int first, int last, harness::Reach reach, const std::string& state = "none", int rank = -1) {
  return [=](Healthy& h) {
    as_command(h);
    each_gradient(h.evidence, rank, kLeftOut, [&](Gradient& row) {
      if (row.step >= first && row.step <= last) nothing_came(row, reach, state);
    });
  };
}

inline std::function<void(Healthy&)> and_the_reducer_complains(std::function<void(Healthy&)> spoil,
                                                               int rank,
                                                               int step) {
  return [=](Healthy& h) {
    spoil(h);
    harness::WorkerError error;
    error.type = "RuntimeError";
    error.what = "Expected to have finished reduction in the prior iteration";
    error.phase = "forward";
    error.step = step;
    error.frames = {"_pre_forward (torch/nn/parallel/distributed.py:1584)"};
    put(h.evidence.errors, rank, error);
  };
}

inline void add_left_out(std::vector<Planted>& list) {
  using harness::Reach;
  const PlantedAdder arrived{list, "gradients_arrived", 2, 4};
  arrived("a script leaves a layer out of one step",
          Verdict::pass,
          "",
          "{}",
          left_out(2, 2, Reach::no));
  arrived("a script leaves a layer out of the last step",
          Verdict::pass,
          "",
          "{}",
          left_out(4, 4, Reach::no));
  arrived("a script leaves a layer out on one rank",
          Verdict::pass,
          "",
          "{}",
          left_out(1, 4, Reach::no, "none", 1));
  arrived("a script leaves a layer out of every step",
          Verdict::inconclusive,
          "",
          "{}",
          left_out(1, 4, Reach::no));
  arrived("a script leaves a layer out from its third step on",
          Verdict::inconclusive,
          "",
          "{}",
          left_out(3, 4, Reach::no));
  arrived(
      "a script leaves a layer out that its reducer waits for",
      Verdict::fail,
      "GRAD.MISSING",
      R"({"ranks":[0,1],"step":4})",
      and_the_reducer_complains(and_the_reducer_complains(left_out(4, 4, Reach::no), 0, 5), 1, 5));
  arrived("the same on one rank",
          Verdict::fail,
          "GRAD.NOT_FINALIZED",
          R"({"ranks":[1],"step":4})",
          and_the_reducer_complains(left_out(4, 4, Reach::no, "none", 1), 1, 5));
  arrived("a reducer complains of another step",
          Verdict::pass,
          "",
          "{}",
          and_the_reducer_complains(left_out(2, 2, Reach::no), 0, 4));
  arrived("a gradient that did not come, and no graph to walk",
          Verdict::inconclusive,
          "",
          "{}",
          left_out(2, 2, Reach::unknown));
  arrived("a gradient of zeros that no hook saw, and no graph to walk",
          Verdict::inconclusive,
          "",
          "{}",
          left_out(2, 2, Reach::unknown, "zero"));
  arrived("a gradient that the script put there itself",
          Verdict::pass,
          "",
          "{}",
          left_out(1, 4, Reach::unknown, "ok"));
  arrived("a frozen layer", Verdict::pass, "", "{}", left_out(1, 4, Reach::no, "frozen"));
  arrived("a script's loss leads there, and no gradient came",
          Verdict::fail,
          "GRAD.MISSING",
          R"({"ranks":[0,1],"step":2})",
          left_out(2, 2, Reach::yes));

  const PlantedAdder agree{list, "gradients_agree", 2, 4};
  agree("a script leaves a layer out of one step",
        Verdict::pass,
        "",
        "{}",
        left_out(2, 2, Reach::no));
  agree("a frozen layer", Verdict::pass, "", "{}", left_out(1, 4, Reach::no, "frozen"));
  agree("no gradient came: another check's", Verdict::pass, "", "{}", left_out(2, 2, Reach::yes));
  agree("a gradient came, and nothing is reduced",
        Verdict::fail,
        "GRAD.NOT_REDUCED",
        R"({"step":2})",
        left_out(2, 2, Reach::yes, "ok"));

  const PlantedAdder finite{list, "finite", 2, 4};
  finite("not finite where the loss does not lead",
         Verdict::fail,
         "NAN.ORIGIN",
         R"({"step":2})",
         left_out(2, 2, Reach::no, "nan"));
}

}  // namespace fixtures
