// Wrong optimiser steps: what step_is_oracle must say of each stage.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "tests/checks/made_steps.h"

namespace fixtures {

inline void add_oracle_steps(std::vector<Planted>& list) {
  const auto add = [&](const std::string& name,
                       Verdict verdict,
                       const std::string& code,
                       const std::string& site,
                       const Training& training) {
    const auto make = [=](Healthy& h) { StepMaker(h, training).write(); };
    list.push_back({"step_is_oracle",
                    name,
                    verdict,
                    code,
                    site,
                    make,
                    2,
                    2,
                    "training",
                    training.of_record});
  };
  const auto fail = [&](const std::string& name,
                        const std::string& code,
                        const std::string& site,
                        const Training& training) {
    add(name, Verdict::fail, code, site, training);
  };
  const auto of = [](const std::function<void(MadeStep&)>& optimizer,
                     nsa::Precision precision = nsa::Precision::fp32) {
    Training training;
    training.precision = precision;
    training.optimizer = optimizer;
    return training;
  };
  const auto overflow = [](MadeStep& s) {
    if (s.step == 1) s.gradient.begin()->second.data[3] = INFINITY;
  };
  add("as the oracle makes them", Verdict::pass, "", "{}", {});
  add("with masters and a loss scale", Verdict::pass, "", "{}", of({}, nsa::Precision::fp16));
  list.push_back({"step_is_oracle",
                  "a batch told by the hash of other tokens",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [](Healthy& h) {
                    StepMaker(h, {}).write();
                    h.evidence.batches.front().row.hash = nsa::hash_hex("other tokens");
                  },
                  2,
                  2});
  Training skips = of({}, nsa::Precision::fp16);
  skips.before = overflow;
  add("a step that overflows is left out", Verdict::pass, "", "{}", skips);
  list.push_back({"step_is_oracle",
                  "nobody recorded a step",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  kLeaveAsItIs,
                  2,
                  2});
  Training late;
  late.before = [](MadeStep& s) {
    std::vector<std::int64_t>& tokens = s.micros[0].tokens.data;
    if (s.rank == 1) std::rotate(tokens.begin(), tokens.begin() + 1, tokens.end());
  };
  fail("tokens one later", "DATA.WRONG", R"({"step":1,"op":"data","ranks":[1]})", late);
  Training zeros;
  zeros.initial = [](oracles::Weights& w) {
    for (double& x : w.at("embed.weight").data) x *= 0.02;
  };
  Training unwritten;
  unwritten.initial = [](oracles::Weights& w) {
    oracles::Tensor& out = w.at("blocks.1.attn.out.weight");
    out = oracles::zeros(out.shape);
  };
  fail("a parameter that nobody initialised",
       "INIT.WRONG",
       R"({"param":"out","layers":[1],"op":"initial_values","detail":{"law":"init_zero"}})",
       unwritten);
  fail("a small embedding", "INIT.WRONG", R"({"param":"embed","op":"initial_values"})", zeros);
  fail("a loss without its last token",
       "LOSS.WRONG",
       R"({"op":"loss","step":1})",
       of([](MadeStep& s) { s.micros[0].loss *= (kLength - 1.0) / kLength; }));
  fail(
      "a backward from twice the loss", "LOSS.WRONG", R"({"op":"accumulate"})", of([](MadeStep& s) {
        s.micros[0].root *= 2;
        for (double& x : s.micros[0].dlogits.data) x *= 2;
      }));
  fail("betas exchanged",
       "OPT.UPDATE_WRONG",
       R"({"op":"optimizer","step":1,"detail":{"law":"betas_swapped"}})",
       of([](MadeStep& s) { std::swap(s.train.beta1, s.train.beta2); }));
  fail("a decay that nobody asked for",
       "OPT.UPDATE_WRONG",
       R"({"op":"optimizer","detail":{"law":"decay_twice"}})",
       of([](MadeStep& s) { s.train.weight_decay *= 2; }));
  fail("not clipped", "CLIP.WRONG", R"({"op":"clip"})", of([](MadeStep& s) { s.factor = 1; }));
  // The update is made with the right one.
  Training norm = of([](MadeStep& s) { s.norm *= s.norm; });
  norm.of_record = true;
  fail("a norm that is squared",
       "CLIP.WRONG",
       R"({"op":"norm","detail":{"law":"norm_squared"}})",
       norm);
  norm.optimizer = [](MadeStep& s) { s.norm *= s.rank == 0 ? 1.25 : 1.5; };
  fail("a norm of each rank's own",
       "CLIP.WRONG",
       R"({"op":"norm","ranks":[0,1],"detail":{"differs_by_rank":true}})",
       norm);
  fail("squares that are added up over the ranks",
       "CLIP.WRONG",
       R"({"op":"norm","detail":{"law":"norm_reduced_twice"}})",
       of([](MadeStep& s) {
         s.norm *= std::sqrt(2.0);
         s.factor = oracles::clip_factor(s.norm, s.train.max_norm);
       }));
  fail("a coefficient that is applied to nothing",
       "CLIP.WRONG",
       R"({"op":"clip","detail":{"law":"clip_missing"}})",
       of([](MadeStep& s) { s.factor = 1; }));
  fail("a parameter that the optimiser does not know",
       "OPT.UPDATE_LOST",
       R"({"op":"optimizer","step":1,"layers":[1],"param":"W_Q","detail":{"law":"step_skipped"}})",
       of([](MadeStep& s) { s.passed_over = "blocks.1.attn.W_Q.weight"; }));
  fail("another rate", "SCHEDULE.LR", R"({"op":"schedule","step":2})", of([](MadeStep& s) {
         if (s.step == 2) s.rate = s.train.lr;
       }));
  Training told = of([](MadeStep& s) {
    if (s.step == 2) s.rate *= 0.37;
  });
  told.tells_rate = true;
  fail("a wrong rate that is told and used", "SCHEDULE.LR", R"({"op":"schedule","step":2})", told);
  // Whatever is told: no rate makes these numbers.
  Training other = of([](MadeStep& s) {
    s.rate *= 0.37;
    s.train.weight_decay *= 10;
  });
  other.tells_rate = true;
  fail("a wrong rate that is told, and another decay",
       "OPT.UPDATE_WRONG",
       R"({"op":"optimizer"})",
       other);
  fail("not unscaled",
       "SCALER.WRONG",
       R"({"op":"unscale"})",
       of([](MadeStep& s) { s.factor *= s.scale; }, nsa::Precision::fp16));
  fail("unscaled twice, where clipping by the norm of scaled gradients looks the same",
       "SCALER.WRONG",
       R"({"op":"unscale","detail":{"laws":["gradient_unscaled_twice","clip_of_scaled_norm"]}})",
       of([](MadeStep& s) { s.factor /= s.scale; }, nsa::Precision::fp16));
  Training taken = of([](MadeStep& s) { s.taken = true; }, nsa::Precision::fp16);
  taken.before = overflow;
  fail("an overflowed step that is taken", "SCALER.WRONG", R"({"op":"scaler","step":1})", taken);
  Training doubled = of({}, nsa::Precision::fp16);
  doubled.scale_doubles = true;
  fail("a loss scale that doubles", "SCALER.WRONG", R"({"op":"scale","step":2})", doubled);
  Training activation;
  activation.wrong_mlp = 1;
  fail("another activation in one layer",
       "NUMERIC.FORWARD",
       R"({"op":"mlp","layers":[1],"phase":"forward","detail":{"law":"mlp_other_activation"}})",
       activation);
  // One stage of one layer, and nothing else.
  const auto stage = [&](const std::string& name,
                         int layer,
                         const std::string& tensor,
                         const std::string& code,
                         const std::string& site,
                         const std::function<void(oracles::Tensor&)>& change,
                         nsa::Precision precision = nsa::Precision::fp32) {
    Training wrong;
    wrong.precision = precision;
    wrong.stage = [=](int at, const std::string& what, oracles::Tensor& made) {
      if (at == layer && what == tensor) change(made);
    };
    fail(name, code, site, wrong);
  };
  const auto by_a_percent = [](oracles::Tensor& tensor) {
    for (double& x : tensor.data) x *= 1.01;
  };
  const auto last_number = [](oracles::Tensor& tensor) { tensor.data.back() *= 1.1; };
  const std::string of_forward = "NUMERIC.FORWARD";
  const std::string of_gradient = "NUMERIC.GRADIENT";
  const auto site = [](const std::string& op, const std::string& layers, const std::string& phase) {
    return R"({"op":")" + op + R"(","layers":)" + layers + R"(,"phase":")" + phase + R"("})";
  };
  const auto of_param = [](const std::string& param, const std::string& op) {
    return R"({"param":")" + param + R"(","op":")" + op + R"(","phase":"backward","step":1})";
  };
  stage("an embedding of another size", 0, "x", of_forward, R"({"op":"embed"})", by_a_percent);
  stage("the last number of a norm",
        1,
        "norm1",
        of_forward,
        site("norm1", "[1]", "forward"),
        last_number);
  stage(
      "a norm2 times 1.01", 1, "normed", of_forward, site("norm2", "[1]", "forward"), by_a_percent);
  stage("fc1 times 1.01", 1, "hidden", of_forward, site("mlp", "[1]", "forward"), by_a_percent);
  stage("fc2 times 1.01", 0, "mlp", of_forward, site("mlp", "[0]", "forward"), by_a_percent);
  stage("a stream times 1.01",
        1,
        "middle",
        of_forward,
        site("residual", "[1]", "forward"),
        by_a_percent);
  Training lies;
  lies.of_record = true;
  lies.record = [=](int layer, const std::string& tensor, oracles::Tensor& kept) {
    if (layer == 1 && tensor == "middle") by_a_percent(kept);
  };
  fail("a stream that is recorded wrong, and right where norm2 reads it",
       of_forward,
       R"({"op":"residual","layers":[1],"detail":{"tensor":"middle","reader":"norm2"}})",
       lies);
  stage("a norm_f times 1.01", -1, "normed", of_forward, R"({"op":"norm_f"})", by_a_percent);
  stage("logits times 1.01", -1, "logits", of_forward, R"({"op":"lm_head"})", by_a_percent);
  stage("a gradient of fc2's input times 1.01",
        1,
        "d.activated",
        of_gradient,
        site("mlp", "[1]", "backward"),
        by_a_percent);
  stage("the last gradient of silu",
        1,
        "d.hidden",
        of_gradient,
        site("mlp", "[1]", "backward"),
        last_number);
  stage("a gradient of fc1's input times 1.01",
        0,
        "d.normed",
        of_gradient,
        site("mlp", "[0]", "backward"),
        by_a_percent);
  stage("a gradient of norm_f's input times 1.01",
        -1,
        "d.x",
        of_gradient,
        R"({"op":"norm_f","phase":"backward"})",
        by_a_percent);
  for (const auto& [param, op] : {std::pair{"blocks.1.mlp.fc1.weight", "mlp"},
                                  {"blocks.1.mlp.fc2.weight", "mlp"},
                                  {"blocks.1.norm1.weight", "norm1"},
                                  {"blocks.0.norm2.weight", "norm2"},
                                  {"norm_f.weight", "norm_f"},
                                  {"lm_head.weight", "lm_head"},
                                  {"embed.weight", "embed"}}) {
    for (const auto& [precision, type] :
         {std::pair{nsa::Precision::fp32, "fp32"}, {nsa::Precision::fp16, "fp16"}}) {
      stage(std::string("a gradient of ") + param + " times 1.01 in " + type,
            -1,
            std::string("g.") + param,
            of_gradient,
            of_param(harness::checks::short_name(param), op),
            by_a_percent,
            precision);
    }
  }
  stage("a gradient of fc2's input times 1.01 in fp16",
        1,
        "d.activated",
        of_gradient,
        site("mlp", "[1]", "backward"),
        by_a_percent,
        nsa::Precision::fp16);
  stage("a gradient of norm_f's input times 1.01 in fp16",
        -1,
        "d.x",
        of_gradient,
        R"({"op":"norm_f","phase":"backward"})",
        by_a_percent,
        nsa::Precision::fp16);
  Training infinite = of({}, nsa::Precision::fp16);
  infinite.stage = [](int layer, const std::string& tensor, oracles::Tensor& made) {
    if (layer == -1 && tensor == "g.lm_head.weight") made.data[0] = INFINITY;
  };
  add("a gradient of a weight that is not finite", Verdict::inconclusive, "", "{}", infinite);
  Training kept;
  kept.keeps_gradients = true;
  fail("gradients of weights that still hold those of the step before",
       of_gradient,
       R"({"op":"zero_grad","phase":"backward","step":2,"detail":{"law":"gradients_kept"}})",
       kept);
  Training counted = of({}, nsa::Precision::fp16);
  counted.zero_moments = true;
  counted.before = [](MadeStep& s) {
    if (s.step == 1) s.gradient.at("norm_f.weight").data[0] = INFINITY;
  };
  add("a first step that is left out, with moments of zeros after it",
      Verdict::pass,
      "",
      "{}",
      counted);
  // The bounds within which a kept gradient is looked for are wider: they alone would hold this one.
  Training little = of({}, nsa::Precision::fp16);
  little.stage = [](int layer, const std::string& tensor, oracles::Tensor& made) {
    if (layer != -1 || tensor != "g.lm_head.weight") return;
    for (double& x : made.data) x *= 1.004;
  };
  little.before = [](MadeStep& s) {
    if (s.step == 1) s.gradient.at("norm_f.weight").data[0] = INFINITY;
  };
  fail("a gradient a little off after a step that left nothing",
       "NUMERIC.GRADIENT",
       R"({"op":"lm_head","phase":"backward","detail":{"steps":[1,2]}})",
       little);
  Training backward;
  backward.stage = [](int layer, const std::string& tensor, oracles::Tensor& made) {
    if (layer == 1 && tensor == "d.middle") made = oracles::zeros(made.shape);
  };
  fail("a half of a block that passes on no gradient",
       "NUMERIC.GRADIENT",
       R"({"layers":[1],"phase":"backward","step":1})",
       backward);
  Training cut = of({}, nsa::Precision::fp16);
  cut.cut_weights = true;
  fail("masters that are cut off", "OPT.UPDATE_WRONG", R"({"op":"masters","step":1})", cut);
  Training rotated;
  rotated.last_block_first = true;
  fail("blocks in another order",
       "NUMERIC.FORWARD",
       R"({"op":"blocks","phase":"forward","step":1,"detail":{"law":"blocks_in_other_order"}})",
       rotated);
  Training moved;
  moved.between = [](MadeStep&, oracles::Weights& w) { w.at("norm_f.weight").data[2] += 1e-3; };
  fail("a parameter that moves between two steps",
       "OPT.UPDATE_WRONG",
       R"({"op":"between_steps","step":2,"param":"norm_f"})",
       moved);
  Training two = of({});
  two.accumulate = 2;
  add("two micro-batches", Verdict::pass, "", "{}", two);
  Training tied;
  tied.tied = true;
  add("a tied head", Verdict::pass, "", "{}", tied);
  tied.stage = [](int layer, const std::string& tensor, oracles::Tensor& x) {
    if (layer != -1 || tensor != "g.embed.weight") return;
    for (double& value : x.data) value *= 2;
  };
  fail("a tied head whose gradient is counted twice",
       "NUMERIC.GRADIENT",
       R"({"op":"embed","step":1,"detail":{"law":"embed_gradient_factor"}})",
       tied);
  Training dropout;
  dropout.dropout = 0.25;
  add("residual dropout", Verdict::pass, "", "{}", dropout);
  dropout.stage = [](int layer, const std::string& tensor, oracles::Tensor& x) {
    if (layer != 1 || tensor != "attended_dropped") return;
    for (double& value : x.data) value *= 0.75;
  };
  fail("what dropout keeps is not scaled",
       "NUMERIC.FORWARD",
       R"({"op":"dropout","layers":[1],"step":1,"detail":{"law":"dropout_not_scaled"}})",
       dropout);
  dropout.stage = [](int layer, const std::string& tensor, oracles::Tensor& x) {
    if (layer != 0 || tensor != "d.mlp_dropped") return;
    for (double& value : x.data) value = 0;
  };
  fail("the mlp's gradient is dropped altogether",
       "NUMERIC.GRADIENT",
       R"({"op":"dropout","layers":[0],"step":1,"detail":{"law":"dropout_zero"}})",
       dropout);
  Training ragged = two;
  ragged.ragged = true;
  add("two micro-batches with a ragged mask", Verdict::pass, "", "{}", ragged);
  for (const char* law : {"mean_of_micro_means", "mean_of_rank_means", "mean_of_means"}) {
    ragged.share = law;
    fail(std::string("by token numbers, ") + law,
         "GRAD.SCALE",
         std::string(R"({"op":"accumulate","step":1,"detail":{"law":")") + law + "\"}}",
         ragged);
  }
  ragged.share = "loss_not_divided";
  fail("a ragged loss that is not divided",
       "LOSS.WRONG",
       R"({"op":"accumulate","step":1,"detail":{"law":"loss_not_divided"}})",
       ragged);
  two.before = [](MadeStep& s) {
    for (auto& [name, gradient] : s.gradient) {
      for (double& x : gradient.data) x *= 2;
    }
  };
  Training last = two;
  last.before = {};
  last.last_micro_alone = true;
  fail("what was accumulated is lost",
       "NUMERIC.GRADIENT",
       R"({"op":"accumulate","step":1,"detail":{"law":"micro_alone_divided"}})",
       last);
  fail("micro-batches added up", "NUMERIC.GRADIENT", R"({"op":"grad_sync","step":1})", two);
  two.before = [held = std::make_shared<std::map<int, oracles::Weights>>()](MadeStep& s) {
    if (s.step > 1) {
      for (auto& [name, gradient] : s.gradient) {
        const std::vector<double>& before = held->at(s.rank).at(name).data;
        for (std::size_t i = 0; i < before.size(); ++i) gradient.data[i] += before[i];
      }
    }
    (*held)[s.rank] = s.gradient;
  };
  fail("gradients that are not set to zero",
       "NUMERIC.GRADIENT",
       R"({"op":"grad_sync","step":2,"detail":{"law":"previous_added"}})",
       two);
  for (const auto& [metric, code, op, precision] :
       {std::tuple{"loss", "LOSS.WRONG", "told_loss", nsa::Precision::fp32},
        {"source_floor", "LOSS.WRONG", "told_floor", nsa::Precision::fp32},
        {"floor_tokens", "LOSS.WRONG", "told_floor", nsa::Precision::fp32},
        {"loss_scale", "SCALER.WRONG", "told_scale", nsa::Precision::fp16}}) {
    Training reported = of({}, precision);
    reported.accumulate = 2;
    reported.of_record = true;
    reported.reported = {{metric, 1.01}};
    fail(std::string("another ") + metric + " is reported",
         code,
         std::string(R"({"op":")") + op + R"(","step":1})",
         reported);
  }
  Training nearly = of({}, nsa::Precision::fp32);
  nearly.reported = {{"source_floor", 1 + 1e-7}};
  fail("a floor of a few tokens less is reported",
       "LOSS.WRONG",
       R"({"op":"told_floor","step":1})",
       nearly);
  Training lost;
  lost.of_record = lost.tells_all_lost = true;
  fail("updates that moved are told as lost",
       "OPT.UPDATE_WRONG",
       R"({"op":"told_updates","step":1,"phase":"optimizer"})",
       lost);
  Training unsaid = of({}, nsa::Precision::fp16);
  unsaid.before = overflow;
  unsaid.reported = {{"skipped_steps", 0}};
  fail("a skipped step is not told", "SCALER.WRONG", R"({"op":"told_skips","step":1})", unsaid);
  Training forgotten = of({}, nsa::Precision::fp16);
  forgotten.forgets_row = true;
  fail("taken steps are not counted", "SCALER.WRONG", R"({"op":"told_row","step":1})", forgotten);
  Training between;
  between.after = [](MadeStep& s, oracles::Weights& w) {
    if (s.step == 1) w.at("norm_f.weight").data[2] += 1e-3;
  };
  fail("one number that is not AdamW's",
       "OPT.UPDATE_WRONG",
       R"({"op":"optimizer","step":1,"param":"norm_f"})",
       between);
}

}  // namespace fixtures
