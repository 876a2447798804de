// Packed documents: what the checks of attention layers must say of documents that see each other, and of one that is wrong alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/checks/data_of.h"
#include "oracles/attention/documents.h"
#include "oracles/laws/document_laws.h"
#include "oracles/training/document_lengths.h"
#include "tests/checks/planted_case.h"

namespace fixtures {

// What is wrong in the layer, if anything.
struct PackedSpoil {
  std::optional<oracles::Branch> across;    // attends across the border
  std::optional<oracles::Branch> left_out;  // passes no gradient back in documents shorter than l
  // A tensor of one document, just made.
  std::function<void(std::int64_t document, const std::string& name, oracles::Tensor&)> tensor;
  std::function<void(std::int64_t document, oracles::IntTensor&)> blocks;
  std::function<void(LayerTensors&)> record;  // the layer as it is recorded
  oracles::Number number = oracles::Number::f32;
  bool added_narrow = false;  // the gradients of what consumes queries and input, of every document
};

class PackedLayerMaker {
 public:
  PackedLayerMaker(const oracles::DocumentLengths& lengths, const PackedSpoil& spoil)
      : places_(oracles::document_places(lengths)), spoil_(spoil) {}

  LayerTensors make(int rank, int layer) {
    for (const oracles::DocumentPlace& at : places_) made_.push_back(document(at, rank, layer));
    LayerTensors all;
    all.number = spoil_.number;
    for (const auto& [name, tensor] : made_.front().reals) all.reals[name] = joined(name);
    all.blocks = {{1, toy_model().n_kv_groups, length(), toy_model().n_sel}, {}};
    all.blocks.data.resize(static_cast<std::size_t>(oracles::element_count(all.blocks.shape)));
    for (std::size_t i = 0; i < made_.size(); ++i) {
      oracles::put_tokens(made_[i].blocks, places_[i], all.blocks);
    }
    if (spoil_.record) spoil_.record(all);
    return all;
  }

 private:
  [[nodiscard]] std::int64_t length() const { return places_.back().begin + places_.back().length; }

  LayerTensors document(const oracles::DocumentPlace& at, int rank, int layer) {
    LayerSetting setting;
    setting.length = at.length;
    setting.number = spoil_.number;
    setting.added_narrow = spoil_.added_narrow;
    if (at.length < setting.model.l) setting.left_out = spoil_.left_out;
    setting.inputs = [&](oracles::Tensor& x, oracles::Tensor& dy) {
      const auto seed = static_cast<unsigned>(100 * rank + at.begin + 1);
      x = random_tensor(x.shape, 1.0, seed);
      dy = random_tensor(dy.shape, 0.01, seed + 1000);
    };
    setting.spoil = [&](const std::string& name, oracles::Tensor& tensor) {
      if (spoil_.tensor) spoil_.tensor(at.number, name, tensor);
    };
    setting.spoil_blocks = [&](oracles::IntTensor& blocks) {
      if (spoil_.blocks) spoil_.blocks(at.number, blocks);
    };
    if (spoil_.across) {
      setting.instead = [&](const oracles::Stages& stages, oracles::Stage stage) {
        return across(stages, stage, at);
      };
    }
    return made_layer(setting, rank, layer);
  }

  std::optional<oracles::Tensor> across(const oracles::Stages& stages,
                                        oracles::Stage stage,
                                        const oracles::DocumentPlace& at) const {
    if (stage != oracles::output_stage(*spoil_.across)) return std::nullopt;
    const oracles::Stage keys = oracles::key_stage(*spoil_.across);
    const oracles::Stage values = oracles::value_stage(*spoil_.across);
    const oracles::Tensor all_keys = with_those_before(keys, stages.input(keys));
    const oracles::Tensor all_values = with_those_before(values, stages.input(values));
    return oracles::output_across_documents(*spoil_.across,
                                            {stages.config(),
                                             at,
                                             stages.input(oracles::Stage::q),
                                             all_keys,
                                             all_values,
                                             all_keys.shape[2] - stages.input(keys).shape[2],
                                             stages.attended()});
  }

  [[nodiscard]] oracles::Tensor with_those_before(oracles::Stage stage,
                                                  const oracles::Tensor& own) const {
    std::vector<const oracles::Tensor*> parts;
    for (const LayerTensors& before : made_) {
      parts.push_back(&before.reals.at(std::string(oracles::stage_name(stage))));
    }
    parts.push_back(&own);
    return side_by_side(parts);
  }

  // Along the tokens of [1,X,.,W].
  static oracles::Tensor side_by_side(const std::vector<const oracles::Tensor*>& parts) {
    std::int64_t size = 0;
    for (const oracles::Tensor* part : parts) size += part->shape.at(2);
    const oracles::Shape& shape = parts.front()->shape;
    oracles::Tensor all = oracles::zeros({1, shape.at(1), size, shape.at(3)});
    oracles::DocumentPlace at;
    for (const oracles::Tensor* part : parts) {
      at.length = part->shape[2];
      oracles::put_tokens(*part, at, all);
      at.begin += at.length;
    }
    return all;
  }

