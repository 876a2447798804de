// Machines that are not sound: another build, a transport that adds up wrong, somebody else on the card.
#pragma once

#include "oracles/training/exact_sums.h"
#include "tests/checks/planted_case.h"

namespace fixtures {

inline constexpr const char* kSources = "00112233445566778899aabbccddeeff";

inline void add_builds(Healthy& h) {
  put(h.evidence.facts, kController, harness::Fact{harness::kBuiltFromFact, kSources});
  std::vector<int> processes = harness::checks::all_ranks(h.evidence);
  processes.push_back(kTwin);
  for (const int process : processes) {
    harness::Hello hello;
    hello.source_hash = kSources;
    put(h.evidence.hellos, process, hello);
  }
}

using Held = std::vector<float>;

inline Held known_sum(const Healthy& h, const harness::Bucket& plan) {
  const oracles::ExactSum sum{
      h.evidence.the_case.scenario.seed, plan.step, plan.bucket, h.evidence.ranks()};
  const std::vector<int> sums = oracles::sums(sum, plan.elements);
  return {sums.begin(), sums.end()};
}

// A rank's row of what it holds. It names what it finds wrong.
inline harness::ExactSum sum_row(const harness::Bucket& plan, const Held& held, const Held& right) {
  harness::ExactSum row{plan.step, plan.bucket, plan.elements, "Float", "", 0};
  row.hash = nsa::hash_hex(std::as_bytes(std::span(held)));
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i] == right[i]) continue;
    ++row.wrong;
    row.places.push_back(static_cast<std::int64_t>(i));
    row.values.push_back(std::isnan(held[i]) ? "NaN" : std::to_string(static_cast<int>(held[i])));
  }
  return row;
}

// What each rank holds after each bucket is what `change` makes of the sum.
template <typename Change>
void hold_sums(Healthy& h, Change change) {
  h.evidence.exact_sums.clear();
  for (const auto& plan : h.evidence.buckets) {
    const Held right = known_sum(h, plan.row);
    Held held = right;
    change(plan.process, plan.row, held);
    put(h.evidence.exact_sums, plan.process, sum_row(plan.row, held, right));
  }
}

inline void sound_machine(Healthy& h) {
  add_builds(h);
  hold_sums(h, [](int, const harness::Bucket&, Held&) {});
}

// Its last elements are what the rank gave.
inline void keeps_own(const Healthy& h, int rank, const harness::Bucket& plan, Held& held) {
  const oracles::ExactSum sum{
      h.evidence.the_case.scenario.seed, plan.step, plan.bucket, h.evidence.ranks()};
  const std::vector<int> own = oracles::addends(sum, rank, plan.elements);
  for (std::size_t i = held.size() - 8; i < held.size(); ++i) held[i] = static_cast<float>(own[i]);
}

inline void add_known_sums(std::vector<Planted>& list) {
  const PlantedAdder add{list, "machine_sound", 3, 2};
  const char* const code = "INFRA.COMM_CORRUPT";
  const auto held = [](auto change) {
    return [change](Healthy& h) {
      sound_machine(h);
      hold_sums(
          h, [&](int rank, const harness::Bucket& plan, Held& sum) { change(h, rank, plan, sum); });
    };
  };
  add("the last elements of one rank",
      Verdict::fail,
      code,
      R"({"step":1,"ranks":[1],"op":"allreduce","detail":{"law":"own_addends"}})",
      held([](const Healthy& h, int rank, const harness::Bucket& plan, Held& sum) {
        if (rank == 1) keeps_own(h, 1, plan, sum);
      }));
  add("an addend of one rank is lost in one bucket",
      Verdict::fail,
      code,
      R"({"step":1,"ranks":[0,1,2],"bucket":1,"detail":{"law":"without_addends_of_a_rank"}})",
      held([](const Healthy& h, int, const harness::Bucket& plan, Held& sum) {
        if (plan.bucket != 1) return;
        const oracles::ExactSum known{h.evidence.the_case.scenario.seed, plan.step, 1, 3};
        const std::vector<int> lost = oracles::addends(known, 2, plan.elements);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] -= static_cast<float>(lost[i]);
      }));
}

// The last step's backward, done again in five ways. `change` sees every row.
template <typename Change>
void reduce_again(Healthy& h, Change change) {
  for (const int rank : harness::checks::all_ranks(h.evidence)) {
    for (const char* call : harness::kReducedCalls) {
      for (std::size_t i = 0; i < h.params.size(); ++i) {
        harness::ReducedAgain row{2, call, h.params[i], h.bucket_of(i), "sum of " + h.params[i]};
        change(rank, row);
        put(h.evidence.reduced_again, rank, row);
      }
    }
  }
}

inline void add_reducer_races(std::vector<Planted>& list) {
  const PlantedAdder add{list, "repeats_equal", 2, 2};
  const auto again = [](auto change) { return [change](Healthy& h) { reduce_again(h, change); }; };
  const std::string raced = "blocks.1.attn.W_Q.weight";
  add("reduced gradients do not race", Verdict::pass, "", "{}", again([](int, auto&) {}));
  add("reduced before the stream that makes it has ended",
      Verdict::fail,
      "RACE.STREAM",
      R"({"step":2,"ranks":[0,1],"op":"grad_sync","layers":[1],"param":"W_Q","bucket":1,)"
      R"("detail":{"late":["the other streams were late"]}})",
      again([raced](int, harness::ReducedAgain& row) {
        if (row.call == "others_late" && row.param == raced) row.hash = "zeros";
      }));
  add("one that differs in series tells nothing",
      Verdict::pass,
      "",
      "{}",
      again([raced](int, auto& row) {
        if (row.param == raced) row.hash += row.call;
      }));
  add("nothing is the same in series", Verdict::inconclusive, "", "{}", again([](int, auto& row) {
        row.hash += row.call;
      }));
  add("a backward of one rank is not there", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    reduce_again(h, [](int, auto&) {});
    remove_if(h.evidence.reduced_again,
              [](const auto& row) { return row.process == 1 && row.row.call == "late"; });
  });
}

inline void add_machines(std::vector<Planted>& list) {
  add_reducer_races(list);
  add_known_sums(list);
}

}  // namespace fixtures
