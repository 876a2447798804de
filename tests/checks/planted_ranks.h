// Defects in what ranks should have in common: collectives, parameters, data.
#pragma once

#include "tests/checks/planted_case.h"

namespace fixtures {

// What a rank issued in a step, in place of what it had issued in it and later; each of `sizes` is a sum of so many numbers.
inline void issue(Healthy& h, int rank, const std::vector<std::int64_t>& sizes, int step = 1) {
  remove_if(h.evidence.collectives,
            [&](const auto& row) { return row.process == rank && row.row.step >= step; });
  remove_if(h.evidence.collectives,
            [&](const auto& row) { return row.process == rank && row.row.step == 0; });
  std::int64_t next = 0;
  for (const auto& row : h.evidence.collectives) next += row.process == rank ? 1 : 0;
  for (const std::int64_t size : sizes) {
    put(h.evidence.collectives,
        rank,
        harness::Collective{
            next++, step, "backward", "allreduce", "sum", "Float", size, "default"});
  }
}

inline void add_collectives(std::vector<Planted>& list) {
  const std::string check = "collectives_agree";
  const auto change = [](int rank, std::int64_t sequence, auto what) {
    return [=](Healthy& h) {
      for (auto& row : h.evidence.collectives) {
        if (row.process == rank && row.row.sequence == sequence) what(row.row);
      }
    };
  };
  list.push_back({check, "healthy", Verdict::pass, "", "{}", kLeaveAsItIs});
  const auto sent_as_bf16 = [](std::vector<int> ranks, const std::string& compress) {
    return [=](Healthy& h) {
      h.evidence.the_case.scenario.parallel.compress = compress;
      for (auto& row : h.evidence.collectives) {
        const bool here = std::count(ranks.begin(), ranks.end(), row.process) > 0;
        if (here && row.row.op == "allreduce") row.row.dtype = "BFloat16";
      }
    };
  };
  list.push_back({check, "asked for bf16", Verdict::pass, "", "{}", sent_as_bf16({0, 1}, "bf16")});
  list.push_back({check,
                  "bf16 that nobody asked for",
                  Verdict::fail,
                  "COMM.DTYPE",
                  R"({"step":1,"ranks":[0,1],"op":"grad_sync"})",
                  sent_as_bf16({0, 1}, "none")});
  list.push_back({check,
                  "other size",
                  Verdict::fail,
                  "DESYNC.SIZE",
                  R"({"sequence":1,"ranks":[2],"step":1})",
                  change(2, 1, [](harness::Collective& row) { row.count += 1; }),
                  4});
  list.push_back({check,
                  "other size, two ranks",
                  Verdict::fail,
                  "DESYNC.SIZE",
                  R"({"sequence":2})",
                  change(1, 2, [](harness::Collective& row) { row.count -= 1; })});
  list.push_back({check,
                  "other operation",
                  Verdict::fail,
                  "DESYNC.OP",
                  R"({"sequence":2,"ranks":[0]})",
                  change(0, 2, [](harness::Collective& row) { row.reduce_op = "max"; }),
                  3});
  list.push_back(
      {check, "two swapped", Verdict::fail, "DESYNC.ORDER", R"({"sequence":0})", [](Healthy& h) {
         for (auto& row : h.evidence.collectives) {
           if (row.process == 1 && row.row.sequence < 2) row.row.sequence = 1 - row.row.sequence;
         }
       }});
  // The plan: bucket 0 of four numbers, bucket 1 of eight.
  const auto ends_at_the_first = [](const std::vector<std::int64_t>& of_rank_1) {
    return [=](Healthy& h) {
      h.evidence.buckets.clear();
      for (const int rank : {0, 1}) {
        put(h.evidence.buckets, rank, harness::Bucket{1, 0, 4, "Float", {0}}, 500);
        put(h.evidence.buckets, rank, harness::Bucket{1, 1, 8, "Float", {1}}, 500);
        h.not_done(rank);
      }
      issue(h, 0, {4});
      issue(h, 1, of_rank_1);
    };
  };
  list.push_back({check,
                  "two swapped, and the first one ends a rank",
                  Verdict::fail,
                  "DESYNC.ORDER",
                  R"({"sequence":0,"step":1})",
                  ends_at_the_first({8})});
  list.push_back({check,
                  "two swapped, and one rank ends before its second",
                  Verdict::fail,
                  "DESYNC.ORDER",
                  R"({"sequence":0,"step":1})",
                  ends_at_the_first({8, 4})});
  list.push_back({check,
                  "a size that nobody planned ends a rank",
                  Verdict::fail,
                  "DESYNC.SIZE",
                  R"({"sequence":0,"step":1})",
                  ends_at_the_first({6})});
  list.push_back({check,
                  "three in a circle",
                  Verdict::fail,
                  "DESYNC.ORDER",
                  R"({"sequence":1,"step":1})",
                  [](Healthy& h) {
                    issue(h, 0, {0, 1, 2, 3, 4});
                    issue(h, 1, {0, 3, 1, 2, 4});
                  }});
  list.push_back({check,
                  "one more in a row of two kinds",
                  Verdict::fail,
                  "DESYNC.SIZE",
                  R"({"sequence":1,"step":1})",
                  [](Healthy& h) {
                    issue(h, 0, {1, 2, 1, 2, 1, 2});
                    issue(h, 1, {1, 1, 2, 1, 2, 1, 2});
                  }});
  list.push_back({check,
                  "a broadcast more",
                  Verdict::fail,
                  "DESYNC.OP",
                  R"({"sequence":1,"step":1})",
                  [](Healthy& h) {
                    issue(h, 0, {1, 2, 3});
                    issue(h, 1, {1, 9, 2, 3});
                    for (auto& row : h.evidence.collectives) {
                      if (row.row.count == 9) row.row.op = "broadcast";
                    }
                  }});
  list.push_back({check,
                  "the first difference is in a later step than the cause",
                  Verdict::fail,
                  "DESYNC.SIZE",
                  R"({"sequence":2,"step":1})",
                  [](Healthy& h) {
                    issue(h, 0, {1, 2});
                    issue(h, 0, {1, 2, 3}, 2);
                    issue(h, 1, {1, 2, 1});
                    issue(h, 1, {1, 2, 3}, 2);
                  }});
  list.push_back({check,
                  "a rank that ended well did less",
                  Verdict::fail,
                  "DESYNC.MISSING_RANK",
                  R"({"ranks":[1],"sequence":3,"step":2})",
                  [](Healthy& h) {
                    remove_if(h.evidence.collectives, [](const auto& row) {
                      return row.process == 1 && row.row.step == 2;
                    });
                  },
                  2,
                  2});
  list.push_back({check,
                  "a rank that is there was overtaken",
                  Verdict::fail,
                  "DESYNC.MISSING_RANK",
                  R"({"ranks":[1],"sequence":2})",
                  [](Healthy& h) {
                    remove_if(h.evidence.collectives, [](const auto& row) {
                      return row.process == 1 && row.row.sequence >= 2;
                    });
                    h.ends(1, 0, SIGKILL, true);
                  }});
  list.push_back(
      {check,
       "ranks that were ended on purpose and began anew",
       Verdict::pass,
       "",
       "{}",
       [](Healthy& h) {
         for (auto& row : h.evidence.collectives) row.t_ms += 1000;
         for (auto& row : h.evidence.buckets) row.t_ms += 1000;
         put(h.evidence.collectives,
             0,
             harness::Collective{9, 2, "backward", "allreduce", "sum", "Float", 4, "default"},
             500);
         put(h.evidence.buckets, 0, harness::Bucket{1, 7, 4, "Float", {3}}, 500);
         put(h.evidence.relaunches, kController, harness::Relaunched{1, "killed"}, 600);
       }});
  list.push_back({check,
                  "other plan",
                  Verdict::fail,
                  "DESYNC.SIZE",
                  R"({"bucket":0,"step":1,"op":"grad_sync"})",
                  [](Healthy& h) {
                    for (auto& row : h.evidence.buckets) {
                      if (row.process == 1 && row.row.bucket == 0) row.row.elements += 3;
                    }
                  }});
  list.push_back({check,
                  "a plan in another order",
                  Verdict::fail,
                  "DESYNC.ORDER",
                  R"({"bucket":0,"step":1,"op":"grad_sync"})",
                  [](Healthy& h) {
                    for (auto& row : h.evidence.buckets) {
                      if (row.process != 1 || row.row.bucket != 0) continue;
                      std::reverse(row.row.params.begin(), row.row.params.end());
                    }
                  }});
  list.push_back(
      {check, "a rank that failed did less", Verdict::inconclusive, "", "{}", [](Healthy& h) {
         remove_if(h.evidence.collectives,
                   [](const auto& row) { return row.process == 1 && row.row.sequence >= 2; });
         h.ends(1, 0, SIGSEGV, false);
       }});
  list.push_back({check, "a record with a hole", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    for (auto& row : h.evidence.collectives) {
                      if (row.row.sequence >= 2) ++row.row.sequence;
                    }
                  }});
  list.push_back(
      {check, "the end of what never began", Verdict::inconclusive, "", "{}", [](Healthy& h) {
         put(h.evidence.collectives_done, 1, harness::CollectiveDone{9, "default"});
       }});
  list.push_back({check, "no record of a rank", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    remove_if(h.evidence.collectives,
                              [](const auto& row) { return row.process == 0; });
                  }});
  list.push_back({check, "no record", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.collectives.clear();
                  }});
}