  [[nodiscard]] oracles::Tensor joined(const std::string& name) const {
    if (name.rfind("w.", 0) == 0) return made_.front().reals.at(name);
    if (name.rfind("g.w.", 0) == 0) return summed(name);
    std::vector<oracles::Tensor> own;
    std::int64_t columns = 0;
    for (const LayerTensors& document : made_) {
      own.push_back(document.reals.at(name));
      oracles::Shape& shape = own.back().shape;
      if (shape.size() == 3) shape.insert(shape.begin() + 1, 1);  // [1,s,E]
      columns = std::max(columns, shape.back());
    }
    std::vector<const oracles::Tensor*> parts;
    for (oracles::Tensor& tensor : own) {
      if (name == "p_grp") tensor = widened(tensor, columns);
      parts.push_back(&tensor);
    }
    oracles::Tensor all = side_by_side(parts);
    if (made_.front().reals.at(name).shape.size() == 3) all.shape.erase(all.shape.begin() + 1);
    return all;
  }

  [[nodiscard]] oracles::Tensor summed(const std::string& name) const {
    oracles::Tensor sum = oracles::zeros(made_.front().reals.at(name).shape);
    for (const LayerTensors& document : made_) {
      const std::vector<double>& own = document.reals.at(name).data;
      for (std::size_t i = 0; i < own.size(); ++i) sum.data[i] += own[i];
    }
    return rounded(sum, spoil_.number);
  }

  static oracles::Tensor widened(const oracles::Tensor& scores, std::int64_t columns) {
    oracles::Tensor all = oracles::zeros({1, scores.shape[1], scores.shape[2], columns});
    const std::int64_t own = scores.shape[3];
    for (std::int64_t row = 0; row < scores.shape[1] * scores.shape[2]; ++row) {
      std::copy_n(scores.data.begin() + row * own, own, all.data.begin() + row * columns);
    }
    return all;
  }

