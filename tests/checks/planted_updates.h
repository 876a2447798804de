// Defects that several steps show: gates that do not live, an optimiser that loses updates.
#pragma once

#include "tests/checks/planted_layers.h"

namespace fixtures {

inline void add_gates(std::vector<Planted>& list) {
  const std::string check = "gate_alive";
  const auto add = [&](const std::string& name,
                       Verdict verdict,
                       const std::string& code,
                       const std::string& site,
                       const std::function<void(Healthy&)>& spoil,
                       int steps = 3) {
    list.push_back({check, name, verdict, code, site, spoil, 2, steps});
  };
  const auto each = [](int layer, const std::function<void(harness::GateUse&)>& change) {
    return [=](Healthy& h) {
      for (auto& row : h.evidence.gates) {
        if (row.row.layer == layer) change(row.row);
      }
    };
  };
  add("healthy", Verdict::pass, "", "{}", kLeaveAsItIs);
  add("rows all alike",
      Verdict::fail,
      "GATE.DEAD",
      R"({"layers":[1],"op":"gate"})",
      each(1, [](harness::GateUse& use) { use.spread = 1e-8; }));
  add("never moves",
      Verdict::fail,
      "GATE.DEAD",
      R"({"layers":[2],"op":"gate","ranks":[0,1]})",
      each(2, [](harness::GateUse& use) { use.hash = "same"; }));
  add("one branch has all",
      Verdict::fail,
      "GATE.COLLAPSED",
      R"({"layers":[0],"branch":"win","step":1})",
      each(0, [](harness::GateUse& use) {
        use.mean_win = 0.998;
        use.mean_cmp = use.mean_sel = 0.001;
        use.spread = 1e-3;
      }));
  add("one branch has all from the second step on",
      Verdict::fail,
      "GATE.COLLAPSED",
      R"({"layers":[0,1,2],"branch":"cmp","step":2})",
      [](Healthy& h) {
        for (auto& row : h.evidence.gates) {
          if (row.row.step < 2) continue;
          row.row.mean_cmp = 0.999;
          row.row.mean_sel = row.row.mean_win = 0.0005;
          row.row.spread = 1e-3;
        }
      });
  add("most rows have one branch, some another",
      Verdict::pass,
      "",
      "{}",
      each(0, [](harness::GateUse& use) {
        use.mean_win = 0.995;
        use.mean_cmp = use.mean_sel = 0.0025;
        use.spread = 0.9;
      }));
  add("a NaN", Verdict::fail, "GATE.DEAD", R"({"layers":[1]})", each(1, [](harness::GateUse& use) {
        use.spread = 0.0;
      }));
  add("one step that moves the gates", Verdict::pass, "", "{}", kLeaveAsItIs, 1);
  add(
      "one step that wants nothing of a gate",
      Verdict::fail,
      "GATE.DEAD",
      R"({"layers":[1],"op":"gate","step":1})",
      [](Healthy& h) {
        for (auto& row : h.evidence.updates) {
          if (row.row.param.rfind("blocks.1.attn.gate.", 0) == 0) row.row.wanted = 0;
        }
      },
      1);
  add(
      "one step without a ledger of updates",
      Verdict::inconclusive,
      "",
      "{}",
      [](Healthy& h) { h.evidence.updates.clear(); },
      1);
  add("no rows", Verdict::inconclusive, "", "{}", [](Healthy& h) { h.evidence.gates.clear(); });
}

inline void add_optimizer(std::vector<Planted>& list) {
  const PlantedAdder add{list, "optimizer_sound", 2, 3};
  const auto rate = [](int step, double factor) {
    return [=](Healthy& h) {
      for (auto& row : h.evidence.samples) {
        if (row.row.metric == "lr" && row.row.step >= step) {
          row.row.value = row.row.value * factor;
        }
      }
    };
  };
  add("healthy", Verdict::pass, "", "{}", kLeaveAsItIs);
  add("a learning rate of zero",
      Verdict::fail,
      "SCHEDULE.LR",
      R"({"step":2,"op":"optimizer","detail":{"steps":[2,3]}})",
      rate(2, 0.0));
  add("a learning rate that is a little off",
      Verdict::fail,
      "SCHEDULE.LR",
      R"({"step":3})",
      rate(3, 1.0001));
  add("a learning rate that differs in its eleventh digit",
      Verdict::fail,
      "SCHEDULE.LR",
      R"({"step":3})",
      rate(3, 1.0 + 1e-11));
  add("a learning rate that is none", Verdict::fail, "SCHEDULE.LR", R"({"step":1})", rate(1, NAN));
  add("a skipped step",
      Verdict::fail,
      "OPT.SKIPPED",
      R"({"step":3,"detail":{"steps":[3]}})",
      [](Healthy& h) {
        for (auto& row : h.evidence.updates) row.row.skipped = row.row.step == 3;
      });
  add("updates below the last place",
      Verdict::fail,
      "OPT.UPDATE_LOST",
      R"({"step":1,"op":"optimizer","detail":{"share_of_params":1.0,"share_of_elements":0.75,"dtype":"BF16"}})",
      [](Healthy& h) {
        for (auto& row : h.evidence.updates) {
          row.row.lost = 18;
          row.row.dtype = "BF16";
        }
      });
  add("updates of one parameter",
      Verdict::fail,
      "OPT.UPDATE_LOST",
      R"({"step":2,"param":"W_Q","layers":[1]})",
      [](Healthy& h) {
        for (auto& row : h.evidence.updates) {
          if (row.row.step == 2 && row.row.param == "blocks.1.attn.W_Q.weight")
            row.row.lost = row.row.wanted / 4;
        }
      });
  add("one update of a small parameter", Verdict::pass, "", "{}", [](Healthy& h) {
    for (auto& row : h.evidence.updates) {
      if (row.row.step == 2 && row.row.param == "blocks.1.attn.W_Q.weight") row.row.lost = 1;
    }
  });
  add("no ledger", Verdict::inconclusive, "", "{}", [](Healthy& h) { h.evidence.updates.clear(); });
  add("no learning rates", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    remove_if(h.evidence.samples, [](const auto& row) { return row.row.metric == "lr"; });
  });
}

}  // namespace fixtures