inline void add_state(std::vector<Planted>& list) {
  const auto other = [](int rank, const std::string& part, int step) {
    return [=](Healthy& h) {
      for (auto& row : h.evidence.parameters) {
        if (row.process == rank && row.row.step == step &&
            row.row.param.find(part) != std::string::npos)
          row.row.hash = "x";
      }
    };
  };
  list.push_back({"parameters_agree", "healthy", Verdict::pass, "", "{}", kLeaveAsItIs});
  list.push_back({"parameters_agree",
                  "one of three",
                  Verdict::fail,
                  "STATE.DIVERGED",
                  R"({"ranks":[1],"step":2,"param":"W_Q","layers":[1]})",
                  other(1, "blocks.1.attn.W_Q", 2),
                  3,
                  3});
  list.push_back({"parameters_agree",
                  "one of two",
                  Verdict::fail,
                  "STATE.DIVERGED",
                  R"({"step":1,"param":"embed"})",
                  other(0, "embed", 1)});
  // Two of four ranks hold each piece; or each rank one of its own.
  const auto in_pieces = [](int holders, bool changed) {
    return [=](Healthy& h) {
      for (auto& row : h.evidence.parameters) {
        if (row.row.param != "embed.weight") continue;
        row.row.piece = std::to_string(row.process / holders);
        row.row.hash += row.row.piece;
        if (changed && row.process == 1 && row.row.step == 2) row.row.hash += "x";
      }
    };
  };
  list.push_back({"parameters_agree", "pieces", Verdict::pass, "", "{}", in_pieces(1, true), 4, 2});
  list.push_back({"parameters_agree",
                  "pieces that two ranks hold",
                  Verdict::pass,
                  "",
                  "{}",
                  in_pieces(2, false),
                  4,
                  2});
  list.push_back({"parameters_agree",
                  "a piece that is not the same on the ranks that hold it",
                  Verdict::fail,
                  "STATE.DIVERGED",
                  R"({"step":2,"param":"embed"})",
                  in_pieces(2, true),
                  4,
                  2});
  const auto tied = [](int untied_rank) {
    return [=](Healthy& h) {
      h.evidence.the_case.scenario.model.tied_head = true;
      std::map<std::pair<int, std::int64_t>, std::string> tables;
      for (const auto& row : h.evidence.parameters) {
        if (row.row.param == "embed.weight") tables[{row.process, row.row.step}] = row.row.hash;
      }
      for (auto& row : h.evidence.parameters) {
        if (row.row.param != "lm_head.weight") continue;
        const bool copied = row.process == untied_rank && row.row.step >= 2;
        row.row.hash = copied ? "x" : tables.at({row.process, row.row.step});
      }
    };
  };
  list.push_back({"parameters_agree", "a tied head", Verdict::pass, "", "{}", tied(-5), 2, 3});
  list.push_back({"parameters_agree",
                  "a tied head that is a copy",
                  Verdict::fail,
                  "STATE.DIVERGED",
                  R"({"ranks":[1],"step":2,"param":"lm_head","detail":{"tie":"embed"}})",
                  tied(1),
                  2,
                  3});
  list.push_back({"parameters_agree",
                  "a tied head that nobody recorded",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [](Healthy& h) {
                    h.evidence.the_case.scenario.model.tied_head = true;
                    remove_if(h.evidence.parameters,
                              [](const auto& row) { return row.row.param == "lm_head.weight"; });
                  }});
  list.push_back(
      {"parameters_agree", "none recorded", Verdict::inconclusive, "", "{}", [](Healthy& h) {
         h.evidence.parameters.clear();
       }});
  list.push_back({"parameters_agree",
                  "one rank did not record",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [](Healthy& h) {
                    remove_if(h.evidence.parameters,
                              [](const auto& row) { return row.process == 1; });
                  }});
}