  std::vector<oracles::DocumentPlace> places_;
  const PackedSpoil& spoil_;
  std::vector<LayerTensors> made_;
};

// Layers of both ranks as packed documents, and one of them spoiled.
inline std::function<void(Healthy&)> packed(const PackedSpoil& spoil = {}, int layer_of_spoil = 1) {
  return [=](Healthy& h) {
    harness::Scenario& scenario = h.evidence.the_case.scenario;
    scenario.training.seq_len = kLength;
    scenario.training.data.packed = 3;
    scenario.seed = 1;
    PackedSpoil none;
    none.number = spoil.number;
    for (int rank = 0; rank < h.evidence.ranks(); ++rank) {
      const auto lengths =
          oracles::document_lengths(harness::checks::data_of(scenario), {1, 0, rank});
      for (int layer = 0; layer < static_cast<int>(toy_model().n_layers); ++layer) {
        PackedLayerMaker maker(lengths, layer == layer_of_spoil ? spoil : none);
        h.write_layer(rank, 1, rank, layer, maker.make(rank, layer));
      }
    }
  };
}

// With seed 1 the documents of rank 0 have 1, 3 and 28 tokens, those of rank 1 3, 26 and 3.
inline void add_documents(std::vector<Planted>& list) {
  const PlantedAdder add{list, "close_to_oracle"};
  add("packed documents", Verdict::pass, "", "{}", packed());
  PackedSpoil spoil;
  spoil.across = oracles::Branch::cmp;
  add("queries see the compressed tokens of the documents before theirs",
      Verdict::fail,
      "CAUSALITY.LEAK",
      R"({"layers":[1],"ranks":[1],"branch":"cmp","op":"attend_cmp","detail":{"documents":[2],
          "law":"compressed_of_other_documents"}})",
      packed(spoil));
  spoil.across = oracles::Branch::sel;
  add("blocks are counted from the beginning of the sequence",
      Verdict::fail,
      "CAUSALITY.LEAK",
      R"({"layers":[1],"ranks":[0,1],"branch":"sel","op":"attend_sel","detail":{"documents":[1,2],
          "law":"blocks_of_sequence"}})",
      packed(spoil));
  spoil.across = oracles::Branch::win;
  add("the window does not stop at the border",
      Verdict::fail,
      "CAUSALITY.LEAK",
      R"({"layers":[1],"branch":"win","op":"attend_win","detail":{"law":"window_of_sequence"}})",
      packed(spoil));
  const auto one = [](std::int64_t document, const std::string& tensor, double by) {
    PackedSpoil of_one;
    of_one.tensor = [=](std::int64_t at, const std::string& name, oracles::Tensor& made) {
      if (at == document && name == tensor) made.data.at(made.data.size() / 2) += by;
    };
    return of_one;
  };
  add("an output that no border explains",
      Verdict::fail,
      "NUMERIC.FORWARD",
      R"({"layers":[1],"branch":"win","op":"attend_win","detail":{"documents":[2]}})",
      packed(one(2, "o_win", 1e-2)));
  add("the gradient of one document's input",
      Verdict::fail,
      "NUMERIC.GRADIENT",
      R"({"layers":[1],"phase":"backward","detail":{"documents":[1]}})",
      packed(one(1, "dx", 1e-2)));
  PackedSpoil forgotten;
  forgotten.tensor = [](std::int64_t at, const std::string& name, oracles::Tensor& made) {
    if (at == 2 && name == "g.w.W_K_sel.weight") std::fill(made.data.begin(), made.data.end(), 0.0);
  };
  add("one document is missing in the gradient of a weight",
      Verdict::fail,
      "NUMERIC.GRADIENT",
      R"({"layers":[1],"branch":"sel","param":"W_K_sel"})",
      packed(forgotten));
  // Of both ranks: documents of 1 and 3 tokens beside longer ones.
  PackedSpoil tail;
  tail.left_out = oracles::Branch::win;
  add("a branch passes no gradient back in short documents",
      Verdict::fail,
      "NUMERIC.GRADIENT",
      R"({"layers":[1],"ranks":[0,1],"branch":"win","op":"attend_win","detail":{
          "law":"short_documents_without_gradient"}})",
      packed(tail));
  // In bfloat16 the yardstick is the oracle in that type, document by document.
  PackedSpoil narrow;
  narrow.number = oracles::Number::bf16;
  add("packed documents in bfloat16", Verdict::pass, "", "{}", packed(narrow));
  narrow.across = oracles::Branch::win;
  add("in bfloat16 the window does not stop at the border",
      Verdict::fail,
      "CAUSALITY.LEAK",
      R"({"layers":[1],"branch":"win","op":"attend_win","detail":{"law":"window_of_sequence"}})",
      packed(narrow));
  PackedSpoil share = forgotten;
  share.number = oracles::Number::bf16;
  share.tensor = [](std::int64_t at, const std::string& name, oracles::Tensor& made) {
    if (at != 2 || name != "g.w.W_K_sel.weight") return;
    for (double& value : made.data) value *= 0.9;
  };
  add("in bfloat16 a tenth of one document is missing in the gradient of a weight",
      Verdict::fail,
      "NUMERIC.GRADIENT",
      R"({"layers":[1],"branch":"sel","param":"W_K_sel"})",
      packed(share));
  PackedSpoil added;
  added.number = oracles::Number::bf16;
  added.added_narrow = true;
  add("in bfloat16 the gradients of the input's consumers are added in that type",
      Verdict::fail,
      "NUMERIC.GRADIENT",
      R"({"layers":[1],"phase":"backward"})",
      packed(added));
  PackedSpoil without;
  without.record = [](LayerTensors& made) { made.reals.erase("k_cmp"); };
  add("a tensor that was not recorded", Verdict::inconclusive, "", "{}", packed(without));
  add("the layers of packed documents were not recorded",
      Verdict::inconclusive,
      "",
      "{}",
      [](Healthy& h) {
        packed()(h);
        remove_if(h.evidence.artefacts,
                  [](const auto& row) { return row.row.name == "attention_layer"; });
      });

  const PlantedAdder of_choice{list, "selection_valid"};
  of_choice("packed documents", Verdict::pass, "", "{}", packed());
  PackedSpoil chosen;
  chosen.blocks = [](std::int64_t document, oracles::IntTensor& blocks) {
    if (document != 1 || blocks.shape[2] < 26) return;
    std::int64_t* const last = blocks.data.data() + blocks.data.size() - toy_model().n_sel;
    for (const std::int64_t block : {1, 2, 3}) {  // a past block that the list has not
      if (std::find(last, last + toy_model().n_sel, block) != last + toy_model().n_sel) continue;
      last[1] = block;
      std::sort(last, last + toy_model().n_sel);
      return;
    }
  };
  of_choice("another block in the last row of a document",
            Verdict::fail,
            "SELECTION.WRONG",
            R"({"layers":[1],"ranks":[1],"op":"select","rows":[28],"detail":{"documents":[1]}})",
            packed(chosen));
  PackedSpoil beyond;
  beyond.record = [](LayerTensors& made) { made.blocks.data.at(1) = 4; };
  of_choice("a block behind the query's own, inside the sequence",
            Verdict::fail,
            "RANGE.INVALID",
            R"({"layers":[1],"op":"select","rows":[0],"detail":{"documents":[0]}})",
            packed(beyond));
}

}  // namespace fixtures
