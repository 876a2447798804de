// Defects of what is computed again in the backward, and of what the backward needs.
#pragma once

#include "tests/checks/planted_case.h"

namespace fixtures {

// These layers are checkpointed, and computed again as they were computed forward.
inline void checkpoint(Healthy& h, const std::vector<int>& layers) {
  harness::Scenario& scenario = h.evidence.the_case.scenario;
  scenario.parallel.checkpoint_layers = layers;
  for (int rank = 0; rank < h.evidence.ranks(); ++rank) {
    for (std::int64_t step = 1; step <= scenario.training.steps; ++step) {
      for (const int layer : layers) {
        harness::Recompute row;
        row.step = step;
        row.layer = layer;
        row.mode = "functional";
        row.dtype_forward = row.dtype_recompute = "Float";
        row.blocks_forward = row.blocks_recompute = "blocks " + std::to_string(layer);
        row.rows = 64;
        put(h.evidence.recomputes, rank, row);
      }
    }
  }
}

inline void each_recompute(Healthy& h,
                           const std::vector<int>& layers,
                           const std::function<void(harness::Recompute&)>& change) {
  for (auto& row : h.evidence.recomputes) {
    if (std::find(layers.begin(), layers.end(), row.row.layer) != layers.end()) change(row.row);
  }
}

// From `layer` down the local gradients of rank 1 are others than the twin's.
inline void gradients_differ(Healthy& h, int layer, float by) {
  Tensors tensors = h.locals(1);
  for (auto& [name, values] : tensors) {
    const int of = harness::checks::layer_of(name);
    if (name == "embed.weight" || (of >= 0 && of <= layer)) values[3] += by * values[3];
  }
  h.write_gradients(1, "local_gradients", 1, 1, tensors);
}

inline void add_overwritten(std::vector<Planted>& list) {
  const auto add = [&](const std::string& name,
                       const std::string& site,
                       const std::function<void(Healthy&)>& spoil) {
    list.push_back(
        {"checkpoint_equal", name, Verdict::fail, "INPLACE.MODIFIED", site, spoil, 2, 2});
  };
  const auto write = [](Healthy& h) {
    harness::InPlace row;
    row.step = 2;
    row.layer = 1;
    row.seam = "attend_sel";
    row.tensor = "o";
    row.version_made = 1;
    row.version_found = 2;
    row.elements = 40;
    put(h.evidence.in_place, 0, row);
  };
  const auto raise = [](Healthy& h) {
    harness::WorkerError error;
    error.type = "c10::Error";
    error.what =
        "one of the variables needed for gradient computation has been modified by an inplace "
        "operation: [torch.FloatTensor [4]]";
    error.step = 2;
    put(h.evidence.errors, 0, error);
  };
  add("a workspace written again",
      R"({"layers":[1],"ranks":[0],"step":2,"detail":{"tensor":"o of attend_sel","elements":40}})",
      write);
  add("autograd refuses", R"({"ranks":[0],"step":2})", raise);
  add("autograd refuses and the layer is known",
      R"({"layers":[1],"ranks":[0],"step":2})",
      [=](Healthy& h) {
        write(h);
        raise(h);
      });
  // Where no check of checkpointing runs, the end of the process tells it.
  const auto ends = [&](const std::string& name, const std::string& code, bool has_check) {
    const auto spoil = [=](Healthy& h) {
      if (!has_check) std::erase(h.evidence.the_case.scenario.checks, "checkpoint_equal");
      write(h);
      raise(h);
      h.not_done(0);
    };
    const char* const site = R"({"ranks":[0],"step":2})";
    list.push_back({"process_clean", name, Verdict::fail, code, site, spoil, 2, 2});
  };
  ends("autograd refuses a tensor that was written over", "INPLACE.MODIFIED", false);
  ends("what another check tells is told once", "CRASH.EXCEPTION", true);
  add("what follows in the gradients is no checkpoint's fault",
      R"({"layers":[0],"step":1})",
      [=](Healthy& h) {
        checkpoint(h, {0, 1});
        write(h);
        h.evidence.in_place.back().row.step = 1;
        h.evidence.in_place.back().row.layer = 0;
        gradients_differ(h, 1, 0.5F);
      });
}

inline void add_checkpoints(std::vector<Planted>& list) {
  const PlantedAdder add{list, "checkpoint_equal"};
  const auto other_dtype = [](harness::Recompute& row) {
    row.dtype_forward = "BFloat16";
    row.blocks_recompute = "others";
    row.output_equal = false;
  };
  const auto other_blocks = [](harness::Recompute& row) {
    row.blocks_recompute = "others";
    row.rows_differing = 4;
    row.queries = {17, 30};
    row.output_equal = false;
  };
  const auto other_output = [](harness::Recompute& row) { row.output_equal = false; };
  add("nothing is checkpointed", Verdict::pass, "", "{}", kLeaveAsItIs);
  add("healthy", Verdict::pass, "", "{}", [](Healthy& h) { checkpoint(h, {0, 1, 2}); });
  add("another dtype in one layer",
      Verdict::fail,
      "CKPT.DTYPE",
      R"({"layers":[1],"step":1,"ranks":[0,1],"op":"checkpoint"})",
      [=](Healthy& h) {
        checkpoint(h, {0, 1, 2});
        each_recompute(h, {1}, other_dtype);
        gradients_differ(h, 1, 0.5F);
      });
  add("another dtype in two layers",
      Verdict::fail,
      "CKPT.DTYPE",
      R"({"layers":[0,2]})",
      [=](Healthy& h) {
        checkpoint(h, {0, 1, 2});
        each_recompute(h, {0, 2}, other_dtype);
      });
  add("other blocks",
      Verdict::fail,
      "CKPT.SELECTION_FLIP",
      R"({"layers":[2],"rows":[17,30],"op":"select","detail":{"share":0.0625}})",
      [=](Healthy& h) {
        checkpoint(h, {1, 2});
        each_recompute(h, {2}, other_blocks);
        gradients_differ(h, 2, 0.5F);
      });
  add("other numbers in two layers",
      Verdict::fail,
      "CKPT.GRADIENT",
      R"({"layers":[1],"step":1,"detail":{"layers":[0,1]}})",
      [=](Healthy& h) {
        checkpoint(h, {0, 1, 2});
        each_recompute(h, {0, 1}, other_output);
        gradients_differ(h, 1, 0.5F);
      });
  add("computed again by another block, unseen",
      Verdict::fail,
      "CKPT.GRADIENT",
      R"({"layers":[1],"detail":{"layers":[1]}})",
      [=](Healthy& h) {
        checkpoint(h, {0, 1, 2});
        each_recompute(h, {1}, [](harness::Recompute& row) {
          row.dtype_recompute.clear();
          row.blocks_recompute.clear();
          row.output_equal = false;
        });
        each_recompute(h, {2}, [](harness::Recompute& row) {
          row.blocks_recompute = "of another layer";
          row.rows_differing = 60;
        });
        gradients_differ(h, 1, 0.5F);
      });
  add("other gradients alone",
      Verdict::fail,
      "CKPT.GRADIENT",
      R"({"layers":[1],"ranks":[1],"detail":{"layers":[1],"gradients_differ_in":[0,1]}})",
      [](Healthy& h) {
        checkpoint(h, {0, 1, 2});
        gradients_differ(h, 1, 0.5F);
      });
  add("gradients of two parameters exchanged",
      Verdict::fail,
      "CKPT.GRADIENT",
      R"({"layers":[1],"ranks":[1]})",
      [](Healthy& h) {
        checkpoint(h, {0, 1, 2});
        Tensors tensors = h.locals(1);
        std::swap(tensors.at("blocks.1.attn.W_K_sel.weight"),
                  tensors.at("blocks.1.attn.W_K_win.weight"));
        h.write_gradients(1, "local_gradients", 1, 1, tensors);
      });
  add("gradients that are wrong above", Verdict::pass, "", "{}", [](Healthy& h) {
    checkpoint(h, {0});
    gradients_differ(h, 1, 0.5F);
  });
  add("gradients rounded otherwise", Verdict::pass, "", "{}", [](Healthy& h) {
    checkpoint(h, {0, 1, 2});
    gradients_differ(h, 2, 1e-6F);
  });
  add("a layer that was not computed again", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    checkpoint(h, {0, 1, 2});
    remove_if(h.evidence.recomputes,
              [](const auto& row) { return row.process == 1 && row.row.layer == 2; });
  });
  add("one micro-batch of two", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    checkpoint(h, {0});
    h.evidence.the_case.scenario.training.accumulate = 2;
  });
  add("no twin", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    checkpoint(h, {0, 1, 2});
    h.without_twin();
  });
  add("no files where gradients differ", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    checkpoint(h, {0, 1, 2});
    gradients_differ(h, 1, 0.5F);
    remove_if(h.evidence.artefacts,
              [](const auto& row) { return row.row.name == "local_gradients"; });
  });
  add_overwritten(list);
}

}  // namespace fixtures