inline void add_data(std::vector<Planted>& list) {
  const std::string check = "data_distinct";
  const auto same_as_rank_0 = [](bool twin_too) {
    return [=](Healthy& h) {
      const std::string first = h.evidence.batches.front().row.hash;
      for (auto& row : h.evidence.batches) {
        if (row.row.of_rank < 2 && row.row.step == 1 && (row.process >= 0 || twin_too))
          row.row.hash = first;
      }
    };
  };
  list.push_back({check, "healthy", Verdict::pass, "", "{}", kLeaveAsItIs});
  list.push_back({check,
                  "same batch",
                  Verdict::fail,
                  "DATA.DUPLICATE",
                  R"({"ranks":[0,1],"step":1})",
                  same_as_rank_0(false),
                  3});
  list.push_back(
      {check, "the corpus repeats itself", Verdict::pass, "", "{}", same_as_rank_0(true), 3});
  // Two ranks; the masks of rank 1 are those of rank 0 from step `since` on.
  const auto masks = [](std::int64_t since) {
    return [=](Healthy& h) {
      h.evidence.the_case.scenario.model.dropout = 0.1;
      for (std::int64_t step = 1; step <= 2; ++step) {
        for (int rank = 0; rank < 2; ++rank) {
          const std::string hash = std::to_string(step) + " of ";
          const int own = step >= since ? 0 : rank;
          put(h.evidence.dropout_masks,
              rank,
              harness::DropoutMask{step, 0, 1, 0, rank, hash + std::to_string(own)});
          put(h.evidence.dropout_masks,
              harness::kTwin,
              harness::DropoutMask{step, 0, 1, 0, rank, hash + std::to_string(rank)});
        }
      }
    };
  };
  list.push_back({check, "masks of dropout", Verdict::pass, "", "{}", masks(9), 2, 2});
  list.push_back({check,
                  "the same masks on both ranks",
                  Verdict::fail,
                  "DATA.RNG",
                  R"({"ranks":[0,1],"step":2,"op":"dropout"})",
                  masks(2),
                  2,
                  2});
  list.push_back({check, "no masks of dropout", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.the_case.scenario.model.dropout = 0.1;
                  }});
  list.push_back({check,
                  "other tokens than the twin's",
                  Verdict::fail,
                  "DATA.SOURCE",
                  R"({"ranks":[1],"step":1})",
                  [](Healthy& h) {
                    for (auto& row : h.evidence.batches) {
                      if (row.process == 1) row.row.hash = "noise";
                    }
                  }});
  list.push_back({check,
                  "the batch of the step before",
                  Verdict::fail,
                  "DATA.DUPLICATE",
                  R"({"ranks":[1],"step":2})",
                  [](Healthy& h) {
                    std::map<std::pair<std::int64_t, int>, std::string> first;
                    for (auto& row : h.evidence.batches) {
                      const std::pair place = {row.row.micro, row.row.sequence};
                      if (row.process != 1) continue;
                      if (row.row.step == 1) first[place] = row.row.hash;
                      if (row.row.step == 2) row.row.hash = first.at(place);
                    }
                  },
                  2,
                  2});
  list.push_back(
      {check, "other source", Verdict::fail, "DATA.SOURCE", R"({"ranks":[0]})", [](Healthy& h) {
         for (auto& row : h.evidence.batches) {
           if (row.process == 0) row.row.source = "noise";
         }
       }});
  list.push_back(
      {check, "two sources, and nobody to ask", Verdict::fail, "DATA.SOURCE", "{}", [](Healthy& h) {
         remove_if(h.evidence.batches, [](const auto& row) { return row.process == kTwin; });
         for (auto& row : h.evidence.batches) {
           if (row.process == 0) row.row.source = "noise";
         }
       }});
  list.push_back({check, "no batch", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.batches.clear();
                  }});
  list.push_back({check, "no batch of a rank", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    remove_if(h.evidence.batches, [](const auto& row) { return row.process == 1; });
                  }});
}

}  // namespace fixtures
