// A record that contradicts itself is believed in nothing, and a healthy one contradicts itself nowhere.
#include "harness/judge/audit/record_audit.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/judge/contradicting_verdicts.h"
#include "tests/judge/audited.h"

namespace {

using fixtures::Audited;
using fixtures::kController;
using fixtures::put;
using harness::Outcome;
using testing::HasSubstr;
using testing::StartsWith;

// A mistake of the recorder: what it wrote down is not what was there.
struct Mistake {
  const char* relation;
  const char* says;  // part of the sentence
  std::function<void(Audited&)> make;
};

template <typename Row>
Row& row_of(harness::Rows<Row>& rows, int process, const std::function<bool(const Row&)>& wanted) {
  for (auto& row : rows) {
    if (row.process == process && wanted(row.row)) return row.row;
  }
  throw std::runtime_error("no such row");
}

harness::Gradient& gradient(Audited& h, int rank, int step, const std::string& param) {
  return row_of<harness::Gradient>(h.evidence.gradients, rank, [&](const auto& row) {
    return row.step == step && row.param == param;
  });
}

template <typename Row>
Row& of_layer(harness::Rows<Row>& rows, int rank, int step, int layer) {
  return row_of<Row>(
      rows, rank, [&](const auto& row) { return row.step == step && row.layer == layer; });
}

harness::Sample& sample(Audited& h, const std::string& metric, int step) {
  return row_of<harness::Sample>(h.evidence.samples, 0, [&](const auto& row) {
    return row.metric == metric && row.step == step;
  });
}

harness::Artefact& layer_file(Audited& h, int rank, int step, int layer) {
  return row_of<harness::Artefact>(h.evidence.artefacts, rank, [&](const auto& row) {
    return row.name == "attention_layer" && row.step == step && row.layer == layer;
  });
}

const std::string kQuery = Audited::attention(1, "W_Q.weight");

// A file of rank 0 and step 1.
void write_small(Audited& h,
                 const std::string& name,
                 int layer,
                 const std::map<std::string, std::vector<float>>& tensors) {
  std::vector<nsa::TensorToWrite> list;
  for (const auto& [tensor, values] : tensors) {
    const auto bytes = std::as_bytes(std::span(values));
    list.push_back({tensor, nsa::DType::f32, {std::ssize(values)}, bytes});
  }
  const std::string path = "0_" + name + "_" + std::to_string(layer) + ".small";
  nsa::write_safetensors(h.folder() + "/" + path, list);
  put(h.evidence.artefacts, 0, harness::Artefact{1, 0, name, layer, path, 0, ""});
}

const std::vector<Mistake> kMistakes = {
    {"the place of a file / its row",
     "a row tells of block_stages 1 of rank 1, step 1, and its file is "
     "rank_1/step_1/block_stages_0",
     [](Audited& h) {
       row_of<harness::Artefact>(h.evidence.artefacts, 1, [](const auto& row) {
         return row.name == "block_stages";
       }).layer = 1;
     }},
    {"a file / one row",
     "is attention_layer 0 of rank 0, step 1 and attention_layer 1 of rank 0, step 1",
     [](Audited& h) { layer_file(h, 0, 1, 1).path = layer_file(h, 0, 1, 0).path; }},
    {"a row / the size of the case",
     "a row of kind exposure speaks of layer 3, and the case has layers 0 to 2",
     [](Audited& h) { of_layer(h.evidence.exposures, 1, 1, 2).layer = 3; }},
    {"a row / the size of the case",
     "a row of kind gradient speaks of step 3, and the case has steps 1 to 2",
     [](Audited& h) { gradient(h, 1, 2, kQuery).step = 3; }},
    {"reach / readiness of a gradient",
     "says that the loss does not lead to blocks.1.attn.W_Q.weight, and that it became ready 1",
     [](Audited& h) { gradient(h, 1, 2, kQuery).reachable = harness::Reach::no; }},
    {"state / largest value of a gradient",
     "says that the gradient of blocks.1.attn.W_Q.weight is \"nan\"",
     [](Audited& h) { gradient(h, 1, 2, kQuery).state = "nan"; }},
    {"bucket of a gradient / plan of buckets",
     "the gradient ledger of rank 1, step 2 has blocks.1.attn.W_Q.weight in bucket 7",
     [](Audited& h) { gradient(h, 1, 2, kQuery).bucket = 7; }},
    {"parts / whole of an update",
     "counts 48 lost of 24 wanted updates",
     [](Audited& h) { h.evidence.updates.at(3).row.lost = 48; }},
    {"parts / whole of an exposure",
     "the exposure of layer 2 of rank 1, step 1 counts 65 of 64 rows",
     [](Audited& h) { of_layer(h.evidence.exposures, 1, 1, 2).rows_cut = 65; }},
    {"hashes / differing rows of a recomputation",
     "the same hash, and 3 of 64 rows are counted as different",
     [](Audited& h) {
       h.evidence.recomputes.at(0).row.rows_differing = 3;
       h.evidence.recomputes.at(0).row.queries = {1, 2, 3};
     }},
    {"hashes / differing rows of a recomputation",
     "another hash, and 0 of 64 rows are counted as different",
     [](Audited& h) { h.evidence.recomputes.at(0).row.blocks_recompute = "0123"; }},
    {"end / beginning of a collective",
     "collective 99 of group default ended on rank 1",
     [](Audited& h) {
       put(h.evidence.collectives_done, 1, harness::CollectiveDone{99, "default"});
     }},
    {"counter / rows of collectives",
     "the heartbeat of rank 1 after 800 ms counts 10 collectives that began, and 5 rows",
     [](Audited& h) {
       for (auto& beat : h.evidence.heartbeats) {
         if (beat.process == 1) beat.row.counters.collectives_enqueued *= beat.t_ms == 800 ? 2 : 1;
       }
     }},
    {"counter / rows of collectives",
     "counts 2 collectives that ended",
     [](Audited& h) {
       for (auto& beat : h.evidence.heartbeats) beat.row.counters.collectives_completed /= 2;
     }},
    {"a fact / one row",
     "two rows tell of the gradient of blocks.1.attn.W_Q.weight of rank 1, step 2",
     [](Audited& h) { put(h.evidence.gradients, 1, gradient(h, 1, 2, kQuery)); }},
    {"a fact / one row",
     "two rows tell of the beginning of collective 0 of rank 0",
     [](Audited& h) { h.evidence.collectives.push_back(h.evidence.collectives.front()); }},
    {"order / count of gradients",
     "the gradient ledger of rank 0, step 1 counts that",
     [](Audited& h) {
       for (auto& row : h.evidence.gradients) row.row.ready_count *= row.process == 0 ? 2 : 1;
     }},
    {"a row of a step / its phase",
     "rank 0 tells of an update of step 1, and no row says that it was in phase optimizer",
     [](Audited& h) {
       std::erase_if(h.evidence.phases, [](const auto& from) {
         return from.process == 0 && from.row.step == 1 && from.row.phase == "optimizer";
       });
     }},
    {"numbers of collectives / their count",
     "rank 1 numbers its collectives of group default from 1 to 6, and writes 6 rows of them",
     [](Audited& h) {
       for (auto& row : h.evidence.collectives) row.row.sequence += row.process == 1 ? 1 : 0;
       for (auto& row : h.evidence.collectives_done) {
         row.row.sequence += row.process == 1 ? 1 : 0;
       }
     }},
    {"wrong elements of a known sum / their places",
     "the known sum of bucket 0 of rank 0, step 1 has 24 of 24 elements wrong, and shows 0",
     [](Audited& h) { h.evidence.exact_sums.at(0).row.wrong = 24; }},
    {"size of a known sum / its collective",
     "the known sums of rank 0, step 1 have 96 bytes",
     [](Audited& h) {
       for (auto& row : h.evidence.collectives) row.row.count *= 4;
     }},
    {"size of a known sum / its bucket",
     "the known sum of bucket 0 of rank 0, step 1 has 24 elements, and the plan of that step has "
     "48",
     [](Audited& h) {
       std::erase_if(h.evidence.buckets, [](const auto& row) { return row.process == 0; });
       put(h.evidence.buckets, 0, harness::Bucket{1, 0, 48, "Float", {}});
     }},
    {"step of a snapshot / its path",
     "rank 0 tells of the snapshot of step 2, and its file is rank_0/snapshots/step_1.safetensors",
     [](Audited& h) {
       const std::string path = "rank_0/snapshots/step_1.safetensors";
       put(h.evidence.snapshots, 0, harness::SnapshotUse{2, "saved", path, 9, 0});
     }},
    {"step of a snapshot / its path",
     "rank 0 tells of the snapshot of step 3, and its file is rank_0/snapshots/step_1.safetensors",
     [](Audited& h) {
       const std::string path = "rank_0/snapshots/step_1.safetensors";
       put(h.evidence.snapshots, 0, harness::SnapshotUse{3, "resumed", path, 0, 0}, 150);
     }},
    {"size of a snapshot / its file",
     "rank 0 says that 0_snapshot_1.small has 7 bytes, and the file has",
     [](Audited& h) {
       write_small(h, "snapshot", 1, {{"w", {1, 2, 3, 4}}});
       const std::string path = "0_snapshot_1.small";
       put(h.evidence.snapshots, 0, harness::SnapshotUse{1, "saved", path, 7, 0});
     }},
    {"number of parameters / model",
     "rank 0 tells of 35 parameters, and the model of the case has",
     [](Audited& h) {
       row_of<harness::Fact>(h.evidence.facts, 0, [](const auto& fact) {
         return fact.name == "parameters";
       }).value = "35";
     }},
    {"number of parameters / model",
     "rank 1 tells of 35 tensors of parameters, and the gradient ledger of rank 1, step 1",
     [](Audited& h) {
       row_of<harness::Fact>(h.evidence.facts, 1, [](const auto& fact) {
         return fact.name == "parameter_tensors";
       }).value = "35";
     }},
    {"last heartbeat / all rows",
     "the last heartbeat of rank 0 counts 6 collectives that ended, and its rows tell of 1",
     [](Audited& h) {
       std::erase_if(h.evidence.collectives_done,
                     [](const auto& row) { return row.process == 0 && row.row.sequence > 0; });
     }},
    {"last heartbeat / all rows",
     "the last heartbeat of rank 0 counts 7 bytes of files, and its rows tell of 0",
     [](Audited& h) {
       for (auto& row : h.evidence.heartbeats) {
         if (row.process == 0 && row.row.phase == "done") row.row.counters.bytes_written = 7;
       }
     }},
    {"end of a process / its last row",
     "rank 1 exited with code 0 after its last phase, and no row says that it was done",
     [](Audited& h) { h.not_done(1); }},
    {"tokens per second / time of a step",
     "step 2 of rank 0 took 45 ms by its sample",
     [](Audited& h) {
       h.time_steps();
       sample(h, "step_ms", 2).value = 45.0;
     }},
    {"time of a step / its phases",
     "step 1 of rank 0 took 45 ms by its sample, and its phases began over 60 ms",
     [](Audited& h) {  // all times halved
       h.time_steps();
       for (auto& row : h.evidence.samples) {
         if (row.row.metric == "step_ms") row.row.value = row.row.value / 2.0;
         if (row.row.metric == "tokens_per_s") row.row.value = row.row.value * 2.0;
       }
     }},
    {"time of a step / the rows around it",
     "step 2 of rank 0 took 180 ms by its sample, and 99 ms lie between",
     [](Audited& h) {  // all times doubled
       h.time_steps();
       for (auto& row : h.evidence.samples) {
         if (row.row.metric == "step_ms") row.row.value = row.row.value * 2.0;
         if (row.row.metric == "tokens_per_s") row.row.value = row.row.value / 2.0;
       }
     }},
    {"times of all steps / life of the process",
     "the steps of rank 0 took 9090 ms together by their samples, and it lived 900 ms",
     [](Audited& h) {
       h.time_steps("sweep");
       sample(h, "step_ms", 2).value = 9000.0;
     }},
    {"a row / the end of its process",
     "rank 1 had ended after 900 ms by the controller's clock, and wrote after 9000 ms: phase save",
     [](Audited& h) {
       put(h.evidence.phases, 1, harness::Phase{"save", 2}, 9000);
     }},
    {"hash of a gradient / tensor",
     "the hash of blocks.1.attn.W_Q.weight in the gradient ledger of rank 1, step 2, is not that "
     "of "
     "the tensor in 1_local_gradients_2_1",
     [](Audited& h) {
       gradient(h, 1, 2, kQuery).hash_before =
           gradient(h, 1, 2, Audited::attention(2, "W_Q.weight")).hash_before;
     }},
    {"hash of a gradient / tensor",
     "the gradient ledger of rank 0, step 1, is not that of the tensor in 0_reduced_gradients_1_0",
     [](Audited& h) { gradient(h, 0, 1, kQuery).hash_after = nsa::hash_hex("another tensor"); }},
    {"hash of a gradient / tensor",
     "is not there, and the tensor in 1_local_gradients_1_1",
     [](Audited& h) { gradient(h, 1, 1, kQuery).hash_before.clear(); }},
    {"norms of a gradient / tensor",
     "says that the gradient of blocks.1.attn.W_Q.weight has the norm",
     [](Audited& h) { gradient(h, 1, 2, kQuery).l2 = gradient(h, 1, 2, kQuery).l2 / 2.0; }},
    {"norms of a gradient / tensor",
     "has the largest value",
     [](Audited& h) { gradient(h, 0, 2, kQuery).absmax = gradient(h, 0, 2, kQuery).absmax * 2.0; }},
    {"elements of an update / tensor",
     "the update ledger of rank 0, step 1 says that",
     [](Audited& h) { h.evidence.updates.at(5).row.elements *= 2; }},
    {"hash of a parameter / tensor",
     "the hash of blocks.1.attn.W_Q.weight after rank 0, step 2, is not that of the tensor in "
     "0_optimizer_step_2",
     [](Audited& h) {
       row_of<harness::ParameterHash>(h.evidence.parameters, 0, [](const auto& row) {
         return row.step == 2 && row.param == kQuery;
       }).hash = nsa::hash_hex("another tensor");
     }},
    {"hash of a batch / tokens",
     "the hash of sequence 0 of rank 0, step 1, micro-batch 0, is not that of its recorded tokens, "
     "but that of sequence 0 of rank 1, step 1",
     [](Audited& h) {
       const auto first = [](const harness::Batch& row) {
         return row.step == 1 && row.sequence == 0;
       };
       row_of<harness::Batch>(h.evidence.batches, 0, first).hash =
           row_of<harness::Batch>(h.evidence.batches, 1, first).hash;
     }},
    {"loss / losses of the step's file",
     "the loss of rank 0, step 2, is 2.75 by its sample",
     [](Audited& h) { sample(h, "loss", 2).value = 2.75; }},
    {"loss / losses of the step's file",
     "the loss of rank 0, step 2, is NaN by its sample",
     [](Audited& h) { sample(h, "loss", 2).value = std::nan(""); }},
    {"hash of blocks / tensor",
     "the hash of the blocks of layer 1 of rank 0, step 2, is not that of the tensor in",
     [](Audited& h) {
       of_layer(h.evidence.block_choices, 0, 2, 1).blocks = nsa::hash_hex("other blocks");
     }},
    {"hash of scores / tensor",
     "the hash of the scores of layer 1 of rank 0, step 2, is not that of the tensor in",
     [](Audited& h) {
       auto& rows = h.evidence.block_choices;
       of_layer(rows, 0, 2, 1).scores = of_layer(rows, 0, 2, 2).scores;
     }},
    {"hash of gates / tensor",
     "the hash of the gates of layer 0 of rank 1, step 1, is not that of the tensor in",
     [](Audited& h) {
       of_layer(h.evidence.gates, 1, 1, 0).hash = of_layer(h.evidence.gates, 1, 1, 1).hash;
     }},
    {"means of gates / tensor",
     "the means of the gates of layer 0 of rank 1, step 1, are not those of the tensor in",
     [](Audited& h) {
       of_layer(h.evidence.gates, 1, 1, 0).mean_sel = of_layer(h.evidence.gates, 1, 1, 1).mean_sel;
     }},
    {"exposure / blocks",
     "the exposure of layer 2 of rank 1, step 1, counts 128 rows, and the blocks in",
     [](Audited& h) { of_layer(h.evidence.exposures, 1, 1, 2).rows = 128; }},
    {"exposure / blocks",
     "rows that left a block out, and the blocks in",
     [](Audited& h) { of_layer(h.evidence.exposures, 1, 1, 2).rows_dropped /= 2; }},
    {"gradients of a layer / gradients of the step",
     "the gradient g.w.W_K_cmp.weight in 0_attention_layer_1_1_0.safetensors is not "
     "blocks.1.attn.W_K_cmp.weight in 0_local_gradients_1_0.safetensors",
     [](Audited& h) {  // the file of another layer
       fixtures::LayerTensors made = fixtures::healthy_layer(0, 1);
       for (auto& [name, tensor] : made.reals) {
         if (name.starts_with("g.w.")) tensor = fixtures::healthy_layer(0, 2).reals.at(name);
       }
       h.write_layer(0, 1, 0, 1, made);
     }},
    {"weights of a layer / weights of the step",
     "the weights in 0_attention_layer_1_1_0.safetensors are those that layer 2 has in",
     [](Audited& h) {
       fixtures::LayerTensors made = fixtures::healthy_layer(0, 1);
       for (auto& [name, tensor] : made.reals) {
         if (name.starts_with("w.")) tensor = fixtures::healthy_layer(0, 2).reals.at(name);
       }
       h.write_layer(0, 1, 0, 1, made);
     }},
    {"results of two layers / their attentions",
     "the results in 0_decode_steps_1.small are those in 0_decode_steps_0.small, and \"w.W_Q.",
     [](Audited& h) {
       for (const int layer : {0, 1}) {
         write_small(h,
                     "decode_steps",
                     layer,
                     {{"x", {1, 2, 3, 4}}, {"q", {5, 6, 7, 8}}, {"y", {9, 8, 7, 6}}});
       }
     }},
    {"results of two layers / their attentions",
     "the results in 0_block_stages_2.small are those in 0_block_stages_1.small, and \"y\" of the",
     [](Audited& h) {
       for (const int layer : {1, 2}) {
         write_small(h,
                     "block_stages",
                     layer,
                     {{"x", {1, 2, 3, 4}}, {"middle", {5, 6, 7, 8}}, {"mlp", {9, 8, 7, 6}}});
       }
     }},
    {"the twin's gradients / those of the rank",
     "the gradients that the twin has of rank 0 in step 1 are those of rank 1 and the other way",
     [](Audited& h) {  // rows and files
       const auto of_twin = [](const auto& row) { return row.process == harness::kTwin; };
       std::erase_if(h.evidence.batches, of_twin);
       for (auto row : std::vector(h.evidence.batches)) {
         row.row.of_rank = row.process;
         put(h.evidence.batches, harness::kTwin, row.row);
       }
       for (auto& row : h.evidence.gradients) {
         if (of_twin(row)) row.row.of_rank = 1 - row.row.of_rank;
       }
       for (auto& row : h.evidence.artefacts) {
         if (of_twin(row)) row.row.of_rank = 1 - row.row.of_rank;
       }
     }}};

TEST(RecordAudit, AHealthyRecordContradictsItselfNowhere) {
  EXPECT_EQ(harness::contradiction_in(Audited().evidence).sentence, "");
  EXPECT_EQ(harness::contradiction_in(Audited(3, 1).evidence).sentence, "");
  for (const char* kind : {"throughput", "sweep"}) {
    Audited timed;
    timed.time_steps(kind);
    const bool sweeps = std::string(kind) == "sweep";  // over models with more layers
    if (sweeps) put(timed.evidence.routes, 0, harness::RouteUse{"select", 11, "reference", 1, 1});
    EXPECT_EQ(harness::contradiction_in(timed.evidence).sentence, "") << kind;
  }
  for (const char* kind : {"attention", "decode"}) {
    fixtures::Healthy alone(1, 1, kind);
    for (auto& row : alone.evidence.exposures) row.row.rows_dropped = 26;
    alone.evidence.routes.clear();
    EXPECT_EQ(harness::contradiction_in(alone.evidence).sentence, "") << kind;
  }
}

TEST(RecordAudit, AMistakeOfTheRecorderIsNoResultOfTheModel) {
  for (const Mistake& mistake : kMistakes) {
    Audited healthy;
    EXPECT_EQ(harness::judge(healthy.evidence, harness::all_checks()).outcome, Outcome::pass);
    mistake.make(healthy);
    const harness::Contradiction told = harness::contradiction_in(healthy.evidence);
    EXPECT_EQ(told.relation, mistake.relation) << mistake.says;
    EXPECT_THAT(told.sentence, HasSubstr(mistake.says));
    const auto judged = harness::judge(healthy.evidence, harness::all_checks());
    EXPECT_EQ(judged.outcome, Outcome::error) << mistake.says;
    EXPECT_THAT(judged.reason, StartsWith("the record contradicts itself: " + told.sentence));
    EXPECT_THAT(judged.reason, HasSubstr("; no finding is reported from it"));
    EXPECT_TRUE(judged.findings.empty());
  }
}

TEST(RecordAudit, EveryRelationHasAMistakeThatItFinds) {
  std::set<std::string> known;
  for (const Mistake& mistake : kMistakes) known.insert(mistake.relation);
  const auto names = harness::audited_relations();
  EXPECT_EQ(known, std::set<std::string>(names.begin(), names.end()));
}

// What a model does to its own memory between the hash and the file is no mistake of the recorder.
TEST(RecordAudit, WhatTheModelDidIsNoContradiction) {
  Audited h;
  of_layer(h.evidence.gates, 1, 1, 0).hash = nsa::hash_hex("before the model wrote into it");
  of_layer(h.evidence.block_choices, 1, 1, 0).scores = nsa::hash_hex("likewise");
  row_of<harness::Batch>(h.evidence.batches, 0, [](const auto&) { return true; }).hash =
      nsa::hash_hex("tokens that the model wrote over");
  // The seam wrote into the blocks that it was given: the exposure is that of what it left.
  of_layer(h.evidence.exposures, 0, 1, 1).rows_dropped = 1;
  put(h.evidence.mutations, 0, harness::Mutation{1, 1, "attend_sel", "blocks", 3, "values"});
  // Blocks that add nothing pass on what they got.
  for (const int layer : {1, 2}) {
    write_small(h, "block_stages", layer, {{"x", {1, 2}}, {"middle", {1, 2}}, {"mlp", {0, 0}}});
  }
  EXPECT_EQ(harness::contradiction_in(h.evidence).sentence, "");
}

TEST(RecordAudit, WhatIsGoneOrAlteredIsNotCompared) {
  for (const bool is_gone : {true, false}) {
    Audited h;
    gradient(h, 1, 2, kQuery).hash_before = nsa::hash_hex("another tensor");
    for (auto& row : h.evidence.artefacts) {
      if (row.process != 1 || row.row.name != "local_gradients" || row.row.step != 2) continue;
      if (is_gone) std::filesystem::remove(h.folder() + "/" + row.row.path);
      row.row.hash = "of what was recorded";
    }
    EXPECT_EQ(harness::contradiction_in(h.evidence).sentence, "");
  }
}

// Ranks that were started again wrote the files of some steps a second time.
TEST(RecordAudit, OnlyTheLastLifeIsCompared) {
  Audited h;
  harness::Gradient before = gradient(h, 1, 2, kQuery);
  before.hash_before = nsa::hash_hex("in the first life");
  put(h.evidence.gradients, 1, before, 2);
  for (auto* rows : {&h.evidence.started}) {
    for (auto& row : *rows) row.t_ms = std::max<std::int64_t>(row.t_ms, 4);
  }
  put(h.evidence.relaunches, kController, harness::Relaunched{1, "killed in step 2"}, 3);
  EXPECT_EQ(harness::contradiction_in(h.evidence).sentence, "");
}

TEST(RecordAudit, ItIsNotAskedOfWhatOthersRecord) {
  for (const char* kind : {harness::kCommandKind, harness::kKernelKind}) {
    Audited h;
    h.evidence.the_case.scenario.kind = kind;
    gradient(h, 1, 2, kQuery).hash_before = nsa::hash_hex("another tensor");
    EXPECT_EQ(harness::contradiction_in(h.evidence).sentence, "") << kind;
  }
}

// ---- verdicts ------------------------------------------------------------------------------------------------------

harness::CheckResult passed(const std::string& check) {
  return {check, harness::Verdict::pass, "because", {}, {}};
}

harness::CheckResult found(const std::string& check,
                           const std::string& code,
                           const std::string& variant,
                           harness::Site site = {}) {
  harness::CheckResult result{check, harness::Verdict::fail, "because", {}, {}};
  result.findings.emplace_back();
  result.findings[0].code = code;
  result.findings[0].variant = variant;
  result.findings[0].site = std::move(site);
  return result;
}

harness::Site of_rank_one() {
  harness::Site site;
  site.ranks = {1};
  return site;
}

TEST(ContradictingVerdicts, OneDeniesWhatAnotherPassedOn) {
  harness::Evidence evidence;
  evidence.the_case.scenario.parallel.ranks = 2;
  harness::Site elsewhere;
  elsewhere.detail["gradients_differ_in"] = {1};
  const std::vector<std::pair<std::string, harness::CheckResult>> contradicting = {
      {"gradients_agree", found("matches_twin", "GRAD.SCALE", "sum", of_rank_one())},
      {"gradients_agree", found("matches_twin", "COMM.DTYPE", "values", of_rank_one())},
      {"matches_twin", found("checkpoint_equal", "CKPT.GRADIENT", "gradient", elsewhere)},
      {"process_clean", found("progress", "HANG.COLLECTIVE", "waiting", of_rank_one())},
      {"process_clean", found("checkpoint_equal", "INPLACE.MODIFIED", "autograd")}};
  for (const auto& [check, denial] : contradicting) {
    const std::vector<harness::CheckResult> verdicts = {passed(check), denial};
    EXPECT_THAT(harness::contradiction_between(verdicts, evidence), StartsWith(check + " passed ("))
        << denial.findings[0].code;
    auto unseen = denial;
    unseen.not_judged.emplace_back();
    EXPECT_EQ(harness::contradiction_between(std::vector{passed(check), unseen}, evidence), "");
    auto fails = passed(check);
    fails.verdict = harness::Verdict::fail;
    EXPECT_EQ(harness::contradiction_between(std::vector{fails, denial}, evidence), "");
  }
  const std::vector<std::pair<std::string, harness::CheckResult>> together = {
      {"gradients_agree", found("matches_twin", "GRAD.SCALE", "sum")},  // on every rank alike
      {"gradients_agree", found("matches_twin", "GRAD.SCALE", "twin", of_rank_one())},
      {"matches_twin", found("checkpoint_equal", "CKPT.GRADIENT", "output")},
      {"process_clean", found("progress", "SLOW.HOST", "slow", of_rank_one())},
      {"process_clean", found("checkpoint_equal", "INPLACE.MODIFIED", "tensor")}};
  for (const auto& [check, other] : together) {
    EXPECT_EQ(harness::contradiction_between(std::vector{passed(check), other}, evidence), "");
  }
}

TEST(ContradictingVerdicts, TheCaseSaysSo) {
  const std::vector<harness::Check> checks = {
      {"process_clean", "", {}, [](const harness::Evidence&) { return passed("process_clean"); }},
      {"progress", "", {}, [](const harness::Evidence&) {
         return found("progress", "HANG.COLLECTIVE", "waiting", of_rank_one());
       }}};
  harness::Evidence evidence;
  evidence.the_case.scenario.parallel.ranks = 2;
  evidence.the_case.scenario.checks = {"process_clean", "progress"};
  const auto judged = harness::judge(evidence, checks);
  EXPECT_EQ(judged.outcome, Outcome::error);
  EXPECT_THAT(judged.reason,
              StartsWith("two verdicts contradict each other: process_clean passed (every process "
                         "did all that was asked and ended by itself), and progress denies it: "));
  EXPECT_TRUE(judged.findings.empty());
}

}  // namespace
